//! `esker sync`: waits until nothing is in flight and everything is flushed.

use esker_serve::Command;

use crate::control::Control;
use crate::failure::Failure;
use crate::patience::Patience;
use crate::progress::Pace;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<SyncArgs>(About {
    words: &["sync"],
    summary: "Wait until nothing is in flight and everything is flushed",
    details: "New requests are held back, those in flight end, every export and device is flushed, and requests go on. \
              What was written before is on the media then.",
    examples: &[Example { line: "esker sync --patience 2000", does: "gives up if requests take longer than 2 s" }],
});

#[derive(clap::Args)]
struct SyncArgs {
    #[command(flatten)]
    control: Control,
    #[command(flatten)]
    patience: Patience,
}

impl Run for SyncArgs {
    const PACE: Option<Pace> = Some(Pace::Waits("requests in flight and the flush"));

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let done = self.control.ask(&Command::Sync { patience_ms: self.patience.ms })?;
        terminal.say(&format!("everything is flushed; requests were held for {} ms", done["held_ms"]))
    }
}
