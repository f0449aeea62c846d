//! Ranks by Zipf's law, without a table.

use esker_base::Stream;

/// Draws ranks `0..n` with a probability in proportion to `(rank + 1)^-s`, by rejection-inversion (W. Hörmann,
/// G. Derflinger, "Rejection-inversion to generate variates from monotone discrete distributions", ACM TOMACS 6(3),
/// 1996).
#[derive(Clone, Debug)]
pub(super) struct Zipf {
    n: f64,
    s: f64,
    /// The integral of the density at the left end of the first rank and at the right end of the last.
    low: f64,
    high: f64,
    /// Below this distance from the rank, every point is taken.
    sure: f64,
}

/// `ln(1 + x) / x`, also near 0.
fn log_part(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.ln_1p() / x } else { 1.0 - x / 2.0 }
}

/// `(e^x - 1) / x`, also near 0.
fn exp_part(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.exp_m1() / x } else { 1.0 + x / 2.0 }
}

impl Zipf {
    /// The law with exponent `s` (0 is uniform) over `n` ranks (at least 1).
    pub(super) fn new(n: u64, s: f64) -> Zipf {
        let mut zipf = Zipf { n: n as f64, s, low: 0.0, high: 0.0, sure: 0.0 };
        zipf.low = zipf.integral(1.5) - 1.0;
        zipf.high = zipf.integral(n as f64 + 0.5);
        zipf.sure = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.density(2.0));
        zipf
    }

    /// The next rank.
    pub(super) fn draw(&self, random: &mut Stream) -> u64 {
        loop {
            let u = self.high + random.unit() * (self.low - self.high);
            let x = self.inverse(u);
            let rank = x.round().clamp(1.0, self.n);
            if rank - x <= self.sure || u >= self.integral(rank + 0.5) - self.density(rank) {
                return rank as u64 - 1;
            }
        }
    }

    fn density(&self, x: f64) -> f64 {
        (-self.s * x.ln()).exp()
    }

    /// The integral of the density from 1 to `x`.
    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        exp_part((1.0 - self.s) * log) * log
    }

    fn inverse(&self, y: f64) -> f64 {
        // Rounding may lead a hair below the domain of the logarithm.
        let t = (y * (1.0 - self.s)).max(-1.0);
        (log_part(t) * y).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequencies_follow_the_law() {
        for s in [0.0, 0.5, 1.0, 1.2, 2.5] {
            let (n, draws) = (50usize, 400_000);
            let (zipf, mut random) = (Zipf::new(n as u64, s), Stream::seeded(11));
            let mut counts = vec![0.0f64; n];
            (0..draws).for_each(|_| counts[zipf.draw(&mut random) as usize] += 1.0);
            let norm: f64 = (1..=n).map(|r| (r as f64).powf(-s)).sum();
            let expected = |r: usize| f64::from(draws) * ((r + 1) as f64).powf(-s) / norm;
            let chi: f64 = (0..n).map(|r| (counts[r] - expected(r)).powi(2) / expected(r)).sum();
            // 49 degrees of freedom: 99.9 % of all seeds stay below 85.4.
            assert!(chi < 85.4, "exponent {s}: chi-squared {chi}");
        }
    }

    #[test]
    fn a_single_rank_and_a_huge_range_are_possible() {
        let mut random = Stream::seeded(1);
        assert_eq!(Zipf::new(1, 1.0).draw(&mut random), 0);
        let zipf = Zipf::new(1 << 40, 0.9);
        assert!((0..1_000).all(|_| zipf.draw(&mut random) < 1 << 40));
    }
}
