//! `esker mirror status`: shows the members of a mirror.

use crate::failure::Failure;
use crate::mirrors::{Mirror, shown};
use crate::progress::Pace;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Status>(About {
    words: &["mirror", "status"],
    summary: "Show the members of a mirror, and how far a resync and a scrub are",
    details: "A member is in sync, resyncing or offline. Of an offline one, the reason why it does not come back is told.",
    examples: &[Example { line: "esker mirror status vol", does: "shows the members of vol" }],
});

#[derive(clap::Args)]
struct Status {
    #[command(flatten)]
    mirror: Mirror,
    /// The answer as JSON
    #[arg(long)]
    json: bool,
}

impl Run for Status {
    const PACE: Option<Pace> = Some(Pace::AtOnce);

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let (names, told) = (self.mirror.members()?, self.mirror.order(&["members"])?);
        terminal.say(&if self.json { told.to_string() } else { shown(&names, &told) })
    }
}
