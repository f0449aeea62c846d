//! Waits of threads for one another: what ended them, and how much of them is computation.

use esker_base::Nanos;

use super::*;
use crate::rules::Schedule;
use esker_trace_calls::words::FdSource;

const HERE: u64 = 0x7000;

fn wait_for(value: u32, shared: bool) -> Call {
    Call::FutexWait { address: HERE, shared, value }
}

fn wait() -> Call {
    wait_for(2, false)
}

fn wake() -> Call {
    Call::FutexWake { address: HERE, shared: false }
}

fn done(value: i64) -> Outcome {
    Outcome::Done(value)
}

/// The edges of the rule alone.
fn edges(story: &Story) -> BTreeSet<(u32, u32)> {
    story.edges(Rules::THREAD_SEQ | Rules::WAKE_STAGE)
}

/// The schedule of the usual rules, the number of the last wait in the order of effect, and how long it takes behind
/// what it waited for.
fn last_wait(story: &Story) -> (Schedule, u32, Nanos) {
    let program = story.compiled();
    let is_wait = |number: &u32| matches!(program.step(*number).call, Call::FutexWait { .. });
    let number = (0..program.len() as u32).rev().find(is_wait).expect("there is one");
    let schedule = program.schedule(Order::Root(Rules::default()));
    let instant = program.instant(number);
    let taken = (instant.leave - instant.enter).saturating_sub(schedule.held(number).0);
    (schedule, number, Nanos(taken))
}

#[test]
fn a_woken_wait_comes_after_its_wake_and_its_time_is_no_computation() {
    let mut story = Story::new(2, &["/f"]);
    story.opens(0, "/f", RW, 3).during(1, 20, 503, wait(), done(0));
    story.during(0, 30, 480, Call::SyncAll {}, done(0));
    story.during(0, 500, 507, wake(), done(1)).during(1, 513, 515, Call::SyncAll {}, done(0));
    assert_eq!(edges(&story), set(&[(2, 3)]), "the wait takes effect behind its wake");
    assert!(story.usual().contains(&(2, 3)));
    let (schedule, number, taken) = last_wait(&story);
    assert_eq!((schedule.predelay(number), taken), (Nanos(0), Nanos(3)), "from the wake's entry to the wait's return");
    assert_eq!(schedule.predelay(number + 1), Nanos(10));
    let mut temporal = BTreeSet::new();
    schedule::for_each(story.compiled().outline(), Order::Temporal, |to, candidates| {
        temporal.extend(candidates.iter().map(|candidate| (candidate.edge.from, to, candidate.edge.rules)));
    });
    assert!(temporal.contains(&(2, 3, Rules::WAKE_STAGE)), "{temporal:?}");
}

#[test]
fn a_wake_ends_as_many_waits_as_it_says_and_those_that_return_first() {
    let mut story = Story::new(4, &[]);
    story.during(1, 10, 90, wait(), done(0)).during(2, 11, 60, wait(), done(0)).during(3, 12, 95, wait(), done(0));
    story.during(0, 50, 52, wake(), done(1)).during(0, 80, 82, wake(), done(2));
    // In the order of effect: the wakes 0 and 2, the waits of threads 2 (1), 1 (3) and 3 (4).
    assert_eq!(edges(&story), set(&[(0, 1), (2, 3), (2, 4)]));
}

#[test]
fn a_wait_that_no_known_call_ended_keeps_its_time() {
    let other_place = Call::FutexWake { address: HERE + 4, shared: false };
    let of_all = Call::FutexWake { address: HERE, shared: true };
    let cases = [
        (other_place, done(1), "another address"),
        (of_all, done(1), "one that processes share"),
        (wake(), done(0), "it woke none"),
    ];
    for (call, outcome, why) in cases {
        let mut story = Story::new(2, &[]);
        story.during(1, 10, 90, wait(), done(0)).during(0, 80, 82, call, outcome);
        assert_eq!((edges(&story), last_wait(&story).2), (set(&[]), Nanos(80)), "{why}");
    }
    let mut story = Story::new(3, &[]);
    story.during(1, 10, 90, wait(), done(0)).during(0, 5, 9, wake(), done(1)).during(2, 95, 96, wake(), done(1));
    story.trace.actions.sort_by_key(|action| action.enter);
    assert_eq!((edges(&story), last_wait(&story).2), (set(&[]), Nanos(80)), "before and behind it");
    let mut story = Story::new(2, &[]);
    story.during(1, 10, 90, wait(), Outcome::Failed(Errno::ETIMEDOUT)).during(0, 80, 82, wake(), done(1));
    assert_eq!((edges(&story), last_wait(&story).2), (set(&[]), Nanos(80)), "it timed out");
}

#[test]
fn addresses_of_two_processes_are_two_places_unless_they_share_them() {
    for (shared, expected) in [(false, set(&[])), (true, set(&[(0, 1)]))] {
        let mut story = Story::new(2, &[]);
        story.trace.processes.push(process(200));
        story.trace.threads[1] = thread(200, 1);
        story.during(1, 10, 90, wait_for(2, shared), done(0));
        story.during(0, 80, 82, Call::FutexWake { address: HERE, shared }, done(1));
        assert_eq!(edges(&story), expected, "shared: {shared}");
    }
}

#[test]
fn a_join_comes_after_the_end_of_the_thread_whose_number_it_waits_for() {
    for (number, joined) in [(101, Some(0)), (102, Some(1)), (103, None)] {
        let mut story = Story::new(3, &[]);
        story.during(0, 10, 95, wait_for(number, true), done(0));
        story.during(1, 50, 60, Call::Exit { status: 0, group: false }, Outcome::Unknown);
        story.during(2, 88, 97, Call::Exit { status: 0, group: false }, Outcome::Unknown);
        let expected = joined.map(|end| (end, 2)).into_iter().collect();
        assert_eq!(edges(&story), expected, "of {number}");
    }
}

/// A loop of events waits from 100 to 190; then it reads from descriptor `reads`. Another thread wrote into 4.
fn loop_of_events(reads: i32, written: u64, [enter, leave]: [u64; 2]) -> Story {
    let mut story = Story::new(2, &[]);
    for (fd, source) in [(3, FdSource::Poll), (4, FdSource::Event), (5, FdSource::Event)] {
        let call = Call::MakeFd { source, from: Fd(-1), name: Default::default(), cloexec: true };
        story.act(0, call, done(fd));
    }
    let write = Call::Write { fd: Fd(4), len: written, parts: 0 };
    story.during(1, enter, leave, write, done(written as i64));
    story.during(0, 100, 190, Call::EpollWait { set: Fd(3), timeout_ms: -1 }, done(1));
    story.during(0, 195, 196, Call::Read { fd: Fd(reads), len: 1024, parts: 0 }, done(8));
    story.trace.actions.sort_by_key(|action| action.enter);
    story
}

#[test]
fn a_loop_of_events_waits_for_the_write_that_wakes_it() {
    let woken = loop_of_events(4, 8, [180, 182]);
    assert_eq!(edges(&woken), set(&[(3, 4)]));
    let program = woken.compiled();
    assert_eq!(program.schedule(Order::Root(Rules::default())).held(4), Nanos(82));
    let others = [
        (loop_of_events(5, 8, [180, 182]), "it reads from another one"),
        (loop_of_events(4, 100, [180, 182]), "data is no wake"),
        (loop_of_events(4, 8, [80, 82]), "it was written before"),
    ];
    for (story, why) in others {
        assert_eq!(edges(&story), set(&[]), "{why}");
    }
}

/// Random waits and wakes: edges lead forward, and none crosses the time of the trace, so no replay waits for itself.
#[test]
fn causes_begin_before_what_they_end() {
    let mut stream = esker_base::Stream::named(7, "wakes");
    let mut found = 0;
    for _ in 0..1000 {
        let mut story = Story::new(4, &[]);
        let mut free = [1; 4];
        for _ in 0..40 {
            let thread = stream.below(4) as u32;
            let enter = free[thread as usize] + stream.below(9);
            let leave = enter + stream.below(30);
            free[thread as usize] = leave + 1;
            let call = match stream.below(8) {
                0..4 => wait_for(100 + stream.below(4) as u32, false),
                4..7 => wake(),
                _ => Call::Exit { status: 0, group: false },
            };
            story.during(thread, enter, leave, call, done(stream.below(2) as i64));
        }
        story.trace.actions.sort_by_key(|action| action.enter);
        let program = story.compiled();
        for (from, to) in edges(&story) {
            assert!(from < to && program.instant(from).enter < program.instant(to).leave, "{from} {to}");
            found += 1;
        }
    }
    assert!(found > 1000, "{found}");
}
