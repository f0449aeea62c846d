//! The player on a target in virtual time: the loop that replays on the kernel is the one that runs here.

use std::cell::RefCell;
use std::rc::Rc;

use esker_rt::Rt;
use esker_rt::sim::{Sim, SimConfig};

use super::*;
use crate::kernel::{Answer, Skip, Turn};
use crate::player::{Played, play};

/// A device on which every call takes the same time, and a clock from which every sleep comes back late.
struct Modelled {
    rt: Rt,
    marks: Rc<RefCell<Vec<u32>>>,
    call: Nanos,
    late: Nanos,
    /// What it adds to every call, and says so; a quarter because its threads share what those of the trace did not.
    cost: Nanos,
}

/// How often a waiting player looks.
const LOOK: Nanos = Nanos(100);

impl Target for Modelled {
    fn begin(&mut self, _: u32) {}

    fn now_ns(&self) -> u64 {
        self.rt.now().0
    }

    async fn start(&mut self) -> Result<u64, Stopped> {
        Ok(self.now_ns())
    }

    fn is_met(&self, wait: Wait) -> bool {
        self.marks.borrow()[wait.thread as usize] >= wait.until
    }

    async fn wait(&mut self, wait: Wait) -> Result<(), Stopped> {
        while !self.is_met(wait) {
            self.rt.sleep(LOOK).await;
        }
        Ok(())
    }

    fn reach(&mut self, thread: u32, mark: u32) {
        self.marks.borrow_mut()[thread as usize] = mark;
    }

    async fn sleep_until(&mut self, due_ns: u64) -> Result<(), Stopped> {
        self.rt.sleep_until(Time(due_ns + self.late.0)).await;
        Ok(())
    }

    fn prepare(&mut self, _: &Turn<'_>) {}

    fn cost_ns(&self) -> u64 {
        self.cost.0 - self.sharing_ns()
    }

    fn sharing_ns(&self) -> u64 {
        self.cost.0 / 4
    }

    async fn perform(&mut self, turn: &Turn<'_>) -> Answer {
        let result = turn.step.outcome.value().ok_or(Errno::ENOENT);
        let of_processes = matches!(turn.step.call, Call::Clone { .. } | Call::Wait { .. } | Call::Exit { .. });
        if of_processes || matches!(turn.step.call, Call::FutexWait { .. } | Call::FutexWake { .. }) {
            return Answer { result, seen: None, skipped: Some(Skip::NotFiles), call_ns: None };
        }
        self.rt.sleep(Nanos(self.call.0 + self.cost.0)).await;
        Answer { result, seen: None, skipped: None, call_ns: None }
    }
}

fn play_in_virtual_time(script: Rc<Script>, [call, late, cost]: [Nanos; 3]) -> (u64, Vec<Played>) {
    let sim = Sim::new(SimConfig::seeded(1));
    let rt = sim.rt();
    let marks = Rc::new(RefCell::new(vec![0; script.program().players().len()]));
    sim.block_on(async move {
        let start = rt.now();
        let players = (0..script.parts().len() as u32).map(|player| {
            let (script, marks) = (script.clone(), marks.clone());
            let mut target = Modelled { rt: rt.clone(), marks, call, late, cost };
            rt.spawn("player", async move { play(&script, player, &mut target).await })
        });
        let mut played = Vec::new();
        for player in players.collect::<Vec<_>>() {
            played.push(player.await);
        }
        (rt.now().since(start).0, played)
    })
}

#[test]
fn the_same_player_runs_in_virtual_time() {
    let program = busy(4, 2000, 7);
    let elapsed = |order, call| {
        let script = Rc::new(Script::new(program.clone(), order, Speed::Afap));
        let (elapsed, played) = play_in_virtual_time(script, [Nanos(call), Nanos::ZERO, Nanos::ZERO]);
        assert!(played.iter().all(|played| played.deviations.is_empty() && !played.stopped));
        elapsed
    };
    let calls = program.len() as u64;
    assert_eq!(elapsed(Order::Single, 1000), calls * 1000, "one call after the other");
    let (root, free) = (elapsed(ROOT(), 1000), elapsed(Order::Unconstrained, 1000));
    assert!(free <= root && root < calls * 1000, "{free} {root}");
    assert_eq!(elapsed(ROOT(), 1000), root, "to the nanosecond");
}

/// Elapsed nanoseconds at a speed, where calls take as long as they did in the trace, sleeps come back late, and the
/// target adds something to each call.
fn elapsed_at(program: &Program, speed: Speed, [late, cost]: [u64; 2]) -> u64 {
    elapsed_by(program, ROOT(), speed, [1000, late, cost])
}

fn elapsed_by(program: &Program, order: Order, speed: Speed, [call, late, cost]: [u64; 3]) -> u64 {
    let script = Rc::new(Script::new(program.clone(), order, speed));
    play_in_virtual_time(script, [call, late, cost].map(Nanos)).0
}

#[test]
fn natural_speed_takes_the_traces_time_and_a_factor_multiplies_its_computation() {
    let program = thinking();
    let near = |speed, expected: u64| {
        let elapsed = elapsed_at(&program, speed, [0, 0]);
        assert!(elapsed.abs_diff(expected) <= 20 * LOOK.0, "{elapsed} is not {expected}");
    };
    // 20 spans of 3 ms less the call before, and 21 calls.
    near(Speed::Scaled(1.0), 20 * 2_999_000 + 21_000);
    near(Speed::Scaled(2.0), 20 * 2 * 2_999_000 + 21_000);
    near(Speed::Scaled(0.0), 21_000);
    near(Speed::Afap, 21_000);
}

#[test]
fn neither_late_sleeps_nor_the_cost_of_calls_add_up() {
    let mut draft = Draft::of(1);
    draft.file("/f", 10);
    for call in 0..2000u64 {
        let stat = Call::Stat { file: Object::Path { at: At::cwd("/f"), follow: true }, seen: None };
        draft.call_from(0, call * 50_000, call * 50_000 + 1000, stat, Outcome::Done(0));
    }
    let elapsed = elapsed_at(&draft.program(), Speed::Scaled(1.0), [5_000, 300]);
    assert_eq!(elapsed, 1999 * 50_000 + 5_000 + 1000 + 300, "late by one sleep and one call, not by all");
}

/// A parent that makes a process, which reads, and waits for its end: what the child takes counts once.
#[test]
fn a_process_begins_while_it_is_made_and_is_waited_for_once() {
    let mut draft = Draft::of(2);
    draft.trace.processes.push(Process { pid: 101, parent: Some(ThreadId(0)), cwd: PathBytes::from("/"), umask: 0 });
    draft.trace.threads[1] =
        Thread { tid: 101, process: ProcessId(1), parent: Some(ThreadId(0)), name: Word::from("") };
    draft.file("/f", 10);
    let stat = || Call::Stat { file: Object::Path { at: At::cwd("/f"), follow: true }, seen: None };
    // As vfork: the parent is held until the child, which begins after 1 ms, executes.
    let clone = Call::Clone { flags: CloneFlags::CLONE_VFORK, child: Some(ThreadId(1)) };
    draft.call_from(0, 0, 3_000_000, clone, Outcome::Done(101));
    for call in 1..20u64 {
        draft.call_from(1, call * 1_000_000, call * 1_000_000 + 1000, stat(), Outcome::Done(0));
    }
    draft.call_from(1, 20_000_000, 20_000_000, Call::Exit { status: 0, group: true }, Outcome::Unknown);
    draft.call_from(0, 4_000_000, 20_500_000, Call::Wait { pid: -1 }, Outcome::Done(101));
    draft.call_from(0, 21_000_000, 21_001_000, stat(), Outcome::Done(0));
    let program = draft.program();
    let order = Order::Root(Rules::default() | Rules::THREAD_STAGE);
    let elapsed = |call| elapsed_by(&program, order, Speed::Scaled(1.0), [call, 0, 0]);
    let near =
        |elapsed: u64, expected: u64| assert!(elapsed.abs_diff(expected) <= 20 * LOOK.0, "{elapsed}, not {expected}");
    near(elapsed(1000), 21_001_000);
    // The child's 19 calls take 200 us longer each, and the parent's last one.
    near(elapsed(201_000), 21_001_000 + 20 * 200_000);
}

/// A thread waits for another one, whose writes were slow in the trace: what they take here counts, and once.
#[test]
fn a_wait_for_a_thread_takes_as_long_as_that_thread_does_here() {
    const MS: u64 = 1_000_000;
    let mut draft = Draft::of(2);
    draft.file("/f", 10);
    let stat = || Call::Stat { file: Object::Path { at: At::cwd("/f"), follow: true }, seen: None };
    let wait = Call::FutexWait { address: 0x7000, shared: false, value: 2 };
    draft.call_from(0, 0, 1000, stat(), Outcome::Done(0));
    draft.call_from(0, 1000, 400 * MS + 50_000, wait, Outcome::Done(0));
    // 39 calls of 10 ms with 100 us of computation before each.
    for call in 0..39 {
        let enter = call * (10 * MS + 100_000) + 100_000;
        draft.call_from(1, enter, enter + 10 * MS, stat(), Outcome::Done(0));
    }
    let wake = Call::FutexWake { address: 0x7000, shared: false };
    draft.call_from(1, 400 * MS, 400 * MS + 100_000, wake, Outcome::Done(1));
    draft.call_from(0, 401 * MS, 401 * MS + 1000, stat(), Outcome::Done(0));
    let program = draft.program();
    for order in [ROOT(), Order::Temporal] {
        let elapsed = elapsed_by(&program, order, Speed::Scaled(1.0), [1000, 0, 0]);
        let alone = 400 * MS - 39 * 10 * MS + 39 * 1000;
        let expected = alone + 50_000 + 950_000 + 1000;
        assert!(elapsed.abs_diff(expected) <= 100 * LOOK.0, "{}: {elapsed}, not {expected}", order.name());
    }
    let free = elapsed_by(&program, Order::Unconstrained, Speed::Scaled(1.0), [1000, 0, 0]);
    assert!(free > 400 * MS, "without the rule the wait takes the time that it took in the trace: {free}");
}
