use super::*;
use esker_base::units::{GIB, MIB};
use std::collections::BTreeMap;

const GRAIN: u64 = MIB;

fn build(kind: &Kind, bytes: u64) -> Result<Box<dyn Places>, ProfileFlaw> {
    kind.build(bytes, 4096, &mut Stream::seeded(1), &mut Stream::seeded(2))
}

/// `count` reads of 4 KiB, all at the time `at`.
fn offsets(places: &mut dyn Places, count: u32, at: Nanos) -> Vec<u64> {
    let mut draw = Stream::seeded(3);
    let ask = Ask { at, op: Op::Read, len: 4096 };
    let mut next = || {
        places.moves_on(&mut draw);
        places.offset(&ask, &mut draw)
    };
    (0..count).map(|_| next()).collect()
}

/// How often each grain is used, most used first.
fn popularity(offsets: &[u64]) -> Vec<(u64, u32)> {
    let mut counts = BTreeMap::new();
    offsets.iter().for_each(|offset| *counts.entry(offset / GRAIN).or_insert(0u32) += 1);
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts
}

fn hot_cold(renew_part: f64) -> Kind {
    Kind::HotCold { grain: GRAIN, hot_space: 0.05, hot_share: 0.9, renew_s: 60.0, renew_part }
}

#[test]
fn a_hot_set_has_its_share_and_is_scattered() {
    let used = popularity(&offsets(&mut *build(&hot_cold(0.1), GIB).unwrap(), 100_000, Nanos::ZERO));
    // 51 of 1024 grains are hot.
    let hot: u32 = used[..51].iter().map(|(_, count)| count).sum();
    assert!((88_500..91_500).contains(&hot), "{hot}");
    let mut places: Vec<u64> = used[..51].iter().map(|(grain, _)| *grain).collect();
    places.sort_unstable();
    let neighbours = places.windows(2).filter(|pair| pair[1] == pair[0] + 1).count();
    assert!(neighbours < 10 && places[0] < 100 && places[50] > 924, "not over the whole volume: {places:?}");
}

#[test]
fn a_hot_set_is_renewed_part_by_part() {
    let hot_at = |seconds, part| -> Vec<u64> {
        let used = popularity(&offsets(&mut *build(&hot_cold(part), GIB).unwrap(), 50_000, Nanos::secs(seconds)));
        used[..51].iter().map(|(grain, _)| *grain).collect()
    };
    let first = hot_at(0, 0.1);
    let common = |other: Vec<u64>| other.iter().filter(|grain| first.contains(grain)).count();
    assert_eq!(common(hot_at(59, 0.1)), 51);
    assert_eq!(common(hot_at(60, 0.1)), 46);
    assert_eq!(common(hot_at(300, 0.1)), 26);
    assert_eq!(common(hot_at(60, 1.0)), 0);
}

#[test]
fn streams_continue_until_their_run_ends() {
    let kind = Kind::Streams { count: 1, from: 0.25, to: 0.5, run: 0.01 };
    let offsets = offsets(&mut *build(&kind, GIB).unwrap(), 20_000, Nanos::ZERO);
    let run = (GIB as f64 * 0.01) as u64;
    let starts = offsets.windows(2).filter(|pair| pair[1] != pair[0] + 4096).count();
    assert_eq!(starts as u64, 19_999 / (run / 4096));
    assert!(offsets.iter().all(|at| (GIB / 4..GIB / 2 + run).contains(at)));
}

#[test]
fn visits_follow_their_curve_and_stay_near() {
    let kind = Kind::Visits {
        grain: GRAIN,
        reach: 0.5,
        curve: vec![(0.01, 0.5), (0.2, 0.85)],
        head: 0.5,
        near: 0.7,
        next: 0.2,
        renew: None,
    };
    let offsets = offsets(&mut *build(&kind, 16 * GIB).unwrap(), 1_000_000, Nanos::ZERO);
    let used = popularity(&offsets);
    assert!(used.len() <= 8_192 && used.len() > 8_000, "{}", used.len());
    let share = |part: f64| {
        let top = (used.len() as f64 * part) as usize;
        f64::from(used[..top].iter().map(|(_, count)| count).sum::<u32>()) / 1e6
    };
    assert!((share(0.01) - 0.5).abs() < 0.03, "{}", share(0.01));
    assert!((share(0.2) - 0.85).abs() < 0.03, "{}", share(0.2));
    let pairs = || offsets.windows(2);
    let part = |count: usize| count as f64 / 999_999.0;
    let near = part(pairs().filter(|pair| pair[0] / GRAIN == pair[1] / GRAIN).count());
    let next = part(pairs().filter(|pair| pair[1] == pair[0] + 4096).count());
    assert!((near - 0.7).abs() < 0.01 && (next - 0.2).abs() < 0.01, "{near} {next}");
}

#[test]
fn a_reuse_walk_stays_in_its_hot_spot_and_reads_leaves_in_turn() {
    let kind = Kind::Reuse { from: 0.15, space: 0.05, walkers: 1 };
    let offsets = offsets(&mut *build(&kind, 10 * GIB).unwrap(), 200_000, Nanos::ZERO);
    let spot = (1.5 * GIB as f64) as u64 - 4096..2 * GIB + 4096;
    assert!(offsets.iter().all(|offset| spot.contains(offset)), "hot spot of 512 MiB at 1.5 GiB");
    let leaf = |offset: u64| offset.wrapping_sub((10.0 * GIB as f64 * 0.15) as u64 / 4096 * 4096) / 32_768;
    // Six levels up reach 64 leaves; each level more is climbed with 44 %, and half of what lies below it is near
    // again.
    let near = offsets.windows(2).filter(|pair| leaf(pair[0]) >> 6 == leaf(pair[1]) >> 6).count() as f64 / 199_999.0;
    let expected = 0.56 * (0..8).map(|k| 0.22f64.powi(k)).sum::<f64>();
    assert!((near - expected).abs() < 0.01, "{near} for {expected}");
    let mut turns = BTreeMap::new();
    for offset in offsets {
        let block = (offset / 4096 - (10.0 * GIB as f64 * 0.15) as u64 / 4096) % 8;
        let turn = turns.entry(leaf(offset)).or_insert(0);
        assert_eq!(block, *turn % 8, "reads take the blocks of a leaf in turn");
        *turn += 1;
    }
}

#[test]
fn writes_of_a_reuse_walk_repeat_themselves() {
    let kind = Kind::Reuse { from: 0.0, space: 1.0, walkers: 1 };
    let (mut places, mut draw) = (build(&kind, GIB).unwrap(), Stream::seeded(3));
    let ask = Ask { at: Nanos::ZERO, op: Op::Write, len: 4096 };
    let offsets: Vec<u64> = (0..100_000).map(|_| places.offset(&ask, &mut draw)).collect();
    assert!(offsets.iter().all(|offset| offset / 32_768 % 8 == 0), "written leaves are multiples of eight");
    let again = offsets.windows(2).filter(|pair| pair[0] == pair[1]).count() as f64 / 99_999.0;
    // 15 of 115 writes repeat. Others come back by chance: to the same of the 8 or more leaves, and there to the same
    // block.
    let same_leaf = 0.56 / 8.0 / (1.0 - 0.44 / 2.0);
    let same_block = 0.25 + 0.5 / 8.0 + 0.25 / 8.0;
    let expected = (15.0 + 100.0 * same_leaf * same_block) / 115.0;
    assert!((again - expected).abs() < 0.004, "{again} for {expected}");
}

#[test]
fn numbers_that_make_no_sense_are_refused() {
    let visits = |curve: Vec<(f64, f64)>, next| Kind::Visits {
        grain: GRAIN,
        reach: 0.5,
        curve,
        head: 0.5,
        near: 0.5,
        next,
        renew: None,
    };
    let cases = [
        (Kind::Zipf { exponent: -1.0, grain: GRAIN }, "exponent"),
        (Kind::Zipf { exponent: 1.0, grain: 1000 }, "grain"),
        (Kind::Zipf { exponent: 1.0, grain: GIB }, "two grains"),
        (Kind::Streams { count: 0, from: 0.0, to: 0.5, run: 0.1 }, "count"),
        (Kind::Streams { count: 1, from: 0.0, to: 1.0, run: 0.1 }, "leave the volume"),
        (visits(vec![(0.1, 0.5), (0.05, 0.6)], 0.1), "does not continue"),
        (visits(vec![(0.1, 0.5), (0.2, 0.95)], 0.1), "more popular"),
        (visits(vec![(0.1, 0.5)], 0.6), "next"),
        (Kind::Reuse { from: 0.5, space: 0.6, walkers: 1 }, "together"),
        (Kind::Reuse { from: 0.5, space: 0.0001, walkers: 1 }, "too small"),
    ];
    for (kind, word) in cases {
        let wrong = build(&kind, GIB).map(|_| ()).unwrap_err().to_string();
        assert!(wrong.contains(word), "{wrong}");
    }
}

/// Any kind with any numbers, sensible or not.
fn any_kind() -> impl proptest::strategy::Strategy<Value = Kind> {
    use proptest::prelude::*;
    let part = || -0.1f64..1.1;
    let grain = || (0u64..40).prop_map(|grain| grain * 2_048);
    let curve = proptest::collection::vec((part(), part()), 0..3);
    prop_oneof![
        Just(Kind::Uniform {}),
        (-1.0f64..9.0, grain()).prop_map(|(exponent, grain)| Kind::Zipf { exponent, grain }),
        (grain(), part(), part(), -1.0f64..100.0, part()).prop_map(
            |(grain, hot_space, hot_share, renew_s, renew_part)| {
                Kind::HotCold { grain, hot_space, hot_share, renew_s, renew_part }
            }
        ),
        (0u32..4, part(), part(), part()).prop_map(|(count, from, to, run)| Kind::Streams { count, from, to, run }),
        (grain(), part(), curve, part(), part(), part()).prop_map(|(grain, reach, curve, head, near, next)| {
            Kind::Visits { grain, reach, curve, head, near, next, renew: None }
        }),
        (part(), part(), 0u32..4).prop_map(|(from, space, walkers)| Kind::Reuse { from, space, walkers }),
    ]
}

proptest::proptest! {
    #[test]
    fn whatever_is_accepted_stays_on_its_volume(kind in any_kind(), blocks in 1u64..100_000, len in 1u64..20, seed: u64) {
        let (bytes, len) = (blocks * 4096, len * 512);
        let (mut layout, mut draw) = (Stream::seeded(seed), Stream::seeded(!seed));
        if let Ok(mut places) = kind.build(bytes, len, &mut layout, &mut draw) {
            for second in 0..200 {
                places.moves_on(&mut draw);
                let op = if second % 3 == 0 { Op::Write } else { Op::Read };
                let offset = places.offset(&Ask { at: Nanos::secs(second * 1_000), op, len }, &mut draw);
                proptest::prop_assert!(offset + len <= bytes && offset % 512 == 0, "{kind:?}: {offset} + {len} of {bytes}");
            }
        }
    }
}
