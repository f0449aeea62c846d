//! The catalogue: which volumes there are, and where in the logical space each of them lies.
//!
//! It lies at the end of the logical space of its own volume: one block that says what it is, then one block for each entry.
//! Byte rows and trust: the format's page. A changed entry is written to a block of the staging area first; one range vector
//! moves it to its place and does to the volumes what it tells, so that there is no state in between. An entry that goes
//! takes nothing but a deletion, which a full volume has room for.
//!
//! Invariant: the ranges of entries never overlap.

use std::collections::BTreeMap;

use crate::format::{checksum, get, put};
use crate::map::LOGICAL_BLOCKS;

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

/// All entries, by the block of the catalogue that they are in.
#[derive(Clone, Default, Debug)]
pub struct Catalogue {
    entries: BTreeMap<u64, Entry>,
    places: BTreeMap<String, u64>,
}

impl Catalogue {
    /// Puts an entry in, or over the one at that place.
    ///
    /// # Errors
    /// Its name or its room are another's: the text says which.
    pub fn put(&mut self, place: u64, entry: Entry) -> Result<(), CatalogueError> {
        let others = || self.entries.iter().filter(|(at, _)| **at != place).map(|(_, other)| other);
        let overlaps =
            |other: &Entry| other.start < entry.start + entry.capacity && entry.start < other.start + other.capacity;
        if others().any(|other| other.name == entry.name) {
            return Err(CatalogueError::Range(place, "a name that stands twice"));
        }
        if others().any(overlaps) {
            return Err(CatalogueError::Range(place, "room that another volume has too"));
        }
        self.take(place);
        self.places.insert(entry.name.clone(), place);
        self.entries.insert(place, entry);
        Ok(())
    }

    /// Takes the entry at a place out.
    pub fn take(&mut self, place: u64) -> Option<Entry> {
        let entry = self.entries.remove(&place)?;
        self.places.remove(&entry.name);
        Some(entry)
    }

    /// The place and entry of that name.
    pub fn get(&self, name: &str) -> Option<(u64, &Entry)> {
        let place = *self.places.get(name)?;
        Some((place, &self.entries[&place]))
    }

    /// The name of the one with this number, if it is still there.
    pub fn name_of(&self, id: u64) -> Option<&str> {
        self.iter().find(|entry| entry.id == id).map(|entry| entry.name.as_str())
    }

    /// All entries, in the order of their places.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The first place from `from` on that no entry has.
    pub fn free_place(&self, from: u64) -> u64 {
        let mut free = from;
        for place in self.entries.range(from..).map(|(place, _)| *place) {
            if place != free {
                break;
            }
            free += 1;
        }
        free
    }

    /// Room for a volume of `blocks` of `block` bytes that leaves what is in `beside` alone, too: its first block and its
    /// blocks. None if the logical space is given out.
    pub fn room(&self, blocks: u64, block: u32, beside: &[(u64, u64)]) -> Option<(u64, u64)> {
        let capacity = blocks.checked_next_power_of_two()?.max(CAPACITY_MIN / u64::from(block));
        let mut taken: Vec<(u64, u64)> = self.iter().map(|entry| (entry.start, entry.capacity)).collect();
        taken.extend_from_slice(beside);
        taken.sort_unstable();
        let mut start = 0;
        for (from, len) in taken {
            if from - start >= capacity {
                break;
            }
            start = from + len;
        }
        (CATALOGUE - start >= capacity).then_some((start, capacity))
    }
}

#[cfg(test)]
mod tests;
