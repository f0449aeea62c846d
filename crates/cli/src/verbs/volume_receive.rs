//! `esker volume receive`: takes the stream of a snapshot.

use std::io::{BufReader, IsTerminal, stdin};

use esker_base::Progress;
use esker_layer_thin::transfer::{Target, receive};

use crate::failure::Failure;
use crate::progress::Pace;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};
use crate::volumes::{Thin, told};

/// The record.
pub const VERB: Verb = Verb::of::<Receive>(About {
    words: &["volume", "receive"],
    summary: "Give a volume the content of a snapshot that standard input brings",
    details: "Takes a stream of `esker volume send`. At its end the volume has the size and content of the snapshot, and \
              the snapshot is there too, all at once. Until then the volume is as it was. A stream of a whole snapshot \
              makes the volume. One of an increment needs the snapshot from which it differs, and a volume that is \
              unchanged since. If the stream breaks off, the message says from which byte to send the rest.",
    examples: &[
        Example { line: "esker volume receive db < db-monday.stream", does: "makes db, and its snapshot db-monday" },
        Example {
            line: "esker volume receive db --as db-copy < db-monday.stream",
            does: "gives the snapshot another name",
        },
    ],
});

#[derive(clap::Args)]
struct Receive {
    #[command(flatten)]
    thin: Thin,
    /// The volume
    #[arg(value_name = "VOLUME")]
    volume: String,
    /// Name of the snapshot [default: that of the sender]
    #[arg(long = "as", value_name = "NAME")]
    name: Option<String>,
    /// Even if the volume has a port, holds something else, or has changed since the base
    #[arg(long)]
    force: bool,
}

impl Run for Receive {
    const PACE: Option<Pace> = Some(Pace::Shows("bytes of data"));

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        if stdin().is_terminal() {
            return Err(Failure::Usage("a stream comes by standard input; name a file with `<`".to_string()));
        }
        let watcher = terminal.watcher();
        let target = Target { volume: &self.volume, snapshot: self.name.as_deref(), force: self.force };
        let input = BufReader::with_capacity(1 << 20, stdin().lock());
        let mut progress = |done, all| watcher.tell(Progress::bytes("received", done, all));
        let received = self.thin.with(|manager| Ok(receive(manager, &target, input, &mut progress)?));
        terminal.say(&told(&received?))
    }
}
