//! The durable map of slots: which unit (a line, a page, an extent) lies in which slot of a lower device. Byte rows:
//! `docs/reference/formats/slot-map.md`.
//!
//! The map is an array *indexed by slot*. Free space is what no entry names, and a slot cannot have two owners. Changes
//! are made in memory at once, in groups that are durable together ([`SlotMap::set`]), and shared commits bring them to
//! the medium. Which slot a unit has, and when, is the caller's decision.
//!
//! Invariants: a record is durable before a cell of an image with its values is written. A slot is given out only when
//! the medium says that it is empty. After an unclean stop, every clean entry whose slot or home was written is
//! doubtful.
//!
//! Reading order: [`entry`] (what a slot holds), [`layout`] (where everything lies), [`head`], `journal`, `image` (the
//! format). Then `zones` (what a crash makes doubtful), `free` (which slots may be taken), `commit` (commits,
//! checkpoints), `open`, `recover`, [`check`].

pub mod check;
mod commit;
pub mod entry;
mod free;
pub mod head;
mod image;
mod journal;
pub mod layout;
mod open;
mod recover;
#[cfg(test)]
mod tests;
mod zones;

use std::cell::{Cell, RefCell};

use esker_block::{BioError, Latch, Limits};
use esker_framing::SuperblockError;
use esker_rt::Rt;

pub use entry::{LowerSet, Mask, SlotEntry, SlotMarks};
pub use layout::{CommitRule, Doubt, SlotKind, SlotLayout, SlotShape, Suspects, ZONES};

use crate::commit::GroupCommit;
use crate::turn::Turn;
use free::FreeSlots;
use image::{Table, mask_records};
use journal::{PER_SECTOR, Record, Waiting};
use zones::Zones;

/// Bytes of the owner in a head.
pub const NOTE_BYTES: usize = 128;

/// Why a map cannot be used. The texts of media go on a sentence that begins with the name of the lower device.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MapError {
    /// A lower device on which no map can lie.
    #[error(
        "has blocks of {block} bytes and an atomic unit of {atomic}; a map needs blocks of at most 4096 bytes and an atomic unit of 512"
    )]
    Lower {
        /// Its block in bytes.
        block: u32,
        /// Its atomic unit in bytes.
        atomic: u32,
    },
    /// A unit that cannot be.
    #[error("cannot have units of {unit} bytes; choose a power of two from {least} to 1 GiB")]
    Unit {
        /// What was asked for.
        unit: u64,
        /// The smallest that can be.
        least: u64,
    },
    /// Keys that do not fit in memory.
    #[error("cannot map {0} units, only 1 to 4294967294; choose a larger line")]
    Keys(u64),
    /// A journal that cannot be.
    #[error("cannot have a journal of twice {journal} bytes; choose a multiple of 4096 from {least} to 64 MiB")]
    Journal {
        /// What was asked for.
        journal: u64,
        /// The smallest that can be.
        least: u64,
    },
    /// Zones that do not fit in a head.
    #[error("cannot have {0} zones, only 1 to 30720")]
    Zones(u32),
    /// No room.
    #[error(
        "has {size} bytes, which is no room for a map and its slots of {unit} bytes; use a larger device or fewer slots"
    )]
    Small {
        /// Bytes of the lower device.
        size: u64,
        /// Bytes of a slot.
        unit: u64,
    },
    /// More slots than are counted.
    #[error("would have {0} slots, more than 4294967294; choose a larger line")]
    TooMany(u64),
    /// No head.
    #[error(transparent)]
    Superblock(#[from] SuperblockError),
    /// The medium of another layer.
    #[error("holds {0}, and no map of slots; if nothing there is needed, zero its first 8 KiB")]
    Medium(&'static str),
    /// The map of another kind of layer.
    #[error("holds the map of {found}, and not of {asked}; name the device that does")]
    Kind {
        /// What is there.
        found: &'static str,
        /// What was looked for.
        asked: &'static str,
    },
    /// Another geometry.
    #[error("holds a map of {slots} slots of {unit} bytes for {keys} units; write these values in the stack text")]
    Other {
        /// Bytes of a slot.
        unit: u64,
        /// Units that there are.
        keys: u64,
        /// Slots.
        slots: u32,
    },
    /// It has become smaller.
    #[error("has {is} bytes, and the map and its slots need {needed}")]
    Shrunk {
        /// Bytes that are there.
        is: u64,
        /// Bytes that should be.
        needed: u64,
    },
    /// The journal ends inside a block.
    #[error("has blocks of {0} bytes, and the map was in use on smaller ones; stop the layer on such a device first")]
    Blocks(u64),
    /// Something that was durable is damaged, and nothing older can serve.
    #[error("has a damaged {what} at byte {at}; restore it from a copy")]
    Damaged {
        /// The structure.
        what: &'static str,
        /// First byte.
        at: u64,
    },
    /// The journal has gone on under a newer head.
    #[error("has a journal that is newer than its head at byte {at}; restore it from a copy")]
    Stale {
        /// First byte of what is newer.
        at: u64,
    },
    /// Numbers that no esker writes, under a right checksum.
    #[error("has a sector of the journal at byte {at} with a record that is out of range; restore it from a copy")]
    Range {
        /// First byte.
        at: u64,
    },
    /// A lower device failed.
    #[error("cannot be used: {0}")]
    Io(#[from] BioError),
}

impl MapError {
    /// Whether what was durable is damaged.
    pub fn is_damage(&self) -> bool {
        let is_inside = matches!(self, MapError::Damaged { .. } | MapError::Stale { .. } | MapError::Range { .. });
        is_inside || matches!(self, MapError::Superblock(error) if error.is_damage())
    }
}

/// What a map was when it was opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Found {
    /// It was never used.
    Fresh,
    /// It was stopped.
    Clean {
        /// The owner's bytes.
        note: [u8; NOTE_BYTES],
    },
    /// It was not stopped.
    Unclean {
        /// The owner's bytes.
        note: [u8; NOTE_BYTES],
        /// Entries that were doubtful, and are dirty or given up now.
        suspects: u64,
        /// Records that were replayed.
        replayed: u64,
    },
}

/// What a map did since it was opened.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SlotCounts {
    /// Commits.
    pub commits: u64,
    /// Flushes of lower devices for them.
    pub flushes: u64,
    /// Writes with force unit access: journal and heads.
    pub forced: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Cells that they wrote.
    pub cells: u64,
}

/// Records on their way to the journal.
struct Log {
    /// Epoch of the head on the medium.
    epoch: u64,
    /// Epoch of the half to which records go: the same, or the next one during a checkpoint.
    half: u64,
    /// Number of the first sector of the half before.
    before: u64,
    /// Number of the first sector of this half.
    first: u64,
    /// Number of the next sector.
    next: u64,
    /// All sectors below are durable.
    durable: u64,
    waiting: Waiting,
    /// Number of the last group that left `waiting`.
    taken: u64,
    /// Number of the last group that the checkpoint under way needs.
    goal: u64,
    /// Lower devices to flush before anything that waits is written.
    after: LowerSet,
}

/// What the owner says about this run.
struct Session {
    note: [u8; NOTE_BYTES],
    is_begun: bool,
    is_clean: bool,
    /// Whether a head must say that all clean entries are doubtful.
    doubts_all: bool,
    /// What the opening left to mend.
    remains: Option<std::ops::Range<u64>>,
    damaged: Vec<u32>,
}

/// The map in use.
pub struct SlotMap {
    rt: Rt,
    lower: usize,
    set: u128,
    layout: SlotLayout,
    kind: SlotKind,
    doubt: Doubt,
    commit: CommitRule,
    /// Sectors, or cells, of a block of the lower device.
    unit: u64,
    /// Largest write in bytes.
    chunk: usize,
    table: RefCell<Table>,
    free: RefCell<FreeSlots>,
    zones: RefCell<Zones>,
    log: RefCell<Log>,
    session: RefCell<Session>,
    commits: GroupCommit,
    checkpoints: Turn,
    latch: Latch,
    counts: Cell<SlotCounts>,
}

impl SlotMap {
    /// Where everything would lie on a lower device.
    ///
    /// # Errors
    /// What does not fit, and what to choose instead.
    pub fn plan(shape: &SlotShape, lower: &Limits) -> Result<SlotLayout, MapError> {
        SlotLayout::plan(shape, lower)
    }

    /// Where everything lies.
    pub fn layout(&self) -> &SlotLayout {
        &self.layout
    }

    /// The number that was drawn when the map was made.
    pub fn id(&self) -> u128 {
        self.set
    }

    /// Slots.
    pub fn slots(&self) -> u32 {
        self.layout.slots
    }

    /// Slots with an entry.
    pub fn used(&self) -> u32 {
        self.table.borrow().used()
    }

    /// First byte of a slot on the lower device of the map.
    ///
    /// # Panics
    /// If it lies on another one.
    pub fn data_at(&self, slot: u32) -> u64 {
        self.layout.data_at(slot)
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        let tables = self.table.borrow().bytes() + self.free.borrow().bytes() + self.zones.borrow().bytes();
        tables + self.log.borrow().waiting.records() * size_of::<Record>()
    }

    /// What it did.
    pub fn counts(&self) -> SlotCounts {
        self.counts.get()
    }

    /// Refuses all changes after a failed commit, and says why.
    pub fn latch(&self) -> &Latch {
        &self.latch
    }

    /// The entry of a slot.
    pub fn get(&self, slot: u32) -> Option<SlotEntry> {
        self.table.borrow().get(slot)
    }

    /// Changes entries: at once in memory, and all or none of them with the next commit. `after` are the lower devices
    /// whose completed writes the changes rely on: a commit flushes them before it writes the records.
    ///
    /// A slot that is there in part for the first time has no page, or all of them if it was whole; see
    /// [`SlotMap::masked`].
    ///
    /// # Panics
    /// - Before [`SlotMap::begin`].
    /// - If an empty slot gets an entry and was not given out, or a used one gets another key.
    /// - If the group is larger than a sector of the journal, or changes were made for long after
    ///   [`SlotMap::is_full`].
    pub fn set(&self, group: &[(u32, Option<SlotEntry>)], after: LowerSet) {
        let mut records = Vec::with_capacity(group.len());
        for (slot, entry) in group {
            let before = self.get(*slot);
            if before == *entry {
                continue;
            }
            let is_part = |entry: Option<SlotEntry>| entry.is_some_and(|entry| entry.marks.has(SlotMarks::PART));
            records.push(Record::Set { slot: *slot, entry: *entry });
            match (before, entry) {
                (None, Some(_)) => assert!(self.free.borrow_mut().used(*slot), "slot {slot} was not given out"),
                (Some(old), Some(new)) => {
                    assert_eq!(old.key, new.key, "slot {slot} is given up before it is used anew")
                }
                (Some(_), None) => self.free.borrow_mut().give_up(*slot, self.commits.asked() + 1),
                (None, None) => {}
            }
            if is_part(*entry) && !is_part(before) {
                let mask = before.map_or(Mask::NONE, |_| Mask::first(self.pages()));
                records.extend(mask_records(*slot, &mask, self.layout.quarters()));
            }
        }
        self.push(&records, after);
    }

    /// The pages that are there, of a slot that is there in part.
    pub fn mask(&self, slot: u32) -> Option<Mask> {
        self.table.borrow().mask(slot)
    }

    /// Says which pages of a slot are there: the slot is there in part, or whole if all are. As [`SlotMap::set`]
    /// otherwise.
    ///
    /// # Panics
    /// As [`SlotMap::set`]; if the slot is empty, or so many are there in part that [`SlotMap::parts_left`] is 0.
    pub fn masked(&self, slot: u32, valid: &Mask, after: LowerSet) {
        let entry = self.get(slot).unwrap_or_else(|| panic!("slot {slot} is empty"));
        if *valid == Mask::first(self.pages()) {
            return self.set(&[(slot, Some(entry.without(SlotMarks::PART)))], after);
        }
        let part = entry.with(SlotMarks::PART);
        let before = self.mask(slot);
        let set = (part != entry).then_some(Record::Set { slot, entry: Some(part) });
        let old = before.as_ref().map(Mask::quarters);
        let masks = mask_records(slot, valid, self.layout.quarters());
        let changed = masks.enumerate().filter(|(at, _)| old.is_none_or(|old| old[*at] != valid.quarters()[*at]));
        let records: Vec<Record> = set.into_iter().chain(changed.map(|(_, record)| record)).collect();
        self.push(&records, after);
    }

    /// Slots that may yet be there in part.
    pub fn parts_left(&self) -> usize {
        self.layout.parts_max().saturating_sub(self.table.borrow().parts())
    }

    fn pages(&self) -> u64 {
        self.layout.pages().expect("slots of more than 256 pages are never there in part")
    }

    /// Applies a group, and lets it wait for a commit.
    fn push(&self, group: &[Record], after: LowerSet) {
        if group.is_empty() {
            return;
        }
        assert!(self.session.borrow().is_begun, "a map is begun before it changes");
        let (mut table, mut log) = (self.table.borrow_mut(), self.log.borrow_mut());
        group.iter().for_each(|record| table.apply(record));
        assert!(table.parts() <= self.layout.parts_max(), "the journal has no room for so many masks");
        log.waiting.push(group);
        assert!(
            log.waiting.records() <= 2 * self.waiting_max(),
            "changes wait for a commit, and the journal has no room"
        );
        log.after = log.after.and(after);
        self.commits.ask();
    }

    /// Records that may wait: with twice as many, masks and a checkpoint still find room in a half of the journal.
    fn waiting_max(&self) -> usize {
        (self.layout.sectors() / 8) as usize * PER_SECTOR
    }

    /// Whether so many changes wait that a commit must come before further ones.
    pub fn is_full(&self) -> bool {
        self.log.borrow().waiting.records() >= self.waiting_max()
    }

    /// Whether changes wait for a commit, or are on their way.
    pub fn has_pending(&self) -> bool {
        self.commits.durable() < self.commits.asked()
    }

    /// Whether clean entries of the slot's zone may be written, and their home: it is touched on the medium. Ask, call
    /// [`SlotMap::writing`] and send the write without waiting in between.
    pub fn trusts(&self, slot: u32) -> bool {
        self.doubt == Doubt::All || self.zones.borrow().is_touched(self.layout.zone_of(slot))
    }

    /// A write to the slot, or to the home of its unit, begins. Its zone does not go quiet before [`SlotMap::wrote`].
    pub fn writing(&self, slot: u32) {
        self.zones.borrow_mut().writing(self.layout.zone_of(slot));
    }

    /// A write to the slot, or to the home of its unit, has ended.
    pub fn wrote(&self, slot: u32) {
        self.zones.borrow_mut().wrote(self.layout.zone_of(slot));
    }

    /// Takes up to `want` free slots: those without entry, whose giving up is durable, and which do not rest.
    pub fn free(&self, want: usize) -> Vec<u32> {
        let table = self.table.borrow();
        self.free.borrow_mut().take(want, self.layout.slots, |slot| table.is_empty(slot))
    }

    /// Takes this slot, if it is free.
    pub fn take(&self, slot: u32) -> bool {
        let is_empty = self.table.borrow().is_empty(slot);
        self.free.borrow_mut().take_one(slot, is_empty)
    }

    /// A slot that was taken is not needed.
    ///
    /// # Panics
    /// If it was not taken, or has an entry.
    pub fn give_back(&self, slot: u32) {
        self.free.borrow_mut().give_back(slot);
    }

    /// A slot is not given out, even if it is empty on the medium: requests may still read from it.
    pub fn rest(&self, slot: u32) {
        self.free.borrow_mut().rest(slot);
    }

    /// Ends one [`SlotMap::rest`].
    ///
    /// # Panics
    /// Without one.
    pub fn rested(&self, slot: u32) {
        self.free.borrow_mut().rested(slot);
    }
}
