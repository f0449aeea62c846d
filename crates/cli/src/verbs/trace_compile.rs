//! `esker trace compile`: a recording becomes a file that a replay can play in every mode.

use std::io::Write;
use std::path::PathBuf;

use esker_trace_order::compiled::{Losses, Program, Repairs};
use serde_json::json;

use crate::failure::Failure;
use crate::progress::Pace;
use crate::recording::{self, Source};
use crate::replaying::compiled;
use crate::target;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Compile>(About {
    words: &["trace", "compile"],
    summary: "Compile a recording for replay",
    details: "Plays all calls on a symbolic file system, which finds the files, names and descriptors of each call. \
              Contradictions between the trace and known files are repaired and counted: files that no snapshot lists \
              are added to the tree at the start, descriptors are opened before the start, a lost event is replaced. \
              The result holds for every mode and every choice of rules. A recording of which parts are lost is \
              refused without --partial. Exit status 3: more contradictions than --max-repairs.",
    examples: &[
        Example { line: "esker trace compile app.etrace -o app.ectr", does: "compiles a recording" },
        Example { line: "esker trace compile app.strace -o app.ectr", does: "imports and compiles what strace wrote" },
        Example {
            line: "esker trace compile app.etrace -o app.ectr --max-repairs 0",
            does: "refuses a trace that contradicts its snapshot",
        },
    ],
});

/// Exit status of a trace that contradicts its snapshot too often.
const CONTRADICTORY: u8 = 3;

#[derive(clap::Args)]
struct Compile {
    #[command(flatten)]
    source: Source,
    /// The compiled trace to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Contradictions between trace and files that are allowed [default: any number]
    #[arg(long, value_name = "COUNT")]
    max_repairs: Option<u64>,
    /// Compile also a recording of which parts are lost: replays of it predict nothing
    #[arg(long)]
    partial: bool,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
    /// The outcome as a JSON object on standard output
    #[arg(long)]
    json: bool,
}

#[derive(Debug, thiserror::Error)]
enum Unwritten {
    #[error("{0}: cannot be written: {1}")]
    Refused(String, std::io::Error),
    #[error(
        "{0}: parts of the recording are lost: record again with a larger --buffer, or compile what is left with --partial"
    )]
    Partial(String),
    #[error("{0}: {1}")]
    Uncompiled(String, esker_trace_order::model::CompileError),
}

impl Run for Compile {
    const PACE: Option<Pace> = Some(Pace::Shows("bytes of the trace, actions"));

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let trace = self.source.read(&terminal.watcher())?;
        if let Err(lost) = recording::refuse_lost(&trace, &self.source.name()) {
            recording::complain(&trace.warnings, terminal);
            return Err(lost);
        }
        if !self.partial && !Losses::of(&trace.warnings).is_nothing() {
            recording::complain(&trace.warnings, terminal);
            return Err(Unwritten::Partial(self.source.name()).into());
        }
        let warnings = trace.warnings.clone();
        let program =
            compiled(trace, &terminal.watcher()).map_err(|error| Unwritten::Uncompiled(self.source.name(), error))?;
        let contradictions = program.about().repairs.contradictions();
        let allowed = self.max_repairs.is_none_or(|max| contradictions <= max);
        let bytes = if allowed { self.write(&program)? } else { 0 };
        if self.json {
            let object = json!({
                "output": self.output.display().to_string(), "actions": program.len(),
                "threads": program.players().len(), "bytes": bytes, "slots": program.slots().len(),
                "files": program.snapshot().entries.len(), "warnings": warnings,
                "repairs": program.about().repairs, "contradictions": contradictions, "written": allowed,
            });
            terminal.say(&object.to_string())?;
        } else {
            recording::complain(&warnings, terminal);
            complain(&program.about().repairs, terminal);
            if allowed {
                let (actions, threads) = (program.len(), program.players().len());
                let output = self.output.display();
                terminal.complain(&format!("{output}: {actions} actions of {threads} threads, {bytes} bytes written"));
            }
        }
        if allowed {
            return Ok(());
        }
        let max = self.max_repairs.unwrap_or_default();
        let trace = self.source.name();
        terminal.complain(&format!(
            "{trace}: {contradictions} contradictions between trace and files, {max} are allowed: record again with a \
             snapshot of all that the program uses, or allow more with --max-repairs"
        ));
        Err(Failure::Passed(CONTRADICTORY))
    }
}

impl Compile {
    fn write(&self, program: &Program) -> Result<usize, Failure> {
        let bytes = program.encode();
        let name = self.output.display().to_string();
        target::write(&name, self.force, |mut file| {
            Ok(file.write_all(&bytes).map_err(|error| Unwritten::Refused(name.clone(), error))?)
        })?;
        Ok(bytes.len())
    }
}

/// Tells what was repaired: how often, and where first.
pub fn complain(repairs: &Repairs, terminal: &mut Terminal) {
    for (kind, tally) in repairs.tallies() {
        let first =
            tally.places.first().map_or(String::new(), |(action, what)| format!(", first at action {action}: {what}"));
        terminal.complain(&format!("repaired: {}: {}{first}", kind.means(), tally.count));
    }
}
