//! `esker volume hold`: keeps snapshots from being deleted.

use crate::failure::Failure;
use crate::progress::Pace;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};
use crate::volumes::Volumes;

/// The record.
pub const VERB: Verb = Verb::of::<Hold>(About {
    words: &["volume", "hold"],
    summary: "Keep snapshots from being deleted",
    details: "No order deletes a held snapshot, until `esker volume release` lets it go. All of them or none. A held \
              snapshot may be held again.",
    examples: &[Example { line: "esker volume hold db-monday", does: "db-monday stays, whatever a schedule says" }],
});

#[derive(clap::Args)]
struct Hold {
    #[command(flatten)]
    volumes: Volumes,
    /// The snapshots
    #[arg(value_name = "SNAPSHOT", required = true)]
    names: Vec<String>,
}

impl Run for Hold {
    const PACE: Option<Pace> = Some(Pace::AtOnce);

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        self.volumes.ask(terminal, ["hold".to_string()].into_iter().chain(self.names).collect(), |_| String::new())
    }
}
