//! The header of an image: which commit it is, and a checksum for each grain of it.
//!
//! `docs/reference/formats/region-area.md` has the bytes. A header is written last and in one atomic unit of the medium, so it is
//! there as a whole or as it was before. What is neither zero nor sound was damaged, never torn.

use esker_base::codec::{Reader, Short};

/// Bytes that each header has for itself.
pub const HEADER_SLOT: u64 = 4096;
/// First bytes of a header.
pub const MAGIC: [u8; 8] = crate::media::REGION;
/// Version of this format.
pub const VERSION: u16 = 1;
/// Bytes before the checksums of grains.
pub const FIXED: usize = 64;
/// Where the header's own checksum stands.
const SUM_AT: usize = 60;
/// Smallest grain.
pub const GRAIN_MIN: u64 = 4096;

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

/// Why bytes are no header.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HeaderError {
    /// It does not begin as a header.
    #[error("it does not begin with \"ESKRPAIR\"")]
    Magic,
    /// Of a later format.
    #[error("its version is {0}, and this program knows {VERSION}; use a newer one")]
    Version(u16),
    /// Needs something that this program does not have.
    #[error("it needs the features {0:#06x}, which this program does not have; use a newer one")]
    Features(u16),
    /// Numbers that make no sense.
    #[error("its {0}")]
    Field(&'static str),
    /// The checksum is wrong.
    #[error("its checksum is wrong")]
    Sum,
    /// It is cut off.
    #[error(transparent)]
    Short(#[from] Short),
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
    /// The header's bytes, `unit` of them.
    pub fn encode(&self) -> Vec<u8> {
        assert!(self.sums.len() as u64 <= grains_max(self.unit), "a region's grains fit its header");
        let mut out = Vec::with_capacity(self.unit as usize);
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend(0u16.to_le_bytes());
        out.extend(self.unit.to_le_bytes());
        out.extend(self.region.to_le_bytes());
        out.extend(self.generation.to_le_bytes());
        out.extend(self.size.to_le_bytes());
        out.extend(self.grain.to_le_bytes());
        out.extend((self.sums.len() as u32).to_le_bytes());
        out.resize(FIXED, 0);
        self.sums.iter().for_each(|sum| out.extend(sum.to_le_bytes()));
        out.resize(self.unit as usize, 0);
        let sum = crc32fast::hash(&out);
        out[SUM_AT..FIXED].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// The header in `bytes`, or none if they are all zero: nothing was ever committed there.
    ///
    /// # Errors
    /// Why it is no header.
    pub fn decode(bytes: &[u8]) -> Result<Option<Header>, HeaderError> {
        if bytes.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let mut reader = Reader::new(bytes);
        if reader.take(8)? != MAGIC {
            return Err(HeaderError::Magic);
        }
        let (version, features, unit) = (reader.le_u16()?, reader.le_u16()?, reader.le_u32()?);
        match (version, features) {
            (VERSION, 0) => {}
            (VERSION, features) => return Err(HeaderError::Features(features)),
            (version, _) => return Err(HeaderError::Version(version)),
        }
        if !unit.is_power_of_two() || !(512..=HEADER_SLOT as u32).contains(&unit) {
            return Err(HeaderError::Field("unit is no power of two from 512 to 4096"));
        }
        check_sum(bytes.get(..unit as usize).ok_or(HeaderError::Sum)?)?;
        Header::decode_body(&mut reader, unit).map(Some)
    }

    fn decode_body(reader: &mut Reader<'_>, unit: u32) -> Result<Header, HeaderError> {
        let (region, generation, size) = (reader.le_u64()?, reader.le_u64()?, reader.le_u64()?);
        let (grain, grains) = (reader.le_u32()?, u64::from(reader.le_u32()?));
        if generation == 0 {
            return Err(HeaderError::Field("generation is 0"));
        }
        if !grain.is_power_of_two() || u64::from(grain) < GRAIN_MIN {
            return Err(HeaderError::Field("grain is no power of two of at least 4096"));
        }
        if grains > grains_max(unit) || grains != size.div_ceil(u64::from(grain)) || size == 0 {
            return Err(HeaderError::Field("size does not fit its number of grains"));
        }
        reader.take(FIXED - reader.at())?;
        let sums = (0..grains).map(|_| reader.le_u32()).collect::<Result<_, _>>()?;
        Ok(Header { unit, region, generation, size, grain, sums })
    }
}

fn check_sum(bytes: &[u8]) -> Result<(), HeaderError> {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&bytes[..SUM_AT]);
    hasher.update(&[0; FIXED - SUM_AT]);
    hasher.update(&bytes[FIXED..]);
    match hasher.finalize().to_le_bytes() == bytes[SUM_AT..FIXED] {
        true => Ok(()),
        false => Err(HeaderError::Sum),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Header {
        Header { unit: 512, region: 7, generation: 3, size: 5000, grain: 4096, sums: vec![0x1122_3344, 0x5566_7788] }
    }

    #[test]
    fn the_layout_is_as_the_page_says() {
        let bytes = sample().encode();
        assert_eq!(bytes.len(), 512);
        assert_eq!(&bytes[..8], b"ESKRPAIR");
        assert_eq!(bytes[8..12], [1, 0, 0, 0], "version and features");
        assert_eq!(bytes[12..16], 512u32.to_le_bytes(), "unit");
        assert_eq!(bytes[16..24], 7u64.to_le_bytes(), "region");
        assert_eq!(bytes[24..32], 3u64.to_le_bytes(), "generation");
        assert_eq!(bytes[32..40], 5000u64.to_le_bytes(), "size");
        assert_eq!(bytes[40..44], 4096u32.to_le_bytes(), "grain");
        assert_eq!(bytes[44..48], 2u32.to_le_bytes(), "grains");
        assert_eq!(bytes[48..60], [0; 12], "reserved");
        assert_eq!(bytes[64..72], [0x44, 0x33, 0x22, 0x11, 0x88, 0x77, 0x66, 0x55], "checksums");
        assert!(bytes[72..].iter().all(|byte| *byte == 0));
        assert_eq!(Header::decode(&bytes), Ok(Some(sample())));
    }

    #[test]
    fn zeroes_are_no_commit_and_every_damaged_byte_is_found() {
        assert_eq!(Header::decode(&[0; 512]), Ok(None));
        let bytes = sample().encode();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x40;
            assert!(Header::decode(&damaged).is_err(), "byte {at}");
        }
    }

    #[test]
    fn a_later_format_is_refused_by_name() {
        let mut bytes = sample().encode();
        bytes[8] = 2;
        assert_eq!(Header::decode(&bytes), Err(HeaderError::Version(2)));
        bytes[8..12].copy_from_slice(&[1, 0, 4, 0]);
        assert_eq!(Header::decode(&bytes), Err(HeaderError::Features(4)));
    }

    #[test]
    fn grains_grow_with_the_region() {
        assert_eq!(grain_for(1, 512, 512), Some(4096));
        assert_eq!(grain_for(112 * 4096, 512, 512), Some(4096));
        assert_eq!(grain_for(112 * 4096 + 1, 512, 512), Some(8192));
        assert_eq!(grain_for(1 << 30, 4096, 4096), Some(2 << 20));
        assert_eq!(grain_for(u64::MAX, 512, 512), None);
    }
}
