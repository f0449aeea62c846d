//! From the bytes of a log to its records: what must be there, and where it ends.
//!
//! It asks for bytes and is given them, so that the opening of a stack, the checker and the fuzzer are one code. First
//! all headers are followed from the oldest on, until one is not the next record. Then the data of those records are
//! compared with their checksums that no record calls durable; the log ends before the first that was torn. Where it
//! ends, and whether that is damage, a [`LogCursor`] says.

use esker_base::ByteRange;
use esker_framing::{Epochs, LogCursor, Next};

use crate::format::{Content, Record, place};
use crate::superblock::Superblock;

/// A log that is being read.
pub struct Replay {
    superblock: Superblock,
    /// Behind the last record, but for its payload.
    cursor: LogCursor,
    records: Vec<Record>,
    phase: Phase,
    whole: bool,
    window: u64,
}

enum Phase {
    /// The next header lies here.
    Headers(u64),
    /// Of this record as many bytes of the payload have been looked at.
    Payload {
        index: usize,
        at: u64,
        sum: crc32fast::Hasher,
    },
    Ended,
}

/// Records that must be there are not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "the log is damaged at byte {at}: record {number} is not there, although all before {durable} were durable; restore it \
     from a copy, or zero its first 8 KiB and lose what was off-loaded"
)]
pub struct Damage {
    /// Byte of the device.
    pub at: u64,
    /// The record that should be there.
    pub number: u64,
    /// The number that must be reached.
    pub durable: u64,
}

impl Replay {
    /// From a superblock. `whole` looks at all payloads, durable or not; at most `window` bytes, a multiple of the
    /// log's block, are wanted at once.
    pub fn new(superblock: Superblock, whole: bool, window: u64) -> Replay {
        let phase = Phase::Headers(superblock.first);
        let cursor = cursor(&superblock, superblock.number, superblock.first, superblock.durable);
        Replay { superblock, cursor, records: Vec::new(), phase, whole, window }
    }

    /// The bytes of the device that are needed next; none when all is known.
    pub fn wants(&self) -> Option<ByteRange> {
        let (start, len) = match &self.phase {
            Phase::Ended => return None,
            Phase::Headers(position) => {
                (place(&self.superblock, *position), self.superblock.area - position % self.superblock.area)
            }
            Phase::Payload { index, at, .. } => {
                let record = &self.records[*index];
                let payload = record.position + u64::from(self.superblock.block);
                (place(&self.superblock, payload) + at, record.range.len() - at)
            }
        };
        ByteRange::new(start, len.min(self.window))
    }

    /// Takes what was asked for.
    pub fn feed(&mut self, bytes: &[u8]) {
        match std::mem::replace(&mut self.phase, Phase::Ended) {
            Phase::Headers(position) => self.headers(position, bytes),
            Phase::Payload { index, at, mut sum } => {
                sum.update(bytes);
                let at = at + bytes.len() as u64;
                let record = &self.records[index];
                if at < record.range.len() {
                    self.phase = Phase::Payload { index, at, sum };
                } else if record.content == Content::Data(sum.finalize()) {
                    self.payloads(index + 1);
                } else {
                    self.records.truncate(index);
                }
            }
            Phase::Ended => {}
        }
    }

    /// Reads headers as long as they lie in the window.
    fn headers(&mut self, window: u64, bytes: &[u8]) {
        let mut position = window;
        while let Some(rest) = bytes.get((position - window) as usize..).filter(|rest| !rest.is_empty()) {
            let Some(record) = self.record(rest) else { return self.end_of_headers(position, rest) };
            let superblock = &self.superblock;
            let is_at_end = record.end(superblock) / superblock.area != window / superblock.area;
            position = record.end(superblock);
            self.cursor.claim(record.durable);
            self.cursor.advance(record.number + 1, position);
            self.records.push(record);
            if is_at_end {
                break;
            }
        }
        self.phase = Phase::Headers(position);
    }

    /// The next record, if its header begins these bytes and it ends before the oldest one.
    fn record(&self, bytes: &[u8]) -> Option<Record> {
        let superblock = &self.superblock;
        let record = self.cursor.record(bytes).and_then(|header| Record::decode(&header, superblock));
        record.filter(|record| record.end(superblock) - superblock.first <= superblock.area)
    }

    /// What lies behind the end in this window may call the missing record durable.
    fn end_of_headers(&mut self, position: u64, rest: &[u8]) {
        for at in (0..rest.len()).step_by(self.superblock.block as usize) {
            self.cursor.look(position + at as u64, &rest[at..]);
        }
        let durable = self.cursor.durable().saturating_sub(self.superblock.number) as usize;
        self.payloads(if self.whole { 0 } else { durable });
    }

    fn payloads(&mut self, first: usize) {
        let has_payload = |record: &Record| matches!(record.content, Content::Data(_));
        let next = (first..self.records.len()).find(|index| has_payload(&self.records[*index]));
        self.phase = next.map_or(Phase::Ended, |index| Phase::Payload { index, at: 0, sum: Default::default() });
    }

    /// All records of the log.
    ///
    /// # Errors
    /// [`Damage`].
    pub fn end(self) -> Result<Vec<Record>, Damage> {
        debug_assert!(self.wants().is_none(), "the log has not been read to its end");
        let superblock = &self.superblock;
        let number = superblock.number + self.records.len() as u64;
        let position = self.records.last().map_or(superblock.first, |last| last.end(superblock));
        let durable = self.cursor.durable();
        match cursor(superblock, number, position, durable).end() {
            Next::Damaged { at } => Err(Damage { at: place(superblock, at), number, durable }),
            Next::Record(_) | Next::End | Next::Stale { .. } => Ok(self.records),
        }
    }
}

/// Epochs of this log do not prove a superblock stale: the oldest records may be of many of them.
fn cursor(superblock: &Superblock, number: u64, position: u64, durable: u64) -> LogCursor {
    let epochs = Epochs { now: superblock.epoch, since: superblock.since, rise: false };
    LogCursor::new(superblock.log, epochs, number, position, durable)
}

#[cfg(test)]
mod tests;
