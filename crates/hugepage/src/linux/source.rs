//! Where access bits come from: the choice between [`Damon`] and [`Young`].

use std::time::Duration;

use super::damon::{self, Damon};
use super::knobs::{KnobError, Knobs};
use super::system::Settings;
use super::young::Young;

/// Where access bits come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// DAMON if nobody uses it, else page tables; where pages are shared, page tables if they can be read, because DAMON
    /// tells nothing of base pages.
    #[default]
    Any,
    /// DAMON, the kernel's monitor.
    Damon,
    /// Page tables.
    PageTables,
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
    let is_shared = settings.merging.is_some();
    let mut order = match settings.access {
        Source::Damon => vec![Source::Damon],
        Source::PageTables => vec![Source::PageTables],
        Source::Any => vec![Source::Damon, Source::PageTables],
    };
    if is_shared {
        order.reverse();
    }
    let mut reasons = Vec::new();
    for source in order {
        if source == Source::Damon {
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
