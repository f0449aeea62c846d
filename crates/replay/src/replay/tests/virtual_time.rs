//! The player on a target in virtual time: the loop that replays on the kernel is the one that runs here.

use std::cell::RefCell;
use std::rc::Rc;

use esker_rt::Rt;
use esker_rt::sim::{Sim, SimConfig};

use super::*;
use crate::kernel::{Answer, Turn};
use crate::player::{Played, play};

/// A device on which every call takes the same time.
struct Modelled {
    rt: Rt,
    marks: Rc<RefCell<Vec<u32>>>,
    call: Nanos,
}

/// How often a waiting player looks.
const LOOK: Nanos = Nanos(10);

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
        self.rt.sleep_until(Time(due_ns)).await;
        Ok(())
    }

    async fn perform(&mut self, turn: &Turn<'_>) -> Answer {
        self.rt.sleep(self.call).await;
        let result = turn.step.outcome.value().ok_or(Errno::ENOENT);
        Answer { result, seen: None, skipped: None }
    }
}

fn play_in_virtual_time(script: Rc<Script>, call: Nanos) -> (u64, Vec<Played>) {
    let sim = Sim::new(SimConfig::seeded(1));
    let rt = sim.rt();
    let marks = Rc::new(RefCell::new(vec![0; script.program().players().len()]));
    sim.block_on(async move {
        let start = rt.now();
        let players = (0..script.parts().len() as u32).map(|player| {
            let (script, marks) = (script.clone(), marks.clone());
            let mut target = Modelled { rt: rt.clone(), marks, call };
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
        let script = Rc::new(Script::new(program.clone(), order, Speed::Afap).unwrap());
        let (elapsed, played) = play_in_virtual_time(script, Nanos(call));
        assert!(played.iter().all(|played| played.deviations.is_empty() && !played.stopped));
        elapsed
    };
    let calls = program.len() as u64;
    assert_eq!(elapsed(Order::Single, 1000), calls * 1000, "one call after the other");
    let (root, free) = (elapsed(ROOT(), 1000), elapsed(Order::Unconstrained, 1000));
    assert!(free <= root && root < calls * 1000, "{free} {root}");
    assert_eq!(elapsed(ROOT(), 1000), root, "to the nanosecond");
}
