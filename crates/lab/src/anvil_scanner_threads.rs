//! `anvil-scanner-threads`: how a pass over the map gains from more scanners. After figure 3.10 of ANViL: one segment
//! of 128 MiB, and many snapshots of it.
//!
//! One and two scanners run on this machine's CPUs. What more would bring is **simulated**: the same code shares the
//! same map out in virtual time, where a mapping costs what is charged for it and nothing else does. *Skewed*: the last
//! twentieth of the leaves has nine tenths of the mappings. *Static* is a split of the leaves into equal parts, once
//! and for all.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use esker_layer_logvol::collect::sweep::{Sharing, Visit, sweep};
use esker_layer_logvol::map::{Extent, Fanout, Map, Mapping, Snapshot, TRACT};
use esker_rt::Rt;
use esker_rt::sim::{Sim, SimConfig};

use esker_lab_kit::{Figure, Lab, LabError, timing::medians_of};

/// That of pages of 4 KiB.
const FANOUT: Fanout = Fanout { leaf: 169, inner: 508, roots: 512, index: 508, changes: 203 };
/// Extents of the segment: 128 MiB in pieces of 32 KiB, as in the source.
const EXTENTS: u64 = 4096;
const ROUNDS: u32 = 7;

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let map = cloned(lab.scale(1_000, 8_000));
    lab.say(format!("{} mappings", map.mappings()));
    let [alone, speedup] = medians_of(ROUNDS, |_| {
        let (alone, both) = (real(lab, &map, 1)?, real(lab, &map, 2)?);
        Ok([alone, alone / both])
    })?;
    let skewed = skewed(map.mappings());
    let even = |map: &Snapshot, scanners: usize| efficiency(map, Sharing::even(map, scanners));
    Ok(vec![
        Figure::alone("speedup_2", speedup, "ratio"),
        Figure::alone("mappings_per_second_1", map.mappings() as f64 / alone, "mappings/s"),
        Figure::alone("ns_per_mapping", alone * 1e9 / map.mappings() as f64, "ns"),
        Figure::alone("simulated_efficiency_2", even(&map, 2), "ratio"),
        Figure::alone("simulated_efficiency_12", even(&map, 12), "ratio"),
        Figure::alone("simulated_efficiency_64", even(&map, 64), "ratio"),
        Figure::alone("simulated_efficiency_12_skewed", even(&skewed, 12), "ratio"),
        Figure::alone("simulated_efficiency_12_skewed_static", efficiency(&skewed, parts(&skewed, 12)), "ratio"),
    ])
}

/// One segment and its snapshots.
fn cloned(snapshots: u64) -> Snapshot {
    let mut map = Map::new(FANOUT);
    for snapshot in 0..snapshots {
        for i in 0..EXTENTS {
            // In the order of a log, in which neighbours are not joined.
            let pba = i * 40_503 % EXTENTS * 8;
            map.map(Extent { lba: (snapshot << 20) + i * 8, pba, len: 8 }, &mut |_| {});
        }
    }
    map.snapshot()
}

/// As many mappings: a tenth of them each in a leaf of its own, the rest in full ones.
fn skewed(mappings: u64) -> Snapshot {
    let mut map = Map::new(FANOUT);
    // There are 2^20 tracts.
    let alone = (mappings / 10).min(900_000);
    for i in 0..mappings {
        let lba = if i < alone { (i + 1) * TRACT } else { 2 * i };
        map.map(Extent { lba, pba: 3 * (i % (1 << 30)), len: 1 }, &mut |_| {});
    }
    map.snapshot()
}

/// Equal parts, kept to.
fn parts(map: &Snapshot, scanners: usize) -> Sharing {
    Sharing { is_dynamic: false, ..Sharing::even(map, scanners) }
}

/// Marks live blocks in a bitmap, as the collector's passes do, and counts mappings.
fn visit() -> Visit<u64> {
    let bits: Arc<Vec<AtomicU64>> = Arc::new((0..1 << 20).map(|_| AtomicU64::new(0)).collect());
    Arc::new(move |snapshot: &Snapshot, range: Range<u64>| {
        let mut mappings = 0;
        for Mapping { extent, .. } in snapshot.leaves(range) {
            mappings += 1;
            let word = (extent.pba / 64) as usize % bits.len();
            let mask = (u64::MAX >> (64 - extent.len.min(64))) << (extent.pba % 64);
            bits[word].fetch_or(mask, Ordering::Relaxed);
        }
        mappings
    })
}

async fn pass(rt: &Rt, map: &Snapshot, sharing: Sharing) {
    let total = std::cell::Cell::new(0);
    sweep(rt, map, sharing, visit(), &async |count| total.set(total.get() + count)).await;
    assert_eq!(total.get(), map.mappings(), "each mapping is seen once");
}

/// Seconds of one pass on this machine.
fn real(lab: &Lab<'_>, map: &Snapshot, scanners: usize) -> Result<f64, LabError> {
    let reactor = lab.reactor()?;
    let (rt, map) = (reactor.rt(), map.clone());
    Ok(reactor.block_on(async move {
        let start = Instant::now();
        pass(&rt, &map, Sharing::even(&map, scanners)).await;
        start.elapsed().as_secs_f64()
    }))
}

/// Virtual time of one scanner on one CPU over that of all these on as many CPUs, per scanner.
fn efficiency(map: &Snapshot, sharing: Sharing) -> f64 {
    let time = |sharing: Sharing| {
        let cpus = sharing.ranges.len();
        let (sim, map) = (Sim::new(SimConfig { cpus, ..SimConfig::seeded(1) }), map.clone());
        let rt = sim.rt();
        sim.block_on(async move {
            let start = rt.now();
            pass(&rt, &map, sharing).await;
            rt.now().since(start).0 as f64
        })
    };
    let scanners = sharing.ranges.len() as f64;
    time(Sharing::even(map, 1)) / time(sharing) / scanners
}
