//! A dirty map: which bytes of a volume were changed since the map was made, for incremental copies.

use std::cell::{Cell, RefCell};

use esker_base::{Bits, ByteRange};

use crate::bio::{Bio, Op, RangeOp};

/// Smallest piece of a volume that is marked as a whole, in bytes.
const GRANULE_MIN: u64 = 64 << 10;
/// Most pieces of a volume: its map takes at most 1 MiB.
const GRANULES_MAX: u64 = 8 << 20;

/// Which bytes of one volume were changed. They are marked before the change is made, so that none is ever missing.
pub struct ChangeMap {
    map: RefCell<Map>,
    /// Whether everything counts as changed, however large the volume is.
    is_all: Cell<bool>,
}

/// One bit for each piece.
struct Map {
    granule: u64,
    /// Pieces up to the last change.
    marked: Bits,
}

impl ChangeMap {
    /// Of a volume that has `size` bytes now; it may grow.
    pub fn new(size: u64) -> ChangeMap {
        let granule = size.div_ceil(GRANULES_MAX).next_power_of_two().max(GRANULE_MIN);
        ChangeMap { map: RefCell::new(Map { granule, marked: Bits::new(0) }), is_all: Cell::new(false) }
    }

    /// Notes that these bytes are about to change.
    pub fn mark(&self, range: ByteRange) {
        if range.is_empty() || self.is_all.get() {
            return;
        }
        let map = &mut *self.map.borrow_mut();
        while (range.end() - 1) / map.granule >= GRANULES_MAX {
            // The volume has grown.
            map.coarsen();
        }
        let (first, last) = (range.start() / map.granule, (range.end() - 1) / map.granule);
        map.marked.set_range(first as usize..last as usize + 1);
    }

    /// Notes that any byte may be about to change.
    pub fn mark_all(&self) {
        self.is_all.set(true);
    }

    /// Notes what a request is about to change.
    #[inline]
    pub fn note(&self, bio: &Bio) {
        match &bio.op {
            Op::Read | Op::Flush | Op::Extents => {}
            Op::Write | Op::Zero | Op::Discard => self.mark(bio.range),
            Op::Ranges(ops) => ops.iter().for_each(|op| self.note_op(op)),
        }
    }

    /// An element beyond the last byte that can be addressed changes nothing: it is refused.
    fn note_op(&self, op: &RangeOp) {
        let Some((src, dst)) = op.ranges() else { return };
        self.mark(dst);
        if let (Some(src), RangeOp::Move { .. }) = (src, op) {
            self.mark(src);
        }
    }

    /// Runs of `range`, from its start at least to its end, in a volume of `size` bytes: how many bytes, and whether
    /// they were changed.
    pub fn runs(&self, range: ByteRange, size: u64) -> Vec<(u64, bool)> {
        if self.is_all.get() && !range.is_empty() {
            return vec![(range.len(), true)];
        }
        let map = self.map.borrow();
        let (size, mut at) = (size.max(range.end()), range.start());
        let mut list: Vec<(u64, bool)> = Vec::new();
        while at < range.end() {
            let piece = at / map.granule;
            let end = ((piece + 1) * map.granule).min(size);
            let is_set = map.marked.has(piece as usize);
            match list.last_mut().filter(|(_, last)| *last == is_set) {
                Some((len, _)) => *len += end - at,
                None => list.push((end - at, is_set)),
            }
            at = end;
        }
        list
    }
}

impl Map {
    /// Pieces of twice the size: each is marked if one of its halves was.
    fn coarsen(&mut self) {
        let mut coarse = Bits::new(self.marked.len().div_ceil(2));
        self.marked.iter().for_each(|piece| coarse.set(piece / 2));
        self.marked = coarse;
        self.granule *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn r(start: u64, len: u64) -> ByteRange {
        ByteRange::new(start, len).unwrap()
    }

    #[test]
    fn changes_mark_whole_pieces() {
        let changes = ChangeMap::new(1 << 20);
        assert_eq!(changes.runs(r(0, 1 << 20), 1 << 20), [(1 << 20, false)]);
        changes.mark(r(65_535, 2));
        let seen = changes.runs(r(512, (1 << 20) - 512), 1 << 20);
        assert_eq!(seen, [(131_072 - 512, true), ((1 << 20) - 131_072, false)]);
    }

    #[test]
    fn the_map_of_a_huge_export_is_small() {
        let changes = ChangeMap::new(1 << 60);
        changes.mark(r((1 << 60) - 512, 512));
        assert_eq!(changes.map.borrow().marked.len() / 8, 1 << 20);
        assert_eq!(changes.runs(r((1 << 60) - 512, 512), 1 << 60), [(512, true)]);
    }

    #[test]
    fn the_map_of_an_export_that_grew_holds_what_it_held_in_larger_pieces() {
        let changes = ChangeMap::new(1 << 20);
        changes.mark(r(64 << 10, 512));
        let far = 5 << 40;
        changes.mark(r(far, 512));
        let bytes = changes.map.borrow().marked.len() / 8;
        assert!((1 << 19..=1 << 20).contains(&bytes), "{bytes} bytes");
        let flags = |at| changes.runs(r(at, 512), 6 << 40)[0].1;
        assert_eq!([0, far, far - (1 << 30), far + (1 << 30)].map(flags), [true, true, false, false]);
    }

    #[test]
    fn a_map_that_is_marked_as_a_whole_stays_so_however_large_the_volume_gets() {
        let changes = ChangeMap::new(1 << 20);
        changes.mark(r(0, 512));
        changes.mark_all();
        assert_eq!(changes.runs(r(512, 5 << 40), 6 << 40), [(5 << 40, true)]);
        assert_eq!(changes.runs(r(512, 0), 6 << 40), []);
    }

    #[test]
    fn requests_mark_what_they_change_and_a_move_its_source_too() {
        let changes = ChangeMap::new(1 << 20);
        changes.note(&Bio::read(0, crate::Buf::described(512, 0)));
        changes.note(&Bio::flush());
        assert_eq!(changes.runs(r(0, 1 << 20), 1 << 20), [(1 << 20, false)]);
        let piece = GRANULE_MIN;
        changes.note(&Bio::discard(0, 512));
        changes.note(&Bio::ranges([
            RangeOp::Clone { src: r(2 * piece, 512), dst: 4 * piece },
            RangeOp::Move { src: r(6 * piece, 512), dst: 8 * piece },
            RangeOp::Delete { at: r(10 * piece, 512) },
            RangeOp::Clone { src: r(0, 512), dst: u64::MAX },
        ]));
        let marked = (0..16).filter(|at| changes.runs(r(at * piece, 512), 1 << 20)[0].1);
        assert_eq!(marked.collect::<Vec<_>>(), [0, 4, 6, 8, 10]);
    }

    proptest! {
        #[test]
        fn the_map_is_that_of_a_model(marks in proptest::collection::vec((0u64..300, 1u64..200), 0..20)) {
            let changes = ChangeMap::new(500 * GRANULE_MIN);
            let mut model = vec![false; 500];
            for (from, count) in marks {
                changes.mark(r(from * GRANULE_MIN, count * GRANULE_MIN));
                model[from as usize..(from + count) as usize].fill(true);
            }
            let seen = changes.runs(r(0, 500 * GRANULE_MIN), 500 * GRANULE_MIN);
            let flat = seen.iter().flat_map(|(len, is_set)| vec![*is_set; (len / GRANULE_MIN) as usize]);
            prop_assert_eq!(flat.collect::<Vec<_>>(), model);
        }
    }
}
