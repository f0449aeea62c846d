//! Medians of repeated measurements, and ratios of what is measured in turns.

use std::time::Instant;

use esker_calibrate::undisturbed;

use crate::experiment::{Figure, LabError, Peer};
use crate::machine::lost_ticks;

/// How often a rate is measured until no other process took the CPU meanwhile.
const TRIES: u32 = 2;

/// Seconds that `work` takes.
pub fn seconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
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

/// Our rate over a rival's, each measured `pairs` times in turns: the median of the ratios is the figure `id`, with the
/// median of the rates of the rival, which is called `rival`, beside it. A measurement of either during which the
/// machine's host gave the CPU to others is taken again, a few times at most.
///
/// # Errors
/// The first measurement's.
pub fn ratio(
    id: &'static str,
    rival: String,
    pairs: u32,
    ours: impl Fn() -> Result<f64, LabError>,
    theirs: impl Fn() -> Result<f64, LabError>,
    progress: &mut dyn FnMut(&str),
) -> Result<Figure, LabError> {
    let (mut ratios, mut rates) = (Vec::new(), Vec::new());
    for pair in 1..=pairs {
        let (us, them) =
            in_turns(pair, || undisturbed(TRIES, lost_ticks, &ours), || undisturbed(TRIES, lost_ticks, &theirs))?;
        progress(&format!("{id}, pair {pair} of {pairs}: {us:.0} against {them:.0} per second"));
        ratios.push(us / them);
        rates.push(them);
    }
    let peer = Some(Peer { name: rival, value: median(rates) });
    Ok(Figure::alone(id, median(ratios), "ratio").beside(peer))
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
        let figure = ratio("r", "them".to_string(), 3, || Ok(4.0), || Ok(2.0), &mut |_| {}).expect("both are there");
        assert_eq!((figure.value, figure.peer.map(|peer| peer.value)), (2.0, Some(2.0)));
    }
}
