//! `esker blktrace convert`: any trace into any format.

use std::io;

use esker_trace_block::{Format, RecordSink, Speed, Written, convert};
use serde_json::json;

use crate::block_trace::{Trace, TraceInput, report_json, target_format, to_help, written_format};
use crate::failure::Failure;
use crate::progress::Pace;
use crate::target;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Convert>(About {
    words: &["blktrace", "convert"],
    summary: "Convert a block trace into another format",
    details: "Writes record by record, in bounded memory. Without --to the name of the target decides the format: \
              .load, .iolog, .blkparse, .ebt and others; .csv and .trace do not. Format ebt loses nothing. Fields that \
              the target format cannot carry are counted and reported. The target appears only when all is written. A \
              truncated trace is converted up to the cut, and the exit status is 1.",
    examples: &[
        Example {
            line: "esker blktrace convert data/linux-mysql.load.gz mysql.iolog",
            does: "makes a trace that fio replays",
        },
        Example {
            line: "esker blktrace convert data/cloudPhysicsIO.vscsi.zst - --to msr > cloud.csv",
            does: "writes to standard output",
        },
    ],
});

#[derive(clap::Args)]
struct Convert {
    /// File with the trace
    trace: String,
    /// File to write, or - for standard output
    target: String,
    #[arg(long, value_name = "FORMAT", help = to_help("as the name of the target ends"), value_parser = written_format)]
    to: Option<Format>,
    #[command(flatten)]
    reading: TraceInput,
    /// How many times faster than recorded (0.000001 to 1000000)
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = speed)]
    speed: Speed,
    /// Replace the target if it exists
    #[arg(long)]
    force: bool,
    /// The outcome as a JSON object on standard output
    #[arg(long)]
    json: bool,
}

fn speed(text: &str) -> Result<Speed, String> {
    let factor = text.parse().ok().and_then(Speed::new);
    factor.ok_or_else(|| "expected a number from 0.000001 to 1000000".to_string())
}

impl Run for Convert {
    const PACE: Option<Pace> = Some(Pace::Shows("bytes of the trace"));

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        if self.target == "-" && self.json {
            return Err(Failure::Usage("--json and the trace both want standard output; name a target file".into()));
        }
        let to = target_format(&self.target, self.to, None)?;
        let (mut trace, part) = self.reading.open(&self.trace, self.speed, terminal)?;
        let written = if self.target == "-" {
            convert(trace.source(), RecordSink::new(to, Box::new(io::stdout()))?)?
        } else {
            let write = |file| Ok(convert(trace.source(), RecordSink::to_file(to, Box::new(file))?)?);
            target::write(&self.target, self.force, write)?
        };
        drop(part);
        self.report(to, &trace, &written, terminal)?;
        trace.uncut("converted")
    }
}

impl Convert {
    fn report(&self, to: Format, trace: &Trace, written: &Written, terminal: &mut Terminal) -> Result<(), Failure> {
        let lost = written.losses;
        if self.json {
            let object = json!({
                "trace": self.trace, "format": trace.reader().format().name(),
                "target": self.target, "to": to.name(),
                "written": written.records, "dropped": lost.dropped(), "losses": lost.to_string(),
                "report": report_json(trace.reader().report()),
            });
            return terminal.say(&object.to_string());
        }
        trace.complain(terminal);
        terminal.complain(&format!("{}: {} records written; {lost}", self.target, written.records));
        Ok(())
    }
}
