//! An allocator that counts, for tests of what allocates nothing.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Neither made nor dropped by code, so that an allocator may use it at any time.
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, which counts for each thread how often it was asked for memory. A test binary makes it its
/// global allocator.
pub struct CountingAllocator;

impl CountingAllocator {
    /// How often `work` asks for memory in this thread: new or larger pieces.
    pub fn count<T>(work: impl FnOnce() -> T) -> (u64, T) {
        let before = COUNT.get();
        let done = work();
        (COUNT.get() - before, done)
    }
}

// SAFETY: every call goes to the system's allocator as it came, and counting neither allocates nor unwinds.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: the caller keeps the rules of this very function.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: as above.
        unsafe { System.realloc(memory, layout, size) }
    }
}
