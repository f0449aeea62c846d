//! The open layer: its parts, its rest, and what it tells.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use esker_base::{Nanos, Time};
use esker_block::{BioError, Class, KindError, Latch, LayerHandle, Stat, Tag, Trouble, WorkPermit};
use esker_layer_kit::mover::{Grain, Mover, Rules, Way};
use esker_layer_kit::pace::Shares;
use esker_layer_kit::slots::{LowerSet, NOTE_BYTES, SlotMap};
use esker_layer_kit::{Background, Gate, Io, Task, Then, Turn};
use esker_rt::Rt;
use esker_rt::mem::Pool;
use esker_rt::sync::Notify;

use crate::config::TierConfig;
use crate::opening;
use crate::pacing::Cancels;
use crate::placing::Placing;
use crate::queue::Queue;
use crate::seen::Seen;
use crate::statistics::{Counts, Present};

/// How long a hold of changes may last.
pub(crate) const HOLD_MAX: Nanos = Nanos::millis(50);
/// The same while an end is relieved: its writes wait in a queue, and the hold waits for those of one unit.
pub(crate) const RELIEF_HOLD_MAX: Nanos = Nanos::secs(1);
/// How often changed units are copied again beside clients.
const PASSES: u32 = 2;
/// Bytes of one request of a move that relieves no end: a client that comes behind it waits for all of them. A disk of
/// the thesis' testbed transfers so many in the time of a short seek.
const PIECE_MAX: u64 = 256 << 10;
/// An end without a client for so long is the mover's.
const IDLE_AFTER: Nanos = Nanos::millis(100);
/// What an operator is told when the map could not be written.
const ADVICE: &str = "Repair the first end, then restart: what was synced is safe.";
/// The same of a flush.
const FLUSH_ADVICE: &str = "Writes to it that were not synced may be lost. Repair it, then restart.";

/// What is known of one lower device.
pub(crate) struct End {
    /// Clients changed it since it was flushed.
    pub(crate) written: Cell<bool>,
    /// A move that ended early may have left copies there that are not durable.
    pub(crate) copied: Cell<bool>,
    /// Set when a flush failed: it takes no more changes.
    pub(crate) latch: Latch,
    /// It does not answer.
    pub(crate) is_lost: Cell<bool>,
    /// Moves that it failed, one after the other.
    pub(crate) failures: Cell<u32>,
    /// An operator empties it.
    pub(crate) drains: Cell<bool>,
    /// A move has it.
    pub(crate) is_busy: Cell<bool>,
}

impl End {
    fn new(name: &str, end: usize, is_clean: bool) -> End {
        End {
            written: Cell::new(!is_clean),
            copied: Cell::new(false),
            latch: Latch::new(&format!("end {end} of {name}")),
            is_lost: Cell::new(false),
            failures: Cell::new(0),
            drains: Cell::new(false),
            is_busy: Cell::new(false),
        }
    }

    /// Whether nothing shall be put there.
    pub(crate) fn is_out(&self) -> bool {
        self.is_lost.get() || self.latch.is_set() || self.drains.get()
    }
}

/// An open tier.
pub struct Tier {
    pub(crate) config: TierConfig,
    pub(crate) rt: Rt,
    pub(crate) pool: Pool,
    pub(crate) gate: Gate,
    pub(crate) map: SlotMap,
    pub(crate) placing: RefCell<Placing>,
    pub(crate) ends: Vec<End>,
    /// When requests began that go straight down, by their tickets.
    pub(crate) begun: RefCell<Vec<Time>>,
    flushes: Turn,
    pub(crate) whole: Mover,
    pub(crate) by_unit: Mover,
    pub(crate) shares: Shares,
    /// Cancels planned moves.
    pub(crate) cancels: Cancels,
    /// Cancels all others.
    pub(crate) stops: Cancels,
    /// Extents that move.
    pub(crate) moving: RefCell<BTreeSet<u32>>,
    pub(crate) moved: Notify,
    pub(crate) queue: RefCell<Queue>,
    pub(crate) seen: RefCell<Seen>,
    pub(crate) counts: Counts,
    /// Set when the map could not be written: no more changes.
    pub(crate) latch: Latch,
    /// The medium says that the layer has stopped.
    pub(crate) is_settled: Cell<bool>,
    pub(crate) background: Background,
    pub(crate) handle: OnceCell<LayerHandle>,
}

impl Tier {
    /// Opens a tier, or makes one of blank ends.
    ///
    /// # Errors
    /// As [`opening::open`].
    pub(crate) async fn open(config: TierConfig, io: &Io) -> Result<Rc<Tier>, KindError> {
        let opened = opening::open(&config, io).await?;
        let rt = io.rt().clone();
        let (gate, name) = (Gate::default(), config.name.clone());
        let ends = (0..config.ends.len()).map(|end| End::new(&name, end, opened.is_clean)).collect();
        let rules = |unit, grain, hold_max| Rules {
            unit,
            grain,
            passes: PASSES,
            hold_max,
            width: 1,
            tag: Tag::of(Class::Background),
            described: config.is_described,
        };
        let tier = Rc::new(Tier {
            whole: Mover::migrating(gate.clone(), rules(config.unit.min(PIECE_MAX), Grain::Whole, HOLD_MAX)),
            by_unit: Mover::migrating(gate.clone(), rules(config.unit, Grain::Unit, RELIEF_HOLD_MAX)),
            shares: Shares::new(&rt, config.ends.len(), config.share, IDLE_AFTER),
            seen: RefCell::new(Seen::new(&config, rt.now())),
            pool: io.pool().clone(),
            gate,
            map: opened.map,
            placing: RefCell::new(opened.placing),
            ends,
            begun: RefCell::default(),
            flushes: Turn::default(),
            cancels: Cancels::default(),
            stops: Cancels::default(),
            moving: RefCell::default(),
            moved: Notify::default(),
            queue: RefCell::default(),
            counts: Counts::default(),
            latch: Latch::new(&name),
            is_settled: Cell::new(false),
            background: Background::default(),
            handle: OnceCell::new(),
            rt,
            config,
        });
        tier.queue_splits();
        Ok(tier)
    }

    /// The tasks: one that looks and plans, and as many that move as moves have room beside each other.
    pub(crate) fn tasks(self: &Rc<Self>, handle: &LayerHandle) -> Vec<Task> {
        let is_first = self.handle.set(handle.clone()).is_ok();
        debug_assert!(is_first, "a layer is opened once");
        let (looks, of_looks) = (self.clone(), handle.clone());
        let mut tasks: Vec<Task> = vec![("tier-look", Box::pin(async move { looks.look_on(&of_looks).await }))];
        for _ in 0..self.ends.len() / 2 {
            let (moves, of_moves) = (self.clone(), handle.clone());
            tasks.push(("tier-move", Box::pin(async move { moves.move_on(&of_moves).await })));
        }
        tasks
    }

    /// Looks whenever that is due, and plans at the end of each epoch.
    async fn look_on(self: Rc<Self>, handle: &LayerHandle) {
        let due = || {
            let next = self.seen.borrow().next_look(self.config.look);
            (!self.is_settled.get()).then(|| (next.since(self.rt.now()), ()))
        };
        let work = async |permit: WorkPermit, ()| {
            // What is below is not needed: a change of the stack must not wait for a plan.
            drop(permit);
            self.look();
            if self.seen.borrow_mut().epoch_ends(self.rt.now(), self.config.epoch) {
                self.end_epoch().await;
            }
            Then::Again
        };
        self.background.run((&self.rt, Some(&self.latch)), handle, due, work).await;
    }

    /// Moves one extent after the other.
    async fn move_on(self: Rc<Self>, handle: &LayerHandle) {
        let due = || self.next_job().map(|job| (Nanos::ZERO, job));
        let work = async |permit: WorkPermit, job| {
            // The mover enters the stack for each piece.
            drop(permit);
            self.carry_job(job).await;
            Then::Again
        };
        self.background.run((&self.rt, Some(&self.latch)), handle, due, work).await;
    }

    /// How a move gets to what is below.
    pub(crate) fn way(&self) -> Way {
        let handle = self.handle.get().expect("a move begins in a layer that is open");
        Way::Background(self.rt.clone(), self.pool.clone(), handle.clone())
    }

    /// Latches because the map could not be written.
    pub(crate) fn map_failed(&self, error: &BioError) {
        self.latch.set_after(&self.rt, "the map could not be written", error, ADVICE);
    }

    /// Makes all completed changes durable: of the ends that clients changed since they were flushed.
    ///
    /// # Errors
    /// An end's. It takes no changes from then on, and each later flush fails, too: what was written there may be lost.
    pub(crate) async fn sync(&self, io: &Io) -> Result<(), BioError> {
        self.latch.check()?;
        // A flush that finds nothing written waits for the one that took it.
        self.flushes.alone(self.flush(io)).await
    }

    async fn flush(&self, io: &Io) -> Result<(), BioError> {
        self.ends.iter().try_for_each(|end| end.latch.check())?;
        let written: Vec<usize> = (0..self.ends.len()).filter(|end| self.ends[*end].written.replace(false)).collect();
        let flushes = written.iter().map(|end| esker_block::Bio::flush().to(io.lower(*end))).collect();
        let mut first = Ok(());
        for (end, returned) in written.iter().zip(io.all(flushes, self.ends.len()).await) {
            if let Err(error) = returned.result {
                self.ends[*end].latch.set_after(&self.rt, "a flush failed", &error, FLUSH_ADVICE);
                first = first.and(Err(error));
            }
        }
        first
    }

    /// Makes everything durable and says so on the medium. No move is under way, and none begins.
    ///
    /// # Errors
    /// The ends'.
    pub(crate) async fn quiesce(&self, io: &Io) -> Result<(), BioError> {
        self.is_settled.set(true);
        self.cancel_all();
        if self.latch.is_set() {
            return Ok(());
        }
        self.ends.iter().filter(|end| end.copied.take() && !end.is_lost.get()).for_each(|end| end.written.set(true));
        let flushed = self.sync(io).await;
        let settled = self.map.settle_behind(io, &[0; NOTE_BYTES], LowerSet::NONE).await;
        flushed.and(settled.map_err(|error| BioError::io(error.to_string())))
    }

    /// Cancels all moves, each after its present piece of work.
    pub(crate) fn cancel_all(&self) {
        self.cancels.cancel();
        self.stops.cancel();
    }

    /// Ends the tasks.
    pub(crate) fn close(&self) {
        self.background.close();
    }

    /// Bytes of memory of map, places and counters.
    fn memory(&self) -> usize {
        self.map.bytes() + self.placing.borrow().bytes() + self.seen.borrow().bytes()
    }

    pub(crate) fn stats(&self) -> Vec<Stat> {
        let (placing, seen) = (self.placing.borrow(), self.seen.borrow());
        let ends = 0..self.ends.len();
        self.counts.told(&Present {
            extents: u64::from(placing.extents()),
            moving: self.moving.borrow().len() as u64,
            queued: self.queue.borrow().len() as u64,
            split: placing.splits().count() as u64,
            budget: u64::from(seen.budgets().into_iter().min().unwrap_or(0)),
            throttling: seen.throttling().filter(|throttles| *throttles).count() as u64,
            ends_unused: ends.filter(|end| placing.residents(*end) == 0).count() as u64,
            ends_lost: self.ends.iter().filter(|end| end.is_lost.get()).count() as u64,
            memory_bytes: self.memory() as u64,
            is_latched: self.latch.is_set() || self.ends.iter().any(|end| end.latch.is_set()),
        })
    }

    pub(crate) fn trouble(&self) -> Option<Trouble> {
        let of_end = || self.ends.iter().find_map(|end| end.latch.trouble());
        let lost = || {
            let end = self.ends.iter().position(|end| end.is_lost.get())?;
            let name = &self.config.name;
            Some(Trouble::Degraded(format!(
                "{name} goes on without end {end}, which does not answer. Its extents fail."
            )))
        };
        self.latch.trouble().or_else(of_end).or_else(lost)
    }
}
