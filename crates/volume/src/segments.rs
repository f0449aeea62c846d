//! The table of segments: what each is used for, how much refers to it, and who reads it.
//!
//! Invariant: a segment is free only if no mapping of the newest checkpoint or of the map refers to it, no record in it is
//! needed for recovery, and no read into it is under way.

use std::collections::VecDeque;

use crate::format::Geometry;
use crate::map::Extent;

/// What a segment is used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Nothing: it may be opened.
    Free,
    /// The head of the log.
    Open,
    /// Full, but some of its batches are not yet in the map.
    Draining,
    /// Full, and all that it holds is in the map. It never changes again.
    Closed,
    /// Pages of the map.
    Map,
}

/// One segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// What it is used for.
    pub state: State,
    /// Mappings into it, counted in logical blocks: a block that three logical blocks share counts three times. Zero means
    /// that no block is live.
    pub live: u64,
    /// Number of the first record in it: its age, on the log's own clock. 0 if it is not known.
    pub first: u64,
    /// One past the number of the last record in it.
    pub last: u64,
    /// Readers and others who need its bytes to stay.
    pub holds: u32,
    /// Batches on their way.
    under_way: u32,
}

const FREE: Segment = Segment { state: State::Free, live: 0, first: 0, last: 0, holds: 0, under_way: 0 };

/// All segments of a volume.
pub struct Segments {
    geometry: Geometry,
    table: Vec<Segment>,
    /// Free ones, in the order in which they became free.
    free: VecDeque<u32>,
}

impl Segments {
    /// All free.
    pub fn new(geometry: Geometry) -> Segments {
        Segments {
            geometry,
            table: vec![FREE; geometry.segments as usize],
            free: (0..geometry.segments as u32).collect(),
        }
    }

    /// One segment.
    pub fn get(&self, segment: usize) -> Segment {
        self.table[segment]
    }

    /// All of them, by number.
    pub fn iter(&self) -> impl Iterator<Item = (usize, Segment)> {
        self.table.iter().copied().enumerate()
    }

    /// How many are free.
    pub fn free(&self) -> u64 {
        self.free.len() as u64
    }

    /// How many are in a state.
    pub fn count(&self, state: State) -> u64 {
        self.table.iter().filter(|segment| segment.state == state).count() as u64
    }

    /// Takes a free segment for the log, whose next record is `seq`, or for the map.
    pub(crate) fn take(&mut self, state: State, seq: u64) -> Option<usize> {
        let segment = self.free.pop_front()? as usize;
        self.table[segment] = Segment { state, first: seq, last: seq, ..FREE };
        Some(segment)
    }

    /// Says what a segment is used for: recovery finds it out one by one, and calls [`Segments::list_free`] then.
    pub(crate) fn claim(&mut self, segment: usize, state: State, first: u64) {
        let entry = &mut self.table[segment];
        (entry.state, entry.first, entry.last) = (state, first, entry.last.max(first));
    }

    /// Finds the free ones anew.
    pub(crate) fn list_free(&mut self) {
        let free = self.table.iter().enumerate().filter(|(_, segment)| segment.state == State::Free);
        self.free = free.map(|(number, _)| number as u32).collect();
    }

    /// A batch is on its way to the segment, with records up to `last`.
    pub(crate) fn begin(&mut self, segment: usize, last: u64) {
        self.table[segment].under_way += 1;
        self.table[segment].last = last;
    }

    /// Its records are in the map, or never will be.
    pub(crate) fn end(&mut self, segment: usize) {
        self.table[segment].under_way -= 1;
        self.settle(segment);
    }

    /// The head of the log moves on.
    pub(crate) fn close(&mut self, segment: usize) {
        self.table[segment].state = State::Draining;
        self.settle(segment);
    }

    fn settle(&mut self, segment: usize) {
        let entry = &mut self.table[segment];
        if entry.state == State::Draining && entry.under_way == 0 {
            entry.state = State::Closed;
        }
    }

    /// The map refers to these blocks once more.
    pub(crate) fn refer(&mut self, extent: Extent) {
        self.table[self.geometry.segment_of(extent.pba)].live += u64::from(extent.len);
    }

    /// The map refers to these blocks once less.
    pub(crate) fn release(&mut self, extent: Extent) {
        self.table[self.geometry.segment_of(extent.pba)].live -= u64::from(extent.len);
    }

    /// Somebody needs the segment's bytes: it is not freed until [`Segments::drop_hold`].
    pub fn hold(&mut self, segment: usize) {
        self.table[segment].holds += 1;
    }

    /// Nobody needs them any more on behalf of one [`Segments::hold`].
    pub fn drop_hold(&mut self, segment: usize) {
        self.table[segment].holds -= 1;
    }

    /// Segments without a live block, all of whose records are before `seq`: when a checkpoint of the map as it is now and
    /// `seq` is durable, they may be free.
    pub(crate) fn dead(&self, seq: u64) -> Vec<usize> {
        let is_dead = |segment: &Segment| segment.state == State::Closed && segment.live == 0 && segment.last <= seq;
        self.iter().filter(|(_, segment)| is_dead(segment)).map(|(number, _)| number).collect()
    }

    /// Whether a checkpoint would free something.
    pub(crate) fn has_dead(&self, seq: u64) -> bool {
        !self.dead(seq).is_empty()
    }

    /// Whether nobody reads the segment.
    pub(crate) fn is_unread(&self, segment: usize) -> bool {
        self.table[segment].holds == 0
    }

    /// Gives a segment back. Nothing may refer to it.
    pub(crate) fn free_now(&mut self, segment: usize) {
        let entry = self.table[segment];
        assert!(entry.live == 0 && entry.holds == 0 && entry.under_way == 0, "segment {segment} is in use: {entry:?}");
        self.table[segment] = FREE;
        self.free.push_back(segment as u32);
    }
}
