//! Bytes in memory that outlive the world that writes them.
//!
//! Sparse, in pages; what was never written reads as zeroes. Pages are shared copy-on-write between a medium and its
//! snapshots, so that a snapshot costs one pointer per page.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use esker_base::ByteRange;
use esker_block::{Buf, Extent, ExtentState};

/// Bytes of a page: the grain at which space is taken and given back.
pub const PAGE: u64 = 4096;

type Page = [u8; PAGE as usize];

/// A medium of a fixed size. All ranges given to it lie inside.
#[derive(Debug)]
pub struct Media {
    size: u64,
    pages: RefCell<BTreeMap<u64, Rc<Page>>>,
}

impl Media {
    /// `size` zero bytes, which take no space.
    pub fn new(size: u64) -> Rc<Media> {
        Rc::new(Media { size, pages: RefCell::default() })
    }

    /// Size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Another medium with the same bytes; afterwards the two differ where either is written.
    pub fn snapshot(&self) -> Rc<Media> {
        Rc::new(Media { size: self.size, pages: self.pages.clone() })
    }

    /// Fills `buf` with the bytes from `at` on.
    pub fn read(&self, at: u64, buf: &mut Buf) {
        let pages = self.pages.borrow();
        for (page, piece) in self.pieces(at, buf.len() as u64) {
            let to = (piece.start() - at) as usize;
            let bytes = pages.get(&page).map_or(&[0; PAGE as usize], |bytes| &**bytes);
            buf.fill(to, &bytes[window(piece)]);
        }
    }

    /// Stores the bytes of `buf` from `at` on.
    pub fn write(&self, at: u64, buf: &Buf) {
        let mut next = at;
        buf.for_each_piece(&mut |bytes| {
            self.write_bytes(next, bytes);
            next += bytes.len() as u64;
        });
    }

    /// Stores `bytes` from `at` on.
    pub fn write_bytes(&self, at: u64, bytes: &[u8]) {
        let mut pages = self.pages.borrow_mut();
        for (page, piece) in self.pieces(at, bytes.len() as u64) {
            let from = (piece.start() - at) as usize;
            let target = pages.entry(page).or_insert_with(|| Rc::new([0; PAGE as usize]));
            Rc::make_mut(target)[window(piece)].copy_from_slice(&bytes[from..from + piece.len() as usize]);
        }
    }

    /// The bytes of `range`.
    pub fn bytes(&self, range: ByteRange) -> Vec<u8> {
        let pages = self.pages.borrow();
        let mut out = vec![0; range.len() as usize];
        for (page, piece) in self.pieces(range.start(), range.len()) {
            if let Some(bytes) = pages.get(&page) {
                let to = (piece.start() - range.start()) as usize;
                out[to..to + piece.len() as usize].copy_from_slice(&bytes[window(piece)]);
            }
        }
        out
    }

    /// Makes `range` read as zeroes, and gives whole pages back unless `keep_space`.
    pub fn zero(&self, range: ByteRange, keep_space: bool) {
        let mut pages = self.pages.borrow_mut();
        for (page, piece) in self.pieces(range.start(), range.len()) {
            match pages.get_mut(&page) {
                Some(_) if piece.len() == PAGE && !keep_space => drop(pages.remove(&page)),
                Some(bytes) => Rc::make_mut(bytes)[window(piece)].fill(0),
                None if keep_space => drop(pages.insert(page, Rc::new([0; PAGE as usize]))),
                None => {}
            }
        }
    }

    /// Which parts of `range` take space, without gaps; neighbours differ in state.
    pub fn extents(&self, range: ByteRange) -> Box<[Extent]> {
        let pages = self.pages.borrow();
        let mut out: Vec<Extent> = Vec::new();
        for (page, piece) in self.pieces(range.start(), range.len()) {
            let state = if pages.contains_key(&page) { ExtentState::Data } else { ExtentState::Hole };
            match out.last_mut() {
                Some(last) if last.state == state => last.len += piece.len(),
                _ => out.push(Extent { len: piece.len(), state }),
            }
        }
        out.into()
    }

    /// Bytes of memory that the pages take.
    pub fn stored(&self) -> u64 {
        self.pages.borrow().len() as u64 * PAGE
    }

    fn pieces(&self, at: u64, len: u64) -> impl Iterator<Item = (u64, ByteRange)> + use<> {
        let range = ByteRange::new(at, len).filter(|r| r.end() <= self.size);
        let range = range.unwrap_or_else(|| panic!("{len} bytes at {at} leave a medium of {} bytes", self.size));
        range.split_at_multiples(PAGE).map(|piece| (piece.start() / PAGE, piece))
    }
}

/// Where a piece that lies inside one page lies in it.
fn window(piece: ByteRange) -> std::ops::Range<usize> {
    let start = (piece.start() % PAGE) as usize;
    start..start + piece.len() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u64, len: u64) -> ByteRange {
        ByteRange::new(start, len).unwrap()
    }

    #[test]
    fn a_snapshot_keeps_what_was_there() {
        let media = Media::new(3 * PAGE);
        media.write_bytes(PAGE - 2, &[1, 2, 3, 4]);
        let before = media.snapshot();
        media.write_bytes(PAGE - 1, &[9, 9]);
        assert_eq!(before.bytes(range(PAGE - 2, 4)), [1, 2, 3, 4]);
        assert_eq!(media.bytes(range(PAGE - 2, 4)), [1, 9, 9, 4]);
    }

    #[test]
    fn zeroing_whole_pages_gives_their_space_back() {
        let media = Media::new(4 * PAGE);
        media.write_bytes(0, &vec![7; 4 * PAGE as usize]);
        media.zero(range(PAGE / 2, 2 * PAGE), false);
        let states: Vec<_> = media.extents(range(0, 4 * PAGE)).iter().map(|e| (e.len / PAGE, e.state)).collect();
        assert_eq!(states, [(1, ExtentState::Data), (1, ExtentState::Hole), (2, ExtentState::Data)]);
        media.zero(range(0, 4 * PAGE), true);
        assert_eq!((media.stored(), media.bytes(range(0, 4 * PAGE))), (4 * PAGE, vec![0; 4 * PAGE as usize]));
    }

    proptest::proptest! {
        #[test]
        fn a_medium_behaves_like_an_array(ops: Vec<(u8, u16, u16)>) {
            const SIZE: u64 = 5 * PAGE;
            let (media, mut model) = (Media::new(SIZE), vec![0; SIZE as usize]);
            for (byte, at, len) in ops {
                let at = u64::from(at) % SIZE;
                let len = u64::from(len) % (SIZE - at);
                let span = at as usize..(at + len) as usize;
                match byte {
                    0..64 => media.zero(range(at, len), byte % 2 == 0),
                    _ => media.write_bytes(at, &vec![byte; len as usize]),
                }
                model[span].fill(if byte < 64 { 0 } else { byte });
            }
            assert_eq!(media.bytes(range(0, SIZE)), model);
            for (start, extent) in starts(&media.extents(range(0, SIZE))) {
                let zero = model[start..start + extent.len as usize].iter().all(|b| *b == 0);
                assert!(zero || extent.state == ExtentState::Data);
            }
        }
    }

    fn starts(extents: &[Extent]) -> Vec<(usize, Extent)> {
        let ends = extents.iter().scan(0, |end, e| {
            *end += e.len as usize;
            Some((*end - e.len as usize, *e))
        });
        ends.collect()
    }
}
