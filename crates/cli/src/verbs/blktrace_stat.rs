//! `esker blktrace stat`: describes block traces.

use std::path::PathBuf;

use esker_trace_block::{Source, Speed, Stats, Summary, stats};
use serde_json::json;

use crate::block_trace::{Trace, TraceInput, report_json};
use crate::failure::Failure;
use crate::outputs::Output;
use crate::progress::Pace;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Stat>(About {
    words: &["blktrace", "stat"],
    summary: "Describe block traces",
    details: "Prints operations, bytes, footprint, alignment, distances, sizes, times between requests, and \
              sequential streams, exact and by the 512 KiB rule. Prints also the skew with the fit of Zipf's law, \
              the bytes both read and written, and the working set of each hour and day. One pass and bounded \
              memory suffice. Packed traces are unpacked on the fly. Damaged lines and records are left out and \
              reported as a warning. A truncated trace is described up to the cut, and the exit status is 1.",
    examples: &[
        Example { line: "esker blktrace stat data/linux-mysql.load.gz", does: "prints a table" },
        Example {
            line: "esker blktrace stat --json a.csv b.csv",
            does: "prints one JSON object a line for each trace",
        },
        Example {
            line: "esker blktrace stat data/linux-mysql.load.gz --html mysql.html",
            does: "also draws distributions, hours and skew",
        },
    ],
});

#[derive(clap::Args)]
struct Stat {
    /// Files with traces
    #[arg(value_name = "TRACE", required = true)]
    traces: Vec<String>,
    #[command(flatten)]
    reading: TraceInput,
    /// One JSON object for each trace instead of tables
    #[arg(long)]
    json: bool,
    /// Also a page with figures, in this file; for one trace
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Replace the page if it exists and esker did not write it
    #[arg(long, requires = "html")]
    force: bool,
}

/// What a page of this verb begins with.
const MARK: &str = "Written by esker blktrace stat";

impl Run for Stat {
    const PACE: Option<Pace> = Some(Pace::Shows("bytes of the trace"));

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        if self.html.is_some() && self.traces.len() > 1 {
            return Err(Failure::Usage("--html describes one trace; name one".into()));
        }
        let page = self.html.clone().map(|path| Output::claim(path, &[MARK], self.force, "--html")).transpose()?;
        page.iter().try_for_each(Output::prepare)?;
        let mut whole = Ok(());
        for (at, path) in self.traces.iter().enumerate() {
            if at > 0 && !self.json {
                terminal.say("")?;
            }
            let trace = self.describe(path, page.as_ref(), terminal)?;
            whole = whole.and(trace.uncut("described"));
        }
        whole
    }
}

impl Stat {
    /// Describes the trace in file `path`, up to a cut if there is one.
    fn describe(&self, path: &str, page: Option<&Output>, terminal: &mut Terminal) -> Result<Trace, Failure> {
        let (mut trace, part) = self.reading.open(path, Speed::RECORDED, terminal)?;
        let mut stats = Stats::new();
        while let Some(record) = trace.source().next_record()? {
            stats.add(&record);
        }
        drop(part);
        let summary = stats.summary().named(trace.source().volumes());
        self.report(path, &trace, &summary, terminal)?;
        if let Some(page) = page {
            page.put(&stats::page(path, MARK, &summary)?)?;
        }
        Ok(trace)
    }

    fn report(&self, path: &str, trace: &Trace, summary: &Summary, terminal: &mut Terminal) -> Result<(), Failure> {
        let format = trace.reader().format().name();
        if self.json {
            let report = report_json(trace.reader().report());
            let object = json!({ "trace": path, "format": format, "report": report, "summary": summary });
            return terminal.say(&object.to_string());
        }
        trace.complain(terminal);
        terminal.say(&format!("{:<18} {path}\n{:<18} {format}\n{summary}", "trace", "format"))
    }
}
