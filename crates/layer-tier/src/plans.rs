//! Looks and plans: what is moved, and when.
//!
//! Source: the thesis on extending storage, sections 3.4.5 (plans) and 3.4.6 (ends that throttle).

use std::rc::Rc;

use esker_base::Nanos;
use esker_tiering::demand::Demand;
use esker_tiering::epoch::{FILL, IdleMove};
use esker_tiering::{Array, Epoch, Est, History, Objective, Placement, Planner, Sheet, UsedExtent, planners, throttle};

use crate::config::Plan;
use crate::engine::Tier;
use crate::queue::{Why, sequence};
use crate::seen::Looked;
use crate::statistics::add;

/// CPU time of a plan for each extent in use, and again for each doubling of their number.
const EXTENT_COST: Nanos = Nanos(400);

/// What a planner is given, as it can go to a worker.
pub(crate) struct Snapshot {
    sheets: Vec<Sheet>,
    arrays: Vec<Array>,
    extents: Vec<UsedExtent>,
    extent_bytes: f64,
    consolidates: bool,
}

impl Snapshot {
    fn epoch(&self) -> Epoch<'_> {
        Epoch {
            sheets: &self.sheets,
            arrays: &self.arrays,
            extents: &self.extents,
            extent_bytes: self.extent_bytes,
            idle_nowhere: 0,
            fill: FILL,
            consolidates: self.consolidates,
        }
    }

    /// CPU time of a plan: a function of counts alone.
    fn cost(&self) -> Nanos {
        let extents = self.extents.len() as u64;
        EXTENT_COST * extents * u64::from(1 + extents.max(1).ilog2())
    }
}

impl Tier {
    /// Rolls the counters, and relieves ends that throttle.
    pub(crate) fn look(&self) {
        let looked = self.seen.borrow_mut().look(self.rt.now(), &self.config);
        self.counts.touched.set(looked.touched as u64);
        add(&self.counts.corrections, looked.began);
        if looked.drops_plan {
            self.drop_plan();
            self.cancels.cancel();
        }
        if looked.throttled.contains(&true) {
            self.relieve(&looked);
        }
        self.queue_drains();
        self.background.wake();
    }

    fn drop_plan(&self) {
        add(&self.counts.dropped, self.queue.borrow_mut().drop_plan());
    }

    /// Sheds half of the load of each end that throttles, once what was shed before has gone.
    fn relieve(&self, looked: &Looked) {
        if self.queue.borrow().has_relief() {
            return;
        }
        let (snapshot, until) = (self.snapshot(), self.rt.now() + self.config.epoch);
        for (end, pressure) in looked.pressures.iter().enumerate().filter(|(end, _)| looked.throttled[*end]) {
            let epoch = snapshot.epoch();
            let shed = throttle::shed(&epoch, end as u32, &looked.throttled, self.config.objective, *pressure);
            add(&self.counts.saturated, shed.saturated.len() as u64);
            let mut seen = self.seen.borrow_mut();
            shed.moves.iter().for_each(|one| seen.hold(one.extent, until));
            self.queue.borrow_mut().add(Why::Relief, shed.moves.iter().map(|one| (one.extent, one.to as usize)));
        }
    }

    /// What lies where, and what it asks. Extents of ends that are lost are left out.
    fn snapshot(&self) -> Snapshot {
        let (mut seen, placing) = (self.seen.borrow_mut(), self.placing.borrow());
        let in_use = seen.in_use();
        let mut idle: Vec<u32> = (0..self.ends.len()).map(|end| placing.residents(end)).collect();
        let mut extents = Vec::with_capacity(in_use.len());
        for (extent, demand) in in_use {
            let end = placing.end_of(extent);
            idle[end] -= 1;
            if !self.ends[end].is_lost.get() {
                let is_held = seen.is_held(extent) || placing.split_of(extent).is_some();
                extents.push(UsedExtent { id: extent, at: end as u32, demand, is_held });
            }
        }
        let array = |end: usize| {
            let (state, config) = (&self.ends[end], &self.config.ends[end]);
            // One slot stays free for moves that cross.
            let room = placing.residents(end) + placing.free(end).saturating_sub(1);
            Array {
                tier: config.tier,
                devices: config.devices.count,
                extents_max: if state.is_out() { 0 } else { room },
                idle: if state.is_lost.get() { 0 } else { idle[end] },
                is_powered: seen.worked(end),
            }
        };
        let arrays = (0..self.ends.len()).map(array).collect();
        Snapshot {
            sheets: self.config.sheets.clone(),
            arrays,
            extents,
            extent_bytes: self.config.extent as f64,
            consolidates: self.config.consolidate,
        }
    }

    /// Drops what is left of the plan before, and plans anew.
    pub(crate) async fn end_epoch(self: &Rc<Self>) {
        self.drop_plan();
        self.queue_splits();
        let snapshot = self.snapshot();
        let (history, may_plan) = {
            let mut seen = self.seen.borrow_mut();
            seen.judge(&self.config);
            if self.config.plan == Plan::Est {
                let in_use: Vec<(u32, Demand)> = snapshot.extents.iter().map(|one| (one.id, one.demand)).collect();
                seen.history.add(&self.config.sheets, snapshot.extent_bytes, &in_use);
            }
            (std::mem::take(&mut seen.history), seen.may_plan())
        };
        if self.config.plan == Plan::None || !may_plan {
            self.seen.borrow_mut().history = history;
            return;
        }
        let (plan, objective) = (self.config.plan, self.config.objective);
        let cost = snapshot.cost();
        let work = move || planned(plan, objective, history, &snapshot);
        let (placement, history) = self.rt.worker(cost, work).await;
        self.seen.borrow_mut().history = history;
        if !self.is_settled.get() && self.seen.borrow().may_plan() {
            self.take_over(&placement);
        }
    }

    /// Queues the moves of a plan, in an order in which they find room.
    fn take_over(&self, placement: &Placement) {
        let moves = placement.moves.iter().map(|one| (one.extent, [one.from as usize, one.to as usize]));
        let moves: Vec<(u32, [usize; 2])> = moves.chain(self.idle_moves(&placement.idle_moves)).collect();
        let pairs: Vec<(usize, usize)> = moves.iter().map(|(_, [from, to])| (*from, *to)).collect();
        let free = (0..self.ends.len()).map(|end| self.placing.borrow().free(end)).collect();
        let order = sequence(&pairs, free, self.seen.borrow().budgets());
        add(&self.counts.plans, 1);
        self.counts.planned.set(order.len() as u64);
        self.counts.overloads.set(placement.overloads.len() as u64 + u64::from(placement.idle_overload));
        let jobs = order.into_iter().map(|at| (moves[at].0, moves[at].1[1]));
        self.queue.borrow_mut().add(Why::Planned, jobs);
        self.background.wake();
    }

    /// The idle extents that are to move: those with the lowest numbers.
    fn idle_moves(&self, wanted: &[IdleMove]) -> Vec<(u32, [usize; 2])> {
        let placing = self.placing.borrow();
        let mut in_use = self.seen.borrow_mut().in_use().into_iter().map(|(extent, _)| extent).peekable();
        let mut left: Vec<IdleMove> = wanted.to_vec();
        let mut most: u32 = self.seen.borrow().budgets().iter().sum();
        let mut moves = Vec::new();
        for extent in 0..placing.extents() {
            if most == 0 || left.iter().all(|one| one.extents == 0) {
                break;
            }
            while in_use.next_if(|used| *used < extent).is_some() {}
            if in_use.peek() == Some(&extent) {
                continue;
            }
            let end = placing.end_of(extent);
            if let Some(one) = left.iter_mut().find(|one| one.from as usize == end && one.extents > 0) {
                one.extents -= 1;
                most -= 1;
                moves.push((extent, [end, one.to as usize]));
            }
        }
        moves
    }

    /// Queues moves of what still lies on ends that an operator empties.
    pub(crate) fn queue_drains(&self) {
        if !self.ends.iter().any(|end| end.drains.get()) {
            return;
        }
        let placing = self.placing.borrow();
        let mut waiting: Vec<u32> = self.queue.borrow().orders().collect();
        waiting.sort_unstable();
        let mut free: Vec<u32> = (0..self.ends.len()).map(|end| placing.free(end)).collect();
        let drains = |extent: &u32| self.ends[placing.end_of(*extent)].drains.get();
        let is_queued = |extent: &u32| waiting.binary_search(extent).is_ok() || self.moving.borrow().contains(extent);
        let mut moves = Vec::new();
        for extent in (0..placing.extents()).filter(drains).filter(|extent| !is_queued(extent)) {
            let Some(to) = self.refuge(extent, &free) else { continue };
            free[to] -= 1;
            moves.push((extent, to));
        }
        self.queue.borrow_mut().add(Why::Ordered, moves);
    }

    /// Where an extent weighs least among ends with free slots.
    fn refuge(&self, extent: u32, free: &[u32]) -> Option<usize> {
        let demand = self.seen.borrow().demand(extent);
        let ends = (0..self.ends.len()).filter(|end| free[*end] > 0 && !self.ends[*end].is_out());
        ends.min_by(|a, b| self.burden(&demand, *a).total_cmp(&self.burden(&demand, *b)))
    }

    /// What a demand weighs on an end.
    pub(crate) fn burden(&self, demand: &Demand, end: usize) -> f64 {
        let sheet = &self.config.ends[end].devices.sheet;
        self.config.objective.burden(demand, self.config.extent as f64, sheet)
    }
}

/// Plans an epoch; the history comes back.
fn planned(plan: Plan, objective: Objective, history: History, snapshot: &Snapshot) -> (Placement, History) {
    let epoch = snapshot.epoch();
    match plan {
        Plan::None => (Placement::default(), history),
        Plan::Est => {
            let mut est = Est { objective, history };
            (est.plan(&epoch), est.history)
        }
        Plan::Named(name) => {
            let planner = planners::by_name(name, objective, History::default());
            let mut planner = planner.expect("the planner was looked up when the layer was built");
            (planner.plan(&epoch), history)
        }
    }
}
