//! The streaming reader of all formats.

use crate::fault::{Ending, Fault, Report, TraceError, TracePosition, WrongFormat};
use crate::format::blk::{STAGE_HEAD, Stage};
use crate::format::detect::detect;
use crate::format::foreign::{self, Foreign};
use crate::format::{Format, ebt, ids};
use crate::input::{Input, PieceReader};
use crate::names::Names;
use crate::order::{Order, WINDOW};
use crate::part::{Step, TraceSegment};
use crate::record::Record;
use crate::source::Source;
use esker_base::Nanos;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io::{self, Read, Seek, SeekFrom};

/// How many lines or records are judged when a trace is opened; more than half must fit.
const JUDGED: u64 = 100;

/// Bytes shown to [`detect`].
const HEAD: usize = 16 << 10;

/// More records than this that come too late to be sorted in make a trace unusable; up to that they are faults.
const LATE_MAX: u64 = 100;

/// Yields the records of one trace in bounded memory.
///
/// Malformed lines and records are left out and counted in the [`Report`]. Times that run backwards are set to the
/// latest time before and counted, or sorted within a window where the format asks for it. A truncated trace yields the
/// records before the cut. Gzip, zstd, xz and bzip2 are undone.
pub struct TraceReader {
    file: String,
    format: Format,
    parts: Vec<TraceSegment>,
    /// The parts whose next record is known, by time, if there are several parts.
    heads: BinaryHeap<Reverse<(Nanos, usize)>>,
    names: Names,
    /// Sorts, where the format asks for it.
    order: Option<Order>,
    clock: Clock,
    report: Report,
    /// Records that were read when the beginning was judged.
    ahead: VecDeque<Record>,
    /// Records before this time are passed over.
    from: Nanos,
}

impl TraceReader {
    /// Opens the trace that `input` yields; `file` is its name in messages (and for [`detect`] if `format` is `None`).
    ///
    /// # Errors
    /// A failed read, no data, an unknown format, a file without block requests, another packing than gzip, zstd, xz
    /// and bzip2, or a beginning (first 100 lines or records) that mostly does not fit the format.
    pub fn open(file: &str, input: Input, format: Option<Format>) -> Result<TraceReader, TraceError> {
        TraceReader::open_parts(file, vec![(file.to_string(), input)], format)
    }

    /// Opens a trace of several files (such as blktrace's, one for each CPU), each with its name, as one in order of
    /// time. Empty ones are passed over.
    ///
    /// # Errors
    /// As [`TraceReader::open`]; also if the format is not one whose traces have parts.
    pub fn open_parts(
        file: &str,
        inputs: Vec<(String, Input)>,
        format: Option<Format>,
    ) -> Result<TraceReader, TraceError> {
        let mut opened = Opened::new(file, inputs)?;
        // The bytes that tell what else it looks like, should it be refused: looking costs more than reading a short
        // trace.
        let (format, head) = match format {
            Some(format) => (format, opened.head()?.to_vec()),
            None => (opened.recognise()?, Vec::new()),
        };
        if opened.feeds.len() > 1 && !format.has_parts() {
            return Err(TraceError::NoParts { file: file.to_string(), format });
        }
        let counted = opened.first_stage(format)?;
        let parser = format.info().parser;
        let parts = opened.feeds.into_iter().map(|(name, feed)| TraceSegment::new(name, feed, format, parser(counted)));
        let names = if format.has_volumes() { Names::default() } else { Names::single(file) };
        let mut reader = TraceReader::with(file, format, parts.collect(), names);
        reader.judge(&head)?;
        Ok(reader)
    }

    /// Opens an unpacked trace in format `ebt` at the first record that is not before `from`, by its `index`.
    ///
    /// # Errors
    /// If a read or seek fails.
    pub fn open_at<F: Read + Seek + Send + 'static>(
        file: &str,
        mut input: F,
        index: &ebt::index::Index,
        from: Nanos,
    ) -> Result<TraceReader, TraceError> {
        let entry = index.block_for(from);
        let (offset, first) = entry.map_or((0, 0), |entry| (entry.offset, entry.first));
        input.seek(SeekFrom::Start(offset)).map_err(|source| TraceError::Io { file: file.to_string(), source })?;
        let parser = Box::new(ebt::Parser::resumed(first, index.names().clone()));
        let part =
            TraceSegment::new(file.to_string(), PieceReader::resumed(Box::new(input), offset), Format::Ebt, parser);
        let mut reader = TraceReader::with(file, Format::Ebt, vec![part], Names::default());
        reader.from = from;
        Ok(reader)
    }

    fn with(file: &str, format: Format, parts: Vec<TraceSegment>, names: Names) -> TraceReader {
        TraceReader {
            file: file.to_string(),
            format,
            parts,
            heads: BinaryHeap::new(),
            names,
            order: format.info().sorting_advice.map(|_| Order::default()),
            clock: Clock::new(format),
            report: Report::default(),
            ahead: VecDeque::new(),
            from: Nanos::ZERO,
        }
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

    /// What was found so far, besides records. It runs ahead of the records that were taken: up to 100 lines, or the
    /// window in which the trace is sorted.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// The comment at the top of a `load` or `ebt` trace (notices of authors and terms); empty for other formats.
    pub fn comment(&self) -> &[u8] {
        self.parts[0].parser.comment()
    }

    /// Passes over records before `from`, a time since the trace's start.
    pub fn skip_until(&mut self, from: Nanos) {
        self.from = from;
    }

    /// Reads the beginning, which is `head` if the format was given, and refuses the trace if most of it does not fit.
    fn judge(&mut self, head: &[u8]) -> Result<(), TraceError> {
        let count = self.parts.len();
        (0..count).filter(|_| count > 1).try_for_each(|at| self.refill(at))?;
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
            && let Some(reason) = self.parts[0].parser.missing_mark()
        {
            let head = self.comment().split(|b| *b == b'\n').next().unwrap_or_default();
            (fault, bad) = (Some(Fault::new(TracePosition::Line(1), reason, head)), 1);
        }
        let Some(fault) = fault.filter(|_| bad > good) else { return Ok(()) };
        let (file, format, judged) = (self.file.clone(), self.format, good + bad);
        let looks_like = (!head.is_empty()).then(|| detect(&file, head)).flatten().filter(|other| *other != format);
        Err(TraceError::WrongFormat(Box::new(WrongFormat { file, format, looks_like, fault, bad, judged })))
    }

    /// Takes one line or record of the part whose turn it is.
    fn step(&mut self) -> Result<Step, TraceError> {
        if self.parts.len() == 1 {
            return self.step_of(0);
        }
        let Some(Reverse((_, at))) = self.heads.pop() else { return Ok(Step::End) };
        let head = self.parts[at].head.take().expect("the part is known by its head");
        self.refill(at)?;
        Ok(Step::Record(head))
    }

    /// Reads on to the next record of part `at`, if there is one.
    fn refill(&mut self, at: usize) -> Result<(), TraceError> {
        loop {
            match self.step_of(at)? {
                Step::Record(record) => {
                    self.heads.push(Reverse((record.at, at)));
                    self.parts[at].head = Some(record);
                    return Ok(());
                }
                Step::Nothing => {}
                Step::End => return Ok(()),
            }
        }
    }

    /// Takes one line or record of part `at`.
    fn step_of(&mut self, at: usize) -> Result<Step, TraceError> {
        let is_part = self.parts.len() > 1;
        self.parts[at].step(&mut self.names, self.order.as_ref(), &mut self.report, is_part)
    }

    /// The next record in order of time as far as the window reaches; times are as in the trace.
    fn sorted(&mut self) -> Result<Option<Record>, TraceError> {
        loop {
            if let Some(record) = self.order.as_mut().filter(|o| o.is_full()).and_then(Order::pop) {
                return Ok(Some(record));
            }
            let record = match self.ahead.pop_front() {
                Some(record) => record,
                None => match self.step()? {
                    Step::Record(record) => record,
                    Step::Nothing => {
                        self.refuse_disorder()?;
                        continue;
                    }
                    Step::End => return Ok(self.order.as_mut().and_then(Order::pop)),
                },
            };
            match &mut self.order {
                Some(order) => order.push(record),
                None => return Ok(Some(record)),
            }
        }
    }

    /// Gives up if too many records came too late to be sorted in.
    fn refuse_disorder(&self) -> Result<(), TraceError> {
        let late: u64 = self.parts.iter().map(|part| part.late).sum();
        let place = self.parts.iter().find_map(|part| part.late_at).filter(|_| late > LATE_MAX);
        let (Some(place), Some(advice)) = (place, self.format.info().sorting_advice) else { return Ok(()) };
        let (file, records) = (self.file.clone(), self.report.records);
        Err(TraceError::OutOfOrder { file, late, records, window: WINDOW, place, advice })
    }
}

/// The files of a trace before their format is known; those without a byte are left out.
struct Opened<'a> {
    file: &'a str,
    feeds: Vec<(String, PieceReader)>,
}

impl<'a> Opened<'a> {
    fn new(file: &'a str, inputs: Vec<(String, Input)>) -> Result<Opened<'a>, TraceError> {
        let mut feeds = Vec::with_capacity(inputs.len());
        let mut empty = None;
        for (name, input) in inputs {
            let mut feed = PieceReader::open(&name, input)?;
            let is_empty = feed.head(1).map_err(|source| TraceError::Io { file: name.clone(), source })?.is_empty();
            if is_empty {
                empty.get_or_insert(feed.ending());
            } else {
                feeds.push((name, feed));
            }
        }
        if feeds.is_empty() { Err(no_data(file, empty.unwrap_or_default())) } else { Ok(Opened { file, feeds }) }
    }

    /// The format of the first file.
    fn recognise(&mut self) -> Result<Format, TraceError> {
        let file = self.file;
        let head = self.head()?;
        if let Some(Foreign { what, advice, .. }) = foreign::recognise(head) {
            return Err(TraceError::Foreign { file: file.to_string(), what, advice });
        }
        let hint = if ids::fits(head) { "if it holds block numbers of 4 bytes, say --from ids; else " } else { "" };
        detect(file, head).ok_or_else(|| TraceError::Unrecognised { file: file.to_string(), hint })
    }

    /// The beginning of the first file.
    fn head(&mut self) -> Result<&[u8], TraceError> {
        let (name, feed) = &mut self.feeds[0];
        feed.head(HEAD).map_err(|source| TraceError::Io { file: name.clone(), source })
    }

    /// The stage of requests that counts: the first one that occurs in the beginning of any file.
    fn first_stage(&mut self, format: Format) -> Result<Stage, TraceError> {
        let Some(first_stage) = format.info().first_stage else { return Ok(Stage::Queued) };
        let mut first = None;
        for (name, feed) in &mut self.feeds {
            let head = feed.head(STAGE_HEAD).map_err(|source| TraceError::Io { file: name.clone(), source })?;
            first = first.into_iter().chain(first_stage(head)).min();
        }
        Ok(first.unwrap_or(Stage::Queued))
    }
}

fn no_data(file: &str, ending: Ending) -> TraceError {
    let file = file.to_string();
    match ending {
        Ending::Cut { why, .. } => TraceError::Damaged { file, why },
        Ending::Complete | Ending::NotReached => TraceError::Empty { file },
    }
}

impl Source for TraceReader {
    fn next_record(&mut self) -> Result<Option<Record>, TraceError> {
        while let Some(record) = self.sorted()? {
            let (at, is_clamped) = self.clock.relative(record.at);
            self.report.times_clamped += u64::from(is_clamped);
            if at >= self.from {
                return Ok(Some(Record { at, ..record }));
            }
        }
        Ok(None)
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
        Clock { base: (!format.info().is_absolute).then_some(Nanos::ZERO), last: Nanos::ZERO }
    }

    /// The time since the start, and whether it had to be raised to the one before.
    fn relative(&mut self, raw: Nanos) -> (Nanos, bool) {
        let base = *self.base.get_or_insert(raw);
        let is_backwards = raw < base || raw.saturating_sub(base) < self.last;
        self.last = self.last.max(raw.saturating_sub(base));
        (self.last, is_backwards)
    }
}
