//! `esker fs dump`, which asks the list of file systems.

use crate::failure::Failure;
use crate::fs_image::{Image, Task};
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<DumpArgs>(About {
    words: &["fs", "dump"],
    summary: "Show what a file system keeps on a stack",
    details: "Prints the structures that a file system of the kind keeps on the one export of the stack. A \
              kind that lies in memory keeps nothing there: it is refused, and the message says so.",
    examples: &[Example { line: "esker fs dump ram", does: "refuses: nothing of ram lies on a device" }],
});

#[derive(clap::Args)]
struct DumpArgs {
    #[command(flatten)]
    image: Image,
}

impl Run for DumpArgs {
    fn run(self, _: &mut Terminal) -> Result<(), Failure> {
        self.image.run(Task::Dump)
    }
}
