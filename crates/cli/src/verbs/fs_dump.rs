//! `esker fs dump`, which asks the list of file systems.

use esker_fs_lfs::dump::Show;

use crate::failure::Failure;
use crate::fs_image::{Image, Task};
use crate::progress::Pace;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<DumpArgs>(About {
    words: &["fs", "dump"],
    summary: "Show what a file system keeps on a stack",
    details: "Prints the structures that a file system of the kind keeps on the one export of the stack. A \
              kind that lies in memory keeps nothing there: it is refused, and the message says so.",
    examples: &[
        Example { line: "esker fs dump lfs --on lfs.toml", does: "shows superblocks and the latest checkpoint" },
        Example { line: "esker fs dump lfs segments --on lfs.toml", does: "lists segments as lssu does" },
        Example { line: "esker fs dump lfs logs 3 --on lfs.toml", does: "shows the logs of segment 3" },
        Example { line: "esker fs dump lfs inode 2 --on lfs.toml", does: "shows the root directory's inode" },
        Example { line: "esker fs dump ram", does: "refuses: nothing of ram lies on a device" },
    ],
});

#[derive(clap::Args)]
struct DumpArgs {
    #[command(flatten)]
    image: Image,
    /// What is shown
    #[arg(value_name = "WHAT", default_value = "superblocks")]
    what: What,
    /// Number of the segment (logs) or inode
    #[arg(value_name = "NUMBER", default_value_t = 0)]
    number: u64,
    /// Checkpoint of the inode [default: the latest]
    #[arg(long, value_name = "NUMBER")]
    checkpoint: Option<u64>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum What {
    Superblocks,
    Segments,
    Checkpoints,
    Logs,
    Inode,
}

impl Run for DumpArgs {
    const PACE: Option<Pace> = Some(Pace::AtOnce);

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let show = match self.what {
            What::Superblocks => Show::Superblocks,
            What::Segments => Show::Segments,
            What::Checkpoints => Show::Checkpoints,
            What::Logs => Show::Logs(self.number),
            What::Inode => Show::Inode(self.checkpoint, self.number),
        };
        self.image.of(Task::Dump)?.dump(show, terminal)
    }
}
