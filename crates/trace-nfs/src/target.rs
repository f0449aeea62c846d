//! Where effects go: a directory, a file system of ours, or a model in tests.

use esker_base::{Errno, Nanos};

/// Bytes of a file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    /// All bytes.
    pub bytes: u64,
    /// Free bytes.
    pub bytes_free: u64,
}

/// A tree that a replay changes. Paths begin at its root without a slash. Their parts are names of entries, never `.`
/// or `..`. No symbolic link may be followed: a trace decides its text.
#[allow(async_fn_in_trait, reason = "a replay and its target stay on one thread")]
pub trait ReplayTarget {
    /// Makes a directory.
    ///
    /// # Errors
    /// `EEXIST`, `ENOSPC` and what else the system says.
    async fn make_dir(&mut self, path: &[u8]) -> Result<(), Errno>;

    /// Makes a file if it is not there; cuts one that is, if `truncate`.
    ///
    /// # Errors
    /// What the system says.
    async fn create(&mut self, path: &[u8], truncate: bool) -> Result<(), Errno>;

    /// Writes all of `data`, into a file that is made if it is not there.
    ///
    /// # Errors
    /// What the system says; then some of it may be written.
    async fn write(&mut self, path: &[u8], offset: u64, data: &[u8]) -> Result<(), Errno>;

    /// Removes a file or a symbolic link.
    ///
    /// # Errors
    /// What the system says.
    async fn remove(&mut self, path: &[u8]) -> Result<(), Errno>;

    /// Removes an empty directory.
    ///
    /// # Errors
    /// `ENOTEMPTY` and what else the system says.
    async fn remove_dir(&mut self, path: &[u8]) -> Result<(), Errno>;

    /// Moves a name onto a free one, or onto that of something of its kind.
    ///
    /// # Errors
    /// What the system says.
    async fn rename(&mut self, from: &[u8], to: &[u8]) -> Result<(), Errno>;

    /// Gives a file a further name.
    ///
    /// # Errors
    /// What the system says.
    async fn link(&mut self, old: &[u8], new: &[u8]) -> Result<(), Errno>;

    /// Makes a symbolic link with a text.
    ///
    /// # Errors
    /// What the system says.
    async fn symlink(&mut self, text: &[u8], path: &[u8]) -> Result<(), Errno>;

    /// Reads the attributes of a file, as `lstat` does.
    ///
    /// # Errors
    /// What the system says.
    async fn look(&mut self, path: &[u8]) -> Result<(), Errno>;

    /// Sets the permissions of a file or directory.
    ///
    /// # Errors
    /// What the system says.
    async fn set_mode(&mut self, path: &[u8], mode: u16) -> Result<(), Errno>;

    /// Sets the times of access and of change, since 1970; one that is not given stays.
    ///
    /// # Errors
    /// What the system says.
    async fn set_times(&mut self, path: &[u8], access: Option<Nanos>, change: Option<Nanos>) -> Result<(), Errno>;

    /// Makes everything durable.
    ///
    /// # Errors
    /// What the system says.
    async fn sync(&mut self) -> Result<(), Errno>;

    /// The bytes of its file system.
    ///
    /// # Errors
    /// What the system says.
    async fn room(&mut self) -> Result<Room, Errno>;

    /// Waits until a span has passed, of real or of virtual time.
    async fn wait(&mut self, span: Nanos);
}
