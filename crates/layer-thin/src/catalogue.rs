//! The catalogue: which volumes there are, and where in the logical space each of them lies.
//!
//! It lies at the end of the logical space of its own volume: one block that says what it is, then one block for each entry.
//! Byte rows and trust: the format's page. A changed entry is written to a block of the staging area first; one range vector
//! moves it to its place and does to the volumes what it tells, so that there is no state in between. An entry that goes
//! takes nothing but a deletion, which a full volume has room for.
//!
//! Invariant: the ranges of entries never overlap.

use std::collections::{BTreeMap, BTreeSet};

use super::gaps::Gaps;
use crate::bytes::{checksum, get, put};
use crate::remap::LOGICAL_BLOCKS;

/// First logical block of the catalogue, whose head it holds. Volumes lie before it.
pub const CATALOGUE: u64 = LOGICAL_BLOCKS - (1 << 32);
/// First logical block of the staging area.
pub const STAGING: u64 = CATALOGUE + (1 << 31);
/// Bytes of a block of the catalogue that say something.
pub const USED: usize = 160;
/// Longest name.
pub const NAME_MAX: usize = 64;
/// Logical bytes that a volume is given room for at least: it can grow to them where it is.
const CAPACITY_MIN: u64 = 1 << 40;

const HEAD_MAGIC: u64 = u32::from_le_bytes(*b"EsVc") as u64;
const ENTRY_MAGIC: u64 = u32::from_le_bytes(*b"EsVe") as u64;
const VERSION: u64 = 1;

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
    /// What it is called.
    pub name: String,
}

/// Why bytes are no block of a catalogue.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CatalogueError {
    /// Damaged, or something else.
    #[error("block {0} of the catalogue of volumes is damaged")]
    Damaged(u64),
    /// From a later esker.
    #[error(
        "the catalogue of volumes has version {0} and features {1:#x}, which this esker does not know; use a newer one"
    )]
    Newer(u64, u64),
    /// Numbers that no esker writes, under a right checksum.
    #[error("block {0} of the catalogue of volumes: {1}")]
    Range(u64, &'static str),
    /// There is data and no catalogue.
    #[error("it holds one volume without a name, not named ones; use kind `volume`, or another medium")]
    Absent,
    /// A catalogue where none is wanted.
    #[error("it holds named volumes; use kind `volumes`, which knows their names")]
    Present,
}

/// The first block of the catalogue.
pub fn head(block: usize, volume: u128) -> Vec<u8> {
    let mut bytes = vec![0; block];
    put(&mut bytes, 0, 4, HEAD_MAGIC);
    put(&mut bytes, 8, 2, VERSION);
    bytes[16..32].copy_from_slice(&volume.to_le_bytes());
    sealed(bytes)
}

/// Whether bytes are the first block of a catalogue.
pub fn is_head(bytes: &[u8]) -> bool {
    is_whole(bytes, HEAD_MAGIC)
}

/// Looks at the first block of the catalogue of `volume`.
///
/// # Errors
/// [`CatalogueError`].
pub fn check_head(bytes: &[u8], volume: u128) -> Result<(), CatalogueError> {
    if !is_head(bytes) {
        return Err(CatalogueError::Damaged(0));
    }
    let (version, features) = (get(bytes, 8, 2), get(bytes, 12, 4));
    if version != VERSION || features != 0 {
        return Err(CatalogueError::Newer(version, features));
    }
    match bytes[16..32] == volume.to_le_bytes() {
        true => Ok(()),
        false => Err(CatalogueError::Range(0, "it is another volume's")),
    }
}

fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let sum = checksum(&bytes[..USED], 4);
    put(&mut bytes, 4, 4, u64::from(sum));
    bytes
}

fn is_whole(bytes: &[u8], magic: u64) -> bool {
    bytes.len() >= USED && get(bytes, 0, 4) == magic && get(bytes, 4, 4) == u64::from(checksum(&bytes[..USED], 4))
}

impl Entry {
    /// The blocks that it has.
    pub fn range(&self) -> std::ops::Range<u64> {
        self.start..self.start + self.blocks
    }

    /// The blocks that are kept free of others.
    fn room(&self) -> std::ops::Range<u64> {
        self.start..self.start + self.capacity
    }

    /// Its bytes in a block of the catalogue.
    pub fn encode(&self, block: usize, place: u64) -> Vec<u8> {
        let mut bytes = vec![0; block];
        put(&mut bytes, 0, 4, ENTRY_MAGIC);
        put(&mut bytes, 8, 1, u64::from(self.read_only));
        put(&mut bytes, 9, 1, self.name.len() as u64);
        let words = [place, self.id, self.parent, self.start, self.blocks, self.capacity];
        for (i, word) in words.into_iter().enumerate() {
            put(&mut bytes, 16 + 8 * i, 8, word);
        }
        bytes[96..96 + self.name.len()].copy_from_slice(self.name.as_bytes());
        sealed(bytes)
    }

    /// Reads the entry at a place.
    ///
    /// # Errors
    /// [`CatalogueError`].
    pub fn decode(bytes: &[u8], place: u64) -> Result<Entry, CatalogueError> {
        if !is_whole(bytes, ENTRY_MAGIC) || get(bytes, 16, 8) != place {
            return Err(CatalogueError::Damaged(place));
        }
        let wrong = |what| CatalogueError::Range(place, what);
        let (flags, len) = (bytes[8], usize::from(bytes[9]));
        if flags > 1 || get(bytes, 10, 6) != 0 {
            return Err(wrong("flags that a newer esker may know"));
        }
        let name = bytes[96..].get(..len).and_then(|name| std::str::from_utf8(name).ok());
        let name = name.filter(|name| is_sound_name(name)).ok_or(wrong("no sound name"))?.to_string();
        let word = |i: usize| get(bytes, 24 + 8 * i, 8);
        let (id, parent, start, blocks, capacity) = (word(0), word(1), word(2), word(3), word(4));
        let is_inside = start.checked_add(capacity).is_some_and(|end| end <= CATALOGUE);
        if id == 0 || blocks == 0 || blocks > capacity || !is_inside {
            return Err(wrong("numbers out of range"));
        }
        Ok(Entry { id, parent, start, blocks, capacity, read_only: flags == 1, name })
    }
}

/// Whether a volume may be called so: as all names in a stack text.
pub fn is_sound_name(name: &str) -> bool {
    let is_fine = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    (1..=NAME_MAX).contains(&name.len()) && !name.starts_with('-') && name.chars().all(is_fine)
}

/// All entries, by the block of the catalogue that they are in. What is asked of it and what changes it takes as long with many
/// of them as with few.
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

    /// Room for a volume of `blocks` of `block` bytes: its first block and its blocks. None if the logical space is given out.
    pub fn room(&self, blocks: u64, block: u32) -> Option<(u64, u64)> {
        let capacity = blocks.checked_next_power_of_two()?.max(CAPACITY_MIN / u64::from(block));
        Some((self.free_blocks.first(capacity)?, capacity))
    }
}

#[cfg(test)]
mod tests;
