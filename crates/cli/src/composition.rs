//! What the verbs `stack compose`, `explain` and `query` share: their text, the goals, and where reports go.

use std::path::PathBuf;

use esker_compose::report::svg;
use esker_compose::report::text::unmet;
use esker_compose::text::stack_part;
use esker_compose::{Analysis, Built, Declaration};
use esker_stack::Spec;

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
    /// Declarations in a file of their own, so that STACK stays a text that can be served
    #[arg(long, value_name = "FILE")]
    declarations: Option<String>,
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
    /// Replaces a file that is there already and that esker did not write
    #[arg(long)]
    pub force: bool,
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

/// What was read: the texts and what they say.
pub struct Loaded {
    /// Volumes, extensions, goals and constraints.
    pub declared: Declaration,
    /// The text STACK as it stands.
    pub text: String,
    /// The stack in it.
    pub spec: Spec,
    sources: Sources,
}

/// Where declarations come from.
struct Sources {
    /// Name of STACK.
    name: String,
    /// A file of declarations alone: its name and text.
    declarations: Option<(String, String)>,
    is_anew: bool,
}

impl Question {
    /// The text's name in messages.
    pub fn name(&self) -> String {
        self.stack().name().to_string()
    }

    /// The argument STACK.
    pub fn stack(&self) -> StackText {
        StackText::of(self.source.clone())
    }

    /// Reads the text.
    ///
    /// # Errors
    /// Everything that is wrong with it or with the goals.
    pub fn load(&self, terminal: &mut Terminal) -> Result<Declaration, Failure> {
        Ok(self.read(false, terminal)?.declared)
    }

    /// Reads the texts. With `is_anew`, what lies on the media holds no layer.
    ///
    /// # Errors
    /// Everything that is wrong with them or with the goals.
    pub fn read(&self, is_anew: bool, terminal: &mut Terminal) -> Result<Loaded, Failure> {
        let text = self.stack().read()?;
        let declarations = self.declarations.as_ref().map(|file| self.declarations_of(file, &text)).transpose()?;
        let sources = Sources { name: self.name(), declarations, is_anew };
        let (mut declared, spec, warnings) = sources.understand(&text)?;
        warnings.iter().for_each(|warning| terminal.complain(&format!("warning: {warning}")));
        for list in &self.goals {
            declared.want(list)?;
        }
        Ok(Loaded { declared, text, spec, sources })
    }

    /// The name and text of a file of declarations, which go with the stack `text`.
    fn declarations_of(&self, file: &str, text: &str) -> Result<(String, String), Failure> {
        let source = StackText::of(file.to_string());
        let name = source.name().to_string();
        if stack_part(text).is_some() {
            let what = format!("it has declarations of its own; move them to {name}, or leave out --declarations");
            return Err(self.refused(what).into());
        }
        let declarations = source.read()?;
        let part = stack_part(&declarations).unwrap_or_else(|| declarations.clone());
        if Spec::parse(&name, &part).is_ok_and(|spec| spec != Spec::default()) {
            let what = "it has devices of its own; move them to STACK".to_string();
            return Err(Refused { name, what }.into());
        }
        Ok((name, declarations))
    }

    /// A message about this text.
    pub fn refused(&self, what: String) -> Refused {
        Refused { name: self.name(), what }
    }
}

impl Sources {
    /// What `text` says in the place of STACK, and warnings about it.
    fn understand(&self, text: &str) -> Result<(Declaration, Spec, Vec<String>), Failure> {
        let part = stack_part(text);
        let spec = Spec::parse(&self.name, part.as_deref().unwrap_or(text))?;
        let plan = spec.check(esker_kinds::ALL)?;
        let warnings = plan.warnings().iter().map(ToString::to_string).collect();
        let built = esker_stack::theory::built(&spec, &plan, esker_kinds::ALL);
        let built = Built { is_anew: self.is_anew, ..built };
        let declared = match (&self.declarations, part) {
            (Some((file, text)), _) => Declaration::parse(file, text, &built)?,
            (None, Some(_)) => Declaration::parse(&self.name, text, &built)?,
            (None, None) => Declaration::of_stack(&self.name, &built)?,
        };
        Ok((declared, spec, warnings))
    }
}

impl Loaded {
    /// What another text says in the place of this one.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn reread(&self, text: &str) -> Result<Declaration, Failure> {
        Ok(self.sources.understand(text)?.0)
    }

    /// The file with the declarations, if they are not in STACK.
    pub fn declarations_file(&self) -> Option<&str> {
        self.sources.declarations.as_ref().map(|(name, _)| name.as_str())
    }

    /// A message about STACK.
    pub fn refused(&self, what: String) -> Refused {
        Refused { name: self.sources.name.clone(), what }
    }
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
