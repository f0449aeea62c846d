//! The formats. Each module holds one family: its layout, its parser and its encoder.

pub(crate) mod blk;
pub(crate) mod blkparse;
pub(crate) mod blktrace;
pub mod detect;
pub(crate) mod ebt;
pub(crate) mod encoder;
pub(crate) mod fields;
pub(crate) mod fio;
pub(crate) mod load;
pub(crate) mod octf;
pub(crate) mod oracle;
pub(crate) mod rows;
pub(crate) mod varint;
pub(crate) mod vscsi;

use crate::fault::Reason;
use crate::input::Unit;
use crate::names::Names;
use crate::record::Record;
use blk::Stage;
use rows::Layout;
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
    /// Alibaba cloud block storage CSV: text, times in µs, several volumes.
    Alibaba,
    /// Tencent cloud block storage CSV: text, times in s, sectors, several volumes.
    Tencent,
    /// FIU (IODedup): text, times in ns, sectors, several devices.
    Fiu,
    /// MQSim: text, times in ns, sectors, several devices.
    Mqsim,
    /// DiskSim ascii: text, times in ms with a fraction, sectors, several devices.
    Disksim,
    /// ARC `.lis`: text, runs of pages, neither times nor operations.
    Arc,
    /// blkparse's default text: times in ns, sectors, several devices.
    Blkparse,
    /// blktrace's binary records: times in ns, sectors, several devices.
    Blktrace,
    /// Open CAS Telemetry Framework: protocol buffers, times in ns, sectors, several devices.
    Octf,
    /// Esker's own: columns in blocks with an index, everything exact.
    Ebt,
}

impl Format {
    /// All formats.
    pub const ALL: [Format; 17] = [
        Format::Load,
        Format::Vscsi1,
        Format::Vscsi2,
        Format::OracleGeneral,
        Format::Msr,
        Format::Fio2,
        Format::Fio3,
        Format::Alibaba,
        Format::Tencent,
        Format::Fiu,
        Format::Mqsim,
        Format::Disksim,
        Format::Arc,
        Format::Blkparse,
        Format::Blktrace,
        Format::Octf,
        Format::Ebt,
    ];

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
            Format::Alibaba => "alibaba",
            Format::Tencent => "tencent",
            Format::Fiu => "fiu",
            Format::Mqsim => "mqsim",
            Format::Disksim => "disksim",
            Format::Arc => "arc",
            Format::Blkparse => "blkparse",
            Format::Blktrace => "blktrace",
            Format::Octf => "octf",
            Format::Ebt => "ebt",
        }
    }

    /// All names, separated by commas, for messages.
    pub fn names() -> String {
        Format::ALL.map(Format::name).join(", ")
    }

    /// Whether the format tells volumes apart; otherwise a trace is one volume.
    pub fn has_volumes(self) -> bool {
        match self {
            Format::Load | Format::Vscsi1 | Format::Vscsi2 | Format::OracleGeneral => false,
            _ => self.rows().is_none_or(Layout::has_volumes),
        }
    }

    /// Whether a trace may be several files, one for each CPU, that are read as one.
    pub fn has_parts(self) -> bool {
        matches!(self, Format::Blktrace | Format::Octf)
    }

    /// The columns, if that is all there is to the format.
    pub(crate) fn rows(self) -> Option<&'static Layout> {
        match self {
            Format::Msr => Some(&rows::MSR),
            Format::Alibaba => Some(&rows::ALIBABA),
            Format::Tencent => Some(&rows::TENCENT),
            Format::Fiu => Some(&rows::FIU),
            Format::Mqsim => Some(&rows::MQSIM),
            Format::Disksim => Some(&rows::DISKSIM),
            Format::Arc => Some(&rows::ARC),
            _ => None,
        }
    }

    /// Whether times count from an instant unrelated to the trace, so that the first one is subtracted.
    pub(crate) fn times_are_absolute(self) -> bool {
        match self {
            Format::Vscsi1 | Format::Vscsi2 | Format::OracleGeneral | Format::Blktrace | Format::Octf => true,
            _ => self.rows().is_some_and(|layout| layout.is_absolute),
        }
    }

    /// Whether traces come slightly out of order, because several CPUs or machines recorded them: such a trace is sorted
    /// within a window.
    pub(crate) fn is_reordered(self) -> bool {
        matches!(
            self,
            Format::Alibaba | Format::Tencent | Format::Fiu | Format::Blkparse | Format::Blktrace | Format::Octf
        )
    }

    /// Whether requests have times.
    pub fn has_times(self) -> bool {
        !matches!(self, Format::Fio2 | Format::Arc)
    }

    /// Step of recorded times.
    pub fn time_resolution(self) -> esker_base::Nanos {
        match self {
            Format::OracleGeneral | Format::Tencent => esker_base::Nanos::secs(1),
            _ => esker_base::Nanos(1),
        }
    }

    /// Whether requests are told to be reads or writes.
    pub fn has_operations(self) -> bool {
        !matches!(self, Format::OracleGeneral | Format::Arc)
    }

    /// What to do about a trace that is further out of order than can be mended.
    pub(crate) fn sorting_advice(self) -> &'static str {
        match self {
            Format::Alibaba => "sort it first: sort -t, -k5,5n",
            Format::Tencent => "sort it first: sort -t, -k1,1n",
            Format::Blkparse => "sort it first: sort -k4,4n",
            Format::Blktrace => "give the files of all CPUs unjoined, or merge them with blkparse",
            Format::Octf => "give the folder with the files of all queues unjoined",
            _ => "sort it by time first: sort -n",
        }
    }

    /// The first stage of requests that occurs in the beginning of a trace, where the format records several.
    pub(crate) fn first_stage(self, head: &[u8]) -> Option<Stage> {
        match self {
            Format::Blkparse => blkparse::first_stage(head),
            Format::Blktrace => blktrace::first_stage(head),
            _ => None,
        }
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
}

impl Parser {
    /// A parser of `format`, in which events of the stage `counted` are the requests if there are several stages.
    pub fn new(format: Format, counted: Stage) -> Parser {
        if let Some(layout) = format.rows() {
            return Parser::Rows(layout);
        }
        match format {
            Format::Vscsi1 => Parser::Vscsi(vscsi::Version::V1),
            Format::Vscsi2 => Parser::Vscsi(vscsi::Version::V2),
            Format::OracleGeneral => Parser::Oracle,
            Format::Fio2 => Parser::Fio(fio::Parser::new(fio::Version::V2)),
            Format::Fio3 => Parser::Fio(fio::Parser::new(fio::Version::V3)),
            Format::Blkparse => Parser::Blkparse(blkparse::Parser::new(counted)),
            Format::Blktrace => Parser::Blktrace(counted),
            Format::Octf => Parser::Octf(octf::Parser::default()),
            Format::Ebt => Parser::Ebt(ebt::Parser::default()),
            _ => Parser::Load(load::Parser::default()),
        }
    }

    pub fn unit(&self) -> Unit {
        match self {
            Parser::Load(_) | Parser::Rows(_) | Parser::Fio(_) | Parser::Blkparse(_) => Unit::Line,
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

/// What a volume without a name is called.
pub(crate) fn unnamed(number: u32) -> String {
    format!("volume{number}")
}

/// `name`, or with another `attempt` a name that tells volume `number` from others called alike.
pub(crate) fn numbered(name: &str, number: u32, attempt: u32) -> String {
    format!("{name}{}", format!("_{number}").repeat(attempt as usize))
}

/// Major and minor number (of 12 and 20 bits, as in Linux) for a volume called `M,m`, or else made of its own number.
pub(crate) fn major_minor(name: &str, number: u32, attempt: u32) -> [u32; 2] {
    let fits = |text: &str, bits: u32| text.parse::<u32>().ok().filter(|n| n >> bits == 0);
    let own = name.split_once(',').and_then(|(major, minor)| Some([fits(major, 12)?, fits(minor, 20)?]));
    own.filter(|_| attempt == 0).unwrap_or([0, number + attempt])
}
