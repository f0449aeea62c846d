//! How a command ends badly: exit status 1 if it failed, 2 if it was used wrongly; each line begins with `esker: `.

use std::error::Error;
use std::io;

use crate::terminal::Terminal;

/// Exit status of a command that failed.
const FAILED: u8 = 1;
/// Exit status of a command line that is not understood.
const USAGE: u8 = 2;

/// Why a verb did not do what was asked.
#[derive(Debug)]
pub enum Failure {
    /// The arguments do not make sense together.
    Usage(String),
    /// It went wrong.
    Error(Box<dyn Error>),
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
            Failure::Usage(text) => text.clone(),
            Failure::Error(error) => with_causes(error.as_ref()),
            Failure::Passed(status) => format!("the program ended with status {status}"),
        }
    }

    /// Tells the user and returns the exit status. A reader that closed our output has seen enough: that is no failure.
    pub fn report(&self, terminal: &mut Terminal) -> u8 {
        match self {
            Failure::Usage(text) => {
                terminal.complain(text);
                USAGE
            }
            Failure::Error(error) if is_closed_pipe(error.as_ref()) => 0,
            Failure::Error(error) => {
                terminal.complain(&with_causes(error.as_ref()));
                FAILED
            }
            Failure::Passed(status) => *status,
        }
    }
}

/// Reports what the parser of the command line says: help and version are no failures.
pub fn report_usage(error: &clap::Error, terminal: &mut Terminal) -> u8 {
    if !error.use_stderr() {
        // The parser knows whether its reader wants colours.
        return error.print().map_or(FAILED, |()| 0);
    }
    let text = error.render().to_string();
    terminal.complain(text.strip_prefix("error: ").unwrap_or(&text).trim_end());
    USAGE
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
