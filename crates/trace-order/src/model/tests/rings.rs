//! Requests that a thread submits to rings.

use esker_trace_calls::name::Word;
use esker_trace_calls::words::ReadWriteFlags;

use super::*;

/// Thread 0 submits; threads 1 and 2 stand for its requests. Both files and a ring are open from action 2 on.
fn submitting() -> Story {
    let mut story = Story::new(3, &["/a", "/b"]);
    for lane in &mut story.trace.threads[1..] {
        (lane.parent, lane.name) = (Some(ThreadId(0)), Word::from("io_uring"));
    }
    story.opens(0, "/a", RW, 3).opens(0, "/b", RW, 4).act(0, Call::ring(false), Outcome::Done(5));
    story
}

fn read(fd: i32) -> Call {
    Call::Pread { fd: Fd(fd), offset: 0, len: 9, parts: 0, flags: ReadWriteFlags::empty() }
}

const ENTER: Call = Call::UringEnter { ring: Fd(5), submit: 0, wait: 1 };
const DONE: Outcome = Outcome::Done(9);

#[test]
fn a_call_comes_behind_the_requests_that_had_ended_also_on_other_files() {
    let mut story = submitting();
    story.during(0, 100, 200, ENTER, Outcome::Done(1)).during(1, 110, 190, read(3), DONE);
    story.during(2, 120, 300, read(3), DONE).during(0, 210, 220, read(4), DONE);
    let only = story.edges(Rules::THREAD_SEQ);
    assert!(only.contains(&(4, 6)), "{only:?}");
    assert!(!only.contains(&(5, 6)), "it was under way: {only:?}");
    assert!(only.contains(&(3, 4)) && only.contains(&(3, 5)), "both come behind what was before: {only:?}");
}

#[test]
fn requests_come_behind_those_that_the_thread_had_waited_for() {
    let mut story = submitting();
    story.during(0, 100, 200, ENTER, Outcome::Done(2));
    story.during(1, 110, 190, read(3), DONE).during(2, 120, 195, read(3), DONE);
    // Nothing is under way, so this call has them behind it, and both requests come after it.
    story.during(0, 210, 300, ENTER, Outcome::Done(2));
    story.during(1, 220, 290, read(4), DONE).during(2, 230, 400, read(4), DONE);
    // One is under way: the trace does not tell for which the thread had waited.
    story.during(0, 310, 500, ENTER, Outcome::Done(1)).during(1, 320, 490, read(4), DONE);
    let only = story.edges(Rules::THREAD_SEQ);
    assert!([(4, 6), (5, 6), (6, 7), (6, 8)].iter().all(|edge| only.contains(edge)), "{only:?}");
    assert!(only.iter().all(|(_, to)| *to != 9), "{only:?}");
    assert!(!only.contains(&(8, 10)) && !only.contains(&(9, 10)), "{only:?}");
}
