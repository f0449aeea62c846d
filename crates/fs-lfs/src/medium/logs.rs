//! Logs: one by one, and the walk to the latest checkpoint.
//!
//! The walk begins at the log that the superblock names. Each log says where the next segment lies; its number in the
//! order of segments must be the expected one, and the sum of the whole log must be right. What is no log ends a
//! segment, and the second such place in a row ends the walk.

use super::ImageDevice;
use crate::error::LfsError;
use crate::format::summary::{self, flag};
use crate::format::{Geometry, LfsSuperblock, LogBlock, LogHeader, SuperRoot, crc_begin, crc_end};

/// A log that is whole.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundLog {
    /// Its first block.
    pub place: u64,
    /// Its header.
    pub header: LogHeader,
    /// The blocks of its summary.
    pub summary: Vec<u8>,
}

/// Logs behind the latest checkpoint that bring data of synced files, and are whole from begin to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SyncedLog {
    /// First block of the first log.
    pub place: u64,
    /// Sequence number of its segment.
    pub sequence: u64,
    /// Logs.
    pub logs: u64,
}

/// The latest checkpoint, and what the walk saw behind it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Latest {
    /// Its log.
    pub log: FoundLog,
    /// Its number.
    pub cno: u64,
    /// Its super root.
    pub super_root: SuperRoot,
    /// Block of the super root.
    pub super_root_place: u64,
    /// Data that a writer would bring forward.
    pub synced: Vec<SyncedLog>,
    /// Why the walk ended, with the place.
    pub end: String,
}

const STEP: u64 = 1 << 20;

impl ImageDevice {
    /// Reads the log at block `place`, and verifies all of it.
    ///
    /// # Errors
    /// The device's. The inner one says why there is no log.
    pub async fn read_log(
        &self,
        superblock: &LfsSuperblock,
        geometry: &Geometry,
        place: u64,
    ) -> Result<Result<FoundLog, String>, LfsError> {
        let block = geometry.block_bytes as u64;
        let head = self.read(place * block, geometry.block_bytes).await?;
        let header = match sound_header(&head, geometry, place) {
            Ok(header) => header,
            Err(why) => return Ok(Err(why)),
        };
        let (end, mut at) = ((place + u64::from(header.blocks)) * block, place * block);
        let (mut sum, mut summary) = (crc_begin(superblock.seed), Vec::new());
        let summary_blocks = (u64::from(header.summary_bytes).div_ceil(block) * block) as usize;
        // The sum itself is not summed.
        let mut skip = 4;
        let mut take = |piece: &[u8]| {
            let skipped = skip.min(piece.len());
            skip -= skipped;
            sum.update(&piece[skipped..]);
            let left = (summary_blocks - summary.len()).min(piece.len());
            summary.extend_from_slice(&piece[..left]);
        };
        while at < end {
            let len = (end - at).min(STEP);
            self.read_pieces(at, len as usize, &mut take).await?;
            at += len;
        }
        if crc_end(sum) != header.data_sum {
            return Ok(Err("the sum of the log is wrong".to_string()));
        }
        Ok(Ok(FoundLog { place, header, summary }))
    }

    /// The header of the log at block `place`, which may not be whole.
    ///
    /// # Errors
    /// The device's.
    pub async fn read_log_header(&self, geometry: &Geometry, place: u64) -> Result<Option<LogHeader>, LfsError> {
        let head = self.read(place * geometry.block_bytes as u64, geometry.block_bytes).await?;
        Ok(sound_header(&head, geometry, place).ok())
    }

    /// Walks from the log that the superblock names to the latest checkpoint.
    ///
    /// # Errors
    /// There is none; the device's.
    pub async fn latest(&self, superblock: &LfsSuperblock, geometry: &Geometry) -> Result<Latest, LfsError> {
        let start = superblock.last_log;
        if !geometry.has(start) {
            let why = "the block lies in no segment".to_string();
            return Err(LfsError::NoCheckpoint { place: start, why });
        }
        let mut walk = Walk::new(start, superblock.last_sequence, geometry);
        let is_clean = superblock.state & crate::format::superblock::state::VALID != 0;
        let (mut latest, mut first_fault) = (None, None);
        while let Some(place) = walk.place() {
            let found = match self.read_log(superblock, geometry, place).await? {
                Ok(log) if log.header.sequence != walk.sequence => {
                    Err(format!("its sequence number is {}, not {}", log.header.sequence, walk.sequence))
                }
                Ok(log) => match &latest {
                    Some(latest) => walk.follows(log, latest),
                    None => Ok(log),
                },
                found => found,
            };
            match found {
                Err(why) => {
                    first_fault.get_or_insert_with(|| format!("block {place}: {why}"));
                    if latest.is_none() {
                        break;
                    }
                    walk.stray(&why, geometry);
                }
                Ok(log) if log.header.has(flag::SUPER_ROOT) => {
                    walk.step(&log, geometry);
                    latest = Some(self.super_root(superblock, geometry, log).await?);
                    if is_clean {
                        walk.end = "the file system was unmounted cleanly".to_string();
                        break;
                    }
                }
                Ok(_) if latest.is_none() => {
                    first_fault = Some("the log there holds no super root".to_string());
                    break;
                }
                Ok(log) => walk.step(&log, geometry),
            }
        }
        match latest {
            Some(latest) => Ok(Latest { synced: walk.synced, end: walk.end, ..latest }),
            None => Err(LfsError::NoCheckpoint { place: start, why: first_fault.unwrap_or_default() }),
        }
    }

    async fn super_root(
        &self,
        superblock: &LfsSuperblock,
        geometry: &Geometry,
        log: FoundLog,
    ) -> Result<Latest, LfsError> {
        let place = log.place + u64::from(log.header.blocks) - 1;
        let block = self.read(place * geometry.block_bytes as u64, geometry.block_bytes).await?;
        let wrong = |why: String| LfsError::NoCheckpoint { place, why };
        let (super_root, sum, right) = SuperRoot::read(&block, geometry.inode_bytes, superblock.seed)
            .map_err(|short| wrong(format!("the super root is cut: {short}")))?;
        let bytes = SuperRoot::bytes_with(geometry.inode_bytes);
        if usize::from(super_root.bytes) != bytes {
            return Err(wrong(format!("the super root has {} bytes, not {bytes}", super_root.bytes)));
        }
        if sum != right {
            return Err(wrong("the sum of the super root is wrong".to_string()));
        }
        let cno = log.header.cno;
        let (synced, end) = (Vec::new(), String::new());
        Ok(Latest { log, cno, super_root, super_root_place: place, synced, end })
    }
}

/// The header of a log at block `place`, if it may be one.
fn sound_header(block: &[u8], geometry: &Geometry, place: u64) -> Result<LogHeader, String> {
    let header = LogHeader::read(block).map_err(|short| short.to_string())?;
    if header.magic != LogHeader::MAGIC {
        return Err("there is no log".to_string());
    }
    let room = geometry.segment(geometry.segment_of(place)).end.saturating_sub(place);
    if !(2..=room).contains(&u64::from(header.blocks)) {
        return Err(format!("the log has {} blocks, with {room} left in the segment", header.blocks));
    }
    if usize::from(header.bytes) < LogHeader::BYTES || u32::from(header.bytes) > header.summary_bytes {
        return Err(format!("the header has {} bytes, and the summary {}", header.bytes, header.summary_bytes));
    }
    let summary_blocks = u64::from(header.summary_bytes).div_ceil(geometry.block_bytes as u64);
    if summary_blocks >= u64::from(header.blocks) {
        return Err(format!("the summary fills all of the {} blocks", header.blocks));
    }
    Ok(header)
}

impl FoundLog {
    /// The blocks that it tells of.
    ///
    /// # Errors
    /// What is wrong with the summary.
    pub fn blocks(&self, geometry: &Geometry) -> Result<Vec<LogBlock>, String> {
        summary::read_blocks(&self.summary, &self.header, self.place, geometry.block_bytes)
    }

    /// Whether the sum of the summary alone is right.
    pub fn has_summary_sum(&self, seed: u32) -> bool {
        let summed = self.summary.get(8..self.header.summary_bytes as usize).unwrap_or_default();
        crate::format::crc(seed, summed) == self.header.summary_sum
    }

    /// The block behind it.
    pub fn end(&self) -> u64 {
        self.place + u64::from(self.header.blocks)
    }
}

/// Where a walk is.
struct Walk {
    place: u64,
    segment_end: u64,
    sequence: u64,
    /// First block of the segment behind this one, as the last sound log has it.
    next: u64,
    /// Places in a row that hold no log.
    strays: u32,
    open: Option<SyncedLog>,
    synced: Vec<SyncedLog>,
    end: String,
    /// Whether the first logs of a logical segment were seen, and its last one was not.
    is_begun: bool,
    /// Segments left: a circle of sound logs cannot be longer.
    segments_left: u64,
}

impl Walk {
    fn new(place: u64, sequence: u64, geometry: &Geometry) -> Walk {
        let segment_end = geometry.segment(geometry.segment_of(place)).end;
        let (open, synced, end) = (None, Vec::new(), String::new());
        let (is_begun, segments_left) = (false, geometry.segments);
        Walk { place, segment_end, sequence, next: 0, strays: 0, open, synced, end, is_begun, segments_left }
    }

    /// Where the next log is looked for; `None` at the end of the walk.
    fn place(&self) -> Option<u64> {
        (self.strays < 2 && self.segments_left > 0).then_some(self.place)
    }

    /// Whether a log belongs to what was written behind a checkpoint. One that a former log left there does not: a
    /// crash may have cut the logs before it.
    fn follows(&self, log: FoundLog, latest: &Latest) -> Result<FoundLog, String> {
        let header = &log.header;
        if header.cno != latest.cno.wrapping_add(1) {
            return Err(format!("it belongs to checkpoint {}, and checkpoint {} is before it", header.cno, latest.cno));
        }
        if header.has(flag::SUPER_ROOT) && !header.has(flag::BEGIN) && !self.is_begun {
            return Err("the logs before it are not there".to_string());
        }
        Ok(log)
    }

    /// Goes behind a sound log.
    fn step(&mut self, log: &FoundLog, geometry: &Geometry) {
        self.strays = 0;
        self.is_begun = !log.header.has(flag::END) && (self.is_begun || log.header.has(flag::BEGIN));
        self.next = log.header.next;
        self.note(log);
        self.place = log.end();
        // A log has two blocks at least.
        if self.place + 2 > self.segment_end {
            self.end = format!("segment {} is full", geometry.segment_of(log.place));
            self.next_segment(geometry);
        }
    }

    /// What lies there is no log.
    fn stray(&mut self, why: &str, geometry: &Geometry) {
        self.strays += 1;
        self.is_begun = false;
        self.end = format!("block {}: {why}", self.place);
        if self.strays < 2 {
            self.next_segment(geometry);
        }
    }

    fn next_segment(&mut self, geometry: &Geometry) {
        if !geometry.has(self.next) {
            self.end = format!("{}; the next segment would begin at block {}", self.end, self.next);
            self.strays = 2;
            return;
        }
        let range = geometry.segment(geometry.segment_of(self.next));
        (self.place, self.segment_end) = (range.start, range.end);
        self.sequence = self.sequence.wrapping_add(1);
        self.segments_left -= 1;
        // What is no log at its beginning ends the walk.
        self.strays = 1;
    }

    /// Remembers logs of synced data. A checkpoint makes those before it its own.
    fn note(&mut self, log: &FoundLog) {
        let header = &log.header;
        if header.has(flag::SUPER_ROOT) {
            self.open = None;
            self.synced.clear();
            return;
        }
        if header.has(flag::BEGIN) {
            self.open = Some(SyncedLog { place: log.place, sequence: header.sequence, logs: 0 });
        }
        let is_data = header.has(flag::DATA_SYNC);
        match &mut self.open {
            Some(open) if is_data => open.logs += 1,
            _ => self.open = None,
        }
        if header.has(flag::END) {
            self.synced.extend(self.open.take());
        }
    }
}
