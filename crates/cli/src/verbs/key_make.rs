//! `esker key make`: makes a file of key slots.

use esker_keyslots::{Cost, KeySlots};
use esker_layers::cipher::{Cipher, key_bytes};
use esker_rt::Secret;
use esker_rt::real::fill_random;

use crate::failure::Failure;
use crate::key_files;
use crate::progress::Pace;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Make>(About {
    words: &["key", "make"],
    summary: "Make a file of key slots, which a passphrase opens",
    details: "The file holds the key of a `crypt` layer, wrapped under a passphrase by Argon2id and AES-256-GCM. Without \
              --from, the key is drawn. With --from luks:DEVICE it is that of a LUKS2 device or of a backup of its header, \
              which stay as they are; the verb prints the layers that show the data of the device. Name the file as `key` of the layer, and the place of the passphrase as \
              `passphrase`. Without --passphrase, the verb asks for it on the terminal. Keep a copy of the file: without \
              it the data is lost.",
    examples: &[
        Example { line: "esker key make disk.keys", does: "draws a key of 512 bits, and asks for a passphrase" },
        Example {
            line: "esker key make disk.keys --from file:disk.key --passphrase file:pass",
            does: "takes the key of a volume that has one, so that its data stays as it is",
        },
        Example {
            line: "esker key make disk.keys --from luks:disk.img",
            does: "takes the key of a LUKS2 device, and prints the layers for it",
        },
    ],
});

#[derive(clap::Args)]
struct Make {
    /// The file
    #[arg(value_name = "FILE")]
    file: String,
    /// Place of the passphrase, `file:PATH` or `env:NAME` [default: the terminal]
    #[arg(long, value_name = "PLACE")]
    passphrase: Option<String>,
    /// Place of a key to wrap, instead of a new one: also `luks:DEVICE`
    #[arg(long, value_name = "PLACE")]
    from: Option<String>,
    /// Place of the passphrase of the LUKS2 device [default: the terminal]
    #[arg(long, value_name = "PLACE", requires = "from")]
    luks_passphrase: Option<String>,
}

impl Run for Make {
    const PACE: Option<Pace> = Some(Pace::AtOnce);

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        key_files::demand_new(&self.file)?;
        let (key, luks) = match self.from.as_deref().map(|place| (place, place.strip_prefix("luks:"))) {
            Some((_, Some(device))) => {
                let found = key_files::luks_key(device, self.luks_passphrase.as_deref())?;
                (found.key, Some((found.start, found.sector)))
            }
            Some((place, None)) => (key_files::secret(place)?, None),
            None => {
                let mut drawn = vec![0; 64];
                fill_random(&mut drawn);
                (Secret::new(drawn), None)
            }
        };
        let fingerprint = Cipher::read(&key)?.fingerprint();
        let passphrase = key_files::new_passphrase(self.passphrase.as_deref(), "New passphrase")?;
        let made = KeySlots::new(&key_bytes(&key), passphrase.bytes(), Cost::PRODUCTION, &mut fill_random);
        let made = made.map_err(|error| key_files::refused(&self.file, error))?;
        key_files::write(&self.file, &made, false)?;
        let Some((start, sector)) = luks else { return Ok(()) };
        let place = self.passphrase.as_deref().unwrap_or("env:PASSPHRASE");
        let crypt =
            format!("crypt key=file:{} passphrase={place} sector={sector} fingerprint={fingerprint}", self.file);
        terminal.say(&if start == 0 { crypt } else { format!("offset start={start} | {crypt}") })
    }
}
