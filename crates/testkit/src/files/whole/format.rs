//! What lies on the medium.

use esker_framing::{
    Features, Header, Newest, PAGE_HEADER, Page, PageId, SLOT, Superblock, newest, seal, slot, slots, unseal,
};

use super::{Flaw, WholeError};

/// Where the areas begin.
pub(super) const AREAS: u64 = 2 * SLOT as u64;
/// Images are written in such units.
pub(super) const SECTOR: u64 = 512;
/// Kind of the page that an image is.
pub(super) const KIND: u16 = 1;
/// Bytes of the superblock behind the common header.
const BODY: usize = 16;

/// The superblock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// The common header.
    pub header: Header,
    /// Bytes of one area.
    pub area: u64,
    /// Bytes of the sealed image.
    pub length: u64,
}

impl Superblock for Head {
    const MAGIC: [u8; 8] = *b"\x89EskWho\n";
    const VERSION: u16 = 1;
    // The image of the older generation is overwritten by the next commit alone, but a synced one must not vanish.
    const DETECTS_STALE: bool = false;
    const NAME: &'static str = "a whole file system";
    const LENGTHS: std::ops::RangeInclusive<usize> = 64 + BODY..=64 + BODY;

    fn header(&self) -> Header {
        self.header
    }

    fn encode_body(&self) -> Vec<u8> {
        [self.area.to_le_bytes(), self.length.to_le_bytes()].concat()
    }

    fn decode_body(header: &Header, body: &[u8]) -> Result<Head, &'static str> {
        let (area, length) = body.split_at_checked(8).ok_or("length")?;
        let number = |bytes: &[u8], what| bytes.try_into().map(u64::from_le_bytes).map_err(|_| what);
        Ok(Head { header: *header, area: number(area, "area")?, length: number(length, "image length")? })
    }
}

impl Head {
    pub(super) fn new(id: u128, generation: u64, area: u64, length: u64) -> Head {
        Head { header: Header { id, generation, features: Features::NONE }, area, length }
    }

    /// The superblock that counts, of the first bytes of a medium.
    pub(super) fn counting(start: &[u8], flaw: Option<Flaw>) -> Result<Head, WholeError> {
        if flaw == Some(Flaw::OldSlot) {
            let sound = slots(start).into_iter().filter_map(|slot| unseal::<Head>(slot).ok());
            let oldest = sound.map(|found| found.superblock).min_by_key(|head| head.header.generation);
            return oldest.ok_or(WholeError::Superblock(esker_framing::SuperblockError::Blank));
        }
        Ok(newest::<Head>(&[slots(start)]).and_then(Newest::writable)?)
    }

    /// Where its image lies.
    pub(super) fn place(&self) -> u64 {
        // The area may be any number before it was compared with the device.
        AREAS.saturating_add(slot(self.header.generation) as u64 * self.area)
    }

    /// Its image, to be sealed.
    pub(super) fn page<'a>(&self, image: &'a [u8]) -> Page<'a> {
        let Header { id, generation, .. } = self.header;
        Page { id, place: self.place(), generation, kind: KIND, payload: image }
    }

    /// The image in its sealed bytes.
    pub(super) fn payload<'a>(&self, sealed: &'a [u8], flaw: Option<Flaw>) -> Result<&'a [u8], WholeError> {
        let Header { id, generation, .. } = self.header;
        if flaw == Some(Flaw::SumUnchecked) {
            // The length of the payload lies 40 bytes behind the beginning of a page.
            let length = sealed.get(40..44).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_le_bytes);
            let end = PAGE_HEADER.saturating_add(length as usize).min(sealed.len());
            return Ok(&sealed[PAGE_HEADER..end]);
        }
        let wanted = PageId { id, place: self.place(), generations: generation..=generation, kind: KIND };
        let page = Page::unseal(sealed, &wanted);
        page.map(|page| page.payload).map_err(|error| WholeError::Image(generation, error.to_string()))
    }

    /// Where the superblock goes, and its bytes.
    pub(super) fn slot_bytes(&self) -> (u64, Vec<u8>) {
        let mut bytes = seal(self);
        bytes.resize(SECTOR as usize, 0);
        ((slot(self.header.generation) * SLOT) as u64, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn superblocks_are_judged_as_those_of_all_formats() {
        esker_framing::conformance::check(&Head::new(7, 4, 512, 512), &Head::new(7, 5, 512, 1024));
    }
}
