//! How fast traces are played: as asked, or so that the first candidate is about as busy as asked.

use esker_trace_block::Speed;
use serde::Serialize;

use crate::error::PredictError;

/// How the speed is chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SpeedChoice {
    /// This many times as fast as recorded.
    Factor(f64),
    /// So that the busiest device of the first candidate works this share of the time.
    Busy(f64),
}

/// The speed, and how it was found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SpeedFound {
    /// Times as fast as recorded.
    pub factor: f64,
    /// The busy share that was looked for.
    pub target_busy: Option<f64>,
    /// The runs of the search: factor and busy share.
    pub probes: Vec<Probe>,
    /// How it was chosen, in one sentence.
    pub why: String,
}

/// One run of the search.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Probe {
    /// Times as fast as recorded.
    pub factor: f64,
    /// Share of the time in which the busiest device worked.
    pub busy: f64,
}

/// A busy share this near is near enough.
const NEAR: f64 = 0.02;
/// Most runs of one search.
pub(crate) const PROBES_MAX: usize = 8;
/// Above it a share tells little of how much too fast the speed is.
const FULL: f64 = 0.97;
/// One step changes the speed by at most this factor.
const STEP_MAX: f64 = 16.0;
const FACTOR_MIN: f64 = 1e-3;
const FACTOR_MAX: f64 = 1e5;

impl SpeedFound {
    pub(crate) fn given(factor: f64) -> Result<SpeedFound, PredictError> {
        Speed::new(factor).ok_or(PredictError::Speed(factor))?;
        let why = if factor == 1.0 { "as recorded" } else { "as asked" };
        Ok(SpeedFound { factor, target_busy: None, probes: Vec::new(), why: why.to_string() })
    }

    /// For people.
    pub fn text(&self) -> String {
        match self.target_busy {
            None if self.factor == 1.0 => self.why.clone(),
            _ => format!("{} times as recorded, {}", self.factor, self.why),
        }
    }

    /// The load of a verdict in words, unless it is the recorded one.
    pub(crate) fn remark(&self) -> Option<String> {
        (self.factor != 1.0).then(|| format!("at {} times the recorded load", self.factor))
    }

    /// The speed as the player takes it.
    pub(crate) fn speed(&self) -> Speed {
        Speed::new(self.factor).expect("checked when it was chosen")
    }

    /// Looks for the speed at which the busy share is `target`. Busy shares grow with speed, nearly in proportion until
    /// a device is full; so the next guess is the proportional one, kept inside what is known to be too slow and too
    /// fast. The run at the speed that was found comes back too.
    ///
    /// # Errors
    /// Those of `play`, which plays the traces at a factor and returns the busy share and the run; a share of `None`
    /// says that nothing tells how busy it is.
    pub(crate) fn search<R>(
        name: &str,
        target: f64,
        mut play: impl FnMut(f64) -> Result<(Option<f64>, R), PredictError>,
    ) -> Result<(SpeedFound, Option<R>), PredictError> {
        let mut probes: Vec<Probe> = Vec::new();
        let mut best: Option<(Probe, R)> = None;
        let (mut slow, mut fast) = (FACTOR_MIN, FACTOR_MAX);
        let mut factor = 1.0;
        let miss = |probe: &Probe| (probe.busy - target).abs();
        while probes.len() < PROBES_MAX {
            let (share, run) = play(factor)?;
            let Some(share) = share else {
                let why = format!("as recorded, because {name} has no model that tells how busy it is");
                let found = SpeedFound { factor: 1.0, target_busy: None, probes, why };
                return Ok((found, (factor == 1.0).then_some(run)));
            };
            let probe = Probe { factor, busy: share };
            probes.push(probe);
            if best.as_ref().is_none_or(|(best, _)| miss(&probe).total_cmp(&miss(best)).is_lt()) {
                best = Some((probe, run));
            }
            if miss(&probe) <= NEAR {
                break;
            }
            if share < target {
                slow = factor
            } else {
                fast = factor
            }
            let next = next_guess(factor, share, target, slow, fast);
            if next == factor {
                break;
            }
            factor = next;
        }
        let (Probe { factor, busy }, run) = best.expect("one probe was made");
        let why = if (busy - target).abs() <= NEAR {
            format!(
                "so that the busiest device of {name} works {:.0} % of the time (found {:.1} %)",
                target * 100.0,
                busy * 100.0
            )
        } else {
            format!(
                "where the search for a busiest device of {name} that works {:.0} % of the time ended; it works {:.1} % of it",
                target * 100.0,
                busy * 100.0
            )
        };
        Ok((SpeedFound { factor, target_busy: Some(target), probes, why }, Some(run)))
    }
}

fn next_guess(factor: f64, share: f64, target: f64, slow: f64, fast: f64) -> f64 {
    let ratio = target / share.max(target / STEP_MAX);
    let ratio = if share >= FULL { ratio / 2.0 } else { ratio };
    let guess = factor * ratio;
    let guess = if guess > slow && guess < fast { guess } else { (slow * fast).sqrt() };
    three_digits(guess).clamp(FACTOR_MIN, FACTOR_MAX)
}

/// A factor that can be typed again.
fn three_digits(x: f64) -> f64 {
    let text = format!("{x:.2e}");
    text.parse().expect("a number reads back")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches with runs that are their factors: the one that comes back is that of the speed that was found.
    fn searched(busy: impl Fn(f64) -> Option<f64>) -> SpeedFound {
        let (found, run) = SpeedFound::search("d", 0.7, |factor| Ok((busy(factor), factor))).unwrap();
        assert_eq!(run, Some(found.factor), "{found:?}");
        found
    }

    #[test]
    fn a_proportional_load_is_found_in_few_probes_and_to_the_same_factor_each_time() {
        let found = searched(|factor| Some((factor * 0.003).min(1.0)));
        assert!((found.factor * 0.003 - 0.7).abs() <= NEAR && found.probes.len() <= 4, "{found:?}");
        assert_eq!(found, searched(|factor| Some((factor * 0.003).min(1.0))));
    }

    #[test]
    fn an_overloaded_start_is_slowed_down() {
        let found = searched(|factor| Some((factor * 40.0).min(1.0)));
        assert!((found.factor * 40.0 - 0.7).abs() <= 0.05, "{found:?}");
    }

    #[test]
    fn a_search_that_ends_elsewhere_says_so() {
        let found = searched(|factor| Some(if factor > 0.05 { 0.99 } else { 0.5 }));
        assert_ne!(found.probes.last().map(|probe| probe.factor), Some(found.factor), "{found:?}");
        assert!(found.text().contains("ended") && !found.text().contains("so that"), "{}", found.text());
        assert!(found.remark().unwrap().contains("times the recorded load"));
    }

    #[test]
    fn without_a_model_the_recorded_speed_stays() {
        let found = searched(|_| None);
        assert_eq!((found.factor, found.probes.len()), (1.0, 0));
    }

    #[test]
    fn a_factor_out_of_range_is_refused() {
        assert!(matches!(SpeedFound::given(0.0), Err(PredictError::Speed(_))));
    }
}
