//! Where each extent lies, and which slots are free: the map in memory, without I/O.
//!
//! Slots of all ends are numbered through. The first place of an extent follows from its number: extents fill the ends
//! in their order, and each end keeps one slot spare. The durable map names an extent only when it has moved: an extent
//! without an entry lies in its first place. So a new tier writes nothing for its extents.

use std::collections::BTreeMap;

use esker_base::Bits;
use esker_block::split::{LowerAddress, LowerExtent};
use esker_layer_kit::slots::{SlotEntry, SlotMarks};

/// Bytes that a cursor of the map counts.
pub(crate) const CURSOR: u64 = 1024;
/// No slot.
const NONE: u32 = u32::MAX;

/// The slots of one end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct EndSlots {
    /// How many.
    pub(crate) slots: u32,
    /// First byte of the first one.
    pub(crate) data: u64,
}

/// The slots of all ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Places {
    ends: Vec<EndSlots>,
    /// Bytes of an extent.
    extent: u64,
}

impl Places {
    pub(crate) fn new(ends: Vec<EndSlots>, extent: u64) -> Places {
        Places { ends, extent }
    }

    /// How many ends there are.
    pub(crate) fn ends(&self) -> usize {
        self.ends.len()
    }

    /// Slots of an end.
    pub(crate) fn slots_of(&self, end: usize) -> u32 {
        self.ends[end].slots
    }

    /// Slots of all ends.
    pub(crate) fn slots(&self) -> u32 {
        self.ends.iter().map(|end| end.slots).sum()
    }

    /// Number of the first slot of an end.
    fn first_of(&self, end: usize) -> u32 {
        self.ends[..end].iter().map(|end| end.slots).sum()
    }

    /// The end on which a slot lies, and its number there.
    fn split(&self, slot: u32) -> (usize, u32) {
        let mut rest = slot;
        for (number, end) in self.ends.iter().enumerate() {
            if rest < end.slots {
                return (number, rest);
            }
            rest -= end.slots;
        }
        panic!("slot {slot} is on no end")
    }

    /// The end on which a slot lies.
    pub(crate) fn end_of(&self, slot: u32) -> usize {
        self.split(slot).0
    }

    /// First byte of a slot.
    pub(crate) fn address(&self, slot: u32) -> LowerAddress {
        let (lower, slot) = self.split(slot);
        LowerAddress { lower, at: self.ends[lower].data + u64::from(slot) * self.extent }
    }

    /// The slot in which an extent lies until it moves.
    pub(crate) fn first_place(&self, extent: u32) -> u32 {
        let (mut rest, mut first) = (extent, 0);
        for end in &self.ends {
            if rest < end.slots - 1 {
                return first + rest;
            }
            rest -= end.slots - 1;
            first += end.slots;
        }
        panic!("extent {extent} has no place")
    }
}

/// An extent whose first bytes lie in another slot than the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Split {
    /// The slot of its first bytes.
    pub(crate) next: u32,
    /// How many bytes these are.
    pub(crate) done: u64,
}

/// Where everything lies.
pub(crate) struct Placing {
    places: Places,
    /// The slot of each extent; of a split one, that of its last bytes.
    slot_of: Vec<u32>,
    split: BTreeMap<u32, Split>,
    /// Slots that hold something, are reserved, or cannot be written.
    used: Bits,
    /// Free slots of each end, and where the search for the next one begins.
    free: Vec<(u32, u32)>,
    /// Extents of each end.
    residents: Vec<u32>,
}

impl Placing {
    /// Finds where `extents` extents lie. `entry` gives the entry of a slot in the durable map.
    ///
    /// # Errors
    /// In words, what the map says that cannot be.
    pub(crate) fn of(
        places: Places,
        extents: u32,
        entry: impl Fn(u32) -> Option<SlotEntry>,
    ) -> Result<Placing, String> {
        let mut placing = Placing {
            slot_of: vec![NONE; extents as usize],
            split: BTreeMap::new(),
            used: Bits::new(places.slots() as usize),
            free: (0..places.ends()).map(|end| (places.slots_of(end), 0)).collect(),
            residents: vec![0; places.ends()],
            places,
        };
        for slot in 0..placing.places.slots() {
            if let Some(entry) = entry(slot) {
                placing.learn(slot, entry)?;
            }
        }
        for extent in 0..extents {
            if placing.slot_of[extent as usize] == NONE {
                let first = placing.places.first_place(extent);
                if placing.used.has(first as usize) {
                    return Err(format!("names no place of extent {extent}, and another one lies in its first place"));
                }
                placing.settle(extent, first);
            }
        }
        Ok(placing)
    }

    fn learn(&mut self, slot: u32, entry: SlotEntry) -> Result<(), String> {
        let extent = u32::try_from(entry.key).map_err(|_| format!("names extent {}", entry.key))?;
        let twice = || Err(format!("names two places of extent {extent}"));
        if entry.marks.has(SlotMarks::INCOMING) {
            let done = u64::from(entry.cursor) * CURSOR;
            if done == 0 || done >= self.places.extent {
                return Err(format!("names a place of extent {extent} for {done} of its bytes"));
            }
            self.mark_used(slot);
            return match self.split.insert(extent, Split { next: slot, done }) {
                None => Ok(()),
                Some(_) => twice(),
            };
        }
        match self.slot_of[extent as usize] {
            NONE => {
                self.settle(extent, slot);
                Ok(())
            }
            _ => twice(),
        }
    }

    fn settle(&mut self, extent: u32, slot: u32) {
        self.mark_used(slot);
        self.slot_of[extent as usize] = slot;
        self.residents[self.places.end_of(slot)] += 1;
    }

    fn mark_used(&mut self, slot: u32) {
        self.used.set(slot as usize);
        self.free[self.places.end_of(slot)].0 -= 1;
    }

    /// Extents.
    pub(crate) fn extents(&self) -> u32 {
        self.slot_of.len() as u32
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.slot_of.len() * size_of::<u32>() + self.used.len() / 8 + self.split.len() * size_of::<(u32, Split)>()
    }

    /// The slots of all ends.
    pub(crate) fn places(&self) -> &Places {
        &self.places
    }

    /// Where a byte of the volume lies, and how many behind it lie there too.
    pub(crate) fn locate(&self, at: u64) -> LowerExtent {
        let size = self.places.extent;
        let (extent, inside) = ((at / size) as u32, at % size);
        let (slot, end) = match self.split.get(&extent) {
            Some(split) if inside < split.done => (split.next, split.done),
            Some(_) | None => (self.slot_of[extent as usize], size),
        };
        LowerExtent { place: self.places.address(slot).plus(inside), len: end - inside }
    }

    /// The slot of an extent; of a split one, that of its last bytes.
    pub(crate) fn slot_of(&self, extent: u32) -> u32 {
        self.slot_of[extent as usize]
    }

    /// The end on which an extent lies; of a split one, that of its last bytes.
    pub(crate) fn end_of(&self, extent: u32) -> usize {
        self.places.end_of(self.slot_of(extent))
    }

    /// Where the first bytes of an extent lie, if it is split.
    pub(crate) fn split_of(&self, extent: u32) -> Option<Split> {
        self.split.get(&extent).copied()
    }

    /// All split extents.
    pub(crate) fn splits(&self) -> impl Iterator<Item = (u32, Split)> + '_ {
        self.split.iter().map(|(extent, split)| (*extent, *split))
    }

    /// Extents of an end.
    pub(crate) fn residents(&self, end: usize) -> u32 {
        self.residents[end]
    }

    /// Free slots of an end.
    pub(crate) fn free(&self, end: usize) -> u32 {
        self.free[end].0
    }

    /// Takes a free slot of an end that `may_take` agrees to.
    pub(crate) fn take(&mut self, end: usize, may_take: impl Fn(u32) -> bool) -> Option<u32> {
        let (first, slots) = (self.places.first_of(end), self.places.slots_of(end));
        let (free, hand) = self.free[end];
        if free == 0 {
            return None;
        }
        let order = (hand..slots).chain(0..hand).map(|slot| first + slot);
        let slot = order.into_iter().find(|slot| !self.used.has(*slot as usize) && may_take(*slot))?;
        self.mark_used(slot);
        self.free[end].1 = (slot - first + 1) % slots;
        Some(slot)
    }

    /// A slot holds nothing any more, and no request is at it.
    pub(crate) fn release(&mut self, slot: u32) {
        assert!(self.used.has(slot as usize), "slot {slot} is free already");
        self.used.clear(slot as usize);
        self.free[self.places.end_of(slot)].0 += 1;
    }

    /// The first `done` bytes of an extent lie in the slot `next` from now on.
    pub(crate) fn switch(&mut self, extent: u32, next: u32, done: u64) {
        if done < self.places.extent {
            self.split.insert(extent, Split { next, done });
            return;
        }
        self.split.remove(&extent);
        let before = std::mem::replace(&mut self.slot_of[extent as usize], next);
        self.residents[self.places.end_of(before)] -= 1;
        self.residents[self.places.end_of(next)] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXTENT: u64 = 8192;

    fn places() -> Places {
        let end = |slots, data| EndSlots { slots, data };
        Places::new(vec![end(3, 65_536), end(4, 8192), end(2, 16_384)], EXTENT)
    }

    fn placing(entries: &[(u32, SlotEntry)]) -> Result<Placing, String> {
        let entry = |slot| entries.iter().find(|(of, _)| *of == slot).map(|(_, entry)| *entry);
        Placing::of(places(), 6, entry)
    }

    fn at(placing: &Placing, byte: u64) -> (usize, u64, u64) {
        let LowerExtent { place, len } = placing.locate(byte);
        (place.lower, place.at, len)
    }

    #[test]
    fn extents_fill_the_ends_in_order_but_for_one_slot_each() {
        let places = places();
        assert_eq!(places.slots(), 9);
        assert_eq!([0, 1, 2, 3, 4, 5].map(|extent| places.first_place(extent)), [0, 1, 3, 4, 5, 7]);
        assert_eq!([0, 2, 3, 6, 7, 8].map(|slot| places.end_of(slot)), [0, 0, 1, 1, 2, 2]);
        let placing = placing(&[]).unwrap();
        assert_eq!((at(&placing, 0), at(&placing, 8193)), ((0, 65_536, 8192), (0, 73_729, 8191)));
        assert_eq!((at(&placing, 2 * EXTENT), at(&placing, 5 * EXTENT)), ((1, 8192, 8192), (2, 16_384, 8192)));
        assert_eq!([0, 1, 2].map(|end| (placing.residents(end), placing.free(end))), [(2, 1), (3, 1), (1, 1)]);
    }

    #[test]
    fn an_extent_that_moves_leaves_its_slot_when_all_of_it_is_away() {
        let mut placing = placing(&[]).unwrap();
        assert_eq!(placing.take(0, |_| false), None);
        let next = placing.take(2, |_| true).unwrap();
        assert_eq!((next, placing.free(2), placing.take(2, |_| true)), (8, 0, None));
        placing.switch(1, next, 2048);
        assert_eq!((at(&placing, EXTENT), at(&placing, EXTENT + 2048)), ((2, 24_576, 2048), (0, 75_776, 6144)));
        assert_eq!((placing.end_of(1), placing.residents(2)), (0, 1));
        placing.switch(1, next, EXTENT);
        placing.release(1);
        assert_eq!((placing.end_of(1), placing.residents(0), placing.residents(2), placing.free(0)), (2, 1, 2, 2));
        assert_eq!((at(&placing, EXTENT + 9), placing.split_of(1)), ((2, 24_585, 8183), None));
    }

    #[test]
    fn the_map_is_read_back_and_what_cannot_be_is_refused() {
        let (whole, part) = (SlotEntry::of(4), SlotEntry { cursor: 3, ..SlotEntry::of(4) }.with(SlotMarks::INCOMING));
        let found = placing(&[(2, whole), (8, part)]).unwrap();
        assert_eq!((found.slot_of(4), found.split_of(4)), (2, Some(Split { next: 8, done: 3072 })));
        assert_eq!([0, 1, 2].map(|end| found.free(end)), [0, 2, 0]);
        let why = |entries: &[(u32, SlotEntry)]| placing(entries).err().unwrap();
        assert!(why(&[(2, whole), (6, whole)]).contains("two places of extent 4"));
        assert!(why(&[(2, part), (6, part)]).contains("two places of extent 4"));
        assert!(why(&[(0, whole)]).contains("names no place of extent 0"));
        assert!(why(&[(2, SlotEntry { cursor: 8, ..part })]).contains("for 8192 of its bytes"));
    }
}
