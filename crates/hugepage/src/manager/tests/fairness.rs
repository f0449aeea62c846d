//! Who gets the next huge page.

use super::*;

/// Uses all regions of a process.
fn keep_busy(machine: &mut Machine, pid: Pid, regions: u64) {
    (0..regions).for_each(|region| machine.use_region(place(pid, region)));
}

#[test]
fn item_32_equal_workers_stay_within_one_quantum_while_in_turn_one_is_served_whole() {
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
    assert_eq!((spread(Order::Fair), spread(Order::InTurn)), (8, 80));
}

#[test]
fn item_33_a_scarce_budget_is_divided_by_shares() {
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
fn item_34_an_idle_process_gets_a_quarter_of_what_a_busy_one_gets() {
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
fn item_35_imbalance_falls_steadily_until_it_is_gone() {
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
fn item_36_contiguity_of_a_process_that_ends_is_spread_over_the_others() {
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
