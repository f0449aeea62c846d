//! How a command ends badly: exit status 1 if it failed, 2 if it was used wrongly, 3 if a medium is damaged, 4 if
//! nothing answers a question. Errors look as the parser of the command line prints its own.

use std::error::Error;
use std::io;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use esker_base::renamed::{self, Scope};
#[cfg(feature = "full")]
use esker_serve::mounts::UnsoundMounts;
use esker_stack::text::TextErrors;

use crate::terminal::Terminal;

/// Exit status of a command that failed.
const FAILED: u8 = 1;
/// Exit status of a command line that is not understood.
const USAGE: u8 = 2;
/// Exit status of a command that finds a damaged medium under its stack.
const DAMAGED: u8 = 3;
/// Exit status of a command that finds no answer.
const UNANSWERED: u8 = 4;

/// Why a verb did not do what was asked.
#[derive(Debug)]
pub enum Failure {
    /// The arguments do not make sense together.
    Usage(String),
    /// It went wrong.
    Error(Box<dyn Error>),
    /// The medium of a layer is damaged, and nothing older can serve.
    Damaged(String),
    /// Nothing that can be bought answers the question.
    Unanswered(String),
    /// A program that was run ended with this status, and has said why itself.
    Passed(u8),
}

impl<E: Error + 'static> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure::Error(Box::new(error))
    }
}

impl Failure {
    /// What the user is told.
    pub fn text(&self) -> String {
        match self {
            Failure::Usage(text) | Failure::Damaged(text) | Failure::Unanswered(text) => text.clone(),
            Failure::Error(error) => with_causes(error.as_ref()),
            Failure::Passed(status) => format!("the program ended with status {status}"),
        }
    }

    /// Tells the user and returns the exit status. A reader that closed our output has seen enough: that is no failure.
    pub fn report(&self, terminal: &mut Terminal) -> u8 {
        match self {
            Failure::Error(error) if is_closed_pipe(error.as_ref()) => return 0,
            Failure::Error(error) if is_list(error.as_ref()) => {
                self.text().lines().for_each(|line| terminal.fail(line));
            }
            Failure::Passed(_) => {}
            Failure::Usage(_) | Failure::Error(_) | Failure::Damaged(_) | Failure::Unanswered(_) => {
                terminal.fail(&self.text());
            }
        }
        match self {
            Failure::Error(_) => FAILED,
            Failure::Usage(_) => USAGE,
            Failure::Damaged(_) => DAMAGED,
            Failure::Unanswered(_) => UNANSWERED,
            Failure::Passed(status) => *status,
        }
    }
}

/// Reports what the parser of the command line says of `words`: help and version are no failures.
pub fn report_usage(mut error: clap::Error, words: &[String], terminal: &mut Terminal) -> u8 {
    if !error.use_stderr() {
        // The parser knows whether its reader wants colours.
        return error.print().map_or(FAILED, |()| 0);
    }
    if let Some(advice) = renamed_in(&error, words) {
        error.remove(ContextKind::SuggestedSubcommand);
        error.remove(ContextKind::SuggestedArg);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![advice.into()]));
    }
    terminal.pass_on(error.render().ansi());
    USAGE
}

/// The new name of the verb, option or word of `words` that the parser does not know.
fn renamed_in(error: &clap::Error, words: &[String]) -> Option<String> {
    let found = |scope, old: &str| renamed::now(scope, old).map(|new| format!("`{old}` is called `{new}` now"));
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.split(['=', ' ']).next().unwrap_or_default()),
        _ => None,
    };
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let verb: Vec<&str> = words.iter().map(String::as_str).filter(|word| *word != "help").take(2).collect();
            found(Scope::Verb, &verb.join(" ")).or_else(|| found(Scope::Verb, verb.first()?))
        }
        ErrorKind::UnknownArgument => found(Scope::Flag, context(ContextKind::InvalidArg)?),
        ErrorKind::InvalidValue => found(Scope::Word, context(ContextKind::InvalidValue)?),
        _ => None,
    }
}

/// Whether each line of the error is a mistake of its own.
fn is_list(error: &(dyn Error + 'static)) -> bool {
    #[cfg(feature = "full")]
    if error.is::<UnsoundMounts>() {
        return true;
    }
    error.is::<TextErrors>()
}

fn is_closed_pipe(error: &(dyn Error + 'static)) -> bool {
    let is_it = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
    causes(error).any(|cause| cause.downcast_ref().is_some_and(is_it))
}

/// The error and its causes, outermost first.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error: &&'a (dyn Error + 'static)| (*error).source())
}

/// The error and its causes, without those whose text was already said.
fn with_causes(error: &(dyn Error + 'static)) -> String {
    causes(error).map(ToString::to_string).fold(String::new(), |text, cause| match text.as_str() {
        "" => cause,
        said if said.contains(&cause) => text,
        said => format!("{said}: {cause}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    enum Outer {
        #[error("outer: {0}")]
        Says(#[source] io::Error),
        #[error("outer")]
        Keeps(#[source] io::Error),
    }

    /// What standard error says of a wrong command line.
    fn told(line: &str) -> String {
        let words: Vec<String> = line.split(' ').map(str::to_string).collect();
        let error =
            crate::verb::command().try_get_matches_from(["esker"].into_iter().chain(line.split(' '))).unwrap_err();
        renamed_in(&error, &words).unwrap_or_default()
    }

    #[test]
    fn an_old_verb_option_or_word_is_told_its_new_name() {
        for (line, advice) in [
            ("measure nothing", "`measure` is called `meters` now"),
            ("help drain", "`drain` is called `sync` now"),
            ("ranges vol delete:0:4KiB", "`ranges` is called `remap` now"),
            ("media check a.img", "`media check` is called `check` now"),
            ("volume share a b", "`volume share` is called `volume dedup` now"),
            ("volume space", "`volume space` is called `volume usage` now"),
            ("trace calls", "`trace calls` is called `trace syscalls` now"),
            ("trace init a --dir run", "`trace init` is called `trace prepare` now"),
            ("trace inspect a", "`trace inspect` is called `trace deps` now"),
            ("stack query a b", "`stack query` is called `stack place` now"),
            ("lab evaluate artc-", "`lab evaluate` is called `lab repeat` now"),
            ("serve --measure=all a", "`--measure` is called `--meters` now"),
            ("serve --meters nothing a", "`nothing` is called `off` now"),
            ("meters nothing", "`nothing` is called `off` now"),
            ("stack format", ""),
        ] {
            assert_eq!(told(line), advice, "{line}");
        }
    }

    #[test]
    fn causes_are_told_once() {
        for outer in [Outer::Says, Outer::Keeps] {
            assert_eq!(with_causes(&outer(io::Error::other("inner"))), "outer: inner");
        }
    }

    #[test]
    fn a_closed_pipe_is_found_below_other_errors() {
        let outer = |kind: io::ErrorKind| Outer::Keeps(kind.into());
        assert!(is_closed_pipe(&outer(io::ErrorKind::BrokenPipe)));
        assert!(!is_closed_pipe(&outer(io::ErrorKind::NotFound)));
    }
}
