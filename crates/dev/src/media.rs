//! Bytes in memory that outlive the world that writes them.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use esker_base::ByteRange;
use esker_block::store::SparseStore;
use esker_block::{Buf, Extent};

/// A sparse medium of a fixed size. What was never written reads as zeroes.
///
/// Every range given to it lies inside; one that does not is a bug of the caller and panics.
pub struct Media {
    size: u64,
    store: RefCell<SparseStore>,
}

impl Media {
    /// `size` zero bytes, which take no space.
    pub fn new(size: u64) -> Rc<Media> {
        Media::of(size, SparseStore::default())
    }

    /// A medium of `size` bytes with the content of `store`.
    pub fn of(size: u64, store: SparseStore) -> Rc<Media> {
        Rc::new(Media { size, store: RefCell::new(store) })
    }

    /// Size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// What it holds now. Cheap: chunks are shared until either side writes them.
    pub fn image(&self) -> SparseStore {
        self.store.borrow().clone()
    }

    /// Fills `buf` with the bytes from `at` on.
    pub fn read(&self, at: u64, buf: &mut Buf) {
        self.inside(at, buf.len() as u64);
        self.store.borrow().read_buf(at, buf);
    }

    /// Stores the bytes of `buf` from `at` on.
    pub fn write(&self, at: u64, buf: &Buf) {
        self.inside(at, buf.len() as u64);
        self.store.borrow_mut().write_buf(at, buf);
    }

    /// The bytes of `range`.
    pub fn bytes(&self, range: ByteRange) -> Vec<u8> {
        self.inside(range.start(), range.len());
        let mut out = vec![0; range.len() as usize];
        self.store.borrow().read(range.start(), &mut out);
        out
    }

    /// Makes `range` read as zeroes; gives space back unless `keep_space`.
    pub fn zero(&self, range: ByteRange, keep_space: bool) {
        self.inside(range.start(), range.len());
        let mut store = self.store.borrow_mut();
        match keep_space {
            true => store.write_buf(range.start(), &Buf::described(range.len() as usize, 0)),
            false => store.zero(range),
        }
    }

    /// Which parts of `range` hold data, without gaps.
    pub fn extents(&self, range: ByteRange) -> Box<[Extent]> {
        self.inside(range.start(), range.len());
        self.store.borrow().extents(range).into()
    }

    /// Bytes of memory that it takes.
    pub fn held(&self) -> u64 {
        self.store.borrow().held()
    }

    fn inside(&self, at: u64, len: u64) {
        let fits = at.checked_add(len).is_some_and(|end| end <= self.size);
        assert!(fits, "{len} bytes at {at} leave a medium of {} bytes", self.size);
    }
}

impl fmt::Debug for Media {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Media({} of {} bytes held)", self.held(), self.size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeroing_keeps_space_where_asked() {
        let media = Media::new(1 << 20);
        let all = ByteRange::new(0, 1 << 20).unwrap();
        media.write(0, &Buf::described(1 << 20, 3));
        media.zero(all, true);
        assert_eq!((media.held(), media.bytes(all)), (1 << 20, vec![0; 1 << 20]));
        media.zero(all, false);
        assert_eq!(media.held(), 0);
    }

    #[test]
    #[should_panic(expected = "leave a medium of 512 bytes")]
    fn bytes_outside_are_a_bug_of_the_caller() {
        Media::new(512).write(256, &Buf::described(512, 1));
    }
}
