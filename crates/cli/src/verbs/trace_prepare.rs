//! `esker trace prepare`: makes the tree with which traces begin.

use std::path::PathBuf;

use esker_base::Nanos;
use esker_base::units::size_human;
use esker_trace_replay::{InitMode, initialise, run};

use crate::failure::Failure;
use crate::progress::Pace;
use crate::replaying::{self, Jobs};
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Prepare>(About {
    words: &["trace", "prepare"],
    summary: "Make the tree with which traces begin",
    details: "Makes every file, directory and link of the traces below DIR/tree, with sizes, permissions, times and extended \
              attributes, and writes it all to the device. Files are filled with random bytes. With --mode delta only what \
              differs from that is made, changed or removed. Several traces get one tree; where a file has two sizes it \
              gets the larger one.",
    examples: &[
        Example { line: "esker trace prepare app.etrace --dir /mnt/target/run", does: "makes the tree of one trace" },
        Example {
            line: "esker trace prepare app.etrace --dir run --mode delta",
            does: "makes it again behind a replay",
        },
        Example { line: "esker trace prepare music.etrace photos.etrace --dir run", does: "makes one tree for two" },
    ],
});

#[derive(clap::Args)]
struct Prepare {
    #[command(flatten)]
    jobs: Jobs,
    /// The run directory: empty, or one of an earlier replay
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// How much is made anew: full, delta or none
    #[arg(long, value_name = "MODE", value_parser = replaying::init_mode, default_value = "full")]
    mode: InitMode,
    /// JSON, for programs
    #[arg(long)]
    json: bool,
}

impl Run for Prepare {
    const PACE: Option<Pace> = Some(Pace::Shows("bytes of the trace and of the tree"));

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let jobs = self.jobs.load(terminal)?;
        let (tree, notes) = run::tree(&jobs)?;
        let options = self.jobs.init(self.mode);
        let made = replaying::shown(terminal, |progress| initialise(&self.dir, &tree, options, progress));
        let (_, mut done) = made?;
        done.notes.extend(notes);
        if self.json {
            return terminal.say(&serde_json::to_string_pretty(&done)?);
        }
        for adapted in &done.adapted {
            terminal.complain(&format!("adapted: {} ({} times)", adapted.what, adapted.count));
        }
        done.notes.iter().for_each(|note| terminal.complain(&format!("note: {note}")));
        let (made, changed, removed, bytes) = (done.made, done.changed, done.removed, size_human(done.bytes));
        terminal.say(&format!(
            "{} of {} entries made, {changed} changed, {removed} removed, {bytes} written in {}",
            made,
            done.entries,
            Nanos(done.elapsed_ns)
        ))
    }
}
