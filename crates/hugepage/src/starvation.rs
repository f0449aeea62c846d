//! When promotions are tried again after one has found no free block.
//!
//! Each that is tried in vain has the kernel compact memory for it, which costs milliseconds and holds up whose pages
//! are moved, and the next would find no more than it did. So none is, for as long as khugepaged waits then, unless
//! there come to be more free blocks than there were: the kernel keeps some as reserves.
//!
//! One that was slow where few blocks are free had the kernel make its block, at the same cost: then none is for a
//! thousand times as long, or until there are more.

use esker_base::{Nanos, Time};

/// Free blocks are counted so often.
const LOOK_EVERY: Nanos = Nanos::secs(1);

/// Where fewer are free, a slow promotion had the kernel make its block: some are reserves, which no process gets.
pub const FEW_BLOCKS: u64 = 32;

/// For so many times as long as it took there is none after such a one. A process that stands still for one in a
/// thousand of the time does not show in a 99.9th percentile.
pub const MADE_RESTS: u64 = 1000;

/// A time without free blocks.
#[derive(Clone, Debug)]
pub struct Starvation {
    until: Time,
    next_look: Time,
    /// The fewest that were free since it began.
    blocks: u64,
}

impl Starvation {
    /// From `now` until `until` at most; no process gets the `blocks` that are free.
    pub fn new(now: Time, until: Time, blocks: u64) -> Starvation {
        Starvation { until, next_look: now + LOOK_EVERY, blocks }
    }

    /// Whether it is over. Asks how many blocks are free once that is due.
    pub fn is_over(&mut self, now: Time, free_blocks: impl FnOnce() -> u64) -> bool {
        if now >= self.until {
            return true;
        }
        if now < self.next_look {
            return false;
        }
        self.next_look = now + LOOK_EVERY;
        let free = free_blocks();
        let more = free > self.blocks;
        self.blocks = self.blocks.min(free);
        more
    }

    /// When it may be over.
    pub fn next_look(&self) -> Time {
        self.next_look.min(self.until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time(millis * 1_000_000)
    }

    #[test]
    fn it_ends_as_soon_as_more_blocks_are_seen_than_there_ever_were() {
        let mut starved = Starvation::new(at(0), at(60_000), 5);
        assert!(!starved.is_over(at(999), || panic!("it is not time to look")));
        assert!(!starved.is_over(at(1_000), || 5));
        assert!(!starved.is_over(at(2_000), || 3));
        assert!(starved.is_over(at(3_000), || 4));
    }

    #[test]
    fn it_ends_in_time_without_any() {
        let mut starved = Starvation::new(at(0), at(1_500), 5);
        assert!(!starved.is_over(at(1_200), || 0));
        assert_eq!(starved.next_look(), at(1_500));
        assert!(starved.is_over(at(1_500), || 0));
    }
}
