//! `esker blktrace from-fio`: makes a block trace from a job file of fio.

use std::{fs, io};

use esker_base::Unit;
use esker_trace_block::generate::{FioPlan, FioTrace, JobError};
use esker_trace_block::{Format, RecordSink, Written, convert};
use serde_json::json;

use crate::block_trace::{Shown, target_format, to_help, written_format};
use crate::failure::Failure;
use crate::progress::Pace;
use crate::target;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<FromFio>(About {
    words: &["blktrace", "from-fio"],
    summary: "Make a block trace from a job file of fio",
    details: "Writes the requests that the jobs would send, without sending any: kinds, sizes, places and, by rate, \
              rate_iops or thinktime, times on a device that answers at once. fio need not be installed. Without --to the \
              name of the file decides the format; if it decides none, that is ebt. An option that changes requests and is \
              not supported is refused with its line; a remark names what the trace lacks. One job file and seed give the \
              same requests again.",
    examples: &[
        Example {
            line: "esker blktrace from-fio db.fio -o db.ebt --seed 7",
            does: "makes a trace for esker try db.ebt",
        },
        Example {
            line: "esker blktrace from-fio db.fio -o db.ebt --iolog db.iolog",
            does: "also writes the log that fio --read_iolog=db.iolog plays",
        },
    ],
});

#[derive(clap::Args)]
struct FromFio {
    /// Job file
    job: String,
    /// File to write
    #[arg(short, long, value_name = "FILE")]
    output: String,
    #[arg(long, value_name = "FORMAT", help = to_help("as the name of the file ends, or ebt"), value_parser = written_format)]
    to: Option<Format>,
    /// Write the requests as a log of fio, version 3, too
    #[arg(long, value_name = "FILE")]
    iolog: Option<String>,
    /// Seed of all random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Replace files that exist
    #[arg(long)]
    force: bool,
    /// The outcome as a JSON object on standard output
    #[arg(long)]
    json: bool,
}

/// Why no trace was made.
#[derive(Debug, thiserror::Error)]
enum FromFioError {
    #[error("{path}: cannot be read: {source}")]
    Unread { path: String, source: io::Error },
    #[error("{path}: {source}")]
    Job { path: String, source: JobError },
    #[error("{0}: the jobs send no request")]
    Nothing(String),
}

impl Run for FromFio {
    const PACE: Option<Pace> = Some(Pace::Shows("the share of the jobs"));

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let unread = |source| FromFioError::Unread { path: self.job.clone(), source };
        let text = fs::read_to_string(&self.job).map_err(unread)?;
        let refused = |source| FromFioError::Job { path: self.job.clone(), source };
        let plan = FioPlan::parse(&text).map_err(refused)?;
        for remark in plan.remarks() {
            terminal.complain(&format!("warning: {}: line {}: {}", self.job, remark.line, remark.text));
        }
        let to = target_format(&self.output, self.to, Some(Format::Ebt))?;
        let written = self.write(&plan, &self.output, to, terminal)?;
        let log = self.iolog.as_ref().map(|path| self.write(&plan, path, Format::Fio3, terminal)).transpose()?;
        self.report(to, &written, log.as_ref(), terminal)
    }
}

impl FromFio {
    fn write(&self, plan: &FioPlan, path: &str, to: Format, terminal: &Terminal) -> Result<Written, Failure> {
        let part = terminal.watcher().part(path, Unit::Of("% of the jobs"), Some(100));
        let trace = FioTrace::new(&self.job, plan.clone(), self.seed);
        let mut shown = Shown::new(trace, |trace, _| part.done((trace.share() * 100.0) as u64));
        target::write(path, self.force, |file| {
            let written = convert(&mut shown, RecordSink::to_file(to, Box::new(file))?)?;
            match written.records {
                0 => Err(FromFioError::Nothing(self.job.clone()).into()),
                _ => Ok(written),
            }
        })
    }

    fn report(
        &self,
        to: Format,
        written: &Written,
        log: Option<&Written>,
        terminal: &mut Terminal,
    ) -> Result<(), Failure> {
        if self.json {
            let object = json!({
                "job": self.job, "seed": self.seed, "target": self.output, "to": to.name(),
                "written": written.records, "dropped": written.losses.dropped(), "losses": written.losses.to_string(),
                "iolog": self.iolog,
            });
            return terminal.say(&object.to_string());
        }
        let files = [(Some(&self.output), Some(written)), (self.iolog.as_ref(), log)];
        for (path, written) in files.into_iter().filter_map(|(path, written)| path.zip(written)) {
            terminal.complain(&format!("{path}: {} records written; {}", written.records, written.losses));
        }
        Ok(())
    }
}
