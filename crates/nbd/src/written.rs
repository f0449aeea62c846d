//! What was changed through an export since its server began, for incremental copies.

use std::cell::RefCell;

use esker_base::ByteRange;

use crate::proto::Extent;
use crate::proto::wire::state;

/// Smallest piece of an export that is marked as a whole, in bytes.
const GRANULE_MIN: u64 = 64 << 10;
/// Most pieces of an export: its map takes at most 1 MiB.
const GRANULES_MAX: u64 = 8 << 20;
const WORD: u64 = u64::BITS as u64;

/// What was changed of one export; noted before the change is made, so that none is ever missing.
pub(crate) struct Written(RefCell<Map>);

/// One bit for each piece.
struct Map {
    granule: u64,
    /// As many as reach to the last change.
    words: Vec<u64>,
}

impl Written {
    /// Of an export of so many bytes, for a start.
    pub fn new(size: u64) -> Written {
        let granule = size.div_ceil(GRANULES_MAX).next_power_of_two().max(GRANULE_MIN);
        Written(RefCell::new(Map { granule, words: Vec::new() }))
    }

    /// Notes that these bytes are about to change.
    pub fn mark(&self, range: ByteRange) {
        if range.is_empty() {
            return;
        }
        let map = &mut *self.0.borrow_mut();
        while (range.end() - 1) / map.granule >= GRANULES_MAX {
            // The export has grown.
            map.coarsen();
        }
        let (first, last) = (range.start() / map.granule, (range.end() - 1) / map.granule);
        map.words.resize(map.words.len().max((last / WORD + 1) as usize), 0);
        for word in first / WORD..=last / WORD {
            let from = first.saturating_sub(word * WORD);
            let to = (last - word * WORD).min(WORD - 1);
            map.words[word as usize] |= (u64::MAX << from) & (u64::MAX >> (WORD - 1 - to));
        }
    }

    /// The state of `range`, from its start at least to its end, of an export of `size` bytes.
    pub fn extents(&self, range: ByteRange, size: u64) -> Vec<Extent> {
        let map = self.0.borrow();
        let (size, mut at) = (size.max(range.end()), range.start());
        let mut list: Vec<Extent> = Vec::new();
        while at < range.end() {
            let piece = at / map.granule;
            let end = ((piece + 1) * map.granule).min(size);
            let flags = if map.is_set(piece) { state::WRITTEN } else { 0 };
            match list.last_mut().filter(|last| last.flags == flags) {
                Some(last) => last.len += end - at,
                None => list.push(Extent { len: end - at, flags }),
            }
            at = end;
        }
        list
    }
}

impl Map {
    fn is_set(&self, piece: u64) -> bool {
        self.words.get((piece / WORD) as usize).is_some_and(|word| word >> (piece % WORD) & 1 == 1)
    }

    /// Pieces of twice the size: each is marked if one of its halves was.
    fn coarsen(&mut self) {
        let both = |piece: u64| u64::from(self.is_set(2 * piece) || self.is_set(2 * piece + 1));
        let word = |word: u64| (0..WORD).fold(0, |bits, bit| bits | both(word * WORD + bit) << bit);
        self.words = (0..self.words.len().div_ceil(2) as u64).map(word).collect();
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
        let written = Written::new(1 << 20);
        assert_eq!(written.extents(r(0, 1 << 20), 1 << 20), [Extent { len: 1 << 20, flags: 0 }]);
        written.mark(r(65_535, 2));
        let seen: Vec<_> = written.extents(r(512, (1 << 20) - 512), 1 << 20).iter().map(|e| (e.len, e.flags)).collect();
        assert_eq!(seen, [(131_072 - 512, 1), ((1 << 20) - 131_072, 0)]);
    }

    #[test]
    fn the_map_of_a_huge_export_is_small() {
        let written = Written::new(1 << 60);
        written.mark(r((1 << 60) - 512, 512));
        assert_eq!(written.0.borrow().words.len() * 8, 1 << 20);
        assert_eq!(written.extents(r((1 << 60) - 512, 512), 1 << 60), [Extent { len: 512, flags: 1 }]);
    }

    #[test]
    fn the_map_of_an_export_that_grew_holds_what_it_held_in_larger_pieces() {
        let written = Written::new(1 << 20);
        written.mark(r(64 << 10, 512));
        let far = 5 << 40;
        written.mark(r(far, 512));
        let bytes = written.0.borrow().words.len() * 8;
        assert!((1 << 19..=1 << 20).contains(&bytes), "{bytes} bytes");
        let flags = |at| written.extents(r(at, 512), 6 << 40)[0].flags;
        assert_eq!([0, far, far - (1 << 30), far + (1 << 30)].map(flags), [1, 1, 0, 0]);
    }

    proptest! {
        #[test]
        fn the_map_is_that_of_a_model(marks in proptest::collection::vec((0u64..300, 1u64..200), 0..20)) {
            let written = Written::new(500 * GRANULE_MIN);
            let mut model = vec![0u32; 500];
            for (from, count) in marks {
                written.mark(r(from * GRANULE_MIN, count * GRANULE_MIN));
                model[from as usize..(from + count) as usize].fill(state::WRITTEN);
            }
            let seen = written.extents(r(0, 500 * GRANULE_MIN), 500 * GRANULE_MIN);
            let flat = seen.iter().flat_map(|e| vec![e.flags; (e.len / GRANULE_MIN) as usize]);
            prop_assert_eq!(flat.collect::<Vec<_>>(), model);
        }
    }
}
