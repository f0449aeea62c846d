//! Names: lookup, create, link, remove, rename, list.

use std::os::fd::{AsFd, OwnedFd};

use esker_base::Errno;
use esker_vfs::walk::PATH_BYTES_MAX;
use esker_vfs::{Cookie, Entry, FileType, Ino, Listing, Name, New, NewKind, Remove, Rename, Row};
use rustix::fs::{self, AtFlags, Mode, OFlags, ResolveFlags, SeekFrom, Statx, StatxFlags};
use rustix::io;

use super::HostFs;
use super::inodes::{Identity, kind_of, stat};
use crate::words::{errno, kernel_kind, mode_bits, our_kind, rename_flags};

/// Bytes of entries that are read at once.
const ENTRIES_ROOM: usize = 16 << 10;

/// Opens a name for nothing but calls on its inode: no link is followed, and no mount is entered.
fn open_name(dir: impl AsFd, name: Name<'_>) -> io::Result<OwnedFd> {
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    fs::openat2(dir, name.bytes(), OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty(), within)
}

fn open_above(dir: impl AsFd) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    fs::openat2(dir, "..", flags, Mode::empty(), ResolveFlags::NO_XDEV)
}

fn removal(is_directory: bool) -> AtFlags {
    if is_directory { AtFlags::REMOVEDIR } else { AtFlags::empty() }
}

impl HostFs {
    pub(super) fn find(&self, dir: Ino, name: Name<'_>) -> Result<Entry, Errno> {
        let found = open_name(self.inodes.borrow().directory(dir)?, name).map_err(errno)?;
        let stat = stat(&found)?;
        self.inodes.borrow_mut().give(found, &stat)
    }

    /// The directory above. It is never one outside the tree, also if another moved the directory there.
    pub(super) fn above(&self, dir: Ino) -> Result<Entry, Errno> {
        let inodes = self.inodes.borrow();
        let at = inodes.directory(dir)?;
        if dir == inodes.root() {
            drop(at);
            drop(inodes);
            return self.inodes.borrow_mut().pin(dir);
        }
        if stat(&at)?.stx_nlink == 0 {
            return Err(Errno::ENOENT);
        }
        let above = open_above(&at).map_err(errno)?;
        drop(at);
        drop(inodes);
        let facts = stat(&above)?;
        self.check_inside(&above, Identity::of(&facts))?;
        self.inodes.borrow_mut().give(above, &facts)
    }

    /// Walks up to the root, or to what was reached from there.
    fn check_inside(&self, dir: &OwnedFd, mut identity: Identity) -> Result<(), Errno> {
        let inodes = self.inodes.borrow();
        let mut above = None;
        while !inodes.is_root(identity) && !inodes.knows(identity) {
            let next = open_above(above.as_ref().unwrap_or(dir)).map_err(errno)?;
            let found = Identity::of(&stat(&next)?);
            // Only the root of this process is above itself.
            if found == identity {
                return Err(Errno::ENOENT);
            }
            (above, identity) = (Some(next), found);
        }
        Ok(())
    }

    pub(super) fn make(&self, dir: Ino, name: Name<'_>, new: New<'_>) -> Result<Entry, Errno> {
        let inodes = self.inodes.borrow();
        let at = inodes.directory(dir)?;
        make_name(&at, name, new)?;
        let own = || {
            let made = open_name(&at, name).map_err(errno)?;
            let facts = self.own(&made, new)?;
            Ok((made, facts))
        };
        let made = own().inspect_err(|_| {
            // What cannot be given to its owner does not stay.
            let _gone = fs::unlinkat(&at, name.bytes(), removal(new.what == NewKind::Directory));
        });
        drop(at);
        drop(inodes);
        let (made, facts) = made?;
        self.inodes.borrow_mut().give(made, &facts)
    }

    pub(super) fn make_nameless(&self, dir: Ino, new: New<'_>) -> Result<Entry, Errno> {
        if new.what != NewKind::File {
            return Err(Errno::EINVAL);
        }
        let inodes = self.inodes.borrow();
        let at = inodes.directory(dir)?;
        if stat(&at)?.stx_nlink == 0 {
            return Err(Errno::ENOENT);
        }
        let (own, place) = inodes.own_name(&at);
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let file = fs::openat(own, place, flags, mode_bits(new.mode & 0o777)).map_err(errno)?;
        let (own, place) = inodes.own_name(&file);
        let made = fs::openat(own, place, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(errno)?;
        drop(at);
        drop(inodes);
        let facts = self.own(&made, new)?;
        self.inodes.borrow_mut().give(made, &facts)
    }

    /// Gives a new inode its owner and mode, as far as it lacks them. Answers its attributes.
    fn own(&self, made: &OwnedFd, new: New<'_>) -> Result<Statx, Errno> {
        let mut facts = stat(made)?;
        if (facts.stx_uid, facts.stx_gid) != (new.uid, new.gid) {
            let (uid, gid) = (fs::Uid::from_raw(new.uid), fs::Gid::from_raw(new.gid));
            fs::chownat(made, "", Some(uid), Some(gid), AtFlags::EMPTY_PATH).map_err(errno)?;
            facts = stat(made)?;
        }
        if facts.stx_mode & 0o7777 != new.mode && kind_of(&facts)? != FileType::Symlink {
            self.chmod(made, new.mode)?;
            facts = stat(made)?;
        }
        Ok(facts)
    }

    /// Sets the mode of what is no symbolic link.
    pub(super) fn chmod(&self, path: impl AsFd, mode: u16) -> Result<(), Errno> {
        let inodes = self.inodes.borrow();
        let (own, name) = inodes.own_name(&path);
        fs::chmodat(own, name, mode_bits(mode), AtFlags::empty()).map_err(errno)
    }

    pub(super) fn add_name(&self, ino: Ino, dir: Ino, name: Name<'_>) -> Result<Entry, Errno> {
        let inodes = self.inodes.borrow();
        let at = inodes.directory(dir)?;
        if inodes.kind(ino)? == FileType::Directory {
            return Err(Errno::EPERM);
        }
        let path = inodes.path(ino)?;
        // The name of a descriptor is a link, which is followed once.
        let (own, old) = inodes.own_name(&path);
        fs::linkat(own, old, &at, name.bytes(), AtFlags::SYMLINK_FOLLOW).map_err(errno)?;
        drop((path, at));
        drop(inodes);
        self.inodes.borrow_mut().pin(ino)
    }

    pub(super) fn remove_name(&self, dir: Ino, name: Name<'_>, what: Remove) -> Result<(), Errno> {
        self.keep_what_goes(dir, name)?;
        let flags = removal(what == Remove::Directory);
        fs::unlinkat(self.inodes.borrow().directory(dir)?, name.bytes(), flags).map_err(errno)
    }

    /// Gives the inode of a name a descriptor if it has none, because its last name may go.
    fn keep_what_goes(&self, dir: Ino, name: Name<'_>) -> Result<(), Errno> {
        let inodes = self.inodes.borrow();
        if !inodes.has_handles() {
            return Ok(());
        }
        let at = inodes.directory(dir)?;
        let wanted = StatxFlags::INO | StatxFlags::NLINK | StatxFlags::TYPE;
        let found = fs::statx(&at, name.bytes(), AtFlags::SYMLINK_NOFOLLOW, wanted);
        drop(at);
        drop(inodes);
        // The call itself tells why there is no such name.
        let Ok(stat) = found else { return Ok(()) };
        match stat.stx_nlink > 1 && kind_of(&stat)? != FileType::Directory {
            true => Ok(()),
            false => self.inodes.borrow_mut().keep(Identity::of(&stat)),
        }
    }

    pub(super) fn move_name(&self, from: (Ino, Name<'_>), to: (Ino, Name<'_>), how: Rename) -> Result<(), Errno> {
        if how == Rename::Replace {
            self.keep_what_goes(to.0, to.1)?;
        }
        let inodes = self.inodes.borrow();
        let (old, new) = (inodes.directory(from.0)?, inodes.directory(to.0)?);
        match fs::renameat_with(old, from.1.bytes(), new, to.1.bytes(), rename_flags(how)).map_err(errno) {
            // XFS says so of a directory that is not empty.
            Err(Errno::EEXIST) if how == Rename::Replace => Err(Errno::ENOTEMPTY),
            moved => moved,
        }
    }

    pub(super) fn read_link(&self, ino: Ino) -> Result<Box<[u8]>, Errno> {
        let inodes = self.inodes.borrow();
        match inodes.kind(ino)? {
            FileType::Symlink => {
                let target = fs::readlinkat(inodes.path(ino)?, "", Vec::new()).map_err(errno)?;
                Ok(target.into_bytes().into())
            }
            _ => Err(Errno::EINVAL),
        }
    }

    pub(super) fn entries(&self, dir: Ino, from: Cookie, mut into: Listing) -> Result<Listing, Errno> {
        if self.inodes.borrow().kind(dir)? != FileType::Directory {
            return Err(Errno::ENOTDIR);
        }
        let open = self.inodes.borrow().reopen(dir, OFlags::RDONLY | OFlags::DIRECTORY).map_err(errno)?;
        if from > Cookie::RESERVED {
            fs::seek(&open, SeekFrom::Start(from.0)).map_err(errno)?;
        }
        let mut room = Vec::with_capacity(ENTRIES_ROOM);
        let mut dirents = fs::RawDir::new(&open, room.spare_capacity_mut());
        while let Some(dirent) = dirents.next() {
            let dirent = dirent.map_err(errno)?;
            let bytes = dirent.file_name().to_bytes();
            if matches!(bytes, b"." | b"..") {
                continue;
            }
            let (name, next) = (Name::new(bytes).map_err(|_| Errno::EIO)?, Cookie(dirent.next_entry_cookie()));
            if next <= Cookie::RESERVED || next.0 > i64::MAX.cast_unsigned() {
                return Err(Errno::EOVERFLOW);
            }
            if !into.fits(name) {
                break;
            }
            match self.row(dir, name, next, &dirent, into.wants_entries()) {
                Ok(row) => into.push(row),
                // It went meanwhile, or something is mounted on it.
                Err(Errno::ENOENT | Errno::EXDEV) => {}
                Err(error) if into.is_empty() => return Err(error),
                Err(_) => break,
            }
        }
        Ok(into)
    }

    fn row<'a>(
        &self,
        dir: Ino,
        name: Name<'a>,
        next: Cookie,
        dirent: &fs::RawDirEntry<'_>,
        with_entry: bool,
    ) -> Result<Row<'a>, Errno> {
        if with_entry {
            let entry = self.find(dir, name)?;
            return Ok(Row { ino: entry.ino, next, kind: entry.attr.kind, name, entry: Some(entry) });
        }
        let inodes = self.inodes.borrow();
        let kind = match our_kind(dirent.file_type()) {
            Some(kind) => kind,
            None => kind_of(&stat(open_name(inodes.directory(dir)?, name).map_err(errno)?)?)?,
        };
        Ok(Row { ino: inodes.number_in(dir, dirent.ino())?, next, kind, name, entry: None })
    }
}

/// Makes an inode of this process's owner.
fn make_name(dir: impl AsFd, name: Name<'_>, new: New<'_>) -> Result<(), Errno> {
    // Privileges come when the owner is set.
    let (path, mode) = (name.bytes(), mode_bits(new.mode & 0o1777));
    match new.what {
        NewKind::File => fs::mknodat(dir, path, fs::FileType::RegularFile, mode, 0),
        NewKind::Directory => fs::mkdirat(dir, path, mode),
        NewKind::Symlink([]) => return Err(Errno::ENOENT),
        NewKind::Symlink(target) if target.len() > PATH_BYTES_MAX => return Err(Errno::ENAMETOOLONG),
        NewKind::Symlink(target) => fs::symlinkat(target, dir, path),
        NewKind::Node(FileType::File | FileType::Directory | FileType::Symlink, _) => return Err(Errno::EINVAL),
        NewKind::Node(kind, device) => fs::mknodat(dir, path, kernel_kind(kind), mode, device),
    }
    .map_err(errno)
}
