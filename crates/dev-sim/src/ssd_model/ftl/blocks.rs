//! Blocks: which of their units are live, whose these are, and which block is cleaned next.

use std::collections::VecDeque;

use esker_base::Stream;

use super::map::PhysicalUnit;

/// How the collector chooses a block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Cleaner {
    /// The one with the fewest live units; of equals the oldest.
    Greedy,
    /// The one that was filled first.
    Fifo,
    /// The one with the fewest live units among this many drawn at random (B. Van Houdt, *A mean field model for a
    /// class of garbage collection algorithms in flash-based solid state drives*, SIGMETRICS 2013).
    Choices(u32, Stream),
}

/// All blocks of a drive. A block here is one erase block on each die, written and erased together.
pub(super) struct Blocks {
    /// Units of a block, and the logarithm of their stride in [`PhysicalUnit`].
    units: u32,
    shift: u32,
    /// One bit for each place: whether its unit is live. Places of an open block that are not yet written count as
    /// live.
    bits: Vec<u64>,
    /// Logical unit of each place, in memory once the block was opened.
    owners: Vec<Box<[u32]>>,
    live: Vec<u32>,
    /// Number of the seal; 0 for blocks that are free, open or being cleaned.
    sealed: Vec<u32>,
    seals: u32,
    erases: Vec<u32>,
    free: VecDeque<u32>,
    /// Of each block that is not yet laid out in memory: its places that were killed since it was aged.
    aged: Vec<Option<Vec<PhysicalUnit>>>,
}

impl Blocks {
    /// `count` free blocks of `units` units.
    pub(super) fn new(count: u32, units: u32) -> Blocks {
        let shift = shift_of(units);
        Blocks {
            units,
            shift,
            bits: vec![0; (count as usize) << (shift - 6)],
            owners: (0..count).map(|_| Box::default()).collect(),
            live: vec![0; count as usize],
            sealed: vec![0; count as usize],
            seals: 0,
            erases: vec![0; count as usize],
            free: (0..count).collect(),
            aged: Vec::new(),
        }
    }

    /// Number of blocks.
    pub(super) fn count(&self) -> u32 {
        self.live.len() as u32
    }

    /// Number of free blocks.
    #[inline]
    pub(super) fn free(&self) -> usize {
        self.free.len()
    }

    /// The block of a place.
    #[inline]
    pub(super) fn of(&self, place: PhysicalUnit) -> u32 {
        place >> self.shift
    }

    /// First place of a block.
    #[inline]
    pub(super) fn start(&self, block: u32) -> PhysicalUnit {
        block << self.shift
    }

    /// Live units of a block.
    pub(super) fn live(&self, block: u32) -> u32 {
        self.live[block as usize]
    }

    /// Times that each block was erased.
    pub(super) fn erases(&self) -> &[u32] {
        &self.erases
    }

    /// Takes the block that has been free for the longest time and opens it, all of its places live.
    pub(super) fn open(&mut self) -> Option<u32> {
        let block = self.free.pop_front()?;
        let (units, first) = (self.units as usize, (self.start(block) >> 6) as usize);
        self.bits[first..first + units / 64].fill(u64::MAX);
        if units % 64 > 0 {
            self.bits[first + units / 64] = (1 << (units % 64)) - 1;
        }
        self.live[block as usize] = self.units;
        let owners = &mut self.owners[block as usize];
        if owners.is_empty() {
            *owners = vec![0; units].into_boxed_slice();
        }
        Some(block)
    }

    /// Takes the next block of a new drive, which counts `live` units. They are laid out in memory later.
    pub(super) fn age(&mut self, live: u32) -> u32 {
        let block = self.free.pop_front().expect("a new drive's blocks are free");
        debug_assert_eq!(block as usize, self.aged.len());
        self.aged.push(Some(Vec::new()));
        self.live[block as usize] = live;
        block
    }

    /// Begins to lay out an aged block, and returns the places that were killed meanwhile; `None` for any other block.
    pub(super) fn begin_layout(&mut self, block: u32) -> Option<Vec<PhysicalUnit>> {
        let killed = self.aged.get_mut(block as usize)?.take()?;
        self.owners[block as usize] = vec![0; self.units as usize].into_boxed_slice();
        Some(killed)
    }

    /// Lays a unit out that counts as live.
    pub(super) fn lay(&mut self, place: PhysicalUnit, unit: u32) {
        self.bits[(place >> 6) as usize] |= 1 << (place & 63);
        self.own(place, unit);
    }

    /// Says whose unit is at `place`.
    #[inline]
    pub(super) fn own(&mut self, place: PhysicalUnit, unit: u32) {
        let at = place & ((1 << self.shift) - 1);
        self.owners[(place >> self.shift) as usize][at as usize] = unit;
    }

    /// Logical unit of a live place.
    #[inline]
    pub(super) fn owner(&self, place: PhysicalUnit) -> u32 {
        let at = place & ((1 << self.shift) - 1);
        self.owners[(place >> self.shift) as usize][at as usize]
    }

    /// Says that what is at `place` is no longer needed.
    #[inline]
    pub(super) fn kill(&mut self, place: PhysicalUnit) {
        let block = (place >> self.shift) as usize;
        self.live[block] -= 1;
        match self.aged.get_mut(block) {
            Some(Some(killed)) => killed.push(place),
            _ => self.clear(place),
        }
    }

    /// Says that `place` holds nothing, without counting it.
    #[inline]
    pub(super) fn clear(&mut self, place: PhysicalUnit) {
        self.bits[(place >> 6) as usize] &= !(1 << (place & 63));
    }

    /// The first live place from `from` on in its block, which ends before `end`.
    #[inline]
    pub(super) fn next_live(&self, from: PhysicalUnit, end: PhysicalUnit) -> Option<PhysicalUnit> {
        let mut at = from;
        while at < end {
            let word = self.bits[(at >> 6) as usize] >> (at & 63);
            if word != 0 {
                return Some(at + word.trailing_zeros());
            }
            at = (at | 63) + 1;
        }
        None
    }

    /// Closes an open block, which may be cleaned from now on.
    pub(super) fn seal(&mut self, block: u32) {
        self.seals += 1;
        self.sealed[block as usize] = self.seals;
    }

    /// Chooses the block to clean and takes it out of the sealed ones.
    pub(super) fn choose(&mut self, cleaner: &mut Cleaner) -> Option<u32> {
        let chosen = match cleaner {
            Cleaner::Greedy => self.emptiest(0..self.count()),
            Cleaner::Fifo => self.sealed_among(0..self.count()).min_by_key(|block| self.sealed[*block as usize]),
            Cleaner::Choices(count, rng) => {
                let all = u64::from(self.count());
                let drawn = (0..*count).map(|_| rng.below(all) as u32);
                // All of the drawn blocks may be free or open.
                self.emptiest(drawn).or_else(|| self.emptiest(0..self.count()))
            }
        }?;
        self.sealed[chosen as usize] = 0;
        Some(chosen)
    }

    fn sealed_among(&self, blocks: impl Iterator<Item = u32>) -> impl Iterator<Item = u32> {
        blocks.filter(|block| self.sealed[*block as usize] > 0)
    }

    fn emptiest(&self, blocks: impl Iterator<Item = u32>) -> Option<u32> {
        self.sealed_among(blocks).min_by_key(|block| (self.live[*block as usize], self.sealed[*block as usize]))
    }

    /// Erases a block without live units.
    pub(super) fn erase(&mut self, block: u32) {
        debug_assert_eq!(self.live(block), 0);
        self.erases[block as usize] += 1;
        self.free.push_back(block);
    }
}

/// Logarithm of the stride of blocks of `units` units: a power of two of whole words of the bit map.
pub(super) fn shift_of(units: u32) -> u32 {
    units.next_power_of_two().trailing_zeros().max(6)
}
