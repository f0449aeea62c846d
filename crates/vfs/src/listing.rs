//! Entries of a directory, as many as fit.

use std::ops::Range;

use crate::attr::{Entry, FileType};
use crate::word::{Cookie, Ino, Name};

/// Room for entries. Allocated once, travels to the file system and back. The front end says what an entry costs in its
/// own layout, so no entry that fits here is left out there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listing {
    rows: Vec<Packed>,
    names: Vec<u8>,
    bytes: usize,
    layout: Layout,
}

/// How the front end lays out entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Layout {
    bytes_max: usize,
    row_bytes: usize,
    align: usize,
    entries: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Packed {
    ino: Ino,
    next: Cookie,
    kind: FileType,
    name: Range<usize>,
    entry: Option<Entry>,
}

/// One entry of a directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row<'a> {
    /// Number of its inode.
    pub ino: Ino,
    /// Where a listing goes on behind it.
    pub next: Cookie,
    /// Kind of its inode.
    pub kind: FileType,
    /// Its name.
    pub name: Name<'a>,
    /// The inode, pinned once for this row, if the listing [wants them](Listing::wants_entries).
    pub entry: Option<Entry>,
}

impl Listing {
    /// No entries, with room for `bytes_max`. An entry costs `row_bytes` and the bytes of its name, rounded up to
    /// `align` bytes (> 0).
    pub fn new(bytes_max: usize, row_bytes: usize, align: usize) -> Listing {
        let layout = Layout { bytes_max, row_bytes, align, entries: false };
        Listing { rows: Vec::new(), names: Vec::new(), bytes: 0, layout }
    }

    /// The same with attributes, as READDIRPLUS of FUSE and NFS asks for.
    #[must_use]
    pub fn with_entries(mut self) -> Listing {
        self.layout.entries = true;
        self
    }

    /// Whether rows carry inodes. The file system then pins the inode of each row once.
    pub fn wants_entries(&self) -> bool {
        self.layout.entries
    }

    /// Whether a row with this name fits.
    pub fn fits(&self, name: Name<'_>) -> bool {
        self.bytes + self.cost(name) <= self.layout.bytes_max
    }

    /// Adds a row that [fits](Listing::fits).
    ///
    /// # Panics
    /// If it does not.
    pub fn push(&mut self, row: Row<'_>) {
        assert!(self.fits(row.name), "a row that does not fit comes with the next listing");
        self.bytes += self.cost(row.name);
        let start = self.names.len();
        self.names.extend_from_slice(row.name.bytes());
        let name = start..self.names.len();
        self.rows.push(Packed { ino: row.ino, next: row.next, kind: row.kind, name, entry: row.entry });
    }

    /// The rows in order.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = Row<'_>> {
        self.rows.iter().map(|row| Row {
            ino: row.ino,
            next: row.next,
            kind: row.kind,
            name: Name::new(&self.names[row.name.clone()]).expect("it was one when it was added"),
            entry: row.entry,
        })
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Drops all rows; room stays allocated.
    pub fn clear(&mut self) {
        self.rows.clear();
        self.names.clear();
        self.bytes = 0;
    }

    fn cost(&self, name: Name<'_>) -> usize {
        (self.layout.row_bytes + name.bytes().len()).next_multiple_of(self.layout.align)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &[u8]) -> Row<'_> {
        let name = Name::new(name).unwrap();
        Row { ino: Ino(7), next: Cookie(3), kind: FileType::File, name, entry: None }
    }

    #[test]
    fn a_listing_holds_what_the_layout_of_its_front_end_holds() {
        let mut listing = Listing::new(72, 24, 8);
        for name in [&b"a"[..], b"12345678"] {
            assert!(listing.fits(row(name).name));
            listing.push(row(name));
        }
        assert!(!listing.fits(row(b"b").name), "24 + 8 and 24 + 8 leave 8 bytes");
        let names: Vec<_> = listing.rows().map(|row| row.name.bytes().to_vec()).collect();
        assert_eq!(names, [b"a".to_vec(), b"12345678".to_vec()]);
        listing.clear();
        assert!(listing.is_empty() && listing.fits(row(b"b").name));
    }
}
