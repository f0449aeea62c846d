//! Memory for keys: pages of their own that no core dump and no child process holds, that are not swapped out where
//! that is permitted, and that are wiped before they go.

use std::fmt;
use std::ops::Deref;
use std::ptr::{self, NonNull};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mlock, mmap_anonymous, munmap};
use zeroize::Zeroize;

/// Stack that a call may have left copies of a key on, in bytes: several times what a cipher takes, and quickly wiped.
const STACK: usize = 8 << 10;

/// A value in such pages. It is made on the stack and moved there; [`wipe_stack`] wipes what that leaves behind.
pub struct KeyBox<T>(Pages<T>);

/// Bytes in such pages.
pub struct KeyBytes {
    pages: Pages<u8>,
    len: usize,
}

/// Pages that hold at least one `T`.
struct Pages<T> {
    start: NonNull<T>,
    /// Bytes that are mapped.
    mapped: usize,
}

// SAFETY: the pages belong to this value alone, and a `T` in them to its owner, as with a `Box<T>`.
unsafe impl<T: Send> Send for Pages<T> {}
// SAFETY: a shared reference gives shared references to the `T` alone.
unsafe impl<T: Sync> Sync for Pages<T> {}

impl<T> Pages<T> {
    /// # Panics
    /// If there is no memory.
    fn new(bytes: usize) -> Pages<T> {
        let page = rustix::param::page_size();
        assert!(align_of::<T>() <= page, "pages are aligned to their size");
        let mapped = bytes.max(1).next_multiple_of(page);
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: the kernel chooses an address at which nothing is.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), mapped, prot, flags) };
        let start = start.unwrap_or_else(|error| panic!("no memory for a key: {error}"));
        for advice in [Advice::LinuxDontDump, Advice::LinuxWipeOnFork] {
            // SAFETY: the pages were mapped a moment ago; neither advice changes a byte that this process sees.
            let advised = unsafe { madvise(start, mapped, advice) };
            advised.unwrap_or_else(|error| panic!("pages for a key cannot be kept to this process: {error}"));
        }
        // SAFETY: as above. A user may lock little, and a key that may be swapped out is better than none.
        let _unlocked = unsafe { mlock(start, mapped) };
        let start = NonNull::new(start.cast()).expect("nothing is mapped at address 0");
        Pages { start, mapped }
    }

    /// Overwrites all bytes. No `T` is in them any more.
    fn wipe(&mut self) {
        // SAFETY: the pages are mapped, writable and this value's own; bytes need no alignment and have no invariants.
        let bytes = unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().cast::<u8>(), self.mapped) };
        bytes.zeroize();
    }
}

impl<T> Drop for Pages<T> {
    fn drop(&mut self) {
        self.wipe();
        // SAFETY: `new` mapped them, and nothing refers to them any more.
        let gone = unsafe { munmap(self.start.as_ptr().cast(), self.mapped) };
        debug_assert_eq!(gone, Ok(()));
    }
}

impl<T> KeyBox<T> {
    /// Moves a value to such pages.
    ///
    /// # Panics
    /// If there is no memory.
    pub fn new(value: T) -> KeyBox<T> {
        let pages = Pages::new(size_of::<T>());
        // SAFETY: the pages are mapped, large enough and aligned, and nothing is in them yet.
        unsafe { pages.start.write(value) };
        KeyBox(pages)
    }
}

impl<T> Deref for KeyBox<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: `new` has written a value there, which stays until this one is dropped.
        unsafe { self.0.start.as_ref() }
    }
}

impl<T> Drop for KeyBox<T> {
    fn drop(&mut self) {
        // SAFETY: the value is there, and nothing looks at it afterwards: the pages are dropped next.
        unsafe { self.0.start.drop_in_place() };
    }
}

impl KeyBytes {
    /// Takes `bytes`, and wipes them where they were.
    ///
    /// # Panics
    /// If there is no memory.
    pub fn new(mut bytes: Vec<u8>) -> KeyBytes {
        let (pages, len) = (Pages::<u8>::new(bytes.len()), bytes.len());
        // SAFETY: there are at least as many bytes in the pages, which were mapped a moment ago and overlap nothing.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), pages.start.as_ptr(), len) };
        bytes.zeroize();
        KeyBytes { pages, len }
    }
}

impl Deref for KeyBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the pages hold that many bytes as long as this value lives, and nothing changes them.
        unsafe { std::slice::from_raw_parts(self.pages.start.as_ptr(), self.len) }
    }
}

impl<T> fmt::Debug for KeyBox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyBox(..)")
    }
}

impl fmt::Debug for KeyBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyBytes(..)")
    }
}

/// Wipes the part of this thread's stack on which calls of the caller that have returned may have left keys. The caller
/// must not be inlined into what it called.
#[inline(never)]
pub fn wipe_stack() {
    // What the array lies on is what they lay on.
    std::hint::black_box(&mut [0_u8; STACK]);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The flags of the mapping that holds an address, as smaps of proc(5) tells them; none if nothing is mapped there.
    fn flags_at(address: usize) -> Option<String> {
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut is_here = false;
        for line in smaps.lines() {
            let range = line.split(' ').next().and_then(|range| range.split_once('-'));
            let bounds = range.map(|(start, end)| (usize::from_str_radix(start, 16), usize::from_str_radix(end, 16)));
            if let Some((Ok(start), Ok(end))) = bounds {
                is_here = (start..end).contains(&address);
            }
            if let Some(flags) = line.strip_prefix("VmFlags:").filter(|_| is_here) {
                return Some(flags.to_string());
            }
        }
        None
    }

    #[test]
    fn keys_are_in_pages_that_no_dump_and_no_child_holds() {
        let bytes = KeyBytes::new(vec![7; 64]);
        let boxed = KeyBox::new([9_u64; 600]);
        assert_eq!((&bytes[..], *boxed), (&[7; 64][..], [9; 600]));
        for address in [bytes.as_ptr().addr(), ptr::from_ref(&*boxed).addr()] {
            let flags = flags_at(address).unwrap();
            assert!(flags.contains(" dd") && flags.contains(" wf"), "{flags}");
        }
        let heap = vec![7; 64];
        assert!(!flags_at(heap.as_ptr().addr()).unwrap().contains(" dd"), "other memory is dumped");
    }

    #[test]
    fn keys_are_wiped_and_what_is_in_a_box_is_dropped() {
        let mut bytes = KeyBytes::new(vec![7; 64]);
        bytes.pages.wipe();
        assert_eq!(bytes[..], [0; 64]);
        let shared = std::rc::Rc::new(());
        drop(KeyBox::new(shared.clone()));
        assert_eq!(std::rc::Rc::strong_count(&shared), 1);
    }
}
