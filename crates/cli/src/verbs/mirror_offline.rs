//! `esker mirror offline`: takes a member out of use.

use crate::failure::Failure;
use crate::mirrors::{Mirror, shown};
use crate::progress::Pace;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Offline>(About {
    words: &["mirror", "offline"],
    summary: "Take a member of a mirror out of use",
    details: "The mirror writes and reads the others alone, and its superblocks say so. It does not look for the member \
              before `esker mirror rescan` or the next start. The last member in sync is refused.",
    examples: &[Example { line: "esker mirror offline vol b", does: "vol goes on without b" }],
});

#[derive(clap::Args)]
struct Offline {
    #[command(flatten)]
    mirror: Mirror,
    /// The member, by its name in the stack
    #[arg(value_name = "MEMBER")]
    member: String,
}

impl Run for Offline {
    const PACE: Option<Pace> = Some(Pace::Waits("the answer of the server"));

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let number = self.mirror.number(&self.member)?.to_string();
        let told = self.mirror.order(&["offline", &number])?;
        terminal.say(&shown(&self.mirror.members()?, &told))
    }
}
