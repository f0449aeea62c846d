//! `esker trace import`: traces of other tools become recordings.

use std::path::PathBuf;

use esker_trace_calls::anonymise::anonymise;
use serde_json::json;

use crate::failure::Failure;
use crate::progress::Pace;
use crate::recording::{self, Source};
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Import>(About {
    words: &["trace", "import"],
    summary: "Make a recording of another tool's trace of a program",
    details: "Reads the text of strace, a folder in the layout of the iBench archive, or a recording, which is \
              useful with --anonymise. Record best with strace -f -ttt -T -y -s 4096 -o FILE; buffers are not \
              imported. Calls of all platforms get one form. Oddities are counted and reported. A line that cannot \
              be read, or a path that was cut, is an error unless --on-bad-line skip is given. strace takes no \
              snapshot of the files: compiling infers one.",
    examples: &[
        Example { line: "esker trace import app.strace -o app.etrace", does: "imports what strace wrote" },
        Example {
            line: "esker trace import app.etrace -o public.etrace --anonymise 7",
            does: "gives all paths other names; 7 decides which",
        },
    ],
});

#[derive(clap::Args)]
struct Import {
    #[command(flatten)]
    source: Source,
    /// The recording to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Give all paths other names; the seed decides which
    #[arg(long, value_name = "SEED")]
    anonymise: Option<u64>,
    /// Replace the recording if it exists
    #[arg(long)]
    force: bool,
    /// The outcome as a JSON object on standard output
    #[arg(long)]
    json: bool,
}

impl Run for Import {
    const PACE: Option<Pace> = Some(Pace::Shows("bytes of the trace"));

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let mut trace = self.source.read(&terminal.watcher())?;
        let warnings = trace.warnings.clone();
        if let Some(seed) = self.anonymise {
            anonymise(&mut trace, seed);
        }
        recording::write(&trace, &self.output, self.force)?;
        let (threads, actions, output) = (trace.threads.len(), trace.actions.len(), self.output.display());
        if self.json {
            let object = json!({
                "output": output.to_string(), "source": trace.source, "threads": threads, "actions": actions,
                "files": trace.snapshot.entries.len(), "inherited": trace.inherited.len(), "warnings": warnings,
            });
            return terminal.say(&object.to_string());
        }
        recording::complain(&warnings, terminal);
        terminal.complain(&format!("{output}: {actions} actions of {threads} threads written"));
        Ok(())
    }
}
