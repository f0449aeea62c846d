//! `esker stack remove`: takes a layer out of a served stack.

use esker_serve::Command;

use crate::control::Control;
use crate::failure::Failure;
use crate::patience::Patience;
use crate::progress::Pace;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Remove>(About {
    words: &["stack", "remove"],
    summary: "Take a layer out of a served stack",
    details: "Layers above it then stand on the device below it. Requests are held back until those in flight have \
              ended. If it cannot be done, nothing is changed.",
    examples: &[Example { line: "esker stack remove --control run/esker.ctl st", does: "takes layer st out" }],
});

#[derive(clap::Args)]
struct Remove {
    #[command(flatten)]
    control: Control,
    #[command(flatten)]
    patience: Patience,
    /// The layer
    #[arg(value_name = "NAME")]
    name: String,
}

impl Run for Remove {
    const PACE: Option<Pace> = Some(Pace::Waits("the answer of the server"));

    fn run(self, _: &mut Terminal) -> Result<(), Failure> {
        self.control.ask(&Command::Remove { name: self.name, patience_ms: self.patience.ms }).map(drop)
    }
}
