//! The streaming reader of all formats.

use crate::fault::{Ending, Fault, Place, Reason, Report, TraceError, WrongFormat};
use crate::format::detect::detect;
use crate::format::{Format, Parser};
use crate::input::{Feed, Input, LINE_MAX};
use crate::names::Names;
use crate::record::Record;
use crate::source::Source;
use esker_base::Nanos;
use std::collections::VecDeque;
use std::io;

/// How many lines or records are judged when a trace is opened; more than half must fit.
const JUDGED: u64 = 100;

/// Bytes shown to [`detect`].
const HEAD: usize = 16 << 10;

/// Yields the records of one trace in bounded memory.
///
/// Malformed lines and records are left out and counted in the [`Report`]; times that run backwards are set to the
/// latest time before and counted; a truncated trace yields what came before the cut. Gzip and zstd are undone.
pub struct TraceReader {
    file: String,
    format: Format,
    feed: Feed,
    parser: Parser,
    names: Names,
    clock: Clock,
    report: Report,
    /// Records that were read when the beginning was judged.
    ahead: VecDeque<Record>,
}

impl TraceReader {
    /// Opens the trace that `input` yields; `file` is its name in messages (and for [`detect`] if `format` is `None`).
    ///
    /// # Errors
    /// A failed read, no data, an unknown format, another packing than gzip and zstd, or a beginning (first 100
    /// lines or records) that mostly does not fit the format.
    pub fn open(file: &str, input: Input, format: Option<Format>) -> Result<TraceReader, TraceError> {
        let name = || file.to_string();
        let mut feed = Feed::open(file, input)?;
        let head = feed.head(HEAD).map_err(|source| TraceError::Io { file: name(), source })?;
        let detected = detect(file, head);
        if head.is_empty() {
            return Err(no_data(file, feed.ending()));
        }
        let format = format.or(detected).ok_or_else(|| TraceError::Unrecognised { file: name() })?;
        let names = if format.has_volumes() { Names::default() } else { Names::single(file) };
        let mut reader = TraceReader {
            file: name(),
            format,
            feed,
            parser: Parser::new(format),
            names,
            clock: Clock::new(format),
            report: Report::default(),
            ahead: VecDeque::new(),
        };
        reader.judge(detected.filter(|other| *other != format))?;
        Ok(reader)
    }

    /// Reads a trace that is in memory, packed or not.
    ///
    /// # Errors
    /// As [`TraceReader::open`].
    pub fn from_bytes(data: impl Into<Vec<u8>>, format: Format) -> Result<TraceReader, TraceError> {
        TraceReader::open("trace in memory", Box::new(io::Cursor::new(data.into())), Some(format))
    }

    /// The trace's name.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The trace's format.
    pub fn format(&self) -> Format {
        self.format
    }

    /// What was found so far, besides records. It runs up to 100 lines ahead of the records that were taken.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// The comment at the top of a `.load` trace (notices of authors and terms); empty for other formats.
    pub fn comment(&self) -> &[u8] {
        self.parser.comment()
    }

    /// Reads the beginning and refuses the trace if most of it does not fit.
    fn judge(&mut self, looks_like: Option<Format>) -> Result<(), TraceError> {
        while self.report.records + self.report.malformed < JUDGED {
            match self.step()? {
                Step::Record(record) => self.ahead.push_back(record),
                Step::Nothing => {}
                Step::End => break,
            }
        }
        let (good, mut bad) = (self.report.records, self.report.malformed);
        let mut fault = self.report.faults.first().cloned();
        if good + bad == 0
            && let Some(reason) = self.parser.missing_mark()
        {
            let head = self.parser.comment().split(|b| *b == b'\n').next().unwrap_or_default();
            (fault, bad) = (Some(Fault::new(Place::Line(1), reason, head)), 1);
        }
        let Some(fault) = fault.filter(|_| bad > good) else { return Ok(()) };
        let (file, format, judged) = (self.file.clone(), self.format, good + bad);
        Err(TraceError::WrongFormat(Box::new(WrongFormat { file, format, looks_like, fault, bad, judged })))
    }

    /// Takes one line or record of the data.
    fn step(&mut self) -> Result<Step, TraceError> {
        let piece = self.feed.next_piece(self.parser.unit());
        let piece = piece.map_err(|source| TraceError::Io { file: self.file.clone(), source })?;
        let Some(piece) = piece else {
            self.report.ending = self.feed.ending();
            return Ok(Step::End);
        };
        let parsed = match piece.overlong {
            true => Err(Reason::LineTooLong(LINE_MAX)),
            false => self.parser.parse(piece.bytes, &mut self.names),
        };
        match parsed {
            Ok(Some(record)) => {
                self.report.records += 1;
                let (at, is_clamped) = self.clock.relative(record.at);
                self.report.times_clamped += u64::from(is_clamped);
                return Ok(Step::Record(Record { at, ..record }));
            }
            Ok(None) => self.report.skipped += 1,
            Err(reason) => self.report.fault(|| Fault::new(piece.place, reason, piece.bytes)),
        }
        Ok(Step::Nothing)
    }
}

fn no_data(file: &str, ending: Ending) -> TraceError {
    let file = file.to_string();
    match ending {
        Ending::Cut { why, .. } => TraceError::Damaged { file, why },
        Ending::Complete | Ending::NotReached => TraceError::Empty { file },
    }
}

/// What one line or record gave.
enum Step {
    Record(Record),
    Nothing,
    End,
}

impl Source for TraceReader {
    fn next_record(&mut self) -> Result<Option<Record>, TraceError> {
        if let Some(record) = self.ahead.pop_front() {
            return Ok(Some(record));
        }
        loop {
            match self.step()? {
                Step::Record(record) => return Ok(Some(record)),
                Step::Nothing => {}
                Step::End => return Ok(None),
            }
        }
    }

    fn volumes(&self) -> &[String] {
        self.names.list()
    }

    fn name(&self) -> &str {
        &self.file
    }

    fn comment(&self) -> &[u8] {
        TraceReader::comment(self)
    }
}

impl Iterator for TraceReader {
    type Item = Result<Record, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_record().transpose()
    }
}

/// Makes a trace's times relative to its start and monotone.
struct Clock {
    /// The time that counts as 0; unknown until the first record where times are absolute.
    base: Option<Nanos>,
    last: Nanos,
}

impl Clock {
    fn new(format: Format) -> Clock {
        Clock { base: (!format.times_are_absolute()).then_some(Nanos::ZERO), last: Nanos::ZERO }
    }

    /// The time since the start, and whether it had to be raised to the one before.
    fn relative(&mut self, raw: Nanos) -> (Nanos, bool) {
        let base = *self.base.get_or_insert(raw);
        let is_backwards = raw < base || raw.saturating_sub(base) < self.last;
        self.last = self.last.max(raw.saturating_sub(base));
        (self.last, is_backwards)
    }
}
