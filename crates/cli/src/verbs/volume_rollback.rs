//! `esker volume rollback`: gives a volume an older content.

use crate::failure::Failure;
use crate::progress::Pace;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};
use crate::volumes::{Volumes, told};

/// The record.
pub const VERB: Verb = Verb::of::<Rollback>(About {
    words: &["volume", "rollback"],
    summary: "Give a volume the size and content of a snapshot",
    details: "All at once, and durable when it is answered. The present content is lost, unless a snapshot keeps it. A \
              volume that has a port is refused, because a client that has it mounted would not notice; stop the \
              client, and add --force.",
    examples: &[Example { line: "esker volume rollback db db-monday", does: "gives db its content of Monday" }],
});

#[derive(clap::Args)]
struct Rollback {
    #[command(flatten)]
    volumes: Volumes,
    /// The volume
    #[arg(value_name = "VOLUME")]
    name: String,
    /// What it is to equal: a snapshot or another volume
    #[arg(value_name = "TO")]
    to: String,
    /// Even if a client could be using it
    #[arg(long)]
    force: bool,
}

impl Run for Rollback {
    const PACE: Option<Pace> = Some(Pace::AtOnce);

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let mut words = vec!["rollback".to_string(), self.name, self.to];
        words.extend(self.force.then(|| "force".to_string()));
        self.volumes.ask(terminal, words, told)
    }
}
