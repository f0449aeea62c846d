//! `ebt`, Esker's block trace: columns of deltas in blocks that stand alone, with an index at the end.
//!
//! Format: `docs/reference/formats/block-trace-index.md`. A file is a header, blocks of names, comment and records,
//! then the directory (all names again, the index) and the end mark. Invariants: every part begins with a mark and has
//! checksums; a block of records needs nothing before it but names; numbers are little-endian; a part is at most
//! [`PART_MAX`] bytes.

mod columns;
pub(crate) mod index;
mod parser;
mod writer;

pub(crate) use parser::Parser;

use super::info::{About, FormatInfo, Signs};
use crate::fault::Reason;
use crate::input::{FRAME_MAX, Framing, Length, Unit};
use esker_base::Nanos;
use esker_base::codec::{Reader, Short};
use memchr::memmem;

pub(crate) static INFO: FormatInfo = FormatInfo {
    about: About {
        file: "Esker's own, indexed",
        form: "blocks",
        times: "ns",
        operations: "read, write, flush, discard",
        volumes: "named",
        addresses: "byte",
    },
    encoder: Some(|| Box::new(writer::Writer::default())),
    endings: &[".ebt"],
    signs: Signs { mark: Some(|head| head.starts_with(&MAGIC)), ..Signs::NONE },
    has_volumes: true,
    ..FormatInfo::of("ebt", Unit::Frame(&FRAMING), 1, |_| Box::new(Parser::default()))
};

/// The first bytes: not text, and spoilt by every change of line ends (after PNG's signature).
pub(crate) const MAGIC: [u8; 8] = *b"\x89EBT\r\n\x1a\n";
/// The first bytes of a block.
const BLOCK_MARK: [u8; 8] = *b"\x89EBB\r\n\x1a\n";
/// The first bytes of the end mark.
const END_MARK: [u8; 8] = *b"\x89EBE\r\n\x1a\n";
/// What all marks begin with.
const MARK_START: &[u8] = b"\x89EB";

pub(crate) const VERSION: u16 = 1;

/// Features that a reader must know to read the trace: blocks may be packed with zstd.
const NEEDS_ZSTD: u32 = 1 << 0;
const NEEDS_KNOWN: u32 = NEEDS_ZSTD;

const HEADER_LEN: u16 = 32;
const HEADER_BYTES: usize = HEADER_LEN as usize;
const BLOCK_HEAD_BYTES: usize = 56;
const END_BYTES: usize = 56;

/// Records of a full block.
pub(crate) const BLOCK_RECORDS: usize = 4096;

/// The largest part with its head.
const PART_MAX: usize = FRAME_MAX;
const PAYLOAD_MAX: usize = PART_MAX - BLOCK_HEAD_BYTES;

/// What a block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Records,
    /// Names of volumes from number `first` upwards.
    Names,
    /// Notices that travel with the trace.
    Comment,
    /// Places of blocks of records.
    Index,
    /// Records with a column of processes. A reader that does not know it leaves the block out, and says so.
    RecordsOfProcesses,
}

impl Kind {
    const ALL: [Kind; 5] = [Kind::Records, Kind::Names, Kind::Comment, Kind::Index, Kind::RecordsOfProcesses];

    fn code(self) -> u8 {
        self as u8 + 1
    }

    fn of(code: u8) -> Option<Kind> {
        Kind::ALL.into_iter().find(|k| k.code() == code)
    }
}

/// The head of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct EbtHeader {
    kind: Kind,
    is_packed: bool,
    /// Records, names, bytes of comment, or entries of the index.
    items: u32,
    /// Bytes that follow the head.
    stored: u32,
    /// Bytes after unpacking.
    raw: u32,
    payload_crc: u32,
    /// Number of the first item in the trace.
    first: u64,
    /// Time of the first record.
    at: Nanos,
}

impl EbtHeader {
    fn put(&self, out: &mut Vec<u8>) {
        let from = out.len();
        out.extend_from_slice(&BLOCK_MARK);
        out.extend_from_slice(&[self.kind.code(), u8::from(self.is_packed), 0, 0]);
        for word in [self.items, self.stored, self.raw, self.payload_crc] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(&self.first.to_le_bytes());
        out.extend_from_slice(&self.at.0.to_le_bytes());
        out.extend_from_slice(&[0; 8]);
        put_crc(from, out);
    }

    /// Reads a head; the mark, the checksum and all limits were checked if it is `Ok`.
    fn take(bytes: &[u8]) -> Result<EbtHeader, Reason> {
        let bytes = sound(bytes, &BLOCK_MARK, BLOCK_HEAD_BYTES)?;
        let (code, packing, words, first, at) = EbtHeader::words(bytes).map_err(|_| Reason::NoMark)?;
        let kind = Kind::of(code).ok_or(Reason::Unknown("kind of block"))?;
        if packing > 1 {
            return Err(Reason::Unknown("packing"));
        }
        let [items, stored, raw, payload_crc] = words;
        let head = EbtHeader { kind, is_packed: packing == 1, items, stored, raw, payload_crc, first, at: Nanos(at) };
        let is_small = stored as usize <= PAYLOAD_MAX && raw as usize <= PAYLOAD_MAX;
        if is_small { Ok(head) } else { Err(Reason::TooLarge("block")) }
    }

    fn words(bytes: &[u8]) -> Result<(u8, u8, [u32; 4], u64, u64), Short> {
        let mut r = Reader::new(bytes);
        r.take(BLOCK_MARK.len())?;
        let (kind, packing, _reserved) = (r.u8()?, r.u8()?, r.le_u16()?);
        let words = [r.le_u32()?, r.le_u32()?, r.le_u32()?, r.le_u32()?];
        Ok((kind, packing, words, r.le_u64()?, r.le_u64()?))
    }
}

/// The last part of a whole trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct End {
    /// Where the directory (names, then index) begins.
    directory: u64,
    records: u64,
    /// Blocks of records.
    blocks: u64,
    last: Nanos,
}

impl End {
    fn put(&self, out: &mut Vec<u8>) {
        let from = out.len();
        out.extend_from_slice(&END_MARK);
        for word in [self.directory, self.records, self.blocks, self.last.0, 0] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(&[0; 4]);
        put_crc(from, out);
    }

    fn take(bytes: &[u8]) -> Result<End, Reason> {
        let bytes = sound(bytes, &END_MARK, END_BYTES)?;
        let mut r = Reader::new(&bytes[END_MARK.len()..]);
        let mut word = || r.le_u64().map_err(|_| Reason::NoMark);
        Ok(End { directory: word()?, records: word()?, blocks: word()?, last: Nanos(word()?) })
    }
}

/// Writes the first part.
fn put_header(needs: u32, out: &mut Vec<u8>) {
    let from = out.len();
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&HEADER_LEN.to_le_bytes());
    out.extend_from_slice(&needs.to_le_bytes());
    out.extend_from_slice(&[0; 12]);
    put_crc(from, out);
}

/// Checks the first part: that this reader can read what follows.
fn check_header(bytes: &[u8]) -> Result<(), Reason> {
    let bytes = sound(bytes, &MAGIC, HEADER_BYTES)?;
    let small = |version: u16| u8::try_from(version).unwrap_or(u8::MAX);
    let mut r = Reader::new(&bytes[MAGIC.len()..]);
    let (version, _bytes, needs) = (r.le_u16(), r.le_u16(), r.le_u32());
    match (version, needs) {
        (Ok(VERSION), Ok(needs)) if needs & !NEEDS_KNOWN == 0 => Ok(()),
        (Ok(VERSION), Ok(needs)) => Err(Reason::Features(needs & !NEEDS_KNOWN)),
        (Ok(found), _) => Err(Reason::Version { found: small(found), needed: small(VERSION) }),
        (Err(_), _) => Err(Reason::NoMark),
    }
}

/// Ends a part that began at `from` with its checksum.
fn put_crc(from: usize, out: &mut Vec<u8>) {
    let crc = crc32fast::hash(&out[from..]);
    out.extend_from_slice(&crc.to_le_bytes());
}

/// The first `len` bytes, if they begin with `mark` and end with their checksum.
fn sound<'a>(bytes: &'a [u8], mark: &[u8], len: usize) -> Result<&'a [u8], Reason> {
    let part = bytes.get(..len).filter(|p| p.starts_with(mark)).ok_or(Reason::NoMark)?;
    let (covered, crc) = part.split_at(len - 4);
    if crc32fast::hash(covered).to_le_bytes() == *crc { Ok(part) } else { Err(Reason::Checksum) }
}

/// How the bytes are cut.
static FRAMING: Framing = Framing { head: BLOCK_HEAD_BYTES, length, next_start };

fn length(bytes: &[u8]) -> Length {
    let needed = |len: usize| if bytes.len() < len { Length::Unknown } else { Length::Whole(len) };
    match bytes.get(..MAGIC.len()) {
        None => Length::Unknown,
        Some(mark) if mark == MAGIC => needed(HEADER_BYTES),
        Some(mark) if mark == END_MARK => needed(END_BYTES),
        Some(mark) if mark == BLOCK_MARK && bytes.len() < BLOCK_HEAD_BYTES => Length::Unknown,
        // The length of a damaged head may lie: only the mark behind can be relied on.
        Some(_) => EbtHeader::take(bytes).map_or(Length::Lost, |h| Length::Whole(BLOCK_HEAD_BYTES + h.stored as usize)),
    }
}

fn next_start(bytes: &[u8]) -> Option<usize> {
    memmem::find(bytes, MARK_START)
}
