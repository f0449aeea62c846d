//! Tiering and consolidation: the engine under all planners, after the source's section 3.4.5.
//!
//! A planner gives a [`Table`]: what each extent takes of each tier, what it weighs there, and its rank. A step of the
//! engine gives each extent to the tier where it weighs least among those that can serve it. It packs tier by tier, the
//! fastest first; what finds no room goes on to the tier with the next higher burden. Idle extents come last, as
//! counts.
//!
//! A step is taken only if the whole then has less overload, or the same and less burden, or the same and fewer arrays
//! in use. Steps are repeated until none is taken. So a second plan with equal numbers moves nothing.

use crate::epoch::{Epoch, IdleMove, Lack, Load, Move, NOWHERE, Overload, Placement, UsedExtent};
use crate::pack::{Bin, SLACK, Wanted, pack};

/// Most steps of one plan. Two are usual: the second finds nothing better.
const STEPS_MAX: u32 = 8;

/// Changes below this share are rounding.
const ROUNDING: f64 = 1e-9;

/// What a planner knows of each extent on each tier. Rows follow the extents of the epoch.
pub(crate) struct Table {
    tiers: usize,
    cells: Vec<Cell>,
    /// Burden of one idle extent on each tier.
    pub(crate) idle: Vec<f64>,
}

/// An extent on a tier.
#[derive(Clone, Copy)]
pub(crate) struct Cell {
    /// Time that it takes, in devices.
    pub(crate) performance: f64,
    /// What it weighs; the least one is preferred.
    pub(crate) burden: f64,
    /// Extents of higher rank are packed first.
    pub(crate) rank: f64,
}

impl Table {
    pub(crate) fn new(epoch: &Epoch<'_>, idle: Vec<f64>, cell: impl Fn(&UsedExtent, usize) -> Cell) -> Table {
        let tiers = epoch.sheets.len();
        let row = |extent| (0..tiers).map(move |tier| (extent, tier));
        let cells = epoch.extents.iter().flat_map(row).map(|(extent, tier)| cell(extent, tier)).collect();
        Table { tiers, cells, idle }
    }

    fn cell(&self, extent: u32, tier: usize) -> &Cell {
        &self.cells[extent as usize * self.tiers + tier]
    }

    /// The tier with the least burden above that of `after`, among those with an array that is fast enough.
    fn next_tier(&self, extent: u32, after: Option<usize>, devices_max: &[f64]) -> Option<usize> {
        let key = |tier: usize| (self.cell(extent, tier).burden, tier);
        let is_later = |tier: &usize| after.is_none_or(|after| key(*tier) > key(after));
        let serves = |tier: &usize| self.cell(extent, *tier).performance <= devices_max[*tier] + SLACK;
        let tiers = (0..self.tiers).filter(is_later).filter(serves);
        tiers.min_by(|a, b| key(*a).partial_cmp(&key(*b)).expect("burdens are finite"))
    }
}

/// Where everything lies.
#[derive(Clone, PartialEq)]
struct State {
    at: Vec<u32>,
    idle: Vec<u32>,
    idle_nowhere: u32,
}

impl State {
    fn idle_in_all(&self) -> u64 {
        self.idle.iter().map(|idle| u64::from(*idle)).sum::<u64>() + u64::from(self.idle_nowhere)
    }
}

/// How good a state is: the less, the better, from the first number on.
struct Worth {
    homeless: u64,
    /// Extents beyond the room of arrays.
    crowded: u64,
    /// Devices' worth of time beyond those of arrays.
    overload: f64,
    burden: f64,
    used: usize,
}

impl Worth {
    fn of(epoch: &Epoch<'_>, table: &Table, state: &State) -> Worth {
        let loads = loads(epoch, table, state);
        let (mut crowded, mut overload) = (0, 0.0);
        for (load, array) in loads.iter().zip(epoch.arrays) {
            crowded += (u64::from(load.extents) + u64::from(load.idle)).saturating_sub(array.extents_max.into());
            overload += (load.performance - f64::from(array.devices) * epoch.fill).max(0.0);
        }
        let placed = state.at.iter().enumerate().filter(|(_, at)| **at != NOWHERE);
        let burden = |(extent, at): (usize, &u32)| table.cell(extent as u32, epoch.arrays[*at as usize].tier).burden;
        let idle = state.idle.iter().zip(epoch.arrays).map(|(idle, array)| f64::from(*idle) * table.idle[array.tier]);
        Worth {
            homeless: state.at.iter().filter(|at| **at == NOWHERE).count() as u64 + u64::from(state.idle_nowhere),
            crowded,
            overload,
            burden: placed.map(burden).sum::<f64>() + idle.sum::<f64>(),
            used: loads.iter().filter(|load| load.is_used()).count(),
        }
    }

    fn is_better_than(&self, other: &Worth, epoch: &Epoch<'_>) -> bool {
        let counts = |worth: &Worth| (worth.homeless, worth.crowded);
        if counts(self) != counts(other) {
            return counts(self) < counts(other);
        }
        for (mine, others) in [(self.overload, other.overload), (self.burden, other.burden)] {
            let rounding = ROUNDING * mine.abs().max(others.abs()) + f64::MIN_POSITIVE;
            if (mine - others).abs() > rounding {
                return mine < others;
            }
        }
        epoch.consolidates && self.used < other.used
    }
}

fn loads(epoch: &Epoch<'_>, table: &Table, state: &State) -> Vec<Load> {
    let mut loads: Vec<Load> = state.idle.iter().map(|idle| Load { idle: *idle, ..Load::default() }).collect();
    for (extent, at) in state.at.iter().enumerate().filter(|(_, at)| **at != NOWHERE) {
        let load = &mut loads[*at as usize];
        load.extents += 1;
        load.performance += table.cell(extent as u32, epoch.arrays[*at as usize].tier).performance;
    }
    loads
}

/// Plans an epoch by a table.
pub(crate) fn place(epoch: &Epoch<'_>, table: &Table) -> Placement {
    let before = State {
        at: epoch.extents.iter().map(|extent| extent.at).collect(),
        idle: epoch.arrays.iter().map(|array| array.idle).collect(),
        idle_nowhere: epoch.idle_nowhere,
    };
    let mut now = before.clone();
    let mut worth = Worth::of(epoch, table, &now);
    for _ in 0..STEPS_MAX {
        let next = Step::new(epoch, table, &now).run();
        let then = Worth::of(epoch, table, &next);
        if !then.is_better_than(&worth, epoch) {
            break;
        }
        (now, worth) = (next, then);
    }
    answer(epoch, table, &before, now)
}

/// One step, while it runs.
struct Step<'a> {
    epoch: &'a Epoch<'a>,
    table: &'a Table,
    from: &'a State,
    /// Time and room that arrays have left.
    left: Vec<(f64, u32)>,
    devices_max: Vec<f64>,
    at: Vec<u32>,
    /// Idle extents that each tier shall hold.
    idle: Vec<u64>,
    /// Arrays that already have an extent in use.
    is_used: Vec<bool>,
}

impl<'a> Step<'a> {
    fn new(epoch: &'a Epoch<'a>, table: &'a Table, from: &'a State) -> Step<'a> {
        let left = epoch.arrays.iter().map(|array| (f64::from(array.devices) * epoch.fill, array.extents_max));
        let devices_max = epoch.devices_max().into_iter().map(|devices| f64::from(devices) * epoch.fill).collect();
        let (at, is_used) = (vec![NOWHERE; epoch.extents.len()], vec![false; epoch.arrays.len()]);
        let left = left.collect();
        let mut step = Step { epoch, table, from, left, devices_max, at, idle: Vec::new(), is_used };
        step.idle = step.idle_by_tier();
        step
    }

    fn run(mut self) -> State {
        for extent in 0..self.at.len() as u32 {
            let here = self.from.at[extent as usize];
            if self.epoch.extents[extent as usize].is_held && here != NOWHERE && self.left[here as usize].1 > 0 {
                self.put(extent, here);
            }
        }
        self.tiers();
        self.overloaded();
        let (idle, idle_nowhere) = self.idle();
        State { at: self.at, idle, idle_nowhere }
    }

    fn put(&mut self, extent: u32, array: u32) {
        let tier = self.epoch.arrays[array as usize].tier;
        let left = &mut self.left[array as usize];
        left.0 -= self.table.cell(extent, tier).performance;
        left.1 -= 1;
        self.at[extent as usize] = array;
        self.is_used[array as usize] = true;
    }

    /// Gives all extents to tiers, the fastest tier first. A tier that gets extents behind its turn has another turn.
    fn tiers(&mut self) {
        let mut waiting: Vec<Vec<u32>> = vec![Vec::new(); self.table.tiers];
        for extent in (0..self.at.len() as u32).filter(|extent| self.at[*extent as usize] == NOWHERE) {
            if let Some(tier) = self.table.next_tier(extent, None, &self.devices_max) {
                waiting[tier].push(extent);
            }
        }
        let mut order: Vec<usize> = (0..self.table.tiers).collect();
        order.sort_by(|a, b| self.epoch.sheets[*a].rtime_s.total_cmp(&self.epoch.sheets[*b].rtime_s));
        while waiting.iter().any(|waiting| !waiting.is_empty()) {
            for tier in &order {
                for extent in self.tier(*tier, std::mem::take(&mut waiting[*tier])) {
                    if let Some(next) = self.table.next_tier(extent, Some(*tier), &self.devices_max) {
                        waiting[next].push(extent);
                    }
                }
            }
        }
    }

    /// Packs extents into a tier, and answers those that found no room.
    fn tier(&mut self, tier: usize, mut extents: Vec<u32>) -> Vec<u32> {
        if extents.is_empty() {
            return extents;
        }
        let arrays = self.arrays_of(tier);
        let bin_of = |array: u32| arrays.binary_search(&array).ok().map(|bin| bin as u32);
        let (from, table) = (&self.from.at, self.table);
        let is_resident = |extent: u32| bin_of(from[extent as usize]).is_some();
        extents.sort_unstable_by(|a, b| {
            let ranks = table.cell(*b, tier).rank.total_cmp(&table.cell(*a, tier).rank);
            ranks.then_with(|| is_resident(*b).cmp(&is_resident(*a))).then(a.cmp(b))
        });
        let wanted = |extent: &u32| Wanted {
            performance: table.cell(*extent, tier).performance,
            at: bin_of(from[*extent as usize]),
        };
        let wanted: Vec<Wanted> = extents.iter().map(wanted).collect();
        let bins: Vec<Bin> = arrays.iter().map(|array| self.bin(*array)).collect();
        let packed = pack(&bins, &wanted, self.idle[tier], self.epoch.consolidates);
        let mut left = Vec::new();
        for (extent, bin) in extents.iter().zip(&packed.at) {
            match bin {
                Some(bin) => self.put(*extent, arrays[*bin as usize]),
                None => left.push(*extent),
            }
        }
        left
    }

    fn arrays_of(&self, tier: usize) -> Vec<u32> {
        (0..self.epoch.arrays.len() as u32).filter(|array| self.epoch.arrays[*array as usize].tier == tier).collect()
    }

    fn bin(&self, array: u32) -> Bin {
        let at = array as usize;
        let (performance, slots) = self.left[at];
        let is_powered = self.is_used[at] || self.epoch.arrays[at].is_powered;
        Bin { performance, slots, idle: self.from.idle[at], is_powered }
    }

    /// Puts extents that found no tier where room is and most time is left. Without room they stay.
    fn overloaded(&mut self) {
        for extent in 0..self.at.len() as u32 {
            if self.at[extent as usize] != NOWHERE {
                continue;
            }
            let own = self.from.at[extent as usize];
            let left = |array: u32| {
                let tier = self.epoch.arrays[array as usize].tier;
                self.left[array as usize].0 - self.table.cell(extent, tier).performance
            };
            let arrays = (0..self.left.len() as u32).filter(|array| self.left[*array as usize].1 > 0);
            let best =
                arrays.max_by(|a, b| left(*a).total_cmp(&left(*b)).then((*a == own).cmp(&(*b == own))).then(b.cmp(a)));
            match best {
                Some(array) => self.put(extent, array),
                None => self.at[extent as usize] = own,
            }
        }
    }

    /// Tiers by what an idle extent weighs, the cheapest first.
    fn idle_order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.table.tiers).collect();
        order.sort_by(|a, b| self.table.idle[*a].total_cmp(&self.table.idle[*b]));
        order
    }

    /// Idle extents of each tier if no extent were in use.
    fn idle_by_tier(&self) -> Vec<u64> {
        let mut waiting = self.from.idle_in_all();
        let mut by_tier = vec![0; self.table.tiers];
        for tier in self.idle_order() {
            let room = self.arrays_of(tier).iter().map(|array| u64::from(self.left[*array as usize].1)).sum();
            by_tier[tier] = waiting.min(room);
            waiting -= by_tier[tier];
        }
        by_tier
    }

    /// Fills idle extents in, and answers how many lie on each array, and how many have no place.
    ///
    /// A tier has them on arrays that are in use, then on those with most of them. On these they stay if they can.
    /// Without consolidation it has them on all arrays.
    fn idle(&self) -> (Vec<u32>, u32) {
        let mut waiting = self.from.idle_in_all();
        let mut idle = vec![0; self.left.len()];
        let room = |array: u32| self.left[array as usize].1;
        for tier in self.idle_order() {
            let mut arrays = self.arrays_of(tier);
            arrays.retain(|array| room(*array) > 0);
            arrays.sort_by_key(|array| {
                (!self.is_used[*array as usize], std::cmp::Reverse(self.from.idle[*array as usize]))
            });
            let mut enough = waiting;
            let is_needed = |array: &u32| {
                let is_needed = enough > 0 || !self.epoch.consolidates;
                enough = enough.saturating_sub(u64::from(room(*array)));
                is_needed
            };
            let arrays: Vec<u32> = arrays.into_iter().take_while(is_needed).collect();
            for stays in [true, false] {
                for array in arrays.iter().map(|array| *array as usize) {
                    let room = self.left[array].1 - idle[array];
                    let some = if stays { room.min(self.from.idle[array]) } else { room };
                    let some = u64::from(some).min(waiting) as u32;
                    idle[array] += some;
                    waiting -= u64::from(some);
                }
            }
        }
        self.stranded(&mut idle, waiting)
    }

    /// Leaves idle extents without room where they are.
    fn stranded(&self, idle: &mut [u32], mut waiting: u64) -> (Vec<u32>, u32) {
        for (array, before) in self.from.idle.iter().enumerate() {
            let some = u64::from(before.saturating_sub(idle[array])).min(waiting);
            idle[array] += some as u32;
            waiting -= some;
        }
        (idle.to_vec(), waiting as u32)
    }
}

fn answer(epoch: &Epoch<'_>, table: &Table, before: &State, now: State) -> Placement {
    let loads = loads(epoch, table, &now);
    let idle_moves = idle_moves(before, &now);
    let crowded: u64 = loads
        .iter()
        .zip(epoch.arrays)
        .map(|(load, array)| {
            u64::from(load.idle)
                .min((u64::from(load.extents) + u64::from(load.idle)).saturating_sub(array.extents_max.into()))
        })
        .sum();
    let idle_overload = crowded as u32 + now.idle_nowhere;
    let overloads = overloads(epoch, table, &now, &loads);
    Placement { moves: moves(epoch, table, before, &now), at: now.at, idle_moves, overloads, idle_overload, loads }
}

fn moves(epoch: &Epoch<'_>, table: &Table, before: &State, now: &State) -> Vec<Move> {
    let burden = |extent: usize, at: u32| match at {
        NOWHERE => 0.0,
        at => table.cell(extent as u32, epoch.arrays[at as usize].tier).burden,
    };
    let pairs = before.at.iter().zip(&now.at).enumerate().filter(|(_, (from, to))| from != to);
    let moved = |(extent, (from, to)): (usize, (&u32, &u32))| Move {
        extent: epoch.extents[extent].id,
        from: *from,
        to: *to,
        gain: burden(extent, *from) - burden(extent, *to),
    };
    let mut moves: Vec<Move> = pairs.map(moved).collect();
    moves.sort_by(|a, b| b.gain.total_cmp(&a.gain).then(a.extent.cmp(&b.extent)));
    moves
}

/// Pairs arrays that give idle extents with those that take them.
fn idle_moves(before: &State, now: &State) -> Vec<IdleMove> {
    let mut gives: Vec<(u32, u32)> = vec![(NOWHERE, before.idle_nowhere - now.idle_nowhere)];
    let mut moves = Vec::new();
    for (array, (old, new)) in before.idle.iter().zip(&now.idle).enumerate() {
        gives.push((array as u32, old.saturating_sub(*new)));
    }
    gives.retain(|(_, count)| *count > 0);
    for (array, (old, new)) in before.idle.iter().zip(&now.idle).enumerate() {
        let mut wants = new.saturating_sub(*old);
        while wants > 0 {
            let (from, count) = gives.last_mut().expect("an idle extent that arrives has left elsewhere");
            let extents = wants.min(*count);
            moves.push(IdleMove { from: *from, to: array as u32, extents });
            (wants, *count) = (wants - extents, *count - extents);
            if *count == 0 {
                gives.pop();
            }
        }
    }
    moves
}

/// Extents that no array can serve, that have no room, or that are the last ones of an array with too many.
fn overloads(epoch: &Epoch<'_>, table: &Table, now: &State, loads: &[Load]) -> Vec<Overload> {
    let devices_max: Vec<f64> = epoch.devices_max().into_iter().map(|most| f64::from(most) * epoch.fill).collect();
    let time = |array: usize| f64::from(epoch.arrays[array].devices) * epoch.fill;
    let mut excess: Vec<f64> = loads.iter().enumerate().map(|(array, load)| load.performance - time(array)).collect();
    let room = |array: usize| loads[array].extents.saturating_sub(epoch.arrays[array].extents_max);
    let mut crowd: Vec<u32> = (0..loads.len()).map(room).collect();
    let mut overloads = Vec::new();
    for (number, at) in now.at.iter().enumerate().rev() {
        let extent = epoch.extents[number].id;
        let mut told = |lack| overloads.push(Overload { extent, array: *at, lack });
        if *at == NOWHERE {
            told(Lack::Room);
            continue;
        }
        let array = *at as usize;
        let performance = table.cell(number as u32, epoch.arrays[array].tier).performance;
        if table.next_tier(number as u32, None, &devices_max).is_none() {
            told(Lack::Stripe { devices: (performance / epoch.fill).ceil() as u32 });
        } else if crowd[array] > 0 {
            crowd[array] -= 1;
            told(Lack::Room);
        } else if excess[array] > SLACK * (1.0 + time(array)) && performance > 0.0 {
            told(Lack::Performance);
        } else {
            continue;
        }
        excess[array] -= performance;
    }
    overloads.reverse();
    overloads
}
