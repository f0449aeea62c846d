//! Where a process has files in its memory.

use std::collections::BTreeMap;

/// Ranges of addresses that files are mapped at: end by start, none overlapping.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Maps(BTreeMap<u64, u64>);

impl Maps {
    /// A file is mapped there, over what was there before.
    pub fn add(&mut self, start: u64, len: u64) {
        self.remove(start, len);
        self.0.insert(start, start.saturating_add(len));
    }

    /// Whether a file is mapped anywhere there.
    pub fn has(&self, start: u64, len: u64) -> bool {
        self.overlapping(start, len).next().is_some()
    }

    /// Nothing is mapped there any more; tells whether a file was.
    pub fn remove(&mut self, start: u64, len: u64) -> bool {
        let end = start.saturating_add(len);
        let cut: Vec<(u64, u64)> = self.overlapping(start, len).collect();
        for (from, to) in &cut {
            self.0.remove(from);
            if *from < start {
                self.0.insert(*from, start);
            }
            if end < *to {
                self.0.insert(end, *to);
            }
        }
        !cut.is_empty()
    }

    fn overlapping(&self, start: u64, len: u64) -> impl Iterator<Item = (u64, u64)> {
        let end = start.saturating_add(len);
        let before = self.0.range(..start).next_back().filter(move |(_, to)| **to > start);
        before.into_iter().chain(self.0.range(start..end)).map(|(from, to)| (*from, *to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hole_leaves_both_ends() {
        let mut maps = Maps::default();
        maps.add(0x1000, 0x3000);
        assert!(maps.remove(0x2000, 0x1000));
        assert!(maps.has(0x1000, 1) && maps.has(0x3fff, 1));
        assert!(!maps.has(0x2000, 0x1000));
        assert!(!maps.remove(0x2000, 0x1000), "nothing was there any more");
    }

    #[test]
    fn a_new_map_replaces_what_it_covers() {
        let mut maps = Maps::default();
        maps.add(0x1000, 0x1000);
        maps.add(0x3000, 0x1000);
        maps.add(0x1800, 0x2000);
        assert_eq!(maps.0.into_iter().collect::<Vec<_>>(), [(0x1000, 0x1800), (0x1800, 0x3800), (0x3800, 0x4000)]);
    }
}
