//! `esker fs play`: makes the calls of scripts on a file system of ours, or in a directory of this machine.

mod in_place;

use std::path::{Path, PathBuf};

use esker_base::{Digest, Unit};
use esker_fs_posix::script::{Actor, EXPECTED, Outcome, Player, ScriptError, ScriptLine, ScriptOp};
use esker_fs_posix::{Settings, World};
use esker_vfs::{Cred, Stamp};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::fs_kinds;
use crate::progress::{Pace, Watcher};
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};
use crate::virtual_files::plain;

/// The record.
pub const VERB: Verb = Verb::of::<Play>(About {
    words: &["fs", "play"],
    summary: "Make the calls of scripts on a file system, and tell what came of each",
    details: "A script is text: a call on each line, such as `mkdir A 0755`. Each script begins on an empty \
              file system, as the superuser. Behind each call its outcome is printed, in a line that begins \
              with //=. Such a line in a script states what is expected: so what is printed is a script that \
              expects the same again. The exit status is 4 if an outcome differs from what a script expects. \
              docs/guide/file-systems.md lists the calls.\n\n\
              With --dir, the kernel plays each script in a new folder of the directory, which is removed behind it. A \
              process of its own makes the calls. The superuser's has that folder as its root. Another user's has not, \
              and plays no absolute paths, no paths with \"..\", and no `become`.",
    examples: &[
        Example { line: "esker fs play names.script", does: "plays it on a file system in memory" },
        Example { line: "esker fs play names.script > expected.script", does: "states what came of it" },
        Example { line: "esker fs play expected.script", does: "says whether it comes out so again" },
        Example { line: "esker fs play *.script --on ram --json", does: "plays several, for programs" },
        Example {
            line: "esker fs play expected.script --dir /mnt",
            does: "says whether the kernel does the same there",
        },
    ],
});

/// Exit status of scripts that came out otherwise.
const DIFFERS: u8 = 4;

#[derive(clap::Args)]
struct Play {
    /// Scripts, - for standard input
    #[arg(value_name = "SCRIPT", required = true)]
    scripts: Vec<PathBuf>,
    /// Kind of the file system
    #[arg(long, value_name = "KIND", default_value = "ram")]
    on: String,
    /// Directory of this machine to play in, in place of a file system of Esker
    #[arg(long, value_name = "DIR", conflicts_with_all = ["on", "seed"])]
    dir: Option<PathBuf>,
    /// Seed of the world
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// JSON, for programs
    #[arg(long)]
    json: bool,
    /// Be the process that plays in this folder
    #[arg(long, value_name = "FOLDER", hide = true, conflicts_with_all = ["on", "seed", "dir", "json"])]
    inside: Option<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
enum PlayError {
    #[error("{0}: cannot be read: {1}")]
    Unread(String, std::io::Error),
    #[error("{0}: {1}")]
    Script(String, ScriptError),
}

impl Run for Play {
    const PACE: Option<Pace> = Some(Pace::Shows("calls of each script"));

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let mut differing = 0;
        let mut played = Vec::new();
        for path in &self.scripts {
            let name = path.display().to_string();
            let lines = read(&name, path)?;
            let told = match (&self.inside, &self.dir) {
                (Some(folder), _) => return in_place::inside(folder, &lines, terminal),
                (None, Some(dir)) => in_place::play(dir, &name, &lines, &terminal.watcher())?,
                (None, None) => self.simulated(&name, &lines, &terminal.watcher())?,
            };
            differing += report(&name, &lines, &told, self.json, &mut played, terminal)?;
        }
        if self.json {
            terminal.say(&Value::Array(played).to_string())?;
        }
        if differing == 0 { Ok(()) } else { Err(Failure::Passed(DIFFERS)) }
    }
}

impl Play {
    /// Plays a script on a new file system of ours. Answers a line for each call.
    fn simulated(&self, name: &str, lines: &[ScriptLine], watcher: &Watcher) -> Result<Vec<String>, Failure> {
        let part = watcher.part(name, Unit::Of("calls"), Some(lines.len() as u64));
        let simulation = plain(fs_kinds::find(&self.on)?, self.seed)?;
        let clock = simulation.sim.rt();
        let world = World::new(simulation.files.clone(), Settings::usual(), move || Stamp(clock.wall()));
        let ops: Vec<ScriptOp> = lines.iter().map(|line| line.op.clone()).collect();
        let outcomes = simulation.sim.try_block_on(async move {
            let mut actor = Actor::new(world.process(Cred::root()));
            let mut outcomes: Vec<Outcome> = Vec::new();
            for op in &ops {
                outcomes.push(actor.call(op).await);
                part.more(1);
            }
            outcomes
        })?;
        Ok(outcomes.iter().map(Outcome::to_string).collect())
    }
}

/// Tells what came of a script; gives how many calls came out otherwise than expected.
fn report(
    name: &str,
    lines: &[ScriptLine],
    told: &[String],
    json: bool,
    played: &mut Vec<Value>,
    terminal: &mut Terminal,
) -> Result<usize, Failure> {
    let mut differing = 0;
    let mut calls = Vec::new();
    for (line, outcome) in lines.iter().zip(told) {
        let differs = line.expected.as_ref().is_some_and(|expected| expected != outcome);
        differing += usize::from(differs);
        if differs {
            let expected = line.expected.as_deref().unwrap_or_default();
            terminal.complain(&format!("{name}:{}: {}: expected {expected}, got {outcome}", line.number, line.op));
        }
        match json {
            true => calls.push(json!({
                "line": line.number,
                "call": line.op.to_string(),
                "outcome": outcome,
                "expected": line.expected,
            })),
            false => terminal.say(&format!("{}\n{EXPECTED} {outcome}", line.op))?,
        }
    }
    let mut digest = Digest::new();
    told.iter().for_each(|outcome| digest.bytes(outcome.as_bytes()));
    played.push(json!({
        "script": name,
        "calls": calls,
        "differing": differing,
        "digest": format!("{:016x}", digest.value()),
    }));
    Ok(differing)
}

fn read(name: &str, path: &Path) -> Result<Vec<ScriptLine>, PlayError> {
    let unread = |error| PlayError::Unread(name.to_string(), error);
    let text = match name {
        "-" => std::io::read_to_string(std::io::stdin()).map_err(unread)?,
        _ => std::fs::read_to_string(path).map_err(unread)?,
    };
    parse(name, &text)
}

fn parse(name: &str, text: &str) -> Result<Vec<ScriptLine>, PlayError> {
    ScriptLine::read(text).map_err(|error| PlayError::Script(name.to_string(), error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_behind_a_call_states_its_outcome() {
        let lines = parse("s", "// a comment\nmkdir A 0755\n//= ok\n\nrmdir A\n").unwrap();
        let told: Vec<_> = lines.iter().map(|line| (line.number, line.expected.as_deref())).collect();
        assert_eq!(told, [(2, Some("ok")), (5, None)]);
        for (text, why) in [
            ("//= ok", "s: line 1 expects an outcome, and no call stands before it"),
            ("rmdir A\n//= ok\n//= ok", "s: line 3 expects an outcome, and no call stands before it"),
            ("rmdir A\nrmdir", "s: line 2: \"rmdir\": a word is missing"),
        ] {
            assert_eq!(parse("s", text).map(|_| ()).unwrap_err().to_string(), why);
        }
    }
}
