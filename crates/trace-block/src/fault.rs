//! What was wrong with a trace: single faults (counted, the first ones kept), how it ended, and fatal errors.

use crate::format::Format;
use std::fmt;
use std::io;

/// How many faults a [`Report`] keeps with their text; all are counted.
pub const FAULTS_KEPT: usize = 20;

/// Longest excerpt of an offending line or record, in characters.
const EXCERPT_MAX: usize = 80;

/// Where in a trace (after unpacking) something stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TracePosition {
    /// Line of a text format, counted from 1.
    Line(u64),
    /// Byte offset in a binary format.
    Offset(u64),
}

impl fmt::Display for TracePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TracePosition::Line(n) => write!(f, "line {n}"),
            TracePosition::Offset(n) => write!(f, "byte {n}"),
        }
    }
}

/// Why a line or record is not a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// Too few columns.
    #[error("{found} columns where {needed} are needed")]
    Columns {
        /// Columns on the line.
        found: usize,
        /// Columns that the format needs.
        needed: usize,
    },
    /// An empty column.
    #[error("the {0} is missing")]
    Missing(&'static str),
    /// A column that should be a whole number.
    #[error("the {0} is not a number")]
    NotNumber(&'static str),
    /// A negative number.
    #[error("the {0} is negative")]
    Negative(&'static str),
    /// A number, in its unit, beyond 64 bits.
    #[error("the {0} does not fit in 64 bits")]
    TooLarge(&'static str),
    /// An operation that the format does not have.
    #[error("unknown operation; expected {0}")]
    UnknownOp(&'static str),
    /// A transfer or discard of no bytes.
    #[error("the length is 0")]
    Empty,
    /// A range whose end does not fit.
    #[error("the range ends beyond 2^64 bytes")]
    RangeOverflow,
    /// A line that is no line.
    #[error("the line is longer than {0} bytes")]
    LineTooLong(usize),
    /// A binary record without its version mark.
    #[error("record version {found} where {needed} is needed")]
    Version {
        /// Version in the record.
        found: u8,
        /// Version of the format.
        needed: u8,
    },
    /// The table of volume names is full.
    #[error("more than {0} different volume names")]
    TooManyVolumes(usize),
    /// A number beyond what a line can mean.
    #[error("the {what} is more than {most}")]
    Beyond {
        /// What is too large.
        what: &'static str,
        /// The most that it may be.
        most: u64,
    },
    /// No line that names the columns.
    #[error("no line names the columns, such as `{0}`")]
    NoColumns(&'static str),
    /// A comment that never ends.
    #[error("no line `start ; sector ; length ; op` in the first {0} lines")]
    NoHeader(u64),
    /// The mark of the format is not on the first line.
    #[error("the first line is not `{0}`")]
    NoMagic(&'static str),
    /// A number where its meaning is not known.
    #[error("unknown {0}")]
    Unknown(&'static str),
    /// Bytes that begin no record of a format whose records begin with a mark.
    #[error("no record starts here; passed over up to the next one")]
    NoMark,
    /// Bytes that are no protocol buffer.
    #[error("the bytes are no event of OCTF")]
    NotMessage,
    /// A checksum that does not fit.
    #[error("the checksum does not fit: the bytes are damaged")]
    Checksum,
    /// A block that has its checksum but not its meaning.
    #[error("the block contradicts its header")]
    Columnar,
    /// Features that a newer program brought.
    #[error("features {0:#x} are not known; read the trace with a newer esker")]
    Features(u32),
    /// Records are missing before a block.
    #[error("record {found} comes where {expected} should")]
    Gap {
        /// Number of the record that should come.
        expected: u64,
        /// Number of the record that comes.
        found: u64,
    },
    /// The last part of a trace is missing.
    #[error("the end mark is missing: the writer was stopped, or the tail was lost")]
    NoEnd,
    /// Events that the recorder had no room for.
    #[error("{0} events are missing here: the recorder had no room for them")]
    Unrecorded(u64),
    /// A record whose place in time was given out long ago.
    #[error("the time is before that of a record {0} places ahead or more, too far to be sorted in")]
    Late(usize),
}

/// One line or record that was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The part of a trace of several files, if it is one.
    pub part: Option<String>,
    /// Where it stands.
    pub place: TracePosition,
    /// Why it is not a request.
    pub reason: Reason,
    /// Its text (or bytes in hexadecimal), shortened and without control characters.
    pub excerpt: String,
}

impl Fault {
    pub(crate) fn new(place: TracePosition, reason: Reason, raw: &[u8]) -> Fault {
        let excerpt = match place {
            TracePosition::Line(_) => text_excerpt(raw),
            TracePosition::Offset(_) => hex_excerpt(raw),
        };
        Fault { part: None, place, reason, excerpt }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(part) = &self.part {
            write!(f, "{part}: ")?;
        }
        write!(f, "{}: {}: \"{}\"", self.place, self.reason, self.excerpt)
    }
}

fn text_excerpt(raw: &[u8]) -> String {
    let head = &raw[..raw.len().min(4 * EXCERPT_MAX)];
    let text = String::from_utf8_lossy(head);
    let mut out: String =
        text.trim().chars().take(EXCERPT_MAX).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if raw.len() > head.len() || text.trim().chars().count() > EXCERPT_MAX {
        out.push('…');
    }
    out
}

fn hex_excerpt(raw: &[u8]) -> String {
    raw.iter().take(EXCERPT_MAX / 2).map(|b| format!("{b:02x}")).collect()
}

/// How a trace ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Ending {
    /// Records may follow.
    #[default]
    NotReached,
    /// At a whole record or line.
    Complete,
    /// In the middle: truncated or damaged. Everything before was delivered.
    Cut {
        /// Bytes (after unpacking) that were delivered as whole lines or records.
        offset: u64,
        /// What shows that something is missing.
        why: String,
    },
}

/// What a reader found besides records, so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Records found.
    pub records: u64,
    /// Lines or records that rightly hold no request: comments, file openings, other SCSI commands.
    pub skipped: u64,
    /// Lines or records left out because they are malformed.
    pub malformed: u64,
    /// The first [`FAULTS_KEPT`] of the malformed ones.
    pub faults: Vec<Fault>,
    /// Records whose time was before an earlier record's and was set to that.
    pub times_clamped: u64,
    /// How the trace ended.
    pub ending: Ending,
}

impl Report {
    pub(crate) fn fault(&mut self, fault: impl FnOnce() -> Fault) {
        self.malformed += 1;
        if self.faults.len() < FAULTS_KEPT {
            self.faults.push(fault());
        }
    }

    /// Whether the trace was read to its end without a fault or a changed time.
    pub fn is_clean(&self) -> bool {
        self.malformed == 0 && self.times_clamped == 0 && self.ending == Ending::Complete
    }
}

impl fmt::Display for Report {
    /// One line of counts, then one line for each problem.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} records, {} lines or records without a request", self.records, self.skipped)?;
        if self.malformed > 0 {
            write!(f, "\n{} malformed and left out:", self.malformed)?;
        }
        for fault in &self.faults {
            write!(f, "\n  {fault}")?;
        }
        if self.malformed > self.faults.len() as u64 {
            write!(f, "\n  and {} more", self.malformed - self.faults.len() as u64)?;
        }
        if self.times_clamped > 0 {
            write!(f, "\n{} times ran backwards and were set to the latest time before", self.times_clamped)?;
        }
        if let Ending::Cut { offset, why } = &self.ending {
            write!(f, "\nthe trace is cut off after byte {offset} (unpacked): {why}; what came before was read")?;
        }
        Ok(())
    }
}

/// A trace that cannot be read (further).
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The operating system failed a read.
    #[error("{file}: cannot be read: {source}")]
    Io {
        /// Name of the trace.
        file: String,
        /// The system's error.
        source: io::Error,
    },
    /// No byte at all.
    #[error("{file}: is empty; give a trace that holds at least one record")]
    Empty {
        /// Name of the trace.
        file: String,
    },
    /// Not one byte can be unpacked.
    #[error("{file}: nothing can be read: {why}; fetch the trace again")]
    Damaged {
        /// Name of the trace.
        file: String,
        /// What the unpacker says.
        why: String,
    },
    /// Neither the name nor the first bytes tell the format.
    #[error(
        "{file}: the format is not recognised; {hint}name it with --from, one of: {names}; or record the disk with blktrace",
        names = Format::names()
    )]
    Unrecognised {
        /// Name of the trace.
        file: String,
        /// What to try first: empty, or a part of a sentence that ends in `; else `.
        hint: &'static str,
    },
    /// A file that is known and holds no block requests.
    #[error("{file}: is {what}. {advice}.")]
    Foreign {
        /// Name of the file.
        file: String,
        /// What it is.
        what: &'static str,
        /// What to use or record instead: one sentence without its full stop.
        advice: &'static str,
    },
    /// A packing that is not undone here.
    #[error("{file}: is packed with {method}; unpack it first (gzip, zstd, xz and bzip2 are unpacked on the fly)")]
    Packed {
        /// Name of the trace.
        file: String,
        /// Name of the packing program.
        method: &'static str,
    },
    /// Most of the beginning does not fit the format.
    #[error(transparent)]
    WrongFormat(Box<WrongFormat>),
    /// Several files in a format whose traces are one.
    #[error("{file}: several files make no trace in format {format}; give one of them")]
    NoParts {
        /// Name of the trace.
        file: String,
        /// Its format.
        format: Format,
    },
    /// Too many records come too late to be sorted in.
    #[error(
        "{file}: is not in order of time: {late} of {records} records come more than {window} places late, the last at {place}; \
         {advice}"
    )]
    OutOfOrder {
        /// Name of the trace or part.
        file: String,
        /// How many came too late.
        late: u64,
        /// Records so far.
        records: u64,
        /// How late a record may come.
        window: usize,
        /// Where the last late one stands.
        place: TracePosition,
        /// What to do.
        advice: &'static str,
    },
    /// A merge needs one volume for each trace.
    #[error("{file}: holds several volumes ({first}, {second}, ...), one is needed; select one of them by name")]
    SeveralVolumes {
        /// Name of the trace.
        file: String,
        /// The volume of its first record.
        first: String,
        /// Another volume.
        second: String,
    },
    /// The volume to select does not occur.
    #[error("{file}: has no volume \"{wanted}\"; it has: {present}")]
    NoSuchVolume {
        /// Name of the trace.
        file: String,
        /// The volume asked for.
        wanted: String,
        /// The volumes that occur.
        present: String,
    },
}

/// The beginning of a trace does not fit the format it was read as.
#[derive(Debug, thiserror::Error)]
#[error("{file}: is not a trace in format {format}: {fault} ({bad} of the first {judged} do not fit); {}", hint(self))]
pub struct WrongFormat {
    /// Name of the trace.
    pub file: String,
    /// The format it was read as.
    pub format: Format,
    /// The format that its beginning looks like, if another one.
    pub looks_like: Option<Format>,
    /// The first misfit.
    pub fault: Fault,
    /// Misfits among the first lines or records.
    pub bad: u64,
    /// How many first lines or records were looked at.
    pub judged: u64,
}

fn hint(e: &WrongFormat) -> String {
    match e.looks_like {
        Some(other) => format!("it looks like {other}: read it as that"),
        None => format!("name the right format, one of: {}", Format::names()),
    }
}
