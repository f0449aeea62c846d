//! A pin that ends by itself.

use crate::attr::Entry;
use crate::system::FileSystem;

/// An inode whose pin is given back on drop.
pub(crate) struct Pinned<'f, F: FileSystem + ?Sized> {
    fs: &'f F,
    pub(crate) entry: Entry,
}

impl<'f, F: FileSystem + ?Sized> Pinned<'f, F> {
    pub(crate) fn new(fs: &'f F, entry: Entry) -> Pinned<'f, F> {
        Pinned { fs, entry }
    }

    /// The inode, whose pin passes to the caller.
    pub(crate) fn keep(self) -> Entry {
        let entry = self.entry;
        std::mem::forget(self);
        entry
    }
}

impl<F: FileSystem + ?Sized> Drop for Pinned<'_, F> {
    fn drop(&mut self) {
        self.fs.forget(self.entry.ino, 1);
    }
}
