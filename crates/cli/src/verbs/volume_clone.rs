//! `esker volume clone`: makes a writable copy.

use crate::failure::Failure;
use crate::progress::Pace;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};
use crate::volumes::{Volumes, told};

/// The record.
pub const VERB: Verb = Verb::of::<Clone>(About {
    words: &["volume", "clone"],
    summary: "Make a volume with the present content of another one",
    details: "Copies nothing: both share equal blocks, and later changes of one do not affect the other.",
    examples: &[Example {
        line: "esker volume clone db-monday db-test",
        does: "tries something on the data of Monday",
    }],
});

#[derive(clap::Args)]
struct Clone {
    #[command(flatten)]
    volumes: Volumes,
    /// What is cloned: a volume or a snapshot
    #[arg(value_name = "VOLUME")]
    of: String,
    /// The new name
    #[arg(value_name = "NAME")]
    name: String,
}

impl Run for Clone {
    const PACE: Option<Pace> = Some(Pace::AtOnce);

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        self.volumes.ask(terminal, vec!["clone".into(), self.of, self.name], told)
    }
}
