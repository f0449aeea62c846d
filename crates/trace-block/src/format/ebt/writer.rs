//! Writes the parts of a trace into a buffer, block by block.

use super::super::encoder::{Encoder, RecordContext, Revisit};
use super::index::Entry;
use super::{
    BLOCK_HEAD_BYTES, BLOCK_RECORDS, EbtHeader, End, Kind, NEEDS_ZSTD, PAYLOAD_MAX, columns, index, put_header,
};
use crate::record::Record;
use crate::sink::{Loss, Losses};
use esker_base::Nanos;
use std::collections::BTreeMap;

/// zstd's level: as fast as its lowest ones on payloads of this kind, and smaller.
const LEVEL: i32 = 3;

/// Longest name in bytes, so that a name always fits into a block.
const NAME_MAX: usize = 4096;

/// Gathers records until a block is full. Memory: one block, 24 bytes for each block written, and the names.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    records: Vec<Record>,
    /// Names of all volumes, by number.
    names: Vec<String>,
    /// How many names were written.
    named: usize,
    entries: Vec<Entry>,
    written: u64,
    last: Nanos,
}

impl Encoder for Writer {
    fn start(&self, comment: &[u8], out: &mut Vec<u8>) {
        put_header(NEEDS_ZSTD, out);
        let mut first = 0;
        for part in comment.chunks(PAYLOAD_MAX) {
            put_block(Kind::Comment, part.len(), first, Nanos::ZERO, part, out);
            first += part.len() as u64;
        }
    }

    /// Names the next volumes, up to `number`; those that were skipped are called by their numbers.
    fn introduce(&mut self, name: &str, number: u32, _: Nanos, _: &mut Vec<u8>) {
        for skipped in (0..number).skip(self.names.len()) {
            self.names.push(crate::format::unnamed(skipped));
        }
        if self.names.len() == number as usize {
            let mut ends = (0..=name.len().min(NAME_MAX)).rev();
            let end = ends.find(|end| name.is_char_boundary(*end)).unwrap_or(0);
            self.names.push(name[..end].to_string());
        }
    }

    fn put(
        &mut self,
        place: &RecordContext<'_>,
        r: &Record,
        _: &mut Losses,
        out: &mut Vec<u8>,
    ) -> Result<Option<Revisit>, Loss> {
        self.records.push(*r);
        if self.records.len() == BLOCK_RECORDS {
            self.end_block(place.offset, out);
        }
        Ok(None)
    }

    fn flush(&mut self, offset: u64, out: &mut Vec<u8>) {
        self.end_block(offset, out);
    }

    /// Writes the rest, the directory and the end mark.
    fn finish(&mut self, _: &BTreeMap<u32, String>, _: Nanos, offset: u64, out: &mut Vec<u8>) {
        self.end_block(offset, out);
        let directory = offset + out.len() as u64;
        put_names(&self.names, 0, out);
        for (i, entries) in self.entries.chunks(BLOCK_RECORDS).enumerate() {
            let payload = index::encode(entries);
            put_block(Kind::Index, entries.len(), (i * BLOCK_RECORDS) as u64, entries[0].at, &payload, out);
        }
        End { directory, records: self.written, blocks: self.entries.len() as u64, last: self.last }.put(out);
    }
}

impl Writer {
    /// Writes the records gathered so far as a block.
    fn end_block(&mut self, offset: u64, out: &mut Vec<u8>) {
        let Some(first) = self.records.first() else { return };
        put_names(&self.names[self.named..], self.named, out);
        self.named = self.names.len();
        self.entries.push(Entry { offset: offset + out.len() as u64, at: first.at, first: self.written });
        let mut payload = Vec::with_capacity(16 << 10);
        columns::put(&self.records, &mut payload);
        let kind = match columns::has_processes(&self.records) {
            true => Kind::RecordsOfProcesses,
            false => Kind::Records,
        };
        put_block(kind, self.records.len(), self.written, first.at, &payload, out);
        self.written += self.records.len() as u64;
        self.last = self.records.iter().map(|r| r.at).max().unwrap_or(self.last).max(self.last);
        self.records.clear();
    }
}

/// Writes `names` from number `first` upwards, in as many blocks as they need.
fn put_names(names: &[String], first: usize, out: &mut Vec<u8>) {
    let (mut payload, mut from) = (Vec::new(), 0);
    for (i, name) in names.iter().enumerate() {
        if payload.len() + name.len() + super::super::varint::LEN_MAX > PAYLOAD_MAX {
            put_block(Kind::Names, i - from, (first + from) as u64, Nanos::ZERO, &payload, out);
            payload.clear();
            from = i;
        }
        super::super::varint::put(name.len() as u64, &mut payload);
        payload.extend_from_slice(name.as_bytes());
    }
    if from < names.len() {
        put_block(Kind::Names, names.len() - from, (first + from) as u64, Nanos::ZERO, &payload, out);
    }
}

/// Writes one block, packed if that makes it smaller.
fn put_block(kind: Kind, items: usize, first: u64, at: Nanos, payload: &[u8], out: &mut Vec<u8>) {
    debug_assert!(payload.len() <= PAYLOAD_MAX, "a block is small");
    // Only a lack of memory fails here; then the block stays unpacked.
    let packed = zstd::bulk::compress(payload, LEVEL).ok().filter(|packed| packed.len() < payload.len());
    let stored = packed.as_deref().unwrap_or(payload);
    let small = |count: usize| u32::try_from(count).expect("a block is small");
    let head = EbtHeader {
        kind,
        is_packed: packed.is_some(),
        items: small(items),
        stored: small(stored.len()),
        raw: small(payload.len()),
        payload_crc: crc32fast::hash(stored),
        first,
        at,
    };
    out.reserve(BLOCK_HEAD_BYTES + stored.len());
    head.put(out);
    out.extend_from_slice(stored);
}
