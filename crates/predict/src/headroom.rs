//! How many times the load a candidate bears within the target.

use serde::Serialize;

use crate::error::PredictError;

/// How far a candidate is from its limit, in multiples of the load that was played.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Headroom {
    /// The largest tried multiple of the load that it bears within the target; 0: none.
    pub factor: f64,
    /// The smallest tried multiple that it does not bear; `None`: it bears all that were tried.
    pub missed: Option<f64>,
    /// Requests of each trace that the search played at most; `None`: all.
    pub requests: Option<u64>,
}

/// The first steps of the search.
const STEP: f64 = 4.0;
/// No multiple beyond these is tried.
const FACTOR_MAX: f64 = 1024.0;
const FACTOR_MIN: f64 = 1.0 / 4096.0;
/// Multiples this near are near enough.
const NEAR: f64 = 1.1;
/// Most runs of one search: up or down to the last multiple, then halvings of one step's logarithm.
pub(crate) const PROBES_MAX: u64 = 10;

impl Headroom {
    /// Looks for the multiple of the load up to which `bears` holds; at 1 it does if `bears_one`. First in large steps,
    /// up to `most` at most, then by halving.
    ///
    /// # Errors
    /// Those of `bears`, which plays a multiple of the load.
    pub(crate) fn search(
        bears_one: bool,
        most: f64,
        mut bears: impl FnMut(f64) -> Result<bool, PredictError>,
    ) -> Result<Headroom, PredictError> {
        let most = most.clamp(1.0, FACTOR_MAX);
        let (mut borne, mut missed) = if bears_one { (Some(1.0), None) } else { (None, Some(1.0)) };
        loop {
            let next = match (borne, missed) {
                (Some(low), None) if low < most => f64::min(low * STEP, most),
                (None, Some(high)) if high > FACTOR_MIN => high / STEP,
                (Some(low), Some(high)) if high / low > NEAR => f64::sqrt(low * high),
                _ => break,
            };
            if bears(next)? {
                borne = Some(next);
            } else {
                missed = Some(next);
            }
        }
        Ok(Headroom { factor: borne.unwrap_or(0.0), missed, requests: None })
    }

    /// For a table: how many times the load.
    pub fn text(&self) -> String {
        match (self.factor, self.missed) {
            (0.0, missed) => format!("<{}", share(missed.unwrap_or(0.0))),
            (factor, None) => format!(">{}x", digits(factor)),
            (factor, _) if factor < 1.0 => share(factor),
            (factor, _) => format!("{}x", digits(factor)),
        }
    }

    /// For a sentence.
    pub fn sentence(&self) -> String {
        match (self.factor, self.missed) {
            (0.0, missed) => format!("bears less than {} of this load", share(missed.unwrap_or(0.0))),
            (factor, None) => format!("bears at least {} times this load", digits(factor)),
            (factor, _) if factor < 1.0 => format!("bears {} of this load", share(factor)),
            (factor, _) => format!("bears {} times this load", digits(factor)),
        }
    }
}

/// Two digits are as many as the search finds.
fn digits(factor: f64) -> String {
    if factor >= 10.0 { format!("{factor:.0}") } else { format!("{factor:.1}") }
}

fn share(factor: f64) -> String {
    match factor * 100.0 {
        percent if percent >= 10.0 => format!("{percent:.0} %"),
        percent if percent >= 1.0 => format!("{percent:.1} %"),
        percent => format!("{percent:.2} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn searched(limit: f64, most: f64) -> (Headroom, u64) {
        let mut probes = 0;
        let found = Headroom::search(limit >= 1.0, most, |factor| {
            probes += 1;
            Ok(factor <= limit)
        });
        (found.unwrap(), probes)
    }

    #[test]
    fn the_limit_lies_between_what_is_borne_and_what_is_missed() {
        for limit in [0.001, 0.03, 0.9, 1.0, 1.7, 3.2, 90.0, 900.0] {
            let (found, probes) = searched(limit, 1e9);
            let missed = found.missed.unwrap();
            assert!(found.factor <= limit && limit < missed && missed / found.factor <= NEAR, "{limit}: {found:?}");
            assert!(probes <= PROBES_MAX, "{limit}: {probes}");
        }
    }

    #[test]
    fn what_is_beyond_the_steps_is_said_to_be() {
        let text = |limit, most| {
            let found = searched(limit, most).0;
            (found.text(), found.sentence())
        };
        let both = |a: &str, b: &str| (a.to_string(), b.to_string());
        assert_eq!(text(1e9, 1e9), both(">1024x", "bears at least 1024 times this load"));
        assert_eq!(text(1e9, 5.5), both(">5.5x", "bears at least 5.5 times this load"));
        assert_eq!(text(1e9, 0.5), both(">1.0x", "bears at least 1.0 times this load"));
        assert_eq!(text(0.0, 1e9), both("<0.02 %", "bears less than 0.02 % of this load"));
        assert_eq!(text(3.2, 1e9), both("3.1x", "bears 3.1 times this load"));
        assert_eq!(text(0.03, 1e9), both("2.9 %", "bears 2.9 % of this load"));
    }
}
