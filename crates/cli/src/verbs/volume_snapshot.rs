//! `esker volume snapshot`: keeps what volumes hold now.

use crate::failure::Failure;
use crate::progress::Pace;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};
use crate::volumes::{Volumes, told};

/// The record.
pub const VERB: Verb = Verb::of::<Snapshot>(About {
    words: &["volume", "snapshot"],
    summary: "Keep the present content of volumes under other names",
    details: "Copies nothing, whatever the size. A snapshot never changes. Several volumes are kept at one moment: all \
              of them or none. A snapshot is what a power cut would leave; freeze file systems first (fsfreeze) for a \
              clean one.",
    examples: &[
        Example { line: "esker volume snapshot db db-monday", does: "keeps one" },
        Example { line: "esker volume snapshot data data-1 log log-1", does: "keeps two at one moment" },
    ],
});

#[derive(clap::Args)]
struct Snapshot {
    #[command(flatten)]
    volumes: Volumes,
    /// A volume and the name of its snapshot, as often as wanted
    #[arg(value_name = "VOLUME NAME", required = true, num_args = 2..)]
    pairs: Vec<String>,
}

impl Run for Snapshot {
    const PACE: Option<Pace> = Some(Pace::AtOnce);

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        self.volumes.ask(terminal, ["snapshot".to_string()].into_iter().chain(self.pairs).collect(), told)
    }
}
