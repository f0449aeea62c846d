//! `esker trace deps`: what a compiled trace holds, and what each mode waits for.

use std::ops::Range;
use std::path::PathBuf;

use esker_base::Nanos;
use esker_trace_order::compiled::inspect::{EdgeRow, ModeRow, dot, modes, timeline};
use esker_trace_order::compiled::{LeftOut, Program};
use esker_trace_order::rules::Rules;
use serde_json::json;

use crate::failure::Failure;
use crate::outputs::Output;
use crate::progress::Pace;
use crate::replaying;
use crate::terminal::{Terminal, table};
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Deps>(About {
    words: &["trace", "deps"],
    summary: "Show what a replay of a trace would wait for",
    details: "Prints threads, actions and repairs. For each mode of replay and each rule it prints the number of \
              edges between threads and their length in the trace, from the return of the first call to the entry \
              of the second. Waits are edges that no others imply. Long edges seldom hold a replay up; short ones \
              do. --dot and --timeline draw a window of actions with three kinds of edges: of threads, of mode \
              root, and of mode temporal.",
    examples: &[
        Example { line: "esker trace deps app.ectr", does: "counts edges by mode and rule" },
        Example { line: "esker trace deps app.ectr --rule no-file_seq", does: "counts them without a rule" },
        Example { line: "esker trace deps app.ectr --window 100..160 --dot app.dot", does: "writes a graph" },
        Example { line: "esker trace deps app.ectr --window 0..400 --timeline app.svg", does: "draws a timeline" },
    ],
});

/// Actions in a window unless one is given.
const WINDOW: u32 = 200;

const MARK: &str = "Written by esker trace deps";

#[derive(clap::Args)]
struct Deps {
    /// Compiled trace, or recording, which is compiled first
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// A rule of mode root to switch on or, with no- before its name, off; repeat it for more
    #[arg(long = "rule", value_name = "RULE")]
    rules: Vec<String>,
    /// Actions to draw: FIRST..END [default: the first 200]
    #[arg(long, value_name = "RANGE", value_parser = window)]
    window: Option<Range<u32>>,
    /// Writes the window as a graph in the language of Graphviz
    #[arg(long, value_name = "FILE")]
    dot: Option<PathBuf>,
    /// Writes the window as a picture (SVG) over time
    #[arg(long, value_name = "FILE")]
    timeline: Option<PathBuf>,
    /// Replace files that exist
    #[arg(long)]
    force: bool,
    /// JSON, for programs
    #[arg(long)]
    json: bool,
}

fn window(text: &str) -> Result<Range<u32>, String> {
    let (first, end) = text.split_once("..").ok_or("a window is FIRST..END, such as 100..160")?;
    let number = |text: &str| text.parse::<u32>().map_err(|error| format!("{text:?}: {error}"));
    match (number(first)?, number(end)?) {
        (first, end) if first < end => Ok(first..end),
        _ => Err("the window is empty: FIRST..END needs a larger END".into()),
    }
}

impl Run for Deps {
    const PACE: Option<Pace> = Some(Pace::Shows("bytes of the trace, actions"));

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let rules = chosen(&self.rules)?;
        let program = replaying::load(&self.trace, terminal)?.program;
        let len = program.len() as u32;
        let window = self.window.clone().unwrap_or(0..WINDOW.min(len));
        if window.end > len {
            return Err(Failure::Usage(format!("the window ends at {}, the trace has {len} actions", window.end)));
        }
        if let Some(path) = &self.dot {
            let text = dot(&program, rules, window.clone());
            Output::claim(path.clone(), &["digraph trace"], self.force, "--dot")?.put(&text)?;
        }
        if let Some(path) = &self.timeline {
            let svg = timeline(&program, rules, window).file(MARK)?;
            Output::claim(path.clone(), &[MARK], self.force, "--timeline")?.put(&svg)?;
        }
        let modes = modes(&program, rules);
        let left_out = LeftOut::of(&program);
        if self.json {
            return terminal.say(&described(&program, left_out, &modes).to_string());
        }
        terminal.say(&summary(&program))?;
        if let Some(why) = left_out.why_no_time() {
            terminal.complain(&format!("warning: a replay predicts no time: {why}"));
        }
        left_out.warning().iter().for_each(|what| terminal.complain(&format!("warning: {what}")));
        super::trace_compile::complain(&program.about().repairs, terminal);
        let rows: Vec<_> = modes.iter().flat_map(rows).collect();
        let names = ["mode", "edges", "mean length", "waits", "mean length", "bytes per action"];
        terminal.say(&format!("\n{}", table(&names, &rows)))
    }
}

fn chosen(words: &[String]) -> Result<Rules, Failure> {
    let each = words.iter().try_fold(Rules::default(), |rules, word| match word.strip_prefix("no-") {
        Some(name) => rules.without(name),
        None => rules.with(word),
    });
    each.and_then(Rules::check).map_err(|error| Failure::Usage(error.to_string()))
}

fn described(program: &Program, left_out: LeftOut, modes: &[ModeRow]) -> serde_json::Value {
    let threads = program.players().iter().enumerate().map(|(number, player)| {
        json!({ "tid": player.tid, "pid": player.pid, "name": player.name, "actions": program.outline().thread_len(number as u32) })
    });
    json!({
        "about": program.about(), "actions": program.len(), "threads": threads.collect::<Vec<_>>(),
        "files": program.snapshot().entries.len(), "slots": program.slots().len(), "opened": program.opened().len(),
        "resources": program.outline().resources().len(), "thread_edges": thread_edges(program), "modes": modes,
        "left_out": left_out,
    })
}

/// Pairs of consecutive actions of one thread.
fn thread_edges(program: &Program) -> u64 {
    let lens = (0..program.players().len() as u32).map(|thread| u64::from(program.outline().thread_len(thread)));
    lens.map(|len| len.saturating_sub(1)).sum()
}

fn summary(program: &Program) -> String {
    let about = program.about();
    let rows = [
        ("source", about.source.to_string()),
        ("threads", program.players().len().to_string()),
        ("actions", program.len().to_string()),
        ("elapsed", Nanos(about.elapsed_ns).to_string()),
        ("files before", program.snapshot().entries.len().to_string()),
        ("open before", program.opened().len().to_string()),
        ("descriptors", program.slots().len().to_string()),
        ("shared resources", program.outline().resources().len().to_string()),
        ("edges in threads", thread_edges(program).to_string()),
    ];
    let rows = rows.map(|(name, value)| vec![name.to_string(), value]);
    table(&[], &rows)
}

/// A row for the mode, and one for each of its rules.
fn rows(mode: &ModeRow) -> Vec<Vec<String>> {
    let row = |indent: &str, row: &EdgeRow, bytes: String| {
        let [all, waits] = [row.mean_length_ns, row.waits_mean_length_ns].map(|ns| Nanos(ns).to_string());
        vec![format!("{indent}{}", row.name), row.edges.to_string(), all, row.waits.to_string(), waits, bytes]
    };
    let head = row("", &mode.total, format!("{:.1}", mode.bytes_per_action));
    std::iter::once(head).chain(mode.rules.iter().map(|rule| row("  ", rule, String::new()))).collect()
}
