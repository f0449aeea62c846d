//! Which process deserves the next huge page: `M = S / (H * (f + tau * (1 - f)))`, largest first.
//!
//! `S` are a process' shares, `H` its huge pages, `f` the share of them that is idle, and `tau` in (0, 1] says how much
//! more an idle one counts than a used one. With 1 both count the same, near 0 only idle ones count. It is the adjusted
//! ratio of shares to pages of Waldspurger (*Memory resource management in VMware ESX Server*, OSDI 2002) with
//! `tau = 1 - tax`. Counted in whole huge pages and thousandths of `tau`, everything that is compared is an integer.

use std::cmp::Ordering;

use crate::REGION_BYTES;

/// How much a huge page in use counts beside an idle one, in thousandths, from 1 to 1000.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tau(u32);

impl Tau {
    /// The default tax of ESX, 75 %; the source names none.
    pub const ESX: Tau = Tau(250);

    /// None unless it is from 1 to 1000.
    pub const fn permille(permille: u32) -> Option<Tau> {
        match permille {
            1..=1000 => Some(Tau(permille)),
            _ => None,
        }
    }
}

/// What a process has, and what it is entitled to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// `S`.
    pub shares: u64,
    /// `H` in huge pages.
    pub huge: u64,
    /// Those of them that are not hot.
    pub idle: u64,
}

impl Claim {
    /// `H * (f + tau * (1 - f))` in thousandths of a huge page. A process without one counts as having one in use, so
    /// that nothing is divided by zero.
    fn weight(&self, tau: Tau) -> u128 {
        let idle = u128::from(self.idle.min(self.huge));
        let used = u128::from(self.huge.max(1)) - idle;
        1000 * idle + u128::from(tau.0) * used
    }

    /// `M`, per byte.
    pub fn metric(&self, tau: Tau) -> f64 {
        self.shares as f64 * 1000.0 / (self.weight(tau) as f64 * REGION_BYTES as f64)
    }

    /// Which one has the larger `M`, exactly.
    pub fn compare(&self, other: &Claim, tau: Tau) -> Ordering {
        let (here, there) = (other.weight(tau) * u128::from(self.shares), self.weight(tau) * u128::from(other.shares));
        here.cmp(&there)
    }
}

/// How far claims are from a fair state: `O / (n * mean^2)`, the squared coefficient of variation of `M`. 0 is fair.
/// The source's own `O`, the sum of squared deviations, has no scale by which "close to 0" could be told.
pub fn imbalance(claims: &[Claim], tau: Tau) -> f64 {
    let metrics: Vec<f64> = claims.iter().map(|claim| claim.metric(tau)).collect();
    let mean = metrics.iter().sum::<f64>() / metrics.len().max(1) as f64;
    match mean > 0.0 {
        true => metrics.iter().map(|m| (m / mean - 1.0).powi(2)).sum::<f64>() / metrics.len() as f64,
        false => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HUGE: f64 = REGION_BYTES as f64;

    fn metric(shares: u64, huge: u64, idle: u64, tau: u32) -> f64 {
        Claim { shares, huge, idle }.metric(Tau::permille(tau).unwrap())
    }

    #[test]
    fn the_formula_at_its_corners() {
        assert_eq!(metric(10_000, 10, 3, 1000), 10_000.0 / (10.0 * HUGE), "tau = 1 passes idleness over");
        assert_eq!(metric(10_000, 10, 0, 250), 10_000.0 / (10.0 * HUGE * 0.25), "f = 0");
        assert_eq!(metric(10_000, 10, 10, 250), 10_000.0 / (10.0 * HUGE), "f = 1");
        assert_eq!(metric(10_000, 0, 0, 250), metric(10_000, 1, 0, 250), "H = 0 is as 1");
        assert!(Tau::permille(0).is_none() && Tau::permille(1001).is_none());
    }

    #[test]
    fn equal_claims_are_fair_and_a_lone_one_is() {
        let claim = Claim { shares: 10_000, huge: 7, idle: 2 };
        assert_eq!((imbalance(&[], Tau::ESX), imbalance(&[claim], Tau::ESX)), (0.0, 0.0));
        let other = Claim { huge: 14, idle: 4, ..claim };
        assert_eq!(imbalance(&[claim, claim], Tau::ESX), 0.0);
        // Metrics 2 and 1: mean 1.5, deviations a third of it each.
        assert!((imbalance(&[claim, other], Tau::ESX) - 1.0 / 9.0).abs() < 1e-12);
    }

    fn claims() -> impl Strategy<Value = Claim> {
        let parts = (1..100_000u64, 0..1_000_000u64, 0..1_000_000u64);
        parts.prop_map(|(shares, huge, idle)| Claim { shares, huge, idle: idle.min(huge) })
    }

    proptest! {
        #[test]
        fn comparing_is_comparing_the_metric(a in claims(), b in claims(), tau in 1..=1000u32) {
            let tau = Tau::permille(tau).unwrap();
            let (x, y) = (a.metric(tau), b.metric(tau));
            if (x - y).abs() > 1e-9 * x.max(y) {
                prop_assert_eq!(a.compare(&b, tau), x.partial_cmp(&y).unwrap());
            }
        }

        #[test]
        fn more_huge_pages_or_more_idle_ones_never_raise_the_claim(a in claims(), more in 1..1000u64, tau in 1..=1000u32) {
            let tau = Tau::permille(tau).unwrap();
            let richer = Claim { huge: a.huge + more, ..a };
            let idler = Claim { idle: (a.idle + more).min(a.huge), ..a };
            prop_assert_ne!(richer.compare(&a, tau), Ordering::Greater);
            prop_assert_ne!(idler.compare(&a, tau), Ordering::Greater);
        }
    }
}
