//! `esker trace show`: a recording for people, or as JSON.

use esker_base::{Nanos, Time};
use esker_trace_calls::wire::Field;
use esker_trace_calls::{Action, Trace};
use serde_json::json;

use crate::failure::Failure;
use crate::progress::Pace;
use crate::recording::{self, Recording};
use crate::terminal::{Terminal, table};
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Show>(About {
    words: &["trace", "show"],
    summary: "Show what is in a recording",
    details: "Prints threads, counts of calls, and the actions: number, beginning and duration, thread, call and result. With \
              --json the first line describes the recording and each further one an action. A recording without an end is shown \
              as far as it goes, with a warning.",
    examples: &[
        Example { line: "esker trace show app.etrace --summary", does: "tells threads and calls" },
        Example { line: "esker trace show app.etrace --from 100 --count 20", does: "shows actions 100 to 119" },
        Example { line: "esker trace show app.etrace --json", does: "prints a JSON object a line" },
    ],
});

#[derive(clap::Args)]
struct Show {
    #[command(flatten)]
    recording: Recording,
    /// First action to show, from 0
    #[arg(long, value_name = "NUMBER", default_value = "0")]
    from: usize,
    /// Actions to show [default: all]
    #[arg(long, value_name = "COUNT")]
    count: Option<usize>,
    /// No actions
    #[arg(long)]
    summary: bool,
    /// The files before the trace, too
    #[arg(long)]
    files: bool,
    /// JSON, for programs
    #[arg(long)]
    json: bool,
}

impl Run for Show {
    const PACE: Option<Pace> = Some(Pace::Shows("bytes of the trace"));

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let trace = recording::read(&self.recording.trace, &terminal.watcher())?;
        let count = if self.summary { 0 } else { self.count.unwrap_or(usize::MAX) };
        let actions = trace.actions.iter().enumerate().skip(self.from).take(count);
        if self.json {
            terminal.say(&self.described(&trace).to_string())?;
            for (number, action) in actions {
                let mut object = json!(action);
                object["number"] = json!(number);
                writeln!(terminal.output(), "{object}")?;
            }
            return Ok(());
        }
        recording::complain(&trace.warnings, terminal);
        terminal.say(&summary(&trace))?;
        if self.files {
            for (path, entry) in &trace.snapshot.entries {
                let mut text = String::new();
                entry.render(&mut text);
                writeln!(terminal.output(), "{path}  {text}")?;
            }
        }
        actions.map(|(number, action)| line(number, action)).try_for_each(|line| terminal.say(&line))
    }
}

impl Show {
    fn described(&self, trace: &Trace) -> serde_json::Value {
        let files = self.files.then_some(&trace.snapshot.entries).map(|entries| {
            let entries = entries.iter().map(|(path, entry)| json!({ "path": path, "entry": entry }));
            entries.collect::<Vec<_>>()
        });
        json!({
            "platform": trace.platform, "source": trace.source, "processes": trace.processes, "threads": trace.threads,
            "inherited": trace.inherited, "actions": trace.actions.len(), "files": trace.snapshot.entries.len(),
            "snapshot": files, "warnings": trace.warnings, "calls": counts(trace).into_iter().collect::<serde_json::Map<_, _>>(),
        })
    }
}

/// How often each kind of call comes.
fn counts(trace: &Trace) -> Vec<(String, serde_json::Value)> {
    let mut counts = std::collections::BTreeMap::<&str, u64>::new();
    trace.actions.iter().for_each(|action| *counts.entry(action.call.name()).or_default() += 1);
    counts.into_iter().map(|(name, count)| (name.to_string(), json!(count))).collect()
}

fn summary(trace: &Trace) -> String {
    let span = trace.actions.iter().map(|action| action.leave).max().unwrap_or(Time::ZERO);
    let rows = [
        ("platform", trace.platform.name().to_string()),
        ("source", trace.source.to_string()),
        ("processes", trace.processes.len().to_string()),
        ("threads", trace.threads.len().to_string()),
        ("actions", trace.actions.len().to_string()),
        ("elapsed", Nanos(span.0).to_string()),
        ("files before", trace.snapshot.entries.len().to_string()),
        (
            "files after",
            trace.after.as_ref().map_or("unknown".to_string(), |after| after.tree.entries.len().to_string()),
        ),
        ("open before", trace.inherited.len().to_string()),
    ];
    let rows = rows.into_iter().map(|(name, value)| vec![name.to_string(), value]);
    let calls = counts(trace).into_iter().map(|(name, count)| vec![format!("  {name}"), count.to_string()]);
    table(&[], &rows.chain(calls).collect::<Vec<_>>())
}

/// One action: `12  0.001234567 +0.000010000  T1  read(fd=3, len=10, parts=0) = 10`.
fn line(number: usize, action: &Action) -> String {
    let seconds = |ns: u64| format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
    let mut call = String::new();
    action.call.render(&mut call);
    call.push_str(" = ");
    action.outcome.render(&mut call);
    let (enter, took) = (seconds(action.enter.0), seconds(action.leave.0 - action.enter.0));
    format!("{number:>7}  {enter} +{took}  T{:<3} {call}", action.thread.0)
}
