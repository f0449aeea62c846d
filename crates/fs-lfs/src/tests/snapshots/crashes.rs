//! A crash at each recorded state of a background scan.

use std::collections::BTreeSet;

use esker_base::units::MIB;
use esker_block::store::SparseStore;
use esker_dev::{Defer, Media};
use esker_testkit::crash::{Bound, for_each_state};
use esker_testkit::recorder::{Journal, Recorder};

use super::super::{SECTOR, run};
use super::{Mount, blank, by, counted};
use crate::SnapshotCounting;

const SIZE: u64 = 20 * MIB;

/// A medium with two snapshots, whose blocks died, and their numbers. The scan is over.
fn prepared() -> (SparseStore, [u64; 2]) {
    let media = blank(SIZE, 1024, 128);
    run(move |rt| async move {
        let mount = Mount::of(&rt, &media, by(SnapshotCounting::Background)).await;
        mount.write("file", 0, 5 * MIB, 1).await.unwrap();
        let first = mount.snapshot().await;
        mount.write("file", 0, 2 * MIB, 2).await.unwrap();
        let second = mount.snapshot().await;
        mount.remove("file").await.unwrap();
        mount.sync().await;
        mount.settle().await;
        mount.close().await;
        (media.image(), [first, second])
    })
}

/// Items 43 and 44.
#[test]
fn a_crash_in_a_background_scan_costs_no_counter() {
    let (store, numbers) = prepared();
    let journal = Journal::default();
    let media = Media::of(SIZE, store.clone());
    let recorded = journal.clone();
    run(move |rt| async move {
        let device = Recorder::leaf(&recorded, &rt, &media, SECTOR, Defer::Never);
        let mount = Mount::over(&rt, device, by(SnapshotCounting::Background)).await;
        for (number, mode) in
            [(0, "checkpoint"), (1, "checkpoint"), (0, "snapshot"), (1, "snapshot"), (0, "checkpoint")]
        {
            mount.ask(&format!("{mode} {}", numbers[number])).await.unwrap();
            rt.sleep(esker_base::Nanos::millis(2)).await;
            mount.write("new", 0, 40_000, number as u8).await.unwrap();
            mount.sync().await;
        }
        mount.settle().await;
        mount.close().await;
    });
    let (mut seen, mut went_on) = (BTreeSet::new(), 0);
    let count = for_each_state(&journal, Bound { states_max: 3, seed: 5 }, |point, images| {
        if seen.insert(images[0].digest()) {
            let media = Media::of(SIZE, images[0].over(&store));
            went_on += run(move |rt| async move {
                let mount = Mount::of(&rt, &media, by(SnapshotCounting::Background)).await;
                let goes_on = u32::from(mount.is_scanning());
                mount.settle().await;
                mount.close().await;
                let off = counted(&rt, &media).await.miscounted_blocks;
                assert_eq!(off, 0, "crash before event {point}");
                goes_on
            });
        }
        Ok::<_, std::convert::Infallible>(())
    });
    let count = count.unwrap();
    println!("{count:?}, {} states, of which {went_on} had a scan to go on with", seen.len());
    assert!(seen.len() > 30 && went_on > 15, "{} states, {went_on} of them with a scan", seen.len());
}
