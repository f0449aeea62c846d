//! The parser of one trace or part: where a format's own state lives while it is read.

use super::blk::Stage;
use super::rows::Layout;
use super::{
    Family, Format, biosnoop, blkparse, blktrace, cachelib, ebt, fio, hfplayer, ids, load, measured, octf, oracle,
    vscsi,
};
use crate::fault::Reason;
use crate::input::Unit;
use crate::names::Names;
use crate::record::Record;

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

impl From<Option<Record>> for Yield {
    fn from(record: Option<Record>) -> Yield {
        record.map_or(Yield::Nothing, Yield::One)
    }
}

/// The parser of one trace or part. Times are as in the trace, in ns; the reader makes them relative and monotone.
#[derive(Debug)]
pub(crate) enum Parser {
    Load(load::Parser),
    Vscsi(vscsi::Version),
    Oracle,
    Rows(&'static Layout),
    Fio(fio::Parser),
    Blkparse(blkparse::Parser),
    Blktrace(Stage),
    Octf(octf::Parser),
    Ebt(ebt::Parser),
    Measured(measured::Parser),
    Ids,
    Biosnoop(biosnoop::Parser),
    Cachelib(cachelib::Parser),
    Hfplayer(hfplayer::Parser),
}

impl Parser {
    /// A parser of `format`, in which events of the stage `counted` are the requests if there are several stages.
    pub fn new(format: Format, counted: Stage) -> Parser {
        match format.family() {
            Family::Load => Parser::Load(load::Parser::default()),
            Family::Vscsi(version) => Parser::Vscsi(version),
            Family::Oracle => Parser::Oracle,
            Family::Rows(layout) => Parser::Rows(layout),
            Family::Fio(version) => Parser::Fio(fio::Parser::new(version)),
            Family::Measured => Parser::Measured(measured::Parser::default()),
            Family::Ids => Parser::Ids,
            Family::Blkparse => Parser::Blkparse(blkparse::Parser::new(counted)),
            Family::Blktrace => Parser::Blktrace(counted),
            Family::Octf => Parser::Octf(octf::Parser::default()),
            Family::Biosnoop => Parser::Biosnoop(biosnoop::Parser::default()),
            Family::Cachelib => Parser::Cachelib(cachelib::Parser::default()),
            Family::Hfplayer => Parser::Hfplayer(hfplayer::Parser::default()),
            Family::Ebt => Parser::Ebt(ebt::Parser::default()),
        }
    }

    pub fn unit(&self) -> Unit {
        match self {
            Parser::Load(_) | Parser::Rows(_) | Parser::Fio(_) | Parser::Blkparse(_) => Unit::Line,
            Parser::Measured(_) | Parser::Biosnoop(_) | Parser::Cachelib(_) | Parser::Hfplayer(_) => Unit::Line,
            Parser::Ids => Unit::Bytes(ids::RECORD_BYTES),
            Parser::Vscsi(version) => Unit::Bytes(version.record_bytes()),
            Parser::Oracle => Unit::Bytes(oracle::RECORD_BYTES),
            Parser::Blktrace(_) => Unit::Frame(&blktrace::FRAMING),
            Parser::Octf(_) => Unit::Frame(&octf::FRAMING),
            Parser::Ebt(_) => Unit::Frame(&ebt::FRAMING),
        }
    }

    /// What one line, record or block holds.
    pub fn parse(&mut self, piece: &[u8], names: &mut Names) -> Result<Yield, Reason> {
        match self {
            Parser::Load(parser) => parser.parse(piece).map(Yield::from),
            Parser::Vscsi(version) => vscsi::parse(*version, piece).map(Yield::from),
            Parser::Oracle => oracle::parse(piece).map(Yield::One),
            Parser::Rows(layout) => layout.parse(piece, names).map(Yield::from),
            Parser::Fio(parser) => parser.parse(piece, names).map(Yield::from),
            Parser::Blkparse(parser) => parser.parse(piece, names),
            Parser::Blktrace(counted) => blktrace::parse(*counted, piece, names),
            Parser::Octf(parser) => parser.parse(piece, names),
            Parser::Ebt(parser) => parser.parse(piece, names),
            Parser::Measured(parser) => parser.parse(piece).map(Yield::from),
            Parser::Ids => ids::parse(piece).map(Yield::One),
            Parser::Biosnoop(parser) => parser.parse(piece, names),
            Parser::Cachelib(parser) => parser.parse(piece),
            Parser::Hfplayer(parser) => parser.parse(piece, names).map(Yield::from),
        }
    }

    /// The comment at the top of the trace, if the format has one.
    pub fn comment(&self) -> &[u8] {
        match self {
            Parser::Load(parser) => parser.comment(),
            Parser::Ebt(parser) => parser.comment(),
            _ => &[],
        }
    }

    /// Why a trace that ended without one record or fault is not of this format.
    pub fn missing_mark(&self) -> Option<Reason> {
        match self {
            Parser::Load(parser) => parser.missing_mark(),
            Parser::Biosnoop(parser) => parser.missing_mark(),
            Parser::Cachelib(parser) => parser.missing_mark(),
            Parser::Hfplayer(parser) => parser.missing_mark(),
            _ => None,
        }
    }

    /// What shows, at the end of the data, that there should be more.
    pub fn missing_end(&self) -> Option<Reason> {
        match self {
            Parser::Ebt(parser) if !parser.is_ended() => Some(Reason::NoEnd),
            _ => None,
        }
    }
}
