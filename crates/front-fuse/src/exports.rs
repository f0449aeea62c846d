//! Exports as a file system: one directory, and in it a file for each export, which is its device.
//!
//! Names and numbers stay as they are while it is mounted; only sizes change.

use std::rc::Rc;

use esker_base::{ByteRange, Errno, Nanos};
use esker_block::{Buf, Step};
use esker_rt::Rt;
use esker_rt::sync::race;
use esker_vfs::{
    Abilities, About, Allocate, Answer, At, Attr, Call, Cookie, Copying, Entry, FileFlags, FileSystem, FileType, Ino,
    Listing, Name, New, Promise, Remove, Rename, Row, Seek, SetAttr, Space, Stamp, Sync, Write, Written, refuse,
};

use crate::isolated;
use crate::volume::Volume;

const ROOT: Ino = Ino(1);
/// The inode of the first file.
const FIRST: u64 = ROOT.0 + 1;

const DIRECTORY: u16 = 0o700;
const FILE: u16 = 0o600;
const FILE_READ_ONLY: u16 = 0o400;

/// A range that was cloned may be cached by readers of the device. The kernel holds the file locked until the answer,
/// so that forgetting may have to wait for it: no longer than this.
const FORGET_MAX: Nanos = Nanos::millis(1000);

/// The least granularity of discards, in bytes.
const DISCARD_MIN: u32 = 4096;

/// A file system whose files are devices.
pub(crate) struct Exports {
    rt: Rt,
    about: About,
    volumes: Vec<Rc<Volume>>,
}

impl Exports {
    pub(crate) fn new(rt: &Rt, volumes: Vec<Rc<Volume>>) -> Exports {
        // A loop device takes the granularity of its discards from the size of the file system's blocks.
        let discard = volumes.iter().map(|volume| volume.discard()).max().unwrap_or(DISCARD_MIN);
        Exports { rt: rt.clone(), about: about(discard), volumes }
    }

    pub(crate) fn volumes(&self) -> &[Rc<Volume>] {
        &self.volumes
    }

    fn volume(&self, ino: Ino) -> Result<&Rc<Volume>, Errno> {
        if ino == ROOT {
            return Err(Errno::EISDIR);
        }
        let index = ino.0.checked_sub(FIRST).and_then(|index| usize::try_from(index).ok());
        index.and_then(|index| self.volumes.get(index)).ok_or(Errno::ENOENT)
    }

    fn entry(&self, ino: Ino) -> Result<Entry, Errno> {
        Ok(Entry { ino, generation: 0, attr: self.attributes(ino)? })
    }

    fn attributes(&self, ino: Ino) -> Result<Attr, Errno> {
        if ino == ROOT {
            return Ok(Attr { kind: FileType::Directory, mode: DIRECTORY, links: 2, ..file(0) });
        }
        let volume = self.volume(ino)?;
        let mode = if volume.is_read_only() { FILE_READ_ONLY } else { FILE };
        Ok(Attr { mode, ..file(volume.size()) })
    }

    /// Something with the volume of a file.
    fn with<T>(&self, ino: Ino, act: impl FnOnce(&Rc<Volume>) -> Answer<T>) -> Answer<T> {
        match self.volume(ino) {
            Ok(volume) => act(volume),
            Err(errno) => refuse(errno),
        }
    }
}

fn file(size: u64) -> Attr {
    let never = Stamp(0);
    Attr {
        kind: FileType::File,
        mode: FILE,
        links: 1,
        uid: 0,
        gid: 0,
        device: 0,
        size,
        allocated: size,
        accessed: never,
        modified: never,
        changed: never,
        born: None,
        flags: FileFlags::NONE,
        version: 0,
    }
}

fn about(block: u32) -> About {
    About {
        kind: "exports",
        id: 0,
        block,
        grain: Nanos(1),
        times: Stamp(0)..=Stamp(0),
        links_max: 1,
        size_max: u64::MAX,
        // What was flushed stays, each device for itself.
        promise: Promise::Weak,
        can: Abilities {
            xattrs: false,
            hard_links: false,
            symlinks: false,
            nodes: false,
            access_times: false,
            exchange: false,
            reserve: false,
            punch: true,
            holes: false,
            share: true,
            locks: false,
            flags: false,
        },
    }
}

impl FileSystem for Exports {
    fn about(&self) -> &About {
        &self.about
    }

    fn root(&self) -> Ino {
        ROOT
    }

    fn lookup(&self, _: Call, dir: Ino, name: Name<'_>) -> Answer<Entry> {
        if dir != ROOT {
            return refuse(Errno::ENOTDIR);
        }
        let found = (FIRST..).zip(&self.volumes).find(|(_, volume)| volume.name.as_bytes() == name.bytes());
        Step::Now(found.ok_or(Errno::ENOENT).and_then(|(ino, _)| self.entry(Ino(ino))))
    }

    fn parent(&self, _: Call, dir: Ino) -> Answer<Entry> {
        if dir == ROOT { Step::Now(self.entry(ROOT)) } else { refuse(Errno::ENOTDIR) }
    }

    fn pin(&self, _: Call, ino: Ino) -> Answer<Entry> {
        Step::Now(self.entry(ino))
    }

    /// Files live as long as the file system.
    fn forget(&self, _: Ino, _: u64) {}

    fn create(&self, _: Call, _: Ino, _: Option<Name<'_>>, _: New<'_>) -> Answer<Entry> {
        refuse(Errno::EPERM)
    }

    fn link(&self, _: Call, _: Ino, _: Ino, _: Name<'_>) -> Answer<Entry> {
        refuse(Errno::EPERM)
    }

    fn remove(&self, _: Call, _: Ino, _: Name<'_>, _: Remove) -> Answer<()> {
        refuse(Errno::EPERM)
    }

    fn rename(&self, _: Call, _: (Ino, Name<'_>), _: (Ino, Name<'_>), _: Rename) -> Answer<()> {
        refuse(Errno::EPERM)
    }

    fn target(&self, _: Call, _: Ino) -> Answer<Box<[u8]>> {
        refuse(Errno::EINVAL)
    }

    fn list(&self, _: Call, dir: Ino, from: Cookie, mut into: Listing) -> Answer<Listing> {
        if dir != ROOT {
            return refuse(Errno::ENOTDIR);
        }
        let cookies = Cookie::RESERVED.0 + 1..;
        for (cookie, (ino, volume)) in cookies.zip((FIRST..).zip(&self.volumes)) {
            let Ok(name) = Name::new(volume.name.as_bytes()) else { continue };
            if cookie <= from.0 {
                continue;
            }
            if !into.fits(name) {
                break;
            }
            let entry = if into.wants_entries() { self.entry(Ino(ino)).ok() } else { None };
            into.push(Row { ino: Ino(ino), next: Cookie(cookie), kind: FileType::File, name, entry });
        }
        Step::Now(Ok(into))
    }

    fn attr(&self, _: Call, ino: Ino) -> Answer<Attr> {
        Step::Now(self.attributes(ino))
    }

    fn set_attr(&self, _: Call, _: Ino, _: SetAttr) -> Answer<Attr> {
        refuse(Errno::EPERM)
    }

    fn read(&self, call: Call, ino: Ino, at: u64, len: usize) -> Answer<Buf> {
        self.with(ino, |volume| volume.read(at, len, call.tag))
    }

    fn write(&self, call: Call, ino: Ino, at: At, data: Buf, _: Write) -> Answer<Written> {
        // A device does not grow.
        let At::Offset(at) = at else { return refuse(Errno::EFBIG) };
        let bytes = data.len() as u64;
        let end = at.saturating_add(bytes);
        self.with(ino, |volume| {
            volume.write(at, data, call.tag).map(move |answer| answer.map(|()| Written { bytes, end }))
        })
    }

    fn allocate(&self, call: Call, ino: Ino, range: ByteRange, how: Allocate) -> Answer<()> {
        self.with(ino, |volume| volume.allocate(how.kind, range, call.tag))
    }

    fn copy(&self, call: Call, from: (Ino, u64), to: (Ino, u64), len: u64, _: Copying) -> Answer<u64> {
        // From one device to another is the kernel's to copy.
        if from.0 != to.0 {
            return refuse(Errno::EXDEV);
        }
        self.with(from.0, |volume| {
            let (rt, volume) = (self.rt.clone(), volume.clone());
            let cloned = volume.clone_range(from.1, to.1, len, call.tag);
            match cloned {
                Step::Now(Err(errno)) => refuse(errno),
                other => Step::later(async move {
                    let changed = other.await?;
                    let device = volume.path.borrow().clone();
                    if let Some(device) = device {
                        race(isolated::forget(&rt, &device, &[changed]), rt.sleep(FORGET_MAX)).await;
                    }
                    Ok(len)
                }),
            }
        })
    }

    fn seek(&self, _: Call, _: Ino, _: u64, _: Seek) -> Answer<u64> {
        refuse(Errno::EOPNOTSUPP)
    }

    fn sync(&self, call: Call, what: Sync) -> Answer<()> {
        match what {
            Sync::Data(ROOT) | Sync::File(ROOT) => Step::Now(Ok(())),
            Sync::Data(ino) | Sync::File(ino) => self.with(ino, |volume| volume.flush(call.tag)),
            Sync::All => {
                let volumes = self.volumes.clone();
                Step::later(async move {
                    for volume in &volumes {
                        volume.flush(call.tag).await?;
                    }
                    Ok(())
                })
            }
        }
    }

    fn space(&self, _: Call) -> Answer<Space> {
        let bytes = self.volumes.iter().map(|volume| volume.size()).sum();
        let inodes = self.volumes.len() as u64;
        Step::Now(Ok(Space { bytes, bytes_free: 0, inodes, inodes_free: 0 }))
    }

    /// The stack below is closed by its owner.
    fn close(&self) -> Answer<()> {
        Step::Now(Ok(()))
    }
}
