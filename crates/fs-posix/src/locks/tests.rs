use std::rc::Rc;

use esker_rt::{Rt, Sim, SimConfig};

use super::*;
use crate::script::at_once;

const FILE: Ino = Ino(2);

fn lock(owner: u64, kind: LockKind, start: u64, len: u64, call: LockCall) -> Lock {
    Lock { call, kind, range: ByteRange::new(start, len).unwrap(), owner, pid: owner as u32 }
}

/// Tries to lock, as no wait is needed.
fn tries(locks: &Locks, owner: u64, kind: LockKind, start: u64, len: u64) -> Result<Option<Lock>, Errno> {
    at_once(locks.lock(FILE, lock(owner, kind, start, len, LockCall::Try), true))
}

/// What an owner holds: kind, first byte and the byte behind the last.
fn held(locks: &Locks, owner: u64) -> Vec<(LockKind, u64, u64)> {
    let files = locks.files.borrow();
    let all = files.get(&FILE).map_or(&[][..], |held| &held.ranges).iter().filter(|holding| holding.owner == owner);
    all.map(|holding| (holding.kind, holding.range.start(), holding.range.end())).collect()
}

#[test]
fn a_lock_in_the_middle_of_another_kind_cuts_it_in_three() {
    let locks = Locks::default();
    tries(&locks, 1, LockKind::Shared, 0, 100).unwrap();
    tries(&locks, 1, LockKind::Exclusive, 40, 20).unwrap();
    let parts = [(LockKind::Shared, 0, 40), (LockKind::Exclusive, 40, 60), (LockKind::Shared, 60, 100)];
    assert_eq!(held(&locks, 1), parts);
    tries(&locks, 1, LockKind::Shared, 40, 20).unwrap();
    assert_eq!(held(&locks, 1), [(LockKind::Shared, 0, 100)], "equal neighbours are one");
    tries(&locks, 1, LockKind::Unlock, 10, 10).unwrap();
    assert_eq!(held(&locks, 1), [(LockKind::Shared, 0, 10), (LockKind::Shared, 20, 100)]);
}

#[test]
fn locks_of_others_are_in_the_way_unless_both_share() {
    let locks = Locks::default();
    tries(&locks, 1, LockKind::Shared, 0, 10).unwrap();
    assert_eq!(tries(&locks, 2, LockKind::Shared, 5, 10), Ok(None));
    assert_eq!(tries(&locks, 3, LockKind::Exclusive, 12, 10), Err(Errno::EAGAIN));
    assert_eq!(tries(&locks, 3, LockKind::Exclusive, 15, 10), Ok(None));
    let asked = at_once(locks.lock(FILE, lock(4, LockKind::Exclusive, 7, 100, LockCall::Test), true));
    assert_eq!(asked.unwrap().map(|found| (found.owner, found.kind)), Some((1, LockKind::Shared)));
    locks.release(FILE, 1);
    locks.release(FILE, 2);
    locks.release(FILE, 3);
    assert_eq!(tries(&locks, 4, LockKind::Exclusive, 0, 100), Ok(None));
    locks.release(FILE, 4);
    assert!(locks.files.borrow().is_empty(), "nothing is kept of files without locks");
}

/// Takes a lock in a task that waits for it, and tells how that ended.
async fn waits(rt: Rt, locks: Rc<Locks>, owner: u64, start: u64) -> Result<(), Errno> {
    rt.yield_now().await;
    locks.lock(FILE, lock(owner, LockKind::Exclusive, start, 1, LockCall::Wait), true).await.map(drop)
}

#[test]
fn a_wait_ends_when_the_lock_does() {
    let sim = Sim::new(SimConfig::seeded(1));
    let (rt, locks) = (sim.rt(), Rc::new(Locks::default()));
    let answer = sim.block_on(async move {
        tries(&locks, 1, LockKind::Exclusive, 0, 1).unwrap();
        let waiter = rt.spawn("waiter", waits(rt.clone(), locks.clone(), 2, 0));
        rt.sleep(esker_base::Nanos(1000)).await;
        assert_eq!(held(&locks, 2), []);
        locks.release(FILE, 1);
        let answer = waiter.await;
        (answer, held(&locks, 2))
    });
    assert_eq!(answer, (Ok(()), vec![(LockKind::Exclusive, 0, 1)]));
}

#[test]
fn a_wait_that_would_close_a_circle_fails() {
    let sim = Sim::new(SimConfig::seeded(1));
    let (rt, locks) = (sim.rt(), Rc::new(Locks::default()));
    sim.block_on(async move {
        for owner in 1..=3 {
            tries(&locks, owner, LockKind::Exclusive, owner, 1).unwrap();
        }
        let first = rt.spawn("first", waits(rt.clone(), locks.clone(), 1, 2));
        let second = rt.spawn("second", waits(rt.clone(), locks.clone(), 2, 3));
        rt.sleep(esker_base::Nanos(1000)).await;
        let third = lock(3, LockKind::Exclusive, 1, 1, LockCall::Wait);
        assert_eq!(locks.lock(FILE, third, true).await, Err(Errno::EDEADLK));
        locks.release(FILE, 3);
        assert_eq!(second.await, Ok(()));
        locks.release(FILE, 2);
        assert_eq!(first.await, Ok(()));
        assert!(locks.waits.borrow().is_empty());
    });
}

#[test]
fn a_whole_file_is_shared_or_not_and_a_failed_change_loses_the_old_lock() {
    let locks = Locks::default();
    let try_whole = |id, kind| at_once(locks.flock(FILE, id, kind, LockCall::Try));
    try_whole(1, LockKind::Shared).unwrap();
    try_whole(2, LockKind::Shared).unwrap();
    assert_eq!(try_whole(3, LockKind::Exclusive), Err(Errno::EAGAIN));
    assert_eq!(try_whole(1, LockKind::Exclusive), Err(Errno::EAGAIN));
    try_whole(2, LockKind::Unlock).unwrap();
    assert_eq!(try_whole(3, LockKind::Exclusive), Ok(()), "description 1 lost its lock when it asked for more");
    assert_eq!(tries(&locks, 9, LockKind::Exclusive, 0, 10), Ok(None), "locks of bytes are another matter");
}
