//! The reference: what each block of the windows holds.

use std::collections::BTreeMap;
use std::rc::Rc;

use esker_base::ByteRange;

use crate::bio::{Extent, ExtentState, RangeOp};

type Bytes = Rc<[u8]>;

/// One block: what it holds, and what it ever held.
#[derive(Clone)]
struct Block {
    now: Bytes,
    /// Discarded: reads as zeroes or as anything in `ever`, until it is written again.
    loose: bool,
    ever: Vec<Bytes>,
}

/// The blocks that were adopted; others are not judged.
pub(super) struct Model {
    block: u64,
    zeroes: Bytes,
    blocks: BTreeMap<u64, Block>,
}

impl Model {
    pub(super) fn new(block: u64) -> Model {
        Model { block, zeroes: vec![0; block as usize].into(), blocks: BTreeMap::new() }
    }

    /// Takes `bytes` as what the device holds from `at` on.
    pub(super) fn adopt(&mut self, at: u64, bytes: &[u8]) {
        self.write(at, bytes);
    }

    pub(super) fn write(&mut self, at: u64, bytes: &[u8]) {
        for (index, chunk) in (at / self.block..).zip(bytes.chunks(self.block as usize)) {
            self.put(index, chunk.into());
        }
    }

    pub(super) fn zero(&mut self, range: ByteRange) {
        for index in self.indices(range) {
            self.put(index, self.zeroes.clone());
        }
    }

    pub(super) fn discard(&mut self, range: ByteRange) {
        for index in self.indices(range) {
            self.blocks.entry(index).and_modify(|b| b.loose = true);
        }
    }

    /// Applies a vector whose elements do not overlap.
    pub(super) fn remap(&mut self, ops: &[RangeOp]) {
        for op in ops {
            match *op {
                RangeOp::Clone { src, dst } => self.copy(src, dst),
                RangeOp::Move { src, dst } => {
                    self.copy(src, dst);
                    self.zero(src);
                }
                RangeOp::Delete { at } => self.zero(at),
            }
        }
    }

    /// What is wrong with `bytes` as the answer to a read at `at`.
    pub(super) fn judge_read(&self, at: u64, bytes: &[u8]) -> Result<(), String> {
        for (index, chunk) in (at / self.block..).zip(bytes.chunks(self.block as usize)) {
            let Some(block) = self.blocks.get(&index) else { continue };
            if !block.may_read(chunk, &self.zeroes) {
                return Err(self.describe(index, block, chunk));
            }
        }
        Ok(())
    }

    /// What is wrong with `extents` as the answer about the bytes from `at` on.
    pub(super) fn judge_extents(&self, at: u64, extents: &[Extent]) -> Result<(), String> {
        let mut start = at;
        for extent in extents {
            let range = ByteRange::new(start, extent.len).ok_or("an extent's end does not fit in 64 bits")?;
            let liar = self.blocks.range(self.indices(range)).find(|(_, b)| !b.loose && b.now != self.zeroes);
            if let (Some((index, _)), ExtentState::Hole | ExtentState::Zero) = (liar, extent.state) {
                return Err(format!(
                    "{range} is called {:?}, but byte {} holds data",
                    extent.state,
                    index * self.block
                ));
            }
            start = range.end();
        }
        Ok(())
    }

    fn describe(&self, index: u64, block: &Block, read: &[u8]) -> String {
        let off = read.iter().zip(block.now.iter()).position(|(a, b)| a != b).unwrap_or(0);
        let at = index * self.block + off as u64;
        let (got, want) = (read[off], block.now[off]);
        let nature = if block.ever.iter().any(|b| **b == *read) {
            "an older content of this block"
        } else if *read == *self.zeroes {
            "zeroes"
        } else if self.blocks.values().any(|b| *b.now == *read) {
            "the content of another block"
        } else {
            "never written"
        };
        let allowed = if block.loose { " or zeroes or older content" } else { "" };
        format!("byte {at} reads as {got:#04x}, expected {want:#04x}{allowed}; what came is {nature}")
    }

    fn copy(&mut self, src: ByteRange, dst: u64) {
        let shift = dst / self.block;
        for (i, index) in self.indices(src).enumerate() {
            let Some(from) = self.blocks.get(&index).cloned() else { continue };
            let target = shift + i as u64;
            self.put(target, from.now);
            if let (true, Some(to)) = (from.loose, self.blocks.get_mut(&target)) {
                to.loose = true;
                to.ever.extend(from.ever);
            }
        }
    }

    fn put(&mut self, index: u64, bytes: Bytes) {
        let ever = vec![bytes.clone()];
        let block = self.blocks.entry(index).or_insert_with(|| Block { now: bytes.clone(), loose: false, ever });
        block.loose = false;
        if block.now != bytes {
            block.ever.push(bytes.clone());
            block.now = bytes;
        }
    }

    fn indices(&self, range: ByteRange) -> std::ops::Range<u64> {
        range.start() / self.block..range.end() / self.block
    }
}

impl Block {
    fn may_read(&self, read: &[u8], zeroes: &Bytes) -> bool {
        let loosely = || *read == **zeroes || self.ever.iter().any(|old| **old == *read);
        *self.now == *read || (self.loose && loosely())
    }
}
