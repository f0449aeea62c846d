//! An array that throttles sheds half of its load at once (the source's section 3.4.6, which has no numbers).
//!
//! The source is silent on what to do if the other arrays have time but no room. Ours are exchanges: an extent leaves
//! the other array for the one that throttles, an idle one if there is any, or else one that asks little.

use crate::demand::Demand;
use crate::epoch::{Array, Epoch, IdleMove, Move, NOWHERE};
use crate::model::{Objective, performance};
use crate::pack::SLACK;

/// Share of an array's load that the corrector sheds.
pub const SHED: f64 = 0.5;
/// An extent that makes room for another one has at most this share of its load.
pub const EXCHANGE: f64 = 0.25;

/// The least set of extents that has at least half of an array's load, as places in `loads`, the largest first.
pub fn relief(loads: &[f64]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..loads.len() as u32).collect();
    order.sort_by(|a, b| loads[*b as usize].total_cmp(&loads[*a as usize]).then(a.cmp(b)));
    let enough = SHED * loads.iter().sum::<f64>();
    let mut shed = 0.0;
    order
        .into_iter()
        .take_while(|at| {
            let is_needed = shed < enough - SLACK * enough;
            shed += loads[*at as usize];
            is_needed
        })
        .collect()
}

/// What the corrector does with an array that throttles.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Shed {
    /// Extents that go at once.
    pub moves: Vec<Move>,
    /// Extents that come in exchange, because those that go find no other room.
    pub exchanged: Vec<Move>,
    /// Idle extents that do so.
    pub idle: Vec<IdleMove>,
    /// Extents for which no other array has time, or room that can be made.
    pub saturated: Vec<u32>,
    /// Arrays at rest that are to be woken.
    pub woken: Vec<u32>,
}

/// Chooses what leaves an array that throttles, and where it goes.
///
/// The array's demand was clipped, by about its response over its service: `pressure` is that factor, or 1 to believe
/// what was seen. Types are tried by burden, the least first; in a type, arrays that are awake before those at rest.
/// No extent goes to an array that throttles, or above its time. At most half of the array's extents go.
///
/// # Panics
/// If there is no such array.
pub fn shed(epoch: &Epoch<'_>, array: u32, throttled: &[bool], objective: Objective, pressure: f64) -> Shed {
    let here: Vec<u32> =
        (0..epoch.extents.len() as u32).filter(|one| epoch.extents[*one as usize].at == array).collect();
    let sheet = &epoch.sheets[epoch.arrays[array as usize].tier];
    let loads: Vec<f64> = here.iter().map(|one| performance(&epoch.extents[*one as usize].demand, sheet)).collect();
    let mut shedding = Shedding::new(epoch, array, throttled, objective);
    for one in relief(&loads).into_iter().take(here.len().div_ceil(2)) {
        let extent = &epoch.extents[here[one as usize] as usize];
        let demand = extent.demand.times(pressure as f32);
        match shedding.target(&demand, loads[one as usize]) {
            None => shedding.shed.saturated.push(extent.id),
            Some((to, room)) => shedding.send(extent.id, &demand, to, room),
        }
    }
    shedding.shed
}

/// Where an extent finds room.
#[derive(Clone, Copy)]
enum Room {
    Free,
    /// In place of an idle extent.
    Idle,
    /// In place of this one of [`Epoch::extents`].
    Used(u32),
}

/// What an array has left.
#[derive(Clone, Default)]
struct Left {
    time: f64,
    slots: u32,
    idle: u32,
    /// Extents that could leave it, by what they would take of the array that throttles: the least comes last.
    leaving: Vec<(f64, u32)>,
}

struct Shedding<'a> {
    epoch: &'a Epoch<'a>,
    array: u32,
    throttled: &'a [bool],
    objective: Objective,
    left: Vec<Left>,
    shed: Shed,
}

impl<'a> Shedding<'a> {
    fn new(epoch: &'a Epoch<'a>, array: u32, throttled: &'a [bool], objective: Objective) -> Shedding<'a> {
        let whole = |array: &Array| Left {
            time: f64::from(array.devices) * epoch.fill,
            slots: array.extents_max.saturating_sub(array.idle),
            idle: array.idle,
            leaving: Vec::new(),
        };
        let mut left: Vec<Left> = epoch.arrays.iter().map(whole).collect();
        let own = &epoch.sheets[epoch.arrays[array as usize].tier];
        for (number, extent) in epoch.extents.iter().enumerate().filter(|(_, extent)| extent.at != NOWHERE) {
            let left = &mut left[extent.at as usize];
            left.time -= performance(&extent.demand, &epoch.sheets[epoch.arrays[extent.at as usize].tier]);
            left.slots = left.slots.saturating_sub(1);
            if !extent.is_held {
                left.leaving.push((performance(&extent.demand, own), number as u32));
            }
        }
        left.iter_mut().for_each(|left| left.leaving.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1))));
        Shedding { epoch, array, throttled, objective, left, shed: Shed::default() }
    }

    fn performance(&self, demand: &Demand, array: u32) -> f64 {
        performance(demand, &self.epoch.sheets[self.epoch.arrays[array as usize].tier])
    }

    fn burden(&self, demand: &Demand, array: u32) -> f64 {
        let sheet = &self.epoch.sheets[self.epoch.arrays[array as usize].tier];
        self.objective.burden(demand, self.epoch.extent_bytes, sheet)
    }

    /// The array that takes an extent which takes `load` of its own array, and the room for it there.
    fn target(&self, demand: &Demand, load: f64) -> Option<(u32, Room)> {
        let key = |array: u32| (self.burden(demand, array), !self.epoch.arrays[array as usize].is_powered, array);
        let others = (0..self.left.len() as u32).filter(|other| *other != self.array);
        let taking = others.filter_map(|other| Some((other, self.room(other, demand, load)?)));
        taking.min_by(|a, b| key(a.0).partial_cmp(&key(b.0)).expect("burdens are finite"))
    }

    /// The room that an array has for an extent, if it has time.
    fn room(&self, array: u32, demand: &Demand, load: f64) -> Option<Room> {
        let (left, is_emptied) = (&self.left[array as usize], self.epoch.arrays[array as usize].extents_max == 0);
        let needed = self.performance(demand, array);
        let (room, time) = match left.leaving.last() {
            _ if self.throttled[array as usize] || is_emptied => return None,
            _ if left.slots > 0 => (Room::Free, left.time),
            _ if left.idle > 0 => (Room::Idle, left.time),
            Some((other, number)) if *other <= EXCHANGE * load => {
                let spared = self.performance(&self.epoch.extents[*number as usize].demand, array);
                (Room::Used(*number), left.time + spared)
            }
            _ => return None,
        };
        (needed <= time + SLACK).then_some(room)
    }

    fn send(&mut self, extent: u32, demand: &Demand, to: u32, room: Room) {
        let (from, gain) = (self.array, self.burden(demand, self.array) - self.burden(demand, to));
        self.left[to as usize].time -= self.performance(demand, to);
        match room {
            Room::Free => self.left[to as usize].slots -= 1,
            Room::Idle => {
                self.left[to as usize].idle -= 1;
                match self.shed.idle.iter_mut().find(|idle| idle.from == to) {
                    Some(idle) => idle.extents += 1,
                    None => self.shed.idle.push(IdleMove { from: to, to: from, extents: 1 }),
                }
            }
            Room::Used(number) => {
                let other = &self.epoch.extents[number as usize];
                let gain = self.burden(&other.demand, to) - self.burden(&other.demand, from);
                self.left[to as usize].leaving.pop();
                self.left[to as usize].time += self.performance(&other.demand, to);
                self.shed.exchanged.push(Move { extent: other.id, from: to, to: from, gain });
            }
        }
        self.shed.moves.push(Move { extent, from, to, gain });
        if !self.epoch.arrays[to as usize].is_powered && !self.shed.woken.contains(&to) {
            self.shed.woken.push(to);
        }
    }
}
