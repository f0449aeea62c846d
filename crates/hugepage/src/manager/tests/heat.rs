//! Access bits, heat and what is predicted from it.

use super::*;

/// Back-to-back scans of 2 s.
fn scanning() -> Policy {
    Policy { scan_period: Nanos::secs(2), quantum_regions: 512, quantum_sleep: Nanos::secs(1), ..Policy::ingens() }
}

#[test]
fn item_21_after_eight_scans_a_known_fifth_is_hot_and_the_rest_is_not() {
    let policy = scanning();
    let (mut machine, mut manager) = (machine(&policy), Manager::new(policy, 1));
    let pid = dense(&mut machine, SHARES, 512);
    // Five intervals more than eight on average until a page that was hot is cleared, as only a fifth of those is.
    drive(&mut manager, &mut machine, 0..100, |machine, _| {
        (0..512).step_by(5).for_each(|region| machine.use_region(place(pid, region)));
    });
    let record = &manager.records()[&pid];
    assert_eq!(record.huge.len(), 512);
    for (region, access) in &record.huge {
        assert_eq!(access.is_hot(&policy.tracking), region.0 % 5 == 0, "{region:?}: {}", access.frequency());
    }
}

#[test]
fn item_24_a_steady_load_is_predicted_well() {
    let policy = scanning();
    let (mut machine, mut manager) = (machine(&policy), Manager::new(policy, 1));
    let pid = dense(&mut machine, SHARES, 200);
    let mut busy = |machine: &mut Machine, _: &Manager| {
        (0..100).for_each(|region| machine.use_region(place(pid, region)));
    };
    drive(&mut manager, &mut machine, 0..200, &mut busy);
    let before = manager.counts();
    drive(&mut manager, &mut machine, 200..1_200, busy);
    let after = manager.counts();
    let (checked, missed) = (after.hot_checked - before.hot_checked, after.hot_missed - before.hot_missed);
    assert!(checked > 5_000 && missed == 0, "{missed} of {checked}");
    assert!(after.misprediction().is_some_and(|ratio| ratio > 0.0), "pages that went cold at first were missed");
}

#[test]
fn item_25_what_becomes_huge_is_not_judged_by_its_first_scan() {
    let policy = Policy { clear_hot_permille: 1000, ..scanning() };
    let (mut machine, mut manager) = (machine(&policy), Manager::new(policy, 1));
    let pid = dense(&mut machine, SHARES, 1);
    let frequency = |manager: &Manager| manager.records()[&pid].huge[&Region(0)].frequency();
    let mut course = Vec::new();
    drive(&mut manager, &mut machine, 0..20, |_, manager| {
        if manager.records().get(&pid).is_some_and(|record| !record.huge.is_empty()) {
            course.push(frequency(manager));
        }
    });
    course.dedup();
    assert!(course.len() > 3 && course[0] == 8.0 && course[1] > 7.5, "{course:?}");
    assert_eq!(manager.records()[&pid].claim(&policy.tracking).idle, 1, "at last it is idle");
}

#[test]
fn a_fifth_of_hot_pages_is_cleared_in_a_scan() {
    let policy = scanning();
    let (mut machine, mut manager) = (machine(&policy), Manager::new(policy, 1));
    let pid = dense(&mut machine, SHARES, 500);
    let mut cleared = Vec::new();
    drive(&mut manager, &mut machine, 0..400, |machine, manager| {
        (0..500).for_each(|region| machine.use_region(place(pid, region)));
        if let Some((_, regions)) = &manager.reading {
            cleared.push(regions.get(&pid).map_or(0, Vec::len));
        }
    });
    let later = &cleared[50..];
    let mean = later.iter().sum::<usize>() as f64 / later.len() as f64;
    assert!((80.0..120.0).contains(&mean), "{mean} of 500");
}

#[test]
fn runs_repeat_under_one_seed() {
    let run = |seed| {
        let policy = scanning();
        let (mut machine, mut manager) = (machine(&policy), Manager::new(policy, seed));
        let pid = dense(&mut machine, SHARES, 100);
        drive(&mut manager, &mut machine, 0..100, |machine, _| {
            (0..50).for_each(|region| machine.use_region(place(pid, region)));
        });
        manager.counts()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}
