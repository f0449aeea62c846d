//! `esker key add`: lets another passphrase open a file of key slots.

use esker_keyslots::Cost;
use esker_rt::real::fill_random;

use crate::failure::Failure;
use crate::key_files;
use crate::progress::Pace;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Add>(About {
    words: &["key", "add"],
    summary: "Let another passphrase open a file of key slots",
    details: "The key stays, and so does the data. To change a passphrase, add the new one, then remove the old one. A \
              file has eight slots.",
    examples: &[Example {
        line: "esker key add disk.keys --passphrase file:old --new file:new",
        does: "file:new opens disk.keys, too",
    }],
});

#[derive(clap::Args)]
struct Add {
    /// The file
    #[arg(value_name = "FILE")]
    file: String,
    /// Place of a passphrase that opens it, `file:PATH` or `env:NAME` [default: the terminal]
    #[arg(long, value_name = "PLACE")]
    passphrase: Option<String>,
    /// Place of the new passphrase [default: the terminal]
    #[arg(long, value_name = "PLACE")]
    new: Option<String>,
}

impl Run for Add {
    const PACE: Option<Pace> = Some(Pace::AtOnce);

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let mut slots = key_files::read(&self.file)?;
        let passphrase = key_files::passphrase(self.passphrase.as_deref(), "Passphrase")?;
        let new = key_files::new_passphrase(self.new.as_deref(), "New passphrase")?;
        let slot = slots.add(passphrase.bytes(), new.bytes(), Cost::PRODUCTION, &mut fill_random);
        let slot = slot.map_err(|error| key_files::refused(&self.file, error))?;
        key_files::write(&self.file, &slots, true)?;
        terminal.say(&format!("slot {slot} opens with the new passphrase"))
    }
}
