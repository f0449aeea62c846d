//! `esker meters`: chooses what a server counts and times.

use esker_serve::Command;

use crate::control::Control;
use crate::failure::Failure;
use crate::meters::What;
use crate::patience::Patience;
use crate::progress::Pace;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Meters>(About {
    words: &["meters"],
    summary: "Choose which parts of a served stack are counted and timed",
    details: "Exports always are. Meters come and go as live changes do, and a meter that comes back counts on.",
    examples: &[
        Example { line: "esker meters all", does: "measures layers too" },
        Example { line: "esker meters off", does: "costs nothing any more" },
    ],
});

#[derive(clap::Args)]
struct Meters {
    #[command(flatten)]
    control: Control,
    /// Which parts
    #[arg(value_enum, value_name = "WHAT")]
    what: What,
    #[command(flatten)]
    patience: Patience,
}

impl Run for Meters {
    const PACE: Option<Pace> = Some(Pace::Waits("the answer of the server"));

    fn run(self, _: &mut Terminal) -> Result<(), Failure> {
        self.control.ask(&Command::Meters { what: self.what.measured(), patience_ms: self.patience.ms })?;
        Ok(())
    }
}
