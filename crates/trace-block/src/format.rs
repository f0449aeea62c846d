//! The formats. Each module holds one family: its layout, its parser and its encoder.

pub(crate) mod biosnoop;
pub(crate) mod blk;
pub(crate) mod blkparse;
pub(crate) mod blktrace;
pub(crate) mod cachelib;
pub mod detect;
pub(crate) mod ebt;
pub(crate) mod encoder;
pub(crate) mod facts;
pub(crate) mod fields;
pub(crate) mod fio;
pub(crate) mod foreign;
pub(crate) mod hfplayer;
pub(crate) mod ids;
pub(crate) mod load;
pub(crate) mod measured;
pub(crate) mod named;
pub(crate) mod octf;
pub(crate) mod oracle;
pub(crate) mod parser;
pub(crate) mod rows;
pub(crate) mod varint;
pub(crate) mod vscsi;

use blk::Stage;
use esker_base::Nanos;
pub(crate) use parser::{Parser, Yield};
use rows::Layout;
use std::fmt;
use std::str::FromStr;

/// A trace format. See `docs/reference/formats/block-traces.md` for columns, bytes and what may lie.
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
    /// DiskSim's validation traces: text, measured service times and the idle times between them.
    DisksimMeasured,
    /// ARC `.lis`: text, runs of pages, neither times nor operations.
    Arc,
    /// Block numbers of 4 bytes: neither times nor operations.
    Ids,
    /// blkparse's default text: times in ns, sectors, several devices.
    Blkparse,
    /// blktrace's binary records: times in ns, sectors, several devices.
    Blktrace,
    /// Open CAS Telemetry Framework: protocol buffers, times in ns, sectors, several devices.
    Octf,
    /// The text of bcc's biosnoop: times in µs of completions, latencies, several devices.
    Biosnoop,
    /// CacheLib's CSV of a block store: text, times in s, named blocks.
    Cachelib,
    /// hfplayer's CSV of a storage controller: text, times in ns, arrivals and completions, several volumes.
    Hfplayer,
    /// Esker's own: columns in blocks with an index, everything exact.
    Ebt,
}

impl Format {
    /// All formats.
    pub const ALL: [Format; 22] = [
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
        Format::DisksimMeasured,
        Format::Arc,
        Format::Ids,
        Format::Blkparse,
        Format::Blktrace,
        Format::Octf,
        Format::Biosnoop,
        Format::Cachelib,
        Format::Hfplayer,
        Format::Ebt,
    ];

    /// The word for this format on the command line.
    pub fn name(self) -> &'static str {
        self.facts().name
    }

    /// All names, separated by commas, for messages.
    pub fn names() -> String {
        Format::ALL.map(Format::name).join(", ")
    }

    /// The formats that Esker also writes.
    pub fn written() -> impl Iterator<Item = Format> {
        Format::ALL.into_iter().filter(|format| format.is_written())
    }

    /// The names of the formats that Esker also writes, separated by commas, for messages.
    pub fn written_names() -> String {
        Format::written().map(Format::name).collect::<Vec<_>>().join(", ")
    }

    /// Whether traces in this format say when requests came. `fio2` traces hold pauses at most, and count as traces
    /// without times.
    pub fn has_times(self) -> bool {
        self.facts().has_times
    }

    /// The step of recorded times; of formats without times, the step in which a reader counts.
    pub fn time_resolution(self) -> Nanos {
        self.facts().resolution
    }

    /// Whether traces in this format tell reads from writes; otherwise all their requests are taken for reads.
    pub fn has_operations(self) -> bool {
        self.facts().has_operations
    }

    /// Whether the format tells volumes apart; otherwise a trace is one volume.
    pub fn has_volumes(self) -> bool {
        self.facts().has_volumes
    }

    /// Whether a trace may be several files, one for each CPU, that are read as one.
    pub fn has_parts(self) -> bool {
        self.facts().has_parts
    }

    /// Whether Esker writes this format too. It does not write what would need facts that no request holds, such as
    /// measured service times.
    pub fn is_written(self) -> bool {
        self.facts().is_written
    }

    /// What reads and writes the format.
    pub(crate) fn family(self) -> Family {
        match self {
            Format::Load => Family::Load,
            Format::Vscsi1 => Family::Vscsi(vscsi::Version::V1),
            Format::Vscsi2 => Family::Vscsi(vscsi::Version::V2),
            Format::OracleGeneral => Family::Oracle,
            Format::Msr => Family::Rows(&rows::MSR),
            Format::Fio2 => Family::Fio(fio::Version::V2),
            Format::Fio3 => Family::Fio(fio::Version::V3),
            Format::Alibaba => Family::Rows(&rows::ALIBABA),
            Format::Tencent => Family::Rows(&rows::TENCENT),
            Format::Fiu => Family::Rows(&rows::FIU),
            Format::Mqsim => Family::Rows(&rows::MQSIM),
            Format::Disksim => Family::Rows(&rows::DISKSIM),
            Format::DisksimMeasured => Family::Measured,
            Format::Arc => Family::Rows(&rows::ARC),
            Format::Ids => Family::Ids,
            Format::Blkparse => Family::Blkparse,
            Format::Blktrace => Family::Blktrace,
            Format::Octf => Family::Octf,
            Format::Biosnoop => Family::Biosnoop,
            Format::Cachelib => Family::Cachelib,
            Format::Hfplayer => Family::Hfplayer,
            Format::Ebt => Family::Ebt,
        }
    }

    /// The first stage of requests that occurs in the beginning of a trace, where the format records several.
    pub(crate) fn first_stage(self, head: &[u8]) -> Option<Stage> {
        match self.family() {
            Family::Blkparse => blkparse::first_stage(head),
            Family::Blktrace => blktrace::first_stage(head),
            Family::Load | Family::Vscsi(_) | Family::Oracle | Family::Rows(_) | Family::Fio(_) => None,
            Family::Measured | Family::Ids | Family::Octf | Family::Biosnoop | Family::Cachelib => None,
            Family::Hfplayer | Family::Ebt => None,
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Formats that one module reads.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Family {
    Load,
    Vscsi(vscsi::Version),
    Oracle,
    /// Fixed columns.
    Rows(&'static Layout),
    Fio(fio::Version),
    Measured,
    Ids,
    Blkparse,
    Blktrace,
    Octf,
    Biosnoop,
    Cachelib,
    Hfplayer,
    Ebt,
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
