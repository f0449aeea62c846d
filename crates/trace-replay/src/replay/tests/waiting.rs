//! Calls that wait for others.

use super::*;

fn pipe(draft: &mut Draft) {
    let call = Call::Pipe { seen_read: Fd(3), seen_write: Fd(4), flags: OpenFlags::empty() };
    draft.call(0, call, Outcome::Done(0));
}

#[test]
fn a_call_that_waits_for_another_thread_is_replayed() {
    let mut draft = Draft::of(2);
    pipe(&mut draft);
    let mut at = draft.now;
    for _ in 0..200 {
        // The reader comes first and waits; the writer's call lies inside its own.
        draft.call_from(1, at + 10, at + 500, Call::Read { fd: Fd(3), len: 4096, parts: 0 }, Outcome::Done(100));
        draft.call_from(0, at + 200, at + 400, Call::Write { fd: Fd(4), len: 100, parts: 0 }, Outcome::Done(100));
        at += 1000;
    }
    let program = draft.program();
    for order in [ROOT(), Order::Temporal, Order::Single] {
        let (finished, report) = play_as(&program, order, Speed::Afap);
        assert_eq!((finished.stuck, report.mismatches.count), (None, 0), "{}", order.name());
    }
}

#[test]
fn what_is_read_of_a_write_that_waits_for_room_is_there() {
    let mut draft = Draft::of(2);
    pipe(&mut draft);
    let mut at = draft.now;
    for _ in 0..20 {
        // The write waits until the reader took its first bytes, and ends behind that read; the pipe never holds all of
        // it.
        draft.call_from(
            0,
            at + 10,
            at + 400,
            Call::Write { fd: Fd(4), len: 300_000, parts: 0 },
            Outcome::Done(300_000),
        );
        for part in 1..=10 {
            let now = at + part * 38;
            draft.call_from(1, now, now + 5, Call::Read { fd: Fd(3), len: 30_000, parts: 0 }, Outcome::Done(30_000));
        }
        at += 1000;
    }
    let program = draft.program();
    for order in [ROOT(), Order::Temporal, Order::Single] {
        let (finished, report) = play_as(&program, order, Speed::Afap);
        assert_eq!((finished.stuck, report.mismatches.count), (None, 0), "{}", order.name());
    }
}

#[test]
fn a_write_that_waited_until_nobody_read_fails_as_it_did() {
    let mut draft = Draft::of(2);
    pipe(&mut draft);
    let write = || Call::Write { fd: Fd(4), len: 40_000, parts: 0 };
    draft.call(1, write(), Outcome::Done(40_000));
    let at = draft.now;
    // The reader computes for 20 ms before it leaves. Here the pipe has room for both writes.
    let leaves = at + 20_000_000;
    draft.call_from(1, at + 10, leaves + 500, write(), Outcome::Failed(Errno::EPIPE));
    draft.call_from(0, leaves, leaves + 400, Call::Close { fd: Fd(3) }, Outcome::Done(0));
    draft.call(1, write(), Outcome::Failed(Errno::EPIPE));
    let program = draft.program();
    for order in [ROOT(), Order::Temporal, Order::Single] {
        let (finished, report) = play_as(&program, order, Speed::Scaled(1.0));
        assert_eq!((finished.stuck, report.mismatches.count), (None, 0), "{}", order.name());
    }
}

#[test]
fn who_waits_for_a_call_that_hangs_is_named() {
    let mut draft = Draft::of(2);
    pipe(&mut draft);
    // The write that the read waits for was not recorded.
    draft.call(1, Call::Read { fd: Fd(3), len: 100, parts: 0 }, Outcome::Done(100));
    draft.open(1, "/g", CREATE, 5);
    draft.call(0, Call::Unlink { at: At::cwd("/g") }, Outcome::Done(0));
    let impatient = ReplayOptions { patience: Nanos(200_000_000), ..options() };
    let start = std::time::Instant::now();
    let (finished, report) = play_with(&draft.program(), ROOT(), Speed::Afap, impatient);
    assert!(start.elapsed().as_secs() < 5);
    let stuck = finished.stuck.expect("nothing ever writes");
    assert_eq!(stuck.threads.len(), 2, "{stuck}");
    assert!(stuck.threads[0].contains("unlink") && stuck.threads[0].contains("waits"), "{stuck}");
    assert!(stuck.threads[1].contains("read") && stuck.threads[1].contains("never came"), "{stuck}");
    assert!(!stuck.abandoned, "closing the other end ends the read");
    assert!(report.stopped.is_some());
}
