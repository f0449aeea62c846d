//! `esker stack check`: tells everything that is wrong with a stack's text.

use esker_stack::DeviceSpec;

use crate::failure::Failure;
use crate::progress::Pace;
use crate::stack_text::StackText;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Check>(About {
    words: &["stack", "check"],
    summary: "Report every mistake in a stack's text",
    details: "Reads the text in either form and checks names, kinds, parameters, references, cycles, the number of \
              lower devices, addresses, and mounts with their devices and options. Then it checks whether sizes, blocks and limits fit together, as far as \
              that is known without opening a device. It reports all mistakes at once, each with its file, its line \
              and the remedy.",
    examples: &[
        Example { line: "esker stack check stack.toml", does: "checks a file" },
        Example {
            line: "esker stack check 'vol = memory size=64MiB | delay read=2ms @ nbd=unix:vol.sock'",
            does: "checks a text on the command line",
        },
    ],
});

/// Parts that do not fit together, one a line.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Misfits(String);

/// Bytes of the file that a device is, if it is there.
fn size_of(device: &DeviceSpec) -> Option<u64> {
    let about = std::fs::metadata(device.args.get("path")?).ok()?;
    about.is_file().then_some(about.len())
}

#[derive(clap::Args)]
struct Check {
    #[command(flatten)]
    stack: StackText,
}

impl Run for Check {
    const PACE: Option<Pace> = Some(Pace::AtOnce);

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let (spec, _) = self.stack.load(terminal)?;
        let misfits = spec.trial(esker_kinds::ALL, size_of);
        if !misfits.is_empty() {
            let lines: Vec<String> = misfits.iter().map(ToString::to_string).collect();
            return Err(Misfits(lines.join("\n")).into());
        }
        let (devices, exports) = (spec.devices.len(), spec.exports.len());
        let mounts = match spec.mounts.len() {
            0 => String::new(),
            count => format!(", mounts: {count}"),
        };
        terminal.say(&format!("{}: sound; devices: {devices}, exports: {exports}{mounts}", self.stack.name()))
    }
}
