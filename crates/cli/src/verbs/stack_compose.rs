//! `esker stack compose`: finds the order of extensions that serves given goals best.

use std::path::PathBuf;

use esker_base::Unit;
use esker_compose::report::{json, text};
use esker_compose::search::branch::{LOOKS_MAX, compose_told};
use esker_compose::search::census::census;
use esker_compose::search::insertion::insert;
use esker_compose::search::{BestOrder, NoOrder};
use esker_compose::set::ExtId;
use esker_compose::{Analysis, Declaration};

use crate::composition::{Answer, Loaded, Question, Refused, draw, judge};
use crate::failure::Failure;
use crate::progress::{Pace, Part};
use crate::rewriting::{Target, rewritten};
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Compose>(About {
    words: &["stack", "compose"],
    summary: "Find the order of extensions that serves given goals best",
    details: "Arranges all extensions of the text: layers of a stack, and extensions that are only declared by their \
              domains, maps and properties. An extension has a volume if it is the last there to handle every request. \
              The best order gives the most volumes to the extensions of the first goal, then to those of the second, and \
              so on. Says which one is last on each volume, what is certain, and for each lost goal shows a request that proves it. The search \
              is exact for up to 32 extensions unless it reaches --looks; then it says so. Layers that keep something \
              on what they stand on, or change its shape, are fixed: they are named, and the answer is the best of the \
              orders of the others. Exit status 1 if a goal is met on no volume; --write writes the order all the \
              same. docs/guide/compose.md describes the text.",
    examples: &[
        Example { line: "esker stack compose six.toml --goals space,energy", does: "arranges all, space above all" },
        Example { line: "esker stack compose six.toml --no-starvation", does: "wants every extension to see requests" },
        Example { line: "esker stack compose live.toml --insert BV", does: "puts BV in, the others keep their order" },
        Example { line: "esker stack compose six.toml --svg six.svg", does: "draws the best order too" },
        Example {
            line: "esker stack compose live.stack --declarations goals.toml --write",
            does: "writes the best order into live.stack",
        },
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
    /// Also moves layers that keep tables or arranged data on what they stand on, for media that are made anew
    #[arg(long)]
    anew: bool,
    /// Writes the order into the file STACK, or the whole text with this order into FILE
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    write: Option<Option<PathBuf>>,
    #[command(flatten)]
    answer: Answer,
}

impl Run for Compose {
    const PACE: Option<Pace> = Some(Pace::Shows("stacks that were looked at, of --looks"));

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let drawing = self.answer.claim()?;
        let claim = |file: &Option<PathBuf>| Target::claim(&self.question, file.as_ref(), self.answer.force);
        let target = self.write.as_ref().map(claim).transpose()?;
        let mut loaded = self.question.read(self.anew, terminal)?;
        if self.no_starvation {
            loaded.declared.constraints.starved_max = Some(0);
        }
        let declared = &loaded.declared;
        let part = terminal.watcher().part("stacks", Unit::Of("looks at most"), Some(self.looks));
        let found = self.find(declared, &part)?;
        drop(part);
        let analysis = declared.analysis(&found.order);
        let moved = declared.made_anew(&found.order);
        let written = target.map_or(Ok(None), |target| write(&target, &loaded, &found.order, terminal))?;
        if self.answer.json {
            let mut value = json::found(&found, &analysis);
            value["anew"] = moved.clone().into();
            value["written"] = written.into();
            terminal.say(&value.to_string())?;
        } else {
            self.report(declared, &found, &analysis, terminal)?;
            if let Some(file) = written {
                terminal.say(&format!("written to {file}"))?;
            }
        }
        if !moved.is_empty() {
            terminal.complain(&format!(
                "warning: {} changed places with other layers that keep something on their media: what is there does not \
                 fit this order. Copy the data out, make the media anew, and copy it back",
                moved.join(", ")
            ));
        }
        draw(drawing, &analysis, &self.question.name())?;
        judge(&analysis)
    }
}

/// Writes the order and tells what was lost by that; returns the file's name, if it did not say the order already.
fn write(
    target: &Target,
    loaded: &Loaded,
    order: &[ExtId],
    terminal: &mut Terminal,
) -> Result<Option<String>, Failure> {
    let new = rewritten(loaded, order)?;
    let file = target.write(&loaded.text, &new.text)?;
    let warnings = new.warnings.iter().filter(|_| file.is_some());
    warnings.for_each(|warning| terminal.complain(&format!("warning: {warning}")));
    Ok(file)
}

impl Compose {
    fn find(&self, declared: &Declaration, part: &Part) -> Result<BestOrder, Failure> {
        let found = match &self.insert {
            Some(name) => insert(&declared.problem(), &declared.order, declared.extension(name)?, self.looks),
            None => compose_told(&declared.problem(), self.looks, &|looked_at| part.done(looked_at)),
        };
        Ok(found.map_err(|why| self.no_order(declared, &why))?)
    }

    fn no_order(&self, declared: &Declaration, why: &NoOrder) -> Refused {
        self.question.refused(text::no_order(&declared.setting, why))
    }

    fn report(
        &self,
        declared: &Declaration,
        found: &BestOrder,
        analysis: &Analysis<'_>,
        terminal: &mut Terminal,
    ) -> Result<(), Failure> {
        terminal.say(text::analysis(analysis, &declared.priorities).trim_end())?;
        terminal.say(&format!("\n{}", text::search_text(found, analysis)))?;
        if self.count {
            let census = census(&declared.problem(), self.looks).map_err(|why| self.no_order(declared, &why))?;
            terminal.say(&format!("allowed orders: {}, as good as this one: {}", census.allowed, census.optimal))?;
        }
        if declared.is_held_by_media() {
            terminal
                .say("--anew also moves those that what lies on the media holds: the media must then be made anew")?;
        }
        terminal.say(self.changes(declared, &found.order).trim_end())
    }

    /// How the order differs from the text's.
    fn changes(&self, declared: &Declaration, order: &[ExtId]) -> String {
        if order == declared.order {
            return "the text has this order already".to_string();
        }
        let mut told = format!("the text has the order: {}\n", text::order_text(&declared.setting, &declared.order));
        let command = |names: &Vec<&str>| format!("while it is served: esker stack reorder {}\n", names.join(" "));
        told.extend(declared.reordered_live(order).iter().map(command));
        if self.write.is_none() {
            told.push_str("in its file: add --write\n");
        }
        told
    }
}
