//! `esker trace generate`: made recordings.

use std::path::PathBuf;

use esker_base::Unit;
use esker_trace_calls::generate::{Shape, apple_desktop_told};

use crate::failure::Failure;
use crate::progress::Pace;
use crate::recording;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Generate>(About {
    words: &["trace", "generate"],
    summary: "Make a recording with the patterns of Apple's desktop programs",
    details: "Generates a trace and the files that must exist before it. Its programs save documents by rename, \
              rename packages while threads work in them, break and repair links, and exchange files. They use \
              hard links, extended attributes, temporary names, databases with many syncs, and descriptors that \
              threads pass on. The seed decides everything.",
    examples: &[Example {
        line: "esker trace generate desk.etrace --seed 3 --threads 8 --scripts 500",
        does: "makes some 10,000 actions of 8 threads",
    }],
});

#[derive(clap::Args)]
struct Generate {
    /// The recording to write
    #[arg(value_name = "FILE")]
    output: PathBuf,
    /// Decides all choices
    #[arg(long, default_value = "1")]
    seed: u64,
    /// Threads, at least 2
    #[arg(long, default_value = "4", value_parser = clap::value_parser!(u32).range(2..=1024))]
    threads: u32,
    /// Patterns to play, each of some 10 to 60 actions
    #[arg(long, default_value = "100", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    scripts: u32,
    /// Replace the recording if it exists
    #[arg(long)]
    force: bool,
}

impl Run for Generate {
    const PACE: Option<Pace> = Some(Pace::Shows("patterns that were played"));

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let shape = Shape { seed: self.seed, threads: self.threads, scripts: self.scripts };
        let part = terminal.watcher().part("patterns", Unit::Of("patterns"), Some(u64::from(self.scripts)));
        let trace = apple_desktop_told(shape, &mut |ended| part.done(ended));
        drop(part);
        recording::write(&trace, &self.output, self.force)?;
        let (actions, files) = (trace.actions.len(), trace.snapshot.entries.len());
        terminal.complain(&format!("{}: {actions} actions, {files} files before", self.output.display()));
        Ok(())
    }
}
