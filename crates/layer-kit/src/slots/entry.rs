//! What a slot holds: its entry, its marks, and the pages that are there.

use esker_block::VolumeId;

use crate::io::Io;

/// Bytes of a page of a slot that is there in part.
pub const PART_PAGE: u64 = 4096;
/// Pages of such a slot at most.
pub const PART_PAGES_MAX: u64 = 256;
/// Pages of a quarter of a mask, which one record holds.
pub(super) const PER_QUARTER: u64 = 64;

/// Bits of an entry that hold its key plus one.
const KEY_BITS: u32 = 40;
const CURSOR_BITS: u32 = 16;

/// What is true of a slot beside its key.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SlotMarks(u8);

impl SlotMarks {
    /// Nothing.
    pub const NONE: SlotMarks = SlotMarks(0);
    /// Home is older than the slot.
    pub const DIRTY: SlotMarks = SlotMarks(1);
    /// The unit is on its way here; `cursor` parts of it have switched.
    pub const INCOMING: SlotMarks = SlotMarks(2);
    /// Only the pages of its mask are there.
    pub const PART: SlotMarks = SlotMarks(4);
    /// The owner keeps it, whatever a policy says.
    pub const PINNED: SlotMarks = SlotMarks(8);

    const ALL: u8 = 15;

    /// Whether all of `marks` are set.
    pub fn has(self, marks: SlotMarks) -> bool {
        self.0 & marks.0 == marks.0
    }

    /// With `marks` set.
    #[must_use]
    pub fn with(self, marks: SlotMarks) -> SlotMarks {
        SlotMarks(self.0 | marks.0)
    }

    /// Without `marks`.
    #[must_use]
    pub fn without(self, marks: SlotMarks) -> SlotMarks {
        SlotMarks(self.0 & !marks.0)
    }

    pub(super) fn bits(self) -> u8 {
        self.0
    }

    pub(super) fn of(bits: u8) -> Option<SlotMarks> {
        (bits & !SlotMarks::ALL == 0).then_some(SlotMarks(bits))
    }
}

/// The unit that lies in a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotEntry {
    /// Number of the unit.
    pub key: u64,
    /// Parts that have switched to this slot, while it is [`SlotMarks::INCOMING`].
    pub cursor: u16,
    /// What else is true of it.
    pub marks: SlotMarks,
}

impl SlotEntry {
    /// A unit without marks.
    pub fn of(key: u64) -> SlotEntry {
        SlotEntry { key, cursor: 0, marks: SlotMarks::NONE }
    }

    /// The same unit with `marks` set.
    #[must_use]
    pub fn with(self, marks: SlotMarks) -> SlotEntry {
        SlotEntry { marks: self.marks.with(marks), ..self }
    }

    /// The same unit without `marks`.
    #[must_use]
    pub fn without(self, marks: SlotMarks) -> SlotEntry {
        SlotEntry { marks: self.marks.without(marks), ..self }
    }

    /// The eight bytes on the medium; an empty slot is zero.
    pub(super) fn encode(entry: Option<SlotEntry>) -> u64 {
        let Some(SlotEntry { key, cursor, marks }) = entry else { return 0 };
        assert!(key + 1 < 1 << KEY_BITS, "keys have {KEY_BITS} bits: {key}");
        (key + 1) | (u64::from(cursor) << KEY_BITS) | (u64::from(marks.bits()) << (KEY_BITS + CURSOR_BITS))
    }

    /// None inside if the slot is empty; none outside if no esker writes such a number for `keys` units.
    pub(super) fn decode(raw: u64, keys: u64) -> Option<Option<SlotEntry>> {
        let [a, b, c, d, e, f, g, marks] = raw.to_le_bytes();
        let number = u64::from_le_bytes([a, b, c, d, e, 0, 0, 0]);
        let (cursor, marks) = (u16::from_le_bytes([f, g]), SlotMarks::of(marks)?);
        match number {
            0 => (raw == 0).then_some(None),
            number if number > keys => None,
            number => Some(Some(SlotEntry { key: number - 1, cursor, marks })),
        }
    }
}

/// Pages of 4 KiB of a slot that are there.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Mask([u64; 4]);

impl Mask {
    /// No page.
    pub const NONE: Mask = Mask([0; 4]);

    /// The first `pages` pages.
    pub fn first(pages: u64) -> Mask {
        let mut mask = Mask::NONE;
        (0..pages).for_each(|page| mask.set(page));
        mask
    }

    /// Whether a page is there.
    pub fn has(&self, page: u64) -> bool {
        self.0[quarter(page)] >> (page % PER_QUARTER) & 1 != 0
    }

    /// Puts a page in.
    pub fn set(&mut self, page: u64) {
        self.0[quarter(page)] |= 1 << (page % PER_QUARTER);
    }

    /// Takes a page out.
    pub fn clear(&mut self, page: u64) {
        self.0[quarter(page)] &= !(1 << (page % PER_QUARTER));
    }

    /// How many pages are there.
    pub fn count(&self) -> u32 {
        self.0.iter().map(|pages| pages.count_ones()).sum()
    }

    pub(super) fn quarters(&self) -> &[u64; 4] {
        &self.0
    }

    pub(super) fn set_quarter(&mut self, quarter: u8, pages: u64) {
        self.0[usize::from(quarter)] = pages;
    }
}

fn quarter(page: u64) -> usize {
    assert!(page < PART_PAGES_MAX, "page {page} of {PART_PAGES_MAX}");
    usize::from((page / PER_QUARTER) as u8)
}

/// Some of a layer's lower devices, a bit each.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LowerSet(u64);

impl LowerSet {
    /// None.
    pub const NONE: LowerSet = LowerSet(0);

    /// One of them.
    ///
    /// # Panics
    /// From the 65th on.
    pub const fn one(lower: usize) -> LowerSet {
        assert!(lower < 64, "a layer has at most 64 lower devices");
        LowerSet(1 << lower)
    }

    /// Those of both.
    #[must_use]
    pub const fn and(self, other: LowerSet) -> LowerSet {
        LowerSet(self.0 | other.0)
    }

    /// Whether lower device `lower` is among them.
    pub fn has(self, lower: usize) -> bool {
        lower < 64 && self.0 >> lower & 1 != 0
    }

    /// The volumes of those that are below `io`.
    pub(super) fn volumes(self, io: &Io) -> Vec<VolumeId> {
        (0..io.lowers()).filter(|lower| self.has(*lower)).map(|lower| io.lower(lower)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_has_the_bytes_of_the_page() {
        let marks = SlotMarks::DIRTY.with(SlotMarks::PINNED);
        let entry = SlotEntry { key: 0x01_0203_0405, cursor: 0x0607, marks };
        let raw = SlotEntry::encode(Some(entry));
        assert_eq!(raw.to_le_bytes(), [0x06, 0x04, 0x03, 0x02, 0x01, 0x07, 0x06, 9]);
        assert_eq!(SlotEntry::decode(raw, u64::MAX), Some(Some(entry)));
        assert_eq!((SlotEntry::encode(None), SlotEntry::decode(0, 1)), (0, Some(None)));
        let bits = [SlotMarks::DIRTY, SlotMarks::INCOMING, SlotMarks::PART, SlotMarks::PINNED].map(SlotMarks::bits);
        assert_eq!(bits, [1, 2, 4, 8]);
    }

    #[test]
    fn what_no_esker_writes_is_no_entry() {
        assert_eq!(SlotEntry::decode(7, 7), Some(Some(SlotEntry::of(6))));
        for raw in [8, 1 << 40, 1 << 56, 7 | 16 << 56] {
            assert_eq!(SlotEntry::decode(raw, 7), None, "{raw:#x}");
        }
    }

    #[test]
    fn marks_and_masks_are_sets() {
        let marks = SlotMarks::DIRTY.with(SlotMarks::PART);
        assert!(marks.has(SlotMarks::PART) && !marks.has(SlotMarks::PART.with(SlotMarks::PINNED)));
        assert_eq!(marks.without(SlotMarks::DIRTY), SlotMarks::PART);
        let mut mask = Mask::first(70);
        mask.clear(3);
        mask.set(255);
        assert!(mask.has(69) && mask.has(255) && !mask.has(3) && !mask.has(70));
        assert_eq!((mask.count(), mask.quarters()[1]), (70, 63));
        let lowers = LowerSet::one(0).and(LowerSet::one(5));
        assert!(lowers.has(5) && !lowers.has(1) && !lowers.has(70));
    }
}
