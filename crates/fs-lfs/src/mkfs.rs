//! Makes an empty file system: both superblocks, and one log with the first checkpoint.

use std::rc::Rc;

use esker_base::units::MIB;
use esker_block::Device;
use esker_rt::Rt;
use esker_vfs::Stamp;

use crate::error::LfsError;
use crate::format::checkpoint::{self, CheckpointHead};
use crate::format::dir::first_block;
use crate::format::summary::{self, write_summary};
use crate::format::superblock::{COMPAT_LIVE_COUNTERS, FIRST_OFFSET, second_offset, state};
use crate::format::usage::{self, UsageHead};
use crate::format::{
    Allocator, CNO_MAX, CheckpointEntry, CpfileHeader, DatEntry, EntryTable, InodeRecord, LfsSuperblock, LiveCounters,
    LogFile, LogHeader, MapRoot, Payload, ScanRecord, SegmentUsage, SufileHeader, SuperRoot, ino,
};
use crate::medium::ImageDevice;

/// How an empty file system is made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MkfsConfig {
    /// Bytes of a block: 1, 2 or 4 KiB.
    pub block_bytes: u32,
    /// Bytes of a segment. `None`: 8 MiB, less on a device that has no room for [`SEGMENTS_MIN`] of these.
    pub segment_bytes: Option<u64>,
    /// Label, at most 79 bytes.
    pub label: String,
    /// Identity. `None`: one that the world gives.
    pub uuid: Option<u128>,
    /// Segments that are kept back, in percent.
    pub reserved_percent: u32,
    /// Whether the usage of segments has counters of live blocks.
    pub live_counters: bool,
    /// User and group of the root directory.
    pub owner: (u32, u32),
    /// When it is made.
    pub now: Stamp,
}

/// Fewest segments.
pub const SEGMENTS_MIN: u64 = 16;
/// Bytes of a segment where there is room.
const SEGMENT_BYTES: u64 = 8 * MIB;
/// Fewest blocks of a segment: the first log has room in it.
const SEGMENT_BLOCKS_MIN: u64 = 32;
/// Where the first segment begins: behind the first superblock.
const FIRST_BYTES: u64 = 4096;

impl MkfsConfig {
    /// Blocks of 4 KiB, as `mkfs.nilfs2` makes them.
    pub fn usual(now: Stamp) -> MkfsConfig {
        MkfsConfig {
            block_bytes: 4096,
            segment_bytes: None,
            label: String::new(),
            uuid: None,
            reserved_percent: 5,
            live_counters: false,
            owner: (0, 0),
            now,
        }
    }
}

/// Makes an empty file system on a device, over what lies there.
///
/// # Errors
/// [`LfsError::Mkfs`] for what cannot be made; the device's.
pub async fn mkfs(rt: &Rt, device: Rc<dyn Device>, config: &MkfsConfig) -> Result<LfsSuperblock, LfsError> {
    let medium = ImageDevice::new(rt, device);
    let superblock = planned(rt, &medium, config)?;
    let geometry = superblock.geometry().map_err(LfsError::Mkfs)?;
    let log =
        Plan { superblock: &superblock, block: geometry.block_bytes, owner: config.owner, now: superblock.created }
            .log();
    let second = second_offset(medium.size()).ok_or_else(|| LfsError::Mkfs("the device is too small".to_string()))?;
    // Until the log is durable, there is no file system.
    for at in [0, second] {
        medium.write(at, &[0; FIRST_BYTES as usize]).await?;
    }
    medium.flush().await?;
    medium.write(superblock.first_block * geometry.block_bytes as u64, &log).await?;
    medium.flush().await?;
    let mut first = [0; FIRST_BYTES as usize];
    first[FIRST_OFFSET as usize..][..1024].copy_from_slice(&superblock.sealed());
    medium.write(0, &first).await?;
    medium.flush().await?;
    let mut last = [0; FIRST_BYTES as usize];
    last[..1024].copy_from_slice(&superblock.sealed());
    medium.write(second, &last).await?;
    medium.flush().await?;
    Ok(superblock)
}

/// Segments, and blocks of each, of the file system that will be.
fn sized(medium: &ImageDevice, config: &MkfsConfig) -> Result<(u64, u64), LfsError> {
    let refused = |why: String| Err(LfsError::Mkfs(why));
    let block = u64::from(config.block_bytes);
    if ![1024, 2048, 4096].contains(&block) {
        return refused(format!("blocks of {block} bytes; take 1024, 2048 or 4096"));
    }
    if medium.unit() > block {
        return refused(format!("the device has blocks of {} bytes; take blocks as large", medium.unit()));
    }
    if config.label.len() > 79 {
        return refused(format!("a label of {} bytes; take at most 79", config.label.len()));
    }
    if config.reserved_percent > 50 {
        return refused(format!("{} % kept back; take at most 50", config.reserved_percent));
    }
    // Segments end where the second superblock begins.
    let room = second_offset(medium.size()).unwrap_or(0);
    let segment_bytes = match config.segment_bytes {
        Some(bytes) => bytes,
        None => {
            let least = SEGMENT_BLOCKS_MIN * block;
            let mut bytes = SEGMENT_BYTES;
            while bytes > least && room / bytes < SEGMENTS_MIN {
                bytes /= 2;
            }
            bytes
        }
    };
    let blocks = segment_bytes / block;
    if !segment_bytes.is_multiple_of(block) || !(SEGMENT_BLOCKS_MIN..=1 << 24).contains(&blocks) {
        return refused(format!(
            "segments of {segment_bytes} bytes; take a multiple of {block}, {SEGMENT_BLOCKS_MIN} blocks or more"
        ));
    }
    let segments = room / segment_bytes;
    if segments < SEGMENTS_MIN {
        return refused(format!(
            "a device of {} bytes has room for {segments} segments of {segment_bytes} bytes, and {SEGMENTS_MIN} are \
             needed; take a larger device or smaller segments",
            medium.size()
        ));
    }
    Ok((segments, blocks))
}

/// The superblock of the file system that will be.
fn planned(rt: &Rt, medium: &ImageDevice, config: &MkfsConfig) -> Result<LfsSuperblock, LfsError> {
    let (segments, blocks) = sized(medium, config)?;
    let block = u64::from(config.block_bytes);
    let uuid = config.uuid.unwrap_or_else(|| random_uuid(rt.unique()));
    let seconds = u64::try_from(config.now.0).unwrap_or(0) / 1_000_000_000;
    let mut label = [0; 80];
    label[..config.label.len()].copy_from_slice(config.label.as_bytes());
    Ok(LfsSuperblock {
        revision: LfsSuperblock::REVISION,
        revision_minor: 0,
        magic: LfsSuperblock::MAGIC,
        bytes: LfsSuperblock::BYTES as u16,
        flags: 0,
        // The identity seeds the sums: logs of a former file system on the device are none of this one.
        seed: crate::format::crc(seconds as u32, &uuid.to_be_bytes()),
        sum: 0,
        block_log: block.ilog2() - 10,
        segments,
        device_bytes: medium.size(),
        first_block: FIRST_BYTES / block,
        segment_blocks: blocks as u32,
        reserved_percent: config.reserved_percent,
        last_cno: 1,
        last_log: FIRST_BYTES / block,
        last_sequence: 0,
        free_blocks: (segments - 1) * blocks,
        created: seconds,
        mounted: 0,
        written: seconds,
        mounts: 0,
        mounts_max: 50,
        state: state::VALID,
        errors: 1,
        checked: seconds,
        check_interval: 180 * 24 * 3600,
        creator_os: 0,
        reserved_uid: 0,
        reserved_gid: 0,
        first_ino: ino::FIRST as u32,
        inode_bytes: InodeRecord::BYTES as u16,
        dat_bytes: DatEntry::BYTES as u16,
        checkpoint_bytes: CheckpointEntry::BYTES as u16,
        usage_bytes: if config.live_counters { 32 } else { 16 },
        uuid: uuid.to_be_bytes(),
        label,
        commit_interval: 0,
        commit_blocks: 0,
        compat: if config.live_counters { COMPAT_LIVE_COUNTERS } else { 0 },
        compat_ro: 0,
        incompat: 0,
    })
}

/// An identity of the random kind.
fn random_uuid(bits: u128) -> u128 {
    bits & !(0xf000 << 64 | 0xc000 << 48) | 0x4000 << 64 | 0x8000 << 48
}

/// What the first log is made of.
struct Plan<'s> {
    superblock: &'s LfsSuperblock,
    block: usize,
    owner: (u32, u32),
    now: u64,
}

/// A file of the first log: its blocks of data, and the virtual block of the first one.
struct Laid {
    ino: u64,
    blocks: Vec<Vec<u8>>,
    first: u64,
}

impl Laid {
    /// The addresses of its blocks.
    fn addresses(&self) -> Vec<u64> {
        (0..self.blocks.len() as u64).map(|index| self.first + index).collect()
    }
}

/// Entries of the IFILE that are no user's.
const RESERVED_INODES: u64 = ino::FIRST;

impl Plan<'_> {
    /// The whole log, with right sums. It has one block of summary.
    fn log(&self) -> Vec<u8> {
        let superblock = self.superblock;
        let mut next = 1;
        let mut laid = |ino: u64, blocks: Vec<Vec<u8>>| {
            let first = next;
            next += blocks.len() as u64;
            Laid { ino, blocks, first }
        };
        let root = laid(ino::ROOT, vec![first_block(self.block, ino::ROOT, ino::ROOT)]);
        let ifile = laid(ino::IFILE, self.ifile_blocks(&root));
        let blocks = (root.blocks.len() + ifile.blocks.len()) as u64;
        // The counts in them need the length of the log, which has three blocks of the DAT, summary and super root.
        let length = 2 + blocks + 1 + 1 + 3;
        let cpfile = laid(ino::CPFILE, vec![self.cpfile_block(&ifile, length, blocks)]);
        let sufile = laid(ino::SUFILE, vec![self.sufile_block(length)]);
        let first_dat = superblock.first_block + 1 + blocks + 2;
        let dat = Laid { ino: ino::DAT, blocks: self.dat_blocks(next), first: first_dat };
        let root_of = |file: &Laid| self.inode(0o100_000, 1, file.blocks.len(), 0, &file.addresses());
        let super_root = SuperRoot {
            bytes: SuperRoot::bytes_with(InodeRecord::BYTES) as u16,
            flags: 0,
            written: self.now,
            dat: root_of(&dat),
            cpfile: root_of(&cpfile),
            sufile: root_of(&sufile),
        };
        self.sealed([root, ifile, cpfile, sufile, dat], &super_root)
    }

    fn sealed(&self, files: [Laid; 5], super_root: &SuperRoot) -> Vec<u8> {
        use summary::flag::{BEGIN, END, SUPER_ROOT};
        let mut header = LogHeader {
            data_sum: 0,
            summary_sum: 0,
            magic: LogHeader::MAGIC,
            bytes: 0,
            flags: BEGIN | END | SUPER_ROOT,
            sequence: 0,
            created: self.now,
            next: u64::from(self.superblock.segment_blocks),
            blocks: 0,
            files: 0,
            summary_bytes: 0,
            pad: 0,
            cno: 1,
        };
        let told: Vec<LogFile> = files.iter().map(log_file).collect();
        let mut log = write_summary(&mut header, &told, self.block);
        files.iter().flat_map(|file| &file.blocks).for_each(|block| log.extend_from_slice(block));
        let mut last = vec![0; self.block];
        super_root.write(&mut last, InodeRecord::BYTES, self.superblock.seed);
        log.extend(last);
        header.blocks += 1;
        header.write(&mut log);
        summary::seal(&mut log, header.summary_bytes as usize, self.superblock.seed);
        log
    }

    fn inode(&self, mode: u16, links: u16, blocks: usize, size: u64, addresses: &[u64]) -> InodeRecord {
        InodeRecord {
            blocks: (blocks * self.block / 512) as u64,
            size,
            changed: self.now,
            modified: self.now,
            mode,
            links,
            map: MapRoot::direct(addresses),
            ..InodeRecord::EMPTY
        }
    }

    /// Descriptors, bits, and the blocks of the reserved inodes.
    fn ifile_blocks(&self, root: &Laid) -> Vec<Vec<u8>> {
        let shape = Allocator::new(InodeRecord::BYTES as u64, self.block as u64);
        let mut blocks = allocated(&shape, self.block, RESERVED_INODES);
        let entries = RESERVED_INODES.div_ceil(shape.per_block);
        let mut inodes = vec![0; entries as usize * self.block];
        let reserved = [1, 7, 8, 9, 10].map(|number| (number, self.inode(0o100_000, 1, 0, 0, &[])));
        let (uid, gid) = self.owner;
        let root = InodeRecord {
            uid,
            gid,
            ..self.inode(0o40_755, 2, root.blocks.len(), self.block as u64, &root.addresses())
        };
        for (number, inode) in reserved.into_iter().chain([(ino::ROOT, root)]) {
            inode.write(&mut inodes[number as usize * InodeRecord::BYTES..]);
        }
        blocks.extend(inodes.chunks(self.block).map(<[u8]>::to_vec));
        blocks
    }

    /// The header and the first checkpoint; all other entries are none.
    fn cpfile_block(&self, ifile: &Laid, length: u64, blocks: u64) -> Vec<u8> {
        let shape = EntryTable::of_checkpoints(CheckpointEntry::BYTES as u64, self.block as u64);
        let mut block = vec![0; self.block];
        CpfileHeader { checkpoints: 1, snapshots: 0, next: 0, prev: 0 }.write(&mut block);
        if self.superblock.compat & COMPAT_LIVE_COUNTERS != 0 {
            ScanRecord::over(1).write(&mut block[ScanRecord::OFFSET..]);
        }
        let none = CheckpointHead {
            flags: checkpoint::flag::INVALID,
            in_block: 0,
            next: 0,
            prev: 0,
            cno: 0,
            created: 0,
            written: 0,
            inodes: 0,
            blocks: 0,
        };
        for cno in 2..=shape.per_block - shape.first {
            CheckpointHead { cno, ..none }.write(&mut block[shape.place(cno).1..]);
        }
        let head = CheckpointHead { flags: 0, cno: 1, created: self.now, written: length, inodes: 1, blocks, ..none };
        let inode = self.inode(0o100_000, 1, ifile.blocks.len(), 0, &ifile.addresses());
        CheckpointEntry { head, ifile: inode }.write(&mut block[shape.place(1).1..]);
        block
    }

    /// The header, the segment of the log, and the one that is next. What is not written stands for clean segments.
    fn sufile_block(&self, length: u64) -> Vec<u8> {
        let shape = EntryTable::of_usages(u64::from(self.superblock.usage_bytes), self.block as u64);
        let mut block = vec![0; self.block];
        SufileHeader { clean: self.superblock.segments - 2, dirty: 2, last: 1 }.write(&mut block);
        let has_counters = self.superblock.compat & COMPAT_LIVE_COUNTERS != 0;
        for (segment, blocks) in [(0, length), (1, 0)] {
            let changed = if blocks > 0 { self.now } else { 0 };
            let head = UsageHead { changed, blocks: blocks as u32, flags: usage::flag::DIRTY };
            // Summary and super root never count.
            let live = LiveCounters { live: blocks.saturating_sub(2) as u32, snapshot: 0, changed };
            let usage = SegmentUsage { head, live: has_counters.then_some(live) };
            usage.write(&mut block[shape.place(segment).1..]);
        }
        block
    }

    /// Descriptors, bits and entries of virtual blocks 1 to before `next`, which lie in order behind the summary.
    fn dat_blocks(&self, next: u64) -> Vec<Vec<u8>> {
        let shape = Allocator::new(DatEntry::BYTES as u64, self.block as u64);
        let mut blocks = allocated(&shape, self.block, next);
        let mut entries = vec![0; self.block];
        for vblock in 1..next {
            let place = self.superblock.first_block + vblock;
            let entry = DatEntry { place, start: 1, end: CNO_MAX, snapshot: 0 };
            entry.write(&mut entries[vblock as usize * DatEntry::BYTES..]);
        }
        blocks.push(entries);
        blocks
    }
}

/// Descriptors and bits of a file whose first `used` entries are in use.
fn allocated(shape: &Allocator, block: usize, used: u64) -> Vec<Vec<u8>> {
    let (mut counters, mut bits) = (vec![0; block], vec![0_u8; block]);
    for (group, counter) in counters.chunks_exact_mut(4).enumerate() {
        let free = shape.per_group - if group == 0 { used } else { 0 };
        counter.copy_from_slice(&(free as u32).to_le_bytes());
    }
    for bit in 0..used as usize {
        bits[bit / 8] |= 1 << (bit % 8);
    }
    vec![counters, bits]
}

fn log_file(file: &Laid) -> LogFile {
    let is_dat = file.ino == ino::DAT;
    let blocks = (0..file.blocks.len() as u64).map(|index| match is_dat {
        true => Payload::DatData { index },
        false => Payload::Data { vblock: file.first + index, index },
    });
    // What has no versions belongs to no checkpoint.
    let is_versioned = file.ino == ino::ROOT || file.ino == ino::IFILE;
    LogFile { ino: file.ino, cno: u64::from(is_versioned), blocks: blocks.collect() }
}
