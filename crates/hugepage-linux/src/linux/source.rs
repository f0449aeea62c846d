//! Where access bits come from: the choice between [`Damon`] and [`Young`].

use std::time::Duration;

use super::damon::{self, Damon};
use super::knobs::{KnobError, Knobs};
use super::system::Settings;
use super::young::Young;

/// Where access bits come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// Page tables if they can be read, because reading them drops translations and tells of base pages too; else
    /// DAMON, if no other program uses it.
    #[default]
    Any,
    /// DAMON, the kernel's monitor.
    Damon,
    /// Page tables.
    PageTables,
}

impl Source {
    /// What is tried, one after the other.
    fn order(self) -> &'static [Source] {
        match self {
            Source::Any => &[Source::PageTables, Source::Damon],
            Source::Damon => &[Source::Damon],
            Source::PageTables => &[Source::PageTables],
        }
    }
}

/// Takes what tells them. What is not as it was asked for goes to `troubles`.
///
/// # Errors
/// [`KnobError`].
pub fn open(
    settings: &Settings,
    knobs: &mut Knobs,
    troubles: &mut Vec<String>,
) -> Result<(Option<Damon>, Option<Young>), KnobError> {
    let Some(interval) = settings.access_interval else { return Ok((None, None)) };
    let mut reasons = Vec::new();
    for source in settings.access.order() {
        if *source == Source::Damon {
            match damon::is_free() {
                Ok(()) => return Ok((Some(Damon::take(knobs, Duration::from_nanos(interval.0))?), None)),
                Err(why) => reasons.push(format!("DAMON: {why}")),
            }
        } else {
            match Young::start() {
                Ok(young) => return Ok((None, Some(young))),
                Err(error) => reasons.push(format!("page tables: {error}")),
            }
        }
    }
    troubles.push(format!("no access bits, all huge pages count as in use: {}", reasons.join("; ")));
    Ok((None, None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_tables_come_first_and_damon_is_the_fallback() {
        assert_eq!(Source::Any.order(), [Source::PageTables, Source::Damon]);
        assert_eq!(Source::default(), Source::Any);
        for one in [Source::Damon, Source::PageTables] {
            assert_eq!(one.order(), [one], "what is named is not replaced");
        }
    }
}
