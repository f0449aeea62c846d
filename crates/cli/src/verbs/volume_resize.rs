//! `esker volume resize`: changes a size.

use crate::failure::Failure;
use crate::progress::Pace;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};
use crate::volumes::{Volumes, told};

/// The record.
pub const VERB: Verb = Verb::of::<Resize>(About {
    words: &["volume", "resize"],
    summary: "Change the size of a volume",
    details: "Growing costs nothing, and clients of a served volume may use gained space at once. A part that is cut \
              off is lost. `esker resize` cuts a served volume, because it keeps clients off that part. The size of \
              its port in the stack text is its least size when a server starts.",
    examples: &[Example { line: "esker volume resize scratch 2TiB", does: "lets it grow" }],
});

#[derive(clap::Args)]
struct Resize {
    #[command(flatten)]
    volumes: Volumes,
    /// Its name
    #[arg(value_name = "NAME")]
    name: String,
    /// Its new size, such as 10GiB
    #[arg(value_name = "SIZE")]
    size: String,
}

impl Run for Resize {
    const PACE: Option<Pace> = Some(Pace::AtOnce);

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        self.volumes.ask(terminal, vec!["resize".into(), self.name, self.size], told)
    }
}
