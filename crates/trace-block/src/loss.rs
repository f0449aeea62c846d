//! What a format cannot carry, counted.

use crate::record::Record;
use esker_base::units::SECTOR;
use esker_base::{ByteRange, Nanos};
use std::fmt;

/// Something that a format cannot carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Loss {
    /// A flush was left out.
    Flush,
    /// A discard was left out.
    Discard,
    /// A request to another than the first volume was left out.
    Volume,
    /// A request longer than the length field of the format holds was left out.
    Length,
    /// A request later than the format's 32-bit time was left out.
    Time,
    /// A range grew outwards to whole sectors.
    Sectors,
    /// A time was rounded down to the format's unit.
    Rounded,
    /// A time was not written at all.
    NoTime,
    /// A write was written as an access without operation, which reads back as a read.
    WriteAsRead,
}

impl Loss {
    /// All losses; [`Loss::drops`] ones first.
    pub const ALL: [Loss; 9] = [
        Loss::Flush,
        Loss::Discard,
        Loss::Volume,
        Loss::Length,
        Loss::Time,
        Loss::Sectors,
        Loss::Rounded,
        Loss::NoTime,
        Loss::WriteAsRead,
    ];

    /// Whether the whole request is left out.
    pub fn drops(self) -> bool {
        matches!(self, Loss::Flush | Loss::Discard | Loss::Volume | Loss::Length | Loss::Time)
    }

    fn text(self) -> &'static str {
        match self {
            Loss::Flush => "flushes left out",
            Loss::Discard => "discards left out",
            Loss::Volume => "requests to other volumes left out",
            Loss::Length => "requests too long for the format left out",
            Loss::Time => "requests later than 2^32 s left out",
            Loss::Sectors => "ranges widened to whole sectors",
            Loss::Rounded => "times rounded down",
            Loss::NoTime => "times not written",
            Loss::WriteAsRead => "writes written as accesses without operation",
        }
    }
}

/// How often each [`Loss`] happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses([u64; Loss::ALL.len()]);

impl Losses {
    /// How often `loss` happened.
    pub fn count(&self, loss: Loss) -> u64 {
        self.0[loss as usize]
    }

    /// Whether everything was carried exactly.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|n| *n == 0)
    }

    /// Requests that were left out.
    pub fn dropped(&self) -> u64 {
        Loss::ALL.into_iter().filter(|l| l.drops()).map(|l| self.count(l)).sum()
    }

    pub(crate) fn note(&mut self, loss: Loss) {
        self.0[loss as usize] += 1;
    }

    /// The time in whole `unit`s.
    pub(crate) fn whole_time(&mut self, at: Nanos, unit: u64) -> u64 {
        if !at.0.is_multiple_of(unit) {
            self.note(Loss::Rounded);
        }
        at.0 / unit
    }

    /// The smallest range of whole sectors around the request.
    pub(crate) fn whole_sectors(&mut self, r: &Record) -> Result<ByteRange, Loss> {
        let range = r.range();
        if range.is_aligned(SECTOR) {
            return Ok(range);
        }
        let wider = range.align_out(SECTOR).ok_or(Loss::Length)?;
        self.note(Loss::Sectors);
        Ok(wider)
    }

    /// The first sector, and the length in bytes from its start.
    pub(crate) fn sector_start(&mut self, r: &Record) -> Result<(u64, u32), Loss> {
        let inside = r.offset % SECTOR;
        let len = r.len.checked_add(inside).and_then(|len| u32::try_from(len).ok()).ok_or(Loss::Length)?;
        if inside > 0 {
            self.note(Loss::Sectors);
        }
        Ok((r.offset / SECTOR, len))
    }
}

impl fmt::Display for Losses {
    /// Only what happened, separated by commas; `nothing lost` otherwise.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let happened = Loss::ALL.into_iter().filter(|l| self.count(*l) > 0);
        let lines: Vec<String> = happened.map(|l| format!("{} {}", self.count(l), l.text())).collect();
        f.write_str(if lines.is_empty() { "nothing lost" } else { "" })?;
        f.write_str(&lines.join(", "))
    }
}
