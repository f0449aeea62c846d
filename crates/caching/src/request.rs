//! Requests as uses of lines.

use esker_base::digest::mix;

/// A use of a line by a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LineUse {
    /// The line.
    pub key: u64,
    /// Bytes of the request in the line.
    pub bytes: u32,
    /// Whether the request ends here.
    pub is_last: bool,
}

/// The lines of a request for `bytes` bytes from `offset`. A request for nothing uses none. Bytes beyond the last
/// offset of 64 bits are left out.
///
/// # Panics
/// If `line` is 0.
pub fn lines_of(offset: u64, bytes: u64, line: u32) -> impl Iterator<Item = LineUse> {
    assert!(line > 0, "a line has bytes");
    let line = u64::from(line);
    let end = offset.saturating_add(bytes);
    let keys = if end == offset { 0..0 } else { offset / line..(end - 1) / line + 1 };
    keys.map(move |key| {
        let from = (key * line).max(offset);
        let to = (key * line).saturating_add(line).min(end);
        LineUse { key, bytes: (to - from) as u32, is_last: to == end }
    })
}

/// The same for a request to the volume with this number. Hashes of the numbers keep the keys of volumes apart.
pub fn lines_in(volume: u32, offset: u64, bytes: u64, line: u32) -> impl Iterator<Item = LineUse> {
    let salt = if volume == 0 { 0 } else { mix(volume.into()) };
    lines_of(offset, bytes, line).map(move |line| LineUse { key: line.key ^ salt, ..line })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(offset: u64, bytes: u64, line: u32) -> Vec<(u64, u32, bool)> {
        lines_of(offset, bytes, line).map(|line| (line.key, line.bytes, line.is_last)).collect()
    }

    #[test]
    fn a_request_is_cut_at_lines() {
        assert_eq!(of(4096, 4096, 4096), [(1, 4096, true)]);
        assert_eq!(of(4000, 4192, 4096), [(0, 96, false), (1, 4096, true)]);
        assert_eq!(of(5, 10, 4), [(1, 3, false), (2, 4, false), (3, 3, true)]);
        assert_eq!(of(9, 1, 1), [(9, 1, true)]);
    }

    #[test]
    fn edges_have_no_lines_too_many() {
        assert_eq!(of(7, 0, 4), []);
        assert_eq!(of(u64::MAX - 1, 9, 4), [(u64::MAX / 4, 1, true)]);
    }

    #[test]
    fn volumes_share_no_line() {
        let keys = |volume| lines_in(volume, 0, 1 << 20, 512).map(|line| line.key).collect::<Vec<_>>();
        assert_eq!(keys(0), (0..2048).collect::<Vec<_>>());
        let mut all: Vec<u64> = (0..100).flat_map(keys).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 100 * 2048);
    }
}
