//! One file of a trace: its bytes, its parser, and the records that were parsed and not yet taken.

use crate::fault::{Ending, Fault, Reason, Report, TraceError, TracePosition};
use crate::format::{Format, Parser, Yield};
use crate::input::{PieceReader, Unit};
use crate::names::Names;
use crate::order::{Order, WINDOW};
use crate::record::Record;
use std::vec;

/// What one line, record or block gave.
pub(crate) enum Step {
    Record(Record),
    Nothing,
    End,
}

pub(crate) struct TraceSegment {
    name: String,
    feed: PieceReader,
    unit: Unit,
    pub parser: Box<dyn Parser>,
    /// The rest of a block.
    block: vec::IntoIter<Record>,
    /// The next record, where parts are merged.
    pub head: Option<Record>,
    /// Records that came too late to be sorted in, and where the last one stands.
    pub late: u64,
    pub late_at: Option<TracePosition>,
}

impl TraceSegment {
    pub(crate) fn new(name: String, feed: PieceReader, format: Format, parser: Box<dyn Parser>) -> TraceSegment {
        let unit = format.info().unit;
        TraceSegment { name, feed, unit, parser, block: Vec::new().into_iter(), head: None, late: 0, late_at: None }
    }

    /// Takes the next record of a block, or one line or record of the data. `is_part` tells faults of several files
    /// apart.
    pub(crate) fn step(
        &mut self,
        names: &mut Names,
        order: Option<&Order>,
        report: &mut Report,
        is_part: bool,
    ) -> Result<Step, TraceError> {
        if let Some(record) = self.block.next() {
            return Ok(Step::Record(record));
        }
        let piece = self.feed.next_piece(self.unit);
        let piece = piece.map_err(|source| TraceError::Io { file: self.name.clone(), source })?;
        let Some(piece) = piece else {
            self.end(report, is_part);
            return Ok(Step::End);
        };
        let parsed = piece.flaw.map_or_else(|| self.parser.parse(piece.bytes, names), Err);
        let parsed = parsed.and_then(|found| in_time(found, order));
        let fault = |reason| {
            let part = is_part.then(|| self.name.clone());
            Fault { part, ..Fault::new(piece.place, reason, piece.bytes) }
        };
        match parsed {
            Ok(Yield::One(record)) => {
                report.records += 1;
                return Ok(Step::Record(record));
            }
            Ok(Yield::Nothing) => report.skipped += 1,
            Ok(Yield::Many(records)) => self.block = counted(records, report),
            Ok(Yield::After(reason, records)) => {
                report.fault(|| fault(reason));
                self.block = counted(records, report);
            }
            Err(reason) => {
                report.fault(|| fault(reason));
                if let Reason::Late(_) = reason {
                    (self.late, self.late_at) = (self.late + 1, Some(piece.place));
                }
            }
        }
        Ok(Step::Nothing)
    }

    /// Notes how this part ended; a cut of one part is a cut of the trace.
    fn end(&self, report: &mut Report, is_part: bool) {
        let mut ending = self.feed.ending();
        if let (Ending::Complete, Some(reason)) = (&ending, self.parser.missing_end()) {
            ending = Ending::Cut { offset: self.feed.offset(), why: reason.to_string() };
        }
        if let Ending::Cut { why, .. } = &mut ending
            && is_part
        {
            *why = format!("{}: {why}", self.name);
        }
        if !matches!(report.ending, Ending::Cut { .. }) {
            report.ending = ending;
        }
    }
}

fn counted(records: Vec<Record>, report: &mut Report) -> vec::IntoIter<Record> {
    report.records += records.len() as u64;
    records.into_iter()
}

/// `found`, unless it comes too late to be sorted in.
fn in_time(found: Yield, order: Option<&Order>) -> Result<Yield, Reason> {
    let is_late = |record: &Record| order.is_some_and(|order| order.is_late(record));
    let late = match &found {
        Yield::One(record) => is_late(record),
        Yield::Many(records) => records.iter().any(is_late),
        Yield::Nothing | Yield::After(..) => false,
    };
    if late { Err(Reason::Late(WINDOW)) } else { Ok(found) }
}
