//! Where a replay begins or ends: a date, or a number of days from the begin of the trace.

use std::str::FromStr;

use esker_base::Nanos;

const DAY_SECONDS: u64 = 86_400;
const YEARS: std::ops::RangeInclusive<u64> = 1970..=2200;
const DAYS_MAX: u64 = 36_525;

/// An instant of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moment {
    /// Midnight (UTC) of a date, since 1970.
    Date(Nanos),
    /// So many days after the first packet.
    Days(u64),
}

/// A text that is neither a date nor a number of days.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected a date such as 2001-09-09, or a number of days up to {DAYS_MAX}")]
pub struct NoMoment;

impl Moment {
    /// The instant, in a trace that begins at `first`.
    pub fn after(self, first: Nanos) -> Nanos {
        match self {
            Moment::Date(date) => date,
            Moment::Days(days) => Nanos(first.0.saturating_add(Nanos::secs(days * DAY_SECONDS).0)),
        }
    }
}

impl FromStr for Moment {
    type Err = NoMoment;

    fn from_str(text: &str) -> Result<Moment, NoMoment> {
        let parts: Vec<&str> = text.split('-').collect();
        let number = |text: &str| text.parse::<u64>().map_err(|_| NoMoment);
        match parts[..] {
            [days] => Some(number(days)?).filter(|days| *days <= DAYS_MAX).map(Moment::Days).ok_or(NoMoment),
            [year, month, day] => date(number(year)?, number(month)?, number(day)?).ok_or(NoMoment),
            _ => Err(NoMoment),
        }
    }
}

fn date(year: u64, month: u64, day: u64) -> Option<Moment> {
    let is_leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let lengths = [31, if is_leap(year) { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let length = *lengths.get(usize::try_from(month.checked_sub(1)?).ok()?)?;
    if !YEARS.contains(&year) || !(1..=length).contains(&day) {
        return None;
    }
    let years: u64 = (*YEARS.start()..year).map(|year| if is_leap(year) { 366 } else { 365 }).sum();
    let months: u64 = lengths[..month as usize - 1].iter().sum();
    Some(Moment::Date(Nanos::secs((years + months + day - 1) * DAY_SECONDS)))
}
