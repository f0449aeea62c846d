//! How fast the cleaner works: a graded share of the device, so that writers meet a slope and not a cliff.
//!
//! ANViL leaves its cleaner off up to half of the space, lets it work faster as space runs out, and stops all writers
//! just before the end. Here the share goes on to rise to all of the device, so that writers slow down by and by and
//! stop only where nothing is left. Two curves, one falling and one rising with used space, cross once: each demand has
//! one equilibrium, and it attracts.

/// How device time is shared, as a function of used space. Shares are of segments and of the device's bandwidth, 0 to
/// 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pacing {
    start: f64,
    full: f64,
    stop: f64,
    share: f64,
}

/// Shares of the device's bandwidth; together they are 1. What one does not use the other may have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// For reads and writes of the cleaner.
    pub cleaner: f64,
    /// For writers.
    pub writers: f64,
}

/// Why a pacing makes no sense.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error(
    "cleaning starts at {start} of used space, is at the share {share} at {full} and stops writers at {stop}: these must \
     rise, from 0 or more to 1 or less, and the share must lie between 0 and 1"
)]
pub struct PacingError {
    start: f64,
    full: f64,
    stop: f64,
    share: f64,
}

impl Pacing {
    /// The cleaner rests up to `start` of all segments used, has `share` of the device at `full`, and all of it at
    /// `stop`.
    ///
    /// # Errors
    /// [`PacingError`] if these do not rise or are no shares.
    pub fn new(start: f64, full: f64, stop: f64, share: f64) -> Result<Pacing, PacingError> {
        let rises = 0.0 <= start && start < full && full < stop && stop <= 1.0;
        if rises && 0.0 < share && share < 1.0 {
            Ok(Pacing { start, full, stop, share })
        } else {
            Err(PacingError { start, full, stop, share })
        }
    }

    /// The shares at a share of segments used.
    pub fn at(&self, used: f64) -> Pace {
        let between = |from: f64, to: f64| ((used - from) / (to - from)).clamp(0.0, 1.0);
        let gentle = self.share * between(self.start, self.full);
        let urgent = (1.0 - self.share) * between(self.full, self.stop);
        let cleaner = gentle + urgent;
        Pace { cleaner, writers: 1.0 - cleaner }
    }

    /// The used space at which writers that ask for `demand` of the device and the cleaner are in balance, if cleaned
    /// segments are `live` full, 0 to 1. Writers that ask for more get as much as can be cleaned for.
    pub fn settles(&self, demand: f64, live: f64) -> f64 {
        let (mut low, mut high) = (self.start, self.stop);
        for _ in 0..60 {
            let used = (low + high) / 2.0;
            if self.growth(used, demand, live) > 0.0 {
                low = used;
            } else {
                high = used;
            }
        }
        (low + high) / 2.0
    }

    /// Growth of used space at that point, in what the device could write in the same time.
    fn growth(&self, used: f64, demand: f64, live: f64) -> f64 {
        let pace = self.at(used);
        demand.min(pace.writers) - pace.cleaner / price(live)
    }
}

/// What the cleaner reads and writes to gain one byte from segments that are `live` full: live bytes are read and
/// written, the rest is gained. Infinite where nothing is dead.
pub fn price(live: f64) -> f64 {
    2.0 * live / (1.0 - live)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pacing() -> Pacing {
        Pacing::new(0.5, 0.95, 0.99, 0.9).expect("rises")
    }

    #[test]
    fn rest_work_and_stop_are_where_they_are_asked_for() {
        let cleaner = |used| pacing().at(used).cleaner;
        assert_eq!((cleaner(0.0), cleaner(0.5), cleaner(0.99), cleaner(1.0)), (0.0, 0.0, 1.0, 1.0));
        assert!((cleaner(0.725) - 0.45).abs() < 1e-9 && (cleaner(0.95) - 0.9).abs() < 1e-9);
        assert!(pacing().at(0.989).writers > 0.0, "writers go on while anything is left");
    }

    #[test]
    fn nonsense_is_refused_with_its_numbers() {
        for (start, full, stop, share) in [
            (0.9, 0.5, 0.95, 0.5),
            (0.5, 0.9, 1.1, 0.5),
            (-0.1, 0.5, 0.9, 0.5),
            (0.5, 0.9, 0.95, 1.0),
            (f64::NAN, 0.9, 0.95, 0.5),
        ] {
            let text = Pacing::new(start, full, stop, share).expect_err("nonsense").to_string();
            assert!(text.contains(&full.to_string()), "{text}");
        }
    }

    #[test]
    fn the_price_follows_the_balance_of_copies() {
        // Equilibrium of the cleaner: write amplification 1 / (1 - live), and each copy is read too.
        assert_eq!((price(0.0), price(0.5), price(0.75)), (0.0, 2.0, 6.0));
    }

    proptest! {
        #[test]
        fn there_is_no_cliff(used in 0.0f64..1.0, step in 0.0f64..0.01) {
            let (here, there) = (pacing().at(used), pacing().at(used + step));
            prop_assert!(there.cleaner >= here.cleaner);
            prop_assert!(there.cleaner - here.cleaner <= step * 2.5 + 1e-9, "the steepest part rises 0.1 over 0.04");
            prop_assert!((here.cleaner + here.writers - 1.0).abs() < 1e-12);
        }

        /// Whatever the start, used space goes to the equilibrium and stays, and writers are never stopped there.
        #[test]
        fn used_space_settles(demand in 0.01f64..1.0, live in 0.05f64..0.95, from in 0.0f64..1.0) {
            let pacing = pacing();
            let goal = pacing.settles(demand, live);
            let mut used = from;
            let (mut was_below, mut was_above) = (false, false);
            for _ in 0..20_000 {
                used = (used + 0.01 * pacing.growth(used, demand, live)).clamp(0.0, 1.0);
                was_below |= used < goal - 0.002;
                was_above |= used > goal + 0.002;
            }
            prop_assert!((used - goal).abs() < 0.002, "{} instead of {}", used, goal);
            prop_assert!(!(was_below && was_above), "it swings");
            prop_assert!(pacing.at(goal).writers > 0.0);
        }
    }
}
