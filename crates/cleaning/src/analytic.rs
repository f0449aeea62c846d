//! What theory says of write amplification: blocks written for each block that is new. All of it for large segments and
//! blocks that are overwritten independently of each other.
//!
//! `utilisation` is live blocks over blocks in segments that can hold data, so without those kept free, and lies
//! between 0 and 1.

/// Greedy or oldest-first cleaning under uniform overwrites: `a / (a + W(-a exp(-a)))` with `a` = 1 / utilisation and W
/// Lambert's function (P. Desnoyers, SYSTOR 2012; L. Xiang and B. Kurkoski, arXiv 1110.4245). The share `x` that is
/// live in a victim is the root below 1 of `x = exp(-a (1 - x))`.
pub fn uniform(utilisation: f64) -> f64 {
    let a = 1.0 / utilisation;
    let live = (0..10_000).fold(0.0, |x: f64, _| (-a * (1.0 - x)).exp());
    1.0 / (1.0 - live)
}

/// Steps of numeric integration.
const STEPS: u32 = 20_000;

/// The emptiest of `choices` segments drawn at random, under uniform overwrites (the mean field of B. Van Houdt,
/// SIGMETRICS 2013, for large segments).
///
/// A segment of age `t`, in overwrites of all data, is `exp(-t)` live. If segments are cleaned at the rate `r`, the
/// share `s` of segments older than `t` falls as `ds/dt = -r (1 - (1 - s)^d)`, since that is how often the oldest of
/// `d` is older. So the age of the share is `h(s) / r` with `h(s)` = integral of `dy / (1 - y^d)` from 0 to `1 - s`. At
/// this rate all segments together hold the live data, and as many blocks die as are new. Amplification is rate over
/// utilisation.
pub fn choices(utilisation: f64, choices: u32) -> f64 {
    let live = |rate: f64| {
        let width = 1.0 / f64::from(STEPS);
        let (mut age, mut live) = (0.0, 0.0);
        for step in 0..STEPS {
            let y = (f64::from(step) + 0.5) * width;
            let slope = width / (1.0 - y.powi(choices as i32));
            live += width * (-(age + slope / 2.0) / rate).exp();
            age += slope;
        }
        live
    };
    let (mut low, mut high) = (0.0, 1_000.0);
    for _ in 0..60 {
        let rate = (low + high) / 2.0;
        if live(rate) < utilisation {
            low = rate;
        } else {
            high = rate;
        }
    }
    (low + high) / 2.0 / utilisation
}

/// Two classes of blocks, `hot` of the data with `writes` of the overwrites, each in a log of its own with the best
/// share of the spare space. This is the floor for a cleaner that knows the class of a block but not when it dies.
pub fn separated(utilisation: f64, hot: f64, writes: f64) -> f64 {
    let spare = 1.0 - utilisation;
    let of = |data: f64, room: f64| uniform(data * utilisation / (data * utilisation + room * spare));
    let total = |room: f64| writes * of(hot, room) + (1.0 - writes) * of(1.0 - hot, 1.0 - room);
    // The sum of two convex curves: a search by thirds finds its lowest point.
    let (mut low, mut high) = (1e-3, 1.0 - 1e-3);
    for _ in 0..40 {
        let third = (high - low) / 3.0;
        if total(low + third) < total(high - third) {
            high -= third;
        } else {
            low += third;
        }
    }
    total((low + high) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of 600 segments, six are kept free.
    const USABLE: f64 = 594.0 / 600.0;

    fn check(value: f64, expected: f64) {
        assert!((value - expected).abs() < 0.0051, "{value} instead of {expected}");
    }

    #[test]
    fn uniform_gives_the_printed_values() {
        check(uniform(1.0 / 1.3), 2.36);
        for (live, expected) in
            [(0.5, 1.26), (0.6, 1.50), (0.7, 1.92), (0.75, 2.26), (0.8, 2.80), (0.85, 3.72), (0.9, 5.68)]
        {
            check(uniform(live / USABLE), expected);
        }
    }

    #[test]
    fn separation_gives_the_printed_floor() {
        for (live, expected) in
            [(0.5, 1.06), (0.6, 1.11), (0.7, 1.23), (0.75, 1.34), (0.8, 1.52), (0.85, 1.83), (0.9, 2.51)]
        {
            check(separated(live / USABLE, 0.1, 0.9), expected);
        }
        check(separated(0.8, 0.5, 0.5), uniform(0.8));
    }

    #[test]
    fn one_choice_is_random_and_many_are_greedy() {
        check(choices(0.75, 1), 4.0);
        assert!((choices(0.8, 1_000) / uniform(0.8) - 1.0).abs() < 0.01);
        let falling: Vec<f64> = [1, 2, 5, 10, 20].map(|d| choices(0.85, d)).to_vec();
        assert!(falling.windows(2).all(|pair| pair[0] > pair[1]), "{falling:?}");
    }
}
