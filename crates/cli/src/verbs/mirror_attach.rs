//! `esker mirror attach`: gives a mirror one more member.

use esker_serve::Command;
use esker_serve::command::parse_layer;

use crate::failure::Failure;
use crate::mirrors::{Mirror, PATIENCE_MS, is_in_sync, shown};
use crate::progress::Pace;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Attach>(About {
    words: &["mirror", "attach"],
    summary: "Give a mirror one more member",
    details: "Puts the new device beside the members while clients go on, and copies all to it. The new device is blank \
              (zeroes in its first 8 KiB), and as large and able as one of the others. The superblocks of the members count \
              it. The verb changes the served stack alone, and prints what the stack file must say from now on: with the old \
              text the mirror does not start once the new member is in sync.",
    examples: &[Example {
        line: "esker mirror attach vol 'c = file path=c.img size=1GiB'",
        does: "c becomes a member beside the others, and the verb waits until it is in sync",
    }],
});

#[derive(clap::Args)]
struct Attach {
    #[command(flatten)]
    mirror: Mirror,
    /// The new device as a stack text of one device
    #[arg(value_name = "DEVICE")]
    device: String,
    /// Do not wait until the new member is in sync
    #[arg(long)]
    no_wait: bool,
}

impl Run for Attach {
    const PACE: Option<Pace> = Some(Pace::Shows("bytes of the resync"));

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let mirror = &self.mirror;
        mirror.members()?;
        let name = parse_layer(&self.device)?.name;
        let (device, with) = (mirror.name.clone(), self.device.clone());
        mirror.control.ask(&Command::Attach { device, with, patience_ms: PATIENCE_MS })?;
        let (names, number) = (mirror.members()?, mirror.number(&name)?);
        let told = match self.no_wait {
            true => mirror.order(&["members"])?,
            false => mirror.wait(terminal, "resync", |told| is_in_sync(&name, &told["members"][number]))?,
        };
        terminal.say(&shown(&names, &told))?;
        terminal.say(&mirror.text(Some(&name))?)
    }
}
