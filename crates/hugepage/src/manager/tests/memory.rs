//! Demotion, bloat, fragmentation and compaction.

use super::*;

#[test]
fn a_few_freed_pages_leave_a_huge_page_and_many_are_given_back() {
    let policy = Policy { cooldown: Nanos(1), ..Policy::ingens() };
    let (mut machine, mut manager) = (machine(&policy), Manager::new(policy, 1));
    let pid = dense(&mut machine, SHARES, 1);
    drive(&mut manager, &mut machine, 0..1, |_, _| {});
    (0..10).for_each(|page| machine.free(pid, page));
    drive(&mut manager, &mut machine, 1..200, |_, _| {});
    assert_eq!((huge_of(&manager, pid), machine.resident(pid)), (1, 2 << 20));
    (10..77).for_each(|page| machine.free(pid, page));
    drive(&mut manager, &mut machine, 200..201, |_, _| {});
    assert_eq!((huge_of(&manager, pid), machine.resident(pid)), (0, (512 - 77) * 4096));
}

#[test]
fn linux_without_deferral_splits_at_the_first_free() {
    let policy = Policy::ingens();
    let mut machine = machine(&policy);
    machine = Machine::new(machine.physical.clone(), Costs::MEASURED, policy.promote, policy.demote, Freeing::Splits);
    machine.set_greedy(true);
    let pid = dense(&mut machine, SHARES, 1);
    assert_eq!((machine.huge(pid).len(), machine.huge_faults), (1, 1));
    machine.free(pid, 7);
    assert_eq!((machine.huge(pid).len(), machine.resident(pid)), (0, 511 * 4096));
}

#[test]
fn a_page_that_comes_and_goes_costs_one_split_and_one_collapse_in_a_cool_down() {
    let policy = Policy { demote: Policy::ingens().promote, ..Policy::ingens() };
    let (mut machine, mut manager) = (machine(&policy), Manager::new(policy, 1));
    let pid = machine.spawn(SHARES);
    (0..461).for_each(|page| assert!(machine.touch(pid, page).is_some()));
    let mut told = Vec::new();
    for step in 0..6_000u64 {
        match step % 2 {
            0 => machine.free(pid, 460),
            _ => drop(machine.touch(pid, 460)),
        }
        let now = Time(step * 10_000_000);
        sim::run(&mut manager, &mut machine, now, now + Nanos::millis(10), &mut |at, d| told.push((at, *d)));
    }
    let changed: Vec<Time> =
        told.iter().filter(|(_, d)| matches!(d, Decision::Changed { .. })).map(|(at, _)| *at).collect();
    assert!(changed.len() >= 4, "it does flip: {changed:?}");
    for (at, first) in changed.iter().enumerate() {
        let within = changed[at..].iter().take_while(|later| later.since(*first) < policy.cooldown).count();
        assert!(within <= 2, "{within} changes within a cool-down");
    }
}

#[test]
fn memory_is_compacted_from_the_trigger_on_and_not_more_often_than_the_interval() {
    for (fragmentation, interval, expected) in [(0.79, 5, 0), (0.80, 5, 12), (0.80, 0, 0)] {
        let policy = Policy { compact_interval: Nanos::secs(interval), ..Policy::ingens() };
        let (mut machine, mut manager) = (machine(&policy), Manager::new(policy, 1));
        machine.said_fragmentation = Some(fragmentation);
        drive(&mut manager, &mut machine, 0..60, |_, _| {});
        assert_eq!(machine.compactions.len(), expected, "{fragmentation}, every {interval} s");
        assert!(machine.compactions.windows(2).all(|pair| pair[1].since(pair[0]) >= Nanos::secs(5)));
    }
}

#[test]
fn faults_are_greedy_while_contiguity_is_plentiful_and_modes_change_once_an_interval() {
    let policy = Policy { greedy_below: Some(0.5), ..Policy::ingens() };
    let (mut machine, mut manager) = (machine(&policy), Manager::new(policy, 1));
    machine.said_fragmentation = Some(0.49);
    drive(&mut manager, &mut machine, 0..6, |_, _| {});
    assert!(machine.is_greedy() && manager.is_greedy());
    machine.said_fragmentation = Some(0.51);
    drive(&mut manager, &mut machine, 6..12, |_, _| {});
    assert!(!machine.is_greedy());
    let mut flips = false;
    let told = drive(&mut manager, &mut machine, 12..72, |machine, _| {
        flips = !flips;
        machine.said_fragmentation = Some(if flips { 0.49 } else { 0.51 });
    });
    let switched: Vec<Time> =
        told.iter().filter(|(_, d)| matches!(d, Decision::Greedy { .. })).map(|(at, _)| *at).collect();
    assert!(switched.len() > 2 && switched.windows(2).all(|pair| pair[1].since(pair[0]) >= Nanos::secs(5)));
}

/// Memory over base pages after faults and scans, for regions of random use.
fn bloat(promote: i64) -> f64 {
    let promote = crate::Threshold::percent(promote).unwrap();
    let policy = Policy { promote, demote: promote, ..Policy::tiny() };
    let (mut machine, mut manager) = (machine(&policy), Manager::new(policy, 1));
    let pid = machine.spawn(SHARES);
    let mut rng = Stream::named(1, "bloat");
    let mut touched = 0;
    for region in 0..200u64 {
        for page in 0..1 + rng.below(PAGES) {
            touched += 1;
            machine.touch(pid, region * PAGES + page).unwrap();
        }
    }
    drive(&mut manager, &mut machine, 0..3, |_, _| {});
    machine.resident(pid) as f64 / (touched as f64 * 4096.0)
}

#[test]
fn bloat_grows_as_the_threshold_falls_and_stays_within_its_bound() {
    let seen = [100, 90, 70, 50, 1].map(bloat);
    assert!(seen.windows(2).all(|pair| pair[0] < pair[1]), "{seen:?}");
    for (percent, bloat) in [(100, seen[0]), (90, seen[1]), (70, seen[2]), (50, seen[3])] {
        assert!(bloat <= 100.0 / f64::from(percent), "{bloat} at {percent} %");
    }
}
