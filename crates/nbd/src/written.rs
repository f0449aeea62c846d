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

/// One bit for each piece of an export; set before the change is made, so that no change is ever missing.
pub(crate) struct Written {
    size: u64,
    granule: u64,
    /// Empty until the first change.
    words: RefCell<Vec<u64>>,
}

impl Written {
    pub fn new(size: u64) -> Written {
        let granule = size.div_ceil(GRANULES_MAX).next_power_of_two().max(GRANULE_MIN);
        Written { size, granule, words: RefCell::default() }
    }

    /// Notes that these bytes are about to change.
    pub fn mark(&self, range: ByteRange) {
        if range.is_empty() {
            return;
        }
        let mut words = self.words.borrow_mut();
        if words.is_empty() {
            words.resize(self.size.div_ceil(self.granule).div_ceil(WORD) as usize, 0);
        }
        let (first, last) = (range.start() / self.granule, (range.end() - 1) / self.granule);
        for word in first / WORD..=last / WORD {
            let from = first.saturating_sub(word * WORD);
            let to = (last - word * WORD).min(WORD - 1);
            words[word as usize] |= (u64::MAX << from) & (u64::MAX >> (WORD - 1 - to));
        }
    }

    fn is_set(&self, granule: u64) -> bool {
        self.words.borrow().get((granule / WORD) as usize).is_some_and(|word| word >> (granule % WORD) & 1 == 1)
    }

    /// The state of `range`, from its start at least to its end.
    pub fn extents(&self, range: ByteRange) -> Vec<Extent> {
        let mut list: Vec<Extent> = Vec::new();
        let mut at = range.start();
        while at < range.end() {
            let granule = at / self.granule;
            let end = ((granule + 1) * self.granule).min(self.size);
            let flags = if self.is_set(granule) { state::WRITTEN } else { 0 };
            match list.last_mut().filter(|last| last.flags == flags) {
                Some(last) => last.len += end - at,
                None => list.push(Extent { len: end - at, flags }),
            }
            at = end;
        }
        list
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
        assert_eq!(written.extents(r(0, 1 << 20)), [Extent { len: 1 << 20, flags: 0 }]);
        written.mark(r(65_535, 2));
        let seen: Vec<_> = written.extents(r(512, (1 << 20) - 512)).iter().map(|e| (e.len, e.flags)).collect();
        assert_eq!(seen, [(131_072 - 512, 1), ((1 << 20) - 131_072, 0)]);
    }

    #[test]
    fn the_map_of_a_huge_export_is_small() {
        let written = Written::new(1 << 60);
        written.mark(r((1 << 60) - 512, 512));
        assert_eq!(written.words.borrow().len() * 8, 1 << 20);
        assert_eq!(written.extents(r((1 << 60) - 512, 512)), [Extent { len: 512, flags: 1 }]);
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
            let seen = written.extents(r(0, 500 * GRANULE_MIN));
            let flat = seen.iter().flat_map(|e| vec![e.flags; (e.len / GRANULE_MIN) as usize]);
            prop_assert_eq!(flat.collect::<Vec<_>>(), model);
        }
    }
}
