//! The write-intent bitmap: a region's bit is durable on all members before one of them is written. It goes only when
//! nothing was written there for a while and a flush has made all members equal.

#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]

use std::cell::RefCell;
use std::ops::Range;

use esker_base::Bits;

/// What is known of each region beside its bit in the superblock.
pub struct Intent {
    inner: RefCell<Inner>,
}

struct Inner {
    /// Writes under way.
    under_way: Vec<u32>,
    /// Written since the last look.
    recent: Bits,
    /// Bits that are in the superblock of every member that takes writes, and in every superblock on its way there.
    durable: Bits,
}

impl Intent {
    /// For as many regions as `durable` has.
    pub fn new(durable: Bits) -> Intent {
        let regions = durable.len();
        Intent { inner: RefCell::new(Inner { under_way: vec![0; regions], recent: Bits::new(regions), durable }) }
    }

    /// A write of these regions begins.
    pub fn begin(&self, regions: Range<usize>) {
        let mut inner = self.inner.borrow_mut();
        for region in regions {
            inner.under_way[region] += 1;
            inner.recent.set(region);
        }
    }

    /// It has ended.
    pub fn end(&self, regions: Range<usize>) {
        let mut inner = self.inner.borrow_mut();
        regions.for_each(|region| inner.under_way[region] -= 1);
    }

    /// Whether a write of these regions may reach the members.
    pub fn is_durable(&self, mut regions: Range<usize>) -> bool {
        let inner = self.inner.borrow();
        regions.all(|region| inner.durable.has(region))
    }

    /// A superblock with these bits is on its way: what it lacks cannot be relied on any more.
    pub fn leaving(&self, dirty: &Bits) {
        self.inner.borrow_mut().durable.intersect(dirty);
    }

    /// It has arrived on all members.
    pub fn arrived(&self, dirty: Bits) {
        self.inner.borrow_mut().durable = dirty;
    }

    /// Those of `dirty` that were quiet since the last call.
    pub fn quiet_since_last(&self, dirty: &Bits) -> Vec<usize> {
        let quiet = self.still_quiet(dirty.iter());
        self.inner.borrow_mut().recent.clear_all();
        quiet
    }

    /// Those to which nothing is being or was written.
    pub fn still_quiet(&self, regions: impl IntoIterator<Item = usize>) -> Vec<usize> {
        let inner = self.inner.borrow();
        let is_quiet = |region: &usize| inner.under_way[*region] == 0 && !inner.recent.has(*region);
        regions.into_iter().filter(is_quiet).collect()
    }
}
