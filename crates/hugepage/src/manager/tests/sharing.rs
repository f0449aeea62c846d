//! Which regions may be shared, and that none is promoted meanwhile. The kernel's part, finding duplicates, is played
//! by the tests.

use super::*;
use crate::merge_policy::SharingPolicy;

/// Back-to-back scans of 2 s, and a policy of sharing.
fn sharing(sharing: SharingPolicy) -> Policy {
    Policy {
        sharing,
        scan_period: Nanos::secs(2),
        quantum_regions: 512,
        quantum_sleep: Nanos::secs(1),
        ..Policy::ingens()
    }
}

/// A machine with a process of 8 huge regions, of which the first four are used all the time, after a minute.
fn settled(policy: SharingPolicy) -> (Machine, Manager, Pid) {
    settled_on(machine(&sharing(policy)), policy)
}

fn settled_on(mut machine: Machine, policy: SharingPolicy) -> (Machine, Manager, Pid) {
    let mut manager = Manager::new(sharing(policy), 1);
    machine.can_share = true;
    let pid = dense(&mut machine, SHARES, 8);
    drive(&mut manager, &mut machine, 0..60, |machine, _| use_first(machine, pid));
    assert_eq!((0..8).filter(|region| machine.is_huge(place(pid, *region))).count(), 8);
    (machine, manager, pid)
}

fn use_first(machine: &mut Machine, pid: Pid) {
    (0..4).for_each(|region| machine.use_region(place(pid, region)));
}

fn shared(machine: &mut Machine, pid: Pid) -> Vec<u64> {
    machine.mergeable(pid).iter().map(|region| region.0).collect()
}

#[test]
fn cold_huge_regions_may_be_shared_and_hot_ones_never() {
    let (mut machine, mut manager, pid) = settled(SharingPolicy::Coordinated);
    assert_eq!(shared(&mut machine, pid), [4, 5, 6, 7]);
    assert_eq!(
        (0..8).map(|region| machine.merge(place(pid, region))).collect::<Vec<_>>(),
        [false, false, false, false, true, true, true, true]
    );
    let told = drive(&mut manager, &mut machine, 60..200, |machine, _| use_first(machine, pid));
    let huge: Vec<bool> = (0..8).map(|region| machine.is_huge(place(pid, region))).collect();
    assert_eq!(huge, [true, true, true, true, false, false, false, false], "the background scan leaves what is shared");
    let left = |told: &(Time, Decision)| matches!(told.1, Decision::Changed { .. });
    assert!(!told.iter().any(left), "{told:?}");
}

#[test]
fn a_write_to_a_shared_page_makes_a_well_used_region_huge_at_once() {
    let (mut machine, mut manager, pid) = settled(SharingPolicy::Coordinated);
    machine.free(pid, 5 * PAGES);
    (4..8).for_each(|region| assert!(machine.merge(place(pid, region))));
    // One page less than enough are left in region 6.
    (0..52).for_each(|page| machine.free(pid, 6 * PAGES + page));
    drive(&mut manager, &mut machine, 60..61, |_, _| {});
    [5, 6].into_iter().for_each(|region| assert!(machine.touch(pid, region * PAGES + 400).is_some()));
    let told = drive(&mut manager, &mut machine, 61..62, |_, _| {});
    let seen: Vec<&Decision> =
        told.iter().map(|(_, decision)| decision).filter(|one| !matches!(one, Decision::Left { .. })).collect();
    let (first, second) = (seen[0], seen[1]);
    assert!(matches!(first, Decision::Sharing { from: Region(5), count: 1, mergeable: false, .. }), "{seen:?}");
    assert!(matches!(second, Decision::Changed { promoted: true, asker: Asker::Signal, used: 511, .. }), "{seen:?}");
    assert!(told[0].0 < Time(61_100_000_000), "not with the next scan");
    let huge: Vec<bool> = (4..8).map(|region| machine.is_huge(place(pid, region))).collect();
    assert_eq!((huge, machine.promoted_mergeable), (vec![false, true, false, false], 0));
}

#[test]
fn a_write_to_a_shared_page_while_no_block_is_free_is_not_forgotten() {
    let policy = sharing(SharingPolicy::Coordinated);
    let memory = Physical::new(10);
    let machine = Machine::new(memory, Costs::MEASURED, policy.promote, policy.demote, Freeing::Deferred);
    let (mut machine, mut manager, pid) = settled_on(machine, SharingPolicy::Coordinated);
    [5, 6].into_iter().for_each(|region| assert!(machine.merge(place(pid, region))));
    let other = machine.spawn(SHARES);
    machine.set_greedy(true);
    machine.fill(other, 0..2).expect("the last blocks");
    machine.signals();
    // The first finds no block, the second is not tried any more.
    for (second, region) in [(60, 5), (61, 6)] {
        assert!(machine.touch(pid, region * PAGES).is_some());
        drive(&mut manager, &mut machine, second..second + 1, |machine, _| use_first(machine, pid));
    }
    assert!(manager.starved.is_some() && machine.is_merged(place(pid, 6)));
    machine.exit(other);
    drive(&mut manager, &mut machine, 62..70, |machine, _| use_first(machine, pid));
    let huge: Vec<bool> = (4..8).map(|region| machine.is_huge(place(pid, region))).collect();
    assert_eq!(huge, [true; 4], "no process has written again");
}

#[test]
fn what_becomes_hot_in_base_pages_is_made_private_and_then_huge() {
    let (mut machine, mut manager, pid) = settled(SharingPolicy::Coordinated);
    (4..8).for_each(|region| assert!(machine.merge(place(pid, region))));
    drive(&mut manager, &mut machine, 60..120, |machine, _| machine.use_region(place(pid, 7)));
    assert!(machine.is_huge(place(pid, 7)));
    assert!(!shared(&mut machine, pid).contains(&7) && shared(&mut machine, pid).contains(&6));
    assert_eq!(machine.promoted_mergeable, 0, "no region is promoted whose pages may be shared");
}

#[test]
fn all_shares_everything_and_same_type_splits_nothing() {
    let (mut machine, _, pid) = settled(SharingPolicy::All);
    assert_eq!(shared(&mut machine, pid), [0, 1, 2, 3, 4, 5, 6, 7]);
    let (mut machine, mut manager, pid) = settled(SharingPolicy::SameType);
    assert!(shared(&mut machine, pid).is_empty());
    // Half of a region, which stays in base pages.
    (0..PAGES / 2).for_each(|page| assert!(machine.touch(pid, 100 * PAGES + page).is_some()));
    drive(&mut manager, &mut machine, 60..70, |machine, _| use_first(machine, pid));
    assert_eq!(shared(&mut machine, pid), [100]);
    let (mut machine, _, pid) = settled(SharingPolicy::None);
    assert!(shared(&mut machine, pid).is_empty());
}

#[test]
fn where_all_is_shared_a_write_makes_nothing_huge() {
    let (mut machine, mut manager, pid) = settled(SharingPolicy::All);
    assert!(machine.merge(place(pid, 5)));
    machine.signals();
    drive(&mut manager, &mut machine, 60..200, |machine, _| use_first(machine, pid));
    assert!(!machine.is_huge(place(pid, 5)));
}

#[test]
fn who_cannot_be_told_is_promoted_as_ever_and_shares_nothing() {
    let policy = sharing(SharingPolicy::Coordinated);
    let (mut machine, mut manager) = (machine(&policy), Manager::new(policy, 1));
    let pid = dense(&mut machine, SHARES, 8);
    let told = drive(&mut manager, &mut machine, 0..60, |_, _| {});
    assert_eq!((huge_of(&manager, pid), shared(&mut machine, pid)), (8, Vec::new()));
    assert!(!told.iter().any(|(_, decision)| matches!(decision, Decision::Sharing { .. })));
}

#[test]
fn a_process_that_does_not_do_what_it_is_told_keeps_its_base_pages() {
    let (mut machine, mut manager, pid) = settled(SharingPolicy::Coordinated);
    assert!(machine.merge(place(pid, 6)));
    machine.can_share = false;
    machine.touch(pid, 6 * PAGES);
    let told = drive(&mut manager, &mut machine, 60..61, |_, _| {});
    assert!(
        told.iter().any(|(_, one)| matches!(one, Decision::Refused { refusal: ChangeError::Mergeable, .. })),
        "{told:?}"
    );
    assert_eq!((machine.is_huge(place(pid, 6)), machine.promoted_mergeable), (false, 0));
}
