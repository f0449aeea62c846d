//! The parser of one trace or part: where a format's own state lives while it is read.

use crate::fault::Reason;
use crate::names::Names;
use crate::record::Record;
use std::fmt;

/// What a line, record or block of a trace holds.
#[derive(Debug)]
pub(crate) enum Yield {
    /// No request, rightly.
    Nothing,
    One(Record),
    Many(Vec<Record>),
    /// Something is missing before these.
    After(Reason, Vec<Record>),
}

impl Yield {
    /// The same, asked for by a process.
    pub(crate) fn of_process(mut self, who: u32) -> Yield {
        match &mut self {
            Yield::Nothing => {}
            Yield::One(record) => record.who = who,
            Yield::Many(records) | Yield::After(_, records) => records.iter_mut().for_each(|record| record.who = who),
        }
        self
    }
}

impl From<Option<Record>> for Yield {
    fn from(record: Option<Record>) -> Yield {
        record.map_or(Yield::Nothing, Yield::One)
    }
}

/// The parser of one trace or part. Times are as in the trace, in ns; the reader makes them relative and monotone.
pub(crate) trait Parser: fmt::Debug + Send {
    /// What one line, record or block holds.
    fn parse(&mut self, piece: &[u8], names: &mut Names) -> Result<Yield, Reason>;

    /// The comment at the top of the trace, if the format has one.
    fn comment(&self) -> &[u8] {
        &[]
    }

    /// Why a trace that ended without one record or fault is not of this format.
    fn missing_mark(&self) -> Option<Reason> {
        None
    }

    /// What shows, at the end of the data, that there should be more.
    fn missing_end(&self) -> Option<Reason> {
        None
    }
}
