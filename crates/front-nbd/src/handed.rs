//! Connections that go on in another server: all their requests are answered, and the client notices a pause.
//!
//! Invariant: between [`Server::halt`] and [`Server::resume`] or [`Server::take_handed`] no byte of a handed connection
//! is read here. Bytes that were read before and belong to no request yet go along with it. Each request is carried out
//! by one server: the one that took its last byte.

use std::fmt;

use esker_base::Nanos;
use esker_rt::Level;
use esker_rt::net::Stream;
use esker_rt::sync::{Either, race};

use crate::proto::request::Header;
use crate::proto::{Context, ExportInfo, Form, Terms, TlsMode};
use crate::server::Server;
use crate::session::Connection;
use crate::slots::Open;

/// How long a client that shakes hands has to choose an export before it is sent away.
const CHOOSE_MAX: Nanos = Nanos::secs(1);

/// What a server and its client have agreed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agreed {
    /// Name of the export.
    pub export: String,
    /// The form of messages.
    pub form: Form,
    /// Kinds of status that block status answers.
    pub contexts: Vec<Context>,
    /// The flags of the export that the client was told.
    pub flags: u16,
    /// The block that its requests are multiples of, in bytes.
    pub min_block: u32,
    /// Bytes that were read and belong to the next request.
    pub pending: Vec<u8>,
}

impl Agreed {
    pub(crate) fn new(info: &ExportInfo, terms: Terms, pending: Vec<u8>) -> Agreed {
        Agreed {
            export: info.name.clone(),
            form: terms.form,
            contexts: terms.contexts.iter().collect(),
            flags: info.flags(terms),
            min_block: info.min_block,
            pending,
        }
    }

    pub(crate) fn terms(&self) -> Terms {
        Terms { form: self.form, contexts: self.contexts.iter().copied().collect() }
    }
}

/// A connection between two requests.
pub struct Handed {
    /// Its stream.
    pub stream: Stream,
    /// What was agreed.
    pub agreed: Agreed,
}

/// Why a server cannot go on with a connection that another one began.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAdopted {
    /// The export is not there.
    #[error("no export is named {0:?}")]
    Unknown(String),
    /// The export cannot be used.
    #[error("export {0:?} cannot be used: {1}")]
    Unusable(String, String),
    /// The client was told something else.
    #[error("export {0:?} is not what its client was told: {1}")]
    Changed(String, &'static str),
    /// The connection is not inside TLS.
    #[error("it is not inside TLS, which this server requires")]
    Bare,
    /// No such message.
    #[error("{0} bytes of a request came along, which is more than its head has")]
    Pending(usize),
}

/// The connection that keeps a server from coming to rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restless {
    /// Its number.
    pub client: u64,
    /// The peer, as far as the kernel knows it.
    pub peer: String,
}

impl fmt::Display for Restless {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "client {} ({}) has a request that is not answered, or takes no answers", self.client, self.peer)
    }
}

impl Server {
    /// Accepts no more connections, and waits until all have come to rest between two requests: [`Server::take_handed`]
    /// has them then. Those inside TLS cannot go on elsewhere: their requests are answered, and they end.
    ///
    /// # Errors
    /// What keeps one from resting for longer than `patience`. Call [`Server::resume`] then.
    pub async fn halt(&self, patience: Nanos) -> Result<(), Restless> {
        let shared = &self.0;
        shared.halting.set(true);
        shared.halt_changed.notify_all();
        for open in shared.slots.list() {
            open.interrupt.ask();
            self.send_away(open, patience);
        }
        let rested = shared.closed.wait_until(|| shared.slots.len() == 0);
        match race(rested, shared.rt.sleep(patience)).await {
            Either::Left(()) => Ok(()),
            Either::Right(()) => match shared.slots.list().into_iter().next() {
                None => Ok(()),
                Some(Open { account, .. }) => Err(Restless { client: account.number, peer: account.peer.clone() }),
            },
        }
    }

    /// Ends a connection that cannot be handed over, once its requests are answered. A client that shakes hands has a
    /// while to choose an export.
    pub(crate) fn send_away(&self, open: Open, patience: Nanos) {
        let (shared, account) = (self.0.clone(), open.account);
        if account.export.get().is_some() && !account.tls.get() {
            return;
        }
        let (stream, limits) = (open.stream, open.limits);
        let task = async move {
            if account.export.get().is_none() {
                shared.rt.sleep(CHOOSE_MAX.min(patience)).await;
            }
            if account.export.get().is_none() || account.tls.get() {
                race(limits.idle(), shared.rt.sleep(patience)).await;
                // A client inside TLS was told to go.
                if account.tls.get() || shared.halting.get() {
                    stream.shutdown();
                }
            }
        };
        self.0.rt.spawn("nbd-halt", task).detach();
    }

    /// The connections that rest. They are another server's from now on.
    pub fn take_handed(&self) -> Vec<Handed> {
        self.0.handed.take()
    }

    /// Ends a [halt](Server::halt): connections that rest go on here, and new ones are accepted.
    pub async fn resume(&self) {
        let shared = &self.0;
        shared.halting.set(false);
        shared.slots.list().iter().for_each(|open| open.interrupt.lift());
        shared.halt_changed.notify_all();
        for handed in self.take_handed() {
            self.adopt(handed).await;
        }
    }

    /// [Adopts](Server::adopt) a connection that has come to rest when the halt was given up already.
    pub(crate) fn adopt_later(self, handed: Handed) {
        let rt = self.0.rt.clone();
        rt.spawn("nbd-adopt", async move { self.adopt(handed).await }).detach();
    }

    /// Goes on with a connection that another server began. One that cannot go on here ends.
    pub async fn adopt(&self, handed: Handed) {
        let shared = &self.0;
        let Handed { stream, agreed } = handed;
        let export = match self.fitting(&agreed) {
            Ok(export) => export,
            Err(error) => {
                let text = format_args!("nbd: a connection that was handed over ends: {error}");
                shared.rt.log_event(Level::Warn, "client_not_adopted", &[("error", &error)], text);
                return stream.shutdown();
            }
        };
        shared.slots.take().await;
        let open = self.opened(stream);
        // It has asked before: it does not give way as one that never asked.
        open.account.began();
        let connection = Connection::resumed(shared.clone(), open.clone(), export, agreed);
        self.run(open, connection).detach();
    }

    /// The number of the export with which a connection can go on.
    fn fitting(&self, agreed: &Agreed) -> Result<usize, NotAdopted> {
        let (shared, name) = (&self.0, || agreed.export.clone());
        if shared.tls.as_ref().is_some_and(|tls| tls.mode() == TlsMode::Require) {
            return Err(NotAdopted::Bare);
        }
        let export = shared.exports.find(&agreed.export).ok_or_else(|| NotAdopted::Unknown(name()))?;
        if let Some((_, why)) = shared.unusable().into_iter().find(|(other, _)| *other == export) {
            return Err(NotAdopted::Unusable(name(), why));
        }
        let mut info = shared.exports.list()[export].clone();
        info.read_only |= shared.devices[export].is_read_only();
        let changed = |what| Err(NotAdopted::Changed(name(), what));
        let flags = info.flags(agreed.terms());
        match () {
            () if flags & agreed.flags != agreed.flags => changed("it can do less"),
            () if info.read_only && agreed.flags & crate::proto::wire::flag::READ_ONLY == 0 => {
                changed("it is read-only")
            }
            () if info.min_block > agreed.min_block => changed("its blocks are larger"),
            () if !agreed.contexts.iter().all(|context| info.contexts.contains(*context)) => {
                changed("it tells fewer kinds of status")
            }
            () if agreed.pending.len() > Header::size(agreed.form) => Err(NotAdopted::Pending(agreed.pending.len())),
            () => Ok(export),
        }
    }
}
