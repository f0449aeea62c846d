//! What single rules promise.

use esker_base::units::MIB;

use super::super::run;
use super::{Mount, blank, by, counted};
use crate::{LfsConfig, SnapshotCounting};

/// A file of which each quarter changes before the next snapshot is made: the numbers of four snapshots that overlap.
async fn four(mount: &Mount) -> Vec<u64> {
    let mut numbers = Vec::new();
    mount.write("file", 0, MIB, 1).await.unwrap();
    for part in 0..4_u64 {
        mount.write("file", part * MIB / 4, MIB / 4, 2 + part as u8).await.unwrap();
        mount.write("other", part * 40_000, 60_000, part as u8).await.unwrap();
        numbers.push(mount.snapshot().await);
    }
    mount.remove("file").await.unwrap();
    mount.sync().await;
    numbers
}

/// Item 40.
#[test]
fn snapshots_are_dropped_in_every_order_and_no_block_counts_twice() {
    for first in 0..4_usize {
        for second in (0..4).filter(|at| *at != first) {
            for third in (0..4).filter(|at| ![first, second].contains(at)) {
                let last = 6 - first - second - third;
                for rule in [SnapshotCounting::All, SnapshotCounting::Background] {
                    let media = blank(12 * MIB, 4096, 128);
                    run(move |rt| async move {
                        let mount = Mount::of(&rt, &media, by(rule)).await;
                        let numbers = four(&mount).await;
                        mount.ask(&format!("snapshot {}", numbers[1])).await.unwrap();
                        for at in [first, second, third, last] {
                            mount.undo(numbers[at]).await;
                            mount.settle().await;
                            assert_eq!(counted(&rt, &media).await.miscounted_blocks, 0, "{rule:?}, {at} dropped");
                        }
                    });
                }
            }
        }
    }
}

/// Item 37: what lives when a snapshot is made, and dies later, is missed. Nothing else is.
#[test]
fn scanning_dead_blocks_misses_what_dies_in_a_snapshot() {
    for (dies_before, is_exact) in [(true, true), (false, false)] {
        let media = blank(12 * MIB, 4096, 128);
        run(move |rt| async move {
            let mount = Mount::of(&rt, &media, by(SnapshotCounting::Dead)).await;
            mount.write("file", 0, MIB, 1).await.unwrap();
            mount.sync().await;
            let told = mount.ask("checkpoints").await.unwrap();
            let number: u64 = told.lines().last().unwrap().split(' ').next().unwrap().parse().unwrap();
            if dies_before {
                mount.remove("file").await.unwrap();
                mount.sync().await;
            }
            mount.ask(&format!("snapshot {number}")).await.unwrap();
            if !dies_before {
                mount.remove("file").await.unwrap();
                mount.sync().await;
            }
            let off = counted(&rt, &media).await.miscounted_blocks;
            // Blocks of metadata that live now die before the check.
            assert_eq!(off < 16, is_exact, "{off} blocks are miscounted");
        });
    }
}

/// Item 38: what the cleaner found protected is looked at again when the snapshot is gone.
#[test]
fn a_counter_that_a_snapshot_left_too_high_is_lowered() {
    for (rule, is_lowered) in [(SnapshotCounting::Starvation, true), (SnapshotCounting::Stock, false)] {
        let media = blank(12 * MIB, 4096, 128);
        run(move |rt| async move {
            let mount = Mount::of(&rt, &media, by(rule)).await;
            mount.write("file", 0, 2 * MIB, 1).await.unwrap();
            let number = mount.snapshot().await;
            mount.remove("file").await.unwrap();
            mount.sync().await;
            let high =
                async |mount: &Mount| mount.counters().await.iter().filter(|(_, live, _)| *live > 128 / 4 / 2).count();
            assert!(high(&mount).await < 4, "all blocks seem to be dead");
            mount.ask("clean").await.unwrap();
            let looked = high(&mount).await;
            assert!(looked > 12, "the cleaner finds them protected");
            mount.undo(number).await;
            assert_eq!(high(&mount).await < 4, is_lowered, "{rule:?}");
        });
    }
}

/// Item 44.
#[test]
fn changes_of_mode_during_a_scan_leave_exact_counters() {
    let media = blank(32 * MIB, 1024, 128);
    run(move |rt| async move {
        let mount = Mount::of(&rt, &media, by(SnapshotCounting::Background)).await;
        let mut numbers = Vec::new();
        for part in 0..4_u8 {
            mount.write("file", 0, 4 * MIB, part).await.unwrap();
            numbers.push(mount.snapshot().await);
        }
        mount.remove("file").await.unwrap();
        mount.sync().await;
        mount.settle().await;
        assert_eq!(counted(&rt, &media).await.miscounted_blocks, 0, "four snapshots");
        let mut under_way = 0;
        for number in [numbers[1], numbers[3], numbers[0]] {
            mount.undo(number).await;
            rt.sleep(esker_base::Nanos::micros(1500)).await;
            under_way += u32::from(mount.is_scanning());
        }
        assert!(under_way > 1, "a scan was under way at a change");
        mount.settle().await;
        assert_eq!(counted(&rt, &media).await.miscounted_blocks, 0, "one is left");
        mount.ask(&format!("snapshot {}", numbers[0])).await.unwrap();
        mount.undo(numbers[2]).await;
        mount.close().await;
        let again = Mount::of(&rt, &media, by(SnapshotCounting::Background)).await;
        assert!(again.is_scanning(), "a scan goes on behind an unmount");
        again.settle().await;
        again.close().await;
        assert_eq!(counted(&rt, &media).await.miscounted_blocks, 0, "behind an unmount");
    });
}

/// Item 15.
#[test]
fn blocks_of_the_dat_do_not_make_a_counter_seem_to_change() {
    let changed = |tells_dat_times| {
        let media = blank(24 * MIB, 1024, 128);
        run(move |rt| async move {
            let config = LfsConfig { tells_dat_times, ..LfsConfig::usual() };
            let mut mount = Mount::of(&rt, &media, config).await;
            for part in 0..40_u64 {
                mount.write(&format!("file{part}"), 0, 100_000, 1).await.unwrap();
                mount.sync().await;
            }
            mount.now = 5000;
            for part in (0..40_u64).step_by(4) {
                mount.write(&format!("file{part}"), 0, 1024, 2).await.unwrap();
            }
            mount.sync().await;
            let later = super::super::MADE + 5000;
            let counters = mount.counters().await;
            let told = counters.into_iter().filter(|(_, _, changed)| *changed >= later).map(|(segment, ..)| segment);
            told.collect::<Vec<u64>>()
        })
    };
    let (faithful, improved) = (changed(true), changed(false));
    assert!(improved.iter().all(|segment| faithful.contains(segment)), "{improved:?} of {faithful:?}");
    assert!(improved.len() < faithful.len(), "{improved:?} of {faithful:?}");
}

/// Item 50: the dumper's counters are those that brute force holds to its own.
#[test]
fn segments_are_listed_with_their_counters() {
    let media = blank(12 * MIB, 4096, 128);
    run(move |rt| async move {
        let mount = Mount::of(&rt, &media, LfsConfig::usual()).await;
        four(&mount).await;
        mount.settle().await;
        let counters = mount.counters().await;
        let told: u64 = counters.iter().map(|(_, live, _)| live).sum();
        let wanted = counted(&rt, &media).await;
        assert_eq!((told, counters.len() as u64), (wanted.counted_blocks, wanted.segments_dirty));
    });
}
