//! The index of a trace: where each block of records stands, and from which time on. Read from the end of the file, or
//! found again by walking over the blocks if the end is missing or damaged.

use super::super::varint;
use super::parser::{open, take_names};
use super::{
    BLOCK_HEAD_BYTES, BLOCK_RECORDS, END_BYTES, EbtHeader, End, HEADER_BYTES, Kind, MAGIC, MARK_START, check_header,
};
use crate::fault::Reason;
use esker_base::Nanos;
use memchr::memmem;
use std::collections::BTreeMap;
use std::io::{self, Read, Seek, SeekFrom};

/// Bytes that are searched at a time for the next mark.
const SEARCHED: usize = 64 << 10;

/// Where a block of records stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Offset of the block in the file.
    pub offset: u64,
    /// Time of its first record.
    pub at: Nanos,
    /// Number of its first record.
    pub first: u64,
}

/// How the index was come by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// From the end of the file.
    Stored,
    /// From the blocks, because the stored one cannot be used.
    Rebuilt(IndexFlaw),
}

/// All blocks of records of a trace in format `ebt`.
#[derive(Clone, Debug)]
pub struct Index {
    entries: Vec<Entry>,
    names: BTreeMap<u64, String>,
    records: u64,
    origin: Origin,
}

/// No index can be had.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// The operating system failed a read.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    /// Another format, or packed.
    #[error("is not an unpacked trace in format ebt, so that it has no index; convert it with `--to ebt`")]
    OtherFormat,
    /// A program newer than this one wrote it.
    #[error("byte 0: {0}")]
    Header(Reason),
}

/// What is wrong with a stored index.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IndexFlaw {
    /// A part of it cannot be used.
    #[error("byte {offset}: {reason}")]
    Damaged {
        /// Where.
        offset: u64,
        /// Why.
        reason: Reason,
    },
    /// It says something else than the blocks.
    #[error("the index and the blocks differ from block {block} on")]
    Differs {
        /// The first block that it has otherwise.
        block: usize,
    },
}

/// A part of the directory or a block that is not as it should be.
type Flaw = (u64, Reason);

impl Index {
    /// Reads the index of the trace in `file`, or walks over its blocks.
    ///
    /// # Errors
    /// If a read fails, or the file is no such trace.
    pub fn load(file: &mut (impl Read + Seek)) -> Result<Index, IndexError> {
        let len = open_header(file)?;
        match stored(file, len)? {
            Ok(index) => Ok(index),
            Err((offset, reason)) => {
                let mut index = rebuild(file, len)?;
                index.origin = Origin::Rebuilt(IndexFlaw::Damaged { offset, reason });
                Ok(index)
            }
        }
    }

    /// Compares the stored index with the blocks; `Ok(Err(_))` says what is wrong with it.
    ///
    /// # Errors
    /// As [`Index::load`].
    pub fn check(file: &mut (impl Read + Seek)) -> Result<Result<Index, IndexFlaw>, IndexError> {
        let len = open_header(file)?;
        let index = match stored(file, len)? {
            Ok(index) => index,
            Err((offset, reason)) => return Ok(Err(IndexFlaw::Damaged { offset, reason })),
        };
        let walked = rebuild(file, len)?;
        let is_same = walked.entries == index.entries && walked.names == index.names && walked.records == index.records;
        let differs = || {
            let place = walked.entries.iter().zip(&index.entries).position(|(a, b)| a != b);
            IndexFlaw::Differs { block: place.unwrap_or(walked.entries.len().min(index.entries.len())) }
        };
        Ok(if is_same { Ok(index) } else { Err(differs()) })
    }

    /// The blocks in order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Records in the trace; after a rebuild, up to the end of the last whole block.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// How the index was come by.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The names of the volumes by their numbers in the file.
    pub(crate) fn names(&self) -> &BTreeMap<u64, String> {
        &self.names
    }

    /// The block in which the first record at or after `at` stands, or, if it begins one, the block before.
    pub fn block_for(&self, at: Nanos) -> Option<Entry> {
        let after = self.entries.partition_point(|e| e.at < at);
        self.entries.get(after.saturating_sub(1)).copied()
    }
}

/// The payload of a block of the index: differences between one entry and the next.
pub(super) fn encode(entries: &[Entry]) -> Vec<u8> {
    let mut out = Vec::with_capacity(8 * entries.len());
    let mut last = Entry { offset: 0, at: Nanos::ZERO, first: 0 };
    for entry in entries {
        let pairs = [(entry.offset, last.offset), (entry.at.0, last.at.0), (entry.first, last.first)];
        pairs.into_iter().for_each(|(now, before)| varint::put(now.wrapping_sub(before), &mut out));
        last = *entry;
    }
    out
}

fn decode(head: &EbtHeader, mut payload: &[u8]) -> Result<Vec<Entry>, Reason> {
    let count = Some(head.items as usize).filter(|n| *n <= BLOCK_RECORDS).ok_or(Reason::TooLarge("block"))?;
    let mut entries = Vec::with_capacity(count);
    let mut last = Entry { offset: 0, at: Nanos::ZERO, first: 0 };
    for _ in 0..count {
        let mut ahead = || varint::take(&mut payload).ok_or(Reason::Columnar);
        last.offset = last.offset.wrapping_add(ahead()?);
        last.at = Nanos(last.at.0.wrapping_add(ahead()?));
        last.first = last.first.wrapping_add(ahead()?);
        entries.push(last);
    }
    if payload.is_empty() { Ok(entries) } else { Err(Reason::Columnar) }
}

/// Checks the header; returns the length of the file. A header that is merely damaged is passed over.
fn open_header(file: &mut (impl Read + Seek)) -> Result<u64, IndexError> {
    let len = file.seek(SeekFrom::End(0))?;
    let head = read_at(file, 0, HEADER_BYTES)?;
    if !head.starts_with(&MAGIC) {
        return Err(IndexError::OtherFormat);
    }
    match check_header(&head) {
        Ok(()) | Err(Reason::Checksum | Reason::NoMark) => Ok(len),
        Err(reason) => Err(IndexError::Header(reason)),
    }
}

/// Up to `len` bytes from `offset` on.
fn read_at(file: &mut (impl Read + Seek), offset: u64, len: usize) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(offset))?;
    let mut bytes = Vec::with_capacity(len);
    file.by_ref().take(len as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A block: its head, payload and length.
type Block = (EbtHeader, Vec<u8>, u64);

/// The block at `offset`.
fn read_block(file: &mut (impl Read + Seek), offset: u64) -> io::Result<Result<Block, Reason>> {
    let head = match EbtHeader::take(&read_at(file, offset, BLOCK_HEAD_BYTES)?) {
        Ok(head) => head,
        Err(reason) => return Ok(Err(reason)),
    };
    let len = BLOCK_HEAD_BYTES + head.stored as usize;
    let whole = read_at(file, offset, len)?;
    Ok(open(&whole).map(|(head, payload)| (head, payload, len as u64)))
}

/// The index as the end of the file tells it.
fn stored(file: &mut (impl Read + Seek), len: u64) -> io::Result<Result<Index, Flaw>> {
    let at = len.saturating_sub(END_BYTES as u64);
    let end = match End::take(&read_at(file, at, END_BYTES)?) {
        Ok(end) => end,
        Err(_) => return Ok(Err((at, Reason::NoEnd))),
    };
    let mut index = Index { entries: Vec::new(), names: BTreeMap::new(), records: end.records, origin: Origin::Stored };
    let mut offset = end.directory;
    while offset < at {
        let taken =
            read_block(file, offset)?.and_then(|(head, payload, len)| index.learn(&head, &payload).map(|()| len));
        match taken {
            Ok(len) => offset += len,
            Err(reason) => return Ok(Err((offset, reason))),
        }
    }
    let is_rising = index.entries.is_sorted_by(|a, b| a.offset < b.offset && a.first < b.first);
    let is_inside = index.entries.last().is_none_or(|e| e.offset < end.directory && e.first < end.records);
    let is_whole = index.entries.len() as u64 == end.blocks && is_rising && is_inside;
    Ok(if is_whole { Ok(index) } else { Err((end.directory, Reason::Columnar)) })
}

impl Index {
    /// Takes what a block of the directory tells.
    fn learn(&mut self, head: &EbtHeader, payload: &[u8]) -> Result<(), Reason> {
        match head.kind {
            Kind::Names => self.names.extend(take_names(head, payload)?),
            Kind::Index => self.entries.extend(decode(head, payload)?),
            Kind::Records | Kind::RecordsOfProcesses | Kind::Comment => {
                return Err(Reason::Unknown("kind of block in the directory"));
            }
        }
        Ok(())
    }
}

/// The index as the blocks tell it. Payloads of records are not read.
fn rebuild(file: &mut (impl Read + Seek), len: u64) -> io::Result<Index> {
    let origin = Origin::Stored;
    let mut index = Index { entries: Vec::new(), names: BTreeMap::new(), records: 0, origin };
    let mut offset = HEADER_BYTES as u64;
    while offset < len {
        let bytes = read_at(file, offset, BLOCK_HEAD_BYTES)?;
        let head = EbtHeader::take(&bytes);
        let block_end = head.map(|h| offset + (BLOCK_HEAD_BYTES + h.stored as usize) as u64).ok();
        match (head, block_end) {
            (Ok(head), Some(end)) if end <= len => {
                index.note(file, &head, offset)?;
                offset = end;
            }
            _ if End::take(&bytes).is_ok() => break,
            _ => offset = next_mark(file, offset + 1)?.unwrap_or(len),
        }
    }
    Ok(index)
}

impl Index {
    /// Notes a block that was walked over.
    fn note(&mut self, file: &mut (impl Read + Seek), head: &EbtHeader, offset: u64) -> io::Result<()> {
        match head.kind {
            Kind::Records | Kind::RecordsOfProcesses => {
                self.entries.push(Entry { offset, at: head.at, first: head.first });
                self.records = head.first.saturating_add(u64::from(head.items));
            }
            Kind::Names => {
                let names = read_block(file, offset)?.and_then(|(head, payload, _)| take_names(&head, &payload));
                self.names.extend(names.unwrap_or_default());
            }
            Kind::Comment | Kind::Index => {}
        }
        Ok(())
    }
}

/// The offset of the next mark at or after `offset`.
fn next_mark(file: &mut (impl Read + Seek), mut offset: u64) -> io::Result<Option<u64>> {
    loop {
        let bytes = read_at(file, offset, SEARCHED)?;
        if let Some(at) = memmem::find(&bytes, MARK_START) {
            return Ok(Some(offset + at as u64));
        }
        if bytes.len() < SEARCHED {
            return Ok(None);
        }
        offset += (SEARCHED - MARK_START.len()) as u64;
    }
}
