//! `esker hugepage doctor`: what of this machine works for a manager of huge pages.

use esker_hugepage_linux::linux::doctor::examine;

use crate::failure::Failure;
use crate::progress::Pace;
use crate::terminal::{Terminal, table};
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Doctor>(About {
    words: &["hugepage", "doctor"],
    summary: "Try what a manager of huge pages needs, and say what is done without it",
    details: "Tries everything on its own memory and changes no setting. Exit status 1 if nothing can be managed here.",
    examples: &[
        Example { line: "esker hugepage doctor", does: "a line for each thing that was tried" },
        Example { line: "esker hugepage doctor --json", does: "for programs" },
    ],
});

#[derive(clap::Args)]
struct Doctor {
    /// JSON, for programs
    #[arg(long)]
    json: bool,
}

#[derive(Debug, thiserror::Error)]
#[error("huge pages cannot be managed here: {0}")]
struct Unfit(String);

impl Run for Doctor {
    const PACE: Option<Pace> = Some(Pace::AtOnce);

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let findings = examine();
        if self.json {
            terminal.say(&serde_json::to_string(&findings)?)?;
        } else {
            let verdict = |works: bool, needed: bool| match (works, needed) {
                (true, _) => "works",
                (false, true) => "MISSING",
                (false, false) => "without",
            };
            let rows = findings.iter().map(|one| [verdict(one.works, one.needed), one.what, one.says.as_str()]);
            let rows: Vec<Vec<String>> = rows.map(|row| row.map(str::to_string).to_vec()).collect();
            terminal.say(&table(&[], &rows))?;
        }
        let missing: Vec<&str> = findings.iter().filter(|one| one.needed && !one.works).map(|one| one.what).collect();
        match missing.is_empty() {
            true => Ok(()),
            false => Err(Unfit(missing.join(", ")).into()),
        }
    }
}
