//! What blktrace's text and binary forms share: actions, operations, and which of a request's events counts.

use super::Yield;
use super::encoder::{Encoder, RecordContext, Revisit};
use super::fields::flushed;
use super::major_minor;
use crate::fault::Reason;
use crate::names::Names;
use crate::record::{Op, Record};
use crate::sink::{Loss, Losses};
use esker_base::Nanos;

/// A step in a request's life that may stand for the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// Q: it came to the block layer.
    Queued,
    /// D: it went to the driver, possibly merged with others.
    Issued,
    /// C: it came back.
    Completed,
}

/// The first stage that occurs in the beginning of a trace.
pub(crate) type FirstStage = fn(&[u8]) -> Option<Stage>;

/// Bytes of the beginning in which the first of the stages is looked for.
pub(crate) const STAGE_HEAD: usize = 64 << 10;

/// Writes one request to a device, `major,minor`, after so many others.
type Encode = fn(&str, u64, &Record, &mut Losses, &mut Vec<u8>) -> Result<(), Loss>;

/// The encoder of a format in which requests stand alone.
pub(crate) struct Alone(pub Encode);

impl Encoder for Alone {
    fn volume(&self, name: &str, number: u32, attempt: u32) -> Option<String> {
        Some(device_name(name, number, attempt))
    }

    fn put(
        &mut self,
        place: &RecordContext<'_>,
        r: &Record,
        losses: &mut Losses,
        out: &mut Vec<u8>,
    ) -> Result<Option<Revisit>, Loss> {
        self.0(place.volume, place.serial, r, losses, out).map(|()| None)
    }
}

/// One event of a request.
pub(crate) struct Event {
    pub stage: Stage,
    pub at: Nanos,
    /// Major and minor number.
    pub device: (u32, u32),
    /// Earlier writes become durable first.
    pub is_flush: bool,
    /// `None` for events without data (the `N` of blkparse).
    pub op: Option<Op>,
    pub offset: u64,
    pub len: u64,
    /// The process.
    pub who: u32,
}

impl Event {
    /// The request, if the event is at the stage that counts.
    pub(crate) fn request(&self, counted: Stage, names: &mut Names) -> Result<Yield, Reason> {
        let is_request = self.is_flush || self.op.is_some();
        if self.stage != counted || !is_request {
            return Ok(Yield::Nothing);
        }
        let (major, minor) = self.device;
        let key = (u64::from(major) << 32 | u64::from(minor)).to_le_bytes();
        let len = if self.op.is_some() { self.len } else { 0 };
        let op = self.op.unwrap_or(Op::Write);
        // A request that is refused must not name a volume.
        flushed(self.is_flush, self.at, 0, op, self.offset, len)?;
        let volume = names.number(&key, |_| format!("{major},{minor}"))?;
        Ok(flushed(self.is_flush, self.at, volume, op, self.offset, len)?.of_process(self.who))
    }
}

/// How volume `number` called `name` is written: `major,minor`.
fn device_name(name: &str, number: u32, attempt: u32) -> String {
    let [major, minor] = major_minor(name, number, attempt);
    format!("{major},{minor}")
}
