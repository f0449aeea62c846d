//! The catalogue: which volumes there are, and where in the logical space each of them lies.
//!
//! It lies at the end of the logical space of its own volume: one block that says what it is, then one block for each
//! entry. Byte rows and trust: the format's page. A changed entry is written to a block of the staging area first. One
//! range vector moves it to its place and carries out its change of the volumes, so that there is no state in between.
//! An entry that goes takes nothing but a deletion, which a full volume has room for.
//!
//! Invariant: the ranges of entries never overlap.

#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use esker_framing::{
    Features, HEADER, Header, Newest, PAGE_HEADER, Page, PageId, Superblock, SuperblockError, seal, unseal,
};
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::gaps::Gaps;
use crate::remap::LOGICAL_BLOCKS;

/// First logical block of the catalogue, whose head it holds. Volumes lie before it.
pub const CATALOGUE: u64 = LOGICAL_BLOCKS - (1 << 32);
/// First logical block of the staging area.
pub const STAGING: u64 = CATALOGUE + (1 << 31);
/// Longest name.
pub const NAME_MAX: usize = 64;
/// Logical bytes that a volume is given room for at least: it can grow to them where it is.
const CAPACITY_MIN: u64 = 1 << 40;
/// What the page of an entry holds: no other page or record of a volume has this kind.
const ENTRY: u16 = 3;
/// Flags of an entry. Those of `COPIED` need the [`RawCopy`] behind it.
const SNAPSHOT: u8 = 1;
const HELD: u8 = 2;
const HAS_CONTENT: u8 = 4;
const RECEIVING: u8 = 8;
const COPIED: u8 = HAS_CONTENT | RECEIVING;

/// One volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Never used for another one: the number of the record after which it was made.
    pub id: u64,
    /// The one that it was cloned from; 0 if it was made empty.
    pub parent: u64,
    /// First logical block.
    pub start: u64,
    /// Blocks.
    pub blocks: u64,
    /// Blocks that are kept free of others, its own included.
    pub capacity: u64,
    /// A snapshot: never changes.
    pub read_only: bool,
    /// A snapshot that no order deletes.
    pub held: bool,
    /// Number of its content, drawn when a snapshot is made. A snapshot that was received elsewhere has the same one. 0
    /// for a volume that changes, and for a snapshot of an earlier esker.
    pub content: u128,
    /// While a snapshot is received here: the leading bytes that are durable.
    pub received: Option<u64>,
    /// What it is called.
    pub name: String,
}

/// Why bytes are no block of a catalogue.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CatalogueError {
    /// Damaged, or something else.
    #[error("block {0} of the catalogue of volumes is damaged")]
    Damaged(u64),
    /// The first block is not what this esker reads.
    #[error("the first block of the catalogue of volumes {0}")]
    SegmentHeader(#[from] SuperblockError),
    /// Numbers that no esker writes, under a right checksum.
    #[error("block {0} of the catalogue of volumes: {1}")]
    Range(u64, &'static str),
    /// There is data and no catalogue.
    #[error("it holds one volume without a name, not named ones; use kind `logvol`, or another medium")]
    Absent,
    /// A catalogue where none is wanted.
    #[error("it holds named volumes; use kind `thin`, which knows their names")]
    Present,
}

/// The first block of the catalogue. It is written once, so it has one slot, and its generation is 0.
#[derive(Clone, PartialEq, Eq, Debug)]
struct SegmentHeader {
    /// The volume that the catalogue lies in.
    volume: u128,
}

impl Superblock for SegmentHeader {
    const MAGIC: [u8; 8] = *b"\x89EskThn\n";
    const VERSION: u16 = 2;
    /// There is no other slot.
    const DETECTS_STALE: bool = false;
    const NAME: &'static str = "a catalogue of volumes";
    const LENGTHS: RangeInclusive<usize> = HEADER..=HEADER;

    fn header(&self) -> Header {
        Header { id: self.volume, generation: 0, features: Features::NONE }
    }

    fn encode_body(&self) -> Vec<u8> {
        Vec::new()
    }

    fn decode_body(header: &Header, _: &[u8]) -> Result<SegmentHeader, &'static str> {
        if header.generation == 0 { Ok(SegmentHeader { volume: header.id }) } else { Err("generation") }
    }
}

/// The first block of the catalogue.
pub fn head(block: usize, volume: u128) -> Vec<u8> {
    let mut bytes = seal(&SegmentHeader { volume });
    bytes.resize(block, 0);
    bytes
}

/// Whether bytes are the first block of a catalogue, sound or damaged.
pub fn is_head(bytes: &[u8]) -> bool {
    !unseal::<SegmentHeader>(bytes).is_err_and(|error| error.is_unmarked())
}

/// Looks at the first block of the catalogue of `volume`.
///
/// # Errors
/// [`CatalogueError`].
pub fn check_head(bytes: &[u8], volume: u128) -> Result<(), CatalogueError> {
    match unseal(bytes).and_then(Newest::writable)? {
        SegmentHeader { volume: found } if found == volume => Ok(()),
        SegmentHeader { .. } => Err(CatalogueError::Range(0, "it is another volume's")),
    }
}

/// The payload of an entry's page.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawEntry {
    flags: u8,
    name_len: u8,
    reserved: [u8; 6],
    id: U64,
    parent: U64,
    start: U64,
    blocks: U64,
    capacity: U64,
    name: [u8; NAME_MAX],
}

/// What follows in the payload of an entry of a snapshot that can be sent, or that is received.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawCopy {
    content: [u8; 16],
    received: U64,
    reserved: U64,
}

impl Entry {
    /// A volume that changes: `blocks` from `start` on, in room for `capacity`.
    pub fn volume(name: &str, id: u64, start: u64, (blocks, capacity): (u64, u64)) -> Entry {
        let name = name.to_string();
        Entry {
            id,
            parent: 0,
            start,
            blocks,
            capacity,
            read_only: false,
            held: false,
            content: 0,
            received: None,
            name,
        }
    }

    /// The blocks that it has.
    pub fn range(&self) -> std::ops::Range<u64> {
        self.start..self.start + self.blocks
    }

    /// The blocks that are kept free of others.
    fn room(&self) -> std::ops::Range<u64> {
        self.start..self.start + self.capacity
    }

    /// Its bytes in a block of the catalogue of `volume`.
    pub fn encode(&self, block: usize, volume: u128, place: u64) -> Vec<u8> {
        let mut name = [0; NAME_MAX];
        name[..self.name.len()].copy_from_slice(self.name.as_bytes());
        let raw = RawEntry {
            flags: self.flags(),
            name_len: u8::try_from(self.name.len()).expect("a name fits in its field"),
            reserved: [0; 6],
            id: self.id.into(),
            parent: self.parent.into(),
            start: self.start.into(),
            blocks: self.blocks.into(),
            capacity: self.capacity.into(),
            name,
        };
        let copy = RawCopy {
            content: self.content.to_le_bytes(),
            received: self.received.unwrap_or_default().into(),
            reserved: 0.into(),
        };
        let copy = if raw.flags & COPIED == 0 { &[] } else { copy.as_bytes() };
        let mut bytes = vec![0; block];
        let payload = [raw.as_bytes(), copy].concat();
        Page { id: volume, place, generation: 0, kind: ENTRY, payload: &payload }.seal(&mut bytes);
        bytes
    }

    fn flags(&self) -> u8 {
        let all = [
            (self.read_only, SNAPSHOT),
            (self.held, HELD),
            (self.content != 0, HAS_CONTENT),
            (self.received.is_some(), RECEIVING),
        ];
        all.iter().filter(|(is_set, _)| *is_set).fold(0, |flags, (_, flag)| flags | flag)
    }

    /// Reads the entry at a place of the catalogue of `volume`.
    ///
    /// # Errors
    /// [`CatalogueError`].
    pub fn decode(bytes: &[u8], volume: u128, place: u64) -> Result<Entry, CatalogueError> {
        let wanted = PageId { id: volume, place, generations: 0..=0, kind: ENTRY };
        let page = Page::unseal(bytes, &wanted).map_err(|_| CatalogueError::Damaged(place))?;
        let wrong = |what| CatalogueError::Range(place, what);
        let (raw, rest) = RawEntry::ref_from_prefix(page.payload).map_err(|_| wrong("another length"))?;
        if raw.flags >= 2 * RECEIVING || raw.reserved != [0; 6] {
            return Err(wrong("flags that a newer esker may know"));
        }
        let has = |flag| raw.flags & flag != 0;
        let copy = has(COPIED).then(|| RawCopy::ref_from_bytes(rest)).transpose();
        let copy = copy.map_err(|_| wrong("another length"))?;
        let content = copy.map_or(0, |copy| u128::from_le_bytes(copy.content));
        let received = copy.map_or(0, |copy| copy.received.get());
        // Only a snapshot is held, only what is received is not one yet, and only that has received bytes.
        let is_odd = (has(HELD) && !has(SNAPSHOT))
            || (has(RECEIVING) && (has(SNAPSHOT) || !has(HAS_CONTENT)))
            || (has(HAS_CONTENT) && !has(SNAPSHOT) && !has(RECEIVING))
            || has(HAS_CONTENT) != (content != 0)
            || (!has(RECEIVING) && received != 0)
            || copy.is_some_and(|copy| copy.reserved.get() != 0);
        if is_odd || (copy.is_none() && !rest.is_empty()) {
            return Err(wrong("flags or numbers that do not fit together"));
        }
        let name = raw.name.get(..usize::from(raw.name_len)).and_then(|name| std::str::from_utf8(name).ok());
        let name = name.filter(|name| is_sound_name(name)).ok_or(wrong("no sound name"))?.to_string();
        let [id, parent, start, blocks, capacity] =
            [raw.id, raw.parent, raw.start, raw.blocks, raw.capacity].map(U64::get);
        let is_inside = start.checked_add(capacity).is_some_and(|end| end <= CATALOGUE);
        if id == 0 || blocks == 0 || blocks > capacity || !is_inside {
            return Err(wrong("numbers out of range"));
        }
        let (read_only, held, received) = (has(SNAPSHOT), has(HELD), has(RECEIVING).then_some(received));
        Ok(Entry { id, parent, start, blocks, capacity, read_only, held, content, received, name })
    }
}

const _: () = assert!(PAGE_HEADER + size_of::<RawEntry>() + size_of::<RawCopy>() == 192, "the smallest block has room");

/// Whether a volume may be called so: as all names in a stack text.
pub fn is_sound_name(name: &str) -> bool {
    let is_fine = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    (1..=NAME_MAX).contains(&name.len()) && !name.starts_with('-') && name.chars().all(is_fine)
}

/// All entries, by the block of the catalogue that they are in. What is asked of it and what changes it takes as long
/// with many of them as with few.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Catalogue {
    entries: BTreeMap<u64, Entry>,
    places: BTreeMap<String, u64>,
    /// Numbers of entries and their places. A foreign catalogue may have a number twice.
    ids: BTreeSet<(u64, u64)>,
    free_places: Gaps,
    /// Logical blocks that no entry has room in.
    free_blocks: Gaps,
}

impl Default for Catalogue {
    fn default() -> Catalogue {
        Catalogue {
            entries: BTreeMap::new(),
            places: BTreeMap::new(),
            ids: BTreeSet::new(),
            free_places: Gaps::of(1..STAGING - CATALOGUE),
            free_blocks: Gaps::of(0..CATALOGUE),
        }
    }
}

impl Catalogue {
    /// Puts an entry in, or over the one at that place, which is the answer.
    ///
    /// # Errors
    /// Its name or its room are another's: the text says which.
    pub fn put(&mut self, place: u64, entry: Entry) -> Result<Option<Entry>, CatalogueError> {
        let before = self.take(place);
        let wrong = match () {
            () if self.places.contains_key(&entry.name) => Some("a name that stands twice"),
            () if !self.free_blocks.is_free(&entry.room()) => Some("room that another volume has too"),
            () if !self.free_places.is_free(&(place..place + 1)) => Some("no place for an entry"),
            () => None,
        };
        match wrong {
            None => self.insert(place, entry),
            Some(what) => {
                before.into_iter().for_each(|before| self.insert(place, before));
                return Err(CatalogueError::Range(place, what));
            }
        }
        Ok(before)
    }

    fn insert(&mut self, place: u64, entry: Entry) {
        self.places.insert(entry.name.clone(), place);
        self.ids.insert((entry.id, place));
        self.free_places.take(place..place + 1);
        self.free_blocks.take(entry.room());
        self.entries.insert(place, entry);
    }

    /// Takes the entry at a place out.
    pub fn take(&mut self, place: u64) -> Option<Entry> {
        let entry = self.entries.remove(&place)?;
        self.places.remove(&entry.name);
        self.ids.remove(&(entry.id, place));
        self.free_places.give(place..place + 1);
        self.free_blocks.give(entry.room());
        Some(entry)
    }

    /// The place and entry of that name.
    pub fn get(&self, name: &str) -> Option<(u64, &Entry)> {
        let place = *self.places.get(name)?;
        Some((place, &self.entries[&place]))
    }

    /// The entry at a place.
    pub fn at(&self, place: u64) -> Option<&Entry> {
        self.entries.get(&place)
    }

    /// The name of the one with this number, if it is still there.
    pub fn name_of(&self, id: u64) -> Option<&str> {
        let (_, place) = self.ids.range((id, 0)..=(id, u64::MAX)).next()?;
        Some(&self.entries[place].name)
    }

    /// All entries, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.places.values().map(|place| &self.entries[place])
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The first place that no entry has; none if all are taken.
    pub fn free_place(&self) -> Option<u64> {
        self.free_places.first(1)
    }

    /// Room for a volume of `blocks` of `block` bytes: its first block and its blocks. None if the logical space is
    /// given out.
    pub fn room(&self, blocks: u64, block: u32) -> Option<(u64, u64)> {
        let capacity = blocks.checked_next_power_of_two()?.max(CAPACITY_MIN / u64::from(block));
        Some((self.free_blocks.first(capacity)?, capacity))
    }
}

#[cfg(test)]
mod tests;
