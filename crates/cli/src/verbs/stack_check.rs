//! `esker stack check`: tells everything that is wrong with a stack's text.

use crate::failure::Failure;
use crate::stack_text::StackText;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Check>(About {
    words: &["stack", "check"],
    summary: "Tell everything that is wrong with a stack's text",
    details: "Reads the text in either form and checks names, kinds, parameters, references, cycles, the number of \
              lower ends and addresses. All mistakes are told at once, each with its file, its line and what to write \
              instead. Opens no device.",
    examples: &[
        Example { line: "esker stack check stack.toml", does: "checks a file" },
        Example {
            line: "esker stack check 'vol = memory size=64MiB | delay read=2ms @ nbd=unix:vol.sock'",
            does: "checks a text on the command line",
        },
    ],
});

#[derive(clap::Args)]
struct Check {
    #[command(flatten)]
    stack: StackText,
}

impl Run for Check {
    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let (spec, _) = self.stack.load(terminal)?;
        let (devices, exports) = (spec.devices.len(), spec.exports.len());
        terminal.say(&format!("{}: sound; devices: {devices}, exports: {exports}", self.stack.name()))
    }
}
