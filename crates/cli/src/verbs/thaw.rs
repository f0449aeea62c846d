//! `esker thaw`: lets requests go on after a freeze.

use esker_serve::Command;

use crate::control::Control;
use crate::failure::Failure;
use crate::progress::Pace;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Thaw>(About {
    words: &["thaw"],
    summary: "Let requests go on after a freeze",
    details: "Exit status 1 if that freeze has ended by its limit: a copy that was made meanwhile may not be \
              consistent.",
    examples: &[
        Example { line: "esker thaw", does: "ends the freeze in force" },
        Example { line: "esker thaw 3", does: "ends freeze 3, if it lasted until now" },
    ],
});

#[derive(clap::Args)]
struct Thaw {
    #[command(flatten)]
    control: Control,
    /// Number that `esker freeze` printed
    #[arg(value_name = "FREEZE")]
    freeze: Option<u64>,
}

impl Run for Thaw {
    const PACE: Option<Pace> = Some(Pace::AtOnce);

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let done = self.control.ask(&Command::Thaw { freeze: self.freeze })?;
        terminal.say(&format!("freeze {}: requests were held for {} ms", done["freeze"], done["held_ms"]))
    }
}
