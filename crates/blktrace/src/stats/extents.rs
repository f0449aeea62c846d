//! A set of numbers kept as disjoint runs: its memory grows with the gaps, not with the numbers.

use std::collections::BTreeMap;

/// Which blocks were touched. Runs are `start -> end` (exclusive), never empty, never touching each other.
#[derive(Debug, Default)]
pub(crate) struct Extents {
    runs: BTreeMap<u64, u64>,
    total: u64,
}

impl Extents {
    /// How many numbers the set holds.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Adds `start..end` (not empty).
    pub fn insert(&mut self, start: u64, end: u64) {
        let mut start = start;
        if let Some((&run, run_end)) = self.runs.range_mut(..=start).next_back()
            && *run_end >= start
        {
            if *run_end >= end {
                return;
            }
            start = run;
        }
        let mut end = end;
        while let Some((&run, &run_end)) = self.runs.range(start..=end).next_back() {
            self.runs.remove(&run);
            self.total -= run_end - run;
            end = end.max(run_end);
        }
        self.runs.insert(start, end);
        self.total += end - start;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    proptest::proptest! {
        #[test]
        fn counts_like_a_set_of_numbers(ranges in proptest::collection::vec((0u64..200, 1u64..20), 0..60)) {
            let (mut runs, mut set) = (Extents::default(), BTreeSet::new());
            for (start, len) in ranges {
                runs.insert(start, start + len);
                set.extend(start..start + len);
                assert_eq!(runs.total(), set.len() as u64);
            }
            let ends: Vec<_> = runs.runs.iter().collect();
            assert!(ends.windows(2).all(|w| w[0].1 < w[1].0), "runs touch: {ends:?}");
        }
    }

    #[test]
    fn the_largest_range_costs_one_run() {
        let mut runs = Extents::default();
        runs.insert(0, u64::MAX >> 12);
        runs.insert(5, 9);
        assert_eq!((runs.total(), runs.runs.len()), (u64::MAX >> 12, 1));
    }
}
