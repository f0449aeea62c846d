//! The stream in which a snapshot travels: the bytes that it has, or that differ from those of an earlier one. Byte
//! rows and trust: `docs/reference/formats/volume-stream.md`.
//!
//! A head says what is sent and against what. Records follow, in the order of the bytes that they concern. The last
//! record is the end; a stream without it was cut.
//!
//! Invariants: no record is handed on before its checksum, its number and its place in the stream are right; a reader
//! takes no more memory than one record has.

#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]

use std::io::{self, ErrorKind, Read, Write};
use std::ops::{Range, RangeInclusive};

use esker_framing::{
    Features, HEADER, Header, Newest, RECORD_HEADER, Record, Superblock, SuperblockError, seal, unseal,
};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::catalogue::{NAME_MAX, is_sound_name};

/// Most bytes of data in one record.
pub const DATA_MAX: u64 = 512 << 10;
/// Bytes of the head.
pub const HEAD: usize = HEADER + size_of::<RawHead>();
/// Records begin at multiples of so many bytes.
const UNIT: usize = 8;
/// Kinds of records.
const DATA: u16 = 1;
const ZERO: u16 = 2;
const END: u16 = 3;

/// What a stream holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamHead {
    /// Number of the snapshot's content.
    pub content: u128,
    /// The snapshot that a receiver must have, by the number of its content; 0 if it needs none.
    pub base: u128,
    /// Bytes of the snapshot.
    pub bytes: u64,
    /// Unit in which the sender maps it.
    pub block: u32,
    /// First byte that the stream concerns: not 0 if it goes on after an earlier one.
    pub start: u64,
    /// Bytes of data that follow.
    pub data: u64,
    /// Name of the snapshot.
    pub name: String,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawHead {
    base: [u8; 16],
    bytes: U64,
    start: U64,
    data: U64,
    block: U32,
    name_len: u8,
    reserved: [u8; 3],
    name: [u8; NAME_MAX],
}

impl Superblock for StreamHead {
    const MAGIC: [u8; 8] = *b"\x89EskInc\n";
    const VERSION: u16 = 1;
    const NAME: &'static str = "a stream of a volume";
    const LENGTHS: RangeInclusive<usize> = HEAD..=HEAD;

    fn header(&self) -> Header {
        Header { id: self.content, generation: 0, features: Features::NONE }
    }

    fn encode_body(&self) -> Vec<u8> {
        let mut name = [0; NAME_MAX];
        name[..self.name.len()].copy_from_slice(self.name.as_bytes());
        let raw = RawHead {
            base: self.base.to_le_bytes(),
            bytes: self.bytes.into(),
            start: self.start.into(),
            data: self.data.into(),
            block: self.block.into(),
            name_len: u8::try_from(self.name.len()).expect("a name fits in its field"),
            reserved: [0; 3],
            name,
        };
        raw.as_bytes().to_vec()
    }

    fn decode_body(header: &Header, body: &[u8]) -> Result<StreamHead, &'static str> {
        let raw = RawHead::ref_from_bytes(body).map_err(|_| "length")?;
        let name = raw.name.get(..usize::from(raw.name_len)).and_then(|name| std::str::from_utf8(name).ok());
        let head = StreamHead {
            content: header.id,
            base: u128::from_le_bytes(raw.base),
            bytes: raw.bytes.get(),
            block: raw.block.get(),
            start: raw.start.get(),
            data: raw.data.get(),
            name: name.filter(|name| is_sound_name(name)).ok_or("name")?.to_string(),
        };
        let is_block = |bytes: u64| bytes.is_multiple_of(u64::from(head.block));
        match () {
            () if header.generation != 0 => Err("generation"),
            () if raw.reserved != [0; 3] || raw.name[head.name.len()..].iter().any(|byte| *byte != 0) => Err("name"),
            () if head.content == 0 || head.content == head.base => Err("content number"),
            () if !matches!(head.block, 512 | 4096) => Err("block"),
            () if head.bytes == 0 || !is_block(head.bytes) => Err("size"),
            () if head.start > head.bytes || !is_block(head.start) => Err("start"),
            () if head.data > head.bytes - head.start || !is_block(head.data) => Err("amount of data"),
            () => Ok(head),
        }
    }
}

/// One record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Item {
    /// These bytes lie from byte `at` of the snapshot on.
    Data {
        /// First byte.
        at: u64,
        /// The bytes.
        data: Vec<u8>,
    },
    /// The snapshot reads as zeroes there.
    Zero {
        /// First byte.
        at: u64,
        /// Bytes.
        len: u64,
    },
    /// Nothing follows.
    End,
}

/// Why a stream cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The bytes could not be had.
    #[error("the stream cannot be read: {0}")]
    Io(#[from] io::Error),
    /// Something else than a stream.
    #[error("this is no stream of `esker volume send`")]
    Foreign,
    /// A later version, or features that this program does not know.
    #[error("the stream {0}")]
    Newer(SuperblockError),
    /// It ends without its end.
    #[error("the stream was cut after {0} bytes")]
    Cut(u64),
    /// Something else than the next record.
    #[error("the stream is damaged at byte {0}; send it again")]
    Damaged(u64),
    /// A record that no esker writes, under a right checksum.
    #[error("the stream holds a record at byte {0} with {1} out of range; send it again")]
    Range(u64, &'static str),
    /// Bytes behind the end.
    #[error("the stream goes on behind its end, at byte {0}; give one stream at a time")]
    Trailing(u64),
}

impl StreamError {
    fn of_head(error: SuperblockError) -> StreamError {
        match error {
            SuperblockError::Blank | SuperblockError::Foreign(_) => StreamError::Foreign,
            SuperblockError::Newer(..) | SuperblockError::ReadOnly(_) => StreamError::Newer(error),
            SuperblockError::Range(what) => StreamError::Range(0, what),
            SuperblockError::Checksum
            | SuperblockError::Older(_)
            | SuperblockError::Shifted
            | SuperblockError::Duplicate(_) => StreamError::Damaged(0),
        }
    }
}

/// Writes a stream.
pub struct Encoder<W> {
    out: W,
    content: u128,
    number: u64,
    position: u64,
}

impl<W: Write> Encoder<W> {
    /// Writes the head.
    ///
    /// # Errors
    /// What the output answers; so do all methods.
    pub fn new(mut out: W, head: &StreamHead) -> io::Result<Encoder<W>> {
        out.write_all(&seal(head))?;
        Ok(Encoder { out, content: head.content, number: 0, position: HEAD as u64 })
    }

    /// Writes bytes that lie from byte `at` of the snapshot on: at most [`DATA_MAX`].
    pub fn data(&mut self, at: u64, data: &[u8]) -> io::Result<()> {
        self.record(DATA, &[&at.to_le_bytes(), data].concat())
    }

    /// Says that bytes read as zeroes.
    pub fn zero(&mut self, range: Range<u64>) -> io::Result<()> {
        self.record(ZERO, &[range.start.to_le_bytes(), (range.end - range.start).to_le_bytes()].concat())
    }

    /// Writes the end, and hands everything on.
    pub fn end(mut self) -> io::Result<()> {
        self.record(END, &[])?;
        self.out.flush()
    }

    fn record(&mut self, kind: u16, payload: &[u8]) -> io::Result<()> {
        let (log, number, position) = (self.content, self.number, self.position);
        let bytes = Record { log, epoch: 0, number, position, durable: 0, kind, payload }.seal(UNIT);
        self.number += 1;
        self.position += bytes.len() as u64;
        self.out.write_all(&bytes)
    }
}

/// Reads a stream.
pub struct Decoder<R> {
    input: R,
    head: StreamHead,
    number: u64,
    position: u64,
    /// Bytes of the snapshot that the records before concern.
    at: u64,
    /// Bytes of data that are still to come.
    left: u64,
}

impl<R: Read> Decoder<R> {
    /// Reads the head.
    ///
    /// # Errors
    /// [`StreamError`].
    pub fn new(mut input: R) -> Result<Decoder<R>, StreamError> {
        let mut bytes = [0; HEAD];
        fill(&mut input, &mut bytes, 0)?;
        let head: StreamHead = unseal(&bytes).and_then(Newest::writable).map_err(StreamError::of_head)?;
        let (at, left) = (head.start, head.data);
        Ok(Decoder { input, head, number: 0, position: HEAD as u64, at, left })
    }

    /// The head of the stream.
    pub fn head(&self) -> &StreamHead {
        &self.head
    }

    /// The next record. After the end, the input must have no more bytes.
    ///
    /// # Errors
    /// [`StreamError`].
    pub fn next_item(&mut self) -> Result<Item, StreamError> {
        let mut bytes = vec![0; RECORD_HEADER];
        fill(&mut self.input, &mut bytes, self.position)?;
        let needs = Record::needs(&bytes);
        if needs > RECORD_HEADER + size_of::<u64>() + usize::try_from(DATA_MAX).unwrap_or(usize::MAX) {
            return Err(StreamError::Damaged(self.position));
        }
        bytes.resize(needs.next_multiple_of(UNIT), 0);
        fill(&mut self.input, &mut bytes[RECORD_HEADER..], self.position + RECORD_HEADER as u64)?;
        let wanted = (self.head.content, 0, self.number, self.position);
        let record = Record::unseal(&bytes)
            .filter(|record| (record.log, record.epoch, record.number, record.position) == wanted)
            .filter(|_| bytes[needs..].iter().all(|byte| *byte == 0))
            .ok_or(StreamError::Damaged(self.position))?;
        let item = self.item(&record).map_err(|what| StreamError::Range(self.position, what))?;
        self.number += 1;
        self.position += bytes.len() as u64;
        match item {
            Item::Data { .. } | Item::Zero { .. } => Ok(item),
            Item::End => self.demand_nothing().map(|()| Item::End),
        }
    }

    /// What a record says, if it goes on where the one before ended.
    fn item(&mut self, record: &Record<'_>) -> Result<Item, &'static str> {
        let number = |at: usize| -> Result<u64, &'static str> {
            let bytes = record.payload.get(at..at + 8).ok_or("length")?;
            Ok(u64::from_le_bytes(bytes.try_into().expect("8 bytes")))
        };
        if record.kind == END {
            return match (record.payload.is_empty(), self.left) {
                (true, 0) => Ok(Item::End),
                (true, _) => Err("amount of data"),
                (false, _) => Err("length"),
            };
        }
        let (at, len) = match record.kind {
            DATA => (number(0)?, record.payload.len() as u64 - 8),
            ZERO if record.payload.len() == 16 => (number(0)?, number(8)?),
            ZERO => return Err("length"),
            _ => return Err("kind"),
        };
        let is_block = |bytes: u64| bytes.is_multiple_of(u64::from(self.head.block));
        let end = at.checked_add(len).filter(|end| at >= self.at && *end <= self.head.bytes).ok_or("place")?;
        if len == 0 || !is_block(at) || !is_block(len) {
            return Err("place");
        }
        self.at = end;
        if record.kind == ZERO {
            return Ok(Item::Zero { at, len });
        }
        self.left = self.left.checked_sub(len).ok_or("amount of data")?;
        Ok(Item::Data { at, data: record.payload[8..].to_vec() })
    }

    fn demand_nothing(&mut self) -> Result<(), StreamError> {
        match fill(&mut self.input, &mut [0], self.position) {
            Err(StreamError::Cut(_)) => Ok(()),
            Ok(()) => Err(StreamError::Trailing(self.position)),
            Err(error) => Err(error),
        }
    }
}

/// Fills `bytes`, which lie at byte `position` of the stream.
fn fill(input: &mut impl Read, bytes: &mut [u8], position: u64) -> Result<(), StreamError> {
    let mut done = 0;
    while done < bytes.len() {
        match input.read(&mut bytes[done..]) {
            Ok(0) => return Err(StreamError::Cut(position + done as u64)),
            Ok(read) => done += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
