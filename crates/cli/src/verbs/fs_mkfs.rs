//! `esker fs mkfs`, which asks the list of file systems.

use crate::failure::Failure;
use crate::fs_image::{Image, Task};
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<MkfsArgs>(About {
    words: &["fs", "mkfs"],
    summary: "Make a file system on a stack",
    details: "Writes an empty file system of the kind to the one export of the stack. A kind that lies in \
              memory has nothing to make: it is refused, and the message says so.",
    examples: &[Example { line: "esker fs mkfs ram", does: "refuses: nothing of ram lies on a device" }],
});

#[derive(clap::Args)]
struct MkfsArgs {
    #[command(flatten)]
    image: Image,
}

impl Run for MkfsArgs {
    fn run(self, _: &mut Terminal) -> Result<(), Failure> {
        self.image.run(Task::Mkfs)
    }
}
