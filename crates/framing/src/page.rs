//! Sealed pages: a page that was torn, damaged, written elsewhere or written for an earlier state is told from the one
//! that is looked for. Byte rows: `docs/reference/formats/superblock.md`.

use std::mem::offset_of;
use std::ops::RangeInclusive;

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::checksum;

/// Bytes before the payload of a page.
pub const PAGE_HEADER: usize = 48;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawPage {
    checksum: U32,
    kind: U16,
    reserved: U16,
    place: U64,
    id: [u8; 16],
    generation: U64,
    length: U32,
    reserved2: U32,
}

const SUM_AT: usize = offset_of!(RawPage, checksum);

/// A page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Page<'a> {
    /// The medium's number.
    pub id: u128,
    /// Where the page lies: its number or its first byte, as the format counts.
    pub place: u64,
    /// Generation of the state that it was written for.
    pub generation: u64,
    /// What the payload is: a number of the format's own.
    pub kind: u16,
    /// The format's bytes.
    pub payload: &'a [u8],
}

/// The page that is looked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PageId {
    /// The medium's number.
    pub id: u128,
    /// Where the page lies.
    pub place: u64,
    /// Generations that it may have: one, or all up to that of the superblock.
    pub generations: RangeInclusive<u64>,
    /// What its payload is.
    pub kind: u16,
}

/// Why bytes are not the page that is looked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PageError {
    /// Damaged, torn, or never written.
    #[error("its checksum is wrong; restore it from a copy")]
    Checksum,
    /// Of another medium, place or kind.
    #[error("it is another page, number {0} of its medium; restore it from a copy")]
    Other(u64),
    /// Of another generation.
    #[error("it has generation {0}, so it is stale or from another state; restore it from a copy")]
    Generation(u64),
}

impl<'a> Page<'a> {
    /// Writes the page over all of `out`; what the payload leaves is zero.
    ///
    /// # Panics
    /// If the payload does not fit.
    pub fn seal(&self, out: &mut [u8]) {
        let end = PAGE_HEADER + self.payload.len();
        assert!(end <= out.len(), "a payload of {} bytes in a page of {}", self.payload.len(), out.len());
        let raw = RawPage {
            checksum: 0.into(),
            kind: self.kind.into(),
            reserved: 0.into(),
            place: self.place.into(),
            id: self.id.to_le_bytes(),
            generation: self.generation.into(),
            length: u32::try_from(self.payload.len()).expect("a page has less than 4 GiB").into(),
            reserved2: 0.into(),
        };
        out[..PAGE_HEADER].copy_from_slice(raw.as_bytes());
        out[PAGE_HEADER..end].copy_from_slice(self.payload);
        out[end..].fill(0);
        let sum = checksum(out, SUM_AT);
        out[SUM_AT..SUM_AT + 4].copy_from_slice(&sum.to_le_bytes());
    }

    /// Reads the page that is looked for; `bytes` are all of it.
    ///
    /// # Errors
    /// [`PageError`].
    pub fn unseal(bytes: &'a [u8], wanted: &PageId) -> Result<Page<'a>, PageError> {
        let Ok((raw, rest)) = RawPage::read_from_prefix(bytes) else { return Err(PageError::Checksum) };
        let payload = rest.get(..raw.length.get() as usize);
        let Some(payload) = payload.filter(|_| raw.checksum.get() == checksum(bytes, SUM_AT)) else {
            return Err(PageError::Checksum);
        };
        let (id, place, kind) = (u128::from_le_bytes(raw.id), raw.place.get(), raw.kind.get());
        if (id, place, kind) != (wanted.id, wanted.place, wanted.kind) {
            return Err(PageError::Other(place));
        }
        match raw.generation.get() {
            generation if wanted.generations.contains(&generation) => Ok(Page { id, place, generation, kind, payload }),
            generation => Err(PageError::Generation(generation)),
        }
    }
}

#[cfg(test)]
mod tests;
