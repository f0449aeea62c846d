//! Extents whose device is too slow cannot show what they ask. The detector finds such arrays by their response times,
//! and the corrector sheds half of their load at once (the source's section 3.4.6, which has no numbers).

use crate::demand::Demand;
use crate::epoch::{Epoch, Move, NOWHERE};
use crate::model::{Objective, performance};
use crate::pack::SLACK;
use crate::sheet::Sheet;

/// What an array did in a minute.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Minute {
    /// Requests per second.
    pub iops: f64,
    /// Share of them that is random.
    pub random: f64,
    /// Mean MB of a request.
    pub mb: f64,
    /// Mean response time, seconds.
    pub response_s: f64,
}

impl Minute {
    /// The time that one request of this mix takes on an idle device, seconds.
    pub fn service_s(&self, sheet: &Sheet) -> f64 {
        self.random * sheet.rtime_s + self.mb * sheet.xtime_s_per_mb
    }

    /// Response over service: 1 without a queue.
    pub fn ratio(&self, sheet: &Sheet) -> f64 {
        self.response_s / self.service_s(sheet)
    }
}

/// When an array throttles.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ThrottleLimits {
    /// Response over service above which it does.
    pub theta: f64,
    /// Response over service below which it no longer does.
    pub release: f64,
    /// Requests per second below which a mean says nothing.
    pub iops: f64,
}

/// The limits of this project. The source prints none. By queueing theory a device that is busy for 70 % of its time
/// answers in about three times its service. So a mean of three is no reason to shed load.
pub const LIMITS: ThrottleLimits = ThrottleLimits { theta: 9.0, release: 6.0, iops: 10.0 };

/// The detector of one array.
#[derive(Debug, Clone)]
pub struct Throttle {
    limits: ThrottleLimits,
    throttles: bool,
}

impl Throttle {
    /// Of an array that does not throttle.
    pub fn new(limits: ThrottleLimits) -> Throttle {
        Throttle { limits, throttles: false }
    }

    /// Looks at a minute, and answers whether the array throttles.
    pub fn look(&mut self, minute: &Minute, sheet: &Sheet) -> bool {
        let limit = if self.throttles { self.limits.release } else { self.limits.theta };
        self.throttles = minute.iops > self.limits.iops && minute.ratio(sheet) > limit;
        self.throttles
    }

    /// Whether it throttled in the last minute.
    pub fn throttles(&self) -> bool {
        self.throttles
    }
}

/// Share of an array's load that the corrector sheds.
pub const SHED: f64 = 0.5;

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
    /// Extents for which no other array has room and time.
    pub saturated: Vec<u32>,
    /// Arrays at rest that are to be woken.
    pub woken: Vec<u32>,
}

/// Chooses what leaves an array that throttles, and where it goes.
///
/// The array's demand was clipped, by about its response over its service: `pressure` is that factor, or 1 to believe
/// what was seen. Types are tried by burden, the least first; in a type, arrays that are awake before those at rest.
/// No extent goes to an array that throttles, to one without idle room, or above its time. At most half of the
/// array's extents go.
///
/// # Panics
/// If there is no such array.
pub fn shed(epoch: &Epoch<'_>, array: u32, throttled: &[bool], objective: Objective, pressure: f64) -> Shed {
    let mut left = room(epoch);
    let here: Vec<u32> =
        (0..epoch.extents.len() as u32).filter(|one| epoch.extents[*one as usize].at == array).collect();
    let sheet = &epoch.sheets[epoch.arrays[array as usize].tier];
    let loads: Vec<f64> = here.iter().map(|one| performance(&epoch.extents[*one as usize].demand, sheet)).collect();
    let mut shed = Shed::default();
    for one in relief(&loads).into_iter().take(here.len().div_ceil(2)) {
        let extent = &epoch.extents[here[one as usize] as usize];
        let demand = extent.demand.times(pressure as f32);
        match target(epoch, &left, throttled, objective, &demand) {
            None => shed.saturated.push(extent.id),
            Some(to) => {
                let (tier, burden) =
                    (epoch.arrays[to as usize].tier, |sheet| objective.burden(&demand, epoch.extent_bytes, sheet));
                let gain = burden(sheet) - burden(&epoch.sheets[tier]);
                left[to as usize].0 -= performance(&demand, &epoch.sheets[tier]);
                left[to as usize].1 -= 1;
                shed.moves.push(Move { extent: extent.id, from: array, to, gain });
                if !epoch.arrays[to as usize].is_powered && !shed.woken.contains(&to) {
                    shed.woken.push(to);
                }
            }
        }
    }
    shed
}

/// Time and room that arrays have left, with what lies on them now.
fn room(epoch: &Epoch<'_>) -> Vec<(f64, u32)> {
    let whole = |array: &crate::epoch::Array| {
        (f64::from(array.devices) * epoch.fill, array.extents_max.saturating_sub(array.idle))
    };
    let mut left: Vec<(f64, u32)> = epoch.arrays.iter().map(whole).collect();
    for extent in epoch.extents.iter().filter(|extent| extent.at != NOWHERE) {
        let left = &mut left[extent.at as usize];
        left.0 -= performance(&extent.demand, &epoch.sheets[epoch.arrays[extent.at as usize].tier]);
        left.1 = left.1.saturating_sub(1);
    }
    left
}

fn target(
    epoch: &Epoch<'_>,
    left: &[(f64, u32)],
    throttled: &[bool],
    objective: Objective,
    demand: &Demand,
) -> Option<u32> {
    let can_take = |array: &u32| {
        let at = *array as usize;
        let needed = performance(demand, &epoch.sheets[epoch.arrays[at].tier]);
        !throttled[at] && left[at].1 > 0 && needed <= left[at].0 + SLACK
    };
    let burden =
        |array: u32| objective.burden(demand, epoch.extent_bytes, &epoch.sheets[epoch.arrays[array as usize].tier]);
    let key = |array: &u32| (burden(*array), !epoch.arrays[*array as usize].is_powered, *array);
    let arrays = (0..epoch.arrays.len() as u32).filter(can_take);
    arrays.min_by(|a, b| key(a).partial_cmp(&key(b)).expect("burdens are finite"))
}
