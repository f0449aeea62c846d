//! `esker volume create`: makes an empty one.

use crate::failure::Failure;
use crate::progress::Pace;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};
use crate::volumes::{Volumes, told};

/// The record.
pub const VERB: Verb = Verb::of::<Create>(About {
    words: &["volume", "create"],
    summary: "Make an empty volume",
    details: "It takes no space until it is written. Clients reach it once its name stands among the ports of the layer in the stack text.",
    examples: &[
        Example { line: "esker volume create scratch 1TiB", does: "makes it in the served stack" },
        Example {
            line: "esker volume create scratch 1TiB --stack stack.toml",
            does: "makes it while no server runs the stack",
        },
    ],
});

#[derive(clap::Args)]
struct Create {
    #[command(flatten)]
    volumes: Volumes,
    /// Its name
    #[arg(value_name = "NAME")]
    name: String,
    /// Its size, such as 10GiB
    #[arg(value_name = "SIZE")]
    size: String,
}

impl Run for Create {
    const PACE: Option<Pace> = Some(Pace::AtOnce);

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        self.volumes.ask(terminal, vec!["create".into(), self.name, self.size], told)
    }
}
