//! Trace text with the statistics of lair62, played on `lfs` in virtual time while a cleaner works beside it: what
//! `lfs-replay`, `lfs-replay-full` and `lfs-parallel-snapshots` share.
//!
//! The volume is as large as the source's, measured in what lives at most. Calls are made at the times
//! of the trace, so segments age by these. Seconds are those of the device model; virtual time knows no CPU. Where
//! clean segments run out, the replay waits for the cleaner, so each cleaned segment is one that the policy chose.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use esker_base::units::{GIB, MIB};
use esker_base::{Errno, Nanos, Stream};
use esker_fs_lfs::cleaner::{CleanerTurn, CleaningStep, StepEnd};
use esker_fs_lfs::control::{CheckpointMode, Checkpoints};
use esker_fs_lfs::{LfsCleaner, LfsConfig, LfsControl};
use esker_fs_posix::script::at_once;
use esker_fs_posix::{Settings, World};
use esker_rt::mem::Pool;
use esker_trace_nfs::player::NfsPayload;
use esker_trace_nfs::replay::NfsRun;
use esker_trace_nfs::{NfsGenerator, NfsReplayOptions, NfsReport, NfsShape, ProcessTarget};
use esker_vfs::{Cred, Ram, RamConfig, Stamp};

use crate::lfs_mounted::{Disk, EPOCH, Mounted, cleaner_config};
use esker_lab_kit::LabError;

/// Operations of lair62 that a replay plays.
const OPERATIONS: f64 = 228_991_698.0;
/// Lines between two looks at what lives.
const LINES_PER_SIZE: u64 = 10_000;
/// Lines between two looks at the clean segments.
const LINES_PER_LOOK: u64 = 32;
/// Clean segments, beside those that are kept back, below which the replay waits.
const FLOOR: f64 = 0.02;
/// How long it waits between two looks, and how often in a row before the file system helps itself.
const WAIT: Nanos = Nanos::millis(10);
const WAITS_MAX: u32 = 1_000;
/// Snapshots that stay, and checkpoints of which the latest become some.
const KEPT: usize = 3;
const RECENT: u64 = 8;
/// Seconds of the trace between two syncs of the source, and the share of its bytes that a sync brings here at least.
const SYNC_SECONDS: f64 = 600.0;
const SYNC_SHARE: f64 = 0.1;
/// Bytes that all tables of a replay may take.
const MEMORY: u64 = GIB;

/// A part of lair62.
#[derive(Clone, Copy)]
pub(crate) struct Trace {
    pub(crate) seed: u64,
    /// Share of its files and operations.
    pub(crate) scale: f64,
    /// Share of its length.
    pub(crate) length: f64,
}

impl Trace {
    fn shape(self) -> NfsShape {
        let usual = NfsShape::lair62(self.seed);
        let operations_per_hour = usual.operations_per_hour * self.scale;
        NfsShape { scale: self.scale, operations_per_hour, operations: Some(self.operations()), ..usual }
    }

    fn operations(self) -> u64 {
        (OPERATIONS * self.scale * self.length) as u64
    }

    /// Bytes that live at most: in the source, at its end. A part of a trace has peaks.
    pub(crate) fn live_bytes(self) -> Result<u64, LabError> {
        let ram = Ram::new(RamConfig::sized(64 * GIB), Pool::default());
        let process = World::new(Rc::new(ram), Settings::usual(), || Stamp(EPOCH)).process(Cred::root());
        let target = ProcessTarget::new(process.clone(), |_| std::future::ready(()));
        let mut run = NfsRun::new(target, options(self, NfsPayload::Zeroes));
        let mut lines = BufReader::new(NfsGenerator::new(self.shape()));
        let mut line = Vec::new();
        let (mut played, mut most) = (0_u64, 0);
        loop {
            let is_left = next(&mut lines, &mut line)?;
            if !is_left || played.is_multiple_of(LINES_PER_SIZE) {
                let (_, space) = at_once(process.statfs()).map_err(LabError::data)?;
                most = most.max(space.bytes - space.bytes_free);
            }
            if !is_left {
                return Ok(most);
            }
            at_once(run.line(&line, false));
            played += 1;
        }
    }
}

/// A volume under a trace.
#[derive(Clone, Copy)]
pub(crate) struct Played {
    pub(crate) trace: Trace,
    pub(crate) disk: Disk,
    /// Bytes of a file that never changes.
    pub(crate) still: u64,
    pub(crate) policy: &'static str,
    pub(crate) config: LfsConfig,
    /// How often snapshots change and counters are held against a count, evenly over the trace; 0: never.
    pub(crate) looks: u64,
    /// Whether snapshots change.
    pub(crate) has_snapshots: bool,
}

/// A step of the cleaner, and how much of the replay was done: lines.
pub(crate) struct Step {
    pub(crate) line: u64,
    pub(crate) efficiency: f64,
}

/// What a replay came to.
pub(crate) struct Outcome {
    pub(crate) seconds: f64,
    /// Blocks that the disk was given.
    pub(crate) blocks: f64,
    /// Blocks that the cleaner copied.
    pub(crate) copied: f64,
    pub(crate) steps: Vec<Step>,
    /// Live share of each segment in use at the end.
    pub(crate) live: Vec<f64>,
    pub(crate) report: NfsReport,
    /// Shares of the counted blocks that counters had wrong, by look.
    pub(crate) miscounted: Vec<f64>,
    /// Waits for clean segments behind which the file system had to clean by itself.
    pub(crate) waited_in_vain: u64,
}

impl Outcome {
    /// Share of the written blocks that the cleaner copied.
    pub(crate) fn gc_share(&self) -> f64 {
        self.copied / self.blocks
    }
}

fn options(trace: Trace, payload: NfsPayload) -> NfsReplayOptions {
    // A part of the operations brings fewer bytes in ten minutes, and a sync costs the same.
    let seconds = (SYNC_SECONDS * SYNC_SHARE / trace.scale).max(SYNC_SECONDS);
    NfsReplayOptions {
        memory: MEMORY,
        sync_every: Some(Nanos::from_secs_f64(seconds)),
        payload,
        begin: None,
        end: None,
    }
}

/// The next line without its end; false behind the last one.
fn next(lines: &mut impl BufRead, line: &mut Vec<u8>) -> Result<bool, LabError> {
    line.clear();
    let read = lines.read_until(b'\n', line).map_err(LabError::data)?;
    line.pop_if(|last| *last == b'\n');
    Ok(read > 0)
}

/// What the cleaner and the replay know of each other.
#[derive(Default)]
struct Shared {
    line: Cell<u64>,
    copied: Cell<u64>,
    steps: RefCell<Vec<Step>>,
    is_paused: Cell<bool>,
    is_working: Cell<bool>,
    has_ended: Cell<bool>,
}

impl Shared {
    fn note(&self, step: &CleaningStep) {
        if step.end == StepEnd::Cleaned {
            self.copied.set(self.copied.get() + step.copied);
            self.steps.borrow_mut().push(Step { line: self.line.get(), efficiency: step.efficiency() / 100.0 });
        }
    }

    async fn clean(&self, cleaner: &LfsCleaner) -> Result<(), Errno> {
        while !self.has_ended.get() {
            self.is_working.set(!self.is_paused.get());
            if self.is_paused.get() {
                cleaner.rt().sleep(WAIT).await;
                continue;
            }
            let turn = cleaner.turn().await?;
            if let CleanerTurn::Made(step) = &turn {
                self.note(step);
            }
            cleaner.rt().sleep(cleaner.pause_after(&turn)).await;
        }
        Ok(())
    }
}

/// What is told while traces are played.
pub(crate) enum Told<'o> {
    /// So many tenths of it are.
    Tenths(u64),
    /// All of it is.
    Ended(&'o Outcome),
}

/// The same on its way from a thread.
enum Heard {
    Tenths(u64),
    Ended(Box<Outcome>),
}

/// Plays traces, as many at once as there are CPUs: each has a world of its own. `say` hears of each as it ends.
pub(crate) fn played_all(plans: &[Played], say: impl Fn(usize, Told<'_>)) -> Result<Vec<Outcome>, LabError> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(plans.len());
    let (next, (sender, ended)) = (AtomicUsize::new(0), mpsc::channel());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let (next, sender) = (&next, sender.clone());
            scope.spawn(move || {
                while let Some((number, plan)) = take(plans, next) {
                    // The receiver ends early with the first error.
                    let told = sender.clone();
                    let outcome = played(*plan, move |tenths| drop(told.send((number, Ok(Heard::Tenths(tenths))))));
                    let _ = sender.send((number, outcome.map(|outcome| Heard::Ended(Box::new(outcome)))));
                }
            });
        }
        drop(sender);
        let mut outcomes: Vec<Option<Outcome>> = plans.iter().map(|_| None).collect();
        for (number, heard) in ended {
            match heard? {
                Heard::Tenths(tenths) => say(number, Told::Tenths(tenths)),
                Heard::Ended(outcome) => {
                    say(number, Told::Ended(&outcome));
                    outcomes[number] = Some(*outcome);
                }
            }
        }
        Ok(outcomes.into_iter().flatten().collect())
    })
}

fn take<'p>(plans: &'p [Played], next: &AtomicUsize) -> Option<(usize, &'p Played)> {
    let number = next.fetch_add(1, Ordering::Relaxed);
    plans.get(number).map(|plan| (number, plan))
}

/// Plays a trace. `tell` gets the tenths of it that are played.
pub(crate) fn played(plan: Played, tell: impl Fn(u64) + 'static) -> Result<Outcome, LabError> {
    Mounted::on(plan.trace.seed, plan.disk, plan.config, async move |mounted| {
        mounted.write("still", 0, plan.still).await?;
        mounted.sync().await?;
        let shared = Rc::new(Shared::default());
        let control: Rc<dyn LfsControl> = Rc::new(mounted.fs.control());
        let cleaner = LfsCleaner::new(&mounted.rt, control.clone(), cleaner_config(plan.policy));
        let working = {
            let shared = shared.clone();
            mounted.rt.spawn("cleaner", async move { shared.clean(&cleaner).await })
        };
        let snapshots = Snapshots { draws: Stream::named(plan.trace.seed, "snapshots"), kept: VecDeque::new() };
        let mut player = Player {
            plan,
            mounted,
            control,
            shared: shared.clone(),
            snapshots,
            miscounted: Vec::new(),
            waited_in_vain: 0,
            tell: Box::new(tell),
        };
        let outcome = player.play().await?;
        shared.has_ended.set(true);
        working.await.map_err(LabError::data)?;
        player.mounted.found().await?;
        Ok(outcome)
    })
}

/// A replay under way.
struct Player {
    plan: Played,
    mounted: Mounted,
    control: Rc<dyn LfsControl>,
    shared: Rc<Shared>,
    snapshots: Snapshots,
    miscounted: Vec<f64>,
    waited_in_vain: u64,
    /// Gets the tenths that are played.
    tell: Box<dyn Fn(u64)>,
}

/// The snapshots that stay, the oldest first.
struct Snapshots {
    draws: Stream,
    kept: VecDeque<u64>,
}

impl Snapshots {
    /// Keeps a random one of the latest checkpoints, and of too many lets the oldest go.
    async fn turn(&mut self, control: &dyn LfsControl) -> Result<(), Errno> {
        let latest = control.totals().await?.cno;
        let others = control.checkpoints(latest.saturating_sub(RECENT), Checkpoints::All).await?;
        let others: Vec<u64> = others.iter().filter(|info| !info.is_snapshot).map(|info| info.cno).collect();
        if others.is_empty() {
            return Ok(());
        }
        let chosen = others[self.draws.below(others.len() as u64) as usize];
        match control.set_mode(chosen, CheckpointMode::Snapshot).await {
            // The cleaner has deleted it since.
            Err(Errno::ENOENT) => return Ok(()),
            set => set?,
        }
        self.kept.push_back(chosen);
        match self.kept.len() > KEPT {
            true => control.set_mode(self.kept.pop_front().expect("there are some"), CheckpointMode::Checkpoint).await,
            false => Ok(()),
        }
    }
}

impl Player {
    async fn play(&mut self) -> Result<Outcome, LabError> {
        let (clock, trace) = (Rc::new(Cell::new(EPOCH)), self.plan.trace);
        let mut run = NfsRun::new(self.mounted.target(&clock), options(trace, NfsPayload::Random(trace.seed)));
        let mut lines = BufReader::with_capacity(MIB as usize, NfsGenerator::new(trace.shape()));
        // Each operation has two lines, and others stand between them.
        let lines_per_look = (2 * trace.operations()).checked_div(self.plan.looks).unwrap_or(u64::MAX);
        let lines_per_tenth = (trace.operations() / 5).max(1);
        let (mut line, mut first, mut apart) = (Vec::new(), None, 0.0);
        let (begun, before) = (self.mounted.seconds(), self.mounted.blocks_written());
        while next(&mut lines, &mut line)? {
            let seconds = seconds_of(&line);
            clock.set(EPOCH + (seconds - *first.get_or_insert(seconds)) * 1_000_000_000);
            run.line(&line, false).await;
            let done = self.shared.line.get() + 1;
            self.shared.line.set(done);
            if done.is_multiple_of(lines_per_tenth) {
                (self.tell)(done / lines_per_tenth);
            }
            if done.is_multiple_of(LINES_PER_LOOK) {
                self.wait_for_room().await?;
            }
            if done.is_multiple_of(lines_per_look) {
                if self.plan.has_snapshots {
                    self.snapshots.turn(&*self.control).await.map_err(LabError::data)?;
                }
                let begun = self.mounted.seconds();
                self.look().await?;
                apart += self.mounted.seconds() - begun;
            }
        }
        let report = run.finish().await;
        Ok(Outcome {
            seconds: self.mounted.seconds() - begun - apart,
            blocks: self.mounted.blocks_written() - before,
            copied: self.shared.copied.get() as f64,
            steps: self.shared.steps.take(),
            live: self.mounted.live_shares().await?,
            report,
            miscounted: std::mem::take(&mut self.miscounted),
            waited_in_vain: self.waited_in_vain,
        })
    }

    /// Holds counters against a count by brute force, while the cleaner rests.
    async fn look(&mut self) -> Result<(), LabError> {
        self.shared.is_paused.set(true);
        while self.shared.is_working.get() {
            self.mounted.rt.sleep(WAIT).await;
        }
        self.mounted.settle().await;
        self.mounted.sync().await?;
        let counted = self.mounted.found().await?;
        self.miscounted.push(counted.miscounted_blocks as f64 / counted.counted_blocks as f64);
        self.shared.is_paused.set(false);
        Ok(())
    }

    async fn wait_for_room(&mut self) -> Result<(), LabError> {
        for _ in 0..WAITS_MAX {
            let totals = self.control.totals().await.map_err(LabError::data)?;
            if totals.clean > totals.reserved + (totals.segments as f64 * FLOOR) as u64 {
                return Ok(());
            }
            self.mounted.rt.sleep(WAIT).await;
        }
        self.waited_in_vain += 1;
        Ok(())
    }
}

/// Whole seconds of a line's time.
fn seconds_of(line: &[u8]) -> i64 {
    let digits = line.iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0'))
}

/// A volume of which so much of its size lives, in whole MiB.
pub(crate) fn sized(live: u64, share: f64) -> u64 {
    ((live as f64 / share / MIB as f64).ceil() as u64) * MIB
}
