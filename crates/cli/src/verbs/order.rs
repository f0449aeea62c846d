//! `esker order`: has a layer, or the file system of a mount, do what only its kind can do.

use esker_serve::Command;

use crate::control::Control;
use crate::failure::Failure;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<OrderArgs>(About {
    words: &["order"],
    summary: "Have a layer do what only its kind can do",
    details: "The orders of a kind stand on its page, and in `esker kinds KIND`. The answer is JSON, on one line.",
    examples: &[
        Example { line: "esker order vol policy arc", does: "has the cache vol go on with the policy arc" },
        Example { line: "esker order vol write-back", does: "has the cache vol write all dirty lines home" },
    ],
});

#[derive(clap::Args)]
struct OrderArgs {
    /// The layer or mount
    #[arg(value_name = "DEVICE")]
    device: String,
    /// The order, in words of its kind
    #[arg(value_name = "WORD", required = true)]
    words: Vec<String>,
    #[command(flatten)]
    control: Control,
}

impl Run for OrderArgs {
    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let answer = self.control.ask(&Command::Order { device: self.device, words: self.words })?;
        terminal.say(&answer.to_string())
    }
}
