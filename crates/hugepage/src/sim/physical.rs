//! Physical memory in blocks of 2 MiB: each is free, is one huge page, or holds base pages of anybody.
//!
//! Base pages go to the lowest block that has some already, as a buddy allocator prefers small blocks to large ones.

use std::collections::BTreeSet;

use crate::REGION_PAGES;
use crate::contiguity::{FreeBlocks, HUGE_ORDER};
use crate::utilisation::Util;
use crate::view::Pid;

/// A base page's place: block times 512 plus the page in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Frame(pub u32);

/// The owner of a base page: process, and number of the virtual page. Pages without an owner are pinned.
pub type Owner = Option<(Pid, u64)>;

/// A block.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Block {
    Free,
    Huge,
    Base { used: Util, owners: Vec<Owner> },
}

/// A base page that compaction moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Whose.
    pub owner: (Pid, u64),
    /// Where it is now.
    pub to: Frame,
}

/// Physical memory.
#[derive(Clone, Debug)]
pub struct Physical {
    blocks: Vec<Block>,
    free: BTreeSet<u32>,
    /// Blocks with base pages and room for more.
    partial: BTreeSet<u32>,
}

impl Physical {
    /// Free memory of so many blocks of 2 MiB.
    pub fn new(blocks: u32) -> Physical {
        Physical { blocks: vec![Block::Free; blocks as usize], free: (0..blocks).collect(), partial: BTreeSet::new() }
    }

    /// A block for a huge page.
    pub fn take_huge(&mut self) -> Option<u32> {
        let block = self.free.pop_first()?;
        self.blocks[block as usize] = Block::Huge;
        Some(block)
    }

    /// A base page, or nothing if memory is full.
    pub fn take_base(&mut self, owner: Owner) -> Option<Frame> {
        let at = self.partial.first().or(self.free.first()).copied()?;
        Some(self.take_in(at, owner))
    }

    /// A base page in a block that has room for one.
    fn take_in(&mut self, at: u32, owner: Owner) -> Frame {
        let block = &mut self.blocks[at as usize];
        if *block == Block::Free {
            *block = Block::Base { used: Util::EMPTY, owners: vec![None; REGION_PAGES as usize] };
            self.free.remove(&at);
        }
        let Block::Base { used, owners } = block else { panic!("block {at} is a huge page and has no room") };
        let page = Util::FULL.without(used).pages().next().expect("a partial block has room");
        used.set(page);
        owners[page as usize] = owner;
        match used.count() {
            REGION_PAGES => self.partial.remove(&at),
            _ => self.partial.insert(at),
        };
        Frame(at * REGION_PAGES + page)
    }

    /// Gives a base page back.
    pub fn give_base(&mut self, frame: Frame) {
        let at = frame.0 / REGION_PAGES;
        let Block::Base { used, owners } = &mut self.blocks[at as usize] else { panic!("{frame:?} is no base page") };
        assert!(used.clear(frame.0 % REGION_PAGES), "{frame:?} is given back twice");
        owners[(frame.0 % REGION_PAGES) as usize] = None;
        let is_empty = used.count() == 0;
        self.partial.insert(at);
        if is_empty {
            self.free_block(at);
        }
    }

    /// Gives a huge page back.
    pub fn give_huge(&mut self, block: u32) {
        assert_eq!(self.blocks[block as usize], Block::Huge, "block {block} is no huge page");
        self.free_block(block);
    }

    fn free_block(&mut self, at: u32) {
        self.blocks[at as usize] = Block::Free;
        self.partial.remove(&at);
        self.free.insert(at);
    }

    /// Makes a huge page base pages, those in `used`; the others are free. `first` is the virtual page of its
    /// beginning.
    pub fn split(&mut self, block: u32, used: Util, pid: Pid, first: u64) {
        assert_eq!(self.blocks[block as usize], Block::Huge, "block {block} is no huge page");
        if used == Util::EMPTY {
            return self.free_block(block);
        }
        let owner = |page: u32| used.has(page).then_some((pid, first + u64::from(page)));
        self.blocks[block as usize] = Block::Base { used, owners: (0..REGION_PAGES).map(owner).collect() };
        if used.count() < REGION_PAGES {
            self.partial.insert(block);
        }
    }

    /// Empties blocks by moving pages into others, the emptiest into the fullest, until `pages_max` are moved or
    /// nothing is gained. Blocks with pinned pages stay.
    pub fn compact(&mut self, pages_max: u64) -> Vec<Moved> {
        let mut moved = Vec::new();
        let mut order: Vec<(u32, u32)> = self.partial.iter().map(|at| (self.used(*at), *at)).collect();
        order.sort_unstable();
        let mut targets = order.clone();
        for (_, from) in order {
            targets.retain(|(_, at)| *at != from);
            let count = self.used(from);
            let room: u64 = targets.iter().map(|(_, at)| u64::from(REGION_PAGES - self.used(*at))).sum();
            let is_pinned = self.owners_of(from).any(|(_, owner)| owner.is_none());
            let fits = u64::from(count) <= room.min(pages_max.saturating_sub(moved.len() as u64));
            if fits && !is_pinned {
                self.evacuate(from, &mut targets, &mut moved);
            }
        }
        moved
    }

    fn evacuate(&mut self, from: u32, targets: &mut Vec<(u32, u32)>, moved: &mut Vec<Moved>) {
        let leaving: Vec<(u32, Owner)> = self.owners_of(from).collect();
        for (page, owner) in leaving {
            while targets.last().is_some_and(|(_, at)| self.used(*at) == REGION_PAGES) {
                targets.pop();
            }
            let (_, into) = targets.last().expect("the room was counted before");
            let to = self.take_in(*into, owner);
            self.give_base(Frame(from * REGION_PAGES + page));
            moved.push(Moved { owner: owner.expect("blocks with pinned pages stay"), to });
        }
    }

    fn used(&self, at: u32) -> u32 {
        match &self.blocks[at as usize] {
            Block::Free => 0,
            Block::Huge => REGION_PAGES,
            Block::Base { used, .. } => used.count(),
        }
    }

    fn owners_of(&self, at: u32) -> impl Iterator<Item = (u32, Owner)> + '_ {
        let (used, owners) = match &self.blocks[at as usize] {
            Block::Base { used, owners } => (*used, owners.as_slice()),
            Block::Free | Block::Huge => (Util::EMPTY, [].as_slice()),
        };
        (0..REGION_PAGES).filter(move |page| used.has(*page)).map(|page| (page, owners[page as usize]))
    }

    /// Pins a page in each of so many free blocks, the lowest first, so that nothing can make huge pages of them.
    pub fn pin(&mut self, blocks: u32) -> Vec<Frame> {
        let chosen: Vec<u32> = self.free.iter().copied().take(blocks as usize).collect();
        chosen.into_iter().map(|at| self.take_in(at, None)).collect()
    }

    /// Free memory by the size of its blocks. Inside a block with base pages it counts as single pages.
    pub fn free_blocks(&self) -> FreeBlocks {
        let mut blocks = vec![0; HUGE_ORDER + 1];
        blocks[HUGE_ORDER] = self.free.len() as u64;
        blocks[0] = self.partial.iter().map(|at| u64::from(REGION_PAGES - self.used(*at))).sum();
        FreeBlocks(blocks)
    }

    /// Bytes in use.
    pub fn used_bytes(&self) -> u64 {
        let all = self.blocks.len() as u64 * u64::from(REGION_PAGES);
        (all - self.free_blocks().pages()) * crate::PAGE_BYTES
    }
}

#[cfg(test)]
mod tests {
    use esker_base::Stream;

    use super::*;

    const A: Pid = Pid(1);

    #[test]
    fn base_pages_fill_one_block_after_the_other() {
        let mut memory = Physical::new(2);
        let frames: Vec<u32> = (0..513).map(|page| memory.take_base(Some((A, page))).unwrap().0).collect();
        assert!(frames.iter().copied().eq(0..513));
        assert_eq!(memory.take_huge(), None);
        memory.give_base(Frame(512));
        assert_eq!(memory.take_huge(), Some(1));
        assert_eq!(memory.take_base(None), None, "memory is full");
    }

    #[test]
    fn a_split_page_keeps_what_is_used_and_frees_the_rest() {
        let mut memory = Physical::new(1);
        let block = memory.take_huge().unwrap();
        let mut used = Util::EMPTY;
        used.set_range(0..100);
        memory.split(block, used, A, 5_120);
        assert_eq!(memory.used_bytes(), 100 * 4096);
        (0..100).for_each(|page| memory.give_base(Frame(page)));
        assert_eq!(memory.free_blocks().fragmentation(0), 0.0);
    }

    #[test]
    fn pinned_pages_fragment_memory_and_compaction_does_not_undo_it() {
        let mut memory = Physical::new(100);
        let pins = memory.pin(95);
        let index = memory.free_blocks().fragmentation(0);
        assert!(index > 0.9, "{index}");
        assert_eq!(memory.compact(u64::MAX), []);
        pins.into_iter().for_each(|frame| memory.give_base(frame));
        assert_eq!(memory.free_blocks().fragmentation(0), 0.0);
    }

    #[test]
    fn compaction_gains_blocks_within_its_cap_and_loses_no_page() {
        let mut memory = Physical::new(64);
        let mut rng = Stream::named(1, "physical");
        let mut where_is: std::collections::BTreeMap<u64, Frame> =
            (0..64 * 512).map(|page| (page, memory.take_base(Some((A, page))).unwrap())).collect();
        where_is.retain(|_, frame| {
            let stays = rng.chance(0.3);
            if !stays {
                memory.give_base(*frame);
            }
            stays
        });
        assert!(memory.free_blocks().fragmentation(0) > 0.9);
        let moved = memory.compact(1_000);
        assert!((500..=1_000).contains(&moved.len()), "{}", moved.len());
        for one in moved.into_iter().chain(memory.compact(u64::MAX)) {
            where_is.insert(one.owner.1, one.to);
        }
        assert!(memory.free_blocks().fragmentation(0) < 0.05);
        let distinct: BTreeSet<Frame> = where_is.values().copied().collect();
        assert_eq!((distinct.len(), memory.used_bytes()), (where_is.len(), where_is.len() as u64 * 4096));
    }
}
