//! `esker blktrace stat`: describes block traces.

use esker_blktrace::{Source, Speed, Stats};
use serde_json::json;

use crate::failure::Failure;
use crate::terminal::Terminal;
use crate::trace::{Reading, Trace, report_json};
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Stat>(About {
    words: &["blktrace", "stat"],
    summary: "Describe block traces",
    details: "Counts operations, bytes, footprint, alignment, sequential streams, sizes and times between requests, in \
              one pass. Gzip and zstd are unpacked on the fly. Damaged lines and records are left out and told as a \
              warning. Of a truncated trace, what comes before the cut is described, and the exit status is 1.",
    examples: &[
        Example { line: "esker blktrace stat data/linux-mysql.load.gz", does: "prints a table" },
        Example {
            line: "esker blktrace stat --json a.csv b.csv",
            does: "prints one JSON object a line for each trace",
        },
    ],
});

#[derive(clap::Args)]
struct Stat {
    /// Files with traces
    #[arg(value_name = "TRACE", required = true)]
    traces: Vec<String>,
    #[command(flatten)]
    reading: Reading,
    /// One JSON object for each trace instead of tables
    #[arg(long)]
    json: bool,
}

impl Run for Stat {
    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let mut whole = Ok(());
        for (at, path) in self.traces.iter().enumerate() {
            if at > 0 && !self.json {
                terminal.say("")?;
            }
            let trace = self.describe(path, terminal)?;
            whole = whole.and(trace.uncut("described"));
        }
        whole
    }
}

impl Stat {
    /// Describes the trace in file `path`, up to a cut if there is one.
    fn describe(&self, path: &str, terminal: &mut Terminal) -> Result<Trace, Failure> {
        let (mut trace, bar) = self.reading.open(path, Speed::RECORDED, terminal)?;
        let mut stats = Stats::new();
        while let Some(record) = trace.source().next_record()? {
            stats.add(&record);
        }
        bar.finish_and_clear();
        let (summary, format) = (stats.summary(), trace.reader().format().name());
        if self.json {
            let report = report_json(trace.reader().report());
            let object = json!({ "trace": path, "format": format, "report": report, "summary": summary });
            terminal.say(&object.to_string())?;
            return Ok(trace);
        }
        trace.complain(terminal);
        terminal.say(&format!("{:<18} {path}\n{:<18} {format}\n{summary}", "trace", "format"))?;
        Ok(trace)
    }
}
