//! The workload profiler: which blocks are popular, and what is known of a request's maker.
//!
//! Counts are exact and kept in epochs, so that a window of the past can be asked for. What would be more than the
//! agreed number of blocks is dropped epoch by epoch, the oldest first; [`Popular::dropped`] says whether that
//! happened.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

use esker_base::{Nanos, Time};
use esker_block::{Bio, VolumeId};

/// What was done with a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// It was read.
    Read,
    /// It was changed.
    Write,
}

/// Which accesses count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Counted {
    /// Those of one direction.
    Only(Direction),
    /// All.
    Both,
}

/// How often a block was accessed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// When last.
    pub last: Time,
}

impl Counts {
    fn of(&self, counted: Counted) -> u64 {
        match counted {
            Counted::Only(Direction::Read) => self.reads,
            Counted::Only(Direction::Write) => self.writes,
            Counted::Both => self.reads + self.writes,
        }
    }

    fn add(&mut self, other: &Counts) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.last = self.last.max(other.last);
    }
}

/// A block and how popular it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PopularBlock {
    /// Its number.
    pub block: u64,
    /// Its accesses that count.
    pub accesses: u64,
    /// When it was last accessed in the window.
    pub last: Time,
}

type Epoch = BTreeMap<(VolumeId, u64), Counts>;

/// Accesses of blocks.
pub struct Popular {
    /// Length of an epoch.
    epoch: Nanos,
    epochs_max: usize,
    blocks_max: usize,
    /// Epochs by number, the oldest first.
    epochs: VecDeque<(u64, Epoch)>,
    blocks: usize,
    dropped: u64,
}

impl Popular {
    /// Keeps `epochs` epochs of the length `epoch`, and at most `blocks_max` counts in all of them.
    ///
    /// # Panics
    /// If one of the three is zero.
    pub fn new(epochs: usize, epoch: Nanos, blocks_max: usize) -> Popular {
        assert!(epochs > 0 && epoch > Nanos::ZERO && blocks_max > 0, "a profiler that keeps nothing");
        Popular { epoch, epochs_max: epochs, blocks_max, epochs: VecDeque::new(), blocks: 0, dropped: 0 }
    }

    /// Counts one access (`block_accessed`). `now` never goes back.
    pub fn accessed(&mut self, volume: VolumeId, block: u64, direction: Direction, now: Time) {
        let number = now.since(Time::ZERO).0 / self.epoch.0;
        if self.epochs.back().is_none_or(|(last, _)| *last < number) {
            self.epochs.push_back((number, Epoch::new()));
        }
        while self.epochs.front().is_some_and(|(first, _)| first + (self.epochs_max as u64) <= number) {
            self.forget_oldest();
        }
        let (_, newest) = self.epochs.back_mut().expect("pushed above");
        if !newest.contains_key(&(volume, block)) {
            self.blocks += 1;
        }
        let counts = newest.entry((volume, block)).or_default();
        match direction {
            Direction::Read => counts.reads += 1,
            Direction::Write => counts.writes += 1,
        }
        counts.last = now;
        while self.blocks > self.blocks_max && self.epochs.len() > 1 {
            self.dropped += 1;
            self.forget_oldest();
        }
        if self.blocks > self.blocks_max {
            self.drop_one(volume, block);
        }
    }

    /// The present epoch alone is too large: its least popular block goes, but not the one that just came.
    fn drop_one(&mut self, volume: VolumeId, block: u64) {
        let (_, newest) = self.epochs.back_mut().expect("something was counted");
        let others = newest.iter().filter(|(key, _)| **key != (volume, block));
        let least = others.min_by_key(|(key, counts)| (counts.of(Counted::Both), counts.last, **key));
        if let Some(key) = least.map(|(key, _)| *key) {
            newest.remove(&key);
            self.blocks -= 1;
            self.dropped += 1;
        }
    }

    fn forget_oldest(&mut self) {
        if let Some((_, epoch)) = self.epochs.pop_front() {
            self.blocks -= epoch.len();
        }
    }

    /// How often a block was accessed in all epochs that are kept.
    pub fn counts(&self, volume: VolumeId, block: u64) -> Counts {
        let mut sum = Counts::default();
        self.epochs.iter().filter_map(|(_, epoch)| epoch.get(&(volume, block))).for_each(|counts| sum.add(counts));
        sum
    }

    /// The `k` most often accessed blocks of a volume in the last `epochs` epochs, the present one included
    /// (`get_popular_blocks`). Equally popular ones: first what was accessed later, then the lower number.
    pub fn popular(&self, volume: VolumeId, k: usize, epochs: usize, counted: Counted) -> Vec<PopularBlock> {
        let Some((newest, _)) = self.epochs.back() else { return Vec::new() };
        let first = newest.saturating_sub(epochs.saturating_sub(1) as u64);
        let mut sums: BTreeMap<u64, Counts> = BTreeMap::new();
        for (_, epoch) in self.epochs.iter().filter(|(number, _)| *number >= first && epochs > 0) {
            for ((_, block), counts) in epoch.range((volume, 0)..=(volume, u64::MAX)) {
                sums.entry(*block).or_default().add(counts);
            }
        }
        let popular =
            |(block, counts): (u64, Counts)| PopularBlock { block, accesses: counts.of(counted), last: counts.last };
        let mut blocks: Vec<PopularBlock> = sums.into_iter().map(popular).filter(|b| b.accesses > 0).collect();
        blocks.sort_by_key(|b| (Reverse(b.accesses), Reverse(b.last), b.block));
        blocks.truncate(k);
        blocks
    }

    /// How often counts were dropped for want of room: if never, all answers are exact.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

/// What can be said of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Key {
    /// Number for traces.
    Trace,
    /// Where it entered: a mount, a connection, a queue, a volume.
    Issuer,
    /// File or table inside the issuer.
    Stream,
    /// Process.
    Pid,
    /// Urgency among requests of one class; 0 is normal.
    Priority,
    /// Kind of medium that the data should lie on.
    Storage,
}

/// Says something of a request (`set_request_information`). Clones, parts and retries say the same. A value that its
/// field cannot hold is refused.
///
/// # Errors
/// The largest value that would fit.
pub fn set_information(bio: &mut Bio, key: Key, value: u64) -> Result<(), u64> {
    let tag = &mut bio.tag;
    let word = || u32::try_from(value).map_err(|_| u64::from(u32::MAX));
    let byte = || u8::try_from(value).map_err(|_| u64::from(u8::MAX));
    match key {
        Key::Trace => tag.trace = value,
        Key::Issuer => tag.issuer = word()?,
        Key::Stream => tag.stream = word()?,
        Key::Pid => tag.pid = word()?,
        Key::Priority => tag.priority = byte()?,
        Key::Storage => tag.storage = byte()?,
    }
    Ok(())
}

/// What is said of a request (`get_request_information`); 0 if nothing.
pub fn information(bio: &Bio, key: Key) -> u64 {
    let tag = &bio.tag;
    match key {
        Key::Trace => tag.trace,
        Key::Issuer => tag.issuer.into(),
        Key::Stream => tag.stream.into(),
        Key::Pid => tag.pid.into(),
        Key::Priority => tag.priority.into(),
        Key::Storage => tag.storage.into(),
    }
}

#[cfg(test)]
mod tests;
