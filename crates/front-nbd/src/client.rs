//! A client over any stream: many requests at a time, each awaited on its own.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;

use esker_base::ByteRange;
use esker_rt::mem::{Mem, Pool, Slab, Slice};
use esker_rt::net::Stream;
use esker_rt::net::interrupt::Interrupt;
use esker_rt::sync::{self, oneshot};
use esker_rt::{JoinHandle, Rt};

use crate::link::Link;
use crate::outbox::Outbox;
use crate::proto::{
    Answer, ClientError, Context, Contexts, Extent, Failure, Handshake, HandshakeStep, Heard, Need, Op, Remote,
    Replies, Request,
};
use crate::tls::ClientTls;
use crate::watch::Stage;

/// Why a request brought no result.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The two sides do not understand each other, or the export was refused.
    #[error(transparent)]
    Protocol(#[from] ClientError),
    /// The connection failed.
    #[error("the connection failed: {0}")]
    Io(#[from] io::Error),
    /// The connection was lost while the request was under way.
    #[error("the connection was lost: {0}")]
    Lost(String),
    /// The server came back as another export.
    #[error("the export is not what it was before the connection was lost: {0}")]
    Changed(String),
    /// Writes that were answered before the connection was lost may be gone with their server.
    #[error("the connection was lost after writes that no flush covers; they may be lost, so write them again")]
    Forgotten,
    /// The server refused this request; the connection goes on.
    #[error("the server answers {0}")]
    Server(Failure),
    /// The request is not one that the wire can carry.
    #[error("a request for {0} bytes is too long for the wire")]
    TooLong(u64),
}

struct Waiting {
    /// Where the bytes of a read go, and where in the export they begin.
    slab: Option<Slab>,
    start: u64,
    sender: sync::Sender<Result<(Option<Slab>, Answer), Fault>>,
}

struct Shared {
    replies: RefCell<Replies>,
    waiting: RefCell<BTreeMap<u64, Waiting>>,
    lost: RefCell<Option<String>>,
    next_cookie: Cell<u64>,
    pool: Pool,
}

/// One connection to an export. Requests may be sent from any number of tasks of its world.
pub struct Client {
    remote: Remote,
    shared: Rc<Shared>,
    outbox: Rc<Outbox<()>>,
    link: Link,
    writer: JoinHandle<io::Result<()>>,
    reader: JoinHandle<()>,
}

impl Client {
    /// Shakes hands for the export named `export` (empty: the default one). Buffers come from `pool`.
    ///
    /// # Errors
    /// [`Fault::Protocol`] with the server's text if it refuses, or the stream's failure.
    pub async fn connect(rt: &Rt, pool: &Pool, stream: Stream, export: &str) -> Result<Client, Fault> {
        Client::start(rt, pool, Link::new(stream), Handshake::new(export)?, None).await
    }

    /// The same inside TLS.
    ///
    /// # Errors
    /// As for [`Client::connect`]; also when one side does not believe the other's certificate.
    pub async fn connect_tls(
        rt: &Rt,
        pool: &Pool,
        stream: Stream,
        export: &str,
        tls: &ClientTls,
    ) -> Result<Client, Fault> {
        Client::start(rt, pool, Link::new(stream), Handshake::new(export)?.with_tls(), Some(tls)).await
    }

    async fn start(
        rt: &Rt,
        pool: &Pool,
        link: Link,
        handshake: Handshake,
        tls: Option<&ClientTls>,
    ) -> Result<Client, Fault> {
        let remote = shake(&link, handshake, tls).await?;
        let shared = Rc::new(Shared {
            replies: RefCell::new(Replies::new(&remote)),
            waiting: RefCell::default(),
            lost: RefCell::default(),
            next_cookie: Cell::new(1),
            pool: pool.clone(),
        });
        let (outbox, writer) = Outbox::start(rt, link.clone(), Rc::default());
        let reader = rt.spawn("nbd-hear", shared.clone().hear(link.clone()));
        Ok(Client { remote, shared, outbox, link, writer, reader })
    }

    /// What the server said about the export.
    pub fn remote(&self) -> &Remote {
        &self.remote
    }

    /// Reads the range; its bytes are the first of the slab.
    ///
    /// # Errors
    /// [`Fault`], as for every request.
    pub async fn read(&self, range: ByteRange) -> Result<Slab, Fault> {
        let slab = self.shared.pool.slab(range.len() as usize);
        let (slab, _) = self.request(Op::Read { range, whole: false }, Some(slab), None).await?;
        Ok(slab.expect("a read gives its slab back"))
    }

    /// Writes `part` at offset `at`; with `fua` the reply means that it is durable.
    ///
    /// # Errors
    /// [`Fault`], as for every request.
    pub async fn write(&self, at: u64, part: Slice, fua: bool) -> Result<(), Fault> {
        let len = part.len as u64;
        let range = ByteRange::new(at, len).ok_or(Fault::TooLong(len))?;
        self.request(Op::Write { range, fua }, None, Some(part)).await.map(drop)
    }

    /// Changes the size of the export; [`Remote::size`] stays what the server said at first.
    ///
    /// # Errors
    /// [`Fault`]; the size is then as before.
    pub async fn resize(&self, bytes: u64) -> Result<(), Fault> {
        self.request(Op::Resize { bytes }, None, None).await.map(drop)
    }

    /// Waits until all writes that were replied to are durable.
    ///
    /// # Errors
    /// [`Fault`], as for every request.
    pub async fn flush(&self) -> Result<(), Fault> {
        self.request(Op::Flush, None, None).await.map(drop)
    }

    /// Says that the content is no longer needed.
    ///
    /// # Errors
    /// [`Fault`], as for every request.
    pub async fn trim(&self, range: ByteRange, fua: bool) -> Result<(), Fault> {
        self.request(Op::Trim { range, fua }, None, None).await.map(drop)
    }

    /// Makes the range read as zeroes; with `no_hole` its space stays allocated.
    ///
    /// # Errors
    /// [`Fault`], as for every request.
    pub async fn write_zeroes(&self, range: ByteRange, fua: bool, no_hole: bool) -> Result<(), Fault> {
        self.request(Op::WriteZeroes { range, fua, no_hole, fast: false }, None, None).await.map(drop)
    }

    /// Says that the range will be read soon.
    ///
    /// # Errors
    /// [`Fault`], as for every request.
    pub async fn cache(&self, range: ByteRange) -> Result<(), Fault> {
        self.request(Op::Cache { range }, None, None).await.map(drop)
    }

    /// Allocation of the bytes from the start of `range`: at least one extent, maybe not up to its end.
    ///
    /// # Errors
    /// [`Fault`], as for every request.
    pub async fn block_status(&self, range: ByteRange, one: bool) -> Result<Vec<Extent>, Fault> {
        self.status(Context::Allocation, range, one).await
    }

    /// The same in another context; nothing if the server does not know it.
    ///
    /// # Errors
    /// [`Fault`], as for every request.
    pub async fn status(&self, context: Context, range: ByteRange, one: bool) -> Result<Vec<Extent>, Fault> {
        let op = Op::BlockStatus { range, one, contexts: Contexts::default().with(context) };
        let (_, answer) = self.request(op, None, None).await?;
        Ok(answer.status(context).unwrap_or_default())
    }

    /// Says goodbye. Requests under way are answered; later ones are not.
    pub fn say_goodbye(&self) {
        self.outbox.push(Slice::heap(Replies::goodbye(self.remote.terms.form)).into(), ());
        self.outbox.close();
    }

    /// Says goodbye and waits until the server has closed the connection.
    ///
    /// # Errors
    /// If the goodbye could not be sent.
    pub async fn disconnect(mut self) -> Result<(), Fault> {
        self.say_goodbye();
        (&mut self.writer).await?;
        (&mut self.reader).await;
        Ok(())
    }

    async fn request(
        &self,
        op: Op,
        slab: Option<Slab>,
        payload: Option<Slice>,
    ) -> Result<(Option<Slab>, Answer), Fault> {
        let shared = &self.shared;
        if let Some(why) = &*shared.lost.borrow() {
            return Err(Fault::Lost(why.clone()));
        }
        let cookie = shared.next_cookie.replace(shared.next_cookie.get() + 1);
        let (start, len) = op.range().map_or((0, 0), |r| (r.start(), r.len()));
        let head = shared.replies.borrow_mut().ask(Request { cookie, op }).ok_or(Fault::TooLong(len))?;
        let (sender, receiver) = oneshot();
        shared.waiting.borrow_mut().insert(cookie, Waiting { slab, start, sender });
        self.outbox.push(std::iter::once(Slice::heap(head)).chain(payload).collect(), ());
        receiver.await.unwrap_or_else(|_| Err(Fault::Lost(shared.lost.borrow().clone().unwrap_or_default())))
    }
}

impl Drop for Client {
    /// Without [`Client::disconnect`] the server sees the stream end.
    fn drop(&mut self) {
        self.outbox.close();
        self.link.shutdown();
    }
}

impl Shared {
    async fn hear(self: Rc<Self>, link: Link) {
        let why = match self.hear_all(&link).await {
            Ok(()) => "the server closed it".to_string(),
            Err(fault) => fault.to_string(),
        };
        *self.lost.borrow_mut() = Some(why);
        link.shutdown();
        // Their receivers see their senders go and report the loss.
        self.waiting.borrow_mut().clear();
    }

    async fn hear_all(&self, link: &Link) -> Result<(), Fault> {
        loop {
            let need = self.replies.borrow().need();
            let Need::Message(len) = need else { return Ok(()) };
            let Message::Whole(bytes) = read_whole(link, len).await? else { return Ok(()) };
            let heard = self.replies.borrow_mut().message(&bytes)?;
            let heard = match heard {
                Heard::Data { cookie, range } => {
                    self.receive(link, cookie, range).await?;
                    self.replies.borrow_mut().taken()?
                }
                other => other,
            };
            if let Heard::Done { cookie, result } = heard {
                self.finish(cookie, result);
            }
        }
    }

    /// Receives bytes of a read straight to where the caller wants them.
    async fn receive(&self, link: &Link, cookie: u64, range: ByteRange) -> Result<(), Fault> {
        let taken = self.waiting.borrow_mut().get_mut(&cookie).and_then(|w| Some((w.slab.take()?, w.start)));
        let (slab, start) = taken.ok_or(ClientError::Cookie(cookie))?;
        let part = Slice { mem: Mem::Unique(slab), start: (range.start() - start) as usize, len: range.len() as usize };
        let back = link.read_exact(part.into()).await?.pop();
        let Some(Slice { mem: Mem::Unique(slab), .. }) = back else {
            unreachable!("a stream gives parts back as they were")
        };
        if let Some(waiting) = self.waiting.borrow_mut().get_mut(&cookie) {
            waiting.slab = Some(slab);
        }
        Ok(())
    }

    fn finish(&self, cookie: u64, result: Result<Answer, Failure>) {
        let Some(Waiting { mut slab, start, sender }) = self.waiting.borrow_mut().remove(&cookie) else { return };
        sender.send(match result {
            Err(failure) => Err(Fault::Server(failure)),
            Ok(answer) => {
                for hole in &answer.holes {
                    let (from, to) = ((hole.start() - start) as usize, (hole.end() - start) as usize);
                    slab.iter_mut().for_each(|slab| slab[from..to].fill(0));
                }
                Ok((slab, answer))
            }
        });
    }
}

async fn shake(link: &Link, mut handshake: Handshake, tls: Option<&ClientTls>) -> Result<Remote, Fault> {
    loop {
        let Need::Message(len) = handshake.need() else { unreachable!("a handshake needs messages until it is over") };
        let Message::Whole(bytes) = read_whole(link, len).await? else {
            return Err(Fault::Lost("the server closed it during the handshake".into()));
        };
        match (handshake.message(&bytes)?, tls) {
            (HandshakeStep::Ready(remote), _) => return Ok(remote),
            (HandshakeStep::Secure, Some(tls)) => {
                link.secure(tls.session().map_err(io::Error::other)?, Rc::default()).await?;
                link.write_all(Slice::heap(handshake.secured()).into()).await?;
            }
            (HandshakeStep::Secure, None) => unreachable!("a handshake without TLS does not ask for it"),
            (HandshakeStep::Send(out), _) if out.is_empty() => {}
            (HandshakeStep::Send(out), _) => link.write_all(Slice::heap(out).into()).await?,
        }
    }
}

/// What a wait for a message brought.
pub(crate) enum Message {
    /// All of it.
    Whole(Vec<u8>),
    /// The stream ended before its first byte.
    Ended,
    /// An interrupt came first. The buffer begins with so many bytes that have come.
    Interrupted(Vec<u8>, usize),
}

/// Reads a message whose bytes are all to come.
async fn read_whole(link: &Link, len: usize) -> io::Result<Message> {
    read_message(link, Vec::new(), 0, len, &Stage::default(), &Interrupt::default()).await
}

/// Reads a message of `len` bytes into `buffer`, whose first `there` bytes have come already, unless `interrupt` comes
/// first. While the rest of a message that has begun is waited for, `begun` says so.
pub(crate) async fn read_message(
    link: &Link,
    mut buffer: Vec<u8>,
    mut there: usize,
    len: usize,
    begun: &Stage,
    interrupt: &Interrupt,
) -> io::Result<Message> {
    buffer.resize(len, 0);
    while there < len {
        let rest = Slice { start: there, len: len - there, ..Slice::heap(buffer) };
        let waiting = (there > 0).then(|| begun.wait());
        let (mut parts, result) = link.read_unless(rest.into(), interrupt).await;
        drop(waiting);
        buffer = match parts.pop().map(|part| part.mem) {
            Some(Mem::Heap(bytes)) => bytes,
            // A request that could not be started has lost its memory.
            _ => Vec::new(),
        };
        there += match result {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(Message::Interrupted(buffer, there)),
            Ok(0) if there == 0 => return Ok(Message::Ended),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            other => other?,
        };
    }
    Ok(Message::Whole(buffer))
}
