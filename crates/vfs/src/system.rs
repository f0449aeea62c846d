//! The trait of file systems.
//!
//! There are no open files below the trait: an inode number and a pin are all the state that a caller holds. Offsets,
//! flags and locks belong to front ends.
//!
//! Rules:
//! 1. A pinned inode keeps its number and its bytes, also without a name. Space of an inode without name and pin is
//!    given back, at the latest when the image is opened next.
//! 2. "." and ".." are no [`Name`]s: front ends give them, with cookies 1 and 2.
//! 3. A caller has checked permissions ([`access`](crate::access)). The file system checks what it alone knows: kinds,
//!    emptiness, loops, limits, room.
//! 4. A call that fails has changed nothing. A write may be short; an allocation may not.
//! 5. A change first reads what it needs and waits for room, and then applies itself without a wait. So a checkpoint
//!    always falls between calls.
//! 6. A hit is `Step::Now` and allocates nothing. What misses copies its names and boxes one future.

use std::sync::Arc;

use esker_base::{ByteRange, Errno};
use esker_block::{Buf, Stat, Step};

use crate::about::{About, Space};
use crate::attr::{Attr, Entry, New, SetAttr};
use crate::change::{Allocate, At, Change, Copying, Last, Lock, Remove, Rename, Seek, Sync, Write, Written, Xattr};
use crate::listing::Listing;
use crate::word::{Call, Cookie, Cred, Ino, Name};

/// The result of a call, now or later.
pub type Answer<T> = Step<Result<T, Errno>>;

/// What hears of [`Change`]s. Its answer comes when no cache holds the old state.
pub type Hearer = Arc<dyn Fn(Change) -> Step<()> + Send + std::marker::Sync>;

/// A failure, at once.
pub fn refuse<T>(errno: Errno) -> Answer<T> {
    Step::Now(Err(errno))
}

/// A file system. A value is a handle: clones of its inner state live in the futures that it gives out.
pub trait FileSystem {
    /// What it is, can and promises.
    fn about(&self) -> &About;

    /// The root, which is pinned for ever.
    fn root(&self) -> Ino;

    // Names. Each method is one change: visible as a whole or not at all, to every caller, at one instant.

    /// The inode of a name.
    ///
    /// # Errors
    /// `ENOENT`; `ENOTDIR` if `dir` is none.
    fn lookup(&self, call: Call, dir: Ino, name: Name<'_>) -> Answer<Entry>;

    /// The directory that holds a directory; the root's is the root.
    ///
    /// # Errors
    /// `ENOTDIR`; `ENOENT` if it was removed.
    fn parent(&self, call: Call, dir: Ino) -> Answer<Entry>;

    /// Pins an inode once more.
    ///
    /// # Errors
    /// `ENOENT` for a number that is not pinned.
    fn pin(&self, call: Call, ino: Ino) -> Answer<Entry>;

    /// Gives back pins of an inode.
    ///
    /// # Panics
    /// If it has fewer.
    fn forget(&self, ino: Ino, pins: u64);

    /// Makes an inode. Without a name it is there as long as it is pinned, or until [`link`](FileSystem::link) names
    /// it.
    ///
    /// # Errors
    /// `EEXIST`, `ENOENT` if the directory was removed, `ENOTDIR`, `EMLINK`, `ENOSPC`. `EINVAL` without a name for
    /// what is no file. `ENOENT` and `ENAMETOOLONG` for the target of a symbolic link.
    fn create(&self, call: Call, dir: Ino, name: Option<Name<'_>>, new: New<'_>) -> Answer<Entry>;

    /// Gives an inode one more name.
    ///
    /// # Errors
    /// `EEXIST`, `EPERM` for a directory, `ENOENT` if the inode was removed (but for files made without a name),
    /// `EMLINK`, `ENOSPC`.
    fn link(&self, call: Call, ino: Ino, dir: Ino, name: Name<'_>) -> Answer<Entry>;

    /// Removes a name.
    ///
    /// # Errors
    /// `ENOENT`, `EISDIR`, `ENOTDIR`, `ENOTEMPTY`.
    fn remove(&self, call: Call, dir: Ino, name: Name<'_>, what: Remove) -> Answer<()>;

    /// Moves a name.
    ///
    /// # Errors
    /// `ENOENT`, `EEXIST`, `EINVAL` if a directory would move into itself, `EISDIR`, `ENOTDIR`, `ENOTEMPTY`, `EMLINK`,
    /// `ENOSPC`.
    fn rename(&self, call: Call, from: (Ino, Name<'_>), to: (Ino, Name<'_>), how: Rename) -> Answer<()>;

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// `EINVAL` for another kind.
    fn target(&self, call: Call, ino: Ino) -> Answer<Box<[u8]>>;

    /// Adds the entries behind `from` to `into` until one does not fit. No entry added means the end, or that not
    /// even one fits.
    ///
    /// # Errors
    /// `ENOTDIR`; `ENOENT` if it was removed.
    fn list(&self, call: Call, dir: Ino, from: Cookie, into: Listing) -> Answer<Listing>;

    /// Walks a path without pins on its way, checking the right to search: `None` means *take the long way*
    /// ([`walk`](crate::walk::walk)), never *no*.
    fn walk_now(&self, _: Call, _: &Cred, _from: Ino, _path: &[u8], _: Last) -> Option<Result<Entry, Errno>> {
        None
    }

    // Attributes.

    /// Attributes of an inode.
    ///
    /// # Errors
    /// `ENOENT` for a number that is not pinned.
    fn attr(&self, call: Call, ino: Ino) -> Answer<Attr>;

    /// Sets attributes; the size is that of `truncate`.
    ///
    /// # Errors
    /// `EISDIR` or `EINVAL` for a size of what is no file, `EFBIG`, `ENOSPC`, `EOPNOTSUPP` for flags.
    fn set_attr(&self, call: Call, ino: Ino, set: SetAttr) -> Answer<Attr>;

    /// Reads or changes extended attributes. Answers no bytes for a change.
    ///
    /// # Errors
    /// See [`Xattr`]; `EOPNOTSUPP` for a prefix that is not stored; `ENOSPC`, `E2BIG`, `ERANGE`.
    fn xattr(&self, _: Call, _: Ino, _: Xattr<'_>) -> Answer<Box<[u8]>> {
        refuse(Errno::EOPNOTSUPP)
    }

    // Bytes.

    /// Reads `len` bytes, fewer only at the end.
    ///
    /// # Errors
    /// `EISDIR`, `EINVAL`, `EIO`.
    fn read(&self, call: Call, ino: Ino, at: u64, len: usize) -> Answer<Buf>;

    /// The same into memory of the caller, if nothing has to wait. `None` means *take the long way*, never *no*.
    fn read_now(&self, _: Call, _: Ino, _at: u64, _out: &mut [u8]) -> Option<Result<usize, Errno>> {
        None
    }

    /// Writes bytes; fewer if room runs out midway.
    ///
    /// # Errors
    /// `EISDIR`, `EINVAL`, `EFBIG`, `ENOSPC`, `EIO`, `EROFS`.
    fn write(&self, call: Call, ino: Ino, at: At, data: Buf, how: Write) -> Answer<Written>;

    /// The same from memory of the caller, if nothing has to wait. `None` means *take the long way*, never *no*.
    fn write_now(&self, _: Call, _: Ino, _: At, _data: &[u8], _: Write) -> Option<Result<Written, Errno>> {
        None
    }

    /// Reserves, punches or zeroes a range.
    ///
    /// # Errors
    /// `EISDIR`, `ENODEV` for what is no file, `EFBIG`, `ENOSPC`, `EOPNOTSUPP`.
    fn allocate(&self, call: Call, ino: Ino, range: ByteRange, how: Allocate) -> Answer<()>;

    /// Copies bytes between files, as many as the source has. Answers how many.
    ///
    /// # Errors
    /// `EISDIR`, `EINVAL` (also for ranges of one file that overlap), `EFBIG`, `ENOSPC`, `EOPNOTSUPP`.
    fn copy(&self, call: Call, from: (Ino, u64), to: (Ino, u64), len: u64, how: Copying) -> Answer<u64>;

    /// The next offset with data, or in a hole.
    ///
    /// # Errors
    /// `ENXIO` from the end on, and if no data follows; `EINVAL` for what is no file.
    fn seek(&self, call: Call, ino: Ino, at: u64, what: Seek) -> Answer<u64>;

    /// Makes what was changed before it durable.
    ///
    /// # Errors
    /// `EIO` if it cannot; then for ever.
    fn sync(&self, call: Call, what: Sync) -> Answer<()>;

    /// Takes, tests or ends a lock of bytes. [`LockCall::Test`](crate::LockCall::Test) answers a lock that is in the
    /// way.
    ///
    /// # Errors
    /// `EAGAIN`, `EDEADLK`. `ENOSYS`: the front end keeps locks.
    fn lock(&self, _: Call, _: Ino, _: Lock) -> Answer<Option<Lock>> {
        refuse(Errno::ENOSYS)
    }

    // The whole.

    /// Room.
    ///
    /// # Errors
    /// `EIO`.
    fn space(&self, call: Call) -> Answer<Space>;

    /// Does what an operator asks for in words: snapshots, classes.
    ///
    /// # Errors
    /// `EINVAL` for unknown words.
    fn ask(&self, _: &[String]) -> Answer<String> {
        refuse(Errno::EOPNOTSUPP)
    }

    /// Sets what hears of changes that others make. A file system that none but its caller changes has no use for it.
    fn on_change(&self, _: Hearer) {}

    /// Makes everything durable and ends. Later calls fail with `EIO`.
    ///
    /// # Errors
    /// `EIO`.
    fn close(&self) -> Answer<()>;

    /// Counters.
    fn stats(&self) -> Vec<Stat> {
        Vec::new()
    }
}

/// A file system that threads enter at once. Every method answers `Step::Now` (or `Some`), having waited in the calling
/// thread if it had to.
pub trait Direct: FileSystem + Send + std::marker::Sync {}
