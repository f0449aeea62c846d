//! Content of a modelled medium, which outlives the world that wrote it, and what a power cut leaves of it.
//!
//! Every write is visible at once and *undoable* until it is settled: the medium keeps what each atomic unit held
//! before. Settling a write says that it reached the medium; then nothing older can come back. A power cut picks, for
//! each unit with unsettled writes, any of the contents that it may hold. So a subset of the writes survives, torn at
//! the atomic unit. Later writes may survive where earlier ones are lost.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};

use esker_base::{ByteRange, Stream};
use esker_block::store::SparseStore;
use esker_block::{Buf, Extent, ExtentState};

/// Content of one device. Shared by `Rc`, so that a new world can open what a killed one left.
pub struct Media {
    /// Bytes that survive a power cut whole or not at all.
    unit: u64,
    store: RefCell<SparseStore>,
    /// Per unit: the number of each unsettled write and what the unit held before it, oldest first.
    undo: RefCell<BTreeMap<u64, VecDeque<Before>>>,
    writes: Cell<u64>,
}

struct Before {
    write: u64,
    bytes: Box<[u8]>,
}

impl Media {
    /// Empty media that a power cut tears at multiples of `unit` bytes (> 0).
    pub fn new(unit: u64) -> Media {
        Media { unit, store: RefCell::default(), undo: RefCell::default(), writes: Cell::new(0) }
    }

    /// Bytes that survive a power cut whole or not at all.
    pub fn unit(&self) -> u64 {
        self.unit
    }

    /// Stores `buf` at the start of `range`, whose length it has, as an unsettled write. Returns the write's number.
    pub fn write(&self, range: ByteRange, buf: &Buf) -> u64 {
        let write = self.number();
        self.remember(range, write);
        self.store.borrow_mut().write_buf(range.start(), buf);
        write
    }

    /// Zeroes `range` as an unsettled write. Returns the write's number. Holes cost nothing: before and after, such a
    /// unit holds zeroes, or what an older unsettled write may bring back.
    pub fn zero(&self, range: ByteRange) -> u64 {
        let write = self.number();
        let mut at = range.start();
        for extent in self.extents(range) {
            let part = ByteRange::new(at, extent.len).expect("inside the range");
            at += extent.len;
            if extent.state != ExtentState::Hole {
                self.remember(part, write);
                self.store.borrow_mut().zero(part);
            }
        }
        write
    }

    fn number(&self) -> u64 {
        let write = self.writes.get() + 1;
        self.writes.set(write);
        write
    }

    /// Keeps what each unit of `range` holds before `write`.
    fn remember(&self, range: ByteRange, write: u64) {
        let (store, mut undo) = (self.store.borrow(), self.undo.borrow_mut());
        for unit in self.units(range) {
            let mut bytes = vec![0; self.unit as usize].into_boxed_slice();
            store.read(unit * self.unit, &mut bytes);
            undo.entry(unit).or_default().push_back(Before { write, bytes });
        }
    }

    /// Says that the writes up to number `write` reached the medium in all of `range`.
    pub fn mark_stable(&self, range: ByteRange, write: u64) {
        let mut undo = self.undo.borrow_mut();
        let mut empty = Vec::new();
        for (unit, older) in undo.range_mut(self.units(range)) {
            let settled = older.partition_point(|before| before.write <= write);
            older.drain(..settled);
            if older.is_empty() {
                empty.push(*unit);
            }
        }
        empty.iter().for_each(|unit| drop(undo.remove(unit)));
    }

    fn units(&self, range: ByteRange) -> std::ops::Range<u64> {
        range.start() / self.unit..range.end().div_ceil(self.unit)
    }

    /// Fills all of `buf` with the bytes from `at` on, as the running device sees them.
    pub fn read(&self, at: u64, buf: &mut Buf) {
        self.store.borrow().read_buf(at, buf);
    }

    /// Which parts of `range` hold data.
    pub fn extents(&self, range: ByteRange) -> Vec<Extent> {
        self.store.borrow().extents(range)
    }

    /// Atomic units with unsettled writes.
    pub fn unsettled(&self) -> usize {
        self.undo.borrow().len()
    }

    /// Cuts the power: each unit with unsettled writes keeps one of the contents that it may hold, drawn from `rng`.
    /// Call it after the world that wrote was killed.
    pub fn power_cut(&self, rng: &mut Stream) {
        let mut store = self.store.borrow_mut();
        for (unit, older) in std::mem::take(&mut *self.undo.borrow_mut()) {
            let kept = rng.below(older.len() as u64 + 1) as usize;
            if let Some(before) = older.get(kept) {
                store.write(unit * self.unit, &before.bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const UNIT: u64 = 512;

    fn range(first: u64, units: u64) -> ByteRange {
        ByteRange::new(first * UNIT, units * UNIT).unwrap()
    }

    fn fill(media: &Media, first: u64, units: u64, seed: u64) -> u64 {
        media.write(range(first, units), &Buf::described((units * UNIT) as usize, seed))
    }

    /// Which of `seeds` (0 is zeroes) the unit holds.
    fn holds(media: &Media, unit: u64, seeds: &[u64]) -> u64 {
        let pool = esker_rt::mem::Pool::new(0);
        let mut buf = Buf::unique(&pool, UNIT as usize);
        media.read(unit * UNIT, &mut buf);
        let is = |seed: &&u64| buf.same_bytes(&Buf::described(UNIT as usize, **seed));
        *seeds.iter().find(is).expect("a unit holds one whole content")
    }

    #[test]
    fn a_cut_leaves_any_content_since_the_last_settled_write_and_nothing_older() {
        let mut seen = BTreeSet::new();
        for seed in 0..64 {
            let media = Media::new(UNIT);
            fill(&media, 0, 1, 1);
            let settled = fill(&media, 0, 1, 2);
            fill(&media, 0, 1, 3);
            fill(&media, 0, 1, 4);
            media.mark_stable(range(0, 1), settled);
            media.power_cut(&mut Stream::seeded(seed));
            assert_eq!(media.unsettled(), 0);
            seen.insert(holds(&media, 0, &[0, 1, 2, 3, 4]));
        }
        assert_eq!(seen, BTreeSet::from([2, 3, 4]));
    }

    #[test]
    fn an_unsettled_write_is_torn_between_units_and_only_there() {
        let torn = (0..64).filter(|seed| {
            let media = Media::new(UNIT);
            for unit in 0..2 {
                media.write(range(unit, 1), &Buf::described(UNIT as usize, 1));
            }
            media.mark_stable(range(0, 2), 2);
            media.zero(range(0, 2));
            media.power_cut(&mut Stream::seeded(*seed));
            holds(&media, 0, &[0, 1]) != holds(&media, 1, &[0, 1])
        });
        assert!((16..48).contains(&torn.count()), "half of the cuts tear a write of two units");
    }

    #[test]
    fn zeroes_over_holes_take_no_memory_and_zeroes_over_data_can_be_undone() {
        let media = Media::new(UNIT);
        fill(&media, 9, 1, 5);
        media.mark_stable(range(9, 1), 1);
        media.zero(ByteRange::new(0, 1 << 50).unwrap());
        // The chunk of the data counts as data as a whole.
        assert_eq!(media.unsettled() as u64, esker_block::store::CHUNK / UNIT);
        let kept = (0..64).filter(|seed| {
            let media = Media::new(UNIT);
            fill(&media, 0, 1, 5);
            media.mark_stable(range(0, 1), 1);
            media.zero(range(0, 1));
            media.power_cut(&mut Stream::seeded(*seed));
            holds(&media, 0, &[0, 5]) == 5
        });
        assert!((1..63).contains(&kept.count()));
    }

    #[test]
    fn zeroes_over_a_hole_that_may_come_back_as_data_may_be_lost_with_them() {
        let mut seen = BTreeSet::new();
        for seed in 0..64 {
            let media = Media::new(UNIT);
            fill(&media, 0, 1, 5);
            media.mark_stable(range(0, 1), 1);
            // The chunk becomes a hole, unsettled; then it is zeroed again, and that is settled.
            media.zero(ByteRange::new(0, esker_block::store::CHUNK).unwrap());
            let again = media.zero(range(0, 1));
            if seed % 2 == 0 {
                media.mark_stable(range(0, 1), again);
            }
            media.power_cut(&mut Stream::seeded(seed));
            seen.insert((seed % 2, holds(&media, 0, &[0, 5])));
        }
        assert_eq!(seen, BTreeSet::from([(0, 0), (1, 0), (1, 5)]));
    }

    #[test]
    fn settled_writes_survive_every_cut() {
        let media = Media::new(UNIT);
        let write = fill(&media, 3, 4, 9);
        media.mark_stable(range(3, 4), write);
        media.power_cut(&mut Stream::seeded(1));
        let mut buf = Buf::unique(&esker_rt::mem::Pool::new(0), 4 * UNIT as usize);
        media.read(3 * UNIT, &mut buf);
        assert!(buf.same_bytes(&Buf::described(4 * UNIT as usize, 9)));
    }
}
