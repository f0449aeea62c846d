//! `esker freeze`: holds requests while the media are copied.

use std::process::Command as Program;

use esker_serve::Command;
use serde_json::Value;

use crate::control::Control;
use crate::failure::Failure;
use crate::patience::Patience;
use crate::progress::Pace;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Freeze>(About {
    words: &["freeze"],
    summary: "Flush everything and hold requests, for a snapshot of the media",
    details: "Waits for requests in flight, flushes every export and device, and holds new requests until `esker \
              thaw`, or for the time of --limit. With a COMMAND, runs it meanwhile and thaws by itself; the exit \
              status is 1 if the command fails, or if the freeze ended before it, because the copy may not be \
              consistent then.",
    examples: &[
        Example {
            line: "esker freeze --limit 5000 -- cp --reflink=always disk.img snapshot.img",
            does: "copies a file device in a consistent state",
        },
        Example { line: "esker freeze", does: "prints a number for `esker thaw`" },
    ],
});

#[derive(clap::Args)]
struct Freeze {
    #[command(flatten)]
    control: Control,
    /// Milliseconds for which requests are held at most, at most 600000
    #[arg(long, value_name = "MS", default_value_t = 30_000)]
    limit: u64,
    #[command(flatten)]
    patience: Patience,
    /// Program to run meanwhile, with its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
enum FreezeError {
    #[error("{program}: cannot be run: {source}; requests go on")]
    NotRun { program: String, source: std::io::Error },
    #[error("{program}: {status}; requests go on")]
    Failed { program: String, status: std::process::ExitStatus },
    #[error("the server's answer has no number: {0}")]
    NoNumber(Value),
}

impl Run for Freeze {
    const PACE: Option<Pace> = Some(Pace::Serves);

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let freeze = Command::Freeze { limit_ms: self.limit, patience_ms: self.patience.ms };
        let waits = terminal.watcher().takes("waiting for requests in flight", None);
        let begun = self.control.ask(&freeze)?;
        drop(waits);
        let number = begun["freeze"].as_u64().ok_or_else(|| FreezeError::NoNumber(begun.clone()))?;
        let Some((program, arguments)) = self.command.split_first() else {
            let limit = begun["limit_ms"].as_f64().unwrap_or_default();
            return terminal.say(&format!("freeze {number}: requests are held for at most {limit} ms"));
        };
        let ran = Program::new(program).args(arguments).status();
        // Whatever became of the program, no request may wait longer.
        let thawed = self.control.ask(&Command::Thaw { freeze: Some(number) });
        let program = program.clone();
        match ran {
            Err(source) => Err(FreezeError::NotRun { program, source }.into()),
            Ok(status) if !status.success() => Err(FreezeError::Failed { program, status }.into()),
            Ok(_) => {
                let held = thawed?["held_ms"].clone();
                terminal.say(&format!("freeze {number}: requests were held for {held} ms"))
            }
        }
    }
}
