//! `esker volume export`: makes an image of a volume.

use esker_base::units::size_human;
use esker_layer_thin::images::{Sink, export};

use crate::failure::Failure;
use crate::images::{ForeignSink, Format, RawSink, Stoppable};
use crate::progress::Pace;
use crate::target;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};
use crate::volumes::{Thin, find};

/// The record.
pub const VERB: Verb = Verb::of::<Export>(About {
    words: &["volume", "export"],
    summary: "Make an image of a volume or snapshot",
    details: "Holes stay holes. Formats other than raw need qemu-nbd and qemu-img, of Debian's package qemu-utils. A \
              volume may be written meanwhile: the verb makes a snapshot NAME-exporting, and deletes it at the end. FILE \
              appears at the end, whole.",
    examples: &[
        Example { line: "esker volume export db-monday monday.qcow2", does: "writes an image in format qcow2" },
        Example {
            line: "esker volume export db db.raw --stack stack.toml",
            does: "writes the sectors of db, while no server runs the stack",
        },
    ],
});

#[derive(clap::Args)]
struct Export {
    #[command(flatten)]
    thin: Thin,
    /// The volume or snapshot
    #[arg(value_name = "NAME")]
    name: String,
    /// The image
    #[arg(value_name = "FILE")]
    file: String,
    /// Format of the image [default: that of the file's ending, else raw]
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
    /// Replace a file that exists
    #[arg(long)]
    force: bool,
}

/// Why a volume is not exported.
#[derive(Debug, thiserror::Error)]
#[error(
    "\"{0}\" is there: another export of the volume runs, or was killed. If none runs, delete it with `esker volume \
     delete {0}`"
)]
struct Left(String);

impl Run for Export {
    const PACE: Option<Pace> = Some(Pace::Shows("bytes of data"));

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let format = self.format.unwrap_or_else(|| Format::of_name(&self.file));
        let watcher = terminal.watcher();
        let mut progress = |done, all| watcher.tell(esker_base::Progress::bytes("exported", done, all));
        let done = target::write(&self.file, self.force, |file| match format {
            Format::Raw => self.copy(&mut Stoppable::new(RawSink(file))?, &mut progress),
            other => {
                let sink = ForeignSink::new(&target::part(&self.file), other)?;
                self.copy(&mut Stoppable::new(sink)?, &mut progress)
            }
        });
        let (bytes, data) = done?;
        let (bytes, data) = (size_human(bytes), size_human(data));
        terminal.say(&format!("{}: {bytes}, of which {data} are data, in format {}", self.file, format.word()))
    }
}

impl Export {
    fn copy(&self, sink: &mut impl Sink, progress: &mut dyn FnMut(u64, u64)) -> Result<(u64, u64), Failure> {
        self.thin.with(|manager| {
            let list = manager.order(vec!["list".into()])?;
            if find(&list, &self.name)?["snapshot"] == true {
                return Ok(export(manager, &self.name, sink, progress)?);
            }
            let kept = format!("{}-exporting", self.name);
            if find(&list, &kept).is_ok() {
                return Err(Left(kept).into());
            }
            manager.order(vec!["snapshot".into(), self.name.clone(), kept.clone()])?;
            let done = export(manager, &kept, sink, progress);
            let deleted = manager.order(vec!["delete".into(), kept]);
            let done = done?;
            deleted.map(|_| done)
        })
    }
}
