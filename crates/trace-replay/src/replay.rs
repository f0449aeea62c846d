//! A whole replay on the kernel: a thread for each traced one, and a watchdog over them.
//!
//! Descriptors are shared by all players, as slots are, but not with a player that is alone. Its thread has a table of
//! its own, which it makes, fills and empties. No other thread ever sees a descriptor of it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use esker_base::Nanos;
use esker_rt::{JoinHandle, Rt};
use esker_sys::work_isolated;
use esker_trace_calls::ProcessId;
use esker_trace_order::rules::Wait;

use crate::clock;
use crate::kernel::{Answer, CallExecutor, Kernel, KernelOptions, Turn, sharing_ns};
use crate::player::{Played, play};
use crate::progress::{Counter, Stopped};
use crate::root::{Root, RootPath};
use crate::script::{Script, Speed};
use crate::tally::Tally;
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

/// What all players and their watchdog share.
pub struct Session {
    /// What is played.
    pub script: Arc<Script>,
    /// What was done otherwise than traced.
    pub tally: Arc<Tally>,
    /// Where, if players share their descriptors; a player that is alone has its own, which no other player may close.
    kernel: Option<Kernel>,
    counters: Vec<Counter>,
    /// What each player is doing: 0 nothing, otherwise an action's number plus one, and above it a [`State`].
    doing: Vec<AtomicU32>,
    ready: AtomicU32,
    go: Counter,
    start_ns: AtomicU64,
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
    /// What was played.
    pub script: Arc<Script>,
    /// What was done otherwise than traced.
    pub tally: Arc<Tally>,
    /// Type of the file system on which it was.
    pub file_system: String,
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
    hand: CallExecutor<'a>,
    overhead: Overhead,
}

/// What a replay adds to the time of a call, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Overhead {
    /// By itself.
    cost_ns: u64,
    /// Because its threads are one process.
    sharing_ns: u64,
}

/// A player that has descriptors of its own, before it has any.
struct Alone {
    session: Arc<Session>,
    tree: RootPath,
    options: KernelOptions,
    failure: Failure,
}

/// What kept a player from playing.
type Failure = Arc<Mutex<Option<ReplayError>>>;

/// Plays `script` on the tree `root`. Reports its actions as part `what`.
///
/// # Errors
/// [`ReplayError`]; calls that fail are no error, but told in the end.
pub async fn replay(
    rt: Rt,
    what: String,
    script: Arc<Script>,
    root: Arc<Root>,
    options: ReplayOptions,
) -> Result<Finished, ReplayError> {
    let (file_system, failure) = (root.file_system(), Failure::default());
    let (session, joins) = if script.is_alone() {
        begin_alone(&rt, script, &root, options.kernel, &failure)
    } else {
        begin_together(&rt, script, root, options.kernel, &failure).await?
    };
    let stuck = watchdog::watch(&rt, &what, &session, &joins, options.patience).await;
    session.let_go();
    joins.into_iter().for_each(JoinHandle::detach);
    if let Some(error) = lock(&failure).take() {
        return Err(error);
    }
    let played = session.played.iter().map(|played| lock(played).take().unwrap_or_default()).collect();
    Ok(Finished { script: session.script.clone(), tally: session.tally.clone(), file_system, played, stuck })
}

/// A thread for each player. They share their descriptors.
async fn begin_together(
    rt: &Rt,
    script: Arc<Script>,
    root: Arc<Root>,
    options: KernelOptions,
    failure: &Failure,
) -> Result<(Arc<Session>, Vec<JoinHandle<()>>), ReplayError> {
    let tally = Arc::<Tally>::default();
    let dir = root.run().path().to_path_buf();
    let kernel = Kernel::new(root, script.program(), script.pipes(), options, tally.clone())
        .map_err(|source| ReplayError::Dir { dir, source })?;
    // Measured before players run, which would disturb it.
    let cost_ns = cost_ns(&script, &kernel);
    let sharing_ns = if script.speed() == Speed::Afap { 0 } else { rt.worker(Nanos::ZERO, sharing_ns).await };
    let sharings_ns = sharings_ns(&script, sharing_ns);
    let session = Arc::new(Session::new(script, tally, Some(kernel)));
    let begin = |(player, sharing_ns)| {
        let (rt, session, failure) = (rt.clone(), session.clone(), failure.clone());
        rt.clone().spawn("replay thread", async move {
            let playing = session.clone();
            let overhead = Overhead { cost_ns, sharing_ns };
            let agent = rt.agent("esker-replay", move |_| async move {
                let kernel = playing.kernel.as_ref().expect("players that share descriptors have a kernel");
                playing.play(kernel, player, overhead).await;
            });
            if let Err(source) = agent.await {
                session.fail(&failure, ReplayError::Thread { thread: player, threads: session.players(), source });
            }
        })
    };
    let joins = (0..).zip(sharings_ns).map(begin).collect();
    Ok((session, joins))
}

/// A thread with descriptors of its own, as the program was: then its calls take as long as the program's, for which
/// the kernel need not count the users of a descriptor either.
fn begin_alone(
    rt: &Rt,
    script: Arc<Script>,
    root: &Root,
    options: KernelOptions,
    failure: &Failure,
) -> (Arc<Session>, Vec<JoinHandle<()>>) {
    let session = Arc::new(Session::new(script, Arc::default(), None));
    let tree = root.unopened();
    let alone = Alone { session: session.clone(), tree, options, failure: failure.clone() };
    let (rt, watched, failure) = (rt.clone(), session.clone(), failure.clone());
    let join = rt.clone().spawn("replay thread", async move {
        if let Err(source) = rt.worker(Nanos::ZERO, || work_isolated(Alone::play, alone)).await {
            watched.fail(&failure, ReplayError::Thread { thread: 0, threads: 1, source });
        }
    });
    (session, vec![join])
}

impl Alone {
    fn play(self) {
        let Alone { session, tree, options, failure } = self;
        let dir = tree.run().to_path_buf();
        let script = &session.script;
        let kernel = tree.open().and_then(|root| {
            Kernel::new(Arc::new(root), script.program(), script.pipes(), options, session.tally.clone())
        });
        match kernel {
            Ok(kernel) => {
                let overhead = Overhead { cost_ns: cost_ns(script, &kernel), sharing_ns: 0 };
                blocking(session.play(&kernel, 0, overhead));
            }
            Err(source) => session.fail(&failure, ReplayError::Dir { dir, source }),
        }
    }
}

/// What a player on the kernel does blocks its thread: its futures are ready at once.
fn blocking<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("a player on the kernel waits in its thread"),
    }
}

/// As fast as possible, nothing is paced.
fn cost_ns(script: &Script, kernel: &Kernel) -> u64 {
    if script.speed() == Speed::Afap { 0 } else { CallExecutor::new(kernel, 0).cost_ns() }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is behind these is put there whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Session {
    fn new(script: Arc<Script>, tally: Arc<Tally>, kernel: Option<Kernel>) -> Session {
        let (players, threads) = (script.parts().len(), script.program().players().len());
        Session {
            counters: (0..threads).map(|_| Counter::default()).collect(),
            doing: (0..players).map(|_| AtomicU32::new(0)).collect(),
            ready: AtomicU32::new(0),
            go: Counter::default(),
            start_ns: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            played: (0..players).map(|_| Mutex::new(None)).collect(),
            script,
            tally,
            kernel,
        }
    }

    async fn play(&self, kernel: &Kernel, player: u32, overhead: Overhead) {
        clock::set_timer_slack();
        let hand = CallExecutor::new(kernel, player);
        let mut hand = if self.script.speed() == Speed::Afap { hand } else { hand.timed() };
        let room = self.script.room(player);
        hand.make_room(room.read, room.write);
        let mut target = OnKernel { session: self, player, action: 0, hand, overhead };
        let played = play(&self.script, player, &mut target).await;
        self.doing[player as usize].store(0, Ordering::Relaxed);
        *lock(&self.played[player as usize]) = Some(played);
    }

    /// Ends all players: a waiting one is told, one in a call finds the other end closed. Where that cannot be, no
    /// player is in a call that waits for another end.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        self.let_go();
        self.go.ring();
        self.counters.iter().for_each(Counter::ring);
    }

    fn let_go(&self) {
        if let Some(kernel) = &self.kernel {
            kernel.let_go();
        }
    }

    fn fail(&self, failure: &Failure, error: ReplayError) {
        self.stop();
        *lock(failure) = Some(error);
    }

    /// A number that changes as long as anything happens.
    pub(crate) fn pulse(&self) -> u64 {
        let marks: u64 = self.counters.iter().map(|counter| u64::from(counter.count())).sum();
        marks + u64::from(self.ready.load(Ordering::Relaxed))
    }

    /// Actions that are complete, and all of them.
    pub(crate) fn actions(&self) -> (u64, u64) {
        // Each action has two marks.
        let done = self.counters.iter().map(|counter| u64::from(counter.count() / 2)).sum();
        (done, self.script.parts().iter().map(|part| part.len() as u64).sum())
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

/// Where a traced process had a single thread, its calls on descriptors were as much faster as they are slower for
/// threads that share a table of them, as those of a replay do.
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
        self.overhead.cost_ns
    }

    fn sharing_ns(&self) -> u64 {
        self.overhead.sharing_ns
    }

    async fn perform(&mut self, turn: &Turn<'_>) -> Answer {
        self.say(State::Calling);
        self.hand.perform(turn)
    }
}

mod crossing;
#[cfg(test)]
mod tests;
