//! `esker volume release`: lets held snapshots be deleted.

use crate::failure::Failure;
use crate::progress::Pace;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};
use crate::volumes::Volumes;

/// The record.
pub const VERB: Verb = Verb::of::<Release>(About {
    words: &["volume", "release"],
    summary: "Let held snapshots be deleted again",
    details: "All of them or none. Nothing is deleted by this.",
    examples: &[Example { line: "esker volume release db-monday", does: "db-monday may be deleted" }],
});

#[derive(clap::Args)]
struct Release {
    #[command(flatten)]
    volumes: Volumes,
    /// The snapshots
    #[arg(value_name = "SNAPSHOT", required = true)]
    names: Vec<String>,
}

impl Run for Release {
    const PACE: Option<Pace> = Some(Pace::AtOnce);

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        self.volumes.ask(terminal, ["release".to_string()].into_iter().chain(self.names).collect(), |_| String::new())
    }
}
