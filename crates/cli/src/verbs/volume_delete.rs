//! `esker volume delete`: forgets volumes.

use crate::failure::Failure;
use crate::progress::Pace;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};
use crate::volumes::Volumes;

/// The record.
pub const VERB: Verb = Verb::of::<Delete>(About {
    words: &["volume", "delete"],
    summary: "Forget volumes and snapshots",
    details: "All of them or none. Blocks that others share stay; the rest of the space comes back as segments become empty. Volumes that have \
              a port are refused.",
    examples: &[Example { line: "esker volume delete db-monday db-tuesday", does: "forgets both" }],
});

#[derive(clap::Args)]
struct Delete {
    #[command(flatten)]
    volumes: Volumes,
    /// Their names
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
}

impl Run for Delete {
    const PACE: Option<Pace> = Some(Pace::AtOnce);

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        self.volumes.ask(terminal, ["delete".to_string()].into_iter().chain(self.names).collect(), |_| String::new())
    }
}
