//! `esker mirror scrub`: compares the members of a mirror.

use crate::failure::Failure;
use crate::mirrors::{Mirror, scrubbed};
use crate::progress::Pace;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Scrub>(About {
    words: &["mirror", "scrub"],
    summary: "Compare all members of a mirror, and mend what differs",
    details: "Reads all members in sync. Where they differ, what the first one holds is written to the others. What a \
              member cannot read is written to it again. Clients go first. The exit status is 1 if anything differed or \
              could not be read. A wait that is broken off lets the scrub go on; --stop ends it.",
    examples: &[
        Example { line: "esker mirror scrub vol", does: "compares and waits for the end" },
        Example { line: "esker mirror scrub vol --no-wait", does: "begins, for `esker mirror status` to follow" },
    ],
});

#[derive(clap::Args)]
struct Scrub {
    #[command(flatten)]
    mirror: Mirror,
    /// Do not wait for the end
    #[arg(long)]
    no_wait: bool,
    /// End the scrub that goes on
    #[arg(long, conflicts_with = "no_wait")]
    stop: bool,
}

impl Run for Scrub {
    const PACE: Option<Pace> = Some(Pace::Shows("bytes of the mirror"));

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        if self.stop {
            return self.mirror.order(&["scrub", "stop"]).map(drop);
        }
        self.mirror.members()?;
        self.mirror.order(&["scrub"])?;
        if self.no_wait {
            return Ok(());
        }
        let told = self.mirror.wait(terminal, "scrub", |told| Ok(told["scrub"]["running"] == false))?;
        let scrub = &told["scrub"];
        terminal.say(&scrubbed(scrub))?;
        match scrub["differing_bytes"] == 0 && scrub["unreadable_bytes"] == 0 {
            true => Ok(()),
            false => Err(Failure::Passed(1)),
        }
    }
}
