//! Requests of faults, the background scan and its pace.

use super::*;

fn changes(told: &[(Time, Decision)]) -> Vec<(Time, RegionAddress, Asker)> {
    let change = |(at, decision): &(Time, Decision)| match decision {
        Decision::Changed { place, asker, promoted: true, .. } => Some((*at, *place, *asker)),
        _ => None,
    };
    told.iter().filter_map(change).collect()
}

#[test]
fn the_461st_page_is_answered_at_once_and_not_by_the_scan() {
    let policy = Policy { quantum_sleep: Nanos::secs(3_600), ..Policy::ingens() };
    let (mut machine, mut manager) = (machine(&policy), Manager::new(policy, 1));
    let pid = machine.spawn(SHARES);
    (0..460).for_each(|page| assert!(machine.touch(pid, page).is_some()));
    assert_eq!(changes(&drive(&mut manager, &mut machine, 0..5, |_, _| {})), []);
    machine.touch(pid, 460);
    let told = changes(&drive(&mut manager, &mut machine, 5..6, |_, _| {}));
    assert!(matches!(told[..], [(at, _, Asker::Signal)] if at < Time(5_100_000_000)), "{told:?}");
    assert_eq!((machine.huge_faults, machine.resident(pid)), (0, 2 << 20));
}

#[test]
fn a_region_is_promoted_once_however_often_it_is_asked_for() {
    let policy = Policy::ingens();
    let (mut machine, mut manager) = (machine(&policy), Manager::new(policy, 1));
    let pid = dense(&mut machine, SHARES, 1);
    for _ in 0..5 {
        manager.urgent.ask(place(pid, 0));
    }
    assert_eq!(changes(&drive(&mut manager, &mut machine, 0..30, |_, _| {})).len(), 1);
}

#[test]
fn faults_come_before_a_long_scan() {
    let policy = Policy { quantum_regions: 1_000, ..Policy::ingens() };
    let (mut machine, mut manager) = (machine(&policy), Manager::new(policy, 1));
    dense(&mut machine, SHARES, 1_000);
    let mut told = Vec::new();
    sim::run(&mut manager, &mut machine, Time(0), Time(50_000_000), &mut |at, d| told.push((at, *d)));
    assert!(changes(&told).len() > 10, "the scan is under way");
    let urgent = machine.spawn(SHARES);
    machine.fill(urgent, 0..100).unwrap();
    let mut told = Vec::new();
    sim::run(&mut manager, &mut machine, Time(50_000_000), Time(1_000_000_000), &mut |at, d| told.push((at, *d)));
    let seen = changes(&told);
    let late = seen.iter().position(|(_, place, _)| place.pid == urgent).unwrap();
    assert!(late <= 1, "{late} promotions came before");
    assert!(seen[late..late + 100].iter().all(|(_, _, asker)| *asker == Asker::Signal));
}

#[test]
fn the_scan_looks_at_16_mib_in_ten_seconds() {
    let policy = Policy::ingens();
    let (mut machine, mut manager) = (machine(&policy), Manager::new(policy, 1));
    dense(&mut machine, SHARES, 500);
    drive(&mut manager, &mut machine, 0..60, |_, _| {});
    let rate = manager.counts().looked as f64 * 2.0 / 60.0;
    assert!((rate / 1.6 - 1.0).abs() <= 0.05, "{rate} MiB/s");
}

#[test]
fn who_has_nothing_to_promote_is_left_alone_for_two_minutes() {
    let policy = Policy::ingens();
    let (mut machine, mut manager) = (machine(&policy), Manager::new(policy, 1));
    let adversary = machine.spawn(1_000_000);
    (0..6).for_each(|region| assert!(machine.touch(adversary, region * PAGES).is_some()));
    let worker = dense(&mut machine, SHARES, 500);
    let mut looked = Vec::new();
    let told = drive(&mut manager, &mut machine, 0..490, |_, manager| {
        looked.push(manager.records().get(&adversary).map_or(0, |record| record.counts.looked));
    });
    let excluded = |(at, decision): &(Time, Decision)| match decision {
        Decision::Excluded { pid, until } if *pid == adversary => Some((*at, *until)),
        _ => None,
    };
    let excluded: Vec<(Time, Time)> = told.iter().filter_map(excluded).collect();
    assert!(excluded.len() >= 4, "it is looked at again: {excluded:?}");
    for pair in excluded.windows(2) {
        let away = pair[1].0.since(pair[0].0).as_secs_f64();
        assert!((119.0..=131.0).contains(&away), "{away} s, and the next quantum");
        assert_eq!(pair[0].1, pair[0].0 + Nanos::secs(120));
    }
    let most = looked.windows(120).map(|window| window[119] - window[0]).max().unwrap();
    assert!(most <= u64::from(policy.quantum_regions), "{most} regions in two minutes");
    assert!(huge_of(&manager, worker) > 300);
}

#[test]
fn pinned_pages_are_tried_again_ever_later_and_then_given_up() {
    let policy = Policy { quantum_sleep: Nanos::secs(3_600), skip_after_miss: Nanos::secs(3_600), ..Policy::ingens() };
    let (mut machine, mut manager) = (machine(&policy), Manager::new(policy, 1));
    let pid = dense(&mut machine, SHARES, 1);
    drive(&mut manager, &mut machine, 0..1, |machine, _| machine.mark(place(pid, 0), Some(Skip::Advised), false));
    machine.mark(place(pid, 0), None, true);
    manager.urgent.ask(place(pid, 0));
    let told = drive(&mut manager, &mut machine, 1..20, |_, _| {});
    let refused: Vec<u64> = told
        .iter()
        .filter(|(_, decision)| matches!(decision, Decision::Refused { refusal: ChangeError::Pinned, .. }))
        .map(|(at, _)| at.0 / 1_000_000)
        .collect();
    let gaps: Vec<u64> = refused.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(gaps, [100, 200, 400, 800, 1600], "after the first try five more");
    assert_eq!(manager.waiting(), 0);
}

#[test]
fn regions_that_cannot_be_huge_are_counted_by_reason() {
    let policy = Policy { quantum_regions: 1, ..Policy::ingens() };
    let (mut machine, mut manager) = (machine(&policy), Manager::new(policy, 1));
    let pid = dense(&mut machine, SHARES, 4);
    for (region, skip) in [(0, Skip::Advised), (1, Skip::File), (2, Skip::Partial)] {
        machine.mark(place(pid, region), Some(skip), false);
    }
    drive(&mut manager, &mut machine, 0..2, |_, _| {});
    let left = &manager.counts().left;
    let count = |skip| left.get(&Reason::Skipped(skip)).copied();
    assert_eq!([Skip::Advised, Skip::File, Skip::Partial].map(count), [Some(1); 3]);
    assert_eq!(huge_of(&manager, pid), 1);
}

#[test]
fn after_a_slow_promotion_nothing_is_promoted_for_a_while() {
    let policy = Policy::ingens();
    let (mut machine, mut manager) = (machine(&policy), Manager::new(policy, 1));
    machine.delay = Nanos::millis(6);
    dense(&mut machine, SHARES, 100);
    let at: Vec<u64> =
        changes(&drive(&mut manager, &mut machine, 0..5, |_, _| {})).iter().map(|(at, ..)| at.0).collect();
    // Ten times 6 ms, and the 6 ms themselves.
    assert!(at.windows(2).all(|pair| pair[1] - pair[0] >= 66_000_000), "{at:?}");
    let all = at.last().zip(at.first()).map(|(last, first)| last - first);
    assert!(all.is_some_and(|all| all < 66_000_000 * at.len() as u64), "no longer than that: {at:?}");
}

#[test]
fn who_waits_while_nothing_is_promoted_is_served_as_soon_as_that_is_over() {
    let policy = Policy { cooldown: Nanos(0), ..Policy::ingens() };
    let (mut machine, mut manager) = (machine(&policy), Manager::new(policy, 1));
    machine.delay = Nanos::millis(6);
    let pid = machine.spawn(SHARES);
    // The background scan finds nothing and sleeps, so that it wakes no task.
    drive(&mut manager, &mut machine, 0..1, |_, _| {});
    machine.fill(pid, 0..4).expect("memory suffices");
    let at: Vec<u64> =
        changes(&drive(&mut manager, &mut machine, 1..2, |_, _| {})).iter().map(|(at, ..)| at.0).collect();
    // Each takes 6.5 ms and is followed by ten times that.
    assert!(at.len() == 4 && at.windows(2).all(|pair| pair[1] - pair[0] < 80_000_000), "{at:?}");
}

#[test]
fn where_no_block_is_free_none_is_tried_until_there_are_more_or_a_minute_is_over() {
    let policy = Policy::ingens();
    let mut machine = Machine::new(Physical::new(4), Costs::MEASURED, policy.promote, policy.demote, Freeing::Deferred);
    let mut manager = Manager::new(policy, 1);
    let pid = machine.spawn(SHARES);
    machine.fill(pid, 0..4).expect("all of the machine's memory");
    machine.signals();
    manager.urgent.ask(place(pid, 0));
    let starved = |told: &[(Time, Decision)]| -> Vec<u64> {
        let at = |(at, decision): &(Time, Decision)| matches!(decision, Decision::Starved { .. }).then_some(at.0);
        told.iter().filter_map(at).map(|ns| ns / 1_000_000_000).collect()
    };
    assert_eq!(starved(&drive(&mut manager, &mut machine, 0..90, |_, _| {})), [0, 60]);
    assert_eq!(huge_of(&manager, pid), 0);
    // Nothing of it is in use any more, which gives two blocks back.
    machine.unmap(place(pid, 2));
    machine.unmap(place(pid, 3));
    let told = changes(&drive(&mut manager, &mut machine, 90..92, |_, _| {}));
    assert_eq!(
        told.iter().map(|(_, place, asker)| (place.region.0, *asker)).collect::<Vec<_>>(),
        [(0, Asker::Signal), (1, Asker::Signal)]
    );
}

#[test]
fn after_a_promotion_for_which_a_block_was_made_there_is_none_for_a_thousand_times_as_long() {
    let policy = Policy::ingens();
    // With eight regions of sixteen in use there are few blocks, with eight of a thousand there are many.
    let starved = |blocks| {
        let physical = Physical::new(blocks);
        let mut machine = Machine::new(physical, Costs::MEASURED, policy.promote, policy.demote, Freeing::Deferred);
        machine.delay = Nanos::millis(6);
        dense(&mut machine, SHARES, 8);
        let mut manager = Manager::new(policy, 1);
        let told = drive(&mut manager, &mut machine, 0..5, |_, _| {});
        let until = told.iter().find_map(|(_, decision)| match decision {
            Decision::Starved { until, .. } => Some(until.0 / 1_000_000_000),
            _ => None,
        });
        (changes(&told).len(), until)
    };
    assert_eq!(starved(16), (1, Some(6)));
    assert_eq!(starved(1000), (8, None));
}

#[test]
fn while_no_block_is_free_huge_pages_are_demoted_nevertheless() {
    let policy = Policy { cooldown: Nanos(0), ..Policy::ingens() };
    let mut machine = Machine::new(Physical::new(2), Costs::MEASURED, policy.promote, policy.demote, Freeing::Deferred);
    let mut manager = Manager::new(policy, 1);
    let pid = machine.spawn(SHARES);
    machine.fill(pid, 0..1).expect("half of the machine's memory");
    drive(&mut manager, &mut machine, 0..1, |_, _| {});
    assert!(machine.is_huge(place(pid, 0)));
    machine.fill(pid, 1..2).expect("the other half");
    drive(&mut manager, &mut machine, 1..2, |_, _| {});
    assert!(manager.starved.is_some() && !machine.is_huge(place(pid, 1)));
    (0..200).for_each(|page| machine.free(pid, page));
    drive(&mut manager, &mut machine, 2..3, |_, _| {});
    assert!(!machine.is_huge(place(pid, 0)), "it was used too little");
}

#[test]
fn processes_and_regions_that_come_and_go_leave_nothing() {
    let policy = Policy::tiny();
    let (mut machine, mut manager) = (machine(&policy), Manager::new(policy, 1));
    let stays = dense(&mut machine, SHARES, 1);
    for round in 0..10_000u64 {
        let region = 10 + round;
        machine.fill(stays, region..region + 1).unwrap();
        let now = Time(round * 1_000_000);
        sim::run(&mut manager, &mut machine, now, now + Nanos::millis(1), &mut |_, _| {});
        machine.unmap(place(stays, region));
        if round % 100 == 0 {
            let passing = dense(&mut machine, SHARES, 1);
            manager.urgent.ask(place(passing, 0));
            sim::run(&mut manager, &mut machine, now, now + Nanos::millis(1), &mut |_, _| {});
            machine.exit(passing);
        }
    }
    drive(&mut manager, &mut machine, 10..12, |_, _| {});
    let record = &manager.records()[&stays];
    assert_eq!((manager.records().len(), manager.waiting(), record.remembered()), (1, 0, 0));
    assert_eq!(record.huge.len(), 1);
    assert!(manager.counts().promotions > 9_000, "the regions were promoted on the way: {:?}", manager.counts());
    assert_eq!(machine.physical.used_bytes(), 2 << 20);
}

#[test]
fn a_slow_scan_alone_gives_less_than_a_quarter_of_the_speed_up_and_signals_nine_tenths() {
    const REGIONS: u64 = 1024;
    const SECONDS: u64 = 300;
    // Greedy has all of it in huge pages from the first second on, and speed goes with the share of accesses that meet
    // one.
    let share_of_greedy = |is_told: bool| {
        let policy = Policy::ingens();
        let (mut machine, mut manager) = (machine(&policy), Manager::new(policy, 1));
        let pid = dense(&mut machine, SHARES, if is_told { 0 } else { REGIONS });
        if is_told {
            machine.fill(pid, 0..REGIONS).expect("memory suffices");
        }
        let mut huge = 0;
        drive(&mut manager, &mut machine, 0..SECONDS, |_, manager| {
            huge += manager.records().get(&pid).map_or(0, |record| record.huge.len() as u64);
        });
        huge as f64 / (REGIONS * SECONDS) as f64
    };
    let (scanned, told) = (share_of_greedy(false), share_of_greedy(true));
    assert!(scanned > 0.0 && scanned <= 0.25, "{scanned}");
    assert!(told >= 0.9, "{told}");
}
