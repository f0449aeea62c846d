//! Schedules of snapshots: each call makes a snapshot whose name has the instant, and deletes those that the schedule
//! no longer keeps. A timer calls; nothing is remembered between two calls but the names.
//!
//! A rule keeps the newest snapshot of each of the last so many hours, days, weeks, months or years that have one. What
//! one rule keeps, no other one deletes. Periods are those of UTC, weeks those of ISO 8601.
//!
//! Invariant: only snapshots of the volume are deleted whose names this module would give, and none that is held.

use std::collections::BTreeSet;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use serde_json::Value;

use crate::transfer::Ask;

/// How an instant stands in a name.
const INSTANT: &str = "%Y%m%dT%H%M%SZ";
/// Most snapshots that one order deletes.
const DELETED_AT_ONCE: usize = 8;

/// How many snapshots of each kind are kept.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Keep {
    /// The newest ones.
    pub last: usize,
    /// Those of the last hours that have one.
    pub hourly: usize,
    /// Days.
    pub daily: usize,
    /// Weeks.
    pub weekly: usize,
    /// Months.
    pub monthly: usize,
    /// Years.
    pub yearly: usize,
}

/// A schedule that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("\"{0}\" is no schedule; write rules such as hourly=24,daily=7 (last, hourly, daily, weekly, monthly, yearly)")]
pub struct KeepError(String);

impl std::str::FromStr for Keep {
    type Err = KeepError;

    fn from_str(text: &str) -> Result<Keep, KeepError> {
        let wrong = || KeepError(text.to_string());
        let mut keep = Keep::default();
        for rule in text.split(',') {
            let (name, count) = rule.split_once('=').ok_or_else(wrong)?;
            let field = match name.trim() {
                "last" => &mut keep.last,
                "hourly" => &mut keep.hourly,
                "daily" => &mut keep.daily,
                "weekly" => &mut keep.weekly,
                "monthly" => &mut keep.monthly,
                "yearly" => &mut keep.yearly,
                _ => return Err(wrong()),
            };
            // A rule that stands twice, or keeps nothing, is a mistake that would cost data.
            let count = count.trim().parse().ok().filter(|count| *count > 0 && *field == 0);
            *field = count.ok_or_else(wrong)?;
        }
        Ok(keep)
    }
}

/// The name of a snapshot of `volume` at an instant, in seconds since 1970.
///
/// # Panics
/// If the instant is none of the years from -9999 to 9999.
pub fn name(volume: &str, instant: i64) -> String {
    format!("{volume}-{}", utc(instant).strftime(INSTANT))
}

/// The instant in the name of a snapshot of `volume`, if [`name`] would have given it.
fn instant(volume: &str, of: &str) -> Option<i64> {
    let text = of.strip_prefix(volume)?.strip_prefix('-')?;
    let civil = DateTime::strptime(INSTANT, text).ok()?;
    let instant = civil.to_zoned(TimeZone::UTC).ok()?.timestamp().as_second();
    Some(instant).filter(|instant| name(volume, *instant) == of)
}

fn utc(instant: i64) -> Zoned {
    Timestamp::from_second(instant).expect("an instant of our era").to_zoned(TimeZone::UTC)
}

/// The period of a rule in which an instant lies: equal ones are one period.
type PeriodOf = fn(&Zoned) -> (i64, i64);

impl Keep {
    /// Those of some instants that no rule keeps.
    fn outdated(&self, instants: &BTreeSet<i64>) -> Vec<i64> {
        let rules: [(usize, PeriodOf); 6] = [
            (self.last, |at| (at.timestamp().as_second(), 0)),
            (self.hourly, |at| (at.timestamp().as_second().div_euclid(3600), 0)),
            (self.daily, |at| (at.timestamp().as_second().div_euclid(24 * 3600), 0)),
            (self.weekly, |at| {
                let week = at.date().iso_week_date();
                (week.year().into(), week.week().into())
            }),
            (self.monthly, |at| (at.year().into(), at.month().into())),
            (self.yearly, |at| (at.year().into(), 0)),
        ];
        let mut kept = BTreeSet::new();
        for (most, period) in rules {
            let mut periods = BTreeSet::new();
            for at in instants.iter().rev() {
                if periods.len() < most && periods.insert(period(&utc(*at))) {
                    kept.insert(*at);
                }
            }
        }
        instants.difference(&kept).copied().collect()
    }
}

/// What one call did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rotated {
    /// The snapshot that it made.
    pub made: String,
    /// Those that it deleted.
    pub deleted: Vec<String>,
    /// Those that it would have deleted, and that are held.
    pub held: Vec<String>,
}

/// Makes a snapshot of `volume`, and deletes those that `keep` does not keep; `now` is in seconds since 1970.
///
/// # Errors
/// What the manager answers. If deletions fail, the new snapshot is there.
pub fn rotate<A: Ask>(manager: &mut A, volume: &str, keep: &Keep, now: i64) -> Result<Rotated, A::Error> {
    let mut order = |words: Vec<&str>| manager.ask(words.into_iter().map(str::to_string).collect());
    let made = name(volume, now);
    order(vec!["snapshot", volume, &made])?;
    let listed = order(vec!["list"])?;
    let ours = |told: &Value| {
        let is_ours = told["snapshot"] == true && told["of"] == volume;
        let at = told["name"].as_str().filter(|_| is_ours).and_then(|of| instant(volume, of))?;
        Some((at, told["held"] == true))
    };
    let ours: Vec<(i64, bool)> = listed.as_array().into_iter().flatten().filter_map(ours).collect();
    let outdated = keep.outdated(&ours.iter().map(|(at, _)| *at).collect());
    let is_held = |at: &i64| ours.contains(&(*at, true));
    let (held, deleted): (Vec<i64>, Vec<i64>) = outdated.into_iter().partition(is_held);
    let names = |instants: Vec<i64>| instants.into_iter().map(|at| name(volume, at)).collect::<Vec<_>>();
    let (held, deleted) = (names(held), names(deleted));
    for some in deleted.chunks(DELETED_AT_ONCE) {
        order(["delete"].into_iter().chain(some.iter().map(String::as_str)).collect())?;
    }
    Ok(Rotated { made, deleted, held })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(text: &str) -> i64 {
        text.parse::<Timestamp>().unwrap().as_second()
    }

    #[test]
    fn names_tell_the_instant_and_other_names_none() {
        let at = seconds("2026-03-01T12:00:05Z");
        assert_eq!(name("db", at), "db-20260301T120005Z");
        assert_eq!(instant("db", "db-20260301T120005Z"), Some(at));
        for other in [
            "db",
            "db-",
            "db-monday",
            "dbx-20260301T120005Z",
            "db-20260301T120005",
            "db-2026031T120005Z",
            "db-20261301T120005Z",
            "db-x-20260301T120005Z",
        ] {
            assert_eq!(instant("db", other), None, "{other}");
        }
    }

    #[test]
    fn rules_are_read_and_mistakes_are_not() {
        assert_eq!("hourly=24,daily=7".parse(), Ok(Keep { hourly: 24, daily: 7, ..Keep::default() }));
        let all = Keep { last: 1, hourly: 2, daily: 3, weekly: 4, monthly: 5, yearly: 6 };
        assert_eq!("last=1, hourly=2, daily=3, weekly=4, monthly=5, yearly=6".parse(), Ok(all));
        for wrong in ["", "daily", "daily=0", "daily=7,daily=8", "minutely=3", "daily=-1", "daily=7,"] {
            let error = wrong.parse::<Keep>().unwrap_err().to_string();
            assert!(error.contains("hourly=24,daily=7"), "{wrong}: {error}");
        }
    }

    #[test]
    fn each_rule_keeps_the_newest_of_its_last_periods() {
        let check = |keep: &str, expected: &[&str]| {
            let all = [
                "2025-12-31T23:30:00Z",
                "2026-01-01T00:10:00Z",
                "2026-01-01T00:40:00Z",
                "2026-01-01T05:00:00Z",
                "2026-02-03T00:00:00Z",
                "2026-02-03T23:59:59Z",
            ];
            let instants: BTreeSet<i64> = all.iter().map(|text| seconds(text)).collect();
            let gone = keep.parse::<Keep>().unwrap().outdated(&instants);
            let kept: Vec<&str> = all.into_iter().filter(|text| !gone.contains(&seconds(text))).collect();
            assert_eq!(kept, expected, "{keep}");
        };
        check("last=2", &["2026-02-03T00:00:00Z", "2026-02-03T23:59:59Z"]);
        check(
            "hourly=4",
            &["2026-01-01T00:40:00Z", "2026-01-01T05:00:00Z", "2026-02-03T00:00:00Z", "2026-02-03T23:59:59Z"],
        );
        check("daily=2", &["2026-01-01T05:00:00Z", "2026-02-03T23:59:59Z"]);
        // The last day of 2025 is in the first week of 2026.
        check("weekly=9", &["2026-01-01T05:00:00Z", "2026-02-03T23:59:59Z"]);
        check("monthly=2", &["2026-01-01T05:00:00Z", "2026-02-03T23:59:59Z"]);
        check("yearly=9", &["2025-12-31T23:30:00Z", "2026-02-03T23:59:59Z"]);
        check("last=1,yearly=2", &["2025-12-31T23:30:00Z", "2026-02-03T23:59:59Z"]);
    }
}
