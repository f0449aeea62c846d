//! `esker stop`: stops a server and waits until it has ended.

use esker_serve::Command;

use crate::control::Control;
use crate::failure::Failure;
use crate::progress::Pace;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Stop>(About {
    words: &["stop"],
    summary: "Stop a server and wait until everything is flushed",
    details: "Does what a signal to the server does: requests under way are answered, everything is flushed, the server \
              ends. If that takes longer than the patience, the server ends all the same, and server and this verb have \
              status 1.",
    examples: &[Example { line: "esker stop --control run/esker.ctl", does: "stops the server of that socket" }],
});

#[derive(clap::Args)]
struct Stop {
    #[command(flatten)]
    control: Control,
    /// Milliseconds that the stop may take, at most 600000 [default: what the server was started with]
    #[arg(long, value_name = "MS")]
    patience: Option<u64>,
}

impl Run for Stop {
    const PACE: Option<Pace> = Some(Pace::Waits("the end of the server"));

    fn run(self, _: &mut Terminal) -> Result<(), Failure> {
        self.control.ask_and_see_off(&Command::Stop { patience_ms: self.patience })
    }
}
