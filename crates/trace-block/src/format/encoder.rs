//! The encoder of one trace: where a format's own state lives while it is written.

use crate::record::Record;
use crate::sink::{Loss, Losses};
use esker_base::Nanos;
use std::collections::BTreeMap;

/// What is known when a record is written.
pub(crate) struct RecordContext<'a> {
    /// The volume as it is written; empty where the format has one volume.
    pub volume: &'a str,
    /// Records before this one.
    pub serial: u64,
    /// Bytes before those in the buffer.
    pub offset: u64,
}

/// A field written earlier whose value is known only now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Revisit {
    /// Byte offset of the field in the trace.
    pub at: u64,
    pub next: i64,
}

/// The encoder of one trace.
pub(crate) trait Encoder: Send {
    /// How volume `number` called `name` is written. Texts tell volumes apart, so that another `attempt` gives another
    /// text; `None` if numbers do that and the name stays as it is. Not called where the format has one volume.
    fn volume(&self, name: &str, number: u32, attempt: u32) -> Option<String> {
        let _ = (name, number, attempt);
        None
    }

    /// Writes what stands before the first record.
    fn start(&self, comment: &[u8], out: &mut Vec<u8>) {
        let _ = (comment, out);
    }

    /// Writes what stands before the first record of a volume, which is at `at`.
    fn introduce(&mut self, volume: &str, number: u32, at: Nanos, out: &mut Vec<u8>) {
        let _ = (volume, number, at, out);
    }

    /// Writes one record; the correction is one of an earlier record.
    fn put(
        &mut self,
        place: &RecordContext<'_>,
        r: &Record,
        losses: &mut Losses,
        out: &mut Vec<u8>,
    ) -> Result<Option<Revisit>, Loss>;

    /// Writes what was put and is not in `out` yet; `offset` is the number of bytes before `out`.
    fn flush(&mut self, offset: u64, out: &mut Vec<u8>) {
        let _ = (offset, out);
    }

    /// Writes what stands behind the last record, which is at `last`.
    fn finish(&mut self, volumes: &BTreeMap<u32, String>, last: Nanos, offset: u64, out: &mut Vec<u8>) {
        let _ = (volumes, last, offset, out);
    }
}
