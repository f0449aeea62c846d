//! Replays whose threads are held up at random, in each run elsewhere.

use std::time::Duration;
use std::{env, thread};

use super::modes::assert_kept;
use super::*;

/// How many actions, and how many runs; `ESKER_REPLAY_ACTIONS=1000000 ESKER_REPLAY_RUNS=100` is the long form.
const ACTIONS: (&str, u32) = ("ESKER_REPLAY_ACTIONS", 6000);
const RUNS: (&str, u32) = ("ESKER_REPLAY_RUNS", 4);
const THREADS: u32 = 16;
/// Of so many actions one is held up, for at most so long.
const HELD_UP: u64 = 200;
const DELAY_NS: u64 = 200_000;

/// A player that is held up before some of its calls, and reports that nowhere.
struct HeldUp<'a> {
    on: OnKernel<'a>,
    random: Stream,
    delays: u64,
}

impl Target for HeldUp<'_> {
    fn now_ns(&self) -> u64 {
        self.on.now_ns()
    }

    async fn start(&mut self) -> Result<u64, Stopped> {
        self.on.start().await
    }

    fn begin(&mut self, action: u32) {
        self.on.begin(action);
    }

    fn is_met(&self, wait: Wait) -> bool {
        self.on.is_met(wait)
    }

    async fn wait(&mut self, wait: Wait) -> Result<(), Stopped> {
        self.on.wait(wait).await
    }

    fn reach(&mut self, thread: u32, mark: u32) {
        self.on.reach(thread, mark);
    }

    async fn sleep_until(&mut self, due_ns: u64) -> Result<(), Stopped> {
        self.on.sleep_until(due_ns).await
    }

    fn prepare(&mut self, turn: &Turn<'_>) {
        if self.random.below(HELD_UP) == 0 {
            thread::sleep(Duration::from_nanos(self.random.below(DELAY_NS)));
            self.delays += 1;
        }
        self.on.prepare(turn);
    }

    fn cost_ns(&self) -> u64 {
        self.on.cost_ns()
    }

    fn sharing_ns(&self) -> u64 {
        self.on.sharing_ns()
    }

    async fn perform(&mut self, turn: &Turn<'_>) -> Answer {
        self.on.perform(turn).await
    }
}

/// One run in a directory of its own; gives also how many calls were held up.
fn held_up(script: &Arc<Script>, seed: u64) -> (Finished, u64) {
    let dir = crate::testing::private_dir();
    let (root, _) = initialise(dir.path(), script.program().snapshot(), FULL_INIT, &mut |_| {}).unwrap();
    let (file_system, tally) = (root.file_system(), Arc::<Tally>::default());
    let (root, kernel) = (Arc::new(root), options().kernel);
    let kernel = Kernel::new(root, script.program(), script.pipes(), kernel, tally.clone()).unwrap();
    let session = Arc::new(Session::new(script.clone(), tally, Some(kernel)));
    let play_one = |player: u32| {
        let mut hand = CallExecutor::new(session.kernel.as_ref().unwrap(), player);
        let room = script.room(player);
        hand.make_room(room.read, room.write);
        let on = OnKernel { session: &session, player, action: 0, hand, overhead: Overhead::default() };
        let random = Stream::named(seed, &format!("delays of player {player}"));
        let mut target = HeldUp { on, random, delays: 0 };
        (blocking(play(script, player, &mut target)), target.delays)
    };
    let played: Vec<(Played, u64)> = thread::scope(|scope| {
        let players: Vec<_> = (0..session.players()).map(|player| scope.spawn(move || play_one(player))).collect();
        players.into_iter().map(|player| player.join().unwrap()).collect()
    });
    let delays = played.iter().map(|(_, delays)| delays).sum();
    let played = played.into_iter().map(|(played, _)| played).collect();
    let (script, tally) = (session.script.clone(), session.tally.clone());
    (Finished { script, tally, file_system, played, stuck: None }, delays)
}

fn asked((variable, usual): (&str, u32)) -> u32 {
    env::var(variable).map_or(usual, |text| text.parse().unwrap())
}

#[test]
fn no_dependency_is_violated_however_threads_are_held_up() {
    let (actions, runs) = (asked(ACTIONS), asked(RUNS));
    let program = busy(THREADS, actions, 8);
    let rw = (Rules::default() | Rules::FILE_RW | Rules::FD_RW) - Rules::FILE_SEQ - Rules::FD_SEQ;
    for run in 0..runs {
        // In turns, by the usual rules and by those in which reads have no order.
        let order = if run % 2 == 0 { ROOT() } else { Order::Root(rw) };
        let script = Arc::new(Script::new(program.clone(), order, Speed::Afap));
        let (finished, delays) = held_up(&script, u64::from(run));
        assert!(delays >= u64::from(actions) / HELD_UP / 2, "{delays} delays");
        let differ = finished.played.iter().flat_map(|played| &played.deviations);
        assert_eq!(differ.filter(|one| one.tolerated.is_none()).count(), 0);
        assert_kept(&program, order, &finished);
        println!("run {run} of {runs}: {actions} actions, {delays} held up");
    }
}
