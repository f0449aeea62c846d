//! `esker mirror replace`: gives a mirror a new device in the place of a member.

use esker_serve::Command;

use crate::failure::Failure;
use crate::mirrors::{Mirror, PATIENCE_MS, is_in_sync, shown};
use crate::progress::Pace;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Replace>(About {
    words: &["mirror", "replace"],
    summary: "Put a new device in the place of a member of a mirror",
    details: "Takes the member out of use, puts the new device in its place while clients go on, and copies all to it. \
              The new device is blank (zeroes in its first 8 KiB), at least as large, and can do what the old one can. \
              Until the copy ends, the mirror has a member less. If the device is refused, the old member comes back \
              first. Change the stack file, too: the verb changes the served stack alone.",
    examples: &[Example {
        line: "esker mirror replace vol b 'c = file path=c.img size=1GiB'",
        does: "c takes the place of b, and the verb waits until it is in sync",
    }],
});

#[derive(clap::Args)]
struct Replace {
    #[command(flatten)]
    mirror: Mirror,
    /// The member that goes, by its name in the stack
    #[arg(value_name = "MEMBER")]
    member: String,
    /// The new device as a stack text of one device
    #[arg(value_name = "DEVICE")]
    device: String,
    /// Do not wait until the new member is in sync
    #[arg(long)]
    no_wait: bool,
}

impl Run for Replace {
    const PACE: Option<Pace> = Some(Pace::Shows("bytes of the resync"));

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let mirror = &self.mirror;
        let number = mirror.number(&self.member)?;
        mirror.order(&["offline", &number.to_string()])?;
        let (device, with) = (self.member.clone(), self.device.clone());
        let replaced = mirror.control.ask(&Command::Replace { device, with, patience_ms: PATIENCE_MS });
        let looked = mirror.order(&["rescan"]);
        if let Err(refused) = replaced {
            // The old member is worth more when it is back. Why it does not come is worth less than the refusal.
            let _ = mirror.wait(terminal, "resync", |told| is_in_sync(&self.member, &told["members"][number]));
            return Err(refused);
        }
        looked?;
        let names = mirror.members()?;
        if self.no_wait {
            return terminal.say(&shown(&names, &mirror.order(&["members"])?));
        }
        let name = names.get(number).cloned().unwrap_or_default();
        let told = mirror.wait(terminal, "resync", |told| is_in_sync(&name, &told["members"][number]))?;
        terminal.say(&shown(&names, &told))
    }
}
