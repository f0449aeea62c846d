//! `esker volume send`: writes a snapshot, or what differs between two, as a stream.

use std::io::{IsTerminal, stdout};

use esker_base::Progress;
use esker_layer_thin::transfer::{Outgoing, send};

use crate::failure::Failure;
use crate::progress::Pace;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};
use crate::volumes::Thin;

/// The record.
pub const VERB: Verb = Verb::of::<Send>(About {
    words: &["volume", "send"],
    summary: "Write a snapshot, or what differs between two, to standard output",
    details: "The stream is for `esker volume receive`, on this machine or another one. With --from it holds only the \
              blocks that differ from an earlier snapshot, which the receiver must have. The map tells them, so nothing \
              else is read. Ranges that hold no data take no room. Hold a snapshot until its increments are sent.",
    examples: &[
        Example { line: "esker volume send db-monday > db-monday.stream", does: "writes a whole snapshot" },
        Example {
            line: "esker volume send db-tuesday --from db-monday | ssh backup esker volume receive db",
            does: "brings the copy on another machine up to date",
        },
    ],
});

#[derive(clap::Args)]
struct Send {
    #[command(flatten)]
    thin: Thin,
    /// The snapshot
    #[arg(value_name = "SNAPSHOT")]
    snapshot: String,
    /// An earlier snapshot that the receiver has
    #[arg(long, value_name = "SNAPSHOT")]
    from: Option<String>,
    /// First byte, to go on after a stream that was cut; the receiver names it
    #[arg(long, value_name = "BYTE", default_value_t = 0)]
    start: u64,
}

impl Run for Send {
    const PACE: Option<Pace> = Some(Pace::Shows("bytes of data"));

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        if stdout().is_terminal() {
            return Err(Failure::Usage("a stream is no text; send standard output to a file or a program".to_string()));
        }
        let watcher = terminal.watcher();
        let what = Outgoing { snapshot: &self.snapshot, base: self.from.as_deref(), start: self.start };
        let mut progress = |done, all| watcher.tell(Progress::bytes("sent", done, all));
        let sent = self.thin.with(|manager| Ok(send(manager, &what, terminal.output(), &mut progress)?));
        sent.map(drop)
    }
}
