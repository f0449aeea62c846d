//! `esker hugepage status`: what a manager of huge pages tells about itself.

use crate::failure::Failure;
use crate::hugepages::{Manager, text};
use crate::progress::Pace;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Show>(About {
    words: &["hugepage", "status"],
    summary: "Show what a manager of huge pages has done, and a map of each process",
    details: "In a map, H is a hot huge page, h an idle one, and 0 to 9 are base pages by tenths of their use.",
    examples: &[
        Example { line: "esker hugepage status", does: "shows it for people" },
        Example { line: "esker hugepage status --json --control run/hp.sock", does: "for programs" },
    ],
});

#[derive(clap::Args)]
struct Show {
    #[command(flatten)]
    manager: Manager,
    /// JSON, for programs
    #[arg(long)]
    json: bool,
}

impl Run for Show {
    const PACE: Option<Pace> = Some(Pace::AtOnce);

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let status = self.manager.status()?;
        terminal.say(&if self.json { serde_json::to_string(&status)? } else { text::page(&status) })
    }
}
