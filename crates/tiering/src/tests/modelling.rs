//! Tests of the model and its objectives.

use super::*;
use crate::model::{Dimension, break_even, consumption, overtakes, performance};
use crate::sheet::{SAS, SATA, SSD, SSD_WATTS_OF_RESULTS, peak_w, usd};

fn near(value: f64, printed: f64) {
    assert!((value / printed - 1.0).abs() <= 1e-3, "{value} is not the printed {printed}");
}

fn row(of: impl Fn(&Sheet) -> f64, printed: [f64; 3]) {
    Sheet::thesis().iter().zip(printed).for_each(|(sheet, printed)| near(of(sheet), printed));
}

#[test]
fn item_28_shares_costs_and_burdens_are_those_of_the_derived_table() {
    let (idle, one) = (Demand::default(), Demand::random(1.0));
    let stream = Demand { mb_per_s: 1.0, ..Demand::default() };
    // Performance alone: an extent of no bytes.
    let weighs =
        |objective: Objective, demand, bytes: f64| move |sheet: &Sheet| objective.burden(&demand, bytes, sheet);
    row(|sheet| sheet.capacity(EXTENT), [3.556e-4, 1.422e-4, 6.40e-5]);
    row(weighs(Objective::Cost, idle, EXTENT), [0.15289, 0.04622, 0.01088]);
    row(weighs(Objective::Cost, one, 0.0), [0.0860, 1.2188, 1.5300]);
    row(weighs(Objective::Cost, stream, 0.0), [4.300, 1.300, 1.530]);
    row(weighs(Objective::Power, idle, EXTENT), [3.556e-4, 2.460e-3, 7.424e-4]);
    row(weighs(Objective::Power, one, 0.0), [2.0e-4, 6.488e-2, 0.1044]);
    row(weighs(Objective::Power, stream, 0.0), [0.0100, 0.0692, 0.1044]);
    let overtaking = |sheet: &Sheet| overtakes(Dimension::Random, EXTENT, sheet);
    row(overtaking, [1.778, 0.03793, 0.007111]);
}

#[test]
fn item_28_break_evens_are_the_printed_ones() {
    let [ssd, sas, sata] = Sheet::thesis();
    let cost = |low, high, by| break_even(low, high, by, EXTENT, Objective::Cost);
    near(cost(&sata, &sas, Dimension::Random).unwrap(), 0.0302);
    near(cost(&sas, &ssd, Dimension::Random).unwrap(), 0.1254);
    near(cost(&sata, &sas, Dimension::Sequential).unwrap(), 0.0302);
    assert_eq!(cost(&sas, &ssd, Dimension::Sequential), None, "a stream is never cheaper on flash");
    assert_eq!(break_even(&sas, &ssd, Dimension::Random, EXTENT, Objective::Power), None, "flash always draws less");
}

#[test]
fn a_break_even_is_where_both_burdens_are_equal() {
    let [ssd, sas, sata] = Sheet::thesis();
    for (low, high) in [(&sata, &sas), (&sas, &ssd), (&sata, &ssd)] {
        for objective in [Objective::Cost, Objective::CostThenPower, Objective::Resources] {
            if let Some(at) = break_even(low, high, Dimension::Random, EXTENT, objective) {
                let burden = |per_s: f64, sheet| objective.burden(&Demand::random(per_s as f32), EXTENT, sheet);
                assert!(burden(at * 0.999, low) < burden(at * 0.999, high), "{objective:?} below");
                assert!(burden(at * 1.001, low) > burden(at * 1.001, high), "{objective:?} above");
            }
        }
    }
}

#[test]
fn item_28_an_extent_takes_the_larger_of_its_time_and_its_room() {
    let [ssd, ..] = Sheet::thesis();
    near(consumption(&Demand::random(1.0), EXTENT, &ssd), 3.556e-4);
    near(consumption(&Demand::random(100.0), EXTENT, &ssd), 0.02);
    let both = Demand { mb_per_s: 3.0, ..Demand::random(100.0) };
    near(performance(&both, &ssd), 0.05);
}

#[test]
fn item_29_idle_extents_random_ones_and_streams_have_their_types() {
    let sheets = Sheet::thesis();
    let best = |demand: Demand| Objective::Cost.best(&demand, EXTENT, &sheets, &[1; 3]);
    assert_eq!(best(Demand::default()), Some(SATA));
    assert_eq!(best(Demand::random(1.0)), Some(SSD));
    assert_eq!(best(Demand::sequential(10.0, 64.0)), Some(SAS));
    assert_eq!(best(Demand::random(0.03)), Some(SATA), "below the first break-even");
    assert_eq!(best(Demand::random(0.031)), Some(SAS), "above it");
    assert_eq!(best(Demand::random(0.126)), Some(SSD), "above the second one");
}

#[test]
fn with_the_printed_watts_power_always_answers_flash() {
    let sheets = Sheet::thesis();
    let mut stream = stream(1, "watts");
    for _ in 0..10_000 {
        let (demand, bytes) = (any_demand(&mut stream), 1e6 * 10f64.powf(stream.unit() * 4.0));
        let devices = [u32::MAX; 3];
        assert_eq!(Objective::Power.best(&demand, bytes, &sheets, &devices), Some(SSD), "{demand:?}, {bytes} bytes");
    }
    assert_eq!(Objective::Power.best(&Demand::default(), EXTENT, &sheets, &[1; 3]), Some(SSD));
}

#[test]
fn power_decides_between_types_of_nearly_one_price() {
    let [_, sas, sata] = Sheet::thesis();
    let frugal = Sheet { usd: sata.usd * 1.03, active_w: sata.active_w / 2.0, ..sata.clone() };
    let best = |objective: Objective, sheets: &[Sheet]| objective.best(&Demand::default(), EXTENT, sheets, &[1; 2]);
    let near = [sata.clone(), frugal];
    assert_eq!(best(Objective::Cost, &near), Some(0));
    assert_eq!(best(Objective::CostThenPower, &near), Some(1));
    assert_eq!(best(Objective::CostThenPower, &[sas, sata]), Some(1), "a price four times as high is not near");
}

#[test]
fn objectives_are_found_by_name() {
    for (name, objective) in Objective::NAMED {
        assert_eq!(Objective::by_name(name), Some(objective));
    }
    assert_eq!(Objective::by_name("beauty"), None);
}

#[test]
fn the_model_and_the_measured_peaks_are_two_things() {
    row(|sheet| 1.0 / sheet.rtime_s, [5000.0, 266.67, 111.11]);
    row(|sheet| sheet.iops, [5000.0, 290.0, 135.0]);
    row(|sheet| 1.0 / sheet.xtime_s_per_mb, [100.0, 250.0, 111.11]);
    row(|sheet| sheet.mb_per_s, [90.0, 200.0, 105.0]);
}

#[test]
fn item_30_prices_and_peak_powers_are_sums_of_the_sheet() {
    let mut sheets = Sheet::thesis();
    assert_eq!(usd(&sheets, &[3.0, 2.0, 4.0]), 2620.0);
    near(peak_w(&sheets, &[1.0, 2.0, 1.0]), 47.2);
    sheets[SSD].active_w = SSD_WATTS_OF_RESULTS;
    near(peak_w(&sheets, &[2.0, 2.0, 1.0]), 46.6);
}

#[test]
fn writes_that_take_longer_make_a_random_request_longer() {
    let ssd = Sheet { rtime_write_s: 0.004, ..Sheet::thesis()[SSD].clone() };
    near(ssd.with_writes(0.5).rtime_s, 0.0021);
    assert_eq!(ssd.with_writes(0.0).rtime_s, ssd.rtime_s);
}
