//! `esker resize`: changes the size of an export that is served.

use esker_base::units::parse_size;
use esker_serve::Command;

use crate::control::Control;
use crate::failure::Failure;
use crate::patience::Patience;
use crate::progress::Pace;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Resize>(About {
    words: &["resize"],
    summary: "Change the size of an export that is served",
    details: "Works for exports of thin volumes, of files whose text gives no size, and of transparent layers on \
              either. Connected clients may use gained space at once, and get errors for the part that is cut off, \
              which is lost. Before a cut, requests are held back until those in flight have ended.",
    examples: &[
        Example { line: "esker resize db 2TiB", does: "lets it grow" },
        Example { line: "esker resize db 1TiB --patience 2000", does: "cuts it, if requests in flight end within 2 s" },
    ],
});

#[derive(clap::Args)]
struct Resize {
    #[command(flatten)]
    control: Control,
    #[command(flatten)]
    patience: Patience,
    /// The export
    #[arg(value_name = "EXPORT")]
    export: String,
    /// Its new size, such as 10GiB
    #[arg(value_name = "SIZE", value_parser = bytes_of)]
    bytes: u64,
}

fn bytes_of(text: &str) -> Result<u64, String> {
    parse_size(text).map_err(|error| format!("write {}", error.wanted()))
}

impl Run for Resize {
    const PACE: Option<Pace> = Some(Pace::Waits("the answer of the server"));

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let Resize { export, bytes, .. } = self;
        let command = Command::Resize { export: export.clone(), bytes, patience_ms: self.patience.ms };
        let done = self.control.ask(&command)?;
        terminal.say(&format!("export {export}: {bytes} bytes, {} before", done["before_bytes"]))
    }
}
