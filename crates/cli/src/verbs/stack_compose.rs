//! `esker stack compose`: finds the order of extensions that serves given goals best.

use esker_compose::report::{json, text};
use esker_compose::search::branch::{LOOKS_MAX, compose};
use esker_compose::search::census::census;
use esker_compose::search::insertion::insert;
use esker_compose::{Analysis, Declaration};

use crate::composition::{Answer, Question, draw, judge};
use crate::failure::Failure;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Compose>(About {
    words: &["stack", "compose"],
    summary: "Find the order of extensions that serves given goals best",
    details: "Arranges all extensions of the text: layers of a stack, and extensions that are only declared by their \
              domains, maps and properties. The best order gives the extensions of the first goal the most volumes on \
              which they are the last to handle every request, then those of the second goal, and so on. Says who is \
              last on each volume, what is certain, and for each lost goal shows a request that proves it. The search \
              is exact for up to 32 extensions unless it reaches --looks; then it says so. Exit status 1 if a goal is \
              met on no volume. docs/compose.md describes the text.",
    examples: &[
        Example { line: "esker stack compose six.toml --goals space,energy", does: "arranges all, space above all" },
        Example { line: "esker stack compose six.toml --no-starvation", does: "wants every extension to see requests" },
        Example { line: "esker stack compose live.toml --insert BV", does: "puts BV in, the others keep their order" },
        Example { line: "esker stack compose six.toml --svg six.svg", does: "draws the best order too" },
    ],
});

#[derive(clap::Args)]
struct Compose {
    #[command(flatten)]
    question: Question,
    /// Only finds the best place for this extension; the others keep the order of the text
    #[arg(long, value_name = "EXTENSION")]
    insert: Option<String>,
    /// Only accepts orders in which every extension sees requests
    #[arg(long)]
    no_starvation: bool,
    /// Also looks at every order, of up to 9 extensions, and counts those that are equally good
    #[arg(long, conflicts_with_all = ["insert", "json"])]
    count: bool,
    /// Stacks and parts of stacks after which a search ends with the best order met so far, and a count without one
    #[arg(long, value_name = "N", default_value_t = LOOKS_MAX)]
    looks: u64,
    #[command(flatten)]
    answer: Answer,
}

impl Run for Compose {
    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let output = self.answer.claim()?;
        let mut declared = self.question.load(terminal)?;
        if self.no_starvation {
            declared.constraints.starved_max = Some(0);
        }
        let found = match &self.insert {
            Some(name) => insert(&declared.problem(), &declared.order, declared.extension(name)?, self.looks),
            None => compose(&declared.problem(), self.looks),
        };
        let found = found.map_err(|why| self.question.refused(text::no_order(&declared.setting, &why)))?;
        let analysis = Analysis::of(&declared.setting, &found.order, &declared.priorities);
        if self.answer.json {
            terminal.say(&json::found(&found, &analysis).to_string())?;
        } else {
            terminal.say(text::analysis(&analysis, &declared.priorities).trim_end())?;
            terminal.say(&format!("\n{}", text::search_text(&found)))?;
            if self.count {
                let census = census(&declared.problem(), self.looks);
                let census = census.map_err(|why| self.question.refused(text::no_order(&declared.setting, &why)))?;
                terminal
                    .say(&format!("allowed orders: {}, as good as this one: {}", census.allowed, census.optimal))?;
            }
            terminal.say(changes(&declared, &found.order).trim_end())?;
        }
        draw(output, &analysis, &self.question.name())?;
        judge(&analysis)
    }
}

/// How the order differs from the text's.
fn changes(declared: &Declaration, order: &[esker_compose::set::ExtId]) -> String {
    if order == declared.order {
        return "the text has this order already".to_string();
    }
    let was = format!("the text has the order: {}\n", text::order_text(&declared.setting, &declared.order));
    let commands = declared.reordered(order);
    let commands =
        commands.iter().map(|names| format!("while it is served: esker stack reorder {}\n", names.join(" ")));
    was + &commands.collect::<String>()
}
