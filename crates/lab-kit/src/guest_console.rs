//! Numbers that a guest tells over its console, on lines of the form `TOLD NAME NUMBER`.

use std::collections::BTreeMap;

use crate::{LabError, peer};

const TOLD: &str = "TOLD ";
const PROGRAM: &str = "the guest";
/// Lines of the console that an error quotes.
const QUOTED: usize = 8;

/// What a guest told.
pub struct GuestConsole<'a> {
    text: &'a str,
    told: BTreeMap<&'a str, f64>,
}

impl<'a> GuestConsole<'a> {
    /// The numbers in what the console showed.
    pub fn new(text: &'a str) -> GuestConsole<'a> {
        let lines = text.lines().filter_map(|line| line.strip_prefix(TOLD)?.split_once(' '));
        let told = lines.filter_map(|(name, value)| Some((name, value.trim().parse().ok()?))).collect();
        GuestConsole { text, told }
    }

    /// A number.
    ///
    /// # Errors
    /// If the guest did not tell it; the error quotes its last lines.
    pub fn number(&self, name: &str) -> Result<f64, LabError> {
        let untold = || peer::fault(PROGRAM, format!("it tells no {name}; its last words: {}", self.last_words()));
        self.told.get(name).copied().ok_or_else(untold)
    }

    /// The guest ended too early.
    pub fn fault(&self) -> LabError {
        peer::fault(PROGRAM, self.last_words())
    }

    fn last_words(&self) -> String {
        let last: Vec<&str> = self.text.lines().rev().take(QUOTED).collect();
        last.into_iter().rev().collect::<Vec<_>>().join(" | ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_over_the_console() {
        let console = GuestConsole::new("TOLD sum 4294967295\n[ 1.2] a word of the kernel's\nTOLD bytes 40\nDONE");
        assert_eq!((console.number("sum").unwrap(), console.number("bytes").unwrap()), (4_294_967_295.0, 40.0));
    }

    #[test]
    fn a_guest_that_tells_nothing_is_quoted() {
        let error = GuestConsole::new("EVENT failed\nno such device\nDONE").number("sum").unwrap_err().to_string();
        assert!(error.contains("no such device") && error.contains("sum"), "{error}");
    }
}
