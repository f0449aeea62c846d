//! This program, executed again with a word of its own as a process with memory, and asked through its pipes.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

use super::{chaser, guest, hotcold};
use crate::fs_calls;
use esker_lab_kit::{LabError, bound::Bound, peer};

/// A process that answers each line with a line of numbers.
pub(crate) struct Own {
    name: &'static str,
    program: Bound,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Own {
    /// Starts it as `ready` says, which adds its word. Errors call it `name`.
    ///
    /// # Errors
    /// If this program cannot be executed again.
    pub(crate) fn start(name: &'static str, ready: impl FnOnce(&mut Command) -> &mut Command) -> Result<Own, LabError> {
        let own = std::env::current_exe().map_err(|error| peer::fault(name, error))?;
        let mut program = Bound::start(own, |command| ready(command).stdin(Stdio::piped()).stdout(Stdio::piped()))?;
        let (to, from) = (program.child().stdin.take(), program.child().stdout.take());
        let (Some(to), Some(from)) = (to, from) else { return Err(peer::fault(name, "it has no pipes")) };
        Ok(Own { name, program, to, from: BufReader::new(from) })
    }

    /// Its number.
    pub(crate) fn pid(&self) -> u32 {
        self.program.pid()
    }

    /// Whether it has ended by itself.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn has_ended(&mut self) -> Result<bool, LabError> {
        let ended = self.program.child().try_wait();
        ended.map(|status| status.is_some()).map_err(|error| peer::fault(self.name, error))
    }

    /// Sends a line.
    ///
    /// # Errors
    /// If it has ended.
    pub(crate) fn tell(&mut self, words: &str) -> Result<(), LabError> {
        writeln!(self.to, "{words}").map_err(|error| peer::fault(self.name, error))
    }

    /// Waits for a line of so many numbers.
    ///
    /// # Errors
    /// If it has ended, or says something else.
    pub(crate) fn hear<const N: usize>(&mut self) -> Result<[f64; N], LabError> {
        let mut line = String::new();
        self.from.read_line(&mut line).map_err(|error| peer::fault(self.name, error))?;
        let numbers: Vec<f64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        numbers.try_into().map_err(|_| peer::fault(self.name, format!("it answers {line:?}")))
    }

    /// Sends a line and waits for the answer.
    ///
    /// # Errors
    /// As [`Own::tell`] and [`Own::hear`].
    pub(crate) fn ask<const N: usize>(&mut self, words: &str) -> Result<[f64; N], LabError> {
        self.tell(words)?;
        self.hear()
    }
}

/// Answers with numbers.
pub(crate) fn say(values: &[f64]) {
    let words: Vec<String> = values.iter().map(f64::to_string).collect();
    // The asker may be gone; then there are no more lines either.
    drop(writeln!(std::io::stdout(), "{}", words.join(" ")));
}

/// The lines that are sent, until the input is closed.
pub(crate) fn lines() -> impl Iterator<Item = String> + Send {
    BufReader::new(std::io::stdin()).lines().map_while(Result::ok)
}

/// Runs as such a process and returns its exit status, if that is what the arguments of this program say: a word, and
/// numbers.
pub fn pass(args: impl Iterator<Item = OsString>) -> Option<u8> {
    let words: Vec<String> = args.skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let numbers: Vec<usize> = words.iter().skip(1).filter_map(|word| word.parse().ok()).collect();
    let is_served = match words.first()?.as_str() {
        guest::WORD => guest::pass(&numbers),
        chaser::WORD => chaser::pass(&numbers),
        hotcold::WORD => hotcold::pass(&numbers),
        fs_calls::WORD => fs_calls::pass(&numbers),
        _ => return None,
    };
    Some(if is_served { 0 } else { 2 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_arguments_with_a_word_of_their_own_make_this_program_another() {
        let args = |words: &[&str]| pass(words.iter().map(OsString::from));
        assert_eq!(args(&["esker", "lab", "list"]), None);
        assert_eq!(args(&["esker"]), None);
        for word in [guest::WORD, chaser::WORD, hotcold::WORD] {
            assert_eq!(args(&["esker", word, "1", "x"]), Some(2), "{word} without its numbers");
        }
    }
}
