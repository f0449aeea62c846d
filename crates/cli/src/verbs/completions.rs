//! `esker completions`: what a shell needs to complete command lines.

use clap_complete::{Shell, generate};

use crate::failure::Failure;
use crate::terminal::Terminal;
use crate::verb::{self, About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Completions>(About {
    words: &["completions"],
    summary: "Write completions for a shell",
    details: "Writes to standard output; put it where your shell looks for completions.",
    examples: &[Example { line: "esker completions bash > esker.bash", does: "writes those of bash" }],
});

#[derive(clap::Args)]
struct Completions {
    /// The shell
    shell: Shell,
}

impl Run for Completions {
    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let mut text = Vec::new();
        generate(self.shell, &mut verb::command(), "esker", &mut text);
        Ok(terminal.output().write_all(&text)?)
    }
}
