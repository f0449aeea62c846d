//! `esker volume import`: makes a volume from an image.

use esker_layer_thin::images::import;

use crate::failure::Failure;
use crate::images::{Format, Stoppable, open};
use crate::progress::Pace;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};
use crate::volumes::{Thin, told};

/// The record.
pub const VERB: Verb = Verb::of::<Import>(About {
    words: &["volume", "import"],
    summary: "Make a volume from an image",
    details: "FILE is a file or block device of sectors, an image in another format, or an NBD URI. The first bytes tell \
              the format. Formats other than raw need qemu-nbd and qemu-img, of Debian's package qemu-utils. Holes and \
              zeroes take no space. The volume appears at the end, whole. Its size is that of the image, rounded up to \
              4 KiB. An image that names other files, such as a backing file, is refused unless --format is given.",
    examples: &[
        Example { line: "esker volume import debian.qcow2 guest-7", does: "makes guest-7 in the served stack" },
        Example {
            line: "esker volume import old.raw db --force --stack stack.toml",
            does: "gives db, which has a port, the content of the file",
        },
    ],
});

#[derive(clap::Args)]
struct Import {
    #[command(flatten)]
    thin: Thin,
    /// The image
    #[arg(value_name = "FILE")]
    file: String,
    /// The volume
    #[arg(value_name = "NAME")]
    name: String,
    /// Format of the image [default: what its first bytes tell]
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
    /// Replace the content of a volume that is there, also if it has a port
    #[arg(long)]
    force: bool,
}

impl Run for Import {
    const PACE: Option<Pace> = Some(Pace::Shows("bytes of the image"));

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let mut source = Stoppable::new(open(&self.file, self.format)?)?;
        let watcher = terminal.watcher();
        let mut progress = |done, all| watcher.tell(esker_base::Progress::bytes("imported", done, all));
        let made = self.thin.with(|manager| Ok(import(manager, &self.name, self.force, &mut source, &mut progress)?));
        terminal.say(&told(&made?))
    }
}
