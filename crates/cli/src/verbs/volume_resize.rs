//! `esker volume resize`: changes a size.

use crate::failure::Failure;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};
use crate::volumes::{Volumes, told};

/// The record.
pub const VERB: Verb = Verb::of::<Resize>(About {
    words: &["volume", "resize"],
    summary: "Change the size of a volume",
    details: "Growing costs nothing. What is cut off is gone. The size of a port is what the stack text says: a larger volume is reached as far as \
              its port goes, and none becomes smaller than its port.",
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
    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        self.volumes.ask(terminal, vec!["resize".into(), self.name, self.size], told)
    }
}
