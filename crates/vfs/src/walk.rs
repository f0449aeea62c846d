//! Walks of paths, and the last component of a path.
//!
//! [`Route`] decides each step and has no I/O, so that a walk that waits ([`walk`]) and one that does not
//! ([`FileSystem::walk_now`]) follow the same rules. They are those of `fs/namei.c` of Linux 6.

mod route;
#[cfg(test)]
mod tests;

use esker_base::Errno;

use crate::attr::Entry;
use crate::change::Last;
use crate::pinned::Pinned;
use crate::system::FileSystem;
use crate::word::{Call, Cred, Ino};

pub use route::{LINKS_MAX, PATH_BYTES_MAX, Route, Split, Tail, Turn, split};

/// Walks a path from a pinned directory, or from the root if the path begins with a slash. The inode at its end is
/// pinned once. [`FileSystem::walk_now`] is tried first.
///
/// # Errors
/// `ENOENT`, `ENOTDIR`, `EACCES`, `ELOOP` above [`LINKS_MAX`] links, `ENAMETOOLONG` above [`PATH_BYTES_MAX`] bytes;
/// those of the file system.
pub async fn walk<F: FileSystem + ?Sized>(
    fs: &F,
    call: Call,
    cred: &Cred,
    from: Ino,
    path: &[u8],
    last: Last,
) -> Result<Entry, Errno> {
    match fs.walk_now(call, cred, from, path, last) {
        Some(found) => found,
        None => walk_later(fs, call, cred, from, path, last).await,
    }
}

/// The long way: one call for each component. Each pin on the way is given back, also if the walk is dropped.
///
/// # Errors
/// As [`walk`].
pub async fn walk_later<F: FileSystem + ?Sized>(
    fs: &F,
    call: Call,
    cred: &Cred,
    from: Ino,
    path: &[u8],
    last: Last,
) -> Result<Entry, Errno> {
    let mut route = Route::new(path, last)?;
    let start = if route.is_absolute() { fs.root() } else { from };
    let mut here = Pinned::new(fs, fs.pin(call, start).await?);
    loop {
        let next = match route.turn(cred, &here.entry.attr)? {
            Turn::Arrived => return Ok(here.keep()),
            Turn::Up => fs.parent(call, here.entry.ino).await?,
            Turn::Down(name) => fs.lookup(call, here.entry.ino, name).await?,
        };
        let next = Pinned::new(fs, next);
        if !route.follows(next.entry.attr.kind) {
            here = next;
            continue;
        }
        let target = fs.target(call, next.entry.ino).await?;
        if route.follow(&target)? {
            here = Pinned::new(fs, fs.pin(call, fs.root()).await?);
        }
    }
}
