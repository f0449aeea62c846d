//! Tests of what extents ask.

use super::*;
use crate::classify::{HEADS_MAX, WINDOW};
use crate::demand::ALPHA;

const KIB: u64 = 1024;

fn collector(extents: u32) -> Collector {
    Collector::new(extents, Smoothing { alpha: ALPHA, transfers: Transfers::Sequential })
}

#[test]
fn item_36_a_request_is_sequential_up_to_512_kib_away() {
    for (kib, is_random) in [(511, false), (512, false), (513, true)] {
        let base = 100 << 20;
        for to in [base + kib * KIB, base - kib * KIB] {
            let mut one = Classifier::new(1);
            assert!(one.is_random(base), "the first request has none before it");
            assert_eq!(one.is_random(to), is_random, "{kib} KiB away");
        }
    }
    let mut one = Classifier::new(1);
    one.is_random(0);
    assert!(one.is_random(WINDOW + 1), "the limit is a byte");
}

#[test]
fn item_36_one_head_is_the_distance_to_the_request_before() {
    let mut stream = stream(36, "addresses");
    let (mut one, mut before) = (Classifier::new(1), None::<u64>);
    for _ in 0..10_000 {
        let address = stream.below(4 << 20);
        let is_random = before.is_none_or(|before| before.abs_diff(address) > WINDOW);
        assert_eq!(one.is_random(address), is_random);
        before = Some(address);
    }
}

#[test]
fn item_36_heads_see_as_many_streams_that_are_mixed() {
    for (heads, streams, random) in [(1, 2, 200), (2, 2, 2), (HEADS_MAX, 32, 32), (HEADS_MAX, 33, 3300)] {
        let mut classifier = Classifier::new(heads);
        let rounds = (0..100u64).flat_map(|round| (0..streams).map(move |of| (of << 40) + round * 64 * KIB));
        let seen = rounds.filter(|address| classifier.is_random(*address)).count();
        assert_eq!(seen, random, "{streams} streams, {heads} heads");
    }
}

#[test]
#[should_panic(expected = "1 to 32 stream heads")]
fn a_volume_has_at_most_32_heads() {
    let _ = Classifier::new(33);
}

#[test]
fn item_36_a_minute_joins_the_mean_at_its_end() {
    let mut collector = collector(4);
    for _ in 0..120 {
        collector.count(2, 4096, true);
    }
    (0..60).for_each(|_| collector.count(2, 1_000_000, false));
    assert_eq!(collector.demand(2), Demand::default(), "the minute runs");
    assert_eq!(collector.roll(), 1);
    assert_eq!(collector.demand(2), Demand { random: 0.5, mb_per_s: 0.25, iops: 0.75 });
    collector.count(2, 4096, true);
    collector.roll();
    let next = collector.demand(2);
    assert!((next.random - (0.375 + 0.25 / 60.0)).abs() < 1e-6, "{next:?}");
    assert_eq!(next.mb_per_s, 0.1875);
}

#[test]
fn item_36_minutes_without_a_request_count_though_no_one_visits_them() {
    let (mut lazy, mut dense) = (collector(2), 0.0f32);
    let mut stream = stream(3, "minutes");
    for _ in 0..200 {
        let requests = if stream.chance(0.2) { stream.below(600) } else { 0 };
        (0..requests).for_each(|_| lazy.count(0, 4096, true));
        assert_eq!(lazy.roll(), usize::from(requests > 0), "only touched extents are visited");
        dense += ALPHA * (requests as f32 / 60.0 - dense);
        assert!((lazy.demand(0).random - dense).abs() <= 1e-5 * dense.max(1e-3), "{dense}");
    }
}

#[test]
fn random_bytes_count_once_or_twice_by_choice() {
    for (transfers, mb_per_s) in [(Transfers::Sequential, 0.0), (Transfers::All, 1.0)] {
        let mut collector = Collector::new(1, Smoothing { alpha: 1.0, transfers });
        (0..60).for_each(|_| collector.count(0, 1_000_000, true));
        collector.roll();
        assert_eq!(collector.demand(0), Demand { random: 1.0, mb_per_s, iops: 1.0 });
    }
}

#[test]
fn extents_that_fall_idle_take_no_row() {
    let mut collector = collector(1000);
    for extent in [7, 3, 999, 500] {
        collector.count(extent, 4096, true);
    }
    collector.roll();
    let ids = |collector: &mut Collector| collector.in_use().iter().map(|(extent, _)| *extent).collect::<Vec<_>>();
    assert_eq!(ids(&mut collector), [3, 7, 500, 999]);
    for _ in 0..60 {
        collector.count(999, 4096, true);
        collector.roll();
    }
    assert_eq!(ids(&mut collector), [999]);
    assert_eq!(collector.rows(), 1);
    collector.count(3, 4096, true);
    collector.roll();
    assert_eq!(ids(&mut collector), [3, 999], "an extent comes back");
    assert!(collector.demand(999).random > 0.01, "a row that was moved is still its extent's");
}
