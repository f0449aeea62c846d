//! Whole runs in virtual time: the initial tree, one or several traces on it at once, and their reports.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use esker_base::{Progress, Time};
use esker_fs_posix::{Settings, World};
use esker_rt::Rt;
use esker_rt::mem::Pool;
use esker_rt::sim::{Halt, Sim};
use esker_rt::sync::Notify;
use esker_trace_order::rules::{Order, Wait};
use esker_vfs::{Call, Cred, FileSystem, Ram, RamConfig, Stamp, tree_digest};

use super::costs::CallCosts;
use super::pipes::Fifos;
use super::tree::{self, TreeError};
use super::{Files, FilesExecutor, Shared};
use crate::answer::Answer;
use crate::init::{InitError, OverlayError, check_max, complete};
use crate::kernel::{ExchangeBy, FsyncMeans, KernelOptions, Turn};
use crate::outcome::{Heading, report};
use crate::player::{Played, play};
use crate::progress::Stopped;
use crate::replay::{Finished, State};
use crate::report::{Initialised, Report, Simulated, TreeDifferences};
use crate::run::{self, ReplayInput};
use crate::script::{Script, Speed};
use crate::settled;
use crate::tally::Tally;
use crate::target::Target;
use crate::watchdog::{ACTIONS, Stuck, describe_one};

/// The choices of a simulated replay.
#[derive(Clone, Debug)]
pub struct SimulateOptions {
    /// Which orders are allowed.
    pub order: Order,
    /// How much of the traced computation is slept.
    pub speed: Speed,
    /// How two files are exchanged.
    pub exchange: ExchangeBy,
    /// Bytes that the tree and what calls write may have at most.
    pub max_bytes: Option<u64>,
    /// CPU time of calls.
    pub costs: CallCosts,
    /// Simulated CPUs, as the world has them, for the report.
    pub cpus: usize,
}

/// Why a run came to no end.
#[derive(Debug, thiserror::Error)]
pub enum SimulateError {
    /// Traces that do not fit on one tree.
    #[error(transparent)]
    Overlay(#[from] OverlayError),
    /// The tree and what calls write are more than allowed.
    #[error(transparent)]
    Bound(#[from] InitError),
    /// The tree.
    #[error("the initial tree cannot be made: {0}; choose a larger file system")]
    Tree(#[from] TreeError),
    /// The file system does not show its tree.
    #[error("the tree cannot be looked at: {0}")]
    Unseen(esker_base::Errno),
    /// The file system waits for something that never comes.
    #[error("the file system stands still: {0}")]
    Halted(#[from] Halt),
}

/// Bytes of the file system for memory files and shared memory.
const MEMORY: u64 = 1 << 40;

/// Replays all of `jobs` at once on an empty file system, which lives in the world `sim`. Gives a report of each.
///
/// # Errors
/// [`SimulateError`]; calls that come out otherwise are no error.
pub fn simulate(
    sim: &Sim,
    files: Rc<dyn FileSystem>,
    jobs: Vec<ReplayInput>,
    options: &SimulateOptions,
) -> Result<Vec<Report>, SimulateError> {
    let (snapshot, notes) = run::tree(&jobs)?;
    let scripts: Vec<(String, Arc<Script>)> = jobs
        .into_iter()
        .map(|job| (job.name, Arc::new(Script::new(job.program, options.order, options.speed))))
        .collect();
    let written = scripts.iter().map(|(_, script)| run::written(script)).fold(0, u64::saturating_add);
    check_max(Path::new(files.about().kind), &snapshot, written, options.max_bytes)?;
    let shared = Rc::new(shared(&sim.rt(), files.clone(), options));
    let making = {
        let shared = shared.clone();
        async move { tree::make(&shared.process, &complete(&snapshot), shared.seed).await }
    };
    let mut done = sim.try_block_on(making)??;
    done.notes.extend(notes);
    let finished = play_all(sim, &shared, scripts.iter().map(|(_, script)| script.clone()).collect());
    let mut reports = Vec::new();
    for ((name, script), finished) in scripts.iter().zip(&finished) {
        let tree = differences(sim, &shared, script, finished, scripts.len())?;
        reports.push(report_of(name, finished, &done, tree, options));
    }
    let now = Call::at(Stamp(sim.rt().wall()));
    let digest = sim.try_block_on(async move { tree_digest(&*files, now).await })?.map_err(SimulateError::Unseen)?;
    for report in &mut reports {
        report.simulated = Some(Simulated {
            seed: sim.rt().seed(),
            cpus: options.cpus as u64,
            costs: options.costs.source().to_string(),
            tree: format!("{digest:016x}"),
            digest: format!("{:016x}", sim.digest()),
        });
    }
    Ok(reports)
}

/// The one process of all traces, and what stands in for the rest of a machine.
fn shared(rt: &Rt, files: Rc<dyn FileSystem>, options: &SimulateOptions) -> Shared {
    // What a traced process may have open is for the trace to tell.
    let settings = Settings { descriptors_max: 1 << 30, ..Settings::usual() };
    let process = |files: Rc<dyn FileSystem>| {
        let clock = rt.clone();
        let process = World::new(files, settings, move || Stamp(clock.wall())).process(Cred::root());
        process.umask(0);
        process
    };
    let memory: Rc<dyn FileSystem> = Rc::new(Ram::new(RamConfig::sized(MEMORY), Pool::default()));
    Shared {
        process: process(files),
        memory: process(memory),
        fifos: Fifos::default(),
        costs: Rc::new(options.costs.clone()),
        exchange: options.exchange,
        seed: rt.seed(),
        rt: rt.clone(),
    }
}

/// The state of one trace that its players share.
struct Stage {
    script: Arc<Script>,
    tally: Arc<Tally>,
    rt: Rt,
    marks: RefCell<Vec<u32>>,
    /// Of each thread that others wait for.
    moved: Vec<Notify>,
    doing: RefCell<Vec<Option<(u32, State)>>>,
    played: RefCell<Vec<Option<Played>>>,
    /// Actions that are complete.
    done: Cell<u64>,
}

/// Actions between two reports.
const STRIDE: u64 = 256;

impl Stage {
    fn new(rt: &Rt, script: Arc<Script>) -> Rc<Stage> {
        let (players, threads) = (script.parts().len(), script.program().players().len());
        Rc::new(Stage {
            marks: RefCell::new(vec![0; threads]),
            moved: (0..threads).map(|_| Notify::default()).collect(),
            doing: RefCell::new(vec![None; players]),
            played: RefCell::new(vec![None; players]),
            done: Cell::new(0),
            tally: Arc::default(),
            rt: rt.clone(),
            script,
        })
    }

    fn complete(&self) {
        let done = self.done.get() + 1;
        self.done.set(done);
        if done.is_multiple_of(STRIDE) {
            self.tell(done);
        }
    }

    fn actions(&self) -> u64 {
        self.script.parts().iter().map(|part| part.len() as u64).sum()
    }

    fn tell(&self, done: u64) {
        self.rt.progress(Progress::of("replay", ACTIONS, done, self.actions()));
    }

    fn is_met(&self, wait: Wait) -> bool {
        self.marks.borrow()[wait.thread as usize] >= wait.until
    }

    /// What came of it, with a line for each player that never ended.
    fn finish(&self, file_system: &str) -> Finished {
        let unfinished = |player: usize| self.played.borrow()[player].is_none();
        let line = |player: usize| {
            let (action, state) = self.doing.borrow()[player]?;
            Some(describe_one(&self.script, &|wait| self.is_met(wait), action, state))
        };
        let players = 0..self.script.parts().len();
        let is_stuck = players.clone().any(unfinished);
        let threads: Vec<String> = players.filter(|player| unfinished(*player)).filter_map(line).collect();
        Finished {
            script: self.script.clone(),
            tally: self.tally.clone(),
            file_system: file_system.to_string(),
            played: self.played.borrow().iter().map(|played| played.clone().unwrap_or_default()).collect(),
            stuck: is_stuck.then_some(Stuck { silence: None, threads, abandoned: false }),
        }
    }
}

/// One player on the file system.
struct OnFiles {
    stage: Rc<Stage>,
    player: usize,
    action: u32,
    hand: FilesExecutor,
}

impl OnFiles {
    fn say(&self, state: State) {
        self.stage.doing.borrow_mut()[self.player] = Some((self.action, state));
    }
}

impl Target for OnFiles {
    fn begin(&mut self, action: u32) {
        self.action = action;
        self.say(State::Waiting);
    }

    fn now_ns(&self) -> u64 {
        self.stage.rt.now().0
    }

    async fn start(&mut self) -> Result<u64, Stopped> {
        Ok(self.now_ns())
    }

    fn is_met(&self, wait: Wait) -> bool {
        self.stage.is_met(wait)
    }

    async fn wait(&mut self, wait: Wait) -> Result<(), Stopped> {
        self.stage.moved[wait.thread as usize].wait_until(|| self.stage.is_met(wait)).await;
        Ok(())
    }

    fn reach(&mut self, thread: u32, mark: u32) {
        let before = std::mem::replace(&mut self.stage.marks.borrow_mut()[thread as usize], mark);
        // Each action has two marks, and may reach the second one twice.
        if before < mark && mark.is_multiple_of(2) {
            self.stage.complete();
        }
        self.stage.moved[thread as usize].notify_all();
    }

    async fn sleep_until(&mut self, due_ns: u64) -> Result<(), Stopped> {
        self.say(State::Sleeping);
        self.stage.rt.sleep_until(Time(due_ns)).await;
        Ok(())
    }

    fn prepare(&mut self, turn: &Turn<'_>) {
        self.hand.prepare(turn);
    }

    fn cost_ns(&self) -> u64 {
        0
    }

    fn sharing_ns(&self) -> u64 {
        0
    }

    async fn perform(&mut self, turn: &Turn<'_>) -> Answer {
        self.say(State::Calling);
        self.hand.perform(turn).await
    }
}

/// Plays all scripts, until all players have ended or nothing can happen any more.
fn play_all(sim: &Sim, shared: &Rc<Shared>, scripts: Vec<Arc<Script>>) -> Vec<Finished> {
    let rt = sim.rt();
    let stages: Vec<Rc<Stage>> = scripts.into_iter().map(|script| Stage::new(&rt, script)).collect();
    let all = {
        let (rt, stages, shared) = (rt.clone(), stages.clone(), shared.clone());
        async move {
            let mut joins = Vec::new();
            for stage in &stages {
                let script = &stage.script;
                let files = Files::new(shared.clone(), script.program(), script.pipes(), stage.tally.clone()).await;
                for player in 0..script.parts().len() {
                    joins.push((stage.clone(), files.clone(), player));
                }
            }
            let started = joins.into_iter().map(|(stage, files, player)| {
                rt.spawn("player", async move {
                    let hand = FilesExecutor::new(files, player as u32);
                    let mut target = OnFiles { stage: stage.clone(), player, action: 0, hand };
                    let played = play(&stage.script, player as u32, &mut target).await;
                    stage.played.borrow_mut()[player] = Some(played);
                })
            });
            for join in started.collect::<Vec<_>>() {
                join.await;
            }
        }
    };
    // A world that stands still is told by the players that never ended.
    let _halt = sim.try_block_on(all);
    stages.iter().for_each(|stage| stage.tell(stage.actions()));
    let kind = shared.process.world().files().about().kind;
    stages.iter().map(|stage| stage.finish(kind)).collect()
}

/// How the tree differs from the one that the program left; `traces` were replayed on it.
fn differences(
    sim: &Sim,
    shared: &Rc<Shared>,
    script: &Arc<Script>,
    finished: &Finished,
    traces: usize,
) -> Result<TreeDifferences, SimulateError> {
    let after = match run::comparable(script, finished, traces) {
        Ok(after) => after.clone(),
        Err(why) => return Ok(TreeDifferences::none(why)),
    };
    let (shared, roots) = (shared.clone(), after.clone());
    let names = sim.try_block_on(async move { tree::look(&shared.process, &roots).await })?;
    Ok(match names {
        Ok(names) => settled::compare(&names, &after, 0o7777),
        Err(error) => TreeDifferences::none(&format!("the tree cannot be looked at: {error}")),
    })
}

fn report_of(
    name: &str,
    finished: &Finished,
    done: &Initialised,
    tree_differences: TreeDifferences,
    options: &SimulateOptions,
) -> Report {
    let platform = finished.script.program().about().platform;
    let choices =
        KernelOptions { fsync: FsyncMeans::Durable, exchange: options.exchange, platform, keep_modes: true, seed: 0 };
    let heading = Heading {
        trace: name.to_string(),
        dir: "a simulated file system".to_string(),
        init: Some(done.clone()),
        options: choices,
        tree_differences,
    };
    // What this process holds differs from run to run, and says nothing of the simulated one.
    Report { resident_bytes: 0, ..report(finished, &heading) }
}
