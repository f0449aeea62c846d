//! `esker stack dump`: writes a stack's text canonically.

use std::path::PathBuf;

use esker_stack::Spec;
use serde_json::json;

use crate::control;
use crate::failure::Failure;
use crate::progress::Pace;
use crate::stack_text::StackText;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Dump>(About {
    words: &["stack", "dump"],
    summary: "Write a stack's text, or a served stack's, canonically, in any form",
    details: "Checks the text first, as stack check does. What is written reads back to the same stack, and equal \
              stacks give equal texts. With --control: the stack of a server as it is now, live changes included.",
    examples: &[
        Example { line: "esker stack dump --line stack.toml", does: "turns a file into a text for the command line" },
        Example {
            line: "esker stack dump 'vol = memory size=64MiB | delay read=2ms @' > stack.toml",
            does: "turns such a text into a file",
        },
        Example { line: "esker stack dump --control run/esker.ctl", does: "writes what a server serves now" },
    ],
});

#[derive(clap::Args)]
struct Dump {
    /// File with the stack's text, - for standard input, or the text itself (anything with a = in it)
    #[arg(value_name = "STACK", required_unless_present = "control")]
    stack: Option<String>,
    /// Control socket of a server, instead of a text
    #[arg(long, value_name = "PATH", conflicts_with = "stack")]
    control: Option<PathBuf>,
    /// The one-line form instead of TOML
    #[arg(long, conflicts_with = "json")]
    line: bool,
    /// JSON instead of TOML, for programs
    #[arg(long)]
    json: bool,
}

impl Run for Dump {
    const PACE: Option<Pace> = Some(Pace::AtOnce);

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let spec = match (self.control, self.stack) {
            (Some(control), _) => control::spec(&control)?,
            (None, source) => StackText::of(source.unwrap_or_default()).load(terminal)?.0,
        };
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
    let mounts = spec.mounts.iter().map(|m| {
        let cache = m.cache.word();
        json!({ "name": m.name, "fs": m.fs, "at": m.dir, "device": m.device, "cache": cache, "options": m.options })
    });
    json!({
        "devices": devices.collect::<Vec<_>>(),
        "exports": exports.collect::<Vec<_>>(),
        "mounts": mounts.collect::<Vec<_>>(),
    })
}
