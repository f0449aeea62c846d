//! The fit of Zipf's law to how often things are used: the thing of rank `r` is used in proportion to `r^-s`.

use serde::Serialize;

/// A thing used less often than this is left out of the fit: in the tail, ranks are mere luck.
pub const LEAST_COUNT: u32 = 8;

/// With fewer ranks than this there is no fit.
const LEAST_RANKS: usize = 20;

/// Ranks up to here are summed one by one, later ones in bins.
const EXACT_RANKS: usize = 1_000;

/// Width of a bin relative to its first rank.
const BIN: f64 = 0.01;

/// The law that fits best, by maximum likelihood over the ranks whose things are used at least [`LEAST_COUNT`] times.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ZipfFit {
    /// The exponent `s`.
    pub exponent: f64,
    /// The fit holds for the ranks from 1 to this one.
    pub ranks: u64,
    /// Part of all uses that fall on these ranks.
    pub share: f64,
    /// Largest difference between measured and fitted cumulative share over these ranks (Kolmogorov and Smirnov): 0 is
    /// perfect; above 0.1 the uses do not follow Zipf's law.
    pub distance: f64,
}

/// Some neighbouring ranks: the logarithm of the middle one, how many they are, and how often their things are used.
struct Bin {
    log_rank: f64,
    ranks: f64,
    uses: f64,
}

/// Fits `counts`, which must be in descending order; `None` if too few things are used often enough.
pub(crate) fn fit(counts: &[u32]) -> Option<ZipfFit> {
    let ranks = counts.partition_point(|count| *count >= LEAST_COUNT);
    if ranks < LEAST_RANKS {
        return None;
    }
    let bins = bins(&counts[..ranks]);
    let uses: f64 = bins.iter().map(|bin| bin.uses).sum();
    let measured = bins.iter().map(|bin| bin.uses * bin.log_rank).sum::<f64>() / uses;
    let exponent = solve(|s| mean_log_rank(&bins, s) - measured);
    let all: f64 = counts.iter().map(|count| f64::from(*count)).sum();
    Some(ZipfFit { exponent, ranks: ranks as u64, share: uses / all, distance: distance(&bins, exponent, uses) })
}

fn bins(counts: &[u32]) -> Vec<Bin> {
    let (mut bins, mut at) = (Vec::new(), 0);
    while at < counts.len() {
        let width = if at < EXACT_RANKS { 1 } else { (at as f64 * BIN) as usize };
        let end = (at + width).min(counts.len());
        let uses = counts[at..end].iter().map(|count| f64::from(*count)).sum();
        let middle = (at + 1 + end) as f64 / 2.0;
        bins.push(Bin { log_rank: middle.ln(), ranks: (end - at) as f64, uses });
        at = end;
    }
    bins
}

/// The expected logarithm of the rank under exponent `s`. It falls as `s` grows; where it is the measured one, the
/// derivative of the likelihood is 0.
fn mean_log_rank(bins: &[Bin], s: f64) -> f64 {
    let (mut weighted, mut total) = (0.0, 0.0);
    for bin in bins {
        let mass = bin.ranks * (-s * bin.log_rank).exp();
        weighted += mass * bin.log_rank;
        total += mass;
    }
    weighted / total
}

/// Where the falling function `f` is 0, between 0 and 8.
fn solve(f: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (0.0, 8.0);
    for _ in 0..50 {
        let middle = (low + high) / 2.0;
        if f(middle) > 0.0 { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

fn distance(bins: &[Bin], s: f64, uses: f64) -> f64 {
    let mass = |bin: &Bin| bin.ranks * (-s * bin.log_rank).exp();
    let total: f64 = bins.iter().map(mass).sum();
    let (mut measured, mut fitted, mut worst) = (0.0, 0.0, 0.0f64);
    for bin in bins {
        measured += bin.uses / uses;
        fitted += mass(bin) / total;
        worst = worst.max((measured - fitted).abs());
    }
    worst
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Zipf's law itself expects of `total` uses.
    fn lawful(s: f64, things: usize, total: f64) -> Vec<u32> {
        let norm: f64 = (1..=things).map(|r| (r as f64).powf(-s)).sum();
        (1..=things).map(|r| (total * (r as f64).powf(-s) / norm).round() as u32).collect()
    }

    #[test]
    fn the_exponent_of_a_lawful_set_is_found() {
        for s in [0.6, 0.9, 1.0, 1.3] {
            let fit = fit(&lawful(s, 50_000, 2e7)).unwrap();
            assert!((fit.exponent - s).abs() < 0.01, "{s}: {fit:?}");
            assert!(fit.distance < 0.01, "{s}: {fit:?}");
        }
    }

    #[test]
    fn equal_use_is_no_skew_and_two_classes_are_not_lawful() {
        let even = fit(&[100; 1_000]).unwrap();
        assert!(even.exponent < 0.01 && even.distance < 0.01, "{even:?}");
        let mut classes = vec![10_000; 100];
        classes.resize(10_000, 10);
        assert!(fit(&classes).unwrap().distance > 0.1);
    }

    #[test]
    fn a_tail_of_luck_is_left_out_and_too_little_is_not_fitted() {
        let mut counts = lawful(1.0, 1_000, 1e6);
        counts.resize(100_000, 1);
        let fit_with_tail = fit(&counts).unwrap();
        assert_eq!(fit_with_tail.ranks, 1_000);
        assert!(fit_with_tail.share < 0.95);
        assert_eq!(fit(&[9; 19]), None);
        assert_eq!(fit(&[]), None);
    }
}
