//! The directory of an area: which regions there are and where. It is the content of a region itself, the first one.

use std::collections::BTreeMap;

use esker_base::ByteRange;
use esker_base::codec::{Reader, Short};

use super::NAME_MAX;

/// Bytes of the directory.
pub const DIRECTORY_SIZE: u64 = 8192;
/// Bytes of one entry, and of what stands before the first.
const ENTRY: usize = 64;
/// Regions that a directory holds.
pub const REGIONS_MAX: usize = DIRECTORY_SIZE as usize / ENTRY - 1;

/// One region.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Bytes of the lower end that hold its headers and images.
    pub place: ByteRange,
    /// Bytes of the region.
    pub size: u64,
    /// Its number, which no other region of the area has had.
    pub region: u64,
}

/// All regions by name.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Directory {
    /// Regions.
    pub entries: BTreeMap<String, Entry>,
    /// The last number that was given to a region.
    pub last: u64,
}

/// Why bytes are no directory. They passed their checksum, so whoever wrote them was wrong.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DirectoryError {
    /// A number that makes no sense.
    #[error("the directory's {0}")]
    Field(&'static str),
    /// It is cut off.
    #[error(transparent)]
    Short(#[from] Short),
}

impl Directory {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(DIRECTORY_SIZE as usize);
        out.extend((self.entries.len() as u64).to_le_bytes());
        out.extend(self.last.to_le_bytes());
        out.resize(ENTRY, 0);
        for (name, entry) in &self.entries {
            let begin = out.len();
            out.extend(name.as_bytes());
            out.resize(begin + NAME_MAX, 0);
            for number in [entry.place.start(), entry.place.len(), entry.size, entry.region] {
                out.extend(number.to_le_bytes());
            }
        }
        out.resize(DIRECTORY_SIZE as usize, 0);
        out
    }

    /// The directory in `bytes`, whose regions lie in `area`.
    ///
    /// # Errors
    /// What does not fit.
    pub fn decode(bytes: &[u8], area: ByteRange) -> Result<Directory, DirectoryError> {
        let mut reader = Reader::new(bytes);
        let (count, last) = (reader.le_u64()?, reader.le_u64()?);
        if count > REGIONS_MAX as u64 {
            return Err(DirectoryError::Field("number of regions is too large"));
        }
        reader.take(ENTRY - reader.at())?;
        let mut directory = Directory { entries: BTreeMap::new(), last };
        for _ in 0..count {
            let (name, entry) = decode_entry(&mut reader)?;
            let is_free = directory.entries.values().all(|other| !other.place.overlaps(entry.place));
            if !area.contains(entry.place) || !is_free || entry.region == 0 || entry.region > last {
                return Err(DirectoryError::Field("entry lies outside its area or on another one"));
            }
            if directory.entries.insert(name, entry).is_some() {
                return Err(DirectoryError::Field("entries have one name"));
            }
        }
        Ok(directory)
    }

    /// The first free piece of `len` bytes in `area`, or the length of the largest.
    pub fn find_room(&self, area: ByteRange, len: u64) -> Result<ByteRange, u64> {
        let mut taken: Vec<ByteRange> = self.entries.values().map(|entry| entry.place).collect();
        taken.sort();
        let (mut at, mut largest) = (area.start(), 0);
        for place in taken.into_iter().map(Some).chain([None]) {
            let end = place.map_or(area.end(), ByteRange::start);
            let room = end.saturating_sub(at);
            if room >= len {
                return ByteRange::new(at, len).ok_or(largest);
            }
            largest = largest.max(room);
            at = place.map_or(at, ByteRange::end);
        }
        Err(largest)
    }
}

fn decode_entry(reader: &mut Reader<'_>) -> Result<(String, Entry), DirectoryError> {
    let name = reader.take(NAME_MAX)?;
    let len = name.iter().position(|byte| *byte == 0).unwrap_or(NAME_MAX);
    let name = std::str::from_utf8(&name[..len]).ok().filter(|name| !name.is_empty());
    let name = name.ok_or(DirectoryError::Field("entry has a name that is no text"))?.to_string();
    let (start, len, size, region) = (reader.le_u64()?, reader.le_u64()?, reader.le_u64()?, reader.le_u64()?);
    let place = ByteRange::new(start, len).filter(|place| !place.is_empty() && size > 0 && size <= place.len());
    let place = place.ok_or(DirectoryError::Field("entry has a size that does not fit its place"))?;
    Ok((name, Entry { place, size, region }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u64, len: u64) -> ByteRange {
        ByteRange::new(start, len).unwrap()
    }

    fn sample() -> Directory {
        let entry = |start, region| Entry { place: range(start, 0x6000), size: 100, region };
        let entries = [("a".to_string(), entry(0x8000, 1)), ("map".to_string(), entry(0x20000, 3))];
        Directory { entries: entries.into(), last: 4 }
    }

    #[test]
    fn the_layout_is_as_the_page_says() {
        let bytes = sample().encode();
        assert_eq!(bytes.len(), 8192);
        assert_eq!(bytes[..16], [2, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0], "count and last number");
        assert_eq!(&bytes[128..132], b"map\0");
        assert_eq!(bytes[160..168], 0x20000u64.to_le_bytes(), "start");
        assert_eq!(bytes[168..176], 0x6000u64.to_le_bytes(), "length");
        assert_eq!(bytes[176..184], 100u64.to_le_bytes(), "size");
        assert_eq!(bytes[184..192], 3u64.to_le_bytes(), "number");
        assert_eq!(Directory::decode(&bytes, range(0, 1 << 20)), Ok(sample()));
    }

    #[test]
    fn entries_that_contradict_each_other_or_their_area_are_refused() {
        let area = range(0, 1 << 20);
        let check = |change: fn(&mut Directory)| {
            let mut directory = sample();
            change(&mut directory);
            assert!(Directory::decode(&directory.encode(), area).is_err(), "{directory:?}");
        };
        check(|d| d.entries.get_mut("a").unwrap().place = range(0x1ff00, 0x6000));
        check(|d| d.entries.get_mut("a").unwrap().place = range((1 << 20) - 1, 0x6000));
        check(|d| d.entries.get_mut("a").unwrap().size = 0x6001);
        check(|d| d.entries.get_mut("a").unwrap().region = 5);
        check(|d| d.entries.get_mut("a").unwrap().region = 0);
        let mut many = sample().encode();
        many[0] = 128;
        assert!(Directory::decode(&many, area).is_err());
    }

    #[test]
    fn room_is_found_between_regions() {
        let directory = sample();
        let area = range(0x8000, 0x40000);
        assert_eq!(directory.find_room(area, 0x1000), Ok(range(0xe000, 0x1000)));
        assert_eq!(directory.find_room(area, 0x20000), Ok(range(0x26000, 0x20000)));
        assert_eq!(directory.find_room(area, 0x30000), Err(0x22000));
    }
}
