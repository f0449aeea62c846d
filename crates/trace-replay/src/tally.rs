//! Counts of what was done otherwise than traced, from all threads.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::report::Adapted;

/// The counts.
#[derive(Debug, Default)]
pub struct Tally(Mutex<BTreeMap<&'static str, u64>>);

impl Tally {
    /// Counts one.
    pub fn add(&self, what: &'static str) {
        // Counting cannot be left half done: a panic elsewhere leaves a whole map.
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(what).or_default() += 1;
    }

    /// All that were counted.
    pub fn list(&self) -> Vec<Adapted> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.iter().map(|(what, count)| Adapted { what: (*what).to_string(), count: *count }).collect()
    }
}
