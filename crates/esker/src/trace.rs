//! Block traces, request by request.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a program names the files of its traces")]

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use esker_base::Nanos;
use esker_predict::input::Bytes;
use esker_trace_block::{Record, Source, TraceReader};

pub use esker_trace_block::Op;

use crate::error::Error;

/// One request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Time since the start of the trace. Never before that of the previous request.
    pub at: Duration,
    /// Number of the volume, from 0 in order of first appearance.
    pub volume: u32,
    /// What is asked for.
    pub op: Op,
    /// First byte.
    pub offset: u64,
    /// Length in bytes; 0 of a flush alone.
    pub len: u64,
}

/// The requests of a trace, in bounded memory.
pub struct Requests(TraceReader);

/// Opens a block trace in any of the formats that `esker blktrace` reads. The format is recognised, and gzip, xz, bzip2
/// and zstd are undone.
///
/// # Errors
/// [`Error::Trace`].
pub fn open(path: impl AsRef<Path>) -> Result<Requests, Error> {
    let (name, file) = (path.as_ref().display().to_string(), bytes(path.as_ref()));
    let file = file.map_err(|error| Error::Trace(format!("{name}: {error}")))?;
    Ok(Requests(TraceReader::open(&name, file, None)?))
}

/// The bytes of a trace: what [`open`] reads.
pub(crate) fn bytes(path: &Path) -> std::io::Result<Bytes> {
    Ok(Box::new(File::open(path)?))
}

impl Requests {
    /// Names of the volumes that were met so far.
    pub fn volumes(&self) -> &[String] {
        self.0.volumes()
    }

    /// Lines or records that were left out so far, because they are damaged.
    pub fn faults(&self) -> u64 {
        self.0.report().malformed
    }
}

impl Iterator for Requests {
    type Item = Result<Request, Error>;

    fn next(&mut self) -> Option<Result<Request, Error>> {
        self.0.next_record().map(|record| record.map(Request::from)).map_err(Error::from).transpose()
    }
}

impl From<Record> for Request {
    fn from(record: Record) -> Request {
        let Record { at, volume, op, offset, len, who: _ } = record;
        Request { at: Duration::from_nanos(at.0), volume, op, offset, len }
    }
}

impl From<Request> for Record {
    fn from(request: Request) -> Record {
        let Request { at, volume, op, offset, len } = request;
        Record { at: Nanos(u64::try_from(at.as_nanos()).unwrap_or(u64::MAX)), volume, op, offset, len, who: 0 }
    }
}
