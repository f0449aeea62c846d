//! The formats. Each module holds one family: its layout, its parser, its encoder and its [`FormatInfo`].

#![deny(clippy::cast_possible_truncation)]

pub(crate) mod biosnoop;
pub(crate) mod blk;
pub(crate) mod blkparse;
pub(crate) mod blktrace;
pub(crate) mod cachelib;
pub mod detect;
pub(crate) mod ebt;
pub(crate) mod encoder;
pub(crate) mod fields;
pub(crate) mod fio;
pub(crate) mod foreign;
pub(crate) mod hfplayer;
pub(crate) mod ids;
pub(crate) mod info;
pub(crate) mod load;
pub(crate) mod measured;
pub(crate) mod named;
pub(crate) mod octf;
pub(crate) mod oracle;
pub(crate) mod parser;
pub(crate) mod rows;
pub(crate) mod varint;
pub(crate) mod vscsi;

use esker_base::Nanos;
pub use info::About;
use info::FormatInfo;
pub(crate) use parser::{Parser, Yield};
use std::fmt;
use std::str::FromStr;

/// Names each format and where its [`FormatInfo`] stands.
macro_rules! formats {
    ($( $(#[$doc:meta])* $name:ident = $info:path; )*) => {
        /// A trace format. See `docs/reference/formats/block-traces.md` for columns, bytes and what may lie.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Format { $( $(#[$doc])* $name ),* }

        impl Format {
            /// All formats.
            pub const ALL: [Format; [$( stringify!($name) ),*].len()] = [$( Format::$name ),*];

            /// What is to be known of the format.
            pub(crate) fn info(self) -> &'static FormatInfo {
                match self { $( Format::$name => &$info ),* }
            }
        }
    };
}

formats! {
    /// blkreplay `.load`: text, times in ns, sectors of 512 bytes.
    Load = load::INFO;
    /// CloudPhysics vscsi version 1: 32-byte binary records, times in µs.
    Vscsi1 = vscsi::V1;
    /// CloudPhysics vscsi version 2: 40-byte binary records, times in µs.
    Vscsi2 = vscsi::V2;
    /// libCacheSim oracleGeneral: 24-byte binary records, times in s, no operation.
    OracleGeneral = oracle::INFO;
    /// MSR Cambridge CSV: text, times in 100 ns, several disks.
    Msr = rows::msr::INFO;
    /// fio iolog version 2: text, no times, several files.
    Fio2 = fio::V2;
    /// fio iolog version 3: text, times in µs, several files.
    Fio3 = fio::V3;
    /// Alibaba cloud block storage CSV: text, times in µs, several volumes.
    Alibaba = rows::alibaba::INFO;
    /// Tencent cloud block storage CSV: text, times in s, sectors, several volumes.
    Tencent = rows::tencent::INFO;
    /// FIU (IODedup): text, times in ns, sectors, several devices.
    Fiu = rows::fiu::INFO;
    /// MQSim: text, times in ns, sectors, several devices.
    Mqsim = rows::mqsim::INFO;
    /// DiskSim ascii: text, times in ms with a fraction, sectors, several devices.
    Disksim = rows::disksim::INFO;
    /// DiskSim's validation traces: text, measured service times and the idle times between them.
    DisksimMeasured = measured::INFO;
    /// ARC `.lis`: text, runs of pages, neither times nor operations.
    Arc = rows::arc::INFO;
    /// Block numbers of 4 bytes: neither times nor operations.
    Ids = ids::INFO;
    /// blkparse's default text: times in ns, sectors, several devices.
    Blkparse = blkparse::INFO;
    /// blktrace's binary records: times in ns, sectors, several devices.
    Blktrace = blktrace::INFO;
    /// Open CAS Telemetry Framework: protocol buffers, times in ns, sectors, several devices.
    Octf = octf::INFO;
    /// The text of bcc's biosnoop: times in µs of completions, latencies, several devices.
    Biosnoop = biosnoop::INFO;
    /// CacheLib's CSV of a block store: text, times in s, named blocks.
    Cachelib = cachelib::INFO;
    /// hfplayer's CSV of a storage controller: text, times in ns, arrivals and completions, several volumes.
    Hfplayer = hfplayer::INFO;
    /// Esker's own: columns in blocks with an index, everything exact.
    Ebt = ebt::INFO;
}

impl Format {
    /// The word for this format on the command line.
    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// What pages say of it.
    pub fn about(self) -> About {
        self.info().about
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
        self.info().has_times
    }

    /// The step of recorded times; of formats without times, the step in which a reader counts.
    pub fn time_resolution(self) -> Nanos {
        self.info().resolution
    }

    /// Whether traces in this format tell reads from writes; otherwise all their requests are taken for reads.
    pub fn has_operations(self) -> bool {
        self.info().has_operations
    }

    /// Whether the format tells volumes apart; otherwise a trace is one volume.
    pub fn has_volumes(self) -> bool {
        self.info().has_volumes
    }

    /// Whether a trace may be several files, one for each CPU, that are read as one.
    pub fn has_parts(self) -> bool {
        self.info().has_parts
    }

    /// Whether Esker writes this format too. It does not write what would need facts that no request holds, such as
    /// measured service times.
    pub fn is_written(self) -> bool {
        self.info().encoder.is_some()
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
