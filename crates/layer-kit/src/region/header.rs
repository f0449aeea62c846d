//! The header of an image: which commit it is, and a checksum for each grain of it.
//!
//! It has the common header of `framing`, whose id is the region's number. Byte rows and trust:
//! `docs/reference/formats/region-area.md`. A header is written last and in one atomic unit of the medium, so it is
//! there as a whole or as it was before. What is neither zero nor sound was damaged, never torn.

use std::ops::RangeInclusive;

use esker_framing::{Features, HEADER, SLOT, Superblock};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bytes that each header has for itself.
pub const HEADER_SLOT: u64 = SLOT as u64;
/// Bytes before the checksums of grains.
const FIXED: usize = HEADER + size_of::<Body>();
/// Smallest grain.
pub const GRAIN_MIN: u64 = 4096;

/// What stands between the common header and the checksums.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Body {
    size: U64,
    grain: U32,
    grains: U32,
}

/// A header's content.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// Bytes that a power cut leaves whole or as before; the header's length.
    pub unit: u32,
    /// Whose image it is: a number that no other region of the area has had.
    pub region: u64,
    /// Number of the commit, from 1.
    pub generation: u64,
    /// Bytes of the region.
    pub size: u64,
    /// Bytes of a grain, a power of two.
    pub grain: u32,
    /// CRC-32 of each grain, the last one filled up with zeroes.
    pub sums: Vec<u32>,
}

/// How many grains a header of `unit` bytes has checksums for.
pub fn grains_max(unit: u32) -> u64 {
    (unit as usize - FIXED) as u64 / 4
}

/// The smallest grain with which `size` bytes fit a header of `unit` bytes, if there is one.
pub fn grain_for(size: u64, unit: u32, block: u64) -> Option<u32> {
    let least = size.div_ceil(grains_max(unit)).checked_next_power_of_two()?.max(GRAIN_MIN).max(block);
    u32::try_from(least).ok()
}

impl Header {
    fn check(&self) -> Result<(), &'static str> {
        let grains = self.sums.len() as u64;
        let is_grain = self.grain.is_power_of_two() && u64::from(self.grain) >= GRAIN_MIN;
        let rules = [
            ("length", self.unit.is_power_of_two()),
            ("generation", (1..u64::MAX).contains(&self.generation)),
            ("grain", is_grain),
            ("size", is_grain && self.size > 0 && self.size.div_ceil(u64::from(self.grain)) == grains),
        ];
        rules.iter().find(|(_, holds)| !holds).map_or(Ok(()), |(what, _)| Err(*what))
    }
}

impl Superblock for Header {
    const MAGIC: [u8; 8] = crate::media::REGION;
    const VERSION: u16 = 2;
    /// The image of the other side may have been overwritten, and nothing else says so.
    const DETECTS_STALE: bool = false;
    const NAME: &'static str = "the memory of a layer";
    const LENGTHS: RangeInclusive<usize> = 512..=SLOT;

    fn header(&self) -> esker_framing::Header {
        esker_framing::Header { id: self.region.into(), generation: self.generation, features: Features::NONE }
    }

    fn encode_body(&self) -> Vec<u8> {
        assert!(self.sums.len() as u64 <= grains_max(self.unit), "a region's grains fit its header");
        let body = Body { size: self.size.into(), grain: self.grain.into(), grains: (self.sums.len() as u32).into() };
        let mut bytes = body.as_bytes().to_vec();
        self.sums.iter().for_each(|sum| bytes.extend(sum.to_le_bytes()));
        bytes.resize(self.unit as usize - HEADER, 0);
        bytes
    }

    fn decode_body(header: &esker_framing::Header, bytes: &[u8]) -> Result<Header, &'static str> {
        let (body, sums) = Body::ref_from_prefix(bytes).map_err(|_| "length")?;
        let sums = <[U32]>::ref_from_bytes(&sums[..sums.len() / 4 * 4]).map_err(|_| "length")?;
        let sums = sums.get(..body.grains.get() as usize).ok_or("number of grains")?;
        let header = Header {
            unit: (HEADER + bytes.len()) as u32,
            region: header.id.try_into().map_err(|_| "region")?,
            generation: header.generation,
            size: body.size.get(),
            grain: body.grain.get(),
            sums: sums.iter().map(|sum| sum.get()).collect(),
        };
        header.check().map(|()| header)
    }
}

#[cfg(test)]
mod tests {
    use esker_framing::{Newest, SuperblockError, seal, unseal};

    use super::*;

    fn sample() -> Header {
        Header { unit: 512, region: 7, generation: 3, size: 5000, grain: 4096, sums: vec![0x1122_3344, 0x5566_7788] }
    }

    #[test]
    fn the_layout_is_as_the_page_says() {
        let bytes = seal(&sample());
        assert_eq!(bytes.len(), 512);
        assert_eq!(&bytes[..8], b"ESKRPAIR");
        assert_eq!(bytes[32..40], 7u64.to_le_bytes(), "region");
        assert_eq!(bytes[64..72], 5000u64.to_le_bytes(), "size");
        assert_eq!(bytes[72..76], 4096u32.to_le_bytes(), "grain");
        assert_eq!(bytes[76..80], 2u32.to_le_bytes(), "grains");
        assert_eq!(bytes[80..88], [0x44, 0x33, 0x22, 0x11, 0x88, 0x77, 0x66, 0x55], "checksums");
        assert!(bytes[88..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn headers_keep_the_promises_of_the_common_header() {
        esker_framing::conformance::check(&sample(), &Header { generation: 4, ..sample() });
        let whole = Header { unit: 4096, sums: vec![9; 1004], size: 1004 * 4096, ..sample() };
        esker_framing::conformance::check_single(&whole);
    }

    #[test]
    fn what_no_esker_writes_is_refused_under_a_right_checksum() {
        let with = |change: &dyn Fn(&mut Header)| {
            let mut changed = sample();
            change(&mut changed);
            unseal(&seal(&changed)).and_then(Newest::<Header>::writable)
        };
        assert_eq!(with(&|_| ()), Ok(sample()));
        let range = |field| Err(SuperblockError::Range(field));
        assert_eq!(with(&|changed| changed.unit = 768), range("length"));
        assert_eq!(with(&|changed| changed.generation = 0), range("generation"));
        assert_eq!(with(&|changed| changed.grain = 4097), range("grain"));
        assert_eq!(with(&|changed| changed.grain = 2048), range("grain"));
        assert_eq!(with(&|changed| changed.size = 0), range("size"));
        assert_eq!(with(&|changed| changed.size = 4096), range("size"));
        let mut crowded = seal(&sample());
        crowded[76] = 109;
        esker_framing::superblock::reseal(&mut crowded);
        assert_eq!(unseal(&crowded).and_then(Newest::<Header>::writable), range("number of grains"));
        let mut old = vec![0; 512];
        old[..9].copy_from_slice(b"ESKRPAIR\x01");
        assert_eq!(unseal(&old).and_then(Newest::<Header>::writable), Err(SuperblockError::Older(1)));
    }

    #[test]
    fn grains_grow_with_the_region() {
        assert_eq!(grain_for(1, 512, 512), Some(4096));
        assert_eq!(grain_for(108 * 4096, 512, 512), Some(4096));
        assert_eq!(grain_for(108 * 4096 + 1, 512, 512), Some(8192));
        assert_eq!(grain_for(1 << 30, 4096, 4096), Some(2 << 20));
        assert_eq!(grain_for(u64::MAX, 512, 512), None);
    }
}
