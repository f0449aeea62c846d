//! `esker remap`: clones, moves and deletes ranges of a served export.

use esker_base::units::parse_size;
use esker_serve::Command;
use esker_serve::command::RangeCommand;

use crate::control::Control;
use crate::failure::Failure;
use crate::progress::Pace;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Remap>(About {
    words: &["remap"],
    summary: "Clone, move and delete ranges of a served export",
    details: "An operation is clone:FROM:LEN:TO, move:FROM:LEN:TO or delete:AT:LEN. They are done in the given order, \
              all of them or none. No content is copied: a device that cannot share or unmap refuses.",
    examples: &[
        Example { line: "esker remap vol clone:0:1MiB:64MiB", does: "lets 64 MiB on read as the first MiB does" },
        Example { line: "esker remap vol move:0:4KiB:8KiB delete:1MiB:1MiB", does: "both or neither" },
    ],
});

#[derive(clap::Args)]
struct Remap {
    #[command(flatten)]
    control: Control,
    /// The export
    #[arg(value_name = "EXPORT")]
    export: String,
    /// What to do
    #[arg(value_name = "OPERATION", required = true, value_parser = parse)]
    ops: Vec<RangeCommand>,
}

impl Run for Remap {
    const PACE: Option<Pace> = Some(Pace::Waits("the answer of the server"));

    fn run(self, _: &mut Terminal) -> Result<(), Failure> {
        self.control.ask(&Command::Remap { export: self.export, ops: self.ops }).map(drop)
    }
}

fn parse(text: &str) -> Result<RangeCommand, String> {
    let (word, rest) = text.split_once(':').unwrap_or((text, ""));
    let sizes: Vec<u64> = rest.split(':').map(parse_size).collect::<Result<_, _>>().map_err(|e| e.to_string())?;
    match (word, sizes[..].as_ref()) {
        ("clone", &[from, len, to]) => Ok(RangeCommand::Clone { from, len, to }),
        ("move", &[from, len, to]) => Ok(RangeCommand::Move { from, len, to }),
        ("delete", &[at, len]) => Ok(RangeCommand::Delete { at, len }),
        _ => Err("write clone:FROM:LEN:TO, move:FROM:LEN:TO or delete:AT:LEN".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_read_with_units() {
        assert_eq!(parse("clone:0:4KiB:1MiB"), Ok(RangeCommand::Clone { from: 0, len: 4096, to: 1 << 20 }));
        assert_eq!(parse("delete:512:512"), Ok(RangeCommand::Delete { at: 512, len: 512 }));
        for text in ["", "clone", "clone:0:1", "swap:0:1:2", "move:0:x:2", "delete:1:2:3"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
