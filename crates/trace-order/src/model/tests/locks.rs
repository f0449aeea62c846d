//! Whole-file locks: what lets a waiting call have its lock.

use super::*;
use esker_trace_calls::words::LockKind;

fn flock(fd: i32, kind: LockKind) -> Call {
    Call::Flock { fd: Fd(fd), kind, wait: true }
}

/// Thread 0 has the lock; thread 1 asks for it at 35 and gets it at 70; `end` runs from 60 to 65.
fn story(held: LockKind, asked: LockKind, end: Call, ended: Outcome) -> Story {
    let mut story = Story::new(2, &["/l"]);
    // Two processes: each has its own descriptor 3.
    story.trace.processes.push(process(200));
    story.trace.threads[1] = thread(200, 1);
    story.opens(0, "/l", RW, 3).opens(1, "/l", RW, 3);
    story.during(0, 30, 32, flock(3, held), Outcome::Done(0));
    story.during(1, 35, 70, flock(3, asked), Outcome::Done(0));
    story.during(0, 40, 45, Call::Write { fd: Fd(3), len: 8, parts: 0 }, Outcome::Done(8));
    story.during(0, 60, 65, end, ended);
    story.during(1, 80, 85, Call::Write { fd: Fd(3), len: 8, parts: 0 }, Outcome::Done(8));
    story
}

#[test]
fn a_lock_is_had_after_the_call_that_let_it_go() {
    let (exclusive, shared, done) = (LockKind::Exclusive, LockKind::Shared, Outcome::Done(0));
    let ends = [
        (flock(3, LockKind::Unlock), done),
        (close(3), done),
        (Call::Exit { status: 0, group: true }, Outcome::Unknown),
    ];
    for (held, asked) in [(exclusive, exclusive), (exclusive, shared), (shared, exclusive)] {
        for (end, ended) in ends.clone() {
            let story = story(held, asked, end.clone(), ended);
            let program = story.compiled();
            assert!(matches!(program.step(5).call, Call::Flock { .. }), "{end:?}: {:?}", program.step(5).call);
            assert_eq!(program.about.repairs.count(RepairKind::OrderChanged), 0, "{end:?}");
            let edges = story.usual();
            assert!(edges.contains(&(4, 5)), "{held:?} {asked:?} {end:?}: {edges:?}");
            let bare = story.edges(Rules::default() - Rules::FD_STAGE - Rules::FILE_SEQ);
            assert!(!bare.contains(&(4, 5)), "{bare:?}");
        }
    }
}

#[test]
fn shared_locks_do_not_wait_for_each_other() {
    let story = story(LockKind::Shared, LockKind::Shared, flock(3, LockKind::Unlock), Outcome::Done(0));
    let edges = story.edges(Rules::FD_STAGE);
    assert_eq!(edges, set(&[]));
}

#[test]
fn a_lock_that_a_copy_of_the_descriptor_still_has_is_not_free() {
    let mut story = Story::new(3, &["/l"]);
    for (at, pid) in [(1, 200), (2, 300)] {
        story.trace.processes.push(process(pid));
        story.trace.threads[at] = thread(pid, at as u32);
    }
    story.trace.processes[1].parent = Some(ThreadId(0));
    story.trace.threads[1].parent = Some(ThreadId(0));
    story.opens(0, "/l", RW, 3).ok(0, flock(3, LockKind::Exclusive));
    story.act(0, Call::Clone { flags: CloneFlags::empty(), child: Some(ThreadId(1)) }, Outcome::Done(200));
    story.opens(2, "/l", RW, 3).ok(0, close(3));
    story.during(2, 55, 90, flock(3, LockKind::Exclusive), Outcome::Done(0));
    story.during(1, 60, 80, close(3), Outcome::Done(0));
    let edges = story.edges(Rules::FD_STAGE);
    assert!(edges.contains(&(5, 6)), "the child's close frees it: {edges:?}");
    assert!(!edges.contains(&(4, 6)), "the parent's does not: {edges:?}");
}

#[test]
fn an_exclusive_lock_waits_for_all_shared_ones() {
    let mut story = Story::new(3, &["/l"]);
    for (at, pid) in [(1, 200), (2, 300)] {
        story.trace.processes.push(process(pid));
        story.trace.threads[at] = thread(pid, at as u32);
    }
    for thread in 0..3 {
        story.opens(thread, "/l", RW, 3);
    }
    story.ok(0, flock(3, LockKind::Shared)).ok(1, flock(3, LockKind::Shared));
    story.ok(0, flock(3, LockKind::Unlock)).ok(1, flock(3, LockKind::Unlock));
    story.ok(2, flock(3, LockKind::Exclusive));
    let edges = story.edges(Rules::FD_STAGE);
    assert_eq!(edges, set(&[(5, 7), (6, 7)]));
}

/// Two wait when the lock is let go; the one that asked last gets it, and another one that comes then waits for it.
#[test]
fn locks_are_had_in_the_order_in_which_the_calls_returned() {
    let mut story = Story::new(4, &["/l"]);
    for (at, pid) in [(1, 200), (2, 300), (3, 400)] {
        story.trace.processes.push(process(pid));
        story.trace.threads[at] = thread(pid, at as u32);
    }
    for thread in 0..4 {
        story.opens(thread, "/l", RW, 3);
    }
    let (exclusive, done) = (LockKind::Exclusive, Outcome::Done(0));
    story.during(0, 50, 51, flock(3, exclusive), done).during(1, 52, 95, flock(3, exclusive), done);
    story.during(2, 54, 75, flock(3, exclusive), done).during(0, 70, 71, flock(3, LockKind::Unlock), done);
    story.during(3, 73, 115, flock(3, exclusive), done).during(2, 90, 91, flock(3, LockKind::Unlock), done);
    story.during(1, 110, 111, flock(3, LockKind::Unlock), done);
    let edges = story.edges(Rules::FD_STAGE);
    // In the order of effect: 4 locks, 5 unlocks, 6 (thread 2), 7 unlocks, 8 (thread 1), 9 unlocks, 10 (thread 3).
    assert_eq!(edges, set(&[(5, 6), (7, 8), (9, 10)]));
}
