//! The client's side of the transmission phase: which request each reply answers, and whether it answers it whole.

use std::collections::BTreeMap;

use esker_base::ByteRange;
use esker_base::codec::Reader;

use super::Need;
use super::client::{ClientError, Remote};
use super::context::Context;
use super::reply::{Extent, Failure, Form, Statuses};
use super::request::{Header, Op, Request};
use super::wire::{
    CHUNK, CHUNK_LEN, EXTENDED_CHUNK, EXTENDED_LEN, Errno, MAX_EXTENTS, MAX_PAYLOAD, MAX_STRING, SIMPLE_REPLY,
    SIMPLE_REPLY_LEN, chunk, cmd,
};

/// What a reply says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// Nothing yet; go on.
    More,
    /// Bytes of a read follow: they are what the machine needs next.
    Data {
        /// The request.
        cookie: u64,
        /// Their place in the export.
        range: ByteRange,
    },
    /// The request is over.
    Done {
        /// The request.
        cookie: u64,
        /// How it went.
        result: Result<Answer, Failure>,
    },
}

/// What a successful request brought besides the bytes of a read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// Parts of a read that are zeroes and were not sent.
    pub holes: Vec<ByteRange>,
    /// Status of consecutive bytes from the start of the request's range, for each context.
    pub statuses: Statuses,
}

impl Answer {
    /// The status in one context; none if it was not selected.
    pub fn status(self, context: Context) -> Option<Vec<Extent>> {
        self.statuses.into_iter().find(|(of, _)| *of == context).map(|(_, extents)| extents)
    }
}

/// A request under way.
#[derive(Debug)]
struct Pending {
    op: Op,
    /// Parts of a read that arrived: start to end, disjoint and joined.
    seen: BTreeMap<u64, u64>,
    chunks: usize,
    answer: Answer,
    failed: Option<Failure>,
}

#[derive(Debug, Clone, Copy)]
struct Chunk {
    kind: u16,
    last: bool,
    cookie: u64,
    len: usize,
}

#[derive(Debug)]
enum State {
    /// The first bytes of a reply of either form.
    Head,
    /// The rest of a chunk's header.
    ChunkLength([u8; SIMPLE_REPLY_LEN]),
    /// A chunk's payload, or the offset at the start of it.
    ChunkBody(Chunk),
    Data {
        cookie: u64,
        last: bool,
        len: usize,
    },
    Over,
}

/// The client's machine of the transmission phase.
#[derive(Debug)]
pub struct Replies {
    form: Form,
    contexts: Vec<(u32, Context)>,
    pending: BTreeMap<u64, Pending>,
    state: State,
}

/// Largest chunk that is read as a message rather than as data.
const MAX_MESSAGE: usize = 8 + 16 * MAX_EXTENTS;
const _: () = assert!(MAX_MESSAGE >= MAX_STRING + 14);
/// Chunks in one reply; a read of the largest size in pieces of 512 bytes.
const MAX_CHUNKS: usize = MAX_PAYLOAD as usize / 512 + 1;

impl Replies {
    /// The machine after a handshake.
    pub fn new(remote: &Remote) -> Replies {
        Replies {
            form: remote.terms.form,
            contexts: remote.contexts.clone(),
            pending: BTreeMap::new(),
            state: State::Head,
        }
    }

    /// Notes a request as under way and returns its header for the wire. None if its cookie is in use or its range
    /// is too long for the wire.
    pub fn ask(&mut self, request: Request) -> Option<Vec<u8>> {
        let head = request.encode(self.form).filter(|_| !self.pending.contains_key(&request.cookie))?;
        let pending =
            Pending { op: request.op, seen: BTreeMap::new(), chunks: 0, answer: Answer::default(), failed: None };
        self.pending.insert(request.cookie, pending);
        Some(head)
    }

    /// The header that says goodbye.
    pub fn goodbye(form: Form) -> Vec<u8> {
        Header { flags: 0, command: cmd::DISC, cookie: 0, offset: 0, len: 0 }.encode(form)
    }

    /// Requests under way.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// What the machine needs next from the wire.
    pub fn need(&self) -> Need {
        match &self.state {
            State::Head if self.form == Form::Extended => Need::Message(EXTENDED_LEN),
            State::Head => Need::Message(SIMPLE_REPLY_LEN),
            State::ChunkLength(_) => Need::Message(CHUNK_LEN - SIMPLE_REPLY_LEN),
            State::ChunkBody(Chunk { kind: chunk::OFFSET_DATA, .. }) => Need::Message(8),
            State::ChunkBody(chunk) => Need::Message(chunk.len),
            State::Data { len, .. } => Need::Payload(*len),
            State::Over => Need::Nothing,
        }
    }

    /// Reads the message that [`Need::Message`] asked for. After an error the conversation is over.
    pub fn message(&mut self, bytes: &[u8]) -> Result<Heard, ClientError> {
        let need = self.need();
        let state = std::mem::replace(&mut self.state, State::Over);
        if need != Need::Message(bytes.len()) {
            return Err(ClientError::Feeding { need, got: bytes.len() });
        }
        match state {
            State::Head => self.head(bytes),
            State::ChunkLength(head) => self.chunk_head(&head, bytes),
            State::ChunkBody(chunk) => self.chunk_body(chunk, bytes),
            State::Data { .. } | State::Over => Err(ClientError::Feeding { need, got: bytes.len() }),
        }
    }

    /// Goes on after the bytes of [`Need::Payload`] have been taken from the wire.
    pub fn taken(&mut self) -> Result<Heard, ClientError> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Data { cookie, last, .. } => self.next(cookie, last),
            other => {
                self.state = other;
                Err(ClientError::Feeding { need: self.need(), got: 0 })
            }
        }
    }

    fn head(&mut self, bytes: &[u8]) -> Result<Heard, ClientError> {
        let mut r = Reader::new(bytes);
        match r.be_u32()? {
            SIMPLE_REPLY if self.form != Form::Extended => {
                let (error, cookie) = (r.be_u32()?, r.be_u64()?);
                self.simple(error, cookie)
            }
            EXTENDED_CHUNK if self.form == Form::Extended => {
                let (flags, kind, cookie) = (r.be_u16()?, r.be_u16()?, r.be_u64()?);
                let (offset, len) = (r.be_u64()?, r.be_u64()?);
                if offset != (Request { cookie, op: self.find(cookie)?.op }).reply_to().offset {
                    return Err(bad(cookie, "names another offset"));
                }
                let len = usize::try_from(len).map_err(|_| bad(cookie, "has a chunk of a wrong length"))?;
                self.chunk(Chunk { kind, last: flags & chunk::DONE != 0, cookie, len })
            }
            CHUNK if self.form == Form::Structured => {
                self.state = State::ChunkLength(std::array::from_fn(|i| bytes[i]));
                Ok(Heard::More)
            }
            magic => Err(ClientError::ReplyMagic(magic)),
        }
    }

    fn simple(&mut self, error: u32, cookie: u64) -> Result<Heard, ClientError> {
        let structured = self.form != Form::Simple;
        let pending = self.find(cookie)?;
        if error != 0 {
            pending.failed = Some(Failure::new(Errno::from_code(error), "the server gives no text"));
            return self.next(cookie, true);
        }
        match pending.op {
            Op::Read { .. } | Op::BlockStatus { .. } if structured => {
                Err(bad(cookie, "is simple though it needs chunks"))
            }
            Op::Read { range, .. } => {
                pending.seen.insert(range.start(), range.end());
                self.state = State::Data { cookie, last: true, len: range.len() as usize };
                Ok(Heard::Data { cookie, range })
            }
            _ => self.next(cookie, true),
        }
    }

    fn chunk_head(&mut self, head: &[u8], rest: &[u8]) -> Result<Heard, ClientError> {
        let mut r = Reader::new(head);
        r.be_u32()?;
        let (flags, kind, cookie) = (r.be_u16()?, r.be_u16()?, r.be_u64()?);
        let len = Reader::new(rest).be_u32()? as usize;
        self.chunk(Chunk { kind, last: flags & chunk::DONE != 0, cookie, len })
    }

    /// Checks the header of a chunk of either form.
    fn chunk(&mut self, chunk: Chunk) -> Result<Heard, ClientError> {
        let Chunk { kind, cookie, len, .. } = chunk;
        let extended = self.form == Form::Extended;
        let chunks = &mut self.find(cookie)?.chunks;
        *chunks += 1;
        if *chunks > MAX_CHUNKS {
            return Err(bad(cookie, "has too many chunks"));
        }
        let fits = match kind {
            chunk::NONE => len == 0 && chunk.last,
            chunk::OFFSET_DATA => len > 8 && len <= 8 + MAX_PAYLOAD as usize,
            chunk::OFFSET_HOLE => len == 12,
            chunk::BLOCK_STATUS => !extended && len >= 12 && len % 8 == 4 && len <= MAX_MESSAGE,
            chunk::BLOCK_STATUS_EXT => extended && len >= 24 && len % 16 == 8 && len <= MAX_MESSAGE,
            _ if kind & chunk::ERROR_BIT != 0 => (6..=MAX_MESSAGE).contains(&len),
            _ => return Err(bad(cookie, "has a chunk of an unknown type")),
        };
        if !fits {
            return Err(bad(cookie, "has a chunk of a wrong length"));
        }
        if len == 0 {
            return self.next(cookie, chunk.last);
        }
        self.state = State::ChunkBody(chunk);
        Ok(Heard::More)
    }

    fn chunk_body(&mut self, chunk: Chunk, bytes: &[u8]) -> Result<Heard, ClientError> {
        let Chunk { kind, last, cookie, len } = chunk;
        let mut r = Reader::new(bytes);
        match kind {
            chunk::OFFSET_DATA => {
                let range = self.claim(cookie, r.be_u64()?, len as u64 - 8)?;
                self.state = State::Data { cookie, last, len: len - 8 };
                Ok(Heard::Data { cookie, range })
            }
            chunk::OFFSET_HOLE => {
                let (at, len) = (r.be_u64()?, r.be_u32()?);
                let range = self.claim(cookie, at, u64::from(len))?;
                self.find(cookie)?.answer.holes.push(range);
                self.next(cookie, last)
            }
            chunk::BLOCK_STATUS | chunk::BLOCK_STATUS_EXT => self.status(chunk, &mut r),
            _ => {
                let failure =
                    read_failure(kind, &mut r).ok_or_else(|| bad(cookie, "has an error that cannot be read"))?;
                self.find(cookie)?.failed.get_or_insert(failure);
                self.next(cookie, last)
            }
        }
    }

    fn status(&mut self, chunk: Chunk, r: &mut Reader<'_>) -> Result<Heard, ClientError> {
        let (cookie, wide) = (chunk.cookie, chunk.kind == chunk::BLOCK_STATUS_EXT);
        let id = r.be_u32()?;
        let context = self.contexts.iter().find(|(of, _)| *of == id).map(|(_, context)| *context);
        let pending = self.find(cookie)?;
        let statuses = &mut pending.answer.statuses;
        let asked = matches!(pending.op, Op::BlockStatus { .. });
        let context = context.filter(|c| asked && statuses.iter().all(|(seen, _)| seen != c));
        let context = context.ok_or_else(|| bad(cookie, "has a status that was not asked for"))?;
        if wide && r.be_u32()? as usize != r.left() / 16 {
            return Err(bad(cookie, "has another number of extents than it says"));
        }
        let extents = read_extents(r, wide)?;
        if extents.iter().any(|e| e.len == 0) {
            return Err(bad(cookie, "has an extent without bytes"));
        }
        statuses.push((context, extents));
        self.next(cookie, chunk.last)
    }

    fn find(&mut self, cookie: u64) -> Result<&mut Pending, ClientError> {
        self.pending.get_mut(&cookie).ok_or(ClientError::Cookie(cookie))
    }

    /// Checks that a part of a read is asked for and new.
    fn claim(&mut self, cookie: u64, at: u64, len: u64) -> Result<ByteRange, ClientError> {
        let pending = self.find(cookie)?;
        let Op::Read { range: asked, .. } = pending.op else { return Err(bad(cookie, "has bytes but is no read")) };
        let part = ByteRange::new(at, len).filter(|part| asked.contains(*part) && !part.is_empty());
        let part = part.ok_or_else(|| bad(cookie, "has bytes outside its range"))?;
        let before = pending.seen.range(..part.end()).next_back().map(|(start, end)| (*start, *end));
        let mut joined = (part.start(), part.end());
        if let Some((start, end)) = before {
            if end > part.start() {
                return Err(bad(cookie, "has the same bytes twice"));
            }
            if end == part.start() {
                joined.0 = start;
            }
        }
        if let Some(end) = pending.seen.remove(&part.end()) {
            joined.1 = end;
        }
        pending.seen.insert(joined.0, joined.1);
        Ok(part)
    }

    /// Goes on to the next reply; the last one of a request ends it.
    fn next(&mut self, cookie: u64, last: bool) -> Result<Heard, ClientError> {
        self.state = State::Head;
        if !last {
            return Ok(Heard::More);
        }
        let Pending { op, seen, answer, failed, .. } =
            self.pending.remove(&cookie).ok_or(ClientError::Cookie(cookie))?;
        if let Some(failure) = failed {
            return Ok(Heard::Done { cookie, result: Err(failure) });
        }
        let whole = match op {
            Op::Read { range, .. } => seen.get(&range.start()) == Some(&range.end()),
            Op::BlockStatus { .. } => answer.statuses.len() == self.contexts.len(),
            _ => true,
        };
        if !whole {
            return Err(bad(cookie, "ends without all that was asked for"));
        }
        Ok(Heard::Done { cookie, result: Ok(answer) })
    }
}

/// The extents of a status chunk. Flags that need more than 32 bits belong to no context that this client knows.
fn read_extents(r: &mut Reader<'_>, wide: bool) -> Result<Vec<Extent>, ClientError> {
    let mut extents = Vec::with_capacity(r.left() / if wide { 16 } else { 8 });
    while r.left() > 0 {
        extents.push(match wide {
            true => Extent { len: r.be_u64()?, flags: r.be_u64()? as u32 },
            false => Extent { len: u64::from(r.be_u32()?), flags: r.be_u32()? },
        });
    }
    Ok(extents)
}

fn bad(cookie: u64, what: &'static str) -> ClientError {
    ClientError::Chunk { cookie, what }
}

/// The error of an error chunk; an unknown type still begins with a code and a text.
fn read_failure(kind: u16, r: &mut Reader<'_>) -> Option<Failure> {
    let errno = Errno::from_code(r.be_u32().ok()?);
    let len = r.be_u16().ok()?;
    let message = String::from_utf8_lossy(r.take(usize::from(len)).ok()?).into_owned();
    let at = if kind == chunk::ERROR_OFFSET { Some(r.be_u64().ok()?) } else { None };
    Some(Failure { errno, message, at })
}
