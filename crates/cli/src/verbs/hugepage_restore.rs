//! `esker hugepage restore`: puts back what a manager that was killed has left changed.

use std::path::PathBuf;

use esker_hugepage_linux::config::STATE;
use esker_hugepage_linux::linux::knobs::Knobs;

use crate::failure::Failure;
use crate::hugepages;
use crate::progress::Pace;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Restore>(About {
    words: &["hugepage", "restore"],
    summary: "Put back the settings that a killed manager has left changed",
    details: "The next esker hugepage run does the same; this verb is for machines without a next run. A setting that another program has changed since \
              stays. Fails if a manager that runs has the state.",
    examples: &[
        Example { line: "esker hugepage restore", does: "prints each setting that is as before again" },
        Example { line: "esker hugepage restore --state s.json", does: "does so for a manager with another state" },
    ],
});

#[derive(clap::Args)]
struct Restore {
    /// State file of the manager, as its configuration names it
    #[arg(long, value_name = "FILE", default_value = STATE, conflicts_with = "config")]
    state: PathBuf,
    /// The manager's configuration, which names the state file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl Run for Restore {
    const PACE: Option<Pace> = Some(Pace::AtOnce);

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let state = match &self.config {
            Some(path) => hugepages::read_config(path)?.settings.state,
            None => self.state,
        };
        let (_knobs, restored) = Knobs::open(&state)?;
        for one in &restored {
            terminal.say(&one.line())?;
        }
        Ok(())
    }
}
