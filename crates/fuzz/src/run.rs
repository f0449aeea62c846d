//! The loop: one input after the other, until one is wrong or the bound is reached.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use esker_base::Stream;

use crate::kept;
use crate::mutate::mutate;
use crate::target::Target;

/// When a run ends.
#[derive(Debug, Clone, Copy)]
pub struct Bound {
    /// Inputs at most.
    pub events: u64,
    /// Time at most, from the first input.
    pub time: Option<Duration>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Every answer kept its promises.
    Clean,
    /// An input that panics or breaks a promise.
    Found {
        /// Number of the input, from 0.
        event: u64,
        /// The panic, or the promise that is broken.
        what: String,
        /// Its bytes.
        input: Vec<u8>,
    },
}

/// What a run tried, and how it ended.
#[derive(Debug)]
pub struct Report {
    /// Inputs that were tried.
    pub events: u64,
    /// Inputs that were taken as sound: a run where none is tells little.
    pub accepted: u64,
    /// Time that the run took.
    pub time: Duration,
    /// How it ended.
    pub outcome: Outcome,
}

/// Tries inputs. What is tried depends on target and seed alone.
pub fn run(target: Target, seed: u64, bound: Bound) -> Report {
    let seeds = [target.corpus(), kept::read(target).expect("the kept inputs are readable")].concat();
    let mut rng = Stream::named(seed, &target.name());
    let began = Instant::now();
    let mut accepted = 0;
    for event in 0..bound.events {
        // The clock is looked at now and then: it costs more than a short input.
        if event % 64 == 0 && bound.time.is_some_and(|time| began.elapsed() >= time) {
            return Report { events: event, accepted, time: began.elapsed(), outcome: Outcome::Clean };
        }
        let input = mutate(&seeds, &mut rng);
        match judge(target, &input) {
            Ok(is_sound) => accepted += u64::from(is_sound),
            Err(what) => {
                let outcome = Outcome::Found { event, what, input };
                return Report { events: event + 1, accepted, time: began.elapsed(), outcome };
            }
        }
    }
    Report { events: bound.events, accepted, time: began.elapsed(), outcome: Outcome::Clean }
}

/// Whether the input was accepted, or what is wrong with the answer.
pub(crate) fn judge(target: Target, input: &[u8]) -> Result<bool, String> {
    let result = catch_unwind(AssertUnwindSafe(|| target.try_input(input)));
    result.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
        Err(format!("panic: {}", text.unwrap_or_default()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(events: u64) -> Bound {
        Bound { events, time: None }
    }

    #[test]
    fn every_target_passes_a_short_run_and_takes_some_inputs() {
        for target in Target::ALL.into_iter().filter(|target| *target != Target::Canary) {
            let report = run(target, 3, bound(300));
            assert_eq!(report.outcome, Outcome::Clean, "{}", target.name());
            assert!(report.accepted > 0, "{} accepts nothing: its corpus is stale", target.name());
        }
    }

    #[test]
    fn the_canary_is_found_and_found_again_with_the_same_seed() {
        let found = |seed| match run(Target::Canary, seed, bound(100_000)).outcome {
            Outcome::Found { event, what, input } => (event, what, input),
            Outcome::Clean => panic!("the canary lives: the fuzzer finds nothing"),
        };
        let (event, what, input) = found(1);
        assert!(what.contains("panic: the canary"), "{what}");
        assert_eq!(found(1), (event, what, input.clone()));
        assert_ne!(found(2).2, input, "another seed tries other inputs");
    }
}
