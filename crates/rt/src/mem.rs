//! Memory that the kernel may read and write while a request is in flight: page-aligned slabs from a bounded pool.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use smallvec::SmallVec;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// Alignment and granularity of slabs, in bytes: enough for O_DIRECT on every common device.
pub const PAGE: usize = 4096;

/// Slabs of up to this many pages (as a power of two) are kept for reuse: 2^13 pages = 32 MiB.
const CLASSES: usize = 14;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(4096))]
struct Page([u8; PAGE]);

struct Shared {
    free: Mutex<[Vec<Box<[Page]>>; CLASSES]>,
    kept_bytes_max: usize,
    kept_bytes: Mutex<usize>,
    bounced: AtomicU64,
}

/// A bounded store of slabs. Cheap to clone; all clones are one pool.
#[derive(Clone)]
pub struct Pool(Arc<Shared>);

impl Pool {
    /// A pool that keeps at most `kept_bytes_max` bytes of returned slabs.
    pub fn new(kept_bytes_max: usize) -> Pool {
        Pool(Arc::new(Shared {
            free: Mutex::default(),
            kept_bytes_max,
            kept_bytes: Mutex::new(0),
            bounced: AtomicU64::new(0),
        }))
    }

    /// A slab of at least `len` bytes. Its bytes are whatever its last user left: overwrite all that you hand on.
    pub fn slab(&self, len: usize) -> Slab {
        let class = class_of(len);
        let reused = (class < CLASSES).then(|| self.take(class)).flatten();
        let pages = reused.unwrap_or_else(|| {
            <[Page]>::new_box_zeroed_with_elems(1 << class).unwrap_or_else(|_| panic!("no memory for {len} bytes"))
        });
        Slab { pages, pool: self.clone() }
    }

    /// Bytes of memory that [`Pool::slab`] takes for `len` bytes.
    pub const fn slab_bytes(len: usize) -> usize {
        PAGE << class_of(len)
    }

    fn take(&self, class: usize) -> Option<Box<[Page]>> {
        let pages = lock(&self.0.free)[class].pop()?;
        *lock(&self.0.kept_bytes) -= PAGE << class;
        Some(pages)
    }

    fn put(&self, pages: Box<[Page]>) {
        let (class, bytes) = (class_of(pages.len() * PAGE), pages.len() * PAGE);
        let mut kept = lock(&self.0.kept_bytes);
        if class < CLASSES && *kept + bytes <= self.0.kept_bytes_max {
            *kept += bytes;
            drop(kept);
            lock(&self.0.free)[class].push(pages);
        }
    }

    /// Notes that `bytes` bytes of payload were copied from one buffer to another.
    pub fn note_bounce(&self, bytes: usize) {
        self.0.bounced.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Payload bytes copied between buffers so far.
    pub fn bounced(&self) -> u64 {
        self.0.bounced.load(Ordering::Relaxed)
    }
}

impl Default for Pool {
    /// Keeps up to 64 MiB.
    fn default() -> Pool {
        Pool::new(64 << 20)
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pool({} bytes kept)", lock(&self.0.kept_bytes))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

const fn class_of(len: usize) -> usize {
    // Of no page at all: one.
    len.div_ceil(PAGE).next_power_of_two().trailing_zeros() as usize
}

/// Page-aligned bytes with one owner. Goes back to its pool when dropped.
pub struct Slab {
    pages: Box<[Page]>,
    pool: Pool,
}

impl Slab {
    /// The pool that it came from.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }
}

impl Deref for Slab {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.pages.as_bytes()
    }
}

impl DerefMut for Slab {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.pages.as_mut_bytes()
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        let pool = self.pool.clone();
        pool.put(std::mem::take(&mut self.pages));
    }
}

impl fmt::Debug for Slab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slab({} bytes)", self.len())
    }
}

/// Memory handed to the kernel (or to a pipe) for one operation.
pub enum Mem {
    /// May be written to.
    Unique(Slab),
    /// May only be read: it has several readers.
    Shared(Arc<Slab>),
    /// Small unaligned bytes, such as protocol headers.
    Heap(Vec<u8>),
}

impl Mem {
    /// All its bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Mem::Unique(slab) => slab,
            Mem::Shared(slab) => slab,
            Mem::Heap(vec) => vec,
        }
    }

    /// All its bytes for writing, if it has one owner.
    pub fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        match self {
            Mem::Unique(slab) => Some(slab),
            Mem::Shared(_) => None,
            Mem::Heap(vec) => Some(vec),
        }
    }
}

impl fmt::Debug for Mem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mem({} bytes)", self.bytes().len())
    }
}

/// A window of some memory: what one element of a vectored operation covers.
#[derive(Debug)]
pub struct Slice {
    /// The memory.
    pub mem: Mem,
    /// First byte of the window.
    pub start: usize,
    /// Bytes in the window.
    pub len: usize,
}

impl Slice {
    /// A window of all of `bytes`.
    pub fn heap(bytes: Vec<u8>) -> Slice {
        let len = bytes.len();
        Slice { mem: Mem::Heap(bytes), start: 0, len }
    }

    /// The window's bytes.
    ///
    /// # Panics
    /// If the window leaves its memory.
    pub fn bytes(&self) -> &[u8] {
        &self.mem.bytes()[self.start..self.start + self.len]
    }

    /// The window's bytes for writing, if the memory has one owner.
    ///
    /// # Panics
    /// If the window leaves its memory.
    pub fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        let range = self.start..self.start + self.len;
        self.mem.bytes_mut().map(|b| &mut b[range])
    }

    /// The window without its first `n` bytes.
    pub fn advance(&mut self, n: usize) {
        self.start += n;
        self.len -= n;
    }
}

/// The windows of one vectored operation, in order. Up to two, which most operations have, need no memory of their own.
pub type Parts = SmallVec<[Slice; 2]>;

impl From<Slice> for Parts {
    fn from(part: Slice) -> Parts {
        let mut parts = Parts::new();
        parts.push(part);
        parts
    }
}

/// Takes `n` transferred bytes off the front of `parts`, moving finished parts to `done`.
pub fn advance_parts(parts: &mut Parts, mut n: usize, done: &mut Parts) {
    let whole = |part: &&Slice| {
        let fits = part.len <= n;
        n -= if fits { part.len } else { 0 };
        fits
    };
    let count = parts.iter().take_while(whole).count();
    done.extend(parts.drain(..count));
    if n > 0 {
        parts[0].advance(n);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slabs_are_aligned_and_come_back() {
        let pool = Pool::new(1 << 20);
        let slab = pool.slab(5000);
        assert_eq!(slab.len(), 8192);
        assert_eq!(slab.as_ptr() as usize % PAGE, 0);
        drop(slab);
        assert_eq!(format!("{pool:?}"), "Pool(8192 bytes kept)");
        let again = pool.slab(8192);
        assert_eq!((again.len(), format!("{pool:?}")), (8192, "Pool(0 bytes kept)".to_string()));
        for len in [0, 1, PAGE, PAGE + 1, 3 * PAGE, 32 << 20] {
            assert_eq!(pool.slab(len).len(), Pool::slab_bytes(len), "{len}");
        }
    }

    #[test]
    fn the_pool_keeps_no_more_than_its_bound() {
        let pool = Pool::new(3 * PAGE);
        let slabs: Vec<Slab> = (0..8).map(|_| pool.slab(1)).collect();
        drop(slabs);
        assert_eq!(format!("{pool:?}"), format!("Pool({} bytes kept)", 3 * PAGE));
    }

    #[test]
    fn partial_transfers_advance_over_part_borders() {
        let mut parts = Parts::from([Slice::heap(vec![0; 3]), Slice::heap(vec![0; 5])]);
        let mut done = Parts::new();
        advance_parts(&mut parts, 4, &mut done);
        assert_eq!((done.len(), parts.len(), parts[0].start, parts[0].len), (1, 1, 1, 4));
        advance_parts(&mut parts, 4, &mut done);
        assert!(parts.is_empty());
    }
}
