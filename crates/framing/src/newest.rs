//! Which superblock of a medium counts: one rule for all formats.
//!
//! A superblock goes to the slot that its generation says, so the newer one never overwrites the older one. A damaged
//! slot may have held the newest superblock. The older one serves in its place only where the format can prove it stale
//! ([`Superblock::DETECTS_STALE`]); elsewhere the medium is refused.

use crate::superblock::{Header, SLOT, Superblock, SuperblockError, slot, unseal};

/// The superblock that counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Newest<S> {
    /// What it says.
    pub superblock: S,
    /// Its header.
    pub header: Header,
    /// Read-only compatible features that this program does not know. Unless it is 0, the medium must not be written.
    pub unknown_read_only: u32,
}

impl<S> Newest<S> {
    /// The superblock, for a medium that will be written.
    ///
    /// # Errors
    /// [`SuperblockError::ReadOnly`] if the medium may only be read.
    pub fn writable(self) -> Result<S, SuperblockError> {
        match self.unknown_read_only {
            0 => Ok(self.superblock),
            features => Err(SuperblockError::ReadOnly(features)),
        }
    }
}

/// The two slots at the start of a medium, for [`newest()`].
pub fn slots(start: &[u8]) -> [&[u8]; 2] {
    let (first, rest) = start.split_at(start.len().min(SLOT));
    [first, &rest[..rest.len().min(SLOT)]]
}

/// A sound superblock and where it was found.
struct Sound<S> {
    found: Newest<S>,
    copy: usize,
    slot: usize,
}

/// The newest superblock of a medium. Each of `copies` holds the bytes of slot 0 and of slot 1; most formats have one
/// copy. Of copies with one generation the first counts, because it is written first.
///
/// # Errors
/// - [`SuperblockError::Newer`] if any slot is of a later version or needs unknown features: what the other says would
///   be old.
/// - [`SuperblockError::Duplicate`] and [`SuperblockError::Shifted`] if a superblock lies where it was not written.
/// - Why a slot is damaged, if no copy of it is sound and the format cannot prove the other slot stale.
/// - Why neither slot is sound: the gravest of all reasons.
pub fn newest<S: Superblock>(copies: &[[&[u8]; 2]]) -> Result<Newest<S>, SuperblockError> {
    let mut sound: Vec<Sound<S>> = Vec::new();
    let mut faults = [SuperblockError::Blank; 2];
    for (copy, slots) in copies.iter().enumerate() {
        for (slot, bytes) in slots.iter().enumerate() {
            match unseal(bytes) {
                Ok(found) => sound.push(Sound { found, copy, slot }),
                Err(error @ SuperblockError::Newer(..)) => return Err(error),
                Err(error) => faults[slot] = graver(faults[slot], error),
            }
        }
    }
    check_places(&sound)?;
    let lost = (0..2).filter(|at| sound.iter().all(|sound| sound.slot != *at)).map(|at| faults[at]);
    let gravest = lost.fold(SuperblockError::Blank, graver);
    if !S::DETECTS_STALE && gravest != SuperblockError::Blank {
        return Err(gravest);
    }
    // The first of equals: a writer that goes on after an error repeats a generation in the first copy first.
    let found = sound.into_iter().rev().map(|sound| sound.found);
    found.max_by_key(|found| found.header.generation).ok_or(gravest)
}

/// Refuses a superblock that lies where it was not written. On a device that begins at another byte, the slots at its
/// start are exchanged, and those at its end are not: so twins in different slots are a duplicate within one copy only.
fn check_places<S>(sound: &[Sound<S>]) -> Result<(), SuperblockError> {
    for (at, one) in sound.iter().enumerate() {
        let generation = one.found.header.generation;
        let is_twin = |other: &Sound<S>| other.found.header.generation == generation && other.copy == one.copy;
        if sound[..at].iter().any(is_twin) {
            return Err(SuperblockError::Duplicate(generation));
        }
    }
    match sound.iter().all(|sound| slot(sound.found.header.generation) == sound.slot) {
        true => Ok(()),
        false => Err(SuperblockError::Shifted),
    }
}

/// Of two reasons the one that says more about what the medium was.
fn graver(one: SuperblockError, other: SuperblockError) -> SuperblockError {
    let weight = |error: &SuperblockError| match error {
        SuperblockError::Blank => 0,
        SuperblockError::Foreign(_) => 1,
        SuperblockError::Older(_) => 2,
        SuperblockError::Checksum => 3,
        SuperblockError::Range(_) => 4,
        SuperblockError::Shifted | SuperblockError::Duplicate(_) => 5,
        SuperblockError::ReadOnly(_) | SuperblockError::Newer(..) => 6,
    };
    if weight(&other) > weight(&one) { other } else { one }
}

#[cfg(test)]
mod tests;
