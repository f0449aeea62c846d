//! Traces of programs as files: reading any format, and telling what was odd.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use esker_base::Unit;
use esker_trace_calls::etrace::{self, EtraceError, Limits};
use esker_trace_calls::import::{OnBad, ParseError, ibench, read_trace, strace};
use esker_trace_calls::{Trace, WarningKind, Warnings};

use crate::failure::Failure;
use crate::progress::{Part, Watcher};
use crate::target;
use crate::terminal::Terminal;

/// A format of traces of programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Esker's own recording
    Etrace,
    /// The text of strace
    Strace,
    /// The layout of the iBench archive: a folder with sorted.txt and init.txt
    Ibench,
}

/// A trace cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file cannot be opened.
    #[error("{path}: cannot be read: {source}")]
    Unopened {
        /// The file.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// It is no recording, or a damaged one.
    #[error("{path}: {source}")]
    Etrace {
        /// The file.
        path: String,
        /// Why.
        source: EtraceError,
    },
    /// It is no text of that format.
    #[error("{path}: {source}")]
    Text {
        /// The file.
        path: String,
        /// Why.
        source: ParseError,
    },
}

/// Reads the recording (`.etrace`) in a file.
///
/// # Errors
/// It cannot be read, or is none.
pub fn read(path: &Path, watcher: &Watcher) -> Result<Trace, ReadError> {
    let (lines, _part) = shown(path, watcher)?;
    let read = etrace::read(lines, Limits::GENEROUS);
    read.map_err(|source| ReadError::Etrace { path: name(path), source })
}

/// The arguments of verbs that take a trace of any format.
#[derive(clap::Args)]
pub struct Source {
    /// Recording, text of strace, or folder in the layout of iBench
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// Format of the trace [default: told by its beginning]
    #[arg(long, value_name = "FORMAT")]
    from: Option<Format>,
    /// What becomes of a line that cannot be read
    #[arg(long, value_name = "WHAT", default_value = "fail")]
    on_bad_line: BadLine,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum BadLine {
    /// The trace is refused
    Fail,
    /// The line is left out and counted
    Skip,
}

impl Source {
    /// The trace.
    ///
    /// # Errors
    /// As [`import`].
    pub fn read(&self, watcher: &Watcher) -> Result<Trace, ReadError> {
        let on_bad = match self.on_bad_line {
            BadLine::Fail => OnBad::Fail,
            BadLine::Skip => OnBad::Skip,
        };
        import(&self.trace, self.from, on_bad, watcher)
    }

    /// Where it is.
    pub fn name(&self) -> String {
        name(&self.trace)
    }
}

/// Reads a trace of any format; which one, its beginning tells unless `format` does.
///
/// # Errors
/// It cannot be read, or is no trace of that format.
pub fn import(path: &Path, format: Option<Format>, on_bad: OnBad, watcher: &Watcher) -> Result<Trace, ReadError> {
    let format = match format {
        Some(format) => format,
        None => told_format(path)?,
    };
    match format {
        Format::Etrace => read(path, watcher),
        Format::Strace => {
            let (lines, _part) = shown(path, watcher)?;
            let trace = read_trace(&mut strace::Strace::new(lines, on_bad), on_bad);
            trace.map_err(|source| ReadError::Text { path: name(path), source })
        }
        Format::Ibench => import_ibench(path, on_bad, watcher),
    }
}

fn import_ibench(folder: &Path, on_bad: OnBad, watcher: &Watcher) -> Result<Trace, ReadError> {
    let text = |path: &Path, source| ReadError::Text { path: name(path), source };
    let (calls, files) = (folder.join("sorted.txt"), folder.join("init.txt"));
    let (lines, _part) = shown(&calls, watcher)?;
    let trace = read_trace(&mut ibench::Ibench::new(lines, on_bad), on_bad);
    let mut trace = trace.map_err(|source| text(&calls, source))?;
    let mut warnings = Warnings::default();
    let snapshot = ibench::read_snapshot(open(&files)?, on_bad, &mut warnings);
    trace.snapshot = snapshot.map_err(|source| text(&files, source))?;
    trace.warnings.merge(&warnings);
    Ok(trace)
}

fn told_format(path: &Path) -> Result<Format, ReadError> {
    if path.is_dir() {
        return Ok(Format::Ibench);
    }
    let mut head = Vec::new();
    let read = open(path)?.take(8).read_to_end(&mut head);
    read.map_err(|source| ReadError::Unopened { path: name(path), source })?;
    Ok(if etrace::is_etrace(&head) { Format::Etrace } else { Format::Strace })
}

/// The bytes of a file, and the part that shows how many of them were read.
fn shown(path: &Path, watcher: &Watcher) -> Result<(impl BufRead + use<>, Part), ReadError> {
    let unopened = |source| ReadError::Unopened { path: name(path), source };
    let file = File::open(path).map_err(unopened)?;
    // A pipe has no length.
    let all = Some(file.metadata().map_err(unopened)?.len()).filter(|all| *all > 0);
    let part = watcher.part(&name(path), Unit::Bytes, all);
    Ok((BufReader::with_capacity(1 << 18, part.reading(file)), part))
}

fn open(path: &Path) -> Result<BufReader<File>, ReadError> {
    let unopened = |source| ReadError::Unopened { path: name(path), source };
    Ok(BufReader::with_capacity(1 << 18, File::open(path).map_err(unopened)?))
}

fn name(path: &Path) -> String {
    path.display().to_string()
}

/// Writes a recording, which appears only when it is whole.
///
/// # Errors
/// The file exists and `force` is not given, or it cannot be written.
pub fn write(trace: &Trace, path: &Path, force: bool) -> Result<(), Failure> {
    #[derive(Debug, thiserror::Error)]
    #[error("{0}: cannot be written: {1}")]
    struct Unwritten(String, io::Error);
    target::write(&name(path), force, |file| {
        let written = etrace::write(trace, BufWriter::new(file)).and_then(|mut out| out.flush());
        Ok(written.map_err(|error| Unwritten(name(path), error))?)
    })
}

/// Tells what was odd: how often, and where first.
pub fn complain(warnings: &Warnings, terminal: &mut Terminal) {
    for (kind, tally) in warnings.tallies() {
        let first =
            tally.places.first().map_or(String::new(), |place| format!(", first at {}: {}", place.at, place.text));
        terminal.complain(&format!("warning: {}: {}{first}", kind.name(), tally.count));
    }
}

/// Refuses a recording that lost all of its actions: nothing is left to compile, so that a script must not see success.
///
/// # Errors
/// There is no action, and a part was damaged, lost or not understood.
pub fn refuse_lost(trace: &Trace, name: &str) -> Result<(), Failure> {
    #[derive(Debug, thiserror::Error)]
    #[error("{0}: all actions are lost ({1}): fetch the recording again, or record again")]
    struct Lost(String, String);
    let lost = [WarningKind::Damaged, WarningKind::CutTail, WarningKind::LostEvents, WarningKind::BadLine];
    let told: Vec<String> = trace
        .warnings
        .tallies()
        .filter(|(kind, _)| lost.contains(kind))
        .map(|(kind, tally)| format!("{}: {}", kind.name(), tally.count))
        .collect();
    if trace.actions.is_empty() && !told.is_empty() {
        return Err(Lost(name.to_string(), told.join(", ")).into());
    }
    Ok(())
}

/// The argument FILE of verbs that read a recording.
#[derive(clap::Args)]
pub struct Recording {
    /// The recording (.etrace)
    #[arg(value_name = "TRACE")]
    pub trace: PathBuf,
}
