//! `esker blktrace check`: whether block traces are whole and sound.

use esker_trace_block::{Format, Index, IndexError, Source, Speed};
use serde_json::json;

use crate::block_trace::{Trace, TraceInput, report_json};
use crate::failure::Failure;
use crate::progress::Pace;
use crate::terminal::Terminal;
use crate::trace_files;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Check>(About {
    words: &["blktrace", "check"],
    summary: "Check block traces for damage",
    details: "Reads each trace to its end and reports every malformed line or record, times out of order and missing \
              ends. Of a trace in format ebt it checks the checksums of all blocks, and compares the index with the \
              blocks. The exit status is 1 if anything is wrong.",
    examples: &[Example { line: "esker blktrace check data/linux-mysql.load.gz", does: "prints that it is sound" }],
});

#[derive(clap::Args)]
struct Check {
    /// Files with traces
    #[arg(value_name = "TRACE", required = true)]
    traces: Vec<String>,
    #[command(flatten)]
    reading: TraceInput,
    /// One JSON object for each trace
    #[arg(long)]
    json: bool,
}

/// Some traces are damaged; what is wrong was told.
#[derive(Debug, thiserror::Error)]
#[error("{0} of {1} traces are not sound")]
struct Unsound(usize, usize);

impl Run for Check {
    const PACE: Option<Pace> = Some(Pace::Shows("bytes of the trace"));

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let mut unsound = 0;
        for path in &self.traces {
            unsound += usize::from(!self.check(path, terminal)?);
        }
        if unsound == 0 { Ok(()) } else { Err(Unsound(unsound, self.traces.len()).into()) }
    }
}

impl Check {
    /// Checks the trace at `path`; returns whether it is sound.
    fn check(&self, path: &str, terminal: &mut Terminal) -> Result<bool, Failure> {
        let (mut trace, part) = self.reading.open(path, Speed::RECORDED, terminal)?;
        while trace.source().next_record()?.is_some() {}
        drop(part);
        let index = index_flaw(&trace, path)?;
        let report = trace.reader().report();
        let is_sound = report.is_clean() && index.is_none();
        if self.json {
            let format = trace.reader().format().name();
            let object = json!({
                "trace": path, "format": format, "sound": is_sound, "index": index, "report": report_json(report),
            });
            terminal.say(&object.to_string())?;
            return Ok(is_sound);
        }
        trace.complain(terminal);
        if let Some(flaw) = &index {
            terminal.complain(&format!("warning: {path}: the index cannot be used: {flaw}; convert the trace again"));
        }
        let verdict = if is_sound { "sound" } else { "not sound" };
        terminal.say(&format!("{path}: {}: {} records, {verdict}", trace.reader().format(), report.records))?;
        Ok(is_sound)
    }
}

/// What is wrong with the index of a trace that should have one: packed traces have none that is of use.
fn index_flaw(trace: &Trace, path: &str) -> Result<Option<String>, Failure> {
    if trace.reader().format() != Format::Ebt {
        return Ok(None);
    }
    let mut files = trace_files::open(path)?;
    let [(_, file)] = &mut files[..] else { return Ok(None) };
    match Index::check(file) {
        Ok(checked) => Ok(checked.err().map(|flaw| flaw.to_string())),
        Err(IndexError::OtherFormat) => Ok(None),
        Err(e) => Err(e.into()),
    }
}
