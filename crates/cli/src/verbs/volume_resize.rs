//! `esker volume resize`: changes a size.

use crate::failure::Failure;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};
use crate::volumes::{Volumes, told};

/// The record.
pub const VERB: Verb = Verb::of::<Resize>(About {
    words: &["volume", "resize"],
    summary: "Change the size of a volume",
    details: "Growing costs nothing, and clients of a volume that is served may use what is gained at once. What is cut off is gone. A volume that \
              is served is cut by `esker resize`, which keeps clients off what goes; the size of its port in the stack text is what it has at \
              least when a server starts.",
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
