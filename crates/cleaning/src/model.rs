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
//! Reading order: [`SimulationPlan`], [`run`] and [`fill`], [`load`] (which block is overwritten next), `store` (the
//! store itself).

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
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cleaner {
    /// It starts when so many segments are clean, or fewer.
    pub low: u32,
    /// It goes on until more than `low` and at least so many are clean.
    pub high: u32,
    /// Victims that it chooses at a time.
    pub victims: usize,
    /// Share of their blocks that must be dead; otherwise it copies nothing and takes them for young. 0: it always
    /// copies. NILFS2 calls that a late abort, since it comes behind the cost of looking at them.
    pub least: f64,
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
    /// As before, and they are sorted by age.
    MovedApartSorted,
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
    /// Share of the volume that is written once, before all else, and never overwritten.
    pub still: f64,
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
    /// Segments that the cleaner took for young because too little in them was dead.
    pub deferred: u64,
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

/// What a store looks like that is full again and again.
#[derive(Debug, Clone, PartialEq)]
pub struct Filled {
    /// Blocks written for each new one, over all rounds.
    pub write_amplification: f64,
    /// Live blocks of each full segment at the end of the last round.
    pub live: Vec<u32>,
    /// Share of the blocks that were overwritten at least once.
    pub overwritten: f64,
}

/// Fills the volume in order. Then `rounds` times overwrites until the store is full, and lets the cleaner reach its
/// target between two rounds. Plans of it have no copies.
///
/// # Panics
/// If the live data leave the cleaner no room: that is a fault of the plan.
pub fn fill(plan: &SimulationPlan<'_>, rounds: u32) -> Filled {
    let mut writer = Writer::new(plan);
    let before = writer.store.counts();
    let mut overwritten = vec![false; plan.shape.volume() as usize];
    for round in 0..rounds {
        if round > 0 {
            writer.store.clean();
        }
        while !writer.store.is_full() {
            overwritten[writer.overwrite(0) as usize] = true;
        }
    }
    let counts = writer.store.counts();
    let (new, moved) = (counts.new - before.new, counts.moved - before.moved);
    Filled {
        write_amplification: (new + moved) as f64 / new as f64,
        live: writer.store.live_of_full(),
        overwritten: overwritten.iter().filter(|block| **block).count() as f64 / overwritten.len() as f64,
    }
}

/// A store that holds the volume, with what overwrites it.
struct Writer<'a> {
    store: Store<'a>,
    draws: Draws,
    still: u32,
}

impl<'a> Writer<'a> {
    fn new(plan: &'a SimulationPlan<'a>) -> Writer<'a> {
        let volume = plan.shape.volume();
        let still = (f64::from(volume) * plan.still) as u32;
        let mut store = Store::new(plan);
        (0..volume).for_each(|block| store.write(0, block));
        Writer { store, draws: Draws::new(plan.load, volume - still, plan.seed), still }
    }

    /// Overwrites a block of a map, and answers which.
    fn overwrite(&mut self, map: usize) -> u32 {
        let block = self.still + self.draws.draw();
        self.store.write(map, block);
        block
    }
}

/// Fills the volume in order, overwrites it, and counts.
///
/// # Panics
/// If the live data leave the cleaner no room: that is a fault of the plan.
pub fn run(plan: &SimulationPlan<'_>) -> Outcome {
    let volume = plan.shape.volume();
    let mut writer = Writer::new(plan);
    let mut which = Stream::named(plan.seed, "cleaning-copies");
    let overwrites = (plan.rounds * f64::from(volume)) as u64;
    let every = plan.copies.map_or(u64::MAX, |copies| ((copies.every * f64::from(volume)) as u64).max(1));
    let (mut before, mut live) = (writer.store.counts(), 0.0);
    for at in 0..overwrites {
        if at == overwrites / 2 {
            (before, live) = (writer.store.counts(), 0.0);
        }
        if at % every == every - 1 {
            plan.copies.iter().for_each(|copies| writer.store.copy(copies.keep));
        }
        let is_copy = plan.copies.is_some_and(|copies| copies.written > 0.0 && which.chance(copies.written));
        let map = if is_copy { which.below(writer.store.maps() as u64) as usize } else { 0 };
        writer.overwrite(map);
        live += writer.store.live_share();
    }
    let counts = writer.store.counts();
    Outcome {
        new: counts.new - before.new,
        moved: counts.moved - before.moved,
        cleaned: counts.cleaned - before.cleaned,
        deferred: counts.deferred - before.deferred,
        live: live / (overwrites - overwrites / 2) as f64,
        histogram: writer.store.histogram(),
    }
}

#[cfg(test)]
mod tests;
