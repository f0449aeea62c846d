//! Inodes that are pinned: their descriptors, numbers and open files.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use esker_base::Errno;
use esker_vfs::{Attr, Entry, FileFlags, FileType, Ino};
use rustix::fs::{self, AtFlags, Mode, OFlags, Statx, StatxAttributes, StatxFlags};
use rustix::io;

use super::HostFsError;
use super::held::{Descriptor, Held, Keeper};
use crate::words::{errno, our_kind, stamp};

/// Most files that stay open for their bytes.
const OPEN_MAX: usize = 256;

/// The folder of this process's descriptors.
const OWN: &str = "/proc/self/fd";

/// Numbers of inodes outside the device of the root carry the number of their device above these bits.
const NUMBER_BITS: u32 = 48;

/// The device and the number by which the kernel knows an inode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Identity {
    device: (u32, u32),
    number: u64,
}

impl Identity {
    pub(super) fn of(stat: &Statx) -> Identity {
        Identity { device: (stat.stx_dev_major, stat.stx_dev_minor), number: stat.stx_ino }
    }
}

/// Ways in which a file is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Use {
    /// Its bytes are read.
    Read,
    /// Its bytes are changed.
    Change,
}

/// A file that is open for its bytes.
struct OpenFile {
    fd: Arc<OwnedFd>,
    reads: bool,
    changes: bool,
    /// Whether it was used since it last could have been closed.
    is_used: bool,
}

struct Inode {
    held: Held,
    identity: Identity,
    kind: FileType,
    pins: u64,
    open: Option<OpenFile>,
}

pub(super) struct Inodes {
    all: BTreeMap<Ino, Inode>,
    root: Ino,
    /// Devices in the order in which they were found; the first is that of the root.
    devices: Vec<(u32, u32)>,
    /// Inodes with open files, in the order in which they are looked at for closing.
    open: VecDeque<Ino>,
    keeper: Keeper,
    /// The folder of this process's descriptors.
    own: OwnedFd,
    is_closed: bool,
}

/// Where this process finds an open inode by a path: what calls take that want one.
pub(super) fn own_path(fd: &impl AsFd) -> String {
    format!("{OWN}/{}", fd.as_fd().as_raw_fd())
}

/// Attributes by a descriptor, which may be one of `O_PATH`.
pub(super) fn statx(fd: impl AsFd) -> io::Result<Statx> {
    fs::statx(fd, "", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS | StatxFlags::BTIME)
}

/// The same with our errors.
pub(super) fn stat(fd: impl AsFd) -> Result<Statx, Errno> {
    statx(fd).map_err(errno)
}

pub(super) fn kind_of(stat: &Statx) -> Result<FileType, Errno> {
    our_kind(fs::FileType::from_raw_mode(u32::from(stat.stx_mode))).ok_or(Errno::EIO)
}

/// Attributes in our words.
pub(super) fn attr_of(stat: &Statx) -> Result<Attr, Errno> {
    let time = |at: fs::StatxTimestamp| stamp(at.tv_sec, i64::from(at.tv_nsec));
    let changed = time(stat.stx_ctime);
    let has_birth = stat.stx_mask & StatxFlags::BTIME.bits() != 0;
    let flags = [
        (StatxAttributes::IMMUTABLE, FileFlags::IMMUTABLE),
        (StatxAttributes::APPEND, FileFlags::APPEND),
        (StatxAttributes::NODUMP, FileFlags::NODUMP),
    ];
    let flags = flags.into_iter().filter(|(theirs, _)| stat.stx_attributes.contains(*theirs));
    Ok(Attr {
        kind: kind_of(stat)?,
        mode: stat.stx_mode & 0o7777,
        links: stat.stx_nlink,
        uid: stat.stx_uid,
        gid: stat.stx_gid,
        device: fs::makedev(stat.stx_rdev_major, stat.stx_rdev_minor),
        size: stat.stx_size,
        allocated: stat.stx_blocks.saturating_mul(512),
        accessed: time(stat.stx_atime),
        modified: time(stat.stx_mtime),
        changed,
        born: has_birth.then(|| time(stat.stx_btime)),
        flags: FileFlags(flags.fold(0, |all, (_, ours)| all | ours.0)),
        version: changed.0.max(0).cast_unsigned(),
    })
}

fn entry_of(ino: Ino, stat: &Statx) -> Result<Entry, Errno> {
    let attr = attr_of(stat)?;
    // A number is used again only for an inode that is born later.
    let generation = attr.born.map_or(0, |born| born.0.max(0).cast_unsigned());
    Ok(Entry { ino, generation, attr })
}

impl Inodes {
    /// The root alone, pinned for ever.
    pub(super) fn new(root: OwnedFd, stat: &Statx, mut keeper: Keeper) -> Result<Inodes, HostFsError> {
        let own = fs::open(OWN, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        let own = own.map_err(|error| HostFsError::NoProc(error.into()))?;
        let identity = Identity::of(stat);
        let number = Ino(identity.number);
        let held = keeper.hold(root, true);
        let inode = Inode { held, identity, kind: FileType::Directory, pins: 1, open: None };
        let all = BTreeMap::from([(number, inode)]);
        let devices = vec![identity.device];
        Ok(Inodes { all, root: number, devices, open: VecDeque::new(), keeper, own, is_closed: false })
    }

    pub(super) fn root(&self) -> Ino {
        self.root
    }

    /// Pinned inodes, and open files.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.all.len(), self.open.len())
    }

    /// Ends the file system: later calls fail.
    pub(super) fn close(&mut self) {
        self.is_closed = true;
        self.open.clear();
        self.all.values_mut().for_each(|inode| inode.open = None);
    }

    /// Whether calls are made.
    pub(super) fn check(&self) -> Result<(), Errno> {
        if self.is_closed { Err(Errno::EIO) } else { Ok(()) }
    }

    fn get(&self, ino: Ino) -> Result<&Inode, Errno> {
        self.check()?;
        self.all.get(&ino).ok_or(Errno::ENOENT)
    }

    /// The kind of an inode.
    pub(super) fn kind(&self, ino: Ino) -> Result<FileType, Errno> {
        self.get(ino).map(|inode| inode.kind)
    }

    /// The descriptor of an inode.
    pub(super) fn path(&self, ino: Ino) -> Result<Descriptor<'_>, Errno> {
        self.keeper.descriptor(&self.get(ino)?.held)
    }

    /// The descriptor of a directory.
    pub(super) fn directory(&self, ino: Ino) -> Result<Descriptor<'_>, Errno> {
        match self.kind(ino)? {
            FileType::Directory => self.path(ino),
            _ => Err(Errno::ENOTDIR),
        }
    }

    /// Our number of an inode, if it is pinned.
    fn pinned(&self, identity: Identity) -> Option<Ino> {
        let device = self.devices.iter().position(|device| *device == identity.device)?;
        let ino = number(device, identity.number).ok()?;
        self.all.get(&ino).filter(|inode| inode.identity == identity).map(|_| ino)
    }

    /// Whether an inode is pinned.
    pub(super) fn knows(&self, identity: Identity) -> bool {
        self.pinned(identity).is_some()
    }

    /// Whether inodes can do without one.
    #[cfg(test)]
    pub(super) fn opens_handles(&self) -> bool {
        self.keeper.opens_handles()
    }

    /// Whether some inodes have no descriptor.
    pub(super) fn has_handles(&self) -> bool {
        self.keeper.has_handles()
    }

    /// Gives an inode that is pinned a descriptor, because its last name may go.
    pub(super) fn keep(&mut self, identity: Identity) -> Result<(), Errno> {
        let inode = self.pinned(identity).and_then(|ino| self.all.get_mut(&ino));
        inode.map_or(Ok(()), |inode| self.keeper.reopen(&mut inode.held))
    }

    pub(super) fn is_root(&self, identity: Identity) -> bool {
        self.all.get(&self.root).is_some_and(|root| root.identity == identity)
    }

    /// Our number of an entry of a directory.
    pub(super) fn number_in(&self, dir: Ino, entry: u64) -> Result<Ino, Errno> {
        let device = self.get(dir)?.identity.device;
        number(self.devices.iter().position(|known| *known == device).unwrap_or(0), entry)
    }

    /// Pins an inode that was found or made.
    pub(super) fn give(&mut self, path: OwnedFd, stat: &Statx) -> Result<Entry, Errno> {
        self.check()?;
        let identity = Identity::of(stat);
        let device = match self.devices.iter().position(|known| *known == identity.device) {
            Some(device) => device,
            None => {
                self.devices.push(identity.device);
                self.devices.len() - 1
            }
        };
        let entry = entry_of(number(device, identity.number)?, stat)?;
        let inode = self.all.entry(entry.ino).or_insert_with(|| {
            let held = self.keeper.hold(path, entry.attr.links > 0);
            Inode { held, identity, kind: entry.attr.kind, pins: 0, open: None }
        });
        if inode.identity != identity {
            return Err(Errno::EOVERFLOW);
        }
        inode.pins += 1;
        Ok(entry)
    }

    /// Pins an inode once more.
    pub(super) fn pin(&mut self, ino: Ino) -> Result<Entry, Errno> {
        let entry = entry_of(ino, &stat(self.path(ino)?)?)?;
        if let Some(inode) = self.all.get_mut(&ino) {
            inode.pins += 1;
        }
        Ok(entry)
    }

    /// Gives back pins of an inode.
    ///
    /// # Panics
    /// If it has fewer.
    pub(super) fn forget(&mut self, ino: Ino, pins: u64) {
        let had = self.all.get(&ino).map_or(0, |inode| inode.pins);
        assert!(pins <= had, "inode {} has {had} pins, and {pins} come back", ino.0);
        let Some(inode) = self.all.get_mut(&ino) else { return };
        inode.pins -= pins;
        if inode.pins > 0 {
            return;
        }
        // The root keeps the pin with which it was made.
        let Some(inode) = self.all.remove(&ino) else { return };
        self.keeper.let_go(&inode.held);
        if inode.open.is_some() {
            self.open.retain(|open| *open != ino);
        }
    }

    /// The folder of this process's descriptors, and the name of an inode in it.
    pub(super) fn own_name(&self, fd: &impl AsFd) -> (BorrowedFd<'_>, String) {
        (self.own.as_fd(), fd.as_fd().as_raw_fd().to_string())
    }

    /// Opens an inode anew, for what `O_PATH` does not do. Only files and directories are opened: to open another
    /// inode does something.
    pub(super) fn reopen(&self, ino: Ino, flags: OFlags) -> io::Result<OwnedFd> {
        let told = |errno: Errno| io::Errno::from_raw_os_error(i32::from(errno.0));
        if !matches!(self.kind(ino).map_err(told)?, FileType::File | FileType::Directory) {
            return Err(io::Errno::INVAL);
        }
        let path = self.path(ino).map_err(told)?;
        let (own, name) = self.own_name(&path);
        fs::openat(own, name, flags | OFlags::CLOEXEC | OFlags::NOCTTY, Mode::empty())
    }

    /// An open file of an inode. It stays open for the next call.
    pub(super) fn open_file(&mut self, ino: Ino, way: Use) -> Result<Arc<OwnedFd>, Errno> {
        self.check()?;
        let serves = |file: &OpenFile| if way == Use::Read { file.reads } else { file.changes };
        if let Some(file) = self.all.get_mut(&ino).and_then(|inode| inode.open.as_mut()).filter(|file| serves(file)) {
            file.is_used = true;
            return Ok(file.fd.clone());
        }
        let (fd, reads) = match way {
            Use::Read => (self.reopen(ino, OFlags::RDONLY), true),
            // Its owner may be denied to read it.
            Use::Change => match self.reopen(ino, OFlags::RDWR) {
                Err(io::Errno::ACCESS) => (self.reopen(ino, OFlags::WRONLY), false),
                fd => (fd, true),
            },
        };
        let fd = Arc::new(fd.map_err(errno)?);
        let file = OpenFile { fd: fd.clone(), reads, changes: way == Use::Change, is_used: false };
        if self.all.get_mut(&ino).ok_or(Errno::ENOENT)?.open.replace(file).is_none() {
            self.open.push_back(ino);
            self.make_room();
        }
        Ok(fd)
    }

    /// Closes the first file that was not used since it was last looked at.
    fn make_room(&mut self) {
        while self.open.len() > OPEN_MAX {
            let Some(ino) = self.open.pop_front() else { return };
            let Some(inode) = self.all.get_mut(&ino) else { continue };
            if inode.open.as_mut().is_some_and(|file| std::mem::take(&mut file.is_used)) {
                self.open.push_back(ino);
            } else {
                inode.open = None;
            }
        }
    }
}

/// Our number of an inode: the kernel's on the device of the root.
fn number(device: usize, number: u64) -> Result<Ino, Errno> {
    match device as u64 {
        0 if number != 0 => Ok(Ino(number)),
        device if number != 0 && number < 1 << NUMBER_BITS && device < 1 << (u64::BITS - NUMBER_BITS) => {
            Ok(Ino(device << NUMBER_BITS | number))
        }
        _ => Err(Errno::EOVERFLOW),
    }
}
