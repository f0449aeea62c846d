//! The latch of a stateful device or layer, and what an operator must know about one.
//!
//! A failed write or flush leaves open what the medium holds. Whatever keeps state there refuses all later changes,
//! says why, and never tries again: an operator repairs the medium and restarts the server.

use std::cell::OnceCell;
use std::fmt::Display;

use esker_rt::{Level, Rt};

use crate::bio::BioError;

/// Refuses changes after the first failure. The first cause stays.
pub struct Latch {
    name: Box<str>,
    text: OnceCell<Box<str>>,
}

impl Latch {
    /// The open latch of the device or layer `name`.
    pub fn new(name: &str) -> Latch {
        Latch { name: name.into(), text: OnceCell::new() }
    }

    /// Whether changes may go on.
    ///
    /// # Errors
    /// [`BioError::Latched`] with the first cause.
    #[inline]
    pub fn check(&self) -> Result<(), BioError> {
        self.text.get().map_or(Ok(()), |text| Err(BioError::Latched(text.clone())))
    }

    /// Whether changes are refused.
    #[inline]
    pub fn is_set(&self) -> bool {
        self.text.get().is_some()
    }

    /// The whole sentences that every refusal carries; none while changes go on.
    pub fn why(&self) -> Option<&str> {
        self.text.get().map(|text| &**text)
    }

    /// Refuses changes from now on. `cause` is a clause without a full stop, `advice` a sentence with one.
    pub fn set(&self, rt: &Rt, cause: impl Display, advice: &str) {
        self.set_text(rt, || format!("{} is latched: {cause}. {advice}", self.name));
    }

    /// Refuses changes from now on because `what` ended with `error`. Where that error comes from a latch below, its
    /// text says what to do, and `advice` is not repeated.
    pub fn set_after(&self, rt: &Rt, what: &str, error: &BioError, advice: &str) {
        match error {
            BioError::Latched(below) => self.set_text(rt, || format!("{} is latched: {what}. {below}", self.name)),
            BioError::Io(_)
            | BioError::NoSpace(_)
            | BioError::Unsupported(_)
            | BioError::Invalid(_)
            | BioError::Corrupt(_)
            | BioError::ReadOnly(_)
            | BioError::Gone(_) => self.set(rt, format_args!("{what} ({error})"), advice),
        }
    }

    fn set_text(&self, rt: &Rt, text: impl FnOnce() -> String) {
        if !self.is_set() {
            let text = self.text.get_or_init(|| text().into());
            rt.log(Level::Error, format_args!("{text}"));
        }
    }

    /// The condition of what holds this latch and has no other trouble.
    pub fn trouble(&self) -> Option<Trouble> {
        self.why().map(|why| Trouble::Latched(why.to_string()))
    }
}

/// What an operator must know about a device or layer. The texts are whole sentences.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Trouble {
    /// It serves everything, without something that it should have below.
    Degraded(String),
    /// It refuses changes until its medium is repaired and the server restarts.
    Latched(String),
}

#[cfg(test)]
mod tests {
    use esker_rt::sim::{Sim, SimConfig};

    use super::*;

    const ADVICE: &str = "Repair the medium, then restart.";

    #[test]
    fn the_first_cause_stays_and_every_refusal_says_it() {
        let sim = Sim::new(SimConfig::seeded(1));
        let (rt, latch) = (sim.rt(), Latch::new("m"));
        assert_eq!((latch.check(), latch.is_set(), latch.trouble()), (Ok(()), false, None));
        latch.set(&rt, "no member took a write", ADVICE);
        latch.set(&rt, "something else", ADVICE);
        let text = "m is latched: no member took a write. Repair the medium, then restart.";
        assert_eq!(latch.check(), Err(BioError::Latched(text.into())));
        assert_eq!(latch.check().unwrap_err().to_string(), text);
        assert_eq!(latch.trouble(), Some(Trouble::Latched(text.into())));
    }

    #[test]
    fn advice_is_given_once_where_one_latch_follows_another() {
        let sim = Sim::new(SimConfig::seeded(1));
        let (rt, below, above) = (sim.rt(), Latch::new("d"), Latch::new("v"));
        below.set_after(&rt, "a write failed", &BioError::io("no answer"), ADVICE);
        above.set_after(&rt, "a batch could not be written", &below.check().unwrap_err(), "Check d, then restart.");
        let text = "v is latched: a batch could not be written. d is latched: a write failed (I/O error: no answer). \
                    Repair the medium, then restart.";
        assert_eq!(above.why(), Some(text));
    }
}
