//! Where moved blocks go: segments of their own, so that what has survived is not mixed with what is new. A segment of
//! copies has no records and no place in the log; what is in it is known by the map alone.

use std::collections::BTreeMap;

use esker_block::Buf;
use esker_cleaning::Class;

use super::Separation;
use crate::format::{CopyHeader, Record, number_of};
use crate::number::SegmentNo;
use crate::segments::{Segment, Segments, State as Use};
use crate::volume::{ReserveClass, Volume};

/// A segment that is being filled.
#[derive(Clone, Copy)]
struct Open {
    segment: SegmentNo,
    /// Next block to be written; 0 if nothing is.
    next: u64,
}

/// Segments that are being filled, by class, and the references that hold them.
#[derive(Default)]
pub(super) struct Copies {
    open: [Option<Open>; Class::COUNT],
    /// For each victim whose mappings do not lead to its copies yet, segments that hold copies, which stay as if on
    /// their way.
    claims: BTreeMap<SegmentNo, Vec<SegmentNo>>,
}

/// Room for copies: so many blocks from `block` of a segment on.
#[derive(Clone, Copy, Debug)]
pub(super) struct CopyTarget {
    pub segment: SegmentNo,
    pub block: u64,
    pub blocks: u64,
    /// When the data was new.
    born: u64,
}

impl Copies {
    /// Counts the copy that lies in `segment` as on its way until [`Copies::end_claims`].
    pub(super) fn claim(&mut self, victim: SegmentNo, segment: SegmentNo, segments: &mut Segments, now: u64) {
        segments.begin(segment, now);
        self.claims.entry(victim).or_default().push(segment);
    }

    /// All mappings lead to the victim's copies, or none ever will.
    pub(super) fn end_claims(&mut self, victim: SegmentNo, segments: &mut Segments) {
        self.claims.remove(&victim).into_iter().flatten().for_each(|segment| segments.end(segment));
    }
}

impl Volume {
    /// The class of what is copied out of a segment.
    pub(super) fn class_of_copies(&self, victim: &Segment, is_held: bool) -> Class {
        let age = self.log.borrow().seq.saturating_sub(victim.born);
        match self.collector.settings.separation {
            Separation::Origin => Class::MOVED_ONCE,
            Separation::Lifetime => self.collector.state.borrow().separator.place_moved(victim.class, age, is_held),
        }
    }

    /// The head for the data of records, by index: by the lifetime of what it replaces. None if they have no data.
    pub(crate) fn class_of_new(&self, records: &[Record]) -> Option<usize> {
        let lba = records.iter().find_map(|record| match record {
            Record::Write { lba, .. } => Some(*lba),
            _ => None,
        })?;
        let class = match self.collector.settings.separation {
            Separation::Origin => Class::NEW_SHORT,
            Separation::Lifetime => {
                let lifetime = self.age_of(lba);
                self.collector.state.borrow().separator.place_new(lifetime)
            }
        };
        Some(class.index())
    }

    /// Time since a logical block was written.
    fn age_of(&self, lba: u64) -> Option<u64> {
        let extent = self.map.borrow().pieces(lba..lba + 1).next()?;
        Some(self.log.borrow().seq.saturating_sub(self.segments.borrow().born(extent.pba)))
    }

    /// Segments were freed: what was in the short-lived ones teaches how long such data lives.
    pub(crate) fn learn_lifespan(&self, freed: impl Iterator<Item = Segment>) {
        let now = self.log.borrow().seq;
        let separator = &mut self.collector.state.borrow_mut().separator;
        freed
            .filter(|segment| segment.state == Use::Closed)
            .for_each(|segment| separator.reclaimed(segment.class, now.saturating_sub(segment.first)));
    }

    /// Room for copies of a class from a victim: at least a block. None if no segment may be taken.
    pub(super) fn room_for(&self, class: Class, victim: &Segment) -> Option<CopyTarget> {
        let g = self.geometry;
        let kept = (self.kept_back(ReserveClass::Collector), self.kept_back(ReserveClass::Writers));
        let mut segments = self.segments.borrow_mut();
        let open = &mut self.collector.state.borrow_mut().copies.open;
        // Where writers find no segment any more, classes share what is open. Not sooner: what is mixed is moved again.
        let is_scarce = segments.free() <= kept.1 + 1;
        let shared = open.iter().position(Option::is_some).filter(|_| is_scarce);
        let at = if open[class.index()].is_some() { class.index() } else { shared.unwrap_or(class.index()) };
        if open[at].is_none() && segments.free() > kept.0 {
            open[at] = segments.take_for_copies(class, victim.first).map(|segment| Open { segment, next: 0 });
        }
        // The first block is the head's.
        open[at].map(|Open { segment, next }| CopyTarget {
            segment,
            block: next,
            blocks: g.segment - next.max(1),
            born: victim.born,
        })
    }

    /// Takes the first `blocks` of a place, which counts as under way; with the head of the segment if it is the first
    /// there. A segment that is full drains: until all of it is in the map.
    pub(super) fn take_place(&self, place: CopyTarget, blocks: u64) -> (u64, Option<Buf>) {
        let now = self.log.borrow().seq;
        let mut segments = self.segments.borrow_mut();
        let open = &mut self.collector.state.borrow_mut().copies.open;
        let entry = open.iter_mut().find(|open| open.is_some_and(|open| open.segment == place.segment));
        let entry = entry.expect("a place is in an open segment");
        let first = place.block.max(1);
        segments.begin(place.segment, now);
        segments.blend(place.segment, place.born, blocks);
        let next = first + blocks;
        *entry = (next < self.geometry.segment).then_some(Open { segment: place.segment, next });
        if entry.is_none() {
            segments.close(place.segment);
        }
        let head = (place.block == 0).then(|| self.copy_head(place.segment, &segments));
        (self.geometry.first_of(place.segment) + first, head)
    }

    fn copy_head(&self, segment: SegmentNo, segments: &Segments) -> Buf {
        let Segment { first, class, state, .. } = segments.get(segment);
        debug_assert!(matches!(state, Use::Copies | Use::Draining), "a head is the first that is written");
        let head = CopyHeader { volume: self.identity, segment, born: first, class: number_of(class) };
        Buf::from_bytes(self.pool(), &head.encode(&self.geometry))
    }
}
