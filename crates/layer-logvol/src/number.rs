//! Numbers that must not be taken for one another: a segment, a page of the map.
//!
//! Logical and physical blocks stay plain: an [`crate::map::Extent`] names both, and ranges of them are walked, cut
//! and summed everywhere.

use std::fmt::{Display, Formatter, Result as Written};

/// A segment.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct SegmentNo(u32);

impl SegmentNo {
    /// The segment of a number; none if no volume has so many.
    pub fn new(number: u64) -> Option<SegmentNo> {
        u32::try_from(number).ok().map(SegmentNo)
    }

    /// A segment that is known to exist.
    #[cfg(test)]
    pub(crate) const fn of(number: u32) -> SegmentNo {
        SegmentNo(number)
    }

    /// All segments of a volume with so many.
    ///
    /// # Panics
    /// If no volume has so many.
    pub fn all(count: u64) -> impl DoubleEndedIterator<Item = SegmentNo> {
        (0..u32::try_from(count).expect("a geometry has at most 2^22 segments")).map(SegmentNo)
    }

    /// Its place in the table of segments.
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// As it stands on the medium.
    pub fn number(self) -> u64 {
        self.0.into()
    }

    /// The one behind it on the medium.
    pub fn next(self) -> SegmentNo {
        SegmentNo(self.0 + 1)
    }
}

impl Display for SegmentNo {
    fn fmt(&self, out: &mut Formatter<'_>) -> Written {
        self.0.fmt(out)
    }
}

/// A page of the map, numbered over the medium.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct PageNo(pub u64);

impl PageNo {
    /// No page: the first page of a medium holds the superblock.
    pub const NONE: PageNo = PageNo(0);

    /// Whether it is [`PageNo::NONE`].
    pub fn is_none(self) -> bool {
        self == PageNo::NONE
    }

    /// The one behind it on the medium.
    pub fn next(self) -> PageNo {
        PageNo(self.0 + 1)
    }
}

impl Display for PageNo {
    fn fmt(&self, out: &mut Formatter<'_>) -> Written {
        self.0.fmt(out)
    }
}
