//! Which process gets the next huge page.

use super::*;
use crate::policy::Order;

/// Uses all regions of a process.
fn keep_busy(machine: &mut Machine, pid: Pid, regions: u64) {
    (0..regions).for_each(|region| machine.use_region(place(pid, region)));
}

#[test]
fn equal_workers_stay_within_one_quantum_while_in_turn_one_is_served_whole() {
    let spread = |order: Order| {
        let policy = Policy { order, ..Policy::ingens() };
        let (mut machine, mut manager) = (machine(&policy), Manager::new(policy, 1));
        let workers = [0; 3].map(|_| dense(&mut machine, SHARES, 80));
        let mut worst = 0;
        drive(&mut manager, &mut machine, 0..290, |machine, manager| {
            workers.iter().for_each(|pid| keep_busy(machine, *pid, 80));
            let huge = workers.map(|pid| manager.records().get(&pid).map_or(0, |record| record.huge.len()));
            worst = worst.max(huge.iter().max().unwrap() - huge.iter().min().unwrap());
        });
        assert!(manager.counts().promotions >= 200, "{:?}", manager.counts());
        worst
    };
    assert_eq!((spread(Order::Fair), spread(Order::RoundRobin)), (8, 80));
}

#[test]
fn a_scarce_budget_is_divided_by_shares() {
    let policy = Policy { budget: Some(1_200), quantum_sleep: Nanos::secs(1), ..Policy::ingens() };
    let (mut machine, mut manager) = (machine(&policy), Manager::new(policy, 1));
    let workers = [1, 2, 3].map(|shares| dense(&mut machine, shares * SHARES, 800));
    drive(&mut manager, &mut machine, 0..180, |machine, _| {
        workers.iter().for_each(|pid| keep_busy(machine, *pid, 800));
    });
    let huge = workers.map(|pid| huge_of(&manager, pid) as f64);
    assert_eq!(huge.iter().sum::<f64>(), 1_200.0);
    for (got, due) in huge.into_iter().zip([200.0, 400.0, 600.0]) {
        assert!((got / due - 1.0).abs() <= 0.05, "{huge:?}");
    }
}

#[test]
fn an_idle_process_gets_a_quarter_of_what_a_busy_one_gets() {
    let policy = Policy { budget: Some(1_000), ..Policy::ingens() };
    let (mut machine, mut manager) = (machine(&policy), Manager::new(policy, 1));
    let busy = dense(&mut machine, SHARES, 1_000);
    let idle = dense(&mut machine, SHARES, 1_000);
    drive(&mut manager, &mut machine, 0..1_300, |machine, _| keep_busy(machine, busy, 1_000));
    let (busy, idle) = (huge_of(&manager, busy) as f64, huge_of(&manager, idle) as f64);
    assert_eq!(busy + idle, 1_000.0);
    assert!((busy / idle / 4.0 - 1.0).abs() <= 0.1, "{busy} : {idle}");
}

#[test]
fn imbalance_falls_steadily_until_it_is_gone() {
    let policy = Policy { quantum_regions: 1, quantum_sleep: Nanos::secs(1), budget: Some(420), ..Policy::ingens() };
    let (mut machine, mut manager) = (machine(&policy), Manager::new(policy, 1));
    let rich = dense(&mut machine, SHARES, 140);
    (0..140).for_each(|region| assert!(machine.promote(place(rich, region)).result.is_ok()));
    let poor = [0; 2].map(|_| dense(&mut machine, SHARES, 140));
    let all = [rich, poor[0], poor[1]];
    let mut course = Vec::new();
    drive(&mut manager, &mut machine, 0..300, |machine, manager| {
        all.iter().for_each(|pid| keep_busy(machine, *pid, 140));
        // The first pages are whole multiples of what a poor one has.
        if poor.iter().all(|pid| manager.records().get(pid).is_some_and(|record| record.huge.len() > 12)) {
            course.push(manager.imbalance());
        }
    });
    let end = course.iter().position(|imbalance| *imbalance < 1e-3).expect("it comes to an end");
    assert!(end > 100 && course[..end].windows(2).all(|pair| pair[1] <= pair[0]), "{course:?}");
    assert!(course[end..].iter().all(|imbalance| *imbalance < 1e-3), "and stays there");
}

#[test]
fn contiguity_of_a_process_that_ends_is_spread_over_the_others() {
    let policy = Policy { budget: Some(240), quantum_sleep: Nanos::secs(1), ..Policy::ingens() };
    let (mut machine, mut manager) = (machine(&policy), Manager::new(policy, 1));
    let first = dense(&mut machine, SHARES, 240);
    drive(&mut manager, &mut machine, 0..40, |_, _| {});
    assert_eq!(huge_of(&manager, first), 240);
    let others = [0; 3].map(|_| dense(&mut machine, SHARES, 240));
    drive(&mut manager, &mut machine, 40..60, |_, _| {});
    assert_eq!(others.map(|pid| huge_of(&manager, pid)), [0; 3]);
    machine.exit(first);
    drive(&mut manager, &mut machine, 60..110, |machine, _| {
        others.iter().for_each(|pid| keep_busy(machine, *pid, 240));
    });
    assert_eq!(others.map(|pid| huge_of(&manager, pid)), [80; 3]);
}

/// The processes that faults ask for in these seconds, process by process: none of it is left to the background scan.
fn told_by_faults(told: &[(Time, Decision)]) -> bool {
    let by_scan = |decision: &Decision| matches!(decision, Decision::Changed { asker: Asker::Scan, .. });
    !told.iter().any(|(_, decision)| by_scan(decision))
}

/// A policy under which processes get huge pages by faults only.
fn faults_alone(budget: Option<u64>) -> Policy {
    Policy { budget, quantum_sleep: Nanos::secs(3_600), ..Policy::ingens() }
}

#[test]
fn a_budget_that_does_not_suffice_for_all_faults_is_divided_by_shares_and_not_by_who_came_first() {
    let policy = faults_alone(Some(400));
    let (mut machine, mut manager) = (machine(&policy), Manager::new(policy, 1));
    let [poor, rich] = [1, 3].map(|shares| machine.spawn(shares * SHARES));
    drive(&mut manager, &mut machine, 0..1, |_, _| {});
    machine.fill(poor, 0..400).expect("memory suffices");
    machine.fill(rich, 0..400).expect("memory suffices");
    let told = drive(&mut manager, &mut machine, 1..3, |_, _| {});
    assert_eq!([poor, rich].map(|pid| huge_of(&manager, pid)), [100, 300]);
    assert!(told_by_faults(&told));
}

#[test]
fn who_asks_while_another_is_served_comes_next_until_both_have_as_much() {
    let policy = faults_alone(Some(300));
    let (mut machine, mut manager) = (machine(&policy), Manager::new(policy, 1));
    let [first, second] = [0; 2].map(|_| machine.spawn(SHARES));
    drive(&mut manager, &mut machine, 0..1, |_, _| {});
    machine.fill(first, 0..300).expect("memory suffices");
    let mut run = |machine: &mut Machine, from: u64, millis: u64| {
        let from = Time(from * 1_000_000);
        sim::run(&mut manager, machine, from, from + Nanos::millis(millis), &mut |_, _| {});
        [first, second].map(|pid| huge_of(&manager, pid))
    };
    let before = run(&mut machine, 1_000, 50);
    assert!((50..150).contains(&before[0]) && before[1] == 0, "{before:?}");
    machine.fill(second, 0..300).expect("memory suffices");
    let served = run(&mut machine, 1_050, 30);
    assert!(served[0] <= before[0] + 1 && served[1] > 30, "{before:?}, {served:?}");
    assert_eq!(run(&mut machine, 1_080, 1_000), [150; 2]);
}

#[test]
fn what_becomes_free_is_for_who_waits_and_not_for_who_gave_it_back_and_asks_again() {
    let policy = faults_alone(Some(200));
    let (mut machine, mut manager) = (machine(&policy), Manager::new(policy, 1));
    let [first, second] = [0; 2].map(|_| machine.spawn(SHARES));
    machine.fill(first, 0..200).expect("memory suffices");
    drive(&mut manager, &mut machine, 0..1, |_, _| {});
    machine.fill(second, 0..200).expect("memory suffices");
    drive(&mut manager, &mut machine, 1..2, |_, _| {});
    assert_eq!([first, second].map(|pid| huge_of(&manager, pid)), [200, 0], "nothing is taken away");
    (0..50).for_each(|region| machine.unmap(place(first, region)));
    machine.fill(first, 1_000..1_050).expect("memory suffices");
    // The next scan of access bits sees that they are gone.
    drive(&mut manager, &mut machine, 2..30, |machine, _| keep_busy(machine, first, 1_050));
    assert_eq!([first, second].map(|pid| huge_of(&manager, pid)), [150, 50]);
    assert_eq!(manager.waiting(), 200, "the others wait on");
}

#[test]
fn faults_of_who_leaves_its_huge_pages_idle_come_after_those_of_who_uses_them() {
    let policy = faults_alone(Some(300));
    let (mut machine, mut manager) = (machine(&policy), Manager::new(policy, 1));
    let [idle, busy] = [0; 2].map(|_| machine.spawn(SHARES));
    [idle, busy].into_iter().for_each(|pid| assert!(machine.fill(pid, 0..100).is_some()));
    // It is awake, and uses one page of all.
    drive(&mut manager, &mut machine, 0..600, |machine, _| {
        keep_busy(machine, busy, 100);
        machine.use_region(place(idle, 0));
    });
    [idle, busy].into_iter().for_each(|pid| assert!(machine.fill(pid, 100..300).is_some()));
    drive(&mut manager, &mut machine, 600..602, |_, _| {});
    // 200 in use count as 50 idle ones.
    assert_eq!([idle, busy].map(|pid| huge_of(&manager, pid)), [100, 200]);
}

#[test]
fn where_there_is_plenty_the_poorest_claim_is_answered_within_a_tenth_of_a_second() {
    let policy = faults_alone(None);
    let (mut machine, mut manager) = (machine(&policy), Manager::new(policy, 1));
    let large = machine.spawn(1);
    machine.fill(large, 0..1_000).expect("memory suffices");
    let small = machine.spawn(1_000 * SHARES);
    machine.fill(small, 0..1).expect("memory suffices");
    drive(&mut manager, &mut machine, 0..3, |_, _| {});
    assert_eq!(huge_of(&manager, large), 1_000);
    for second in 3..23 {
        machine.fill(large, 1_000 + second..1_001 + second).expect("memory suffices");
        machine.fill(small, second..second + 1).expect("memory suffices");
        let from = Time(second * 1_000_000_000);
        sim::run(&mut manager, &mut machine, from, from + Nanos::millis(100), &mut |_, _| {});
        assert!(machine.is_huge(place(large, 1_000 + second)) && machine.is_huge(place(small, second)));
    }
}
