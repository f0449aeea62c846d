//! The entries in memory, and the cells of the two images on the medium.
//!
//! A checkpoint writes the cells as they were when it began, because their later changes are in the next half of the
//! journal. Where an entry of such a cell changes before the cell is written, the cell is saved first.

#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]

use std::collections::BTreeMap;

use esker_base::Bits;
use esker_framing::cell::{CELL, CELLS, PAYLOAD, is_sound, seal};

use super::entry::{Mask, SlotEntry, SlotMarks};
use super::journal::Record;
use super::layout::{ENTRY, PER_CELL, SlotLayout};

/// The payload of a cell.
type Payload = [u8; PAYLOAD];

/// The entries of all slots.
pub(super) struct Table {
    layout: SlotLayout,
    /// Keys plus one; 0 for an empty slot.
    keys: Vec<u32>,
    marks: Vec<u8>,
    /// Those that are not 0.
    cursors: BTreeMap<u32, u16>,
    /// Masks of the slots that are there in part.
    masks: BTreeMap<u32, Mask>,
    used: u32,
    /// For each image, the cells that have changed since it was written.
    changed: [Bits; 2],
    checkpoint: Option<Checkpoint>,
}

/// What is still to write.
struct Checkpoint {
    cells: Bits,
    /// Cells that have changed since it began, as they were.
    saved: BTreeMap<u32, Payload>,
}

impl Table {
    /// Without entries; both images are as empty.
    pub(super) fn new(layout: SlotLayout) -> Table {
        let (slots, cells) = (layout.slots as usize, padded(&layout));
        Table {
            layout,
            keys: vec![0; slots],
            marks: vec![0; slots],
            cursors: BTreeMap::new(),
            masks: BTreeMap::new(),
            used: 0,
            changed: [Bits::new(cells), Bits::new(cells)],
            checkpoint: None,
        }
    }

    pub(super) fn layout(&self) -> &SlotLayout {
        &self.layout
    }

    /// Slots with an entry.
    pub(super) fn used(&self) -> u32 {
        self.used
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        let each = self.keys.len() * (size_of::<u32>() + size_of::<u8>());
        each + self.changed[0].len() / 4 + self.masks.len() * 64 + self.cursors.len() * 16
    }

    pub(super) fn get(&self, slot: u32) -> Option<SlotEntry> {
        let at = slot as usize;
        let key = u64::from(self.keys[at].checked_sub(1)?);
        let cursor = self.cursors.get(&slot).copied().unwrap_or(0);
        let marks = SlotMarks::of(self.marks[at]).expect("marks were checked when they were put here");
        Some(SlotEntry { key, cursor, marks })
    }

    pub(super) fn is_empty(&self, slot: u32) -> bool {
        self.keys[slot as usize] == 0
    }

    /// The pages that are there, of a slot that is there in part.
    pub(super) fn mask(&self, slot: u32) -> Option<Mask> {
        self.masks.get(&slot).copied()
    }

    /// Slots that are there in part.
    pub(super) fn parts(&self) -> usize {
        self.masks.len()
    }

    /// The records that say all masks.
    pub(super) fn masks(&self) -> impl Iterator<Item = Vec<Record>> {
        self.masks.iter().map(|(slot, mask)| mask_records(*slot, mask, self.layout.quarters()).collect())
    }

    /// Puts a record into the table. Those of zones change nothing here.
    pub(super) fn apply(&mut self, record: &Record) {
        match *record {
            Record::Set { slot, entry } => self.put(slot, entry),
            Record::Mask { slot, quarter, pages } => {
                if let Some(mask) = self.masks.get_mut(&slot) {
                    mask.set_quarter(quarter, pages);
                }
            }
            Record::Touch { .. } | Record::Quiet { .. } => {}
        }
    }

    /// Gives a slot an entry, or none. A mask stays as long as the slot is there in part.
    fn put(&mut self, slot: u32, entry: Option<SlotEntry>) {
        if self.get(slot) != entry {
            self.change(slot);
        }
        self.load(slot, entry);
    }

    /// The same without a note that the cell changes: what an image says.
    fn load(&mut self, slot: u32, entry: Option<SlotEntry>) {
        let at = slot as usize;
        self.used -= u32::from(self.keys[at] != 0);
        self.used += u32::from(entry.is_some());
        let SlotEntry { key, cursor, marks } = entry.unwrap_or(SlotEntry::of(0));
        let key = u32::try_from(key).ok().and_then(|key| key.checked_add(1)).expect("keys are limited to 32 bits");
        self.keys[at] = if entry.is_some() { key } else { 0 };
        self.marks[at] = marks.bits();
        match cursor {
            0 => self.cursors.remove(&slot),
            cursor => self.cursors.insert(slot, cursor),
        };
        match marks.has(SlotMarks::PART) {
            true => {
                self.masks.entry(slot).or_default();
            }
            false => {
                self.masks.remove(&slot);
            }
        }
    }

    /// Both images lack what the cell of a slot holds from now on.
    fn change(&mut self, slot: u32) {
        let cell = slot / PER_CELL;
        let is_awaited =
            |checkpoint: &Checkpoint| checkpoint.cells.has(cell as usize) && !checkpoint.saved.contains_key(&cell);
        if self.checkpoint.as_ref().is_some_and(is_awaited) {
            let payload = self.payload(cell);
            self.checkpoint.iter_mut().for_each(|checkpoint| checkpoint.saved.extend([(cell, payload)]));
        }
        self.changed.iter_mut().for_each(|cells| cells.set(cell as usize));
    }

    /// Whether no slot of a cell has an entry.
    pub(super) fn is_unused(&self, cell: u32) -> bool {
        self.slots_of(cell).all(|slot| self.is_empty(slot))
    }

    /// The image of `epoch` lacks what a cell holds.
    pub(super) fn change_cell(&mut self, epoch: u64, cell: u32) {
        self.changed[image(epoch)].set(cell as usize);
    }

    /// A checkpoint into the image of `epoch` begins. It writes whole units of `unit` cells.
    pub(super) fn begin_checkpoint(&mut self, epoch: u64, unit: usize) {
        let changed = std::mem::replace(&mut self.changed[image(epoch)], Bits::new(padded(&self.layout)));
        let mut cells = Bits::new(padded(&self.layout));
        changed.iter().for_each(|cell| cells.set_range(cell / unit * unit..(cell / unit + 1) * unit));
        self.checkpoint = Some(Checkpoint { cells, saved: BTreeMap::new() });
    }

    /// The numbers of the cells that the checkpoint has to write.
    pub(super) fn checkpoint_cells(&self) -> Vec<u32> {
        let cells = self.checkpoint.iter().flat_map(|checkpoint| checkpoint.cells.iter());
        cells.map(|cell| u32::try_from(cell).expect("cells are fewer than slots")).collect()
    }

    /// The sealed bytes of a run of cells of the checkpoint into the image of `epoch`; they are its no more.
    pub(super) fn take_cells(&mut self, set: u128, epoch: u64, cells: &[u32]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(cells.len() * CELL);
        for cell in cells {
            let checkpoint = self.checkpoint.as_mut().expect("a checkpoint is under way");
            checkpoint.cells.clear(*cell as usize);
            let saved = checkpoint.saved.remove(cell);
            bytes.extend(self.sealed(set, epoch, *cell, saved));
        }
        bytes
    }

    /// The bytes of a cell of the image of `epoch` as it is now, or as it was `saved`; zeroes behind the last cell.
    pub(super) fn sealed(&self, set: u128, epoch: u64, cell: u32, saved: Option<Payload>) -> [u8; CELL] {
        let mut bytes = [0; CELL];
        if cell >= self.layout.cells() {
            return bytes;
        }
        bytes[..PAYLOAD].copy_from_slice(&saved.unwrap_or_else(|| self.payload(cell)));
        seal(set, self.layout.cell_at(epoch, cell), &mut bytes);
        bytes
    }

    pub(super) fn end_checkpoint(&mut self) {
        let ended = self.checkpoint.take();
        assert!(
            ended.is_some_and(|checkpoint| checkpoint.cells.is_empty()),
            "a checkpoint ended before it was written"
        );
    }

    fn slots_of(&self, cell: u32) -> std::ops::Range<u32> {
        let first = cell * PER_CELL;
        first..first.saturating_add(PER_CELL).min(self.layout.slots)
    }

    fn payload(&self, cell: u32) -> Payload {
        let mut payload = [0; PAYLOAD];
        for (bytes, slot) in payload.chunks_exact_mut(ENTRY).zip(self.slots_of(cell)) {
            bytes.copy_from_slice(&SlotEntry::encode(self.get(slot)).to_le_bytes());
        }
        payload
    }

    /// Loads a cell of the image of `epoch`: whether it is as it was sealed there, and holds what an esker writes.
    pub(super) fn load_cell(&mut self, set: u128, epoch: u64, cell: u32, bytes: &[u8]) -> bool {
        if !is_sound(set, self.layout.cell_at(epoch, cell), bytes) {
            return false;
        }
        let slots = self.slots_of(cell);
        let (used, rest) = bytes[..PAYLOAD].split_at(slots.len() * ENTRY);
        let mut entries = Vec::with_capacity(slots.len());
        for raw in used.chunks_exact(ENTRY) {
            let raw = u64::from_le_bytes(raw.try_into().expect("eight bytes"));
            let Some(entry) = SlotEntry::decode(raw, self.layout.keys) else { return false };
            let is_part = entry.is_some_and(|entry| entry.marks.has(SlotMarks::PART));
            if is_part && self.layout.pages().is_none() {
                return false;
            }
            entries.push(entry);
        }
        slots.zip(entries).for_each(|(slot, entry)| self.load(slot, entry));
        rest.iter().all(|byte| *byte == 0)
    }
}

/// The records of a mask.
pub(super) fn mask_records(slot: u32, mask: &Mask, quarters: u8) -> impl Iterator<Item = Record> + use<> {
    let pages = *mask.quarters();
    (0..quarters).map(move |quarter| Record::Mask { slot, quarter, pages: pages[usize::from(quarter)] })
}

/// Cells of an image, in whole pages.
fn padded(layout: &SlotLayout) -> usize {
    (layout.cells() as usize).next_multiple_of(CELLS)
}

fn image(epoch: u64) -> usize {
    usize::from(epoch % 2 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: SlotLayout = SlotLayout { unit: 8192, keys: 500, slots: 200, here: 200, journal: 4096, zones: 4 };

    fn set(table: &mut Table, slot: u32, key: u64) {
        table.apply(&Record::Set { slot, entry: Some(SlotEntry::of(key)) });
    }

    #[test]
    fn a_checkpoint_writes_the_cells_as_they_were_when_it_began() {
        let mut table = Table::new(LAYOUT);
        set(&mut table, 0, 7);
        set(&mut table, 63, 8);
        table.begin_checkpoint(2, 1);
        assert_eq!(table.checkpoint_cells(), [0, 1]);
        set(&mut table, 1, 9);
        let mut read = Table::new(LAYOUT);
        let bytes = table.take_cells(5, 2, &[0, 1]);
        for cell in 0..2 {
            assert!(read.load_cell(5, 2, cell, &bytes[cell as usize * CELL..][..CELL]));
        }
        table.end_checkpoint();
        assert_eq!([0, 1, 63].map(|slot| read.get(slot).map(|entry| entry.key)), [Some(7), None, Some(8)]);
        // The change since then is the next checkpoint's, into either image.
        table.begin_checkpoint(3, 2);
        assert_eq!(table.checkpoint_cells(), [0, 1]);
        table.take_cells(5, 3, &[0, 1]);
        table.end_checkpoint();
        table.begin_checkpoint(4, 1);
        assert_eq!(table.checkpoint_cells(), [0]);
    }

    #[test]
    fn a_cell_of_another_image_place_or_range_is_refused() {
        let mut table = Table::new(LAYOUT);
        (0..200).for_each(|slot| set(&mut table, slot, u64::from(slot) * 2));
        let bytes = table.sealed(5, 2, 1, None);
        let loads = |set, epoch, cell, bytes: &[u8]| Table::new(LAYOUT).load_cell(set, epoch, cell, bytes);
        assert!(loads(5, 2, 1, &bytes) && loads(5, 4, 1, &bytes));
        assert!(!loads(6, 2, 1, &bytes) && !loads(5, 3, 1, &bytes) && !loads(5, 2, 2, &bytes));
        let mut far = bytes;
        far[0..8].copy_from_slice(&501u64.to_le_bytes());
        seal(5, LAYOUT.cell_at(2, 1), &mut far);
        assert!(!loads(5, 2, 1, &far));
        let mut behind = table.sealed(5, 2, 3, None);
        behind[11 * ENTRY] = 1;
        seal(5, LAYOUT.cell_at(2, 3), &mut behind);
        assert!(!loads(5, 2, 3, &behind));
    }

    #[test]
    fn masks_live_as_long_as_their_slot_is_there_in_part() {
        let mut table = Table::new(LAYOUT);
        let part = SlotEntry { cursor: 4, ..SlotEntry::of(3).with(SlotMarks::PART) };
        table.apply(&Record::Mask { slot: 9, quarter: 0, pages: 1 });
        table.apply(&Record::Set { slot: 9, entry: Some(part) });
        assert_eq!((table.get(9), table.mask(9), table.used()), (Some(part), Some(Mask::NONE), 1));
        table.apply(&Record::Mask { slot: 9, quarter: 0, pages: 2 });
        table.apply(&Record::Set { slot: 9, entry: Some(part.with(SlotMarks::DIRTY)) });
        assert_eq!(table.masks().flatten().collect::<Vec<_>>(), [Record::Mask { slot: 9, quarter: 0, pages: 2 }]);
        table.apply(&Record::Set { slot: 9, entry: None });
        assert_eq!((table.get(9), table.mask(9), table.parts(), table.used()), (None, None, 0, 0));
    }
}
