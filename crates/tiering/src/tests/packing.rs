//! Tests of two-dimensional packing.

use super::*;
use crate::pack::{Bin, Packed, Wanted, first_fit_decreasing, pack};

fn bins(count: usize, performance: f64, slots: u32) -> Vec<Bin> {
    vec![Bin { performance, slots, idle: 0, is_powered: true }; count]
}

fn wanted(loads: &[f64]) -> Vec<Wanted> {
    loads.iter().map(|performance| Wanted { performance: *performance, at: None }).collect()
}

/// Neither dimension of a bin is exceeded.
fn fits(bins: &[Bin], wanted: &[Wanted], packed: &Packed) {
    for (number, bin) in bins.iter().enumerate() {
        let inside = wanted.iter().zip(&packed.at).filter(|(_, at)| **at == Some(number as u32));
        let loads: Vec<f64> = inside.map(|(one, _)| one.performance).collect();
        assert!(loads.len() <= bin.slots as usize, "bin {number} has {} extents, room for {}", loads.len(), bin.slots);
        let sum: f64 = loads.iter().sum();
        assert!(sum <= bin.performance + 1e-6, "bin {number} has {sum}, time for {}", bin.performance);
    }
}

/// The least number of bins, by trying everything. Bins are equal.
fn least(bin: &Bin, loads: &[f64]) -> usize {
    fn search(bin: &Bin, loads: &[f64], open: &mut Vec<(f64, u32)>, best: &mut usize) {
        if open.len() >= *best {
            return;
        }
        let Some((load, rest)) = loads.split_first() else {
            *best = open.len();
            return;
        };
        for at in 0..open.len() {
            if open[at].0 + load <= bin.performance + 1e-9 && open[at].1 < bin.slots {
                open[at] = (open[at].0 + load, open[at].1 + 1);
                search(bin, rest, open, best);
                open[at] = (open[at].0 - load, open[at].1 - 1);
            }
        }
        open.push((*load, 1));
        search(bin, rest, open, best);
        open.pop();
    }
    let mut best = loads.len() + 1;
    search(bin, loads, &mut Vec::new(), &mut best);
    best
}

fn falling(stream: &mut Stream, count: u64, most: f64) -> Vec<f64> {
    let mut loads: Vec<f64> = (0..count).map(|_| stream.unit() * most).collect();
    loads.sort_by(|a, b| b.total_cmp(a));
    loads
}

#[test]
fn item_37_first_fit_decreasing_is_near_the_least_number_of_arrays() {
    let mut stream = stream(37, "bins");
    for round in 0..1500 {
        let count = 2 + stream.below(8);
        let most = 0.2 + 0.8 * stream.unit();
        let (loads, slots) = (falling(&mut stream, count, most), 1 + stream.below(5) as u32);
        let bins = bins(loads.len(), 1.0, slots);
        for packed in [first_fit_decreasing(&bins, &wanted(&loads), 0), pack(&bins, &wanted(&loads), 0, true)] {
            fits(&bins, &wanted(&loads), &packed);
            assert_eq!(packed.left(), 0, "each extent has a bin of its own");
            let best = least(&bins[0], &loads);
            let limit = 11.0 / 9.0 * best as f64 + 1.0;
            assert!(
                packed.used as f64 <= limit,
                "round {round}: {} bins, {best} are enough for {loads:?}",
                packed.used
            );
        }
    }
}

#[test]
fn item_37_packing_with_residents_exceeds_neither_dimension() {
    let mut stream = stream(38, "residents");
    for _ in 0..2000 {
        let bins: Vec<Bin> = (0..1 + stream.below(5))
            .map(|_| Bin {
                performance: stream.unit() * 2.0,
                slots: stream.below(6) as u32,
                idle: stream.below(3) as u32,
                is_powered: stream.chance(0.5),
            })
            .collect();
        let count = stream.below(20);
        let loads = falling(&mut stream, count, 0.7);
        let mut wanted = wanted(&loads);
        for one in &mut wanted {
            one.at = stream.chance(0.7).then(|| stream.below(bins.len() as u64) as u32);
        }
        let packed = pack(&bins, &wanted, stream.below(10), stream.chance(0.5));
        assert_eq!(packed.at.len(), wanted.len(), "an extent is lost");
        fits(&bins, &wanted, &packed);
    }
}

#[test]
fn residents_stay_where_they_fit() {
    let mut wanted = wanted(&[0.6, 0.5, 0.3]);
    wanted[1].at = Some(0);
    wanted[2].at = Some(1);
    let packed = pack(&bins(2, 1.0, 10), &wanted, 0, true);
    assert_eq!(packed.at, [Some(1), Some(0), Some(1)], "a larger one that comes takes what is left");
}

#[test]
fn few_extents_on_many_arrays_are_gathered_where_most_load_is() {
    let mut wanted = wanted(&[0.3, 0.2, 0.1]);
    (wanted[0].at, wanted[1].at, wanted[2].at) = (Some(0), Some(1), Some(2));
    let packed = pack(&bins(3, 1.0, 10), &wanted, 0, true);
    assert_eq!((packed.at, packed.used), (vec![Some(0); 3], 1));
}

#[test]
fn without_consolidation_residents_stay_and_others_go_where_most_time_is_left() {
    let mut wanted = wanted(&[0.3, 0.2, 0.1]);
    (wanted[0].at, wanted[1].at) = (Some(0), Some(1));
    let packed = pack(&bins(3, 1.0, 10), &wanted, 0, false);
    assert_eq!((packed.at, packed.used), (vec![Some(0), Some(1), Some(2)], 3));
}

#[test]
fn arrays_that_idle_extents_need_are_not_emptied() {
    let mut bins = bins(2, 1.0, 10);
    (bins[0].idle, bins[1].idle) = (9, 9);
    let mut wanted = wanted(&[0.3, 0.2]);
    (wanted[0].at, wanted[1].at) = (Some(0), Some(1));
    let packed = pack(&bins, &wanted, 18, true);
    assert_eq!((packed.at, packed.used), (vec![Some(0), Some(1)], 2));
}

#[test]
fn the_hottest_are_admitted_before_residents() {
    let mut wanted = wanted(&[0.9, 0.6]);
    wanted[1].at = Some(0);
    assert_eq!(pack(&bins(1, 1.0, 10), &wanted, 0, true).at, [Some(0), None]);
}
