//! A server: several exports by name, any number of listeners, one task per connection.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;

use esker_base::Nanos;
use esker_block::{ChangeMap, Device, OpKind, Support};
use esker_rt::mem::Pool;
use esker_rt::net::{Listener, Stream};
use esker_rt::sync::{Either, Notify, race};
use esker_rt::{JoinHandle, Level, Rt};

use crate::account::{Account, ClientInfo};
use crate::admission::{Gate, Limits};
use crate::handed::Handed;
use crate::marked::Marked;
use crate::proto::wire::MAX_PAYLOAD;
use crate::proto::{Context, ExportError, ExportInfo, Exports};
use crate::session::{Closing, Connection};
use crate::slots::{Open, Slots};
use crate::tls::ServerTls;
use crate::watch::Patience;

/// Bounds of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Connections that have not chosen an export; when one more comes, the oldest of them ends.
    pub handshakes_max: u64,
    /// Connections that use an export. When one more wants to, the one that has been idle longest ends; if none is
    /// idle, the new one is refused.
    pub connections_max: u64,
    /// The same for the connections of one export.
    pub export_connections_max: u64,
    /// A connection is idle when it has no request under way and no byte has moved for this long, and until its first
    /// request.
    pub idle_time_min: Nanos,
    /// Requests under way per connection; more wait on the wire.
    pub requests_max: u64,
    /// Bytes of payload under way per connection.
    pub payload_bytes_max: u64,
    /// Whether clients may change the size of exports that can be resized.
    pub resize: bool,
    /// A connection that has not chosen an export by then is closed.
    pub handshake_time_max: Nanos,
    /// A client that takes longer to send a request that it has begun, or one payload, or to take one batch of replies,
    /// is closed, within twice the time.
    pub stall_time_max: Nanos,
    /// When the server stops, requests under way have this long to be answered.
    pub stop_time_max: Nanos,
}

impl Config {
    /// For service: at most 32 connections with 128 requests and 64 MiB each, beside 128 that shake hands.
    pub fn production() -> Config {
        Config {
            handshakes_max: 128,
            connections_max: 32,
            export_connections_max: 16,
            idle_time_min: Nanos::secs(1),
            requests_max: 128,
            payload_bytes_max: 64 << 20,
            resize: false,
            handshake_time_max: Nanos::secs(10),
            stall_time_max: Nanos::secs(60),
            stop_time_max: Nanos::secs(10),
        }
    }

    pub(crate) fn patience(&self) -> Patience {
        Patience { handshake: self.handshake_time_max, stall: self.stall_time_max }
    }

    /// For tests: bounds that are reached at once.
    pub fn tiny() -> Config {
        Config {
            handshakes_max: 2,
            connections_max: 2,
            requests_max: 2,
            payload_bytes_max: 8 << 10,
            ..Config::production()
        }
    }
}

/// A connection that was shut down, and whose requests are answered, closes within that time.
const CLOSING_MAX: Nanos = Nanos::secs(1);

/// One export: how clients see it, and the device behind it.
pub struct Export {
    /// How clients see it.
    pub info: ExportInfo,
    /// The device.
    pub device: Rc<dyn Device>,
    /// What was changed of it, which `device` marks.
    changes: Rc<ChangeMap>,
    refusal: RefusalReason,
}

/// Why an export takes no connection now; none if it does.
pub type RefusalReason = Rc<dyn Fn() -> Option<String>>;

impl Export {
    /// An export of all of `device` that offers what the device's limits allow. What its clients change is marked here.
    pub fn new(name: &str, device: Rc<dyn Device>) -> Export {
        let changes = Rc::new(ChangeMap::new(device.size()));
        let marked = Marked { device, changes: changes.clone() };
        Export::tracked(name, Rc::new(marked), changes)
    }

    /// The same for a `device` that marks in `changes` itself what is changed, whichever way a change comes.
    pub fn tracked(name: &str, device: Rc<dyn Device>, changes: Rc<ChangeMap>) -> Export {
        let limits = device.limits();
        let can = |kind| limits.support(kind) != Support::No;
        let preferred = limits.preferred.clamp(limits.block.max(512), MAX_PAYLOAD);
        let info = ExportInfo {
            preferred_block: 1 << preferred.ilog2(),
            read_only: !can(OpKind::Write),
            trim: can(OpKind::Discard),
            write_zeroes: can(OpKind::Zero),
            fast_zero: limits.support(OpKind::Zero) == Support::Native,
            resizable: device.can_resize(),
            contexts: [(Context::Allocation, can(OpKind::Extents)), (Context::Written, can(OpKind::Write))]
                .into_iter()
                .filter_map(|(context, known)| known.then_some(context))
                .collect(),
            ..ExportInfo::new(name, device.size(), limits.block)
        };
        Export { info, device, changes, refusal: Rc::new(|| None) }
    }

    /// The same; new connections are refused with the text that `refusal` gives, as long as it gives one.
    pub fn refused_by(self, refusal: RefusalReason) -> Export {
        Export { refusal, ..self }
    }

    /// The same; `cached` says whether something below keeps what was read, so that announcing a read helps.
    pub fn cached(mut self, cached: bool) -> Export {
        self.info.cache = cached;
        self
    }
}

/// A server in one world. Cheap to clone; clones are one server.
#[derive(Clone)]
pub struct Server(pub(crate) Rc<Shared>);

pub(crate) struct Shared {
    pub rt: Rt,
    pub pool: Pool,
    pub exports: Exports,
    pub devices: Vec<Rc<dyn Device>>,
    /// What was changed, for each export.
    pub changes: Vec<Rc<ChangeMap>>,
    refusals: Vec<RefusalReason>,
    pub config: Config,
    pub tls: Option<ServerTls>,
    /// Bytes that TLS copied.
    pub secured: Rc<Cell<u64>>,
    pub stopping: Cell<bool>,
    /// Whether connections end between two requests, to be handed over.
    pub halting: Cell<bool>,
    /// Rung when that changes.
    pub halt_changed: Notify,
    /// Those that have ended so.
    pub handed: RefCell<Vec<Handed>>,
    stop: Gate,
    pub slots: Slots,
    next_number: Cell<u64>,
    pub closed: Notify,
}

impl Shared {
    /// The exports that cannot be used now, and why.
    pub(crate) fn unusable(&self) -> Vec<(usize, String)> {
        self.refusals.iter().enumerate().filter_map(|(export, refusal)| Some((export, refusal()?))).collect()
    }
}

impl Server {
    /// A server of these exports. Payloads live in slabs of `pool`.
    ///
    /// # Errors
    /// [`ExportError`] if the protocol cannot offer an export as it is described.
    pub fn new(rt: &Rt, pool: &Pool, exports: Vec<Export>, config: Config) -> Result<Server, ExportError> {
        Server::with_tls(rt, pool, exports, config, None)
    }

    /// The same with TLS.
    ///
    /// # Errors
    /// As for [`Server::new`].
    pub fn with_tls(
        rt: &Rt,
        pool: &Pool,
        exports: Vec<Export>,
        config: Config,
        tls: Option<ServerTls>,
    ) -> Result<Server, ExportError> {
        let changes = exports.iter().map(|export| export.changes.clone()).collect();
        let refusals = exports.iter().map(|export| export.refusal.clone()).collect();
        let (mut infos, devices): (Vec<_>, Vec<_>) = exports.into_iter().map(|e| (e.info, e.device)).unzip();
        infos.iter_mut().for_each(|info| info.resizable &= config.resize);
        Ok(Server(Rc::new(Shared {
            rt: rt.clone(),
            pool: pool.clone(),
            changes,
            refusals,
            slots: Slots::new(config, infos.len()),
            exports: Exports::new(infos)?,
            devices,
            config,
            tls,
            secured: Rc::default(),
            stopping: Cell::new(false),
            halting: Cell::new(false),
            halt_changed: Notify::default(),
            handed: RefCell::default(),
            stop: Gate::closed(),
            next_number: Cell::new(1),
            closed: Notify::default(),
        })))
    }

    /// What is offered.
    pub fn exports(&self) -> &Exports {
        &self.0.exports
    }

    /// Accepts connections until [`Server::stop`].
    pub async fn serve(&self, listener: &Listener) {
        let shared = &self.0;
        let mut stopped = pin!(shared.stop.wait());
        while !shared.stopping.get() {
            if shared.halting.get() {
                race(shared.halt_changed.wait_until(|| !shared.halting.get()), stopped.as_mut()).await;
                continue;
            }
            let halted = shared.halt_changed.wait_until(|| shared.halting.get());
            match race(listener.accept(), race(halted, stopped.as_mut())).await {
                Either::Left(Ok(stream)) => self.attach(stream).await.detach(),
                Either::Left(Err(error)) => {
                    // Out of descriptors, mostly: others will close theirs.
                    let text = format_args!("nbd: cannot accept: {error}; trying again in 100 ms");
                    shared.rt.log_event(Level::Warn, "accept_failed", &[("error", &error)], text);
                    shared.rt.sleep(Nanos::millis(100)).await;
                }
                Either::Right(_) => {}
            }
        }
    }

    /// Serves one connection on `stream`; if too many shake hands, the oldest of them ends. The handle tells how it
    /// ended.
    pub async fn attach(&self, stream: Stream) -> JoinHandle<Closing> {
        let shared = self.0.clone();
        shared.slots.take().await;
        if shared.stopping.get() {
            stream.shutdown();
        }
        let open = self.opened(stream);
        if shared.halting.get() {
            self.send_away(open.clone(), shared.config.handshake_time_max);
        }
        let connection = Connection::new(shared, open.clone());
        self.run(open, connection)
    }

    /// Enters a connection into the list.
    pub(crate) fn opened(&self, stream: Stream) -> Open {
        let shared = &self.0;
        let number = shared.next_number.replace(shared.next_number.get() + 1);
        let limits = Limits::new(shared.config.requests_max, shared.config.payload_bytes_max);
        let account = Rc::new(Account::new(number, stream.peer(), shared.rt.now()));
        let open = Open { stream, limits, account, interrupt: Rc::default() };
        shared.slots.enter(open.clone());
        open
    }

    /// Serves a connection to its end.
    pub(crate) fn run(&self, open: Open, connection: Connection) -> JoinHandle<Closing> {
        let (shared, account) = (self.0.clone(), open.account);
        self.0.rt.spawn("nbd-connection", async move {
            let (closing, number) = (connection.run().await, account.number);
            let level = if closing.is_clean() { Level::Info } else { Level::Warn };
            let fields: [(&str, &dyn std::fmt::Display); 2] = [("client", &number), ("peer", &account.peer)];
            shared.rt.log_event(level, closing.event(), &fields, format_args!("nbd: connection {number}: {closing}"));
            shared.slots.leave(number);
            shared.closed.notify_all();
            closing
        })
    }

    /// Bytes of content and messages that TLS copied between buffers; without TLS nothing is.
    pub fn secured_bytes(&self) -> u64 {
        self.0.secured.get()
    }

    /// Connections that are open.
    pub fn connections(&self) -> usize {
        self.0.slots.len()
    }

    /// The connections that are open, oldest first.
    pub fn clients(&self) -> Vec<ClientInfo> {
        let name = |export: usize| self.0.exports.list()[export].name.clone();
        let info = |open: &Open| open.account.info(open.account.export.get().map(name));
        self.0.slots.list().iter().map(info).collect()
    }

    /// Stops: no new connections, new requests are answered with a shutdown error, those under way get their replies,
    /// and every connection is closed. Returns soon after the time that the configuration gives the requests under way.
    pub async fn stop(&self) {
        self.stop_within(self.0.config.stop_time_max).await;
    }

    /// The same; requests under way have `patience` if that is less than the time that the configuration gives.
    pub async fn stop_within(&self, patience: Nanos) {
        let shared = &self.0;
        let patience = patience.min(shared.config.stop_time_max);
        shared.stopping.set(true);
        shared.stop.open();
        let open = shared.slots.list();
        for Open { stream, limits, .. } in open {
            let rt = shared.rt.clone();
            let drain = async move {
                // A client that does not read its replies is not waited for longer than that.
                race(limits.idle(), rt.sleep(patience)).await;
                stream.shutdown();
            };
            shared.rt.spawn("nbd-stop", drain).detach();
        }
        // A connection whose requests wait below goes on behind its closed stream.
        let closed = shared.closed.wait_until(|| shared.slots.len() == 0);
        race(closed, shared.rt.sleep(patience + CLOSING_MAX)).await;
    }
}
