//! `esker mirror rescan`: looks for offline members at once.

use crate::failure::Failure;
use crate::mirrors::Mirror;
use crate::progress::Pace;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Rescan>(About {
    words: &["mirror", "rescan"],
    summary: "Look for offline members of a mirror at once",
    details: "Also for those that `esker mirror offline` took out of use. `esker mirror status` tells what came of it.",
    examples: &[Example { line: "esker mirror rescan vol", does: "brings back members of vol that answer again" }],
});

#[derive(clap::Args)]
struct Rescan {
    #[command(flatten)]
    mirror: Mirror,
}

impl Run for Rescan {
    const PACE: Option<Pace> = Some(Pace::Waits("the answer of the server"));

    fn run(self, _: &mut Terminal) -> Result<(), Failure> {
        self.mirror.order(&["rescan"]).map(drop)
    }
}
