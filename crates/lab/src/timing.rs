//! Medians of repeated measurements, and ratios of what is measured in turns.

use std::time::Instant;

use esker_predict::calibrate::undisturbed;

use crate::experiment::{Figure, LabError, Peer};
use crate::machine::stolen_ticks;

/// How often a rate is measured until nobody took the CPU meanwhile.
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

/// Our rate over a rival's, each measured `pairs` times in turns: the median of the ratios is the figure `id`, with the
/// median of the rates of the rival, which is called `rival`, beside it. A measurement of either during which the machine's
/// host gave the CPU to others is taken again, a few times at most.
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
    let (ours, theirs) = (|| undisturbed(TRIES, stolen_ticks, &ours), || undisturbed(TRIES, stolen_ticks, &theirs));
    in_turns(id, rival, pairs, ours, theirs, progress)
}

fn in_turns(
    id: &'static str,
    rival: String,
    pairs: u32,
    ours: impl Fn() -> Result<f64, LabError>,
    theirs: impl Fn() -> Result<f64, LabError>,
    progress: &mut dyn FnMut(&str),
) -> Result<Figure, LabError> {
    let (mut ratios, mut rates) = (Vec::new(), Vec::new());
    for pair in 1..=pairs {
        // Whoever comes second may find a busier or quieter machine: take turns.
        let (us, them) = if pair % 2 == 0 {
            let us = ours()?;
            (us, theirs()?)
        } else {
            let them = theirs()?;
            (ours()?, them)
        };
        progress(&format!("{id}, pair {pair} of {pairs}: {us:.0} against {them:.0} per second"));
        ratios.push(us / them);
        rates.push(them);
    }
    let peer = Some(Peer { name: rival, value: median(rates) });
    Ok(Figure { peer, ..Figure::alone(id, median(ratios), "ratio") })
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    #[test]
    fn ratios_are_of_neighbours_that_take_turns() {
        let order = RefCell::new(String::new());
        let rate = |who: char, rates: [f64; 3]| {
            let order = &order;
            move || {
                order.borrow_mut().push(who);
                let turn = order.borrow().chars().filter(|c| *c == who).count();
                Ok(rates[turn - 1])
            }
        };
        let (ours, theirs) = (rate('o', [2.0, 30.0, 8.0]), rate('t', [1.0, 10.0, 2.0]));
        let figure = in_turns("r", "them".to_string(), 3, ours, theirs, &mut |_| {}).unwrap();
        assert_eq!(*order.borrow(), "tootto");
        assert_eq!((figure.value, figure.peer.map(|peer| peer.value)), (3.0, Some(2.0)));
    }
}
