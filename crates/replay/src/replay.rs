//! A whole replay on the kernel: a thread for each traced one, and a watchdog over them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use esker_base::Nanos;
use esker_rt::Rt;
use esker_trace::ProcessId;
use esker_trace::rules::Wait;

use crate::clock;
use crate::kernel::{Answer, Hand, Kernel, KernelOptions, Turn, sharing_ns};
use crate::player::{Played, play};
use crate::progress::{Counter, Stopped};
use crate::root::Root;
use crate::script::{Script, Speed};
use crate::target::Target;
use crate::watchdog::{self, Stuck};

/// Why there was no replay.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The run directory cannot be used.
    #[error("{dir}: {source}")]
    Dir {
        /// The directory.
        dir: PathBuf,
        /// The kernel's answer.
        source: rustix::io::Errno,
    },
    /// A thread could not be started.
    #[error("thread {thread} of {threads} could not be started: {source}")]
    Thread {
        /// Which.
        thread: u32,
        /// Of how many.
        threads: u32,
        /// Why.
        source: std::io::Error,
    },
}

/// The choices of a replay.
#[derive(Clone, Copy, Debug)]
pub struct ReplayOptions {
    /// Those of the target.
    pub kernel: KernelOptions,
    /// How long nothing may happen before the replay is stopped.
    pub patience: Nanos,
}

/// What all players share.
pub struct Session {
    /// What is played.
    pub script: Arc<Script>,
    /// Where.
    pub kernel: Kernel,
    counters: Vec<Counter>,
    /// What each player is doing: 0 nothing, otherwise an action's number plus one, and above it a [`State`].
    doing: Vec<AtomicU32>,
    ready: AtomicU32,
    go: Counter,
    start_ns: AtomicU64,
    /// What the replay itself takes of the time of a call.
    cost_ns: u64,
    /// What calls of each player take longer because the threads of a replay are one process.
    sharings_ns: Vec<u64>,
    stop: AtomicBool,
    played: Vec<Mutex<Option<Played>>>,
}

/// What a player does with its action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Waits for others.
    Waiting,
    /// Sleeps what was computed.
    Sleeping,
    /// Is in the call.
    Calling,
}

/// Where a player's word has its state; below are numbers of actions, of which there are fewer.
const STATE_BIT: u32 = 30;

/// The end of a replay.
pub struct Finished {
    /// What was played, where.
    pub session: Arc<Session>,
    /// What each player did; nothing of one that never came back.
    pub played: Vec<Played>,
    /// What stopped it, if anything did.
    pub stuck: Option<Stuck>,
}

/// One player on the kernel.
struct OnKernel<'a> {
    session: &'a Session,
    player: u32,
    action: u32,
    hand: Hand<'a>,
}

/// Plays `script` in the run directory `dir` with the tree `root`.
///
/// # Errors
/// [`ReplayError`]; calls that fail are no error, but told in the end.
pub async fn replay(
    rt: Rt,
    script: Arc<Script>,
    dir: PathBuf,
    root: Arc<Root>,
    options: ReplayOptions,
) -> Result<Finished, ReplayError> {
    let dir_error = |source| ReplayError::Dir { dir: dir.clone(), source };
    let kernel = Kernel::new(&dir, root, script.program(), script.pipes(), options.kernel).map_err(dir_error)?;
    let sharing_ns = if script.speed() == Speed::Afap { 0 } else { rt.worker(Nanos::ZERO, sharing_ns).await };
    let session = Arc::new(Session::new(script, kernel, sharing_ns));
    let threads = session.played.len() as u32;
    let failure = Arc::new(Mutex::new(None));
    let mut joins = Vec::new();
    for thread in 0..threads {
        let (rt, session, failure) = (rt.clone(), session.clone(), failure.clone());
        joins.push(rt.clone().spawn("replay thread", async move {
            let playing = session.clone();
            let agent = rt.agent("esker-replay", move |_| async move { playing.play(thread).await });
            if let Err(source) = agent.await {
                session.stop();
                *failure.lock().unwrap_or_else(PoisonError::into_inner) =
                    Some(ReplayError::Thread { thread, threads, source });
            }
        }));
    }
    let stuck = watchdog::watch(&rt, &session, &joins, options.patience).await;
    session.kernel.let_go();
    joins.into_iter().for_each(esker_rt::JoinHandle::detach);
    if let Some(error) = failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
        return Err(error);
    }
    let take =
        |slot: &Mutex<Option<Played>>| slot.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default();
    let played = session.played.iter().map(take).collect();
    Ok(Finished { session, played, stuck })
}

impl Session {
    fn new(script: Arc<Script>, kernel: Kernel, sharing_ns: u64) -> Session {
        let (players, threads) = (script.parts().len(), script.program().players().len());
        // As fast as possible, nothing is paced. Measured before players run, who would disturb it.
        let cost_ns = if script.speed() == Speed::Afap { 0 } else { Hand::new(&kernel, 0).cost_ns() };
        Session {
            counters: (0..threads).map(|_| Counter::default()).collect(),
            doing: (0..players).map(|_| AtomicU32::new(0)).collect(),
            ready: AtomicU32::new(0),
            go: Counter::default(),
            start_ns: AtomicU64::new(0),
            cost_ns,
            sharings_ns: sharings_ns(&script, sharing_ns),
            stop: AtomicBool::new(false),
            played: (0..players).map(|_| Mutex::new(None)).collect(),
            script,
            kernel,
        }
    }

    async fn play(&self, player: u32) {
        clock::wake_on_time();
        let hand = Hand::new(&self.kernel, player);
        let mut hand = if self.script.speed() == Speed::Afap { hand } else { hand.timed() };
        let room = self.script.room(player);
        hand.make_room(room.read, room.write);
        let mut target = OnKernel { session: self, player, action: 0, hand };
        let played = play(&self.script, player, &mut target).await;
        self.doing[player as usize].store(0, Ordering::Relaxed);
        *self.played[player as usize].lock().unwrap_or_else(PoisonError::into_inner) = Some(played);
    }

    /// Everybody comes to an end: who waits is told, who is in a call finds the other end closed.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        self.kernel.let_go();
        self.go.ring();
        self.counters.iter().for_each(Counter::ring);
    }

    /// A number that changes as long as anything happens.
    pub(crate) fn pulse(&self) -> u64 {
        let marks: u64 = self.counters.iter().map(|counter| u64::from(counter.count())).sum();
        marks + u64::from(self.ready.load(Ordering::Relaxed))
    }

    /// What a player is at.
    pub(crate) fn doing(&self, player: u32) -> Option<(u32, State)> {
        let word = self.doing[player as usize].load(Ordering::Relaxed);
        let state = match word >> STATE_BIT {
            0 => State::Waiting,
            1 => State::Sleeping,
            _ => State::Calling,
        };
        (word & ((1 << STATE_BIT) - 1)).checked_sub(1).map(|action| (action, state))
    }

    /// How many players there are.
    pub(crate) fn players(&self) -> u32 {
        self.played.len() as u32
    }

    /// Whether a thread has reached a mark.
    pub(crate) fn is_met(&self, wait: Wait) -> bool {
        self.counters[wait.thread as usize].count() >= wait.until
    }
}

/// Where a traced process had a single thread, its calls on descriptors were as much faster as they are slower for threads that share
/// a table of them, as those of a replay do.
fn sharings_ns(script: &Script, sharing_ns: u64) -> Vec<u64> {
    let players = script.program().players();
    let mut threads: BTreeMap<ProcessId, u32> = BTreeMap::new();
    players.iter().for_each(|player| *threads.entry(player.process).or_default() += 1);
    let alone = |part: &Vec<u32>| {
        let thread = part.first().map(|action| script.place(*action).thread as usize);
        thread.is_some_and(|thread| threads[&players[thread].process] == 1)
    };
    script.parts().iter().map(|part| if alone(part) { sharing_ns } else { 0 }).collect()
}

impl OnKernel<'_> {
    #[inline]
    fn say(&self, state: State) {
        let word = (self.action + 1) | (state as u32) << STATE_BIT;
        self.session.doing[self.player as usize].store(word, Ordering::Relaxed);
    }
}

impl Target for OnKernel<'_> {
    #[inline]
    fn begin(&mut self, action: u32) {
        self.action = action;
        self.say(State::Waiting);
    }

    fn now_ns(&self) -> u64 {
        clock::now_ns()
    }

    async fn start(&mut self) -> Result<u64, Stopped> {
        let session = self.session;
        if session.ready.fetch_add(1, Ordering::SeqCst) + 1 == session.players() {
            session.start_ns.store(clock::now_ns(), Ordering::SeqCst);
            session.go.reach(1);
        }
        session.go.wait(1, &session.stop)?;
        Ok(session.start_ns.load(Ordering::SeqCst))
    }

    #[inline]
    fn is_met(&self, wait: Wait) -> bool {
        self.session.is_met(wait)
    }

    async fn wait(&mut self, wait: Wait) -> Result<(), Stopped> {
        self.session.counters[wait.thread as usize].wait(wait.until, &self.session.stop)
    }

    #[inline]
    fn reach(&mut self, thread: u32, mark: u32) {
        self.session.counters[thread as usize].reach(mark);
    }

    async fn sleep_until(&mut self, due_ns: u64) -> Result<(), Stopped> {
        self.say(State::Sleeping);
        clock::sleep_until(due_ns, &self.session.stop);
        if self.session.stop.load(Ordering::Relaxed) { Err(Stopped) } else { Ok(()) }
    }

    #[inline]
    fn prepare(&mut self, turn: &Turn<'_>) {
        self.hand.prepare(turn);
    }

    fn cost_ns(&self) -> u64 {
        self.session.cost_ns
    }

    fn sharing_ns(&self) -> u64 {
        self.session.sharings_ns[self.player as usize]
    }

    async fn perform(&mut self, turn: &Turn<'_>) -> Answer {
        self.say(State::Calling);
        self.hand.perform(turn)
    }
}

#[cfg(test)]
mod tests;
