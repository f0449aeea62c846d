//! Checked ranges of bytes.

use std::fmt;

/// The bytes `[start, start + len)`. `start + len` never overflows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteRange {
    start: u64,
    len: u64,
}

impl ByteRange {
    /// The range, or `None` if its end does not fit in 64 bits.
    pub fn new(start: u64, len: u64) -> Option<ByteRange> {
        start.checked_add(len).map(|_| ByteRange { start, len })
    }

    /// First byte.
    pub fn start(self) -> u64 {
        self.start
    }

    /// Length in bytes.
    pub fn len(self) -> u64 {
        self.len
    }

    /// One past the last byte.
    pub fn end(self) -> u64 {
        self.start + self.len
    }

    /// Whether the range holds no byte.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Whether both ranges hold a common byte.
    pub fn overlaps(self, other: ByteRange) -> bool {
        self.start < other.end() && other.start < self.end() && !self.is_empty() && !other.is_empty()
    }

    /// Whether every byte of `inner` is in this range.
    pub fn contains(self, inner: ByteRange) -> bool {
        self.start <= inner.start && inner.end() <= self.end()
    }

    /// Whether start and length are multiples of `unit` (> 0).
    pub fn is_aligned(self, unit: u64) -> bool {
        self.start.is_multiple_of(unit) && self.len.is_multiple_of(unit)
    }

    /// The smallest range of whole `unit`s around this one, or `None` if it does not fit in 64 bits.
    pub fn align_out(self, unit: u64) -> Option<ByteRange> {
        let start = self.start - self.start % unit;
        let end = self.end().checked_next_multiple_of(unit)?;
        Some(ByteRange { start, len: end - start })
    }

    /// The common part, if any byte is common.
    pub fn intersect(self, other: ByteRange) -> Option<ByteRange> {
        let (start, end) = (self.start.max(other.start), self.end().min(other.end()));
        (start < end).then(|| ByteRange { start, len: end - start })
    }

    /// Cuts the range at every multiple of `unit` (> 0), in order.
    pub fn split_at_multiples(self, unit: u64) -> impl Iterator<Item = ByteRange> {
        let (mut at, end) = (self.start, self.end());
        std::iter::from_fn(move || {
            (at < end).then(|| {
                let stop = (at - at % unit).saturating_add(unit).min(end);
                let piece = ByteRange { start: at, len: stop - at };
                at = stop;
                piece
            })
        })
    }
}

/// The range of `len` bytes from `start`, for a caller that knows that it exists: a part of a range, or a device's own.
///
/// # Panics
/// If its end does not fit in 64 bits.
pub fn span(start: u64, len: u64) -> ByteRange {
    ByteRange::new(start, len).unwrap_or_else(|| panic!("offset {start} + {len} bytes does not fit in 64 bits"))
}

impl fmt::Display for ByteRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}, {})", self.start, self.end())
    }
}

impl fmt::Debug for ByteRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn r(start: u64, len: u64) -> ByteRange {
        ByteRange::new(start, len).unwrap()
    }

    #[test]
    fn ends_that_overflow_are_refused() {
        assert_eq!(ByteRange::new(u64::MAX, 1), None);
        assert_eq!(r(u64::MAX, 0).align_out(4096), None);
    }

    #[test]
    fn alignment_grows_outwards() {
        assert_eq!(r(1, 4096).align_out(4096), Some(r(0, 8192)));
        assert_eq!(r(4096, 4096).align_out(4096), Some(r(4096, 4096)));
    }

    #[test]
    fn empty_ranges_overlap_nothing() {
        assert!(!r(5, 0).overlaps(r(0, 10)));
        assert!(r(5, 1).overlaps(r(0, 6)));
        assert!(!r(5, 1).overlaps(r(0, 5)));
    }

    proptest::proptest! {
        #[test]
        fn pieces_cover_the_range_without_crossing_a_multiple(start in 0u64..1 << 40, len in 0u64..1 << 20, unit in 1u64..1 << 16) {
            let mut at = start;
            for piece in r(start, len).split_at_multiples(unit) {
                assert_eq!(piece.start(), at);
                assert_eq!(piece.start() / unit, (piece.end() - 1) / unit);
                at = piece.end();
            }
            assert_eq!(at, start + len);
        }
    }
}
