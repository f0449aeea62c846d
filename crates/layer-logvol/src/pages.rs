//! Which pages of the map's segments are free.
//!
//! A page is never overwritten while the newest durable checkpoint refers to it: what a checkpoint makes superfluous
//! becomes free only when that checkpoint is durable.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::format::Geometry;
use crate::number::{PageNo, SegmentNo};

/// Pages of all segments that hold pages.
pub struct Pages {
    geometry: Geometry,
    /// Free pages, lowest first, so that checkpoints write runs.
    free: BTreeSet<PageNo>,
    /// Pages in use, by segment.
    used: BTreeMap<SegmentNo, u64>,
}

impl Pages {
    /// No segment yet.
    pub fn new(geometry: Geometry) -> Pages {
        Pages { geometry, free: BTreeSet::new(), used: BTreeMap::new() }
    }

    /// Takes a segment's pages; `used` of them are in use.
    pub fn add(&mut self, segment: SegmentNo, used: &BTreeSet<PageNo>) {
        let pages = self.geometry.pages_of(segment);
        self.used.insert(segment, used.range(pages.clone()).count() as u64);
        self.free.extend(each(pages).filter(|page| !used.contains(page)));
    }

    /// How many are free.
    pub fn free(&self) -> u64 {
        self.free.len() as u64
    }

    /// Takes the lowest free page.
    pub fn take(&mut self) -> Option<PageNo> {
        let page = self.free.pop_first()?;
        *self.count(page) += 1;
        Some(page)
    }

    /// Gives a page back.
    pub fn give(&mut self, page: PageNo) {
        let is_new = self.free.insert(page);
        assert!(is_new, "page {page} is given back twice");
        *self.count(page) -= 1;
    }

    fn count(&mut self, page: PageNo) -> &mut u64 {
        let segment = self.geometry.segment_of_page(page).expect("a page of a segment");
        self.used.get_mut(&segment).expect("a segment of the map")
    }

    /// Gives back all segments without a page in use, but keeps `spare` free pages: their numbers.
    pub fn shrink(&mut self, spare: u64) -> Vec<SegmentNo> {
        let mut gone = Vec::new();
        let per = self.geometry.pages_per_segment();
        for segment in self.used.iter().filter(|(_, used)| **used == 0).map(|(segment, _)| *segment).collect::<Vec<_>>()
        {
            if self.free() < spare + per {
                break;
            }
            self.used.remove(&segment);
            each(self.geometry.pages_of(segment)).for_each(|page| {
                self.free.remove(&page);
            });
            gone.push(segment);
        }
        gone
    }

    /// Whether a segment is one of them.
    pub fn has(&self, segment: SegmentNo) -> bool {
        self.used.contains_key(&segment)
    }
}

fn each(pages: Range<PageNo>) -> impl Iterator<Item = PageNo> {
    (pages.start.0..pages.end.0).map(PageNo)
}
