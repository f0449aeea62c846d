//! Medians of repeated measurements, and ratios of what is measured in turns.

use std::time::Instant;

use esker_calibrate::undisturbed;

use crate::experiment::{Figure, Lab, LabError};
use crate::machine::lost_ticks;

/// How often a rate is measured until no other process took the CPU meanwhile.
const TRIES: u32 = 2;

/// Seconds that `work` takes, and what it returns.
pub fn timed<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let start = Instant::now();
    let done = work();
    (start.elapsed().as_secs_f64(), done)
}

/// Seconds that `work` takes.
///
/// # Errors
/// Its own.
pub fn seconds<T, E>(work: impl FnOnce() -> Result<T, E>) -> Result<f64, E> {
    let (seconds, done) = timed(work);
    done.map(|_| seconds)
}

/// The middle value; the mean of the two middle ones for an even count.
///
/// # Panics
/// If there is no value.
pub fn median(mut values: Vec<f64>) -> f64 {
    assert!(!values.is_empty(), "a median needs values");
    values.sort_by(f64::total_cmp);
    let (low, high) = ((values.len() - 1) / 2, values.len() / 2);
    (values[low] + values[high]) / 2.0
}

/// The value at or below which this share of all lies (the nearest rank).
///
/// # Panics
/// If there is no value.
pub fn at_share(mut values: Vec<f64>, share: f64) -> f64 {
    assert!(!values.is_empty(), "a percentile needs values");
    values.sort_by(f64::total_cmp);
    let rank = (share * values.len() as f64).ceil() as usize;
    values[rank.clamp(1, values.len()) - 1]
}

/// The mean value; 0 if there is none.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The largest of values that are not negative; 0 if there is none.
pub fn worst(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

/// Mean and worst of relative errors, as figures whose names begin with `prefix`.
pub fn mean_and_worst(prefix: &str, errors: &[f64]) -> [Figure; 2] {
    let figure = |name, value| Figure::alone(format!("{prefix}{name}"), value, "relative error");
    [figure("mean_error", mean(errors)), figure("worst_error", worst(errors))]
}

/// The median of `runs` measurements.
///
/// # Errors
/// The first measurement's.
pub fn median_of(runs: u32, measure: impl FnMut(u32) -> Result<f64, LabError>) -> Result<f64, LabError> {
    Ok(median((0..runs).map(measure).collect::<Result<Vec<_>, _>>()?))
}

/// The medians of what each of `rounds` rounds measured; rounds are counted from 1.
///
/// # Errors
/// The first round's.
pub fn medians_of<const N: usize>(
    rounds: u32,
    mut measure: impl FnMut(u32) -> Result<[f64; N], LabError>,
) -> Result<[f64; N], LabError> {
    let rounds = (1..=rounds).map(&mut measure).collect::<Result<Vec<_>, _>>()?;
    Ok(std::array::from_fn(|at| median(rounds.iter().map(|values| values[at]).collect())))
}

/// The exponent with which costs grow with sizes: the slope of the logarithms of pairs of both.
///
/// # Panics
/// If there are fewer than two sizes, or a value that is not above zero.
pub fn exponent(points: &[(f64, f64)]) -> f64 {
    assert!(points.len() > 1, "a slope needs two sizes");
    assert!(points.iter().all(|(size, cost)| *size > 0.0 && *cost > 0.0), "a logarithm needs what is above zero");
    let (sizes, costs): (Vec<f64>, Vec<f64>) = points.iter().map(|(size, cost)| (size.ln(), cost.ln())).unzip();
    let (size, cost) = (mean(&sizes), mean(&costs));
    let products: f64 = sizes.iter().zip(&costs).map(|(x, y)| (x - size) * (y - cost)).sum();
    products / sizes.iter().map(|x| (x - size).powi(2)).sum::<f64>()
}

/// The median of the ratios of pairs as the figure `id`, with the median of the rival's values beside it.
pub fn over(id: impl Into<String>, ours: &[f64], theirs: Vec<f64>, rival: impl Into<String>) -> Figure {
    let ratios = ours.iter().zip(&theirs).map(|(us, them)| us / them).collect();
    Figure::alone(id, median(ratios), "ratio").peer(rival, median(theirs))
}

/// Our rate over a rival's, each measured `pairs` times in turns: the median of the ratios is the figure `id`, with
/// the median of the rates of the rival, which is called `rival`, beside it. A measurement of either during which the
/// machine's host gave the CPU to others is taken again, a few times at most.
///
/// # Errors
/// The first measurement's.
pub fn ratio(
    id: &str,
    rival: String,
    pairs: u32,
    ours: impl Fn() -> Result<f64, LabError>,
    theirs: impl Fn() -> Result<f64, LabError>,
    lab: &Lab<'_>,
) -> Result<Figure, LabError> {
    let (mut our_rates, mut rates) = (Vec::new(), Vec::new());
    for pair in 1..=pairs {
        let (us, them) =
            in_turns(pair, || undisturbed(TRIES, lost_ticks, &ours), || undisturbed(TRIES, lost_ticks, &theirs))?;
        lab.say(format!("{id}, pair {pair} of {pairs}: {us:.0} against {them:.0} per second"));
        our_rates.push(us);
        rates.push(them);
    }
    Ok(over(id, &our_rates, rates, rival))
}

/// Measures every arm once a round; the first place goes around, and rounds are counted from 1. By arm, what its
/// rounds gave.
///
/// # Errors
/// The first measurement's.
pub fn in_rounds<A, T>(
    rounds: usize,
    arms: &[A],
    mut measure: impl FnMut(usize, &A) -> Result<T, LabError>,
) -> Result<Vec<Vec<T>>, LabError> {
    let mut seen: Vec<Vec<T>> = arms.iter().map(|_| Vec::new()).collect();
    for number in 0..rounds * arms.len() {
        let (round, turn) = (number / arms.len(), number % arms.len());
        let at = (round + turn) % arms.len();
        seen[at].push(measure(round + 1, &arms[at])?);
    }
    Ok(seen)
}

/// Both of a pair; pairs are counted from 1. The second run may find a busier or quieter machine, so that the first
/// place goes around.
///
/// # Errors
/// The first one's.
pub fn in_turns<T>(
    pair: u32,
    ours: impl FnOnce() -> Result<T, LabError>,
    theirs: impl FnOnce() -> Result<T, LabError>,
) -> Result<(T, T), LabError> {
    if pair.is_multiple_of(2) {
        let us = ours()?;
        Ok((us, theirs()?))
    } else {
        let them = theirs()?;
        Ok((ours()?, them))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    #[test]
    fn each_value_of_a_round_has_its_own_median() {
        let measured = medians_of(3, |round| Ok([f64::from(round), -f64::from(round * round)]));
        assert_eq!(measured.expect("all rounds end"), [2.0, -4.0]);
        assert!(medians_of::<1>(3, |round| Err(LabError::Data(round.to_string()))).is_err());
    }

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let values = || (1..=1000).rev().map(f64::from).collect::<Vec<_>>();
        assert_eq!(
            [0.0, 0.5, 0.99, 0.999, 1.0].map(|share| at_share(values(), share)),
            [1.0, 500.0, 990.0, 999.0, 1000.0]
        );
        assert_eq!(at_share(vec![7.0], 0.999), 7.0);
    }

    #[test]
    fn the_first_place_goes_around() {
        let order = std::cell::Cell::new(0);
        let next = || {
            order.set(order.get() + 1);
            Ok(order.get())
        };
        let pairs: Vec<_> = (1..=3).map(|pair| in_turns(pair, next, next).expect("both are there")).collect();
        assert_eq!(pairs, [(2, 1), (3, 4), (6, 5)]);
    }

    #[test]
    fn a_ratio_is_of_our_rate_over_the_rivals() {
        let options = crate::Options { quick: true, seed: 1, scratch: ".".into() };
        let mut silent = |_: &str| {};
        let lab = Lab::new(&options, &mut silent);
        let figure = ratio("r", "them".to_string(), 3, || Ok(4.0), || Ok(2.0), &lab).expect("both are there");
        assert_eq!((figure.value, figure.peer.map(|peer| peer.value)), (2.0, Some(2.0)));
    }

    #[test]
    fn the_slope_of_a_power_is_its_exponent() {
        let points: Vec<(f64, f64)> = (1..9).map(|i| (f64::from(i), 3.0 * f64::from(i).powf(1.25))).collect();
        assert!((exponent(&points) - 1.25).abs() < 1e-9);
    }
}
