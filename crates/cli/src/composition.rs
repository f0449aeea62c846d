//! What the verbs `stack compose`, `explain` and `query` share: their text, the goals, and where reports go.

use std::path::PathBuf;

use esker_compose::report::svg;
use esker_compose::report::text::unmet;
use esker_compose::text::stack_part;
use esker_compose::{Analysis, Built, Declaration};
use esker_stack::Spec;
use esker_stack::text::Plan;

use crate::failure::Failure;
use crate::outputs::Output;
use crate::stack_text::StackText;
use crate::terminal::Terminal;

/// The text and the goals.
#[derive(clap::Args)]
pub struct Question {
    /// File with a stack's text, with declarations, or with both; - for standard input, or the text itself
    #[arg(value_name = "STACK")]
    source: String,
    /// Goals by priority, such as space,energy; VOLUME=space,energy for one volume; replaces those of the text
    #[arg(long, value_name = "GOALS")]
    goals: Vec<String>,
}

/// Forms of the answer.
#[derive(clap::Args)]
pub struct Answer {
    /// One JSON object instead of text
    #[arg(long)]
    pub json: bool,
    /// Also draws the stack and what requests do in it, as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Replaces a drawing that esker did not write
    #[arg(long, requires = "svg")]
    force: bool,
}

/// Goals that are met nowhere; the exit status is 1.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Unmet(String);

/// Something about the text or the arguments that only the theory can tell.
#[derive(Debug, thiserror::Error)]
#[error("{name}: {what}")]
pub struct Refused {
    /// The text's name.
    pub name: String,
    /// What and how to mend it.
    pub what: String,
}

impl Question {
    /// The text's name in messages.
    pub fn name(&self) -> String {
        StackText::of(self.source.clone()).name().to_string()
    }

    /// Reads the text.
    ///
    /// # Errors
    /// Everything that is wrong with it or with the goals.
    pub fn load(&self, terminal: &mut Terminal) -> Result<Declaration, Failure> {
        let source = StackText::of(self.source.clone());
        let text = source.read()?;
        let mut declared = match stack_part(&text) {
            None => Declaration::of_stack(source.name(), &built(source.check(&text, terminal)?))?,
            Some(part) => Declaration::parse(source.name(), &text, &built(source.check(&part, terminal)?))?,
        };
        for list in &self.goals {
            declared.want(list)?;
        }
        Ok(declared)
    }

    /// A message about this text.
    pub fn refused(&self, what: String) -> Refused {
        Refused { name: self.name(), what }
    }
}

/// What the theory needs to know of a stack.
fn built((spec, plan): (Spec, Plan)) -> Built {
    esker_primitives::registrar::built(&spec, &plan, esker_kinds::ALL)
}

impl Answer {
    /// Makes sure that the drawing may be written.
    ///
    /// # Errors
    /// A file that is not ours.
    pub fn claim(&self) -> Result<Option<Output>, Failure> {
        let claim = |path: &PathBuf| Output::claim(path.clone(), &["Written by esker"], self.force, "--svg");
        Ok(self.svg.as_ref().map(claim).transpose()?)
    }
}

/// Draws the stack, if that was asked for.
///
/// # Errors
/// What the system refuses.
pub fn draw(output: Option<Output>, analysis: &Analysis<'_>, title: &str) -> Result<(), Failure> {
    if let Some(output) = output {
        output.prepare()?;
        output.put(&svg::draw(analysis, title))?;
    }
    Ok(())
}

/// Fails if a goal is met nowhere.
///
/// # Errors
/// The goals, each with the request that shows why.
pub fn judge(analysis: &Analysis<'_>) -> Result<(), Failure> {
    match unmet(analysis) {
        why if why.is_empty() => Ok(()),
        why => Err(Unmet(why).into()),
    }
}
