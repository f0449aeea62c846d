//! One connection: reads requests, starts a task for each, and lets them reply through one queue.

use std::fmt;
use std::io;
use std::rc::Rc;

use esker_block::Tag;
use esker_rt::mem::{Mem, Part};
use esker_rt::net::Stream;
use esker_rt::{Level, Rt};

use crate::account::Account;
use crate::admission::{Limits, Ticket};
use crate::client::read_message;
use crate::execute::Executor;
use crate::link::Link;
use crate::outbox::Outbox;
use crate::proto::{End, Need, Op, Request, Session, Step, Terms, TlsMode, Violation};
use crate::server::Shared;
use crate::watch::{Verdict, Watch};

/// Unwanted bytes are read in pieces of this size.
const SKIP_BYTES: usize = 64 << 10;

/// How a connection ended.
#[derive(Debug)]
pub enum Closing {
    /// The client said goodbye.
    Goodbye,
    /// The client closed the stream between two messages.
    HungUp,
    /// The client closed the stream inside a message.
    CutOff,
    /// The client chose no export in time.
    Late,
    /// The client sent no payload or took no replies for too long.
    Stalled,
    /// The client broke the protocol.
    Dropped(Violation),
    /// The stream failed.
    Failed(io::Error),
}

impl Closing {
    /// Whether nothing went wrong.
    pub fn is_clean(&self) -> bool {
        matches!(self, Closing::Goodbye | Closing::HungUp)
    }

    /// The kind of event that it is in the log.
    pub fn event(&self) -> &'static str {
        match self {
            Closing::Goodbye | Closing::HungUp => "client_left",
            Closing::CutOff | Closing::Failed(_) => "client_lost",
            Closing::Late | Closing::Stalled => "client_slow",
            Closing::Dropped(_) => "client_dropped",
        }
    }
}

impl fmt::Display for Closing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Closing::Goodbye => f.write_str("the client said goodbye"),
            Closing::HungUp => f.write_str("the client hung up"),
            Closing::CutOff => f.write_str("the client hung up in the middle of a message"),
            Closing::Late => f.write_str("closed: the client chose no export in time"),
            Closing::Stalled => f.write_str("closed: the client sent no payload or took no replies for too long"),
            Closing::Dropped(violation) => write!(f, "dropped: {violation}"),
            Closing::Failed(error) => write!(f, "failed: {error}"),
        }
    }
}

impl From<io::Error> for Closing {
    fn from(error: io::Error) -> Closing {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Closing::CutOff,
            _ => Closing::Failed(error),
        }
    }
}

/// Which export a connection uses, and how it is answered.
#[derive(Debug, Clone, Copy)]
struct Chosen {
    export: usize,
    terms: Terms,
}

/// One connection of a server.
pub(crate) struct Connection {
    server: Rc<Shared>,
    account: Rc<Account>,
    link: Link,
    limits: Rc<Limits>,
    session: Session,
    chosen: Option<Chosen>,
}

impl Connection {
    pub fn new(server: Rc<Shared>, account: Rc<Account>, stream: Stream, limits: Rc<Limits>) -> Connection {
        let mode = server.tls.as_ref().map_or(TlsMode::Off, |tls| tls.mode());
        let session = Session::new(server.exports.clone()).with_tls(mode);
        Connection { server, account, link: Link::new(stream), limits, session, chosen: None }
    }

    /// Serves until the client or the server ends it. Requests under way are finished first, whatever the reason.
    pub async fn run(mut self) -> Closing {
        let watch = Watch::start(&self.server.rt, self.link.clone(), self.server.config.patience());
        let (outbox, writer) = Outbox::start(&self.server.rt, self.link.clone(), watch.sending.clone());
        let end = self.converse(&outbox, &watch).await;
        watch.chosen();
        self.limits.idle().await;
        outbox.close();
        let written = writer.await;
        watch.ended();
        self.link.shutdown();
        if let Some(Chosen { export, .. }) = self.chosen {
            self.server.count_user(export, false);
        }
        match (end, written) {
            _ if watch.verdict() == Some(Verdict::Late) => Closing::Late,
            _ if watch.verdict() == Some(Verdict::Stalled) => Closing::Stalled,
            (Ok(End::Drop(violation)), _) => Closing::Dropped(violation),
            (Ok(End::Goodbye), _) => Closing::Goodbye,
            // A failed write ends the stream for the reader too; the first failure is the cause.
            (Err(_), Err(error)) => Closing::Failed(error),
            (Err(closing), Ok(())) => closing,
        }
    }

    async fn converse(&mut self, outbox: &Rc<Outbox<Ticket>>, watch: &Watch) -> Result<End, Closing> {
        let mut buffer = Vec::new();
        self.send(outbox, Session::greeting()).await;
        loop {
            let step = match self.session.need() {
                Need::Message(len) => {
                    buffer = read_message(&self.link, buffer, len).await?.ok_or(Closing::HungUp)?;
                    if self.chosen.is_none() {
                        self.session.note_full(self.server.full());
                    }
                    if self.server.stopping.get() {
                        self.session.stop();
                    }
                    self.session.message(&buffer)
                }
                Need::Payload(len) | Need::Skip(len) => {
                    watch.receiving.during(skip(&self.link, len)).await?;
                    self.session.taken()
                }
                Need::Nothing => return Ok(End::Goodbye),
            };
            match step {
                Step::Reply(reply) => self.send(outbox, reply).await,
                Step::Begin { reply, export, terms } => {
                    watch.chosen();
                    self.begin(Chosen { export, terms });
                    self.send(outbox, reply).await;
                }
                Step::Secure(reply) => self.secure(outbox, reply).await?,
                Step::Serve(request) => self.serve(outbox, watch, request).await?,
                Step::End(reply, end) => {
                    self.send(outbox, reply).await;
                    return Ok(end);
                }
            }
        }
    }

    /// Begins TLS once the reply that agrees to it has left. Bytes that a client sent too early are still on the wire:
    /// they are taken for TLS and end it.
    async fn secure(&mut self, outbox: &Outbox<Ticket>, reply: Vec<u8>) -> Result<(), Closing> {
        let Some(tls) = &self.server.tls else { return Ok(()) };
        let session = tls.session().map_err(io::Error::other)?;
        self.send(outbox, reply).await;
        self.limits.idle().await;
        self.link.secure(session, self.server.secured.clone()).await?;
        self.account.tls.set(true);
        Ok(())
    }

    fn begin(&mut self, chosen: Chosen) {
        self.server.count_user(chosen.export, true);
        self.account.export.set(Some(chosen.export));
        let (name, number) = (&self.server.exports.list()[chosen.export].name, self.account.number);
        let fields: [(&str, &dyn fmt::Display); 3] =
            [("client", &number), ("peer", &self.account.peer), ("export", name)];
        let text = format_args!("nbd: connection {number}: uses export {name:?}");
        self.server.rt.tell(Level::Info, "client_came", &fields, text);
        self.chosen = Some(chosen);
    }

    /// Replies count as requests under way until they have left, so that a client that does not read cannot pile them
    /// up.
    async fn send(&self, outbox: &Outbox<Ticket>, reply: Vec<u8>) {
        if !reply.is_empty() {
            let ticket = self.limits.admit(0).await;
            outbox.push(vec![Part::heap(reply)], ticket);
        }
    }

    /// Receives the payload of a write straight into its slab, and starts the request's task.
    async fn serve(&mut self, outbox: &Rc<Outbox<Ticket>>, watch: &Watch, request: Request) -> Result<(), Closing> {
        let Some(Chosen { export, terms }) = self.chosen else { return Ok(()) };
        let len = request.op.payload();
        note(&self.server.rt, &request);
        let ticket = self.limits.admit(len as u64).await;
        let payload = match request.op {
            Op::Write { .. } => Some(watch.receiving.during(self.payload(len)).await?),
            _ => None,
        };
        let (server, outbox, account) = (self.server.clone(), outbox.clone(), self.account.clone());
        account.asked(&request);
        let tag = Tag { stream: account.number as u32, ..Tag::default() };
        let task = async move {
            let (device, written) = (&*server.devices[export], &server.written[export]);
            let executor = Executor { device, pool: &server.pool, terms, written, tag };
            let reply = executor.run(request, payload).await;
            outbox.push(reply, ticket);
            account.answered();
        };
        self.server.rt.spawn("nbd-request", task).detach();
        Ok(())
    }

    async fn payload(&mut self, len: usize) -> Result<Part, Closing> {
        let slab = self.server.pool.slab(len);
        let parts = self.link.read_exact(vec![Part { mem: Mem::Unique(slab), start: 0, len }]).await?;
        // What follows is the next request: there is nothing to send.
        let _next = self.session.taken();
        Ok(parts.into_iter().next().expect("one part went in"))
    }
}

/// What a client asks is part of a virtual world's digest, not only when it asks.
fn note(rt: &Rt, request: &Request) {
    let (offset, len) = request.op.range().map_or((0, 0), |range| (range.start(), range.len()));
    [request.cookie, offset, len].into_iter().for_each(|word| rt.event(word));
}

/// Takes `len` bytes off the wire that nobody wants.
async fn skip(link: &Link, mut len: usize) -> io::Result<()> {
    while len > 0 {
        let piece = len.min(SKIP_BYTES);
        link.read_exact(vec![Part::heap(vec![0; piece])]).await?;
        len -= piece;
    }
    Ok(())
}
