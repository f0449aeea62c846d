//! The arguments TRACE, --from and --volume of verbs that read block traces.

use std::fs::File;
use std::io;

use esker_blktrace::{Ending, Format, OneVolume, Record, Report, Source, Sped, Speed, TraceError, TraceReader};
use indicatif::ProgressBar;

use crate::failure::Failure;
use crate::terminal::Terminal;

/// How traces are read.
#[derive(clap::Args)]
pub struct Reading {
    /// Format of the trace: load, vscsi1, vscsi2, oracle-general, msr, fio2 or fio3 [default: told by its beginning]
    #[arg(long, value_name = "FORMAT")]
    from: Option<Format>,
    /// Only the requests to this volume
    #[arg(long, value_name = "NAME")]
    volume: Option<String>,
}

/// A trace that is being read.
pub struct Trace(Sped<Selection>);

/// The requests to be read.
enum Selection {
    /// Those to all volumes.
    All(TraceReader),
    /// Those to one.
    One(OneVolume<TraceReader>),
}

/// The trace's file could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("{path}: cannot be opened: {source}")]
struct Unopened {
    path: String,
    source: io::Error,
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

impl Reading {
    /// Opens the trace in file `path` to be read at `speed`, with a bar that shows how much of the file was read.
    ///
    /// # Errors
    /// If it cannot be opened, or is no trace.
    pub fn open(&self, path: &str, speed: Speed, terminal: &Terminal) -> Result<(Trace, ProgressBar), Failure> {
        let unopened = |source| Unopened { path: path.to_string(), source };
        let file = File::open(path).map_err(unopened)?;
        let bar = terminal.progress(path, file.metadata().map_err(unopened)?.len());
        let reader = TraceReader::open(path, Box::new(bar.wrap_read(file)), self.from)?;
        let selection = match &self.volume {
            None => Selection::All(reader),
            Some(volume) => Selection::One(OneVolume::new(reader, volume)),
        };
        Ok((Trace(Sped::new(selection, speed)), bar))
    }
}

impl Selection {
    fn source(&self) -> &dyn Source {
        match self {
            Selection::All(reader) => reader,
            Selection::One(volume) => volume,
        }
    }
}

impl Source for Selection {
    fn next_record(&mut self) -> Result<Option<Record>, TraceError> {
        match self {
            Selection::All(reader) => reader.next_record(),
            Selection::One(volume) => volume.next_record(),
        }
    }

    fn volumes(&self) -> &[String] {
        self.source().volumes()
    }

    fn name(&self) -> &str {
        self.source().name()
    }

    fn comment(&self) -> &[u8] {
        self.source().comment()
    }
}

impl Trace {
    /// What yields its records.
    pub fn source(&mut self) -> &mut impl Source {
        &mut self.0
    }

    /// The whole file's reader.
    pub fn reader(&self) -> &TraceReader {
        match self.0.inner() {
            Selection::All(reader) => reader,
            Selection::One(volume) => volume.inner(),
        }
    }

    /// Tells what was wrong with the trace, if anything was.
    pub fn complain(&self, terminal: &mut Terminal) {
        let report = self.reader().report();
        if !report.is_clean() {
            terminal.complain(&format!("warning: {}: {report}", self.reader().file()));
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
