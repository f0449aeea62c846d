//! The arguments TRACE, --from and --volume of verbs that read block traces.

use std::io;

use esker_base::units::parse_span;
use esker_base::{Nanos, Unit};
use esker_trace_block::{
    Ending, Format, Index, IndexError, Record, Report, Rescaled, Selection, SinkError, Source, Speed, TraceError,
    TraceReader,
};

use crate::failure::Failure;
use crate::progress::Part;
use crate::terminal::Terminal;
use crate::trace_files;

/// How traces are read.
#[derive(clap::Args)]
pub struct TraceInput {
    #[arg(long, value_name = "FORMAT", help = from_help())]
    from: Option<Format>,
    /// Only requests from this time of the trace on; a trace in format ebt is sought by its index
    #[arg(long, value_name = "TIME", value_parser = parse_span, default_value = "0")]
    start: Nanos,
    /// Only the requests to this volume
    #[arg(long, value_name = "NAME")]
    volume: Option<String>,
}

/// What `--from` is, with all formats.
pub fn from_help() -> String {
    format!("Format of the trace, one of: {} [default: told by its beginning]", Format::names())
}

/// What `--to` is, with all formats that are written.
pub fn to_help(default: &str) -> String {
    format!("Format to write, one of: {} [default: {default}]", Format::written_names())
}

/// A format that Esker writes.
///
/// # Errors
/// A word that names no format, or one that is only read.
pub fn written_format(word: &str) -> Result<Format, String> {
    let unknown = |_| format!("\"{word}\" is no trace format; use one of: {}", Format::written_names());
    let format: Format = word.parse().map_err(unknown)?;
    match format.is_written() {
        true => Ok(format),
        false => Err(SinkError::OnlyRead(format).to_string()),
    }
}

/// The format of a target: the one that is asked for, else the one that its name tells, else the one of the verb.
///
/// # Errors
/// A name that ends as those of compressed files do, since targets are not compressed. Where no format is asked for, a
/// name that tells several formats, or none if the verb has none either.
pub fn target_format(target: &str, asked: Option<Format>, otherwise: Option<Format>) -> Result<Format, Failure> {
    if let Some(ending) = [".gz", ".zst"].into_iter().find(|ending| target.ends_with(ending)) {
        let why =
            format!("{target}: traces are written uncompressed; leave out {ending}, and compress the file afterwards");
        return Err(Failure::Usage(why));
    }
    match (asked, &esker_trace_block::named(target)[..], otherwise) {
        (Some(format), ..) | (None, &[format], _) | (None, [], Some(format)) => Ok(format),
        (None, [], None) if target == "-" => {
            Err(Failure::Usage("standard output has no name that tells the format; name it with --to".to_string()))
        }
        (None, [], None) => Err(Failure::Usage(format!(
            "{target}: the name does not tell the format; name it with --to, one of: {}",
            Format::written_names()
        ))),
        (None, several, _) => {
            let names: Vec<&str> = several.iter().map(|format| format.name()).collect();
            Err(Failure::Usage(format!("{target}: the name may mean {}; say which with --to", names.join(" or "))))
        }
    }
}

/// A trace that is being read.
pub struct Trace(Rescaled<Selection<TraceReader>>);

/// The trace's file could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("{path}: cannot be opened: {source}")]
struct Unopened {
    path: String,
    source: io::Error,
}

/// The trace's index could not be read.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {source}")]
struct IndexUnreadable {
    path: String,
    source: IndexError,
}

/// The trace ends in the middle. What came before was used, yet the command cannot count as done.
#[derive(Debug, thiserror::Error)]
#[error("{file}: is truncated or damaged: only the {records} records before byte {offset} (unpacked) were {used}")]
struct Cut {
    file: String,
    records: u64,
    offset: u64,
    used: &'static str,
}

impl TraceInput {
    /// Opens the trace at `path` (a file, a folder or an archive) to be read at `speed`. The part shows how much of the
    /// file was read, packed as it is.
    ///
    /// # Errors
    /// If it cannot be opened, or is no trace.
    pub fn open(&self, path: &str, speed: Speed, terminal: &Terminal) -> Result<(Trace, Part), Failure> {
        let unopened = |source| Unopened { path: path.to_string(), source };
        let files = trace_files::open(path).map_err(unopened)?;
        let lens = files.iter().map(|(_, file)| Ok(file.metadata()?.len())).collect::<io::Result<Vec<u64>>>();
        // A pipe has no length.
        let all = Some(lens.map_err(unopened)?.iter().sum()).filter(|all| *all > 0);
        let part = terminal.watcher().part(path, Unit::Bytes, all);
        let reader = match self.seek(path, &files, &part)? {
            Some(reader) => reader,
            None => {
                let inputs = files.into_iter().map(|(name, file)| (name, Box::new(part.reading(file)) as Box<_>));
                let mut reader = TraceReader::open_parts(path, inputs.collect(), self.from)?;
                reader.skip_until(self.start);
                reader
            }
        };
        Ok((Trace(Rescaled::new(Selection::new(reader, self.volume.as_deref()), speed)), part))
    }

    /// Opens the trace by its index, if a start is asked for and the trace has an index.
    fn seek(&self, path: &str, files: &[trace_files::NamedFile], part: &Part) -> Result<Option<TraceReader>, Failure> {
        let [(_, file)] = files else { return Ok(None) };
        let other = self.from.is_some_and(|format| format != Format::Ebt);
        if self.start == Nanos::ZERO || other {
            return Ok(None);
        }
        let unsought = |source| IndexUnreadable { path: path.to_string(), source };
        let mut file = file.try_clone().map_err(|e| unsought(e.into()))?;
        match Index::load(&mut file) {
            Ok(index) => Ok(Some(TraceReader::open_at(path, part.reading(file), &index, self.start)?)),
            Err(IndexError::OtherFormat) => {
                io::Seek::rewind(&mut file).map_err(|e| unsought(e.into()))?;
                Ok(None)
            }
            Err(e) => Err(unsought(e).into()),
        }
    }
}

impl Trace {
    /// What yields its records.
    pub fn source(&mut self) -> &mut impl Source {
        &mut self.0
    }

    /// The whole file's reader.
    pub fn reader(&self) -> &TraceReader {
        self.0.inner().inner()
    }

    /// Tells what was wrong with the trace, if anything was.
    pub fn complain(&self, terminal: &mut Terminal) {
        let report = self.reader().report();
        if !report.is_clean() {
            let lines = report.to_string().replace('\n', "\n  ");
            terminal.complain(&format!("warning: {}: {lines}", self.reader().file()));
        }
    }

    /// That the trace was read to its end.
    ///
    /// # Errors
    /// If it was cut; the message says that what came before was `used` ("described", ...).
    pub fn uncut(&self, used: &'static str) -> Result<(), Failure> {
        let (reader, report) = (self.reader(), self.reader().report());
        let Ending::Cut { offset, .. } = report.ending else { return Ok(()) };
        Err(Cut { file: reader.file().to_string(), records: report.records, offset, used }.into())
    }
}

/// Requests between two reports of a trace that is made.
const STRIDE: u64 = 4096;

/// A trace that is made, and what shows its progress.
pub struct Shown<S, F> {
    source: S,
    show: F,
    count: u64,
}

impl<S: Source, F: FnMut(&S, &Record)> Shown<S, F> {
    /// `show` sees the source and its first record, and then one of every few thousand.
    pub fn new(source: S, show: F) -> Shown<S, F> {
        Shown { source, show, count: 0 }
    }
}

impl<S: Source, F: FnMut(&S, &Record)> Source for Shown<S, F> {
    fn next_record(&mut self) -> Result<Option<Record>, TraceError> {
        let record = self.source.next_record()?;
        if let Some(record) = record.as_ref().filter(|_| self.count.is_multiple_of(STRIDE)) {
            (self.show)(&self.source, record);
        }
        self.count += 1;
        Ok(record)
    }

    fn volumes(&self) -> &[String] {
        self.source.volumes()
    }

    fn name(&self) -> &str {
        self.source.name()
    }

    fn comment(&self) -> &[u8] {
        self.source.comment()
    }
}

/// The report for programs.
pub fn report_json(report: &Report) -> serde_json::Value {
    let cut = if let Ending::Cut { why, .. } = &report.ending { Some(why) } else { None };
    serde_json::json!({
        "records": report.records,
        "skipped": report.skipped,
        "malformed": report.malformed,
        "times_clamped": report.times_clamped,
        "clean": report.is_clean(),
        "cut": cut,
        "faults": report.faults.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}
