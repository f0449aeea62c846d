//! `esker stack dump`: writes a stack's text canonically.

use esker_stack::Spec;
use serde_json::json;

use crate::failure::Failure;
use crate::stack_text::StackText;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Dump>(About {
    words: &["stack", "dump"],
    summary: "Write a stack's text canonically, in any form",
    details: "Checks the text first, as stack check does. What is written reads back to the same stack, and equal \
              stacks give equal texts.",
    examples: &[
        Example { line: "esker stack dump --line stack.toml", does: "turns a file into a text for the command line" },
        Example {
            line: "esker stack dump 'vol = memory size=64MiB | delay read=2ms @' > stack.toml",
            does: "turns such a text into a file",
        },
    ],
});

#[derive(clap::Args)]
struct Dump {
    #[command(flatten)]
    stack: StackText,
    /// The one-line form instead of TOML
    #[arg(long, conflicts_with = "json")]
    line: bool,
    /// JSON instead of TOML, for programs
    #[arg(long)]
    json: bool,
}

impl Run for Dump {
    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let (spec, _) = self.stack.load(terminal)?;
        let text = match (self.line, self.json) {
            (true, _) => spec.to_line(),
            (_, true) => json_of(&spec).to_string(),
            _ => spec.to_toml(),
        };
        terminal.say(text.trim_end())
    }
}

fn json_of(spec: &Spec) -> serde_json::Value {
    let devices = spec.devices.iter().map(|d| json!({ "name": d.name, "kind": d.kind, "on": d.on, "args": d.args }));
    let exports = spec
        .exports
        .iter()
        .map(|e| json!({ "name": e.name, "device": e.device, "nbd": e.nbd, "read_only": e.read_only }));
    json!({ "devices": devices.collect::<Vec<_>>(), "exports": exports.collect::<Vec<_>>() })
}
