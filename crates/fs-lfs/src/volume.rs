//! An opened image: its metadata files, and blocks that were read.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use esker_block::Device;
use esker_rt::Rt;

use crate::error::{LfsError, damaged};
use crate::format::alloc::has_bit;
use crate::format::{
    CheckpointEntry, CpfileHeader, DatEntry, EntryPlace, Geometry, InodeRecord, LfsSuperblock, SegmentUsage,
    SufileHeader, ino,
};
use crate::map::{Addressing, MapWalk, MappedFile};
use crate::medium::{Chosen, ImageDevice, Latest};

/// The bytes of a block.
pub type Block = Rc<[u8]>;

/// Bytes of blocks that are kept.
const KEPT_BYTES: usize = 16 << 20;

/// Blocks that were read, the oldest dropped first.
#[derive(Default)]
struct Kept {
    blocks: BTreeMap<u64, (u64, Block)>,
    order: BTreeMap<u64, u64>,
    clock: u64,
}

impl Kept {
    fn get(&mut self, place: u64) -> Option<Block> {
        self.clock += 1;
        let (used, block) = self.blocks.get_mut(&place)?;
        self.order.remove(used);
        *used = self.clock;
        self.order.insert(self.clock, place);
        Some(block.clone())
    }

    fn put(&mut self, place: u64, block: Block) {
        let max = KEPT_BYTES / block.len().max(1);
        self.clock += 1;
        if let Some((used, _)) = self.blocks.insert(place, (self.clock, block)) {
            self.order.remove(&used);
        }
        self.order.insert(self.clock, place);
        while self.blocks.len() > max {
            let Some((_, oldest)) = self.order.pop_first() else { return };
            self.blocks.remove(&oldest);
        }
    }
}

/// An opened image, which is not written.
pub struct Volume {
    medium: ImageDevice,
    chosen: Chosen,
    latest: Latest,
    kept: RefCell<Kept>,
}

impl Volume {
    /// Opens the image on a device.
    ///
    /// # Errors
    /// [`LfsError`].
    pub async fn open(rt: &Rt, device: Rc<dyn Device>) -> Result<Volume, LfsError> {
        let medium = ImageDevice::new(rt, device);
        let chosen = Chosen::read(&medium).await?;
        let latest = medium.latest(&chosen.superblock, &chosen.geometry).await?;
        Ok(Volume { medium, chosen, latest, kept: RefCell::default() })
    }

    /// The device.
    pub fn medium(&self) -> &ImageDevice {
        &self.medium
    }

    /// The superblock, and where it lies.
    pub fn chosen(&self) -> &Chosen {
        &self.chosen
    }

    /// The superblock that counts.
    pub fn superblock(&self) -> &LfsSuperblock {
        &self.chosen.superblock
    }

    /// Sizes and places.
    pub fn geometry(&self) -> &Geometry {
        &self.chosen.geometry
    }

    /// The latest checkpoint.
    pub fn latest(&self) -> &Latest {
        &self.latest
    }

    /// The bytes at a place.
    ///
    /// # Errors
    /// The device's.
    pub async fn block(&self, place: u64) -> Result<Block, LfsError> {
        if let Some(block) = self.kept.borrow_mut().get(place) {
            return Ok(block);
        }
        let bytes = self.geometry().block_bytes;
        let block: Block = self.medium.read(place * bytes as u64, bytes).await?.into();
        self.kept.borrow_mut().put(place, block.clone());
        Ok(block)
    }

    /// The DAT.
    pub fn dat(&self) -> MappedFile {
        MappedFile::new(ino::DAT, &self.latest.super_root.dat, Addressing::Physical)
    }

    /// The CPFILE.
    pub fn cpfile(&self) -> MappedFile {
        MappedFile::new(ino::CPFILE, &self.latest.super_root.cpfile, Addressing::Virtual(self.latest.cno))
    }

    /// The SUFILE.
    pub fn sufile(&self) -> MappedFile {
        MappedFile::new(ino::SUFILE, &self.latest.super_root.sufile, Addressing::Virtual(self.latest.cno))
    }

    /// The IFILE of a checkpoint.
    pub fn ifile(&self, checkpoint: &CheckpointEntry) -> MappedFile {
        MappedFile::new(ino::IFILE, &checkpoint.ifile, Addressing::Virtual(checkpoint.head.cno))
    }

    /// Block `index` of a file; `None` in a hole.
    ///
    /// # Errors
    /// A structure on the way is wrong; the device's.
    pub async fn file_block(&self, file: &MappedFile, index: u64) -> Result<Option<Block>, LfsError> {
        match self.find(file, index).await? {
            None => Ok(None),
            Some(place) => self.block(place).await.map(Some),
        }
    }

    /// An entry of the DAT.
    ///
    /// # Errors
    /// It is not in use; a structure on the way is wrong; the device's.
    pub async fn dat_entry(&self, vblock: u64) -> Result<DatEntry, LfsError> {
        let none = || damaged("entry of the DAT", vblock, 0, "it is not in use");
        let Some(place) = self.geometry().dat.place(vblock) else { return none() };
        match self.allocated(&self.dat(), &place, DatEntry::BYTES).await? {
            None => none(),
            Some(block) => match DatEntry::read(&block[place.offset..]) {
                Ok(entry) => Ok(entry),
                Err(short) => damaged("entry of the DAT", vblock, 0, short.to_string()),
            },
        }
    }

    /// The block of an entry of a file with an allocator, if the entry is in use.
    async fn allocated(&self, file: &MappedFile, place: &EntryPlace, bytes: usize) -> Result<Option<Block>, LfsError> {
        match self.file_block(file, place.bits_block).await? {
            Some(bits) if has_bit(&bits, place.bit) => {}
            _ => return Ok(None),
        }
        let block = self.file_block(file, place.block).await?;
        Ok(block.filter(|block| place.offset + bytes <= block.len()))
    }

    /// An inode of a checkpoint; `None` if the number is not in use.
    ///
    /// # Errors
    /// A structure on the way is wrong; the device's.
    pub async fn inode(&self, ifile: &MappedFile, number: u64) -> Result<Option<InodeRecord>, LfsError> {
        let Some(place) = self.geometry().inodes.place(number) else { return Ok(None) };
        let Some(block) = self.allocated(ifile, &place, InodeRecord::BYTES).await? else { return Ok(None) };
        match InodeRecord::read(&block[place.offset..]) {
            Ok(inode) => Ok(Some(inode)),
            Err(short) => damaged("inode", number, 0, short.to_string()),
        }
    }

    /// The header of the CPFILE.
    ///
    /// # Errors
    /// A structure on the way is wrong; the device's.
    pub async fn cpfile_header(&self) -> Result<CpfileHeader, LfsError> {
        let block = self.head_block(&self.cpfile(), "the CPFILE").await?;
        CpfileHeader::read(&block).or_else(|short| damaged("the header of the CPFILE", 0, 0, short.to_string()))
    }

    /// The header of the SUFILE.
    ///
    /// # Errors
    /// A structure on the way is wrong; the device's.
    pub async fn sufile_header(&self) -> Result<SufileHeader, LfsError> {
        let block = self.head_block(&self.sufile(), "the SUFILE").await?;
        SufileHeader::read(&block).or_else(|short| damaged("the header of the SUFILE", 0, 0, short.to_string()))
    }

    async fn head_block(&self, file: &MappedFile, what: &'static str) -> Result<Block, LfsError> {
        match self.file_block(file, 0).await? {
            Some(block) => Ok(block),
            None => damaged(what, 0, 0, "its first block is a hole"),
        }
    }

    /// A checkpoint.
    ///
    /// # Errors
    /// There is none of this number; a structure on the way is wrong; the device's.
    pub async fn checkpoint(&self, cno: u64) -> Result<CheckpointEntry, LfsError> {
        if cno == 0 || cno > self.latest.cno {
            return Err(LfsError::Unknown(cno));
        }
        let (index, offset) = self.geometry().checkpoints.place(cno);
        let Some(block) = self.file_block(&self.cpfile(), index).await? else { return Err(LfsError::Unknown(cno)) };
        let entry = CheckpointEntry::read(block.get(offset..).unwrap_or_default());
        let entry = entry.or_else(|short| damaged("checkpoint", cno, 0, short.to_string()))?;
        match entry.is_valid() {
            false => Err(LfsError::Unknown(cno)),
            true if entry.head.cno != cno => damaged("checkpoint", cno, 0, format!("it says {}", entry.head.cno)),
            true => Ok(entry),
        }
    }

    /// All checkpoints in their order, snapshots among them.
    ///
    /// # Errors
    /// A structure on the way is wrong; the device's.
    pub async fn checkpoints(&self) -> Result<Vec<CheckpointEntry>, LfsError> {
        let (shape, file) = (self.geometry().checkpoints, self.cpfile());
        let (mut found, mut walk) = (Vec::new(), MapWalk::new(self, file, 0)?);
        while let Some((mapped, place)) = walk.next().await {
            let place = place?;
            if mapped.level > 0 {
                continue;
            }
            let block = self.block(place).await?;
            let skip = if mapped.index == 0 { shape.first } else { 0 };
            for number in skip..shape.per_block {
                let offset = (number * shape.entry_bytes) as usize;
                let entry = CheckpointEntry::read(&block[offset..]);
                let entry = entry.or_else(|short| damaged("a checkpoint", number, place, short.to_string()))?;
                if entry.is_valid() && entry.head.cno != 0 {
                    found.push(entry);
                }
            }
        }
        Ok(found)
    }

    /// The usage of a segment.
    ///
    /// # Errors
    /// A structure on the way is wrong; the device's.
    pub async fn usage(&self, segment: u64) -> Result<SegmentUsage, LfsError> {
        let shape = self.geometry().usages;
        let (index, offset) = shape.place(segment);
        // A block that was never written stands for clean segments.
        let empty: Block = vec![0; self.geometry().block_bytes].into();
        let block = self.file_block(&self.sufile(), index).await?.unwrap_or(empty);
        let bytes = block.get(offset..offset + shape.entry_bytes as usize).unwrap_or_default();
        SegmentUsage::read(bytes).or_else(|short| damaged("the usage of segment", segment, 0, short.to_string()))
    }
}
