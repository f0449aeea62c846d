//! `esker stack insert`: puts a layer into a served stack.

use esker_serve::Command;

use crate::control::Control;
use crate::failure::Failure;
use crate::patience::Patience;
use crate::progress::Pace;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Insert>(About {
    words: &["stack", "insert"],
    summary: "Put a layer into a served stack",
    details: "Requests are held back until those in flight have ended; then the layer stands directly above the device \
              or layer that --above names, below all that stood there, and requests go on. If it cannot be done, nothing \
              is changed. `esker kinds` tells which layers can come under load.",
    examples: &[Example {
        line: "esker stack insert --control run/esker.ctl --above d1 'st = stats'",
        does: "counts the requests to d1",
    }],
});

#[derive(clap::Args)]
struct Insert {
    #[command(flatten)]
    control: Control,
    /// Device or layer on which the new one is to stand
    #[arg(long, value_name = "NAME")]
    above: String,
    #[command(flatten)]
    patience: Patience,
    /// The layer: NAME = KIND PARAM=VALUE ...
    #[arg(value_name = "LAYER")]
    layer: String,
}

impl Run for Insert {
    const PACE: Option<Pace> = Some(Pace::Waits("the answer of the server"));

    fn run(self, _: &mut Terminal) -> Result<(), Failure> {
        let Insert { control, above, patience, layer } = self;
        control.ask(&Command::Insert { device: layer, above, patience_ms: patience.ms }).map(drop)
    }
}
