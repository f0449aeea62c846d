//! `esker nfs replay`: plays the text trace of an NFS server in a directory.

use std::fs::File;
use std::io::{self, BufReader, Write};
use std::path::PathBuf;

use esker_base::units::{MIB, parse_size, size_human};
use esker_base::{Nanos, Unit};
use esker_fs_posix::script::at_once;
use esker_trace_block::{Input, unpacked};
use esker_trace_nfs::player::NfsPayload;
use esker_trace_nfs::{Moment, NfsReplayOptions, NfsReport, replay};

use crate::changed_dir;
use crate::failure::Failure;
use crate::progress::{Pace, Part};
use crate::target;
use crate::terminal::{Terminal, table};
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Replay>(About {
    words: &["nfs", "replay"],
    summary: "Replay the trace of an NFS server in a directory",
    details: "Reads lines as nfsdump and the archive of the SNIA have them: time, sender, receiver, transport, version, \
              transaction, operation, attributes. gzip, xz, bzip2 and zstd are undone on the way. Requests with \
              successful replies are played as fast as possible: lookup, create, remove, write, rename, link, symlink, \
              getattr and setattr. A file whose path is not known gets its handle as its name. Nothing outside of DIR \
              is touched, whatever names and links a trace has.\n\n\
              A write without room waits 10 seconds up to three times, and is then counted as no_room. On a file \
              system that stays full, later ones do not wait. Damaged lines and calls that the system refuses are \
              counted too. \
              One trace and seed give one tree.",
    examples: &[
        Example { line: "esker nfs replay lair62.txt.gz /mnt/lfs", does: "plays a packed trace" },
        Example {
            line: "esker nfs replay - /mnt/lfs --end 2 --json",
            does: "plays two days of a trace from standard input, and prints the counts for programs",
        },
    ],
});

/// What the program takes beside the tables of the replay, in bytes.
const PROGRAM_BYTES: u64 = 48 * MIB;
const MEMORY_MIN: u64 = 64 * MIB;
/// Lines of the trace between two texts of progress.
const LINES_PER_TEXT: u64 = 4096;
const MINUTE: Nanos = Nanos::secs(60);

#[derive(clap::Args)]
struct Replay {
    /// File with the trace, - for standard input
    trace: String,
    /// Directory to play in
    dir: PathBuf,
    /// Pass over packets before this date (year-month-day, UTC) or number of days of the trace
    #[arg(long, value_name = "WHEN")]
    begin: Option<Moment>,
    /// Stop before this date or number of days
    #[arg(long, value_name = "WHEN")]
    end: Option<Moment>,
    /// Minutes of the trace between two syncs of the file system of DIR
    #[arg(long, value_name = "MINUTES", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    sync_minutes: u64,
    /// Never sync
    #[arg(long, conflicts_with = "sync_minutes")]
    no_sync: bool,
    /// Write zeroes in place of random bytes
    #[arg(long, conflicts_with = "seed")]
    zero: bool,
    /// Seed of the bytes that are written
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Memory at most, at least 64MiB, beside that of the unpacker
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = memory)]
    memory: u64,
    /// File that gets the counts as a JSON object too
    #[arg(long, value_name = "FILE")]
    report: Option<String>,
    /// Replace the report if it exists
    #[arg(long, requires = "report")]
    force: bool,
    /// The counts as a JSON object on standard output
    #[arg(long)]
    json: bool,
}

fn memory(text: &str) -> Result<u64, String> {
    let bytes = parse_size(text).map_err(|error| error.to_string())?;
    if bytes >= MEMORY_MIN { Ok(bytes) } else { Err("expected at least 64MiB".to_string()) }
}

#[derive(Debug, thiserror::Error)]
enum ReplayError {
    #[error("{0}: cannot be opened: {1}")]
    Unopened(String, io::Error),
    #[error("{0}: cannot be read on behind line {1}, up to which it was played: {2}")]
    Unread(String, u64, io::Error),
}

impl Run for Replay {
    const PACE: Option<Pace> = Some(Pace::Shows("bytes of the trace"));

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        match &self.report {
            Some(path) => target::write(path, self.force, |file| self.play(Some(file), terminal)),
            None => self.play(None, terminal),
        }
    }
}

impl Replay {
    fn play(&self, copy: Option<File>, terminal: &mut Terminal) -> Result<(), Failure> {
        let target = changed_dir::open(&self.dir)?;
        let (input, part) = self.input(terminal)?;
        let trace = BufReader::new(unpacked(&self.trace, input)?);
        let mut look = |report: &NfsReport| {
            if report.lines.is_multiple_of(LINES_PER_TEXT) {
                part.at(&progress(report));
            }
            true
        };
        let (report, ended) = at_once(replay(trace, target, self.options(), &mut look));
        drop(part);
        self.print(&report, copy, terminal)?;
        Ok(ended.map_err(|error| ReplayError::Unread(self.trace.clone(), report.lines, error))?)
    }

    /// The trace, and the part that shows how many of its bytes were read, packed as they are.
    fn input(&self, terminal: &Terminal) -> Result<(Input, Part), Failure> {
        let part = |all| terminal.watcher().part(&self.trace, Unit::Bytes, all);
        if self.trace == "-" {
            let part = part(None);
            return Ok((Box::new(part.reading(io::stdin())), part));
        }
        let unopened = |error| ReplayError::Unopened(self.trace.clone(), error);
        let file = File::open(&self.trace).map_err(unopened)?;
        // A pipe has no length.
        let part = part(Some(file.metadata().map_err(unopened)?.len()).filter(|all| *all > 0));
        Ok((Box::new(part.reading(file)), part))
    }

    fn options(&self) -> NfsReplayOptions {
        NfsReplayOptions {
            memory: self.memory - PROGRAM_BYTES,
            sync_every: (!self.no_sync).then_some(Nanos(MINUTE.0 * self.sync_minutes)),
            payload: if self.zero { NfsPayload::Zeroes } else { NfsPayload::Random(self.seed) },
            begin: self.begin,
            end: self.end,
        }
    }

    fn print(&self, report: &NfsReport, copy: Option<File>, terminal: &mut Terminal) -> Result<(), Failure> {
        let json = serde_json::to_string_pretty(report)?;
        if let Some(mut copy) = copy {
            writeln!(copy, "{json}")?;
        }
        if self.json {
            return terminal.say(&json);
        }
        if let Some(failure) = &report.first_failure {
            terminal.complain(&format!("{}: {} calls failed, the first with {failure}", self.trace, report.failed));
        }
        let rows: Vec<_> =
            report.counts().iter().map(|(name, count)| vec![name.to_string(), count.to_string()]).collect();
        terminal.say(&table(&[], &rows))
    }
}

fn progress(report: &NfsReport) -> String {
    let days = report.trace_seconds as f64 / 86_400.0;
    let (lines, pairs, written) = (report.lines, report.pairs(), size_human(report.bytes_written));
    format!("{lines} lines, day {days:.2} of the trace, {pairs} operations, {written} written")
}
