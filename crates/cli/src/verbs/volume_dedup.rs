//! `esker volume dedup`: lets equal volumes share their storage.

use crate::failure::Failure;
use crate::progress::Pace;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};
use crate::volumes::{Volumes, bytes};

/// The record.
pub const VERB: Verb = Verb::of::<Dedup>(About {
    words: &["volume", "dedup"],
    summary: "Let one volume use the storage of another one for what is equal in both",
    details: "Compares both, byte by byte, and clones what is equal at the same place: for volumes that were written from the same image. Both may \
              be written meanwhile; a write is never lost.",
    examples: &[Example {
        line: "esker volume dedup template guest-7",
        does: "guest-7 gives back what it has in common with template",
    }],
});

#[derive(clap::Args)]
struct Dedup {
    #[command(flatten)]
    volumes: Volumes,
    /// The one that keeps its storage
    #[arg(value_name = "FROM")]
    from: String,
    /// The one that gives its own back
    #[arg(value_name = "TO")]
    to: String,
}

impl Run for Dedup {
    const PACE: Option<Pace> = Some(Pace::AtOnce);

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        self.volumes.ask(terminal, vec!["dedup".into(), self.from, self.to], render)
    }
}

fn render(answer: &serde_json::Value) -> String {
    let (now, before) = (bytes(answer, "shared_now_bytes"), bytes(answer, "shared_before_bytes"));
    format!("{now} are shared now, beside {before} that were before")
}
