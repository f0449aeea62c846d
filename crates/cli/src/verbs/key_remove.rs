//! `esker key remove`: takes a passphrase out of a file of key slots.

use crate::failure::Failure;
use crate::key_files;
use crate::progress::Pace;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Remove>(About {
    words: &["key", "remove"],
    summary: "Take a passphrase out of a file of key slots",
    details: "The last passphrase is refused. An older copy of the file still opens with the removed passphrase: wipe such \
              copies. If the key itself may be known, copy the data to a volume with a new one.",
    examples: &[Example {
        line: "esker key remove disk.keys --passphrase file:old",
        does: "file:old opens it no more",
    }],
});

#[derive(clap::Args)]
struct Remove {
    /// The file
    #[arg(value_name = "FILE")]
    file: String,
    /// Place of the passphrase that goes, `file:PATH` or `env:NAME` [default: the terminal]
    #[arg(long, value_name = "PLACE")]
    passphrase: Option<String>,
}

impl Run for Remove {
    const PACE: Option<Pace> = Some(Pace::AtOnce);

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let mut slots = key_files::read(&self.file)?;
        let passphrase = key_files::passphrase(self.passphrase.as_deref(), "Passphrase to remove")?;
        let slot = slots.remove(passphrase.bytes()).map_err(|error| key_files::refused(&self.file, error))?;
        key_files::write(&self.file, &slots, true)?;
        terminal.say(&format!("slot {slot} is free"))
    }
}
