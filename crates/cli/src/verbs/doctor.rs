//! `esker doctor`: what of this machine works for the verbs of Esker.

use serde_json::Value;

use crate::doctor::finding::Finding;
use crate::doctor::machine::Machine;
use crate::doctor::place::Place;
use crate::doctor::{examine, text};
use crate::failure::Failure;
use crate::progress::Pace;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Doctor>(About {
    words: &["doctor"],
    summary: "Examine this machine, and say what helps where something is missing",
    details: "Looks at the kernel, its devices and limits, and at directories, files or block devices that are named. \
              Of a file or block device, it tells which format stands on it, in which version, and whether this \
              program reads that. Each line is ok, a note or MISSING. A note: a verb does less here, or takes root. MISSING: a verb needs this \
              thing, and the machine lacks it. What is not ok has a line `do` with a command or setting, and a line \
              `for` with the verbs for which it matters.\n\n\
              Changes nothing on this machine. In each directory it makes two files without a name, of up to 64 KiB, \
              which are gone at the end. It takes less than two seconds. The exit status is 1 if anything is MISSING.",
    examples: &[
        Example { line: "esker doctor", does: "examines the machine and the current directory" },
        Example { line: "esker doctor /srv /dev/sdb", does: "also a directory and a disk for stacks" },
        Example { line: "esker doctor stack.toml", does: "also the files and disks that a stack names" },
        Example { line: "esker doctor --json", does: "one array of findings, for programs" },
    ],
});

#[derive(clap::Args)]
struct Doctor {
    /// Directories, files and block devices for stacks; or stacks, as files or as text, for all that their devices name
    #[arg(value_name = "PATH", default_value = ".")]
    places: Vec<String>,
    /// JSON, for programs
    #[arg(long)]
    json: bool,
}

#[derive(Debug, thiserror::Error)]
#[error("missing on this machine: {0}")]
struct MissingThings(String);

impl Run for Doctor {
    const PACE: Option<Pace> = Some(Pace::AtOnce);

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let places: Result<Vec<Vec<Place>>, _> = self.places.iter().map(|named| Place::all(named)).collect();
        let places: Vec<Place> = places?.into_iter().flatten().collect();
        let found = examine(&Machine::here(), &places);
        terminal.say(&match self.json {
            true => found.iter().map(Finding::json).collect::<Value>().to_string(),
            false => text::page(&found),
        })?;
        text::missing(&found).map_or(Ok(()), |missing| Err(MissingThings(missing).into()))
    }
}
