//! Access bits, heat and what is predicted from it.

use super::*;

/// Back-to-back scans of 2 s.
fn scanning() -> Policy {
    Policy { scan_period: Nanos::secs(2), quantum_regions: 512, quantum_sleep: Nanos::secs(1), ..Policy::ingens() }
}

#[test]
fn after_eight_scans_a_known_fifth_is_hot_and_the_rest_is_not() {
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
fn a_steady_load_is_predicted_well() {
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
    let heat = after.heat_since(&before);
    assert!(heat.hot_checked > 5_000 && heat.hot_missed == 0, "{heat:?}");
    assert!(after.misprediction().is_some_and(|ratio| ratio > 0.0), "pages that went cold at first were missed");
}

#[test]
fn what_becomes_huge_is_not_judged_by_its_first_scan() {
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
        if let Some((_, watched)) = &manager.reading
            && let Some(Watched::Bits { cleared: regions, .. }) = watched.get(&pid)
        {
            cleared.push(regions.len());
        }
    });
    let later = &cleared[50..];
    let mean = later.iter().sum::<usize>() as f64 / later.len() as f64;
    assert!((80.0..120.0).contains(&mean), "{mean} of 500");
}

#[test]
fn nothing_is_cleared_for_who_is_asleep_until_it_wakes_up() {
    let policy = scanning();
    let (mut machine, mut manager) = (machine(&policy), Manager::new(policy, 1));
    let (pid, _) = (dense(&mut machine, SHARES, 100), dense(&mut machine, SHARES, 1));
    let work = |machine: &mut Machine, _: &Manager| (0..100).for_each(|region| machine.use_region(place(pid, region)));
    let idle = |manager: &Manager| manager.records()[&pid].claim(&policy.tracking).idle;
    drive(&mut manager, &mut machine, 0..60, work);
    assert_eq!(idle(&manager), 0);
    // The scan that is under way, and the one that finds it asleep.
    drive(&mut manager, &mut machine, 60..64, |_, _| {});
    let before = machine.cleared;
    drive(&mut manager, &mut machine, 64..120, |_, _| {});
    assert_eq!((machine.cleared, idle(&manager)), (before, 100), "it is known to be idle, at no cost");
    drive(&mut manager, &mut machine, 120..150, work);
    assert!(machine.cleared > before && idle(&manager) == 0, "{} cleared, {} idle", machine.cleared, idle(&manager));
}

#[test]
fn a_scan_that_may_clear_few_bits_comes_to_all_pages_in_turn() {
    let policy = Policy { scan_regions: 30, ..scanning() };
    let (mut machine, mut manager) = (machine(&policy), Manager::new(policy, 1));
    let busy = dense(&mut machine, SHARES, 100);
    let other = dense(&mut machine, SHARES, 10);
    let mut most = 0;
    drive(&mut manager, &mut machine, 0..600, |machine, _| {
        most = most.max(std::mem::take(&mut machine.cleared));
        (0..50).for_each(|region| machine.use_region(place(busy, region)));
        machine.use_region(place(other, 0));
    });
    assert_eq!(most, 25, "15 of 100, and all of the other's 10");
    let idle = |pid| manager.records()[&pid].claim(&policy.tracking).idle;
    assert_eq!((idle(busy), idle(other)), (50, 9));
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
