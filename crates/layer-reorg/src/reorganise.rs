//! From what was asked for to a new layout: learning and planning at idle priority, and steps while the disk is idle.
//!
//! There is no record of a plan on the medium. Each step is safe by itself, and a crash forgets the rest of them.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use esker_base::{Nanos, Time};
use esker_block::{BioError, LayerHandle, Tag, WorkPermit};
use esker_layer_aside::{Aside, PLACED_MAX};
use esker_layer_kit::{Background, Io, Task, Then, Turn};
use esker_rt::Rt;

use crate::ReorgParams;
use crate::analyzer::{Analyzer, Bounds};
use crate::director::RingDirector;
use crate::layout::{Slot, SlotMove, Steps, assign, steps};
use crate::planner::{WEIGHT_MIN, plan};
use crate::profile::{AccessRecord, Profiler};
use crate::tuner::{Setting, Tuner};

/// How often it looks what is due.
const TICK: Nanos = Nanos::secs(1);
/// What planning costs in virtual time: for each record, and for each vertex or edge.
const RECORD_COST: Nanos = Nanos(200);
const GRAPH_COST: Nanos = Nanos(500);
/// How long it waits behind a failure.
const RETRY: Nanos = Nanos::secs(1);

/// A piece of a reconfiguration.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Batch {
    /// Copies of these units go: those that are newer than home are written there first.
    Out(Vec<u64>),
    /// The medium says what was done, so that slots are free.
    Settle,
    /// Copies go to other slots.
    Move(Vec<SlotMove>),
    /// Units get copies.
    Fetch(Vec<(u64, Slot)>),
}

/// What a reorganisation has done since the start.
#[derive(Default, Debug)]
pub(crate) struct ReorgCounts {
    pub plans: Cell<u64>,
    pub planned: Cell<u64>,
    pub dropped: Cell<u64>,
    pub moved: Cell<u64>,
    pub fetched: Cell<u64>,
    pub tuned: Cell<u64>,
}

pub(crate) fn more(count: &Cell<u64>, by: u64) {
    count.set(count.get() + by);
}

/// What learns and plans. It goes to a worker and comes back.
struct Learning {
    analyzer: Analyzer,
    tuner: Option<Tuner>,
}

/// The part of the layer that decides.
pub(crate) struct Reorganiser {
    aside: Rc<Aside<RingDirector>>,
    rt: Rt,
    setting: Cell<Setting>,
    profiler: RefCell<Profiler>,
    full: RefCell<VecDeque<Vec<AccessRecord>>>,
    learning: RefCell<Option<Learning>>,
    turn: Turn,
    batches: RefCell<VecDeque<Batch>>,
    planned_last: Cell<Time>,
    background: Background,
    pub counts: ReorgCounts,
}

/// Full chunks that wait for a worker at most.
const CHUNKS_MAX: usize = 16;

impl Reorganiser {
    pub(crate) fn new(aside: Rc<Aside<RingDirector>>, rt: Rt, params: ReorgParams) -> Rc<Reorganiser> {
        let tuner = params.tune.then(|| Tuner::new(&params, aside.slots()));
        let setting = Setting { interval: params.interval, write_buffer: params.write_buffer };
        Rc::new(Reorganiser {
            learning: RefCell::new(Some(Learning { analyzer: Analyzer::new(params.assoc, Bounds::default()), tuner })),
            profiler: RefCell::new(Profiler::new(params.heads)),
            full: RefCell::default(),
            turn: Turn::default(),
            batches: RefCell::default(),
            planned_last: Cell::new(rt.now()),
            background: Background::default(),
            counts: ReorgCounts::default(),
            setting: Cell::new(setting),
            aside,
            rt,
        })
    }

    /// A client asks for something.
    pub(crate) fn note(&self, tag: Tag, range: esker_base::ByteRange, changes: bool) {
        let now = self.rt.now();
        let mut profiler = self.profiler.borrow_mut();
        if profiler.note(now, tag.pid, range, changes) && self.full.borrow().len() < CHUNKS_MAX {
            self.full.borrow_mut().push_back(profiler.take());
        }
    }

    pub(crate) fn tasks(self: &Rc<Self>, handle: &LayerHandle) -> Vec<Task> {
        let (plans, steps) = (self.clone(), self.clone());
        let (of_plans, of_steps) = (handle.clone(), handle.clone());
        vec![
            ("reorg-plan", Box::pin(async move { plans.plan_on(&of_plans).await })),
            ("reorg-step", Box::pin(async move { steps.step_on(&of_steps).await })),
        ]
    }

    pub(crate) fn close(&self) {
        self.background.close();
    }

    /// Learns from full chunks, and plans whenever an interval is over.
    async fn plan_on(self: Rc<Self>, handle: &LayerHandle) {
        let due = || {
            let left =
                Nanos(self.setting.get().interval.0.saturating_sub(self.rt.now().since(self.planned_last.get()).0));
            Some((left.min(TICK), ()))
        };
        let work = async |permit: WorkPermit, ()| {
            // What is below is not needed: a change of the stack must not wait for a plan.
            drop(permit);
            if self.rt.now().since(self.planned_last.get()) >= self.setting.get().interval {
                self.plan_now().await;
            } else if !self.full.borrow().is_empty() {
                self.turn.alone(self.learn(false)).await;
            }
            Then::Again
        };
        self.background.run((&self.rt, None), handle, due, work).await;
    }

    /// Plans from all that was asked for. Answers how many pages the plan has.
    pub(crate) async fn plan_now(&self) -> u64 {
        self.turn.alone(self.learn(true)).await
    }

    async fn learn(&self, do_plan: bool) -> u64 {
        let mut chunks: Vec<Vec<AccessRecord>> = self.full.borrow_mut().drain(..).collect();
        if do_plan {
            chunks.push(self.profiler.borrow_mut().take());
            self.planned_last.set(self.rt.now());
        }
        let Some(mut learning) = self.learning.borrow_mut().take() else { return 0 };
        let records: usize = chunks.iter().map(Vec::len).sum();
        let graph = if do_plan { learning.analyzer.size() as u64 } else { 0 };
        let tuned = if learning.tuner.is_some() { 9 * u64::from(do_plan) + 1 } else { 1 };
        let cost = Nanos((RECORD_COST.0 * records as u64 + GRAPH_COST.0 * graph) * tuned);
        let now: BTreeMap<u64, Slot> = self.aside.copies().into_iter().map(|(unit, slot, _)| (unit, slot)).collect();
        let used: BTreeSet<Slot> = now.values().copied().collect();
        let ring = do_plan.then(|| self.aside.director().borrow_mut().planning());
        let (slots, setting, at) = (self.aside.slots(), self.setting.get(), self.rt.now());
        let work = move || {
            for chunk in &chunks {
                learning.analyzer.learn(chunk);
                if let Some(tuner) = &mut learning.tuner {
                    tuner.note(chunk);
                }
            }
            let Some(mut ring) = ring else { return (learning, None) };
            let master = learning.analyzer.master();
            learning.analyzer.age();
            let Learning { analyzer, tuner } = &mut learning;
            let tuned = tuner.as_mut().and_then(|tuner| tuner.planned(at, analyzer, &master));
            if let Some(tuned) = tuned.filter(|tuned| tuned.write_buffer != setting.write_buffer) {
                ring.set_share(tuned.write_buffer, used.iter().copied());
            }
            let (setting, goes) = (tuned.unwrap_or(setting), ring.ring_to_free(&used));
            let reads = setting.reads(slots);
            let planned = plan(&master, u64::from(reads.saturating_sub(1)), WEIGHT_MIN);
            let then = assign(&planned, &now, reads);
            let steps = steps(&now, &then, reads.saturating_sub(1), |slot| goes.contains(&slot));
            (learning, Some((setting, then.len() as u64, steps)))
        };
        let (learning, planned) = self.rt.worker_idle(cost, work).await;
        *self.learning.borrow_mut() = Some(learning);
        planned.map_or(0, |(setting, pages, steps)| self.take_over(setting, pages, steps))
    }

    /// A plan is made: what is left of the one before is forgotten.
    fn take_over(&self, setting: Setting, pages: u64, steps: Steps) -> u64 {
        let before = self.setting.replace(setting);
        more(&self.counts.tuned, u64::from(setting != before));
        if setting.write_buffer != before.write_buffer {
            let used = self.aside.copies();
            let slots = used.iter().map(|(_, slot, _)| *slot);
            self.aside.director().borrow_mut().set_share(setting.write_buffer, slots);
        }
        more(&self.counts.plans, 1);
        self.counts.planned.set(pages);
        *self.batches.borrow_mut() = batches(steps);
        self.background.wake();
        pages
    }

    /// Does the steps of a plan, each when no client has asked for anything for a while.
    async fn step_on(self: Rc<Self>, handle: &LayerHandle) {
        let due = || (!self.batches.borrow().is_empty()).then(|| (self.aside.until_quiet(), ()));
        let work = async |permit: WorkPermit, ()| {
            if self.aside.until_quiet() > Nanos::ZERO {
                return Then::Again;
            }
            let Some(batch) = self.batches.borrow_mut().pop_front() else { return Then::Again };
            match self.step(&self.aside.io(&permit), batch).await {
                Ok(()) => Then::Again,
                // The rest of the plan is given up: the next one begins with what lies there.
                Err(_) => {
                    self.batches.borrow_mut().clear();
                    Then::After(RETRY)
                }
            }
        };
        self.background.run((&self.rt, None), handle, due, work).await;
    }

    async fn step(&self, io: &Io, batch: Batch) -> Result<(), BioError> {
        match batch {
            Batch::Out(units) => {
                self.aside.clean(io, &units).await?;
                more(&self.counts.dropped, self.aside.drop_clean(io, &units).await?);
            }
            Batch::Settle => self.aside.settle_slots(io).await?,
            Batch::Move(moves) => {
                let moves: Vec<_> = moves.iter().map(|one| (one.page, one.from, one.to)).collect();
                more(&self.counts.moved, self.aside.relocate(io, &moves).await?);
            }
            Batch::Fetch(wanted) => more(&self.counts.fetched, self.aside.fetch_all(io, &wanted).await?),
        }
        Ok(())
    }

    /// Batches that are to be done.
    pub(crate) fn steps_left(&self) -> u64 {
        self.batches.borrow().len() as u64
    }

    /// What is in force.
    pub(crate) fn setting(&self) -> Setting {
        self.setting.get()
    }

    /// Records that did not fit while no worker was free.
    pub(crate) fn records_dropped(&self) -> u64 {
        self.profiler.borrow().dropped
    }
}

/// Steps in pieces that one call of the engine takes.
fn batches(steps: Steps) -> VecDeque<Batch> {
    let mut batches: VecDeque<Batch> = steps.out.chunks(PLACED_MAX).map(|units| Batch::Out(units.to_vec())).collect();
    for round in steps.moves {
        batches.push_back(Batch::Settle);
        batches.extend(round.chunks(PLACED_MAX).map(|moves| Batch::Move(moves.to_vec())));
    }
    if !steps.fetched.is_empty() {
        batches.push_back(Batch::Settle);
    }
    batches.extend(steps.fetched.chunks(PLACED_MAX).map(|wanted| Batch::Fetch(wanted.to_vec())));
    batches
}
