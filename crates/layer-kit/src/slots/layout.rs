//! Where everything lies on the lower device: two heads, two halves of the journal, two images in cells, then slots.
//!
//! Byte rows: `docs/reference/formats/slot-map.md`.

use esker_base::ByteRange;
use esker_block::Limits;
use esker_framing::SLOT as HEAD;
use esker_framing::cell::{CELL, CELLS, PAGE, PAYLOAD};

use super::MapError;
use super::entry::{PART_PAGE, PART_PAGES_MAX, PER_QUARTER};
use super::head::ZONES_MAX;
use super::journal::{PER_SECTOR, SECTOR};

/// Bytes of the two heads.
pub(super) const HEADS: u64 = 2 * HEAD as u64;
/// Bytes of an entry.
pub(super) const ENTRY: usize = 8;
/// Entries of a cell.
pub(super) const PER_CELL: u32 = (PAYLOAD / ENTRY) as u32;
/// Smallest and largest unit in bytes.
const UNIT: (u64, u64) = (512, 1 << 30);
/// Smallest and largest half of the journal in bytes.
const JOURNAL: (u64, u64) = (PAGE as u64, 1 << 26);
/// Sectors of a half at least, in blocks of the lower device: so that a checkpoint is rarer than a commit.
const COMMITS_MIN: u64 = 8;

/// Which kind of layer a map belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SlotKind {
    /// A cache of lines.
    Cache,
    /// A tier of extents.
    Tier,
    /// An area of pages that are read together.
    Reorg,
    /// A store that lets home rest.
    Spindown,
}

impl SlotKind {
    pub(super) const ALL: [SlotKind; 4] = [SlotKind::Cache, SlotKind::Tier, SlotKind::Reorg, SlotKind::Spindown];

    /// What a user calls it, with its article.
    pub fn named(self) -> &'static str {
        match self {
            SlotKind::Cache => "a cache",
            SlotKind::Tier => "a tier",
            SlotKind::Reorg => "a reorganised area",
            SlotKind::Spindown => "a store of `spindown`",
        }
    }

    pub(super) fn number(self) -> u8 {
        match self {
            SlotKind::Cache => 1,
            SlotKind::Tier => 2,
            SlotKind::Reorg => 3,
            SlotKind::Spindown => 4,
        }
    }
}

/// Which clean entries an unclean stop makes doubtful.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Doubt {
    /// Those of zones that were touched.
    Zones,
    /// All. Nothing has to be touched then.
    All,
}

/// What becomes of a doubtful entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Suspects {
    /// It counts as dirty: the slot is written to home once more.
    Dirty,
    /// It is given up: home has the newest bytes.
    Drop,
}

/// How changes share commits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CommitRule {
    /// All changes that wait.
    Group,
    /// One change a commit: for comparison.
    Each,
}

/// What a layer asks of its map.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SlotShape {
    /// Which kind of layer it is.
    pub kind: SlotKind,
    /// Bytes of a unit and of a slot, a power of two.
    pub unit: u64,
    /// Units that there are: keys are smaller.
    pub keys: u64,
    /// Slots; none for all that fit. Those of a tier go on in its other lower devices.
    pub slots: Option<u64>,
    /// Bytes of a half of the journal, whole pages of 4 KiB.
    pub journal: u64,
    /// Zones of slots, at most.
    pub zones: u32,
    /// Which entries an unclean stop makes doubtful.
    pub doubt: Doubt,
    /// What becomes of those.
    pub suspects: Suspects,
    /// How changes share commits.
    pub commit: CommitRule,
}

/// Zones of a map if nothing else is said.
pub const ZONES: u32 = 4096;

/// Where everything lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotLayout {
    /// Bytes of a unit.
    pub unit: u64,
    /// Units that there are.
    pub keys: u64,
    /// Slots.
    pub slots: u32,
    /// Slots that lie on this lower device; the others of a tier lie elsewhere.
    pub here: u32,
    /// Bytes of a half of the journal.
    pub journal: u64,
    /// Zones.
    pub zones: u32,
}

impl SlotLayout {
    /// The map of `shape` on a lower device.
    ///
    /// # Errors
    /// What does not fit, and what to choose instead.
    pub(super) fn plan(shape: &SlotShape, lower: &Limits) -> Result<SlotLayout, MapError> {
        check_lower(lower)?;
        let block = u64::from(lower.block).max(UNIT.0);
        if !shape.unit.is_power_of_two() || !(block..=UNIT.1).contains(&shape.unit) {
            return Err(MapError::Unit { unit: shape.unit, least: block });
        }
        if shape.keys == 0 || shape.keys >= u64::from(u32::MAX) {
            return Err(MapError::Keys(shape.keys));
        }
        let least = (COMMITS_MIN * block).max(JOURNAL.0);
        if !shape.journal.is_multiple_of(PAGE as u64) || !(least..=JOURNAL.1).contains(&shape.journal) {
            return Err(MapError::Journal { journal: shape.journal, least });
        }
        if shape.zones == 0 || shape.zones as usize > ZONES_MAX {
            return Err(MapError::Zones(shape.zones));
        }
        SlotLayout::fitted(shape, lower.size)
    }

    fn fitted(shape: &SlotShape, size: u64) -> Result<SlotLayout, MapError> {
        let too_many = |slots: u64| MapError::TooMany(slots);
        let with = |slots: u64, here: u64| -> Result<SlotLayout, MapError> {
            let small = |slots: u64| u32::try_from(slots).ok().filter(|slots| *slots < u32::MAX);
            let (slots, here) = (small(slots).ok_or(too_many(slots))?, small(here).ok_or(too_many(here))?);
            let SlotShape { unit, keys, journal, .. } = *shape;
            Ok(SlotLayout { unit, keys, slots, here, journal, zones: shape.zones.min(slots.max(1)) })
        };
        let small = || MapError::Small { size, unit: shape.unit };
        let room = |layout: &SlotLayout| size.checked_sub(layout.data()).map(|left| left / shape.unit);
        let Some(slots) = shape.slots else {
            // The largest number of slots whose map leaves room for them.
            let (mut low, mut high) = (0, (size / shape.unit).min(u64::from(u32::MAX)));
            while low < high {
                let middle = low + (high - low).div_ceil(2);
                let fits = with(middle, middle).is_ok_and(|layout| room(&layout).is_some_and(|room| room >= middle));
                if fits { low = middle } else { high = middle - 1 }
            }
            return if low == 0 { Err(small()) } else { with(low, low) };
        };
        let room = room(&with(slots, 0)?).unwrap_or(0);
        match slots {
            0 => Err(small()),
            _ if room == 0 || room < slots && shape.kind != SlotKind::Tier => Err(small()),
            slots => with(slots, slots.min(room)),
        }
    }

    /// Cells of an image.
    pub fn cells(&self) -> u32 {
        self.slots.div_ceil(PER_CELL)
    }

    /// Bytes of an image: whole pages of eight cells.
    pub(super) fn image_len(&self) -> u64 {
        u64::from(self.cells().div_ceil(CELLS as u32)) * PAGE as u64
    }

    /// First byte of the half of the journal that `epoch` writes.
    pub(super) fn half_at(&self, epoch: u64) -> u64 {
        HEADS + epoch % 2 * self.journal
    }

    /// Sectors of a half.
    pub(super) fn sectors(&self) -> u64 {
        self.journal / SECTOR as u64
    }

    /// First byte of the image of `epoch`.
    pub(super) fn image_at(&self, epoch: u64) -> u64 {
        HEADS + 2 * self.journal + epoch % 2 * self.image_len()
    }

    /// First byte of a cell of the image of `epoch`.
    pub(super) fn cell_at(&self, epoch: u64, cell: u32) -> u64 {
        self.image_at(epoch) + u64::from(cell) * CELL as u64
    }

    /// First byte of the slots.
    pub fn data(&self) -> u64 {
        (HEADS + 2 * (self.journal + self.image_len())).next_multiple_of(self.unit.max(PAGE as u64))
    }

    /// First byte of a slot of this lower device.
    ///
    /// # Panics
    /// If it lies elsewhere.
    pub fn data_at(&self, slot: u32) -> u64 {
        assert!(slot < self.here, "slot {slot} of {} is not on this device", self.here);
        self.data() + u64::from(slot) * self.unit
    }

    /// The bytes of the map itself: everything before the slots.
    pub fn map(&self) -> ByteRange {
        ByteRange::new(0, self.data()).expect("it begins at 0")
    }

    /// First byte after the slots of this lower device; larger than any device if it does not fit in 64 bits.
    pub fn end(&self) -> u64 {
        let end = u128::from(self.data()) + u128::from(self.here) * u128::from(self.unit);
        u64::try_from(end).unwrap_or(u64::MAX)
    }

    /// Slots of a zone; the last one may have fewer.
    fn zone_slots(&self) -> u32 {
        self.slots.div_ceil(self.zones)
    }

    /// The zone of a slot.
    pub fn zone_of(&self, slot: u32) -> u32 {
        slot / self.zone_slots()
    }

    /// Pages of a slot that a mask tells apart; none if there are too many.
    pub fn pages(&self) -> Option<u64> {
        let pages = self.unit.div_ceil(PART_PAGE);
        (pages <= PART_PAGES_MAX).then_some(pages)
    }

    /// Records that the mask of a slot takes.
    pub(super) fn quarters(&self) -> u8 {
        self.pages().map_or(0, |pages| pages.div_ceil(PER_QUARTER) as u8)
    }

    /// Slots that may be there in part at once: their masks fill a quarter of a half of the journal.
    pub fn parts_max(&self) -> usize {
        match usize::from(self.quarters()) {
            0 => 0,
            quarters => (self.sectors() / 4) as usize * (PER_SECTOR / quarters),
        }
    }

    /// Whether a head can say so, and if not, which field is out of range.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        let journal = JOURNAL.0..=JOURNAL.1;
        let rules = [
            ("unit", self.unit.is_power_of_two() && (UNIT.0..=UNIT.1).contains(&self.unit)),
            ("number of units", (1..u64::from(u32::MAX)).contains(&self.keys)),
            ("number of slots", (1..u32::MAX).contains(&self.slots) && (1..=self.slots).contains(&self.here)),
            ("journal", journal.contains(&self.journal) && self.journal.is_multiple_of(PAGE as u64)),
            ("number of zones", (1..=ZONES_MAX as u32).contains(&self.zones) && self.zones <= self.slots),
        ];
        rules.iter().find(|(_, holds)| !holds).map_or(Ok(()), |(what, _)| Err(*what))
    }

    /// Compares a map that was found with what is asked for. Its journal and its zones are as they were made.
    pub(super) fn check_asked(&self, kind: SlotKind, shape: &SlotShape) -> Result<(), MapError> {
        if kind != shape.kind {
            return Err(MapError::Kind { found: kind.named(), asked: shape.kind.named() });
        }
        let is_asked = (self.unit, self.keys) == (shape.unit, shape.keys);
        match is_asked && shape.slots.is_none_or(|slots| slots == u64::from(self.slots)) {
            true => Ok(()),
            false => Err(MapError::Other { unit: self.unit, keys: self.keys, slots: self.slots }),
        }
    }
}

/// Whether a map can lie on a lower device.
pub(super) fn check_lower(lower: &Limits) -> Result<(), MapError> {
    let fits = lower.block as usize <= PAGE && lower.atomic as usize >= SECTOR && lower.transfer_max as usize >= PAGE;
    if fits { Ok(()) } else { Err(MapError::Lower { block: lower.block, atomic: lower.atomic }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_that_of_the_page() {
        let layout = SlotLayout { unit: 65_536, keys: 900, slots: 600, here: 500, journal: 8192, zones: 7 };
        assert_eq!((layout.half_at(4), layout.half_at(5)), (8192, 16_384));
        assert_eq!((layout.cells(), layout.image_len()), (10, 8192));
        assert_eq!((layout.image_at(0), layout.cell_at(3, 2)), (24_576, 32_768 + 1024));
        assert_eq!((layout.data(), layout.data_at(3), layout.end()), (65_536, 4 * 65_536, 501 * 65_536));
        assert_eq!(
            (layout.map().end(), layout.zone_of(85), layout.zone_of(86), layout.zone_of(599)),
            (65_536, 0, 1, 6)
        );
        assert_eq!((layout.pages(), layout.quarters(), layout.parts_max()), (Some(16), 1, 4 * 28));
        let wide = SlotLayout { unit: 1 << 30, ..layout };
        assert_eq!((wide.pages(), wide.parts_max(), wide.check()), (None, 0, Ok(())));
    }
}
