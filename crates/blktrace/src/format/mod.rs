//! The formats. Each module holds one family: its layout, its parser and its encoder.

pub mod detect;
pub(crate) mod fields;
pub(crate) mod fio;
pub(crate) mod load;
pub(crate) mod msr;
pub(crate) mod oracle;
pub(crate) mod vscsi;

use crate::fault::Reason;
use crate::input::Unit;
use crate::names::Names;
use crate::record::Record;
use std::fmt;
use std::str::FromStr;

/// A trace format. See `docs/formats/block-traces.md` for columns, bytes and what may lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Format {
    /// blkreplay `.load`: text, times in ns, sectors of 512 bytes.
    Load,
    /// CloudPhysics vscsi version 1: 32-byte binary records, times in µs.
    Vscsi1,
    /// CloudPhysics vscsi version 2: 40-byte binary records, times in µs.
    Vscsi2,
    /// libCacheSim oracleGeneral: 24-byte binary records, times in s, no operation.
    OracleGeneral,
    /// MSR Cambridge CSV: text, times in 100 ns, several disks.
    Msr,
    /// fio iolog version 2: text, no times, several files.
    Fio2,
    /// fio iolog version 3: text, times in µs, several files.
    Fio3,
}

impl Format {
    /// All formats.
    pub const ALL: [Format; 7] =
        [Format::Load, Format::Vscsi1, Format::Vscsi2, Format::OracleGeneral, Format::Msr, Format::Fio2, Format::Fio3];

    /// The word for this format on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Format::Load => "load",
            Format::Vscsi1 => "vscsi1",
            Format::Vscsi2 => "vscsi2",
            Format::OracleGeneral => "oracle-general",
            Format::Msr => "msr",
            Format::Fio2 => "fio2",
            Format::Fio3 => "fio3",
        }
    }

    /// All names, separated by commas, for messages.
    pub fn names() -> String {
        Format::ALL.map(Format::name).join(", ")
    }

    /// Whether the format tells volumes apart; otherwise a trace is one volume.
    pub fn has_volumes(self) -> bool {
        matches!(self, Format::Msr | Format::Fio2 | Format::Fio3)
    }

    /// Whether times count from an instant unrelated to the trace, so that the first one is subtracted.
    pub(crate) fn times_are_absolute(self) -> bool {
        matches!(self, Format::Vscsi1 | Format::Vscsi2 | Format::OracleGeneral | Format::Msr)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A word that names no format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is no trace format; use one of: {names}", names = Format::names())]
pub struct UnknownFormat(String);

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Format, UnknownFormat> {
        Format::ALL.into_iter().find(|f| f.name() == text).ok_or_else(|| UnknownFormat(text.to_string()))
    }
}

/// The parser of one trace. Times are as in the trace, in ns; the reader makes them relative and monotone.
#[derive(Debug)]
pub(crate) enum Parser {
    Load(load::Parser),
    Vscsi(vscsi::Version),
    Oracle,
    Msr,
    Fio(fio::Parser),
}

impl Parser {
    pub fn new(format: Format) -> Parser {
        match format {
            Format::Load => Parser::Load(load::Parser::default()),
            Format::Vscsi1 => Parser::Vscsi(vscsi::Version::V1),
            Format::Vscsi2 => Parser::Vscsi(vscsi::Version::V2),
            Format::OracleGeneral => Parser::Oracle,
            Format::Msr => Parser::Msr,
            Format::Fio2 => Parser::Fio(fio::Parser::new(fio::Version::V2)),
            Format::Fio3 => Parser::Fio(fio::Parser::new(fio::Version::V3)),
        }
    }

    pub fn unit(&self) -> Unit {
        match self {
            Parser::Load(_) | Parser::Msr | Parser::Fio(_) => Unit::Line,
            Parser::Vscsi(version) => Unit::Bytes(version.record_bytes()),
            Parser::Oracle => Unit::Bytes(oracle::RECORD_BYTES),
        }
    }

    /// The request of one line or record, or `None` if it rightly holds none.
    pub fn parse(&mut self, piece: &[u8], names: &mut Names) -> Result<Option<Record>, Reason> {
        match self {
            Parser::Load(parser) => parser.parse(piece),
            Parser::Vscsi(version) => vscsi::parse(*version, piece),
            Parser::Oracle => oracle::parse(piece).map(Some),
            Parser::Msr => msr::parse(piece, names),
            Parser::Fio(parser) => parser.parse(piece, names),
        }
    }

    /// The comment at the top of the trace, if the format has one.
    pub fn comment(&self) -> &[u8] {
        match self {
            Parser::Load(parser) => parser.comment(),
            _ => &[],
        }
    }

    /// Why a trace that ended without one record or fault is not of this format.
    pub fn missing_mark(&self) -> Option<Reason> {
        match self {
            Parser::Load(parser) => parser.missing_mark(),
            _ => None,
        }
    }
}
