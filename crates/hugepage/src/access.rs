//! How often a page is used: a vector of access bits, and the moving average of their number in fixed point.
//!
//! With each scan the vector takes one bit, and `F = alpha * ones + (1 - alpha) * F`. A region is hot with an `F` of at
//! least three quarters of the vector's length. `F` is rounded *up* to 1/65,536. Then a page that is used in exactly
//! three scans of four reaches the boundary after some scans, and stays there instead of approaching it for ever. The
//! error stays below 2.5/65,536 (each step adds less than one unit and keeps 0.6 of the older ones).

/// One in the fixed point of `F`.
pub const ONE: u64 = 1 << 16;

/// Parameters of the average.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tracking {
    /// Length of the vector, from 1 to 64.
    pub bits: u32,
    /// Weight of the newest vector in thousandths, from 1 to 1000.
    pub alpha_permille: u32,
}

impl Tracking {
    /// The source's: eight bits, 0.4.
    pub const INGENS: Tracking = Tracking { bits: 8, alpha_permille: 400 };

    /// What is wrong with it.
    pub fn fault(&self) -> Option<&'static str> {
        match self {
            Tracking { bits: 0 | 65.., .. } => Some("access.bits must be from 1 to 64"),
            Tracking { alpha_permille: 0 | 1001.., .. } => Some("access.alpha must be from 0.001 to 1"),
            _ => None,
        }
    }
}

/// The history of one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    vector: u64,
    average: u64,
    is_newborn: bool,
}

impl Access {
    /// Never used.
    pub const IDLE: Access = Access { vector: 0, average: 0, is_newborn: false };

    /// A page that has just become huge. It counts as always used until scans say otherwise: pages are promoted because
    /// they are in use, and from user space the histories of its base pages are not known. Its mapping is born
    /// accessed, so that the first scan says nothing.
    pub fn promoted(tracking: &Tracking) -> Access {
        Access { is_newborn: true, ..Access::always(tracking) }
    }

    /// Used in every scan for ever.
    pub fn always(tracking: &Tracking) -> Access {
        Access { vector: mask(tracking), average: u64::from(tracking.bits) * ONE, is_newborn: false }
    }

    /// Takes the bit of one scan. False if it was passed over, being the first of a new mapping.
    pub fn observe(&mut self, tracking: &Tracking, accessed: bool) -> bool {
        if std::mem::take(&mut self.is_newborn) {
            return false;
        }
        self.vector = (self.vector << 1 | u64::from(accessed)) & mask(tracking);
        let alpha = u64::from(tracking.alpha_permille);
        let ones = u64::from(self.vector.count_ones()) * ONE;
        self.average = (alpha * ones + (1000 - alpha) * self.average).div_ceil(1000);
        true
    }

    /// Whether it is used often.
    pub fn is_hot(&self, tracking: &Tracking) -> bool {
        4 * self.average >= 3 * u64::from(tracking.bits) * ONE
    }

    /// Whether it was used in the last scan.
    pub fn was_used(&self) -> bool {
        self.vector & 1 != 0
    }

    /// `F`, from 0 to the vector's length.
    pub fn frequency(&self) -> f64 {
        self.average as f64 / ONE as f64
    }
}

fn mask(tracking: &Tracking) -> u64 {
    u64::MAX >> (64 - tracking.bits)
}

#[cfg(test)]
mod tests {
    use esker_base::Stream;

    use super::*;

    const INGENS: Tracking = Tracking::INGENS;

    fn after(mut access: Access, bits: impl IntoIterator<Item = bool>) -> Vec<(f64, bool)> {
        let mut seen = |bit| {
            assert!(access.observe(&INGENS, bit));
            (access.frequency(), access.is_hot(&INGENS))
        };
        bits.into_iter().map(&mut seen).collect()
    }

    fn check_course(seen: &[(f64, bool)], expected: &[f64]) {
        assert_eq!(seen.len(), expected.len());
        assert!(seen.iter().zip(expected).all(|((f, _), e)| (f - e).abs() < 0.01), "{seen:?}");
    }

    #[test]
    fn a_page_becomes_hot_at_the_eighth_scan_and_cold_at_the_fourth() {
        let up = after(Access::IDLE, [true; 8]);
        check_course(&up, &[0.40, 1.04, 1.82, 2.69, 3.62, 4.57, 5.54, 6.53]);
        assert_eq!(up.iter().position(|(_, hot)| *hot), Some(7));
        let down = after(Access::always(&INGENS), [false; 4]);
        check_course(&down, &[7.60, 6.96, 6.18, 5.31]);
        assert_eq!(down.iter().position(|(_, hot)| !*hot), Some(3));
    }

    #[test]
    fn three_of_four_is_hot_without_flapping_and_every_second_never_is() {
        for start in [Access::IDLE, Access::always(&INGENS)] {
            let settled = after(start, (0..400).map(|scan| scan % 4 != 3));
            assert!(settled[100..].iter().all(|(f, hot)| *hot && (f - 6.0).abs() < 0.001), "{:?}", settled.last());
        }
        let half = after(Access::IDLE, (0..400).map(|scan| scan % 2 == 0));
        assert!(half.iter().all(|(_, hot)| !hot) && (half[399].0 - 4.0).abs() < 0.001);
    }

    #[test]
    fn the_first_scan_of_a_new_mapping_says_nothing() {
        let mut access = Access::promoted(&INGENS);
        assert!(!access.observe(&INGENS, false) && access.frequency() == 8.0);
        assert!(access.observe(&INGENS, false) && access.frequency() < 8.0);
    }

    #[test]
    fn fixed_point_stays_within_a_512th_of_exact_arithmetic_over_a_million_histories() {
        // Exact: F is kept as a numerator over 5^n for the last 24 steps; what is older weighs less than 0.6^24 * 8 <
        // 4e-5.
        let mut rng = Stream::named(1, "histories");
        let mut access = Access::IDLE;
        let (mut ones, mut counts) = (0u64, [0u64; 24]);
        for step in 0..1_000_000usize {
            let bit = rng.chance(0.3 + 0.5 * ((step / 1000) % 2) as f64);
            access.observe(&INGENS, bit);
            ones = (ones << 1 | u64::from(bit)) & 0xFF;
            counts[step % 24] = u64::from(ones.count_ones());
            let newest_first = (0..24u32).map(|back| (back, counts[(step + 24 - back as usize) % 24]));
            let numerator: u128 = newest_first.map(|(n, c)| 2 * u128::from(c) * 3u128.pow(n) * 5u128.pow(23 - n)).sum();
            let exact = numerator as f64 / 5f64.powi(24);
            let error = (access.frequency() - exact).abs();
            assert!(error < 1.0 / 512.0, "step {step}: off by {error}");
        }
    }

    #[test]
    fn parameters_out_of_range_are_named() {
        let fault = |bits, alpha_permille| Tracking { bits, alpha_permille }.fault();
        assert_eq!((fault(1, 1), fault(64, 1000)), (None, None));
        assert!(fault(0, 400).is_some_and(|text| text.contains("access.bits")));
        assert!(fault(65, 400).is_some() && fault(8, 1001).is_some_and(|text| text.contains("access.alpha")));
    }
}
