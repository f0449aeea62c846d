//! The hierarchical reuse random walk of SPC-1, as published with the second version of its workload ("V2": the tree
//! covers the whole hot spot, and steps that leave it are taken again).
//!
//! The hot spot is a row of leaves of eight 4 KiB blocks, the leaves of a binary tree. From its leaf, a walker climbs
//! six levels, then one more with a probability of 44 % each, and comes down on any leaf below. A read takes the leaf's
//! next block in turn. A write goes to a leaf that is a multiple of eight, half of the time to the block that was read
//! there last and otherwise to any block. After 15 % of the writes, the walker's next write repeats the block.

use super::{ALIGN, Ask, Places, ProfileFlaw, check_part};
use crate::record::Op;
use esker_base::Stream;

pub(crate) const BLOCKS_PER_LEAF: u64 = 8;
const LEAST_CLIMB: u32 = 6;
const CLIMBS_ON: f64 = 0.44;
const WRITES_WHAT_WAS_READ: f64 = 0.5;
const WRITES_AGAIN: f64 = 0.15;
const WRITTEN_LEAVES: u64 = 8;
const TRIES: u32 = 100;

/// One of the walkers over a hot spot.
#[derive(Clone, Copy)]
struct Walker {
    leaf: u64,
    /// The block that its next write repeats.
    again: Option<u64>,
}

pub(super) struct Reuse {
    /// First block of the hot spot.
    first: u64,
    levels: u32,
    /// The next block to read in each leaf: one byte for 32 KiB of the hot spot.
    turns: Vec<u8>,
    walkers: Vec<Walker>,
}

impl Reuse {
    pub(super) fn new(
        bytes: u64,
        from: f64,
        space: f64,
        walkers: u32,
        draw: &mut Stream,
    ) -> Result<Reuse, ProfileFlaw> {
        check_part("from", from)?;
        check_part("from and space together", from + space)?;
        ProfileFlaw::NoWalkers.unless(walkers > 0)?;
        let blocks = |part: f64| (bytes as f64 * part) as u64 / ALIGN;
        let leaves = blocks(space) / BLOCKS_PER_LEAF;
        let least = 1u64 << LEAST_CLIMB;
        ProfileFlaw::HotSpot { leaves, least }.unless(leaves >= least)?;
        let levels = u64::BITS - (leaves - 1).leading_zeros();
        let walker = |_| Walker { leaf: draw.below(leaves), again: None };
        let walkers = (0..walkers).map(walker).collect();
        Ok(Reuse { first: blocks(from), levels, turns: vec![0; leaves as usize], walkers })
    }

    fn step(&self, from: u64, is_write: bool, draw: &mut Stream) -> u64 {
        let leaves = self.turns.len() as u64;
        let mut leaf = from;
        for _ in 0..TRIES {
            let mut climb = LEAST_CLIMB;
            while climb < self.levels && draw.chance(CLIMBS_ON) {
                climb += 1;
            }
            leaf = (leaf >> climb << climb) + draw.below(1 << climb);
            if is_write {
                leaf -= leaf % WRITTEN_LEAVES;
            }
            if leaf < leaves {
                return leaf;
            }
        }
        draw.below(leaves)
    }

    fn block(&mut self, leaf: u64, is_write: bool, draw: &mut Stream) -> u64 {
        let turn = &mut self.turns[leaf as usize];
        if !is_write {
            let block = u64::from(*turn);
            *turn = (*turn + 1) % BLOCKS_PER_LEAF as u8;
            return block;
        }
        match draw.chance(WRITES_WHAT_WAS_READ) {
            true => (u64::from(*turn) + BLOCKS_PER_LEAF - 1) % BLOCKS_PER_LEAF,
            false => draw.below(BLOCKS_PER_LEAF),
        }
    }
}

impl Places for Reuse {
    fn offset(&mut self, ask: &Ask, draw: &mut Stream) -> u64 {
        let is_write = ask.op == Op::Write;
        let at = draw.below(self.walkers.len() as u64) as usize;
        if is_write && let Some(block) = self.walkers[at].again.take() {
            return (self.first + block) * ALIGN;
        }
        let leaf = self.step(self.walkers[at].leaf, is_write, draw);
        let block = leaf * BLOCKS_PER_LEAF + self.block(leaf, is_write, draw);
        self.walkers[at].leaf = leaf;
        if is_write && draw.chance(WRITES_AGAIN) {
            self.walkers[at].again = Some(block);
        }
        (self.first + block) * ALIGN
    }
}
