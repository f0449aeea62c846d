//! Tests of devices for a load.

use super::*;
use crate::sheet::{SAS, SATA, SSD};
use crate::sizing::{Need, Sizes, Workload, edt, est, homogeneous, idt, joint};

type Epochs = Vec<Vec<(u32, Demand)>>;

fn load(extents: u64, epochs: &Epochs) -> Workload<'_> {
    Workload { extent_bytes: EXTENT, extents, epochs, growth: 1.0 }
}

fn alike(count: u32, first: u32, demand: Demand) -> impl Iterator<Item = (u32, Demand)> {
    (first..first + count).map(move |extent| (extent, demand))
}

#[test]
fn item_31_a_bin_needs_the_larger_of_two_sums() {
    let epochs = vec![alike(1000, 0, Demand::random(4.0)).chain(alike(1000, 1000, Demand::random(0.2))).collect()];
    let sizing = edt(&Sheet::thesis(), &load(2000, &epochs), Objective::Cost);
    let need = sizing.epochs[0][SSD];
    assert!((need.performance - 0.84).abs() < 1e-6 && (need.capacity - 2000.0 * 64e6 / 180e9).abs() < 1e-9, "{need:?}");
    // A sum of larger ones would be 0.8 + 0.356 devices.
    assert_eq!((need.count(), sizing.counts), (1, vec![1, 0, 0]));
}

#[test]
fn item_31_epochs_are_combined_by_type() {
    let need = |performance| Need { performance, capacity: 0.0 };
    let epochs = vec![vec![need(2.0), need(1.0)], vec![need(1.0), need(2.0)]];
    let sizing = Sizes::of(2, epochs, vec![]);
    assert_eq!(sizing.counts, [2, 2]);
}

#[test]
fn item_32_sizes_are_told_whole_and_fractional() {
    let sheets = Sheet::thesis();
    let epochs = vec![alike(100, 0, Demand::random(1.0)).collect()];
    let sizing = edt(&sheets, &load(1100, &epochs), Objective::Cost);
    assert_eq!(sizing.counts, [1, 0, 1]);
    assert!((sizing.fractional[SSD] - 100.0 * 64e6 / 180e9).abs() < 1e-9, "{:?}", sizing.fractional);
    assert!((sizing.fractional[SATA] - 0.064).abs() < 1e-9);
    assert_eq!(sizing.usd(&sheets), 600.0);
    assert!((sizing.usd_fractional(&sheets) - (100.0 * 0.152_889 + 1000.0 * 0.01088)).abs() < 1e-3);
    assert!((sizing.peak_w(&sheets) - 12.6).abs() < 1e-9);
}

#[test]
fn a_sum_that_is_whole_but_for_rounding_needs_no_more() {
    let need = Need { performance: 3.0 + 1e-12, capacity: 0.0 };
    assert_eq!(need.count(), 3);
}

#[test]
fn growth_is_that_many_times_the_load_and_the_data() {
    let sheets = Sheet::thesis();
    let epochs = vec![alike(1000, 0, Demand::random(6.0)).collect()];
    let one = edt(&sheets, &load(50_000, &epochs), Objective::Cost);
    let two = edt(&sheets, &Workload { growth: 2.0, ..load(50_000, &epochs) }, Objective::Cost);
    for (one, two) in one.fractional.iter().zip(&two.fractional) {
        assert!((two - 2.0 * one).abs() < 1e-9);
    }
}

#[test]
fn item_35_sizing_tells_extents_that_no_device_serves() {
    let epochs = vec![vec![(7, Demand::random(12_000.0))]];
    let sizing = edt(&Sheet::thesis(), &load(1, &epochs), Objective::Cost);
    assert_eq!(sizing.counts, [3, 0, 0]);
    assert_eq!(sizing.striped.len(), 1);
    assert_eq!((sizing.striped[0].extent, sizing.striped[0].devices), (7, 3));
}

/// Two groups of extents that are hot in turn.
fn turns() -> Epochs {
    let hot = |first| alike(2000, first, Demand::random(1.0)).collect();
    (0..8).map(|epoch| hot(if epoch % 2 == 0 { 0 } else { 2000 })).collect()
}

#[test]
fn item_33_dynamic_placement_needs_no_more_than_static_one() {
    let sheets = Sheet::thesis();
    let turns = turns();
    let load = load(10_000, &turns);
    let (dynamic, fixed) = (edt(&sheets, &load, Objective::Cost), est(&sheets, &load, Objective::Cost));
    assert!(dynamic.usd_fractional(&sheets) < fixed.usd_fractional(&sheets));
    let steady: Epochs = turns.iter().map(|_| turns[0].clone()).collect();
    let load = Workload { epochs: &steady, ..load };
    let (dynamic, fixed) = (edt(&sheets, &load, Objective::Cost), est(&sheets, &load, Objective::Cost));
    assert_eq!(dynamic.counts, fixed.counts, "a steady load needs no migration");
    for (dynamic, fixed) in dynamic.fractional.iter().zip(&fixed.fractional) {
        assert!((dynamic - fixed).abs() < 1e-9);
    }
}

#[test]
fn by_iops_a_stream_of_small_requests_needs_flash() {
    let sheets = Sheet::thesis();
    let epochs = vec![alike(10, 0, Demand::sequential(5.0, 8.0)).collect()];
    let load = load(1000, &epochs);
    assert_eq!(edt(&sheets, &load, Objective::Cost).counts, [0, 1, 1]);
    // 50 MB in requests of 8 KiB are 6,100 each second.
    assert_eq!(idt(&sheets, &load, Objective::Cost).counts, [2, 0, 1]);
}

#[test]
fn one_type_alone_is_sized_by_room_and_measured_peaks() {
    let sheets = Sheet::thesis();
    let count = |extents, demand: Demand| {
        let epochs = vec![vec![(0, Demand::default())], vec![(0, demand)]];
        homogeneous(&sheets, SAS, &load(extents, &epochs)).counts[SAS]
    };
    assert_eq!(count(71_562, Demand::default()), 11, "4,580 GB on 450 GB each");
    assert_eq!(count(1, Demand::random(291.0)), 2, "290 random requests each");
    assert_eq!(count(1, Demand::sequential(401.0, 64.0)), 3, "200 MB each");
}

#[test]
fn joint_sizing_trades_types_that_peak_in_turn() {
    let sheets = Sheet::thesis();
    // In turn 90 % of one SSD's time in random requests, and 75 % of a SAS drive's in streams.
    let random: Vec<_> = alike(300, 0, Demand::random(15.0)).collect();
    let streams: Vec<_> = alike(30, 0, Demand::sequential(2.0, 64.0)).collect();
    let epochs = vec![random.clone(), streams];
    let load = load(1000, &epochs);
    let most = edt(&sheets, &load, Objective::Cost);
    assert_eq!(most.counts, [1, 1, 1]);
    let joint = joint(&sheets, &load, Objective::Cost).expect("fewer devices are enough");
    assert_eq!(joint, [1, 0, 0], "both epochs, and all data, fit on one");
    let steady = vec![random];
    let load = Workload { epochs: &steady, extents: 20_000, ..load };
    assert_eq!(self::joint(&sheets, &load, Objective::Cost), Some(vec![1, 0, 2]), "data need room");
}

#[test]
fn joint_sizes_cost_no_more_and_each_epoch_packs() {
    let sheets = Sheet::thesis();
    for seed in 0..20 {
        let mut stream = stream(seed, "joint");
        let one = |stream: &mut Stream| (0..40).map(|extent| (extent, any_demand(stream))).collect::<Vec<_>>();
        let epochs: Epochs = (0..4).map(|_| one(&mut stream)).collect();
        let load = load(200, &epochs);
        if let Some(counts) = joint(&sheets, &load, Objective::Cost) {
            let price: f64 = counts.iter().zip(&sheets).map(|(count, sheet)| f64::from(*count) * sheet.usd).sum();
            assert!(price <= edt(&sheets, &load, Objective::Cost).usd(&sheets) + 1e-9);
        }
    }
}
