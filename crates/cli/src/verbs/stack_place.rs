//! `esker stack place`: says what an extension would bring at each place of a stack.

use esker_compose::Analysis;
use esker_compose::report::{json, text};
use esker_compose::search::insertion::places;

use crate::composition::{Question, judge};
use crate::failure::Failure;
use crate::progress::Pace;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Place>(About {
    words: &["stack", "place"],
    summary: "Say what an extension would bring at each place of a stack",
    details: "Lists every place that the extension can take while the others keep the order of the text. For each \
              place it prints the goals that are met, the last handler of each volume that clients address, and \
              the extensions that see no request. An extension that is in the stack already is taken out first. \
              The exit status is 1 if no place meets all goals.",
    examples: &[Example {
        line: "esker stack place live.toml BV --goals space,energy",
        does: "lists the places of BV",
    }],
});

#[derive(clap::Args)]
struct Place {
    #[command(flatten)]
    question: Question,
    /// The extension
    #[arg(value_name = "EXTENSION")]
    extension: String,
    /// One JSON object for each place, one a line, instead of text
    #[arg(long)]
    json: bool,
}

impl Run for Place {
    const PACE: Option<Pace> = Some(Pace::AtOnce);

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let declared = self.question.load(terminal)?;
        let id = declared.extension(&self.extension)?;
        let places = places(&declared.problem(), &declared.order, id);
        let analyses: Vec<Analysis<'_>> = places.iter().map(|place| declared.analysis(&place.order)).collect();
        if self.json {
            for (place, analysis) in places.iter().zip(&analyses) {
                terminal.say(&json::place(place, analysis).to_string())?;
            }
        } else {
            terminal.say(text::places(&places, &analyses, &declared.priorities).trim_end())?;
        }
        let allowed = places.iter().zip(&analyses).filter(|(place, _)| place.score.is_some());
        let best = allowed.map(|(_, analysis)| analysis).min_by_key(|analysis| analysis.failed().count());
        match best {
            Some(best) => judge(best),
            None => {
                Err(self.question.refused("the constraints forbid every place; weaken one of them".to_string()).into())
            }
        }
    }
}
