//! Which base pages of a region are in use: 512 bits, and the share of them that counts as well used.

use crate::REGION_PAGES;

const WORDS: usize = REGION_PAGES as usize / 64;

/// The utilisation vector of a region: one bit for each base page.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Util([u64; WORDS]);

impl Util {
    /// Nothing is in use.
    pub const EMPTY: Util = Util([0; WORDS]);
    /// Everything is.
    pub const FULL: Util = Util([u64::MAX; WORDS]);

    /// Marks a page as used. True if it was not.
    ///
    /// # Panics
    /// If `page` is not below 512, here and below.
    pub fn set(&mut self, page: u32) -> bool {
        let (word, bit) = at(page);
        let is_new = self.0[word] & bit == 0;
        self.0[word] |= bit;
        is_new
    }

    /// Marks `pages` as used.
    pub fn set_range(&mut self, pages: std::ops::Range<u32>) {
        for page in pages {
            self.set(page);
        }
    }

    /// Marks a page as free. True if it was used.
    pub fn clear(&mut self, page: u32) -> bool {
        let (word, bit) = at(page);
        let was_used = self.0[word] & bit != 0;
        self.0[word] &= !bit;
        was_used
    }

    /// Whether a page is in use.
    pub fn has(&self, page: u32) -> bool {
        let (word, bit) = at(page);
        self.0[word] & bit != 0
    }

    /// Pages in use.
    pub fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// The pages in use, in order.
    pub fn pages(&self) -> impl Iterator<Item = u32> + '_ {
        (0..REGION_PAGES).filter(|page| self.has(*page))
    }

    /// What this one has and `other` has not.
    pub fn without(&self, other: &Util) -> Util {
        Util(std::array::from_fn(|word| self.0[word] & !other.0[word]))
    }
}

impl std::fmt::Debug for Util {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {REGION_PAGES} pages", self.count())
    }
}

fn at(page: u32) -> (usize, u64) {
    assert!(page < REGION_PAGES, "a region has {REGION_PAGES} pages, not a page {page}");
    (page as usize / 64, 1 << (page % 64))
}

/// A share of a region's pages, in whole per cent from 1 to 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Threshold(u32);

impl Threshold {
    /// None unless `percent` is from 1 to 100.
    pub const fn percent(percent: i64) -> Option<Threshold> {
        match percent {
            1..=100 => Some(Threshold(percent as u32)),
            _ => None,
        }
    }

    /// The least number of pages that reaches it: 461 for 90 %.
    pub const fn pages(self) -> u32 {
        (REGION_PAGES * self.0).div_ceil(100)
    }

    /// Memory in use after promotions over memory in use before, at most: `1 / threshold`. The source says "at most
    /// 10 % more" for 90 %; exact are 512 pages where 461 were.
    pub fn bloat_max(self) -> f64 {
        f64::from(REGION_PAGES) / f64::from(self.pages())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_round_up_to_whole_pages() {
        let pages = [1, 50, 70, 85, 90, 100].map(|percent| Threshold::percent(percent).unwrap().pages());
        assert_eq!(pages, [6, 256, 359, 436, 461, 512]);
        assert!([-1, 0, 101, i64::MAX, i64::MIN].into_iter().all(|percent| Threshold::percent(percent).is_none()));
    }

    #[test]
    fn the_bound_of_bloat_is_one_over_the_threshold() {
        let bound = Threshold::percent(90).unwrap().bloat_max();
        assert!((bound - 1.1106).abs() < 0.0001, "{bound}");
        assert_eq!(Threshold::percent(100).unwrap().bloat_max(), 1.0);
    }

    proptest::proptest! {
        #[test]
        fn a_vector_is_a_set_of_pages(steps in proptest::collection::vec((0..REGION_PAGES, proptest::bool::ANY), 0..400)) {
            let (mut util, mut model) = (Util::EMPTY, std::collections::BTreeSet::new());
            for (page, sets) in steps {
                let changed = if sets { util.set(page) == model.insert(page) } else { util.clear(page) == model.remove(&page) };
                proptest::prop_assert!(changed);
            }
            proptest::prop_assert_eq!(util.count() as usize, model.len());
            proptest::prop_assert!(util.pages().eq(model.iter().copied()));
            proptest::prop_assert_eq!(Util::FULL.without(&util).count() + util.count(), REGION_PAGES);
        }
    }
}
