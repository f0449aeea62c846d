//! `esker fs check`, which asks the list of file systems.

use crate::failure::Failure;
use crate::fs_image::{Image, Task};
use crate::progress::Pace;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<CheckArgs>(About {
    words: &["fs", "check"],
    summary: "Check the file system on a stack",
    details: "Reads all that a file system of the kind keeps on the one export of the stack. Each finding names the \
              structure, its number and what to do. Nothing is written. A kind that lies in memory \
              keeps nothing there: it is refused, and the message says so. The exit status is 1 if anything is wrong.",
    examples: &[
        Example { line: "esker fs check lfs --on 'disk = file path=lfs.img @'", does: "checks an image in a file" },
        Example { line: "esker fs check ram", does: "refuses: nothing of ram lies on a device" },
    ],
});

#[derive(clap::Args)]
struct CheckArgs {
    #[command(flatten)]
    image: Image,
    /// JSON, for programs
    #[arg(long)]
    json: bool,
}

impl Run for CheckArgs {
    const PACE: Option<Pace> = Some(Pace::Shows("segments, checkpoints, entries of the DAT"));

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        self.image.of(Task::Check)?.check(self.json, terminal)
    }
}
