//! The table of segments: what each is used for, how much refers to it, and its readers.
//!
//! Invariant: a segment is free only if no mapping of the newest checkpoint or of the map refers to it, no record in it
//! is needed for recovery, and no read into it is under way.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

use esker_cleaning::Class;

use crate::format::Geometry;
use crate::map::Extent;
use crate::number::SegmentNo;

/// What a segment is used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Nothing: it may be opened.
    Free,
    /// A head of the log.
    Open,
    /// What the collector moves is written to it.
    Copies,
    /// Full, but some of its batches or copies are not yet in the map.
    Draining,
    /// Full, and all that it holds is in the map. It never changes again.
    Closed,
    /// Pages of the map.
    Map,
}

/// What the collector does with a closed segment.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Stage {
    /// Nothing.
    #[default]
    Rest,
    /// It was chosen: its reverse map is being made, and every new mapping into it is noted there.
    Candidate,
    /// Its reverse map is complete, or all its live blocks are known, and it waits for the cleaner.
    Ready,
    /// Its live blocks are being copied.
    Cleaning,
    /// They are copied, and the next pass over the map points its mappings at the copies.
    Forwarding,
}

/// One segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// What it is used for.
    pub state: State,
    /// Mappings into it, counted in logical blocks: a block that three logical blocks share counts three times. Zero
    /// means that no block is live.
    pub live: u64,
    /// Number of the first record in it, or, if it holds copies, of the segment that they came from first. It is the
    /// age of its data, on the log's own clock. 0 if it is not known.
    pub first: u64,
    /// One past the number of the last record in it; the log's clock when the last copy came.
    pub last: u64,
    /// What the collector does with it.
    pub stage: Stage,
    /// What its data have in common: those of the log are one of [`Class::NEW`], copies something else.
    pub class: Class,
    /// Readers and others that need its bytes to stay.
    pub holds: u32,
    /// Batches and copies on their way.
    under_way: u32,
    /// Blocks of data that were written to it.
    filled: u32,
    /// When its data were new, as `first`, but the mean of all copies.
    pub born: u64,
}

const FREE: Segment = Segment {
    state: State::Free,
    live: 0,
    first: 0,
    last: 0,
    stage: Stage::Rest,
    class: Class::NEW_SHORT,
    holds: 0,
    under_way: 0,
    filled: 0,
    born: 0,
};

impl Segment {
    /// Whether the collector has nothing to do with it, and it changes no more.
    pub fn may_be_chosen(&self) -> bool {
        self.state == State::Closed && self.stage == Stage::Rest
    }

    /// Whether nothing in it is needed once all records before `seq` are in a durable map.
    fn is_dead(&self, seq: u64) -> bool {
        let has_no_records = !self.class.is_new();
        self.may_be_chosen() && self.live == 0 && (has_no_records || self.last <= seq)
    }
}

/// All segments of a volume.
pub struct Segments {
    geometry: Geometry,
    table: Vec<Segment>,
    /// Free ones, in the order in which they became free.
    free: VecDeque<SegmentNo>,
    /// Those of them whose old content the device below still keeps.
    unerased: BTreeSet<SegmentNo>,
    /// References that have gone since the volume was opened, in blocks.
    released: u64,
}

impl Segments {
    /// All free.
    pub fn new(geometry: Geometry) -> Segments {
        Segments {
            geometry,
            table: vec![FREE; geometry.segments as usize],
            free: SegmentNo::all(geometry.segments).collect(),
            unerased: BTreeSet::new(),
            released: 0,
        }
    }

    /// One segment.
    pub fn get(&self, segment: SegmentNo) -> Segment {
        self.table[segment.index()]
    }

    /// All of them, by number.
    pub fn iter(&self) -> impl Iterator<Item = (SegmentNo, Segment)> {
        SegmentNo::all(self.geometry.segments).zip(self.table.iter().copied())
    }

    /// How many are free.
    pub fn free(&self) -> u64 {
        self.free.len() as u64
    }

    /// How many are in a state.
    pub fn count(&self, state: State) -> u64 {
        self.table.iter().filter(|segment| segment.state == state).count() as u64
    }

    /// Takes a free segment for data of the log of one class; the next record is `seq`.
    pub(crate) fn take_for_log(&mut self, class: Class, seq: u64) -> Option<SegmentNo> {
        let segment = self.take(State::Open, seq)?;
        self.table[segment.index()].class = class;
        Some(segment)
    }

    /// Takes a free segment.
    pub(crate) fn take(&mut self, state: State, seq: u64) -> Option<SegmentNo> {
        let segment = self.free.pop_front()?;
        self.unerased.remove(&segment);
        self.table[segment.index()] = Segment { state, first: seq, last: seq, born: seq, ..FREE };
        Some(segment)
    }

    /// Says what a segment is used for: recovery finds it out one by one, and calls [`Segments::list_free`] then.
    pub(crate) fn claim(&mut self, segment: SegmentNo, state: State, first: u64) {
        let entry = &mut self.table[segment.index()];
        (entry.state, entry.first, entry.last) = (state, first, entry.last.max(first));
        entry.born = first;
    }

    /// Says of which class the data is that the log wrote to a segment, and that it is full but for an open one.
    pub(crate) fn know_log(&mut self, segment: SegmentNo, class: Class) {
        let entry = &mut self.table[segment.index()];
        if matches!(entry.state, State::Closed | State::Open) {
            (entry.class, entry.filled) = (class, u32::try_from(self.geometry.segment).unwrap_or(u32::MAX));
        }
    }

    /// Says that a segment holds copies, of which class and how old, if it is in use and the class is known.
    pub(crate) fn know_copies(&mut self, segment: SegmentNo, born: u64, class: u8) {
        let entry = &mut self.table[segment.index()];
        if let Some(class) = Class::numbered(class).filter(|_| entry.state == State::Closed) {
            (entry.class, entry.first, entry.born) = (class, born, born);
        }
    }

    /// Finds the free ones anew.
    pub(crate) fn list_free(&mut self) {
        self.free = self.iter().filter(|(_, segment)| segment.state == State::Free).map(|(number, _)| number).collect();
    }

    /// A batch is on its way to the segment, with records up to `last`.
    pub(crate) fn begin(&mut self, segment: SegmentNo, last: u64) {
        self.table[segment.index()].under_way += 1;
        self.table[segment.index()].last = last;
    }

    /// The log has written so many blocks to it.
    pub(crate) fn fill(&mut self, segment: SegmentNo, blocks: u64) {
        self.table[segment.index()].filled = u32::try_from(blocks).unwrap_or(u32::MAX);
    }

    /// So many blocks that were new at `born` were copied to it: it is as old as its blocks are on average.
    pub(crate) fn blend(&mut self, segment: SegmentNo, born: u64, blocks: u64) {
        let entry = &mut self.table[segment.index()];
        let before = u64::from(entry.filled);
        let sum = u128::from(entry.born) * u128::from(before) + u128::from(born) * u128::from(blocks);
        entry.born = u64::try_from(sum / u128::from((before + blocks).max(1))).unwrap_or(born);
        entry.filled = u32::try_from(before + blocks).unwrap_or(u32::MAX);
    }

    /// The number of the log's next record when about a block was written: records come evenly, so its place in its
    /// segment tells. A moved block is as old as the segment that it came from.
    pub(crate) fn born(&self, pba: u64) -> u64 {
        let Segment { first, last, class, filled, born, .. } = self.get(self.geometry.segment_of(pba));
        let (at, filled) = (pba % self.geometry.segment, u64::from(filled));
        if !class.is_new() || filled == 0 {
            return born;
        }
        first + last.saturating_sub(first).saturating_mul(at.min(filled)) / filled
    }

    /// Its records are in the map, or never will be.
    pub(crate) fn end(&mut self, segment: SegmentNo) {
        self.table[segment.index()].under_way -= 1;
        self.close_if_drained(segment);
    }

    /// The head of the log moves on.
    pub(crate) fn close(&mut self, segment: SegmentNo) {
        self.table[segment.index()].state = State::Draining;
        self.close_if_drained(segment);
    }

    fn close_if_drained(&mut self, segment: SegmentNo) {
        let entry = &mut self.table[segment.index()];
        if entry.state == State::Draining && entry.under_way == 0 {
            entry.state = State::Closed;
        }
    }

    /// The map refers to these blocks once more. Tells what the collector does with their segment.
    pub(crate) fn refer(&mut self, extent: Extent) -> Stage {
        let entry = &mut self.table[self.geometry.segment_of(extent.pba).index()];
        entry.live += u64::from(extent.len);
        entry.stage
    }

    /// The map refers to these blocks once less.
    pub(crate) fn release(&mut self, extent: Extent) {
        self.table[self.geometry.segment_of(extent.pba).index()].live -= u64::from(extent.len);
        self.released += u64::from(extent.len);
    }

    /// References that have gone since the volume was opened, in blocks, a few for each dead node: unless it rises,
    /// nothing dies.
    pub fn released(&self) -> u64 {
        self.released
    }

    /// No more than this counts as gone.
    pub(crate) fn limit_released(&mut self, most: u64) {
        self.released = self.released.min(most);
    }

    /// Says what the collector does with a segment from now on.
    pub(crate) fn set_stage(&mut self, segment: SegmentNo, stage: Stage) {
        self.table[segment.index()].stage = stage;
    }

    /// Takes a free segment for copies of one class, the first of which is as old as `born`.
    pub(crate) fn take_for_copies(&mut self, class: Class, born: u64) -> Option<SegmentNo> {
        let segment = self.take(State::Copies, born)?;
        self.table[segment.index()].class = class;
        Some(segment)
    }

    /// A reader needs the segment's bytes: it is not freed until [`Segments::drop_hold`].
    pub fn hold(&mut self, segment: SegmentNo) {
        self.table[segment.index()].holds += 1;
    }

    /// Ends one [`Segments::hold`].
    pub fn drop_hold(&mut self, segment: SegmentNo) {
        self.table[segment.index()].holds -= 1;
    }

    /// Segments without a live block, all of whose records are before `seq`: when a checkpoint of the map as it is now
    /// and `seq` is durable, they may be free.
    pub(crate) fn dead(&self, seq: u64) -> Vec<SegmentNo> {
        self.iter().filter(|(_, segment)| segment.is_dead(seq)).map(|(number, _)| number).collect()
    }

    /// How many a checkpoint would free, if no request reads them.
    pub(crate) fn dead_count(&self, seq: u64) -> u64 {
        self.table.iter().filter(|segment| segment.is_dead(seq) && segment.holds == 0).count() as u64
    }

    /// Whether no request reads the segment.
    pub(crate) fn is_unread(&self, segment: SegmentNo) -> bool {
        self.table[segment.index()].holds == 0
    }

    /// Gives a segment back. Nothing may refer to it.
    pub(crate) fn free_now(&mut self, segment: SegmentNo) {
        let entry = self.table[segment.index()];
        assert!(entry.live == 0 && entry.holds == 0 && entry.under_way == 0, "segment {segment} is in use: {entry:?}");
        self.table[segment.index()] = FREE;
        self.free.push_back(segment);
        self.unerased.insert(segment);
    }

    /// How many free ones' old content the device below still keeps.
    pub(crate) fn unerased(&self) -> u64 {
        self.unerased.len() as u64
    }

    /// Takes all free ones as such whose old content the device below may still keep.
    pub(crate) fn forget_erased(&mut self) {
        self.unerased = self.free.iter().copied().collect();
    }

    /// Takes free segments that lie side by side and are not erased, `most` of them: none are free before
    /// [`Segments::give_erased`].
    pub(crate) fn take_unerased(&mut self, most: u64) -> Option<Range<SegmentNo>> {
        let first = self.unerased.first().copied().filter(|_| most > 0)?;
        let mut run = first..first.next();
        while run.end.number() - first.number() < most && self.unerased.contains(&run.end) {
            run.end = run.end.next();
        }
        self.free.retain(|segment| !run.contains(segment));
        self.unerased.retain(|segment| !run.contains(segment));
        Some(run)
    }

    /// These are erased, and free again.
    pub(crate) fn give_erased(&mut self, run: Range<SegmentNo>) {
        self.free.extend(SegmentNo::all(run.end.number()).skip(run.start.index()));
    }
}
