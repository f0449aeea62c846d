//! What a cleaner may ask of a file system: typed calls with their errors, and nothing else.
//!
//! The calls are those of NILFS2's `ioctl`s (section 4.1). One cleaner at a time has the claim; a claim lapses when
//! its cleaner is silent for [`LEASE`]. The file system believes no verdict of a cleaner: [`LfsControl::clean`] looks
//! at each block again, and what lives moves whatever the lists say. A wrong list costs speed or an error, never data.
//!
//! [`wire`] carries the calls as text to a cleaner in another process.

pub mod wire;

use esker_base::Nanos;
use esker_vfs::Answer;
use serde::{Deserialize, Serialize};

use crate::format::LogBlock;

/// Entries that one call tells or takes at most.
pub const ENTRIES_MAX: usize = 512;
/// Segments that one call cleans at most.
pub const VICTIMS_MAX: usize = 32;
/// How long a claim holds without a call of its cleaner.
pub const LEASE: Nanos = Nanos::secs(60);

/// The file system as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LfsTotals {
    /// Segments.
    pub segments: u64,
    /// Clean ones.
    pub clean: u64,
    /// Dirty ones.
    pub dirty: u64,
    /// Segments that are never counted as free.
    pub reserved: u64,
    /// Blocks of a segment.
    pub segment_blocks: u64,
    /// Bytes of a block.
    pub block_bytes: u64,
    /// Whether segments count their live blocks.
    pub has_counters: bool,
    /// The time, in seconds since 1970.
    pub now: u64,
    /// When the last segment was written that was not the cleaner's, in seconds since 1970.
    pub written: u64,
    /// Recovery may need segments from this number on, in the order in which segments were taken.
    pub protected_sequence: u64,
    /// The latest checkpoint.
    pub cno: u64,
}

/// Flags of [`SegmentInfo`] and [`SegmentUpdate`]: those of the SUFILE.
pub use crate::format::usage::flag as segment_flag;

/// The usage of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SegmentInfo {
    /// Its number.
    pub segment: u64,
    /// Blocks that it has room for.
    pub room: u32,
    /// When its last log was written, in seconds since 1970.
    pub changed: u64,
    /// Blocks that its logs take.
    pub blocks: u32,
    /// Bits of [`segment_flag`]. `ACTIVE`: the writer has it.
    pub flags: u32,
    /// Its number in the order in which segments were taken; 0 if it has no log.
    pub sequence: u64,
    /// Counters, if the file system has them.
    pub live: Option<LiveInfo>,
}

/// Counters of a segment: advice, never the truth.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LiveInfo {
    /// Live blocks.
    pub live: u32,
    /// Blocks that a snapshot had when a cleaner last looked.
    pub snapshot: u32,
    /// When `live` changed, in seconds since 1970.
    pub changed: u64,
}

/// Fields that a [`SegmentUpdate`] sets.
pub mod update_field {
    /// `changed`.
    pub const CHANGED: u32 = 1;
    /// `blocks`.
    pub const BLOCKS: u32 = 2;
    /// `flags`.
    pub const FLAGS: u32 = 4;
    /// `live.live`.
    pub const LIVE: u32 = 8;
    /// `live.changed`.
    pub const LIVE_CHANGED: u32 = 16;
    /// `live.snapshot`.
    pub const SNAPSHOT: u32 = 32;
    /// All that need counters.
    pub const COUNTERS: u32 = LIVE | LIVE_CHANGED | SNAPSHOT;
    /// All of them.
    pub const ALL: u32 = 63;
}

/// New values for the usage of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SegmentUpdate {
    /// Its number.
    pub segment: u64,
    /// Bits of [`update_field`].
    pub fields: u32,
    /// As in [`SegmentInfo`].
    pub changed: u64,
    /// As in [`SegmentInfo`]. It must not change: logs are read up to there.
    pub blocks: u32,
    /// As in [`SegmentInfo`]. Only `ERROR` may change: a segment becomes clean by cleaning alone.
    pub flags: u32,
    /// Counters.
    pub live: LiveInfo,
}

/// Where a virtual block lies, and in which checkpoints it lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct VirtualBlock {
    /// Its number.
    pub vblock: u64,
    /// Its place; 0 if it is not in use.
    pub place: u64,
    /// First checkpoint.
    pub start: u64,
    /// Checkpoint in which it died; `u64::MAX` while it lives.
    pub end: u64,
}

/// A block of the DAT.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct DatBlock {
    /// Its number, or the first key of a node.
    pub index: u64,
    /// Its level: 0 for data.
    pub level: u8,
    /// Where a log has it; in answers, where it is.
    pub place: u64,
}

/// A checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CheckpointInfo {
    /// Its number.
    pub cno: u64,
    /// When it was made, in seconds since 1970.
    pub created: u64,
    /// Whether it is a snapshot.
    pub is_snapshot: bool,
}

/// Which checkpoints are told.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Checkpoints {
    /// All.
    All,
    /// Snapshots alone.
    Snapshots,
}

/// What becomes of a checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum CheckpointMode {
    /// It may be deleted.
    Checkpoint,
    /// It stays.
    Snapshot,
}

/// What the logs of a segment tell.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SegmentLogs {
    /// Its number in the order in which segments were taken.
    pub sequence: u64,
    /// All blocks.
    pub blocks: Vec<LogBlock>,
}

/// Flags of a [`MovedVirtual`].
pub mod moved_flag {
    /// A snapshot has the block: it counts as live.
    pub const SNAPSHOT: u32 = 1;
    /// The protection period has it: it moves, and does not count.
    pub const PERIOD: u32 = 2;
}

/// A block with a virtual address that moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MovedVirtual {
    /// Its place.
    #[serde(rename = "p")]
    pub place: u64,
    /// The hand-shake of section 4.2: 0 says that `flags` are meant. Old programs leave a checkpoint here.
    #[serde(rename = "s")]
    pub period_start: u64,
    /// Bits of [`moved_flag`].
    #[serde(rename = "f")]
    pub flags: u32,
}

/// What a cleaner wants done, all of it or nothing.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct CleaningOrder {
    /// Segments that become clean.
    pub victims: Vec<u64>,
    /// Blocks that move.
    pub moves: Vec<MovedVirtual>,
    /// Blocks of the DAT that move.
    pub dat: Vec<DatBlock>,
    /// Virtual blocks that are freed.
    pub freed: Vec<u64>,
    /// Checkpoints that are deleted: first, and first behind. Snapshots stay.
    pub periods: Vec<(u64, u64)>,
}

/// What cleaning did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Cleaned {
    /// The checkpoint that holds it.
    pub cno: u64,
    /// Blocks that were written again.
    pub copied: u64,
    /// Virtual blocks that were freed.
    pub freed: u64,
}

/// The calls of a cleaner. All answer `ENODEV` once the file system is closed.
pub trait LfsControl {
    /// Takes or keeps the claim to clean.
    ///
    /// # Errors
    /// `EBUSY`: another cleaner has it.
    fn claim(&self) -> Answer<()>;

    /// Gives the claim back.
    fn release(&self) -> Answer<()>;

    /// Totals of segments and checkpoints.
    fn totals(&self) -> Answer<LfsTotals>;

    /// Usages of segments from one on, at most [`ENTRIES_MAX`].
    fn segments(&self, from: u64) -> Answer<Vec<SegmentInfo>>;

    /// Sets usages, all of them or none.
    ///
    /// # Errors
    /// `EINVAL`: a segment that is not there, an unknown field, more blocks than a segment has, counters where there
    /// are none, or a change that could lose data. `ENOTTY`: the file system cannot. `EBUSY`: without the claim.
    fn set_segments(&self, updates: Vec<SegmentUpdate>) -> Answer<()>;

    /// Lives and places of virtual blocks, in the order of the question.
    ///
    /// # Errors
    /// `EINVAL`: more than [`ENTRIES_MAX`], or a number beyond the DAT.
    fn virtual_blocks(&self, vblocks: Vec<u64>) -> Answer<Vec<VirtualBlock>>;

    /// Places of blocks of the DAT, in the order of the question; place 0 for one that is not there.
    ///
    /// # Errors
    /// `EINVAL`: more than [`ENTRIES_MAX`].
    fn dat_blocks(&self, blocks: Vec<DatBlock>) -> Answer<Vec<DatBlock>>;

    /// Checkpoints from a number on in ascending order, at most [`ENTRIES_MAX`].
    fn checkpoints(&self, from: u64, which: Checkpoints) -> Answer<Vec<CheckpointInfo>>;

    /// Makes a checkpoint a snapshot, or a snapshot a checkpoint. A repeated change is none.
    ///
    /// # Errors
    /// `ENOENT`: there is none, as for number 0.
    fn set_mode(&self, cno: u64, mode: CheckpointMode) -> Answer<()>;

    /// Deletes a checkpoint.
    ///
    /// # Errors
    /// `ENOENT`: there is none. `EBUSY`: it is a snapshot.
    fn delete_checkpoint(&self, cno: u64) -> Answer<()>;

    /// Blocks of which the logs of a segment tell. Only the checksums of the medium vouch for them.
    ///
    /// # Errors
    /// `EINVAL`: there is no such segment. `EBUSY`: logs go on in it, or are being written. `EIO`: they cannot be read.
    fn logs(&self, segment: u64) -> Answer<SegmentLogs>;

    /// Cleans segments: blocks move, virtual blocks and checkpoints go, victims become clean, all in one checkpoint.
    ///
    /// # Errors
    /// `EINVAL`: the lists are malformed or leave out a block of a victim. `EBUSY`: a victim is not dirty, in use or
    /// needed by recovery, or another cleaner has the claim. `ENOMEM`: there is no room for so many copies; take fewer
    /// victims. Nothing is changed then.
    fn clean(&self, order: CleaningOrder) -> Answer<Cleaned>;

    /// Makes everything durable, and lets go segments that recovery no longer needs. Answers the latest checkpoint.
    fn sync(&self) -> Answer<u64>;

    /// Says of virtual blocks that died that the counters include them, which were set just now (`SET_INC_FLAGS`).
    ///
    /// # Errors
    /// `ENOTTY`: the file system keeps no such marks. `EINVAL`: more than [`ENTRIES_MAX`], or a number beyond the DAT.
    /// `EBUSY`: without the claim.
    fn include(&self, _vblocks: Vec<u64>) -> Answer<()> {
        esker_block::Step::Now(Err(esker_base::Errno::ENOTTY))
    }
}
