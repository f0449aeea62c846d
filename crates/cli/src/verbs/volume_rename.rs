//! `esker volume rename`: changes a name.

use crate::failure::Failure;
use crate::progress::Pace;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};
use crate::volumes::{Volumes, told};

/// The record.
pub const VERB: Verb = Verb::of::<Rename>(About {
    words: &["volume", "rename"],
    summary: "Give a volume another name",
    details: "Volumes that have a port are refused.",
    examples: &[Example { line: "esker volume rename db-monday db-release-7", does: "says what it is kept for" }],
});

#[derive(clap::Args)]
struct Rename {
    #[command(flatten)]
    volumes: Volumes,
    /// Its name
    #[arg(value_name = "NAME")]
    name: String,
    /// The new name
    #[arg(value_name = "NEW")]
    to: String,
}

impl Run for Rename {
    const PACE: Option<Pace> = Some(Pace::AtOnce);

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        self.volumes.ask(terminal, vec!["rename".into(), self.name, self.to], told)
    }
}
