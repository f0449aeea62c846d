//! Tests of throttling arrays and their relief.

use super::*;
use crate::control::{Backoff, Corrector, MIGRATION_SHARE, Phase, epoch_s, fell_below, moves_max};
use crate::sheet::{SAS, SATA, SSD};
use crate::throttle::{LIMITS, Minute, Throttle, relief, shed};

fn minute(iops: f64, response_s: f64) -> Minute {
    Minute { iops, random: 1.0, mb: 0.0, response_s }
}

#[test]
fn item_41_the_expected_service_is_that_of_the_mix() {
    let sata = &Sheet::thesis()[SATA];
    let mixed = Minute { iops: 50.0, random: 0.5, mb: 0.5, response_s: 0.018 };
    assert!((mixed.service_s(sata) - 0.009).abs() < 1e-12);
    assert!((mixed.ratio(sata) - 2.0).abs() < 1e-9);
}

#[test]
fn item_41_an_array_throttles_above_nine_times_its_service_and_until_six_times() {
    let sata = &Sheet::thesis()[SATA];
    let mut throttle = Throttle::new(LIMITS);
    let steps = [(8.9, false), (9.1, true), (6.1, true), (5.9, false), (6.1, false), (8.9, false)];
    for (ratio, throttles) in steps {
        assert_eq!(throttle.look(&minute(50.0, 0.009 * ratio), sata), throttles, "{ratio} times the service");
        assert_eq!(throttle.throttles(), throttles);
    }
    assert!(!throttle.look(&minute(10.0, 1.0), sata), "ten requests per second say nothing");
    assert!(throttle.look(&minute(10.1, 1.0), sata));
    assert!(!throttle.look(&minute(3.0, 1.0), sata), "few requests release it");
}

#[test]
fn item_41_relief_is_the_least_set_with_half_of_the_load() {
    let mut stream = stream(41, "relief");
    for _ in 0..500 {
        let loads: Vec<f64> = (0..1 + stream.below(9)).map(|_| stream.unit()).collect();
        let chosen = relief(&loads);
        let half = loads.iter().sum::<f64>() / 2.0;
        let sum: f64 = chosen.iter().map(|at| loads[*at as usize]).sum();
        assert!(sum >= half - 1e-9, "{sum} of {half}");
        let least = (0..1u32 << loads.len())
            .filter(|set| (0..loads.len()).filter(|at| set >> at & 1 == 1).map(|at| loads[at]).sum::<f64>() >= half)
            .map(u32::count_ones)
            .min();
        assert_eq!(Some(chosen.len() as u32), least, "{loads:?}");
    }
    assert_eq!(relief(&[0.25; 4]), [0, 1], "half is enough");
    assert!(relief(&[]).is_empty() && relief(&[0.0]).is_empty());
}

#[test]
fn item_41_the_corrector_sheds_half_and_wakes_an_array_for_it() {
    let sheets = Sheet::thesis();
    let mut arrays = arrays(&[(SSD, 1, 10), (SAS, 1, 10), (SATA, 1, 10)]);
    arrays[SSD].is_powered = false;
    let extents = extents(&[
        (2, Demand::random(40.0)),
        (2, Demand::random(30.0)),
        (2, Demand::random(20.0)),
        (2, Demand::random(10.0)),
    ]);
    let epoch = epoch(&sheets, &arrays, &extents);
    let relieved = shed(&epoch, 2, &[false, false, true], Objective::Cost, 1.0);
    let moved: Vec<(u32, u32)> = relieved.moves.iter().map(|moved| (moved.extent, moved.to)).collect();
    assert_eq!(moved, [(0, 0), (1, 0)], "the two largest hold 70 %, one alone 40 %");
    assert_eq!((relieved.woken, relieved.saturated), (vec![0], vec![]));
}

#[test]
fn item_41_arrays_that_are_awake_come_before_those_at_rest() {
    let sheets = Sheet::thesis();
    let mut arrays = arrays(&[(SSD, 1, 10), (SSD, 1, 10), (SATA, 1, 10)]);
    arrays[0].is_powered = false;
    let extents = extents(&[(2, Demand::random(40.0)), (2, Demand::random(1.0))]);
    let relieved = shed(&epoch(&sheets, &arrays, &extents), 2, &[false, false, true], Objective::Cost, 1.0);
    assert_eq!((relieved.moves[0].to, relieved.woken.len()), (1, 0));
}

#[test]
fn an_extent_without_a_target_stays_and_is_told() {
    let sheets = Sheet::thesis();
    let mut full = arrays(&[(SSD, 1, 3), (SATA, 1, 10)]);
    full[0].idle = 3;
    let one = extents(&[(1, Demand::random(90.0))]);
    let relieved = shed(&epoch(&sheets, &full, &one), 1, &[false, true], Objective::Cost, 1.0);
    assert_eq!((relieved.moves.len(), relieved.saturated), (0, vec![0]), "no room");
    let free = arrays(&[(SSD, 1, 3), (SATA, 1, 10)]);
    let relieved = shed(&epoch(&sheets, &free, &one), 1, &[true, true], Objective::Cost, 1.0);
    assert_eq!(relieved.saturated, [0], "the other array throttles too");
    let relieved = shed(&epoch(&sheets, &free, &one), 1, &[false, true], Objective::Cost, 60.0);
    assert_eq!(relieved.saturated, [0], "60 times as much is more than a device");
}

#[test]
fn pressure_chooses_the_type_of_the_hidden_demand() {
    let sheets = Sheet::thesis();
    let arrays = arrays(&[(SSD, 1, 10), (SATA, 1, 10), (SATA, 1, 10)]);
    let clipped = extents(&[(1, Demand::random(0.02))]);
    let to = |pressure| {
        shed(&epoch(&sheets, &arrays, &clipped), 1, &[false, true, false], Objective::Cost, pressure).moves[0].to
    };
    assert_eq!((to(1.0), to(20.0)), (2, 0));
}

#[test]
fn item_42_correction_drops_the_plan_and_planning_returns_one_epoch_after_the_last_throttle() {
    let mut corrector = Corrector::new(300.0);
    assert!(corrector.may_plan());
    let turn = corrector.look(60.0, true);
    assert_eq!((turn.phase, turn.drops_plan), (Phase::Correcting, true));
    assert!(!corrector.look(120.0, true).drops_plan, "there is no plan to drop");
    assert_eq!(corrector.look(180.0, false).phase, Phase::Calm { since_s: 180.0 });
    assert_eq!(corrector.look(479.0, false).phase, Phase::Calm { since_s: 180.0 });
    assert!(!corrector.may_plan());
    assert_eq!(corrector.look(479.5, true).phase, Phase::Correcting, "it throttles again");
    corrector.look(540.0, false);
    assert!(!corrector.may_plan());
    corrector.look(839.0, false);
    assert!(!corrector.may_plan(), "an epoch has not passed");
    assert_eq!(corrector.look(840.0, false).phase, Phase::Packing);
    assert!(corrector.may_plan());
}

#[test]
fn item_46_an_unstable_load_halves_the_budget_and_a_stable_one_doubles_it() {
    let mut backoff = Backoff::new(100);
    let mut budgets = Vec::new();
    for (moved, fallen) in [(100, 51), (50, 50), (25, 12), (50, 25), (100, 100), (0, 0)] {
        backoff.judge(moved, fallen);
        budgets.push(backoff.budget());
    }
    assert_eq!(budgets, [50, 25, 50, 100, 50, 50], "exactly half is success, and nothing moved says nothing");
    (0..20).for_each(|_| backoff.judge(1, 1));
    assert_eq!(backoff.budget(), 1);
}

#[test]
fn item_46_an_extent_falls_below_its_break_even() {
    let [ssd, sas, _] = Sheet::thesis();
    let fell = |per_s| fell_below(Objective::Cost, EXTENT, &Demand::random(per_s), &sas, &ssd);
    assert_eq!((fell(0.12), fell(0.13)), (true, false));
}

#[test]
fn an_epoch_is_as_long_as_its_moves_need_within_their_share() {
    // 120 extents of 64 MB within a tenth of 100 MB per second.
    let seconds = epoch_s(120, EXTENT, 100.0, MIGRATION_SHARE);
    assert!((seconds - 768.0).abs() < 1e-9);
    assert_eq!(moves_max(seconds + 1e-6, EXTENT, 100.0, MIGRATION_SHARE), 120);
}
