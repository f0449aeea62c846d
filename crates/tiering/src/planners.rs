//! Planners: which extent lies where, once per epoch.

use crate::demand::Demand;
use crate::engine::{Cell, Table, place};
use crate::epoch::{Epoch, Placement, UsedExtent};
use crate::history::History;
use crate::model::{Objective, performance};
use crate::sheet::Sheet;

/// Plans placements. A plan has every extent of its epoch.
pub trait Planner {
    /// The name that configurations use.
    fn name(&self) -> &'static str;

    /// Plans an epoch.
    ///
    /// # Panics
    /// If [`Epoch::check`] refuses the epoch.
    fn plan(&mut self, epoch: &Epoch<'_>) -> Placement;
}

/// Names of all planners.
pub const NAMED: [&str; 5] = ["edt", "est", "idt", "greedy", "utilisation"];

/// The planner of this name. `edt` and `est` use the objective, and `est` places by `history`.
pub fn by_name(name: &str, objective: Objective, history: History) -> Option<Box<dyn Planner>> {
    match name {
        "edt" => Some(Box::new(Edt { objective })),
        "est" => Some(Box::new(Est { objective, history })),
        "idt" => Some(Box::new(ByIops { is_bounded: true })),
        "greedy" => Some(Box::new(ByIops { is_bounded: false })),
        "utilisation" => Some(Box::new(Edt { objective: Objective::Resources })),
        _ => None,
    }
}

fn checked(epoch: &Epoch<'_>) {
    if let Err(error) = epoch.check() {
        panic!("an epoch is planned that cannot be: {error}");
    }
}

/// What an extent weighs by an objective.
fn cell(objective: Objective, epoch: &Epoch<'_>, demand: &Demand, sheet: &Sheet) -> Cell {
    let rank = objective.share(demand, epoch.extent_bytes, sheet);
    let burden = objective.weighed(rank, epoch.extent_bytes, sheet);
    Cell { performance: performance(demand, sheet), rank, burden }
}

fn idle(objective: Objective, epoch: &Epoch<'_>) -> Vec<f64> {
    epoch.sheets.iter().map(|sheet| objective.burden(&Demand::default(), epoch.extent_bytes, sheet)).collect()
}

/// Extent-based dynamic tiering: each extent where its share of devices weighs least, packed on few arrays. With
/// [`Objective::Resources`] it is the planner `utilisation` of the source's chapter 6.
#[derive(Debug, Clone, Copy)]
pub struct Edt {
    /// What is made small.
    pub objective: Objective,
}

impl Planner for Edt {
    fn name(&self) -> &'static str {
        if self.objective == Objective::Resources { "utilisation" } else { "edt" }
    }

    fn plan(&mut self, epoch: &Epoch<'_>) -> Placement {
        checked(epoch);
        let one = |extent: &UsedExtent, tier: usize| cell(self.objective, epoch, &extent.demand, &epoch.sheets[tier]);
        place(epoch, &Table::new(epoch, idle(self.objective, epoch), one))
    }
}

/// Extent-based static tiering: each extent where the sum of its burdens over all epochs of a history is least.
///
/// Its load is the mean of that history. An extent that the history does not know counts by its present demand. Idle
/// extents of the history must be listed in the epoch too, or they are placed as any idle ones.
#[derive(Debug, Clone)]
pub struct Est {
    /// What is made small.
    pub objective: Objective,
    /// What was seen.
    pub history: History,
}

impl Planner for Est {
    fn name(&self) -> &'static str {
        "est"
    }

    fn plan(&mut self, epoch: &Epoch<'_>) -> Placement {
        checked(epoch);
        let epochs = f64::from(self.history.epochs().max(1));
        let one = |extent: &UsedExtent, tier: usize| {
            let now = cell(self.objective, epoch, &extent.demand, &epoch.sheets[tier]);
            match self.history.of(extent.id) {
                None => now,
                Some(seen) => {
                    let sheet = &epoch.sheets[tier];
                    let performance = performance(&seen.mean, sheet);
                    let rank = if self.objective == Objective::Time { performance } else { seen.shares[tier] / epochs };
                    Cell { burden: self.objective.weighed(rank, epoch.extent_bytes, sheet), rank, performance }
                }
            }
        };
        place(epoch, &Table::new(epoch, idle(self.objective, epoch), one))
    }
}

/// By requests per second alone: the most used extents go to the fastest tier. Bandwidth and prices are ignored.
///
/// `idt` fills a device up to its measured requests per second, `greedy` of the source's chapter 6 up to its room.
#[derive(Debug, Clone, Copy)]
pub struct ByIops {
    /// Whether a device is filled only up to its measured requests per second.
    pub is_bounded: bool,
}

/// Weight of an idle extent beside one in use: it decides among idle ones alone.
const IDLE_WEIGHT: f64 = 1e-12;

impl Planner for ByIops {
    fn name(&self) -> &'static str {
        if self.is_bounded { "idt" } else { "greedy" }
    }

    fn plan(&mut self, epoch: &Epoch<'_>) -> Placement {
        checked(epoch);
        let one = |extent: &UsedExtent, tier: usize| {
            let (rank, peak) = (f64::from(extent.demand.iops), epoch.sheets[tier].iops);
            Cell { performance: if self.is_bounded { rank / peak } else { 0.0 }, burden: rank / peak, rank }
        };
        let idle = epoch.sheets.iter().map(|sheet| sheet.iops * IDLE_WEIGHT).collect();
        place(epoch, &Table::new(epoch, idle, one))
    }
}
