//! One connection: reads requests, starts a task for each, and lets them reply through one queue.

use std::fmt;
use std::io;
use std::rc::Rc;

use esker_base::Nanos;
use esker_block::Tag;
use esker_rt::mem::{Mem, Parts, Slice};
use esker_rt::net::interrupt::Interrupt;
use esker_rt::{Level, Rt};

use crate::account::Account;
use crate::admission::{Limits, Ticket};
use crate::client::{Message, read_message};
use crate::execute::{Executor, Started, room};
use crate::handed::{Agreed, Handed};
use crate::link::Link;
use crate::outbox::Outbox;
use crate::proto::{End, Need, Op, Request, Session, Step, Terms, TlsMode, Violation};
use crate::server::{Server, Shared};
use crate::slots::{GaveWay, Open};
use crate::subject;
use crate::watch::{ConnectionWatch, Verdict};

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
    /// The client had chosen no export, and newer ones needed its slot.
    Crowded,
    /// The client had been idle longest, for so many seconds, when another one needed its slot.
    Idle(u64),
    /// The client showed a certificate of a subject that is not allowed.
    Stranger(String),
    /// The client sent no payload or took no replies for too long.
    Stalled,
    /// The client broke the protocol.
    Dropped(Violation),
    /// The stream failed.
    Failed(io::Error),
    /// The connection goes on elsewhere.
    Handed,
}

impl Closing {
    /// Whether nothing went wrong.
    pub fn is_clean(&self) -> bool {
        matches!(self, Closing::Goodbye | Closing::HungUp | Closing::Handed)
    }

    /// The kind of event that it is in the log.
    pub fn event(&self) -> &'static str {
        match self {
            Closing::Goodbye | Closing::HungUp => "client_left",
            Closing::CutOff | Closing::Failed(_) => "client_lost",
            Closing::Late | Closing::Stalled => "client_slow",
            Closing::Crowded | Closing::Idle(_) => "client_gave_way",
            Closing::Stranger(_) => "client_refused",
            Closing::Dropped(_) => "client_dropped",
            Closing::Handed => "client_handed",
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
            Closing::Crowded => f.write_str("closed: the client had chosen no export, and newer ones needed its slot"),
            Closing::Idle(seconds) => {
                write!(f, "closed: the client had been idle longest ({seconds} s) when another one needed its slot")
            }
            Closing::Stranger(subject) => {
                write!(f, "refused: its certificate is for {subject:?}, which no --tls-subject names")
            }
            Closing::Stalled => f.write_str("closed: the client sent half a request or took no replies for too long"),
            Closing::Dropped(violation) => write!(f, "dropped: {violation}"),
            Closing::Failed(error) => write!(f, "failed: {error}"),
            Closing::Handed => f.write_str("rests, with all its requests answered, to be handed over"),
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
    /// Ends the wait for the next request.
    interrupt: Rc<Interrupt>,
    session: Session,
    chosen: Option<Chosen>,
    /// Memory of the next message, and how many of its bytes came behind the payload before it.
    buffer: Vec<u8>,
    there: usize,
}

/// How the conversation of a connection ended without a fault of its stream.
enum Left {
    End(End),
    /// Between two requests, because the server hands its connections over.
    Halted,
}

impl Connection {
    pub(crate) fn new(server: Rc<Shared>, open: Open) -> Connection {
        let mode = server.tls.as_ref().map_or(TlsMode::Off, |tls| tls.mode());
        let session = Session::new(server.exports.clone()).with_tls(mode);
        let (rt, moved) = (server.rt.clone(), open.account.moved.clone());
        let Open { stream, limits, account, interrupt } = open;
        let link = Link::noting(stream, move || moved.set(rt.now()));
        let (buffer, there) = (Vec::new(), 0);
        Connection { server, account, link, limits, interrupt, session, chosen: None, buffer, there }
    }

    /// A connection that another server began, with the export of that number.
    pub(crate) fn resumed(server: Rc<Shared>, open: Open, export: usize, agreed: Agreed) -> Connection {
        let terms = agreed.terms();
        let mut session = Session::resumed(server.exports.clone(), export, terms);
        if server.devices[export].is_read_only() {
            session.note_read_only(export);
        }
        let (chosen, there) = (Some(Chosen { export, terms }), agreed.pending.len());
        Connection { session, chosen, buffer: agreed.pending, there, ..Connection::new(server, open) }
    }

    /// Serves until the client or the server ends it. Requests under way are finished first, whatever the reason.
    pub(crate) async fn run(mut self) -> Closing {
        let watch = ConnectionWatch::start(&self.server.rt, self.link.clone(), self.server.config.patience());
        let (outbox, writer) = Outbox::start(&self.server.rt, self.link.clone(), watch.sending.clone());
        let end = self.converse(&outbox, &watch).await;
        watch.chosen();
        self.limits.idle().await;
        outbox.close();
        let written = writer.await;
        watch.ended();
        if let (Ok(Left::Halted), Ok(()), None) = (&end, &written, self.account.gave_way.get()) {
            return self.hand();
        }
        self.link.shutdown();
        match (end, written) {
            _ if self.account.gave_way.get().is_some() => match self.account.gave_way.get() {
                Some(GaveWay::Idle(idle)) => Closing::Idle(idle.0 / Nanos::secs(1).0),
                _ => Closing::Crowded,
            },
            _ if watch.verdict() == Some(Verdict::Late) => Closing::Late,
            _ if watch.verdict() == Some(Verdict::Stalled) => Closing::Stalled,
            (Ok(Left::End(End::Drop(violation))), _) => Closing::Dropped(violation),
            (Ok(Left::End(End::Goodbye)), _) => Closing::Goodbye,
            // A failed write ends the stream for the reader too; the first failure is the cause.
            (Err(_) | Ok(Left::Halted), Err(error)) => Closing::Failed(error),
            (Err(closing), Ok(())) => closing,
            (Ok(Left::Halted), Ok(())) => Closing::HungUp,
        }
    }

    /// Gives the connection away as it is. All its requests are answered, and the answers have left.
    fn hand(mut self) -> Closing {
        let Some(Chosen { export, terms }) = self.chosen else { return Closing::HungUp };
        self.buffer.truncate(self.there);
        let agreed = Agreed::new(self.session.info(export), terms, self.buffer);
        let handed = Handed { stream: self.link.stream().clone(), agreed };
        match self.server.halting.get() {
            true => self.server.handed.borrow_mut().push(handed),
            false => Server(self.server.clone()).adopt_later(handed),
        }
        Closing::Handed
    }

    /// Whether the conversation ends here, for the connection to be handed over.
    fn is_halted(&self) -> bool {
        self.server.halting.get() && self.session.is_between_requests() && !self.link.is_secure()
    }

    async fn converse(&mut self, outbox: &Rc<Outbox<Ticket>>, watch: &ConnectionWatch) -> Result<Left, Closing> {
        match self.chosen {
            None => self.send(outbox, Session::greeting()).await,
            Some(chosen) => {
                watch.chosen();
                self.begin(chosen);
            }
        }
        loop {
            if self.is_halted() {
                // The halt may be given up while a client takes its answers.
                self.limits.idle().await;
                if self.is_halted() {
                    return Ok(Left::Halted);
                }
            }
            let step = match self.session.need() {
                Need::Message(len) => {
                    match self.read(len, watch).await? {
                        Message::Whole(buffer) => (self.buffer, self.there) = (buffer, 0),
                        Message::Ended => return Err(Closing::HungUp),
                        Message::Interrupted(buffer, there) => {
                            (self.buffer, self.there) = (buffer, there);
                            continue;
                        }
                    }
                    if outbox.is_broken() {
                        // What it had asked for is still on the wire: thousands of requests, maybe, that would keep
                        // others waiting for nothing.
                        return Err(Closing::CutOff);
                    }
                    match self.chosen {
                        None => self.note_exports(),
                        Some(Chosen { export, .. }) => self.note_size(export),
                    }
                    let leaves = self.server.halting.get() && self.link.is_secure();
                    if self.server.stopping.get() || leaves {
                        self.session.stop();
                    }
                    let step = self.session.message(&self.buffer);
                    self.tell_refused();
                    step
                }
                Need::Payload(len) | Need::Skip(len) => {
                    let _waiting = watch.receiving.wait();
                    skip(&self.link, len).await?;
                    self.session.taken()
                }
                Need::Nothing => return Ok(Left::End(End::Goodbye)),
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
                    return Ok(Left::End(end));
                }
            }
        }
    }

    /// Waits for the next message. Where it may be handed over before it comes, an interrupt ends the wait.
    async fn read(&mut self, len: usize, watch: &ConnectionWatch) -> Result<Message, Closing> {
        let (buffer, there) = (std::mem::take(&mut self.buffer), self.there);
        let never = Interrupt::default();
        let interrupt = if self.session.is_between_requests() { &*self.interrupt } else { &never };
        read_message(&self.link, buffer, there, len, &watch.receiving, interrupt).await.map_err(Closing::from)
    }

    /// Before an export is chosen: what is told of all of them.
    fn note_exports(&mut self) {
        self.session.note_full(self.server.slots.full(self.server.rt.now()));
        self.session.note_unusable(self.server.unusable());
        for (export, device) in self.server.devices.iter().enumerate() {
            self.session.note_size(export, device.size());
            // A volume knows when it is open whether it can be changed.
            if device.is_read_only() {
                self.session.note_read_only(export);
            }
        }
    }

    /// A device may have been resized.
    fn note_size(&mut self, export: usize) {
        self.session.note_size(export, self.server.devices[export].size());
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
        let Some(certificate) = self.link.peer_certificate() else { return Ok(()) };
        let subject = subject::of(&certificate).unwrap_or_default();
        *self.account.subject.borrow_mut() = Some(subject.clone());
        if tls.allows(&subject) { Ok(()) } else { Err(Closing::Stranger(subject)) }
    }

    /// Names an export that was refused because none of its connections is idle.
    fn tell_refused(&mut self) {
        let Some(export) = self.session.take_refused() else { return };
        let (name, users) = (&self.server.exports.list()[export].name, self.server.slots.users(export));
        let number = self.account.number;
        let fields: [(&str, &dyn fmt::Display); 3] =
            [("client", &number), ("peer", &self.account.peer), ("export", name)];
        let text = format_args!(
            "nbd: connection {number}: refused: all {users} connections of export {name:?} are in use; \
             --connections and --export-connections allow more"
        );
        self.server.rt.log_event(Level::Warn, "export_full", &fields, text);
    }

    fn begin(&mut self, chosen: Chosen) {
        self.server.slots.choose(&self.account, chosen.export, self.server.rt.now());
        let (name, number) = (&self.server.exports.list()[chosen.export].name, self.account.number);
        let subject = self.account.subject.borrow();
        let subject = subject.as_deref().unwrap_or_default();
        let fields: [(&str, &dyn fmt::Display); 4] =
            [("client", &number), ("peer", &self.account.peer), ("export", name), ("subject", &subject)];
        let of = if subject.is_empty() { String::new() } else { format!(" with a certificate for {subject:?}") };
        let text = format_args!("nbd: connection {number}: uses export {name:?}{of}");
        self.server.rt.log_event(Level::Info, "client_came", &fields, text);
        self.chosen = Some(chosen);
    }

    /// Replies count as requests under way until they have left, so that a client that does not read cannot pile them
    /// up.
    async fn send(&self, outbox: &Outbox<Ticket>, reply: Vec<u8>) {
        if !reply.is_empty() {
            let ticket = self.limits.admit(0).await;
            outbox.push(Slice::heap(reply).into(), ticket);
        }
    }

    /// Receives the payload of a write straight into its slab, and starts the request. Only one that must wait becomes
    /// a task.
    async fn serve(
        &mut self,
        outbox: &Rc<Outbox<Ticket>>,
        watch: &ConnectionWatch,
        request: Request,
    ) -> Result<(), Closing> {
        let Some(Chosen { export, terms }) = self.chosen else { return Ok(()) };
        note(&self.server.rt, &request);
        self.account.began();
        let transfer_max = u64::from(self.server.devices[export].limits().transfer_max);
        let ticket = self.limits.admit(room(&request.op, transfer_max)).await;
        let payload = match request.op {
            Op::Write { range, .. } => {
                let _waiting = watch.receiving.wait();
                Some(self.payload(range.len() as usize).await?)
            }
            _ => None,
        };
        self.account.asked(&request);
        let tag = Tag { issuer: self.account.number as u32, ..Tag::default() };
        let executor = Executor { server: self.server.clone(), export, terms, tag };
        match executor.start(request, payload) {
            Started::Answered(reply) => {
                outbox.push(reply, ticket);
                self.account.answered();
            }
            Started::Waits(reply) => {
                let (outbox, account) = (outbox.clone(), self.account.clone());
                let task = async move {
                    outbox.push(reply.await, ticket);
                    account.answered();
                };
                self.server.rt.spawn_detached("nbd-request", task);
            }
        }
        Ok(())
    }

    /// Receives a payload, and what is there already of the message behind it: a request's head has a fixed length, so
    /// no byte of another payload can come with it.
    async fn payload(&mut self, len: usize) -> Result<Slice, Closing> {
        // What follows is the next request: there is nothing to send.
        let _next = self.session.taken();
        let Need::Message(next) = self.session.need() else { unreachable!("a request follows a payload") };
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.resize(next, 0);
        let payload = Slice { mem: Mem::Unique(self.server.pool.slab(len)), start: 0, len };
        let (parts, got) = self.link.read_at_least(Parts::from([payload, Slice::heap(buffer)]), len).await?;
        let mut parts = parts.into_iter();
        let payload = parts.next().expect("two parts went in");
        if let Some(Slice { mem: Mem::Heap(bytes), .. }) = parts.next() {
            (self.buffer, self.there) = (bytes, got - len);
        }
        Ok(payload)
    }
}

/// What a client asks is part of a virtual world's digest, not only when it asks.
fn note(rt: &Rt, request: &Request) {
    let (offset, len) = request.op.range().map_or((0, 0), |range| (range.start(), range.len()));
    [request.cookie, offset, len].into_iter().for_each(|word| rt.event(word));
}

/// Reads `len` bytes off the wire and discards them.
async fn skip(link: &Link, mut len: usize) -> io::Result<()> {
    while len > 0 {
        let piece = len.min(SKIP_BYTES);
        link.read_exact(Slice::heap(vec![0; piece]).into()).await?;
        len -= piece;
    }
    Ok(())
}
