//! Puts a tree right, entry by entry.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::path::Path;

use esker_base::Progress;
use esker_trace_calls::{Entry, EntryKind, PathBytes};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_OMIT};
use rustix::io::Errno;

use super::manifest::{Manifest, Mark};
use super::{InitError, TREE_PART, Wanted, data, kernel, scan};
use crate::content::Content;
use crate::report::Initialised;
use crate::root::{Base, Cache, ParentDir, Root, is};
use crate::{special, xattrs};

/// A file that is larger than this must have about as many blocks as it has bytes; smaller ones may live in an inode.
const SPARSE_FROM: u64 = 64 << 10;
const BLOCK: u64 = 512;

/// One run.
pub(super) struct Restore<'a> {
    dir: &'a Path,
    root: &'a Root,
    wanted: &'a Wanted,
    before: &'a Manifest,
    after: Manifest,
    seed: u64,
    cache: Cache,
    /// The first name of each hard-link group that was put right.
    groups: BTreeMap<u64, (PathBytes, u64)>,
    /// How many names each hard-link group has.
    names: BTreeMap<u64, u64>,
    needed: u64,
    report: &'a mut dyn FnMut(Progress<'_>),
    /// What was done.
    pub done: Initialised,
    /// Entries that were put right, and bytes of their files.
    entries: u64,
    right: u64,
}

/// What was tried, for messages.
type Tried = (&'static str, Errno);

impl<'a> Restore<'a> {
    pub(super) fn new(
        dir: &'a Path,
        root: &'a Root,
        wanted: &'a Wanted,
        before: &'a Manifest,
        seed: u64,
        report: &'a mut dyn FnMut(Progress<'_>),
    ) -> Restore<'a> {
        let needed = wanted.values().map(data).fold(0, u64::saturating_add);
        let mut names = BTreeMap::new();
        for entry in wanted.values().filter(|entry| entry.group > 0) {
            *names.entry(entry.group).or_default() += 1;
        }
        Restore {
            dir,
            root,
            wanted,
            before,
            after: Manifest::default(),
            seed,
            cache: Cache::empty(),
            groups: BTreeMap::new(),
            names,
            needed,
            report,
            done: Initialised { entries: wanted.len() as u64, ..Initialised::default() },
            entries: 0,
            right: 0,
        }
    }

    /// Takes everything away.
    pub(super) fn clear(&mut self) -> Result<(), InitError> {
        let failed = |dir: &Path, source| kernel(dir, "/", "removing what is there", source);
        let here = self.open_root().map_err(|source| failed(self.dir, source))?;
        for name in scan::names_of(&here).map_err(|source| failed(self.dir, source))? {
            self.done.removed += scan::remove(&here, &name).map_err(|source| failed(self.dir, source))?;
        }
        Ok(())
    }

    /// Puts everything right; returns what it looks like then.
    pub(super) fn run(&mut self) -> Result<Manifest, InitError> {
        let here = self.open_root().map_err(|source| kernel(self.dir, "/", "opening", source))?;
        self.prune(&here, b"").map_err(|(what, source)| kernel(self.dir, "/", what, source))?;
        self.root.shift();
        self.check_space()?;
        for (path, entry) in self.wanted {
            self.put_right(path, entry).map_err(|tried| self.error(path, tried))?;
            self.entries += 1;
            self.right = self.right.saturating_add(data(entry));
            self.tell(self.right);
        }
        self.tell(self.needed);
        // What is in a directory changes its times: they come last, and so do permissions that would keep us out.
        for (path, entry) in self.wanted.iter().rev().filter(|(_, entry)| entry.kind == EntryKind::Directory) {
            self.finish_directory(path, entry).map_err(|tried| self.error(path, tried))?;
        }
        for path in self.wanted.keys() {
            let stat = self.place(path).and_then(|place| look(&place));
            let stat = stat.map_err(|tried| self.error(path, tried))?;
            self.after.note(path, Mark::of(&stat));
        }
        Ok(std::mem::take(&mut self.after))
    }

    fn tell(&mut self, bytes: u64) {
        (self.report)(Progress::bytes(TREE_PART, bytes, self.needed));
    }

    fn open_root(&self) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::openat(self.root.dir(), c".", flags, Mode::empty())
    }

    /// Compares what is missing with what is free, before the first byte.
    fn check_space(&mut self) -> Result<(), InitError> {
        let needed = self.missing().map_err(|(what, source)| kernel(self.dir, "/", what, source))?;
        match self.free() {
            Some(free) if needed > free => Err(InitError::TooLarge { dir: self.dir.to_path_buf(), needed, free }),
            _ => Ok(()),
        }
    }

    /// Bytes of files that are not there yet. Names of one file count once.
    fn missing(&mut self) -> Result<u64, Tried> {
        let (mut missing, mut counted) = (0u64, BTreeSet::new());
        for (path, entry) in self.wanted {
            if data(entry) == 0 || entry.group > 0 && !counted.insert(entry.group) {
                continue;
            }
            let there = match self.root.handle(Base::Root, path, false).and_then(|file| rustix::fs::fstat(&file)) {
                Ok(stat) if is(&stat, FileType::RegularFile) => (stat.st_blocks as u64).saturating_mul(BLOCK),
                Ok(_) | Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => 0,
                Err(e) => return Err(("looking at it", e)),
            };
            missing = missing.saturating_add(data(entry).saturating_sub(there));
        }
        Ok(missing)
    }

    /// Bytes free in the tree's file system for this user; nothing where it does not tell.
    fn free(&self) -> Option<u64> {
        let stat = rustix::fs::fstatvfs(self.root.dir()).ok().filter(|stat| stat.f_blocks > 0)?;
        let blocks = if rustix::process::geteuid().is_root() { stat.f_bfree } else { stat.f_bavail };
        Some(blocks.saturating_mul(stat.f_frsize))
    }

    fn error(&self, path: &PathBytes, (what, source): Tried) -> InitError {
        if source != Errno::NOSPC {
            return kernel(self.dir, &path.to_string(), what, source);
        }
        let free = self.free().unwrap_or(0);
        InitError::NoSpace {
            dir: self.dir.to_path_buf(),
            path: path.clone(),
            made: self.entries,
            all: self.wanted.len() as u64,
            bytes: self.done.bytes,
            needed: self.needed,
            free,
        }
    }

    /// Removes what is not wanted, or wanted as something else.
    fn prune(&mut self, dir: &OwnedFd, path: &[u8]) -> Result<(), Tried> {
        for name in scan::names_of(dir).map_err(|e| ("listing", e))? {
            let here = [path, b"/", name.as_bytes()].concat();
            let stat = scan::look(dir, &name).map_err(|e| ("looking at an entry", e))?;
            let wanted = self.wanted.get(&PathBytes::from(&here));
            if !wanted.is_some_and(|entry| special::fits(&entry.kind, &stat)) {
                self.done.removed += scan::remove(dir, &name).map_err(|e| ("removing", e))?;
            } else if is(&stat, FileType::Directory) {
                self.prune(&scan::enter(dir, &name).map_err(|e| ("entering", e))?, &here)?;
            }
        }
        Ok(())
    }

    fn place(&mut self, path: &PathBytes) -> Result<ParentDir, Tried> {
        self.root.place(&mut self.cache, Base::Root, path).map_err(|e| ("finding its directory", e))
    }

    fn put_right(&mut self, path: &PathBytes, entry: &Entry) -> Result<(), Tried> {
        let place = self.place(path)?;
        let there = match look(&place) {
            Err((_, Errno::NOENT)) => None,
            other => Some(other?),
        };
        let linked = there.as_ref().is_none_or(|stat| self.is_linked_right(path, entry, stat));
        match there {
            Some(stat) if linked && self.before.proves(path, Mark::of(&stat)) && is_filled(entry, &stat) => {}
            Some(stat) if linked => self.mend(&place, path, entry, &stat)?,
            Some(_) => {
                rustix::fs::unlinkat(&place.dir, &place.leaf, AtFlags::empty()).map_err(|e| ("unlinking", e))?;
                self.done.removed += 1;
                self.make(&place, path, entry)?;
            }
            None => self.make(&place, path, entry)?,
        }
        if entry.group > 0 && !self.groups.contains_key(&entry.group) {
            self.groups.insert(entry.group, (path.clone(), look(&place)?.st_ino));
        }
        Ok(())
    }

    /// Whether a name leads to the same file as the other names of its group, and to no other.
    fn is_linked_right(&self, path: &PathBytes, entry: &Entry, stat: &Stat) -> bool {
        if entry.kind == EntryKind::Directory {
            return true;
        }
        match self.groups.get(&entry.group) {
            Some((first, inode)) => first == path || stat.st_ino == *inode,
            // A file whose names are not all wanted together gets a new inode; so does one of a group that has too
            // many.
            None => {
                entry.group > 0 && stat.st_nlink > 1 && self.names_of(entry.group) == stat.st_nlink
                    || stat.st_nlink == 1
            }
        }
    }

    fn names_of(&self, group: u64) -> u64 {
        self.names.get(&group).copied().unwrap_or(0)
    }

    fn make(&mut self, place: &ParentDir, path: &PathBytes, entry: &Entry) -> Result<(), Tried> {
        self.done.made += 1;
        let (dir, leaf) = (&place.dir, &place.leaf);
        if let Some((first, _)) = self.groups.get(&entry.group).cloned() {
            let first = self.place(&first)?;
            let linked = rustix::fs::linkat(&first.dir, &first.leaf, dir, leaf, AtFlags::empty());
            return linked.map_err(|e| ("linking", e));
        }
        match &entry.kind {
            EntryKind::File { size } => {
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let file =
                    rustix::fs::openat(dir, leaf, flags, Mode::RUSR | Mode::WUSR).map_err(|e| ("creating", e))?;
                self.fill(&file, path, 0, data(entry))?;
                if entry.holes > 0 {
                    rustix::fs::ftruncate(&file, *size).map_err(|e| ("truncating", e))?;
                }
            }
            // Its own permissions come last.
            EntryKind::Directory => {
                rustix::fs::mkdirat(dir, leaf, Mode::RWXU).map_err(|e| ("making a directory", e))?
            }
            EntryKind::Symlink { target } => {
                let target = CString::new(target.as_bytes()).map_err(|_| ("making a link", Errno::INVAL))?;
                rustix::fs::symlinkat(&target, dir, leaf).map_err(|e| ("making a link", e))?;
            }
            other => {
                let note = special::make(dir, leaf, other).map_err(|e| ("making a special file", e))?;
                self.done.notes.extend(note.map(|note| format!("{path}: {note}")));
            }
        }
        self.finish(place, path, entry)
    }

    /// Puts right what is of the right type already.
    fn mend(&mut self, place: &ParentDir, path: &PathBytes, entry: &Entry, stat: &Stat) -> Result<(), Tried> {
        let mut changed = false;
        if let EntryKind::File { size } = entry.kind {
            changed = !is_filled(entry, stat);
            if changed {
                self.fill_anew(place, path, (size, data(entry)), stat)?;
            }
        }
        if let EntryKind::Symlink { target } = &entry.kind {
            let there =
                rustix::fs::readlinkat(&place.dir, &place.leaf, Vec::new()).map_err(|e| ("reading a link", e))?;
            if there.as_bytes() != target.as_bytes() {
                rustix::fs::unlinkat(&place.dir, &place.leaf, AtFlags::empty()).map_err(|e| ("unlinking", e))?;
                return self.make(place, path, entry);
            }
        }
        changed |= stat.st_mode & 0o7777 != u32::from(entry.mode) && !is(stat, FileType::Symlink);
        changed |= entry.modified != 0 && modified_ns(stat) != entry.modified;
        if changed {
            self.done.changed += 1;
        }
        self.finish(place, path, entry)
    }

    /// Data comes first in a file, its holes behind that.
    fn fill_anew(
        &mut self,
        place: &ParentDir,
        path: &PathBytes,
        (size, data): (u64, u64),
        stat: &Stat,
    ) -> Result<(), Tried> {
        if stat.st_mode & 0o200 == 0 {
            rustix::fs::chmodat(&place.dir, &place.leaf, Mode::RUSR | Mode::WUSR, AtFlags::empty())
                .map_err(|e| ("making writable", e))?;
        }
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&place.dir, &place.leaf, flags, Mode::empty()).map_err(|e| ("opening", e))?;
        let keep = if has_other_holes(stat, data) { 0 } else { data.min(stat.st_size as u64) };
        rustix::fs::ftruncate(&file, keep).map_err(|e| ("truncating", e))?;
        self.fill(&file, path, keep, data)?;
        if data < size {
            rustix::fs::ftruncate(&file, size).map_err(|e| ("truncating", e))?;
        }
        Ok(())
    }

    fn fill(&mut self, file: &OwnedFd, path: &PathBytes, from: u64, to: u64) -> Result<(), Tried> {
        let mut content = Content::of(self.seed, path);
        let mut at = from;
        while at < to {
            let mut chunk = content.next(to - at);
            while !chunk.is_empty() {
                let written = rustix::io::retry_on_intr(|| rustix::io::pwrite(file, chunk, at));
                let written = written.map_err(|e| ("writing data", e))?;
                (chunk, at) = (&chunk[written..], at + written as u64);
                self.done.bytes += written as u64;
            }
            self.tell(self.right.saturating_add(at - from));
        }
        Ok(())
    }

    /// Permissions, attributes and times of anything but a directory.
    fn finish(&mut self, place: &ParentDir, path: &PathBytes, entry: &Entry) -> Result<(), Tried> {
        if entry.kind == EntryKind::Directory {
            return Ok(());
        }
        self.attributes(place, path, entry)?;
        if !matches!(entry.kind, EntryKind::Symlink { .. }) && !special::is_link(&entry.kind, &place.dir, &place.leaf) {
            let mode = Mode::from_raw_mode(entry.mode.into());
            rustix::fs::chmodat(&place.dir, &place.leaf, mode, AtFlags::empty())
                .map_err(|e| ("setting permissions", e))?;
        }
        set_modified(place, entry)
    }

    fn finish_directory(&mut self, path: &PathBytes, entry: &Entry) -> Result<(), Tried> {
        let place = self.place(path)?;
        let stat = look(&place)?;
        if self.before.proves(path, Mark::of(&stat)) {
            return Ok(());
        }
        self.attributes(&place, path, entry)?;
        let wrong_mode = stat.st_mode & 0o7777 != u32::from(entry.mode);
        if wrong_mode {
            let mode = Mode::from_raw_mode(entry.mode.into());
            rustix::fs::chmodat(&place.dir, &place.leaf, mode, AtFlags::empty())
                .map_err(|e| ("setting permissions", e))?;
        }
        if entry.modified != 0 && modified_ns(&stat) != entry.modified {
            set_modified(&place, entry)?;
        }
        Ok(())
    }

    /// Attributes that cannot be set are noted: file systems differ in what they take.
    fn attributes(&mut self, place: &ParentDir, path: &PathBytes, entry: &Entry) -> Result<(), Tried> {
        let refused = xattrs::restore(place, &entry.xattrs, &mut Content::of(self.seed, path));
        let refused = refused.map_err(|e| ("listing attributes", e))?;
        self.done.notes.extend(refused.into_iter().map(|(name, e)| format!("{path}: attribute {name}: {e}")));
        Ok(())
    }
}

/// Whether a file has the size and about the holes that it should have, which another trace may want otherwise.
fn is_filled(entry: &Entry, stat: &Stat) -> bool {
    let EntryKind::File { size } = entry.kind else { return true };
    stat.st_size as u64 == size && !has_other_holes(stat, data(entry))
}

/// Whether a file has many more or fewer blocks than so many bytes of data need.
fn has_other_holes(stat: &Stat, data: u64) -> bool {
    let (there, blocks) = (stat.st_size as u64, (stat.st_blocks as u64) * BLOCK);
    let data = data.min(there);
    let has_hole = there >= SPARSE_FROM && blocks + SPARSE_FROM < data;
    let lacks_hole = data < there && blocks > data + SPARSE_FROM;
    has_hole || lacks_hole
}

fn look(place: &ParentDir) -> Result<Stat, Tried> {
    rustix::fs::statat(&place.dir, &place.leaf, AtFlags::SYMLINK_NOFOLLOW).map_err(|e| ("looking at it", e))
}

#[allow(clippy::unnecessary_cast, reason = "the widths differ between processors")]
fn modified_ns(stat: &Stat) -> i64 {
    stat.st_mtime as i64 * 1_000_000_000 + stat.st_mtime_nsec as i64
}

fn set_modified(place: &ParentDir, entry: &Entry) -> Result<(), Tried> {
    if entry.modified == 0 {
        return Ok(());
    }
    let last_modification = Timespec {
        tv_sec: entry.modified.div_euclid(1_000_000_000),
        tv_nsec: entry.modified.rem_euclid(1_000_000_000),
    };
    let last_access = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    let times = Timestamps { last_access, last_modification };
    rustix::fs::utimensat(&place.dir, &place.leaf, &times, AtFlags::SYMLINK_NOFOLLOW).map_err(|e| ("setting times", e))
}
