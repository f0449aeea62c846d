//! `esker lab list`: the experiments that can be run.

use esker_lab::ALL;

use crate::failure::Failure;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<List>(About {
    words: &["lab", "list"],
    summary: "List the experiments",
    details: "Every figure in the documents comes from one of these.",
    examples: &[Example { line: "esker lab list", does: "prints names, what they measure, and what they need" }],
});

#[derive(clap::Args)]
struct List {}

impl Run for List {
    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        for experiment in ALL {
            let world = if experiment.simulated { "virtual time" } else { "real time" };
            let needs = match experiment.rivals {
                [] => String::new(),
                rivals => format!("; needs {}", rivals.join(", ")),
            };
            terminal.say(&format!("{:<16} {} ({world}{needs})", experiment.name, experiment.summary))?;
        }
        Ok(())
    }
}
