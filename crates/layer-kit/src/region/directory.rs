//! The directory of an area: which regions there are and where. It is the content of a region itself, the first one.

use std::collections::BTreeMap;

use esker_base::ByteRange;
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::NAME_MAX;

/// Bytes of the directory.
pub const DIRECTORY_SIZE: u64 = 8192;
/// Regions that a directory holds: as many entries as fit behind its head, which takes the room of one.
pub const REGIONS_MAX: usize = DIRECTORY_SIZE as usize / size_of::<RawEntry>() - 1;

/// What stands before the entries.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawHead {
    count: U64,
    last: U64,
    reserved: [u8; 48],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawEntry {
    name: [u8; NAME_MAX],
    start: U64,
    len: U64,
    size: U64,
    region: U64,
}

/// One region.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Bytes of the lower device that hold its headers and images.
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

/// What makes bytes no directory. They passed their checksum, so the writer was wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the directory's {0}")]
pub struct DirectoryError(&'static str);

impl Directory {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let (count, last) = ((self.entries.len() as u64).into(), self.last.into());
        let mut out = RawHead { count, last, reserved: [0; 48] }.as_bytes().to_vec();
        self.entries.iter().for_each(|(name, entry)| out.extend(RawEntry::of(name, entry).as_bytes()));
        out.resize(DIRECTORY_SIZE as usize, 0);
        out
    }

    /// The directory in `bytes`, whose regions lie in `area`.
    ///
    /// # Errors
    /// What does not fit.
    pub fn decode(bytes: &[u8], area: ByteRange) -> Result<Directory, DirectoryError> {
        let (head, entries) = RawHead::ref_from_prefix(bytes).map_err(|_| DirectoryError("head is cut off"))?;
        let (entries, _) = <[RawEntry]>::ref_from_prefix_with_elems(entries, REGIONS_MAX)
            .map_err(|_| DirectoryError("entries are cut off"))?;
        let entries =
            entries.get(..head.count.get() as usize).ok_or(DirectoryError("number of regions is too large"))?;
        let mut directory = Directory { entries: BTreeMap::new(), last: head.last.get() };
        for raw in entries {
            let (name, entry) = raw.entry()?;
            let is_free = directory.entries.values().all(|other| !other.place.overlaps(entry.place));
            if !area.contains(entry.place) || !is_free || entry.region == 0 || entry.region > directory.last {
                return Err(DirectoryError("entry lies outside its area or on another one"));
            }
            if directory.entries.insert(name, entry).is_some() {
                return Err(DirectoryError("entries have one name"));
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

impl RawEntry {
    fn of(name: &str, entry: &Entry) -> RawEntry {
        let mut raw = [0; NAME_MAX];
        raw[..name.len()].copy_from_slice(name.as_bytes());
        let (start, len) = (entry.place.start().into(), entry.place.len().into());
        RawEntry { name: raw, start, len, size: entry.size.into(), region: entry.region.into() }
    }

    fn entry(&self) -> Result<(String, Entry), DirectoryError> {
        let len = self.name.iter().position(|byte| *byte == 0).unwrap_or(NAME_MAX);
        let name = std::str::from_utf8(&self.name[..len]).ok().filter(|name| !name.is_empty());
        let name = name.ok_or(DirectoryError("entry has a name that is no text"))?.to_string();
        let (size, region) = (self.size.get(), self.region.get());
        let place = ByteRange::new(self.start.get(), self.len.get());
        let place = place.filter(|place| !place.is_empty() && size > 0 && size <= place.len());
        let place = place.ok_or(DirectoryError("entry has a size that does not fit its place"))?;
        Ok((name, Entry { place, size, region }))
    }
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
