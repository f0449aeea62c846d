//! A check that reads the device alone.
//!
//! It verifies all logs of dirty segments, and walks all trees of the latest checkpoint and of each snapshot. What the
//! summaries of logs tell of a block is compared with what leads to it. Counts are compared with brute force where the
//! format promises them. Counters of live blocks are advice: how many are wrong is counted, and is no finding.

mod allocators;
mod checkpoints;
mod dat;
mod dirs;
mod segments;
mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::rc::Rc;

use esker_base::Progress;
use esker_block::Device;
use esker_rt::Rt;

use crate::error::LfsError;
use crate::format::{LogBlock, Payload, SegmentUsage};
use crate::map::{MapWalk, MappedBlock, MappedFile};
use crate::volume::Volume;

/// How grave a finding is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Gravity {
    /// Worth to know: nothing is lost.
    Note,
    /// Wrong.
    Damage,
}

/// Something that is wrong, or worth to know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// How grave it is.
    pub gravity: Gravity,
    /// The structure, with its number.
    pub at: String,
    /// What is wrong.
    pub why: String,
    /// What to do.
    pub advice: &'static str,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.gravity == Gravity::Note { "note: " } else { "" };
        write!(f, "{word}{}: {}. {}", self.at, self.why, self.advice)
    }
}

/// What there was to check.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counted {
    /// Checkpoints, snapshots included.
    pub checkpoints: u64,
    /// Snapshots.
    pub snapshots: u64,
    /// Dirty segments.
    pub segments_dirty: u64,
    /// Logs.
    pub logs: u64,
    /// Blocks that the latest checkpoint reaches, those of the DAT among them.
    pub blocks: u64,
    /// Inodes of the latest checkpoint.
    pub inodes: u64,
    /// Segments whose counter is not the number of their blocks that live or that a snapshot protects, where there are
    /// counters.
    pub counters_off: u64,
    /// Blocks by which these counters differ from that, without signs.
    pub miscounted_blocks: u64,
    /// Blocks that live or that a snapshot protects.
    pub counted_blocks: u64,
}

/// What a check found.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Found {
    /// What is wrong, in the order of the check. At most [`FINDINGS_MAX`].
    pub findings: Vec<Finding>,
    /// Findings that are not listed.
    pub more: u64,
    /// What there was.
    pub counted: Counted,
}

impl Found {
    /// Whether nothing is wrong. Notes do not count.
    pub fn is_clean(&self) -> bool {
        self.findings.iter().all(|finding| finding.gravity == Gravity::Note)
    }
}

/// Most findings that are listed.
pub const FINDINGS_MAX: usize = 200;

const SALVAGE: &str = "Copy what can be read, from an older checkpoint if need be, and make the file system anew";
const REMOUNT: &str = "Mount it for writing with a driver, which writes the copy again";
const RECOUNT: &str = "Nothing is lost: the number is a count, and no copy of it exists";
const HARMLESS: &str = "Nothing needs to be done";

/// Checks the image on a device.
///
/// # Errors
/// It cannot be opened at all.
pub async fn check(rt: &Rt, device: Rc<dyn Device>) -> Result<Found, LfsError> {
    let volume = Volume::open(rt, device).await?;
    Ok(check_volume(&volume).await)
}

/// Checks an image that is open.
pub async fn check_volume(volume: &Volume) -> Found {
    let mut checker = Checker::new(volume);
    checker.superblocks();
    checker.segments().await;
    let checkpoints = checker.checkpoints().await;
    for file in [volume.dat(), volume.cpfile(), volume.sufile()] {
        checker.metadata(&file).await;
    }
    let count = checkpoints.len() as u64;
    for (number, checkpoint) in (1u64..).zip(checkpoints) {
        checker.tree(&checkpoint).await;
        checker.tell("trees", "checkpoints", number, count);
    }
    checker.dat().await;
    checker.live_counters();
    checker.found
}

struct Checker<'v> {
    volume: &'v Volume,
    found: Found,
    usages: BTreeMap<u64, SegmentUsage>,
    /// What the logs tell of their blocks, by place.
    logged: BTreeMap<u64, LogBlock>,
    /// Segments of which no log tells.
    untold: BTreeSet<u64>,
    /// Virtual blocks that the latest checkpoint reaches.
    reached: BTreeSet<u64>,
    /// Blocks of the DAT.
    dat_places: BTreeSet<u64>,
    /// Snapshots, in ascending order.
    snapshots: Vec<u64>,
    /// Blocks of each segment that live or that a snapshot protects.
    live: BTreeMap<u64, u64>,
}

impl<'v> Checker<'v> {
    fn new(volume: &'v Volume) -> Checker<'v> {
        Checker {
            volume,
            found: Found::default(),
            usages: BTreeMap::new(),
            logged: BTreeMap::new(),
            untold: BTreeSet::new(),
            reached: BTreeSet::new(),
            dat_places: BTreeSet::new(),
            snapshots: Vec::new(),
            live: BTreeMap::new(),
        }
    }

    /// Reports how far a part of the check is.
    fn tell(&self, part: &str, unit: &'static str, done: u64, total: u64) {
        self.volume.medium().rt().progress(Progress::of(part, unit, done, total));
    }

    fn add(&mut self, gravity: Gravity, at: impl Into<String>, why: impl Into<String>, advice: &'static str) {
        if self.found.findings.len() < FINDINGS_MAX {
            self.found.findings.push(Finding { gravity, at: at.into(), why: why.into(), advice });
        } else {
            self.found.more += 1;
        }
    }

    fn damage(&mut self, at: impl Into<String>, why: impl Into<String>) {
        self.add(Gravity::Damage, at, why, SALVAGE);
    }

    fn miscount(&mut self, at: impl Into<String>, what: &str, told: u64, counted: u64) {
        if told != counted {
            self.add(Gravity::Damage, at, format!("it says {told} {what}, and there are {counted}"), RECOUNT);
        }
    }

    fn error(&mut self, at: impl Into<String>, error: &LfsError) {
        self.damage(at, error.to_string());
    }

    fn superblocks(&mut self) {
        let (chosen, latest) = (self.volume.chosen(), self.volume.latest());
        if let Some((copy, fault)) = &chosen.repair {
            self.add(Gravity::Damage, copy.to_string(), fault.to_string(), REMOUNT);
        }
        let state = chosen.superblock.state;
        if state & crate::format::superblock::state::ERROR != 0 {
            self.add(Gravity::Note, chosen.from.to_string(), "a driver noted an error", HARMLESS);
        }
        for synced in &latest.synced {
            let why = format!("{} logs of synced data lie behind the latest checkpoint", synced.logs);
            let advice = "The next mount for writing brings them forward";
            self.add(Gravity::Note, format!("block {}", synced.place), why, advice);
        }
    }

    /// Walks the blocks of a file, and holds each to its log. Gives those of data that can be read.
    async fn walk(&mut self, at: &str, file: &MappedFile) -> Walked {
        let mut walked = Walked::default();
        let mut walk = match MapWalk::new(self.volume, *file, 0) {
            Ok(walk) => walk,
            Err(error) => {
                self.error(at, &error);
                return walked;
            }
        };
        while let Some((block, place)) = walk.next().await {
            walked.blocks += 1;
            match place {
                Ok(place) => {
                    self.hold_to_log(at, file, &block, place);
                    if block.level == 0 {
                        walked.data.push(block.index);
                    }
                    walked.addresses.push((block.address, place));
                }
                Err(error) => self.error(format!("{at}, block {} of level {}", block.index, block.level), &error),
            }
        }
        walked
    }

    /// Compares what leads to a block with what its log says.
    fn hold_to_log(&mut self, at: &str, file: &MappedFile, block: &MappedBlock, place: u64) {
        let segment = self.volume.geometry().segment_of(place);
        if self.untold.contains(&segment) {
            return;
        }
        let at = format!("{at}, block {} of level {}", block.index, block.level);
        let Some(logged) = self.logged.get(&place) else {
            return self.damage(at, format!("block {place} of the device, in segment {segment}, belongs to no log"));
        };
        let is_right = logged.ino == file.ino
            && match logged.what {
                Payload::Data { vblock, index } => block.level == 0 && vblock == block.address && index == block.index,
                Payload::Node { vblock } => block.level > 0 && vblock == block.address,
                Payload::DatData { index } => block.level == 0 && index == block.index,
                Payload::DatNode { level, .. } => block.level == level && level > 0,
            };
        if !is_right {
            let why = format!("at block {place} the log tells of inode {}: {:?}", logged.ino, logged.what);
            self.damage(at, why);
        }
    }
}

/// What a walk over a file found.
#[derive(Default)]
struct Walked {
    /// Blocks, nodes included.
    blocks: u64,
    /// Numbers of blocks of data.
    data: Vec<u64>,
    /// Addresses of all blocks that can be read, with their places.
    addresses: Vec<(u64, u64)>,
}
