//! A simulated log-structured store that moves no bytes, only counts: with it the policies are measured, in tests and
//! experiments. Millions of blocks a second on one core.
//!
//! It has segments of blocks, one open segment for each class of blocks, and a cleaner that starts when few segments
//! are clean. A *version* is one content of a block; any number of maps (the volume, its snapshots and clones) refer to
//! it, and it is moved once for all of them. Its clock counts overwrites: copies do not move it on, and an idle store
//! does not age.
//!
//! What it leaves out: metadata, the time that anything takes, deletions, and requests larger than one block.
//!
//! Reading order: [`SimulationPlan`] and [`run`], [`load`] (which block is overwritten next), `store` (the store
//! itself).

pub mod load;
mod store;

use esker_base::Stream;

use crate::Policy;
use load::{Draws, Load};
use store::Store;

/// Size of a store.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shape {
    /// Segments.
    pub segments: u32,
    /// Blocks of a segment.
    pub blocks: u32,
    /// Blocks of the volume over all blocks.
    pub live: f64,
}

impl Shape {
    /// Blocks of the volume.
    pub fn volume(&self) -> u32 {
        (f64::from(self.segments) * f64::from(self.blocks) * self.live) as u32
    }
}

/// When the cleaner works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cleaner {
    /// It starts when so many segments are clean, or fewer.
    pub low: u32,
    /// It goes on until more than `low` and at least so many are clean.
    pub high: u32,
    /// Victims that it chooses at a time.
    pub victims: usize,
}

/// How victims are found.
#[derive(Clone, Copy)]
pub enum Victims<'a> {
    /// The best of all.
    Best(&'a dyn Policy),
    /// Each the best of so many drawn at random.
    Sampled(&'a dyn Policy, u32),
}

/// Where blocks are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// New and moved ones share one log.
    OneLog,
    /// As before, but moved ones are sorted by age before they are written.
    OneLogSorted,
    /// Moved ones have a log of their own.
    MovedApart,
    /// By inferred lifetime: [`crate::Separator`].
    Lifetime,
    /// As before, but without telling apart what only snapshots hold.
    LifetimeUnaware,
}

/// Copies of the volume: snapshots, or clones that are written too.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Copies {
    /// Overwrites from one to the next, in volumes.
    pub every: f64,
    /// How many are kept: the oldest goes.
    pub keep: usize,
    /// Share of the overwrites that go to a copy drawn at random instead of the volume. 0 for snapshots.
    pub written: f64,
}

/// One run.
#[derive(Clone, Copy)]
pub struct SimulationPlan<'a> {
    /// Size.
    pub shape: Shape,
    /// When it cleans.
    pub cleaner: Cleaner,
    /// What it cleans.
    pub victims: Victims<'a>,
    /// Where it writes.
    pub placement: Placement,
    /// What is overwritten.
    pub load: Load,
    /// Snapshots and clones.
    pub copies: Option<Copies>,
    /// Overwrites, in volumes; the second half is measured.
    pub rounds: f64,
    /// Seed of everything random.
    pub seed: u64,
}

/// What was counted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    /// Blocks overwritten.
    pub new: u64,
    /// Blocks that the cleaner copied.
    pub moved: u64,
    /// Segments cleaned.
    pub cleaned: u64,
    /// Share of all blocks that was live, on average: more than the volume's where copies hold blocks.
    pub live: f64,
    /// Share of the full segments whose live share lies in each tenth, at the end.
    pub histogram: [f64; 10],
}

impl Outcome {
    /// Blocks written for each new one.
    pub fn write_amplification(&self) -> f64 {
        (self.new + self.moved) as f64 / self.new as f64
    }
}

/// Fills the volume in order, overwrites it, and counts.
///
/// # Panics
/// If the live data leave the cleaner no room: that is a fault of the plan.
pub fn run(plan: &SimulationPlan<'_>) -> Outcome {
    let volume = plan.shape.volume();
    let mut store = Store::new(plan);
    (0..volume).for_each(|block| store.write(0, block));
    let mut draws = Draws::new(plan.load, volume, plan.seed);
    let mut which = Stream::named(plan.seed, "cleaning-copies");
    let overwrites = (plan.rounds * f64::from(volume)) as u64;
    let every = plan.copies.map_or(u64::MAX, |copies| ((copies.every * f64::from(volume)) as u64).max(1));
    let (mut before, mut live) = (store.counts(), 0.0);
    for at in 0..overwrites {
        if at == overwrites / 2 {
            (before, live) = (store.counts(), 0.0);
        }
        if at % every == every - 1 {
            plan.copies.iter().for_each(|copies| store.copy(copies.keep));
        }
        let is_copy = plan.copies.is_some_and(|copies| copies.written > 0.0 && which.chance(copies.written));
        let map = if is_copy { which.below(store.maps() as u64) as usize } else { 0 };
        store.write(map, draws.draw());
        live += store.live_share();
    }
    let counts = store.counts();
    Outcome {
        new: counts.new - before.new,
        moved: counts.moved - before.moved,
        cleaned: counts.cleaned - before.cleaned,
        live: live / (overwrites - overwrites / 2) as f64,
        histogram: store.histogram(),
    }
}

#[cfg(test)]
mod tests;
