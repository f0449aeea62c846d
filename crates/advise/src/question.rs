//! What is wanted: the cheapest that is fast enough, or the fastest that is cheap enough. These are two questions.

use std::fmt;
use std::str::FromStr;

use esker_base::Nanos;
use esker_base::units::parse_span;
use serde::Serialize;

/// What responses may be at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Target {
    /// Mean, nanoseconds.
    pub mean_ns: Option<u64>,
    /// 95th percentile, nanoseconds.
    pub p95_ns: Option<u64>,
    /// 99th percentile, nanoseconds.
    pub p99_ns: Option<u64>,
}

/// The text of a target that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is no target: write p95=5ms, or several of mean, p95 and p99 with commas between them")]
pub struct TargetError(String);

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Target, TargetError> {
        let refused = || TargetError(text.to_string());
        let mut target = Target::default();
        for part in text.split(',') {
            let (name, span) = part.split_once('=').ok_or_else(refused)?;
            let span = parse_span(span).map_err(|_| refused())?.0;
            let place = match name.trim() {
                "mean" => &mut target.mean_ns,
                "p95" => &mut target.p95_ns,
                "p99" => &mut target.p99_ns,
                _ => return Err(refused()),
            };
            if span == 0 || place.replace(span).is_some() {
                return Err(refused());
            }
        }
        Ok(target)
    }
}

/// Figures of responses that a target is held against, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Responses {
    /// Mean.
    pub mean_ns: f64,
    /// 95th percentile.
    pub p95_ns: f64,
    /// 99th percentile.
    pub p99_ns: f64,
}

impl Target {
    fn parts(&self) -> impl Iterator<Item = (&'static str, u64, fn(&Responses) -> f64)> {
        let mean: (_, _, fn(&Responses) -> f64) = ("mean", self.mean_ns, |found| found.mean_ns);
        let p95: (_, _, fn(&Responses) -> f64) = ("p95", self.p95_ns, |found| found.p95_ns);
        let p99: (_, _, fn(&Responses) -> f64) = ("p99", self.p99_ns, |found| found.p99_ns);
        [mean, p95, p99].into_iter().filter_map(|(name, most, of)| Some((name, most?, of)))
    }

    /// How many times the target the worst figure is: at most 1 if all are met.
    pub fn excess(&self, found: &Responses) -> f64 {
        self.parts().map(|(_, most, of)| of(found) / most as f64).fold(0.0, f64::max)
    }

    /// What is missed, and by how much.
    pub fn missed(&self, found: &Responses) -> Vec<String> {
        let missed = self.parts().filter(|(_, most, of)| of(found) > *most as f64);
        let told = |(name, most, of): (&str, u64, fn(&Responses) -> f64)| {
            let found = of(found) as u64;
            format!("{name} is {}, {} above {}", Nanos(found), Nanos(found - most), Nanos(most))
        };
        missed.map(told).collect()
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> =
            self.parts().map(|(name, most, _)| format!("{name} of at most {}", Nanos(most))).collect();
        f.write_str(&parts.join(" and "))
    }
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Question {
    /// Equal performance: the cheapest that meets a target.
    Target(Target),
    /// Equal cost: the lowest 95th percentile for so many US dollars.
    Budget(f64),
}

impl Question {
    /// The most that may be paid.
    pub fn budget(&self) -> f64 {
        match self {
            Question::Target(_) => f64::INFINITY,
            Question::Budget(usd) => *usd,
        }
    }
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Question::Target(target) => write!(f, "equal performance: the cheapest with a {target}"),
            Question::Budget(usd) => write!(f, "equal cost: the lowest p95 for at most ${usd}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_and_held_against_responses() {
        let target: Target = "p95=5ms,mean=800us".parse().unwrap();
        assert_eq!(target, Target { mean_ns: Some(800_000), p95_ns: Some(5_000_000), p99_ns: None });
        assert_eq!(target.to_string(), "mean of at most 800 us and p95 of at most 5.00 ms");
        let found = Responses { mean_ns: 400e3, p95_ns: 7.5e6, p99_ns: 1e9 };
        assert_eq!(target.excess(&found), 1.5);
        assert_eq!(target.missed(&found), ["p95 is 7.50 ms, 2.50 ms above 5.00 ms"]);
        for wrong in ["", "5ms", "p95", "p95=x", "p95=0s", "p95=1ms,p95=2ms", "p50=1ms"] {
            assert!(wrong.parse::<Target>().is_err(), "{wrong}");
        }
    }
}
