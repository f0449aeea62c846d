//! `esker fs mkfs`, which asks the list of file systems.

use crate::failure::Failure;
use crate::fs_image::{Image, Task};
use crate::lfs_image::MkfsOptions;
use crate::progress::Pace;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<MkfsArgs>(About {
    words: &["fs", "mkfs"],
    summary: "Make a file system on a stack",
    details: "Writes an empty file system of the kind to the one export of the stack. Its root directory belongs to the \
              user of this program. A kind that lies in memory has nothing to make: it is refused, and the message says \
              so.",
    examples: &[
        Example {
            line: "esker fs mkfs lfs --on 'disk = file path=lfs.img size=1GiB @'",
            does: "makes an image in a file, which Linux mounts as nilfs2",
        },
        Example { line: "esker fs mkfs ram", does: "refuses: nothing of ram lies on a device" },
    ],
});

#[derive(clap::Args)]
struct MkfsArgs {
    #[command(flatten)]
    image: Image,
    #[command(flatten)]
    options: MkfsOptions,
}

impl Run for MkfsArgs {
    const PACE: Option<Pace> = Some(Pace::AtOnce);

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        self.image.of(Task::Mkfs)?.make(self.options, terminal)
    }
}
