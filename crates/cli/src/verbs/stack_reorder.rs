//! `esker stack reorder`: gives layers of a served stack a new order.

use esker_serve::Command;

use crate::control::Control;
use crate::failure::Failure;
use crate::patience::Patience;
use crate::progress::Pace;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Reorder>(About {
    words: &["stack", "reorder"],
    summary: "Give layers of a served stack a new order",
    details: "The layers must stand directly on each other. Requests are held back until those in flight have ended. If \
              it cannot be done, nothing is changed.",
    examples: &[Example { line: "esker stack reorder slow st", does: "puts layer slow directly on layer st" }],
});

#[derive(clap::Args)]
struct Reorder {
    #[command(flatten)]
    control: Control,
    #[command(flatten)]
    patience: Patience,
    /// The layers, top first
    #[arg(value_name = "NAME", required = true, num_args = 2..)]
    names: Vec<String>,
}

impl Run for Reorder {
    const PACE: Option<Pace> = Some(Pace::Waits("the answer of the server"));

    fn run(self, _: &mut Terminal) -> Result<(), Failure> {
        self.control.ask(&Command::Reorder { names: self.names, patience_ms: self.patience.ms }).map(drop)
    }
}
