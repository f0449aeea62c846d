//! Windows: times at which the disk is awake anyway, or must be. Only in a window the layer uses the disk by itself.
//!
//! A client that wakes the disk opens a window, which ends when the disk rests again. So does the write-back of too
//! many dirty copies. When the clients are quiet, a plan is made and worked off in batches: write back what leaves,
//! give up what makes room, fetch what is worth most in the order of home. A client that uses the disk goes first.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use esker_base::Nanos;
use esker_block::{BioError, LayerHandle, WorkPermit};
use esker_caching::Slot;
use esker_layer_aside::Aside;
use esker_layer_kit::{Io, Then};
use esker_rt::Rt;
use esker_rt::sync::join_all;

use crate::director::RankDirector;

/// Pages of a batch.
const BATCH: usize = 16;
/// Pages that a plan fetches at most.
const PLAN_MAX: usize = 1 << 12;
/// How long clients are quiet before a plan is made, at most; and before its next batch.
const QUIET_MAX: Nanos = Nanos::secs(1);
const QUIET: Nanos = Nanos::millis(10);
/// Part of `idle_after` that clients are quiet at most.
const QUIET_PART: u64 = 4;
/// How long the layer waits behind a failure.
const RETRY: Nanos = Nanos::secs(1);
/// Share of the dirty copies at which pressure begins that a plan leaves dirty.
const LEFT: f64 = 0.5;

/// What the layer decides when.
pub struct Windows {
    rt: Rt,
    aside: Rc<Aside<RankDirector>>,
    idle_after: Nanos,
    pressure: f64,
    plan: RefCell<Option<Plan>>,
    counts: Cell<WindowCounts>,
}

/// What windows did.
#[derive(Clone, Copy, Default, Debug)]
pub struct WindowCounts {
    /// Plans that were made while a client had woken the disk.
    pub plans: u64,
    /// Plans that were made because too many copies were dirty.
    pub pressed: u64,
    /// Pages that were fetched.
    pub fetched: u64,
}

/// What is left to do. Pages are taken from the end.
struct Plan {
    is_pressed: bool,
    leaving: Vec<(u64, Slot)>,
    /// Whether the others were chosen.
    is_chosen: bool,
    given_up: Vec<u64>,
    fetched: Vec<u64>,
}

impl Plan {
    fn is_done(&self) -> bool {
        self.is_chosen && self.given_up.is_empty() && self.fetched.is_empty()
    }
}

impl Windows {
    /// For an open engine whose cleaning is the kind's.
    pub fn new(rt: Rt, aside: Rc<Aside<RankDirector>>, idle_after: Nanos, pressure: f64) -> Windows {
        Windows { rt, aside, idle_after, pressure, plan: RefCell::default(), counts: Cell::default() }
    }

    /// What was done.
    pub fn counts(&self) -> WindowCounts {
        self.counts.get()
    }

    /// Uses windows until the layer closes.
    pub async fn run(self: Rc<Self>, handle: LayerHandle) {
        let background = self.aside.background().clone();
        let due = || self.due().map(|pause| (pause, ()));
        let work = async |permit: WorkPermit, ()| {
            // A client may have come, or the disk may rest by now.
            match self.due() {
                Some(pause) if pause == Nanos::ZERO => self.work(&self.aside.io(&permit)).await,
                _ => Then::Again,
            }
        };
        background.run((&self.rt, None), &handle, due, work).await;
    }

    /// Whether there is something to do, and how long to wait for the clients.
    fn due(&self) -> Option<Nanos> {
        if self.aside.is_over() {
            return None;
        }
        let quiet_max = self.idle_after.0 / QUIET_PART;
        let wait = |quiet: Nanos| Nanos(quiet.0.min(quiet_max).saturating_sub(self.aside.home_idle().0));
        let is_resting = self.aside.director().borrow().is_resting();
        let mut plan = self.plan.borrow_mut();
        if plan.as_ref().is_some_and(|plan| is_resting && !plan.is_pressed) {
            // The window has ended: the disk is not woken for what is left.
            *plan = None;
        }
        match (plan.is_some(), self.is_pressed()) {
            (true, _) | (_, true) => Some(wait(QUIET)),
            (false, false) => self.aside.director().borrow().is_wanted().then(|| wait(QUIET_MAX)),
        }
    }

    fn is_pressed(&self) -> bool {
        let space = self.aside.space();
        space.dirty as f64 > self.pressure * space.slots as f64
    }

    async fn work(&self, io: &Io) -> Then {
        let plan = self.plan.borrow_mut().take();
        let mut plan = plan.unwrap_or_else(|| self.make_plan());
        let result = self.step(io, &mut plan).await;
        if !plan.is_done() {
            *self.plan.borrow_mut() = Some(plan);
        }
        if result.is_ok() { Then::Again } else { Then::After(RETRY) }
    }

    fn make_plan(&self) -> Plan {
        let (space, is_pressed) = (self.aside.space(), self.is_pressed());
        let left = (self.pressure * LEFT * space.slots as f64) as u64;
        let mut leaving = Vec::new();
        if space.dirty > left {
            leaving = self.aside.coldest();
            leaving.retain(|(unit, _)| matches!(self.aside.copy_of(*unit), Some((_, true))));
            leaving.truncate((space.dirty - left) as usize);
            leaving.sort_unstable_by(|one, other| other.cmp(one));
        }
        self.aside.director().borrow_mut().planned();
        let mut counts = self.counts.get();
        *(if is_pressed { &mut counts.pressed } else { &mut counts.plans }) += 1;
        self.counts.set(counts);
        Plan { is_pressed, leaving, is_chosen: false, given_up: Vec::new(), fetched: Vec::new() }
    }

    /// Chooses what is fetched, once what leaves is at home.
    fn choose(&self, plan: &mut Plan) {
        let is_held = |slot: Slot| !matches!(self.aside.copy_in(slot), Some((_, false)));
        let free = self.aside.space().free();
        let (mut fetched, leaving) = self.aside.director().borrow().exchange(free, PLAN_MAX, is_held);
        fetched.sort_unstable_by(|one, other| other.cmp(one));
        plan.given_up = leaving.iter().filter_map(|slot| self.aside.copy_in(*slot)).map(|(unit, _)| unit).collect();
        (plan.fetched, plan.is_chosen) = (fetched, true);
    }

    /// Does a batch of a plan. A batch that fails is not tried again.
    async fn step(&self, io: &Io, plan: &mut Plan) -> Result<(), BioError> {
        if !plan.leaving.is_empty() {
            let batch = plan.leaving.split_off(plan.leaving.len().saturating_sub(BATCH));
            self.write_back(io, batch.into_iter().rev().collect(), plan.is_pressed).await?;
        } else if !plan.is_chosen {
            self.choose(plan);
        } else if !plan.given_up.is_empty() {
            self.aside.drop_clean(io, &std::mem::take(&mut plan.given_up)).await?;
            self.aside.sync(io).await?;
        } else if !plan.fetched.is_empty() {
            let batch = plan.fetched.split_off(plan.fetched.len().saturating_sub(BATCH));
            self.fetch(io, batch.into_iter().rev().collect(), plan.is_pressed).await?;
        }
        Ok(())
    }

    /// Writes a batch home, where the medium must have it before the disk rests: a later flush would wake it.
    async fn write_back(&self, io: &Io, batch: Vec<(u64, Slot)>, is_pressed: bool) -> Result<(), BioError> {
        let director = self.aside.director();
        director.borrow_mut().works(is_pressed);
        let units: Vec<u64> = batch.iter().map(|(unit, _)| *unit).collect();
        let written = self.aside.clean(io, &units).await;
        let result = written.and(self.aside.sync(io).await);
        director.borrow_mut().released(batch.iter().map(|(_, slot)| *slot));
        director.borrow_mut().works(is_pressed);
        result
    }

    async fn fetch(&self, io: &Io, batch: Vec<u64>, is_pressed: bool) -> Result<(), BioError> {
        let director = self.aside.director();
        director.borrow_mut().works(is_pressed);
        let results = join_all(batch.into_iter().map(|unit| self.aside.fetch_one(io, unit))).await;
        director.borrow_mut().works(is_pressed);
        for is_fetched in results {
            let mut counts = self.counts.get();
            counts.fetched += u64::from(is_fetched?);
            self.counts.set(counts);
        }
        Ok(())
    }
}
