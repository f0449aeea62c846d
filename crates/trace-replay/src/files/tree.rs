//! The tree with which traces begin, made through the file system, and the tree that they leave.

use std::collections::BTreeMap;

use esker_base::Errno;
use esker_fs_posix::{Fd, Follow, OpenFlags, Process, SetTime};
use esker_trace_calls::{Entry, EntryKind, FinalTree, PathBytes, Platform};
use esker_vfs::{FileType, Stamp, XattrSet};

use crate::content::Content;
use crate::init::{Wanted, data};
use crate::report::Initialised;
use crate::settled::{Names, SeenEntry};
use crate::xattrs;

/// Where making a tree ended.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {what}: {errno}")]
pub struct TreeError {
    /// The path.
    pub path: PathBytes,
    /// What was tried.
    pub what: &'static str,
    /// The file system's answer.
    pub errno: Errno,
}

/// Room for entries of a directory in one call.
const ENTRIES: usize = 64 << 10;

/// Makes the tree in an empty file system.
///
/// # Errors
/// [`TreeError`].
pub(super) async fn make(process: &Process, wanted: &Wanted, seed: u64) -> Result<Initialised, TreeError> {
    let mut making = Making { process, seed, groups: BTreeMap::new(), done: Initialised::default() };
    for (path, entry) in wanted {
        making.entry(path, entry).await?;
    }
    // What is in a directory changes its times: they come last, and so do permissions.
    for (path, entry) in wanted.iter().rev().filter(|(_, entry)| entry.kind == EntryKind::Directory) {
        making.finish(path, entry).await?;
    }
    process.sync().await.map_err(error(&PathBytes::from("/"), "writing back"))?;
    let count = wanted.len() as u64;
    Ok(Initialised { mode: "full".to_string(), entries: count, made: count, ..making.done })
}

fn error(path: &PathBytes, what: &'static str) -> impl FnOnce(Errno) -> TreeError {
    move |errno| TreeError { path: path.clone(), what, errno }
}

struct Making<'a> {
    process: &'a Process,
    seed: u64,
    /// The first name of each hard-link group.
    groups: BTreeMap<u64, PathBytes>,
    done: Initialised,
}

impl Making<'_> {
    async fn entry(&mut self, path: &PathBytes, entry: &Entry) -> Result<(), TreeError> {
        let process = self.process;
        if let Some(first) = self.groups.get(&entry.group).filter(|_| entry.group > 0) {
            let linked = process.link(first.as_bytes(), path.as_bytes(), Follow::Nothing).await;
            return linked.map_err(error(path, "linking"));
        }
        let at = path.as_bytes();
        let made = match &entry.kind {
            EntryKind::File { size } => self.file(path, *size, data(entry)).await,
            EntryKind::Directory => return process.mkdir(at, 0o700).await.map_err(error(path, "making")),
            EntryKind::Symlink { target } => process.symlink(target, at).await,
            EntryKind::Fifo => process.mknod(at, FileType::Fifo, 0o600, 0).await,
            EntryKind::Socket => process.mknod(at, FileType::Socket, 0o600, 0).await,
            EntryKind::Device { block, major, minor } => {
                let kind = if *block { FileType::BlockDevice } else { FileType::CharDevice };
                process.mknod(at, kind, 0o600, rustix::fs::makedev(*major, *minor)).await
            }
        };
        made.map_err(error(path, "making"))?;
        if entry.group > 0 {
            self.groups.insert(entry.group, path.clone());
        }
        self.finish(path, entry).await
    }

    /// Data comes first in a file, its holes behind that.
    async fn file(&mut self, path: &PathBytes, size: u64, data: u64) -> Result<(), Errno> {
        let flags = OpenFlags::WRONLY | OpenFlags::CREAT | OpenFlags::EXCL;
        let fd = self.process.open(path.as_bytes(), flags, 0o600).await?;
        let filled = self.fill(path, fd, size, data).await;
        self.process.close(fd).await?;
        filled
    }

    async fn fill(&mut self, path: &PathBytes, fd: Fd, size: u64, data: u64) -> Result<(), Errno> {
        let mut content = Content::of(self.seed, path);
        let mut at = 0;
        while at < data {
            let mut chunk = content.next(data - at);
            while !chunk.is_empty() {
                let written = self.process.pwrite(fd, chunk, at as i64).await?;
                (chunk, at) = (&chunk[written..], at + written as u64);
                self.done.bytes += written as u64;
            }
        }
        if data < size { self.process.truncate(fd, size as i64).await } else { Ok(()) }
    }

    /// Attributes, permissions and times. Attributes that the file system refuses are noted.
    async fn finish(&mut self, path: &PathBytes, entry: &Entry) -> Result<(), TreeError> {
        let (process, at) = (self.process, path.as_bytes());
        let mut content = Content::of(self.seed, path);
        for xattr in &entry.xattrs {
            let name = xattrs::name(Platform::Linux, xattr.name.as_bytes());
            let value = content.next(u64::from(xattr.len)).to_vec();
            if let Err(errno) = process.set_xattr(at, &name, &value, XattrSet::Any, Follow::Nothing).await {
                let name = String::from_utf8_lossy(&name).into_owned();
                self.done.notes.push(format!("{path}: attribute {name}: {errno}"));
            }
        }
        if !matches!(entry.kind, EntryKind::Symlink { .. }) {
            let set = process.chmod(at, entry.mode, Follow::Nothing).await;
            set.map_err(error(path, "setting permissions"))?;
        }
        if entry.modified != 0 {
            let to = SetTime::To(Stamp(entry.modified));
            let set = process.set_times(at, SetTime::Keep, to, Follow::Nothing).await;
            set.map_err(error(path, "setting times"))?;
        }
        Ok(())
    }
}

/// What lies at and below the directories that the recorder looked at; directories above may be missing.
///
/// # Errors
/// The file system's.
pub(super) async fn look(process: &Process, after: &FinalTree) -> Result<Names, Errno> {
    let mut names = Names::new();
    for root in &after.roots {
        let mut left = vec![root.clone()];
        while let Some(path) = left.pop() {
            let seen = match process.stat(path.as_bytes(), Follow::Nothing).await {
                Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => continue,
                other => other?,
            };
            if seen.attr.kind == FileType::Directory {
                left.extend(below(process, &path).await?.into_iter().filter(|path| after.covers(path)));
            }
            if path.as_bytes() == b"/" || !after.covers(&path) {
                continue;
            }
            let kind = kind(process, &path, seen.attr.kind, seen.attr.size).await?;
            let has_names = seen.attr.kind != FileType::Directory && seen.attr.links > 1;
            let entry = Entry { mode: seen.attr.mode, group: u64::from(has_names), ..Entry::plain(kind) };
            names.insert(path, SeenEntry { entry, file: (0, seen.ino.0), is_device: false });
        }
    }
    Ok(names)
}

async fn below(process: &Process, path: &PathBytes) -> Result<Vec<PathBytes>, Errno> {
    let fd = process.open(path.as_bytes(), OpenFlags::DIRECTORY | OpenFlags::NOFOLLOW, 0).await?;
    let mut paths = Vec::new();
    loop {
        let entries = process.list(fd, ENTRIES).await?;
        if entries.is_empty() {
            process.close(fd).await?;
            return Ok(paths);
        }
        let names = entries.iter().map(|entry| &entry.name[..]).filter(|name| !matches!(*name, b"." | b".."));
        let dir = path.strip_suffix(b"/").unwrap_or(path);
        paths.extend(names.map(|name| PathBytes::from([dir, b"/", name].concat())));
    }
}

async fn kind(process: &Process, path: &PathBytes, kind: FileType, size: u64) -> Result<EntryKind, Errno> {
    Ok(match kind {
        FileType::File => EntryKind::File { size },
        FileType::Directory => EntryKind::Directory,
        FileType::Symlink => {
            EntryKind::Symlink { target: PathBytes::from(process.readlink(path.as_bytes()).await?.into_vec()) }
        }
        FileType::Fifo => EntryKind::Fifo,
        FileType::Socket => EntryKind::Socket,
        FileType::CharDevice => EntryKind::Device { block: false, major: 0, minor: 0 },
        FileType::BlockDevice => EntryKind::Device { block: true, major: 0, minor: 0 },
    })
}
