//! The file system of one checkpoint, which takes no changes.
//!
//! Directories have no index on the medium. The first look into one reads all of it, and keeps its names in order. A
//! cookie is the offset of a record in its directory; one within a record means the next record.

mod system;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use esker_base::Nanos;
use esker_block::{Buf, Device};
use esker_rt::Rt;
use esker_vfs::{Abilities, About, Attr, Entry, FileFlags, Ino, Promise, Space, Stamp};

use crate::error::{LfsError, damaged};
use crate::format::{CheckpointEntry, InodeRecord, ino};
use crate::map::{Addressing, MappedFile};
use crate::names::{Names, blocks_of};
use crate::volume::Volume;

/// Most names of a file.
pub const LINKS_MAX: u32 = 32_000;
/// Most bytes of a file.
pub const SIZE_MAX: u64 = i64::MAX as u64;
/// Most bytes of the target of a symbolic link.
const TARGET_BYTES_MAX: u64 = 4095;

/// The file system of a checkpoint. A value is a handle.
#[derive(Clone)]
pub struct LfsReader(Rc<Inner>);

struct Inner {
    about: About,
    volume: Rc<Volume>,
    checkpoint: CheckpointEntry,
    ifile: MappedFile,
    space: Space,
    pins: RefCell<BTreeMap<Ino, Pinned>>,
    names: RefCell<BTreeMap<Ino, Rc<Names>>>,
    is_closed: std::cell::Cell<bool>,
}

/// An inode that is in use by callers. The root has a pin of its own.
struct Pinned {
    pins: u64,
    inode: Rc<InodeRecord>,
}

/// Directories whose names are kept.
const NAMES_KEPT: usize = 256;

impl LfsReader {
    /// The file system of a checkpoint on a device: the latest, unless a number is given.
    ///
    /// # Errors
    /// [`LfsError`].
    pub async fn open(rt: &Rt, device: Rc<dyn Device>, cno: Option<u64>) -> Result<LfsReader, LfsError> {
        LfsReader::of(Rc::new(Volume::open(rt, device).await?), cno).await
    }

    /// The same of an image that is open.
    ///
    /// # Errors
    /// [`LfsError`].
    pub async fn of(volume: Rc<Volume>, cno: Option<u64>) -> Result<LfsReader, LfsError> {
        let checkpoint = volume.checkpoint(cno.unwrap_or(volume.latest().cno)).await?;
        let (ifile, space) = (volume.ifile(&checkpoint), space(&volume, &checkpoint).await?);
        let about = about(&volume);
        let (pins, names, is_closed) = (RefCell::default(), RefCell::default(), std::cell::Cell::new(false));
        let reader = LfsReader(Rc::new(Inner { about, volume, checkpoint, ifile, space, pins, names, is_closed }));
        let root = reader.inode(Ino(ino::ROOT)).await?;
        if root.kind() != Some(esker_vfs::FileType::Directory) {
            return damaged("inode", ino::ROOT, 0, "the root is no directory");
        }
        reader.pin_inode(Ino(ino::ROOT), &Rc::new(root));
        Ok(reader)
    }

    /// The checkpoint that is shown.
    pub fn checkpoint(&self) -> &CheckpointEntry {
        &self.0.checkpoint
    }

    /// Room.
    pub fn room(&self) -> Space {
        self.0.space
    }

    /// The image.
    pub fn volume(&self) -> &Rc<Volume> {
        &self.0.volume
    }

    /// An inode that has a name.
    async fn inode(&self, number: Ino) -> Result<InodeRecord, LfsError> {
        match self.0.volume.inode(&self.0.ifile, number.0).await? {
            None => damaged("inode", number.0, 0, "a name leads to it, and it is not in use"),
            Some(inode) if inode.links == 0 => damaged("inode", number.0, 0, "a name leads to it, and it has no links"),
            Some(inode) if inode.kind().is_none() => {
                damaged("inode", number.0, 0, format!("mode {:o} names no kind", inode.mode))
            }
            Some(inode) => Ok(inode),
        }
    }

    fn pin_inode(&self, number: Ino, inode: &Rc<InodeRecord>) -> Entry {
        let mut pins = self.0.pins.borrow_mut();
        let pinned = pins.entry(number).or_insert_with(|| Pinned { pins: 0, inode: inode.clone() });
        pinned.pins += 1;
        entry(number, &pinned.inode)
    }

    fn pinned(&self, number: Ino) -> Option<Rc<InodeRecord>> {
        self.0.pins.borrow().get(&number).map(|pinned| pinned.inode.clone())
    }

    fn file(&self, number: Ino, inode: &InodeRecord) -> MappedFile {
        MappedFile::new(number.0, inode, Addressing::Virtual(self.0.checkpoint.head.cno))
    }

    /// The names of a directory.
    async fn names(&self, number: Ino, inode: &InodeRecord) -> Result<Rc<Names>, LfsError> {
        if let Some(names) = self.0.names.borrow().get(&number) {
            return Ok(names.clone());
        }
        let (volume, file, mut names) = (&self.0.volume, self.file(number, inode), Names::new(number.0));
        for index in 0..blocks_of(number.0, inode.size, volume.geometry())? {
            if let Some(block) = volume.file_block(&file, index).await? {
                names.put_block(index as usize, &block)?;
            }
        }
        let names = Rc::new(names.whole()?);
        let mut kept = self.0.names.borrow_mut();
        if kept.len() >= NAMES_KEPT {
            kept.pop_first();
        }
        kept.insert(number, names.clone());
        Ok(names)
    }

    /// Bytes of an inode: `len` from `at` on, fewer at the end.
    async fn bytes(&self, number: Ino, inode: &InodeRecord, at: u64, len: usize) -> Result<Buf, LfsError> {
        let volume = &self.0.volume;
        let (file, block) = (self.file(number, inode), volume.geometry().block_bytes as u64);
        let end = inode.size.min(at.saturating_add(len as u64));
        if at >= end {
            return Ok(Buf::empty());
        }
        let mut out = Buf::zeroed(volume.medium().pool(), (end - at) as usize);
        let mut from = at;
        while from < end {
            let stop = (from / block * block).saturating_add(block).min(end);
            if let Some(bytes) = volume.file_block(&file, from / block).await? {
                let start = (from % block) as usize;
                out.fill((from - at) as usize, &bytes[start..start + (stop - from) as usize]);
            }
            from = stop;
        }
        Ok(out)
    }

    /// The target of a symbolic link.
    async fn target_bytes(&self, number: Ino, inode: &InodeRecord) -> Result<Box<[u8]>, LfsError> {
        if !(1..=TARGET_BYTES_MAX).contains(&inode.size) {
            return damaged("inode", number.0, 0, format!("a symbolic link of {} bytes", inode.size));
        }
        let bytes = self.bytes(number, inode, 0, inode.size as usize).await?.to_vec();
        // A byte of zero ends a target, wherever it stands.
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        Ok(bytes[..end].into())
    }
}

/// What callers see of an inode.
fn entry(number: Ino, inode: &InodeRecord) -> Entry {
    Entry { ino: number, generation: u64::from(inode.generation), attr: attr(inode) }
}

pub(crate) fn attr(inode: &InodeRecord) -> Attr {
    let stamp = |seconds: u64, nanos: u32| {
        let nanos = (seconds as i64).saturating_mul(1_000_000_000).saturating_add(i64::from(nanos));
        Stamp(nanos)
    };
    let modified = stamp(inode.modified, inode.modified_nanos);
    let changed = stamp(inode.changed, inode.changed_nanos);
    Attr {
        // An inode without a kind is never given out.
        kind: inode.kind().unwrap_or(esker_vfs::FileType::File),
        mode: inode.mode & 0o7777,
        links: u32::from(inode.links),
        uid: inode.uid,
        gid: inode.gid,
        device: inode.device(),
        size: inode.size,
        allocated: inode.blocks.saturating_mul(512),
        accessed: modified,
        modified,
        changed,
        born: None,
        flags: FileFlags(inode.flags),
        version: changed.0.unsigned_abs(),
    }
}

/// What the format and a writer can.
pub(crate) fn abilities() -> Abilities {
    Abilities {
        xattrs: false,
        hard_links: true,
        symlinks: true,
        nodes: true,
        access_times: false,
        exchange: true,
        reserve: false,
        punch: true,
        holes: true,
        share: false,
        locks: false,
        flags: true,
    }
}

pub(crate) fn about(volume: &Volume) -> About {
    let geometry = volume.geometry();
    About {
        kind: "lfs",
        id: u128::from_be_bytes(volume.superblock().uuid),
        block: geometry.block_bytes as u32,
        grain: Nanos(1),
        times: Stamp(i64::MIN)..=Stamp(i64::MAX),
        links_max: LINKS_MAX,
        size_max: SIZE_MAX,
        promise: Promise::Prefix,
        can: Abilities { exchange: false, punch: false, ..abilities() },
    }
}

/// Room: clean segments, but for those that are kept back.
async fn space(volume: &Volume, checkpoint: &CheckpointEntry) -> Result<Space, LfsError> {
    let (geometry, header) = (volume.geometry(), volume.sufile_header().await?);
    let reserved = volume.superblock().reserved_segments(geometry.segments);
    let bytes = |segments: u64| segments.saturating_mul(geometry.segment_blocks * geometry.block_bytes as u64);
    let free = header.clean.min(geometry.segments).saturating_sub(reserved);
    let inodes = checkpoint.head.inodes;
    let all = geometry.segments.saturating_sub(reserved);
    Ok(Space { bytes: bytes(all), bytes_free: bytes(free), inodes, inodes_free: 0 })
}
