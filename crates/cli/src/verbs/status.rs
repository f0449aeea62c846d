//! `esker status`: what a server tells about itself.

mod page;

use std::time::Duration;

use crate::control::Control;
use crate::failure::Failure;
use crate::progress::Pace;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Show>(About {
    words: &["status"],
    summary: "Show health, clients and statistics of a server",
    details: "Numbers are since the server's start, with units; --json has them raw. `esker top` shows rates. Exit status 1, with the reason first, if the stack is \
              latched, or a part or a mount of it cannot be used, or a part is latched or degraded.",
    examples: &[
        Example { line: "esker status --control run/esker.ctl", does: "shows it for people" },
        Example { line: "esker status --json", does: "for programs, of the server with esker.ctl here" },
    ],
});

#[derive(clap::Args)]
struct Show {
    #[command(flatten)]
    control: Control,
    /// JSON, for programs
    #[arg(long)]
    json: bool,
}

/// A server that is alive answers at once.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
#[error("not everything is well: {0}")]
struct Unwell(String);

impl Run for Show {
    const PACE: Option<Pace> = Some(Pace::AtOnce);

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let status = self.control.status(PATIENCE)?;
        match self.json {
            true => terminal.say(&serde_json::to_string(&status)?)?,
            false => terminal.say_marked(&page::page(&status))?,
        }
        let problems = status.problems();
        if problems.is_empty() { Ok(()) } else { Err(Unwell(problems.join(" ")).into()) }
    }
}
