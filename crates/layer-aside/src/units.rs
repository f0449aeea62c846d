//! Which units lie aside, and which pages of them.

use std::cell::RefCell;
use std::ops::Range;

use esker_base::{ByteRange, span};
use esker_caching::index::{Index, hash};
use esker_caching::{Lines, Slot};
use esker_layer_kit::slots::{Mask, SlotMap, SlotMarks};

use crate::PAGE;

/// Share of the places of the index that are used when all slots are.
const LOAD: f64 = 0.85;

/// Units and their slots: the map of the medium, and the way from a unit to its slot.
pub(crate) struct Units {
    pub map: SlotMap,
    index: RefCell<Index>,
    shift: u32,
}

/// A part of a request that lies in one unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    pub unit: u64,
    /// Bytes of the volume.
    pub range: ByteRange,
    /// Whether it lies in one page, which a copy lacks.
    pub is_edge: bool,
}

impl Units {
    pub(crate) fn new(map: SlotMap, unit: u64) -> Units {
        let index = RefCell::new(Index::new(map.slots(), LOAD));
        Units { map, index, shift: unit.trailing_zeros() }
    }

    /// Bytes of a unit.
    pub(crate) fn unit(&self) -> u64 {
        1 << self.shift
    }

    /// The unit that has a byte.
    #[inline]
    pub(crate) fn of(&self, at: u64) -> u64 {
        at >> self.shift
    }

    /// Bytes of the volume that a unit has.
    pub(crate) fn range(&self, unit: u64) -> ByteRange {
        span(unit << self.shift, self.unit())
    }

    /// The unit that has all bytes of a range.
    #[inline]
    pub(crate) fn only(&self, range: ByteRange) -> Option<u64> {
        let unit = self.of(range.start());
        (!range.is_empty() && self.of(range.end() - 1) == unit).then_some(unit)
    }

    /// The parts of a range by unit.
    pub(crate) fn parts(&self, range: ByteRange) -> impl Iterator<Item = Part> + use<> {
        let (shift, bytes) = (self.shift, self.unit());
        let units = if range.is_empty() { 1..1 } else { self.of(range.start())..self.of(range.end() - 1) + 1 };
        units.map(move |unit| {
            let (first, behind) = (unit << shift, (unit << shift) + bytes);
            let (from, to) = (first.max(range.start()), behind.min(range.end()));
            Part { unit, range: span(from, to - from), is_edge: false }
        })
    }

    /// Whether a part is its whole unit.
    pub(crate) fn is_whole(&self, part: &Part) -> bool {
        part.range.len() == self.unit()
    }

    /// The slot of a unit.
    #[inline]
    pub(crate) fn find(&self, unit: u64) -> Option<Slot> {
        self.index.borrow().find(hash(unit), |slot| self.key_of(slot) == Some(unit))
    }

    /// Where a byte of a unit lies in a slot.
    #[inline]
    pub(crate) fn place(&self, slot: Slot, at: u64) -> u64 {
        self.map.data_at(slot) + (at & (self.unit() - 1))
    }

    /// The unit that has its copy in a slot.
    #[inline]
    pub(crate) fn key_of(&self, slot: Slot) -> Option<u64> {
        self.map.get(slot).map(|entry| entry.key)
    }

    /// Slots with their units.
    pub(crate) fn keyed(&self, slots: impl IntoIterator<Item = Slot>) -> impl Iterator<Item = (u64, Slot)> {
        slots.into_iter().filter_map(|slot| Some((self.key_of(slot)?, slot)))
    }

    #[inline]
    pub(crate) fn marks(&self, slot: Slot) -> SlotMarks {
        self.map.get(slot).map_or_else(SlotMarks::default, |entry| entry.marks)
    }

    pub(crate) fn is_dirty(&self, slot: Slot) -> bool {
        self.marks(slot).has(SlotMarks::DIRTY)
    }

    /// Whether all pages that a range touches are there.
    #[inline]
    pub(crate) fn is_valid(&self, slot: Slot, range: ByteRange) -> bool {
        !self.marks(slot).has(SlotMarks::PART) || self.missing(slot, self.pages(range)).is_none()
    }

    /// The pages of its unit that a range touches.
    pub(crate) fn pages(&self, range: ByteRange) -> Range<u64> {
        let first = range.start() & !(self.unit() - 1);
        ((range.start() - first) / PAGE)..(range.end() - first).div_ceil(PAGE)
    }

    /// The pages of its unit that a range covers.
    pub(crate) fn whole_pages(&self, range: ByteRange) -> Range<u64> {
        let first = range.start() & !(self.unit() - 1);
        let (from, to) = ((range.start() - first).div_ceil(PAGE), ((range.end() - first) / PAGE));
        from..to.max(from)
    }

    /// The first of these pages that is not there.
    pub(crate) fn missing(&self, slot: Slot, mut pages: Range<u64>) -> Option<u64> {
        let mask = self.map.mask(slot)?;
        pages.find(|page| !mask.has(*page))
    }

    /// Pages of a unit.
    pub(crate) fn pages_of_unit(&self) -> u64 {
        self.unit() / PAGE
    }

    /// The pages of a slot that are there.
    pub(crate) fn mask(&self, slot: Slot) -> Mask {
        self.map.mask(slot).unwrap_or_else(|| Mask::first(self.pages_of_unit()))
    }

    /// Notes that a unit has its copy in a slot, in the index alone.
    pub(crate) fn index(&self, unit: u64, slot: Slot) {
        self.index.borrow_mut().insert(hash(unit), slot);
    }

    pub(crate) fn unindex(&self, unit: u64, slot: Slot) {
        self.index.borrow_mut().remove(hash(unit), slot);
    }

    pub(crate) fn bytes(&self) -> usize {
        self.map.bytes() + self.index.borrow().bytes()
    }
}

/// A mask with more pages.
pub(crate) fn with(mut mask: Mask, pages: Range<u64>) -> Mask {
    pages.for_each(|page| mask.set(page));
    mask
}

/// A mask without some pages.
pub(crate) fn without(mut mask: Mask, pages: Range<u64>) -> Mask {
    pages.for_each(|page| mask.clear(page));
    mask
}

/// What a director may ask of slots: those that are dirty stay.
impl Lines for Units {
    fn key(&self, slot: Slot) -> u64 {
        self.key_of(slot).unwrap_or(u64::MAX)
    }

    fn is_held(&self, slot: Slot) -> bool {
        self.is_dirty(slot)
    }
}
