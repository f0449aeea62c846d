//! `esker mirror detach`: takes a member out of a mirror for good.

use esker_serve::Command;

use crate::failure::Failure;
use crate::mirrors::{Mirror, PATIENCE_MS, shown};
use crate::progress::Pace;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Detach>(About {
    words: &["mirror", "detach"],
    summary: "Take a member out of a mirror for good",
    details: "The superblocks of the other members count it no more, and its own is zeroed. Clients go on. The last member in \
              sync is refused, and so is each member while the mirror resyncs or scrubs: it goes out of use then, and the verb \
              can be called again. The verb changes the served stack alone, and prints what the stack file must say from now on.",
    examples: &[Example { line: "esker mirror detach vol c", does: "vol has a member less, and c is free" }],
});

#[derive(clap::Args)]
struct Detach {
    #[command(flatten)]
    mirror: Mirror,
    /// The member, by its name in the stack
    #[arg(value_name = "MEMBER")]
    member: String,
}

impl Run for Detach {
    const PACE: Option<Pace> = Some(Pace::AtOnce);

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let mirror = &self.mirror;
        let number = mirror.number(&self.member)?.to_string();
        mirror.order(&["detach", &number])?;
        let device = self.member.clone();
        mirror.control.ask(&Command::Detach { device, patience_ms: PATIENCE_MS })?;
        terminal.say(&shown(&mirror.members()?, &mirror.order(&["members"])?))?;
        terminal.say(&mirror.text(None)?)
    }
}
