//! The file system that takes changes.
//!
//! Calls change frames of the page cache and inodes in memory. A checkpoint takes all of that as it is at one instant,
//! so a checkpoint always falls between two calls: after a crash the state is that after some prefix of them. Metadata
//! files change while a checkpoint is made, and only then.
//!
//! Reading order: [`tree`] (maps), [`meta`] and [`core`] (blocks of metadata files), [`alloc`], [`dat`], [`segments`]
//! (what lies in them), [`table`] (inodes). Then [`plan`], [`checkpoint`], [`moves`] and [`logs`] (checkpoints),
//! [`data_sync`] (bytes without a checkpoint), [`clean`] (cleaning), [`superblocks`], [`recovery`] (opening). Last
//! [`dirs`], [`names`], [`rename`], [`bytes`], [`snapshots`] and [`system`] (calls), [`control`] and [`order`] (calls
//! of cleaners). Counters of live blocks: [`counting`] and [`scan`].

mod alloc;
mod bytes;
mod checkpoint;
mod clean;
mod control;
mod core;
pub mod counting;
mod dat;
mod data_sync;
mod dirs;
mod logs;
mod meta;
mod moves;
mod names;
mod nearby;
mod order;
mod plan;
mod recount;
mod recovery;
mod rename;
mod scan;
mod segments;
mod snapshots;
mod superblocks;
mod system;
mod table;
mod tree;

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::{Rc, Weak};

use esker_base::units::MIB;
use esker_base::{Errno, Nanos, Time};
use esker_block::{BioError, Device, Latch};
use esker_fs_pages::{PageCache, PageCacheConfig};
use esker_layer_kit::{GroupCommit, Turn};
use esker_rt::Rt;
use esker_rt::sync::Notify;
use esker_vfs::{About, Claims, Stamp};

use self::core::Core;
use self::dirs::DirNames;
use crate::error::LfsError;
use clean::{Cleaning, Pass};
pub use control::CleanerSession;
use counting::SnapshotCounting;
use data_sync::Unlogged;
use table::Inode;

/// Memory of a file system, unless told otherwise.
const MEMORY_BYTES: u64 = 256 * MIB;
/// How long a change may wait for its checkpoint.
const CHECKPOINT_INTERVAL: Nanos = Nanos::secs(30);
/// Blocks that one changed block costs a checkpoint at most, with maps and entries that change with it.
const BLOCKS_OF_CHANGE: u64 = 4;
/// Blocks that a checkpoint costs besides.
const BLOCKS_OF_CHECKPOINT: u64 = 32;
const ADVICE: &str = "Check the device, and mount the file system again.";

/// The file system. A value is a handle.
#[derive(Clone)]
pub struct Lfs(Rc<Inner>);

/// How a mount writes. None of it changes the format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LfsConfig {
    /// Whether blocks that the cleaner moves get segments of their own.
    pub moved_apart: bool,
    /// Whether blocks that the cleaner moves are written in the order of their age.
    pub age_sort: bool,
    /// How long a checkpoint stays though room is short, in seconds.
    pub protection_seconds: u64,
    /// Whether it keeps counters of live blocks. Without, they are stale, and segments are cleaned in their order.
    pub is_tracking: bool,
    /// What happens to counters when a checkpoint becomes a snapshot, or a snapshot a checkpoint.
    pub snapshots: SnapshotCounting,
    /// Whether the time of a counter's last change also tells of blocks of the DAT that ended, as the source has it.
    /// Such blocks are never protected, so the time keeps a policy from good victims.
    pub tells_dat_times: bool,
}

impl LfsConfig {
    /// Moved blocks lie among others, as NILFS2 has them. Counters are exact when the background scan ends.
    pub fn usual() -> LfsConfig {
        LfsConfig {
            moved_apart: false,
            age_sort: false,
            protection_seconds: 0,
            is_tracking: true,
            snapshots: SnapshotCounting::Background,
            tells_dat_times: false,
        }
    }
}

/// Where the log goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct LogHead {
    segment: u64,
    /// Blocks of the segment that are written.
    offset: u64,
    sequence: u64,
    /// The segment that follows. It is taken already.
    next: u64,
    /// The last checkpoint.
    cno: u64,
    /// First block of its last log.
    log: u64,
    /// The number of the segment of that log, in the order in which segments were taken.
    log_sequence: u64,
}

/// Where the log of moved blocks goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct MovedHead {
    segment: u64,
    /// Blocks of the segment that are written.
    offset: u64,
    sequence: u64,
}

struct Inner {
    about: About,
    core: Core,
    cache: PageCache,
    claims: Claims,
    table: RefCell<BTreeMap<u64, Rc<Inode>>>,
    dirs: RefCell<DirNames>,
    /// Inodes without names and pins that the medium still has.
    deleted: RefCell<BTreeMap<u64, Rc<Inode>>>,
    /// Their numbers while a checkpoint deletes them.
    deleting: RefCell<BTreeSet<u64>>,
    /// Numbers of inodes that calls are making.
    creating: RefCell<BTreeSet<u64>>,
    /// Segments that are clean and that no log may take yet: `None` until a checkpoint has made them clean, then the
    /// epoch of the last reads that may look into them.
    resting: RefCell<BTreeMap<u64, Option<u64>>>,
    /// Numbers of segments in the order in which segments were taken, as far as they are known.
    sequences: RefCell<BTreeMap<u64, u64>>,
    head: Cell<LogHead>,
    inodes: Cell<u64>,
    /// Those of the last checkpoint.
    inodes_durable: Cell<u64>,
    /// Blocks of the DAT that the background scan changed since then.
    scanned: Cell<u64>,
    inode_hint: Cell<u64>,
    /// What changed since the last log.
    unlogged: Cell<Unlogged>,
    /// Blocks that were synced since the last checkpoint. It writes their maps and entries.
    synced_blocks: Cell<u64>,
    /// When the last checkpoint was made that cleaned nothing, in seconds since 1970.
    written: Cell<u64>,
    /// The cleaner that has the claim, and until when.
    claim: Cell<Option<(u64, Time)>>,
    /// Numbers of cleaners so far.
    cleaners: Cell<u64>,
    /// Where the search for the first protected checkpoint begins.
    protected_hint: Cell<u64>,
    commit: GroupCommit,
    /// One checkpoint at a time.
    making: Turn,
    latch: Latch,
    clock: Cell<Stamp>,
    /// The segment that takes moved blocks, if they go apart.
    moved_head: Cell<Option<MovedHead>>,
    superblocks: superblocks::Superblocks,
    changed: Notify,
    /// One rename between directories at a time: no two of them make a circle.
    renames: Turn,
    is_closed: Cell<bool>,
    /// A handle on this, for futures.
    me: OnceCell<Weak<Inner>>,
}

impl Lfs {
    /// Opens the file system on a device for changes, as it is usual. If it was not unmounted, it is recovered first.
    ///
    /// # Errors
    /// [`LfsError`].
    pub async fn open(rt: &Rt, device: Rc<dyn Device>, now: Stamp) -> Result<Lfs, LfsError> {
        Lfs::open_with(rt, device, now, LfsConfig::usual()).await
    }

    /// The same, as `config` says.
    ///
    /// # Errors
    /// [`LfsError`].
    pub async fn open_with(rt: &Rt, device: Rc<dyn Device>, now: Stamp, config: LfsConfig) -> Result<Lfs, LfsError> {
        let (inner, synced) = recovery::open(rt, device, now, config).await?;
        let fs = Lfs(Rc::new(inner));
        let _first = fs.0.me.set(Rc::downgrade(&fs.0));
        fs.0.begin(now, &synced).await?;
        rt.spawn_detached("lfs checkpoints", checkpoints_in_time(Rc::downgrade(&fs.0)));
        rt.spawn_detached("lfs scans", scan::scans(Rc::downgrade(&fs.0)));
        rt.spawn_detached("lfs write-back", write_back(Rc::downgrade(&fs.0), fs.0.cache.clone()));
        Ok(fs)
    }
}

/// Makes a checkpoint so long after the first change behind the one before.
async fn checkpoints_in_time(fs: Weak<Inner>) {
    while let Some(inner) = fs.upgrade() {
        if inner.is_closed.get() {
            return;
        }
        inner.changed.wait_until(|| inner.has_changed() || inner.is_closed.get()).await;
        let (rt, goal) = (inner.core.rt.clone(), inner.commit.asked());
        drop(inner);
        rt.sleep(CHECKPOINT_INTERVAL).await;
        let Some(inner) = fs.upgrade() else { return };
        // An error latches the file system, and calls tell it.
        if inner.reach(goal).await.is_err() {
            return;
        }
    }
}

/// Makes a checkpoint when half of the memory for changed frames is in use.
async fn write_back(fs: Weak<Inner>, cache: PageCache) {
    loop {
        cache.pressure().await;
        let Some(inner) = fs.upgrade() else { return };
        if inner.is_closed.get() || inner.sync().await.is_err() {
            return;
        }
    }
}

impl Inner {
    fn handle(&self) -> Rc<Inner> {
        self.me.get().and_then(Weak::upgrade).expect("a handle is in use while calls run")
    }

    fn page_cache(rt: &Rt, core: &Core) -> Result<PageCache, LfsError> {
        let cache = PageCache::new(rt, core.medium.pool(), &PageCacheConfig::of(MEMORY_BYTES));
        cache.map_err(|error| LfsError::Geometry(error.to_string()))
    }

    /// Seconds since 1970.
    fn seconds(&self) -> u64 {
        u64::try_from(self.clock.get().0).unwrap_or(0) / 1_000_000_000
    }

    /// Whether changes may go on.
    fn check(&self) -> Result<(), Errno> {
        match () {
            () if self.is_closed.get() => Err(Errno::EIO),
            () if self.latch.is_set() => Err(Errno::EROFS),
            () => Ok(()),
        }
    }

    /// Notes a change that was made at `now`.
    fn note_change(&self, now: Stamp) {
        self.unlogged.set(Unlogged::More);
        self.note(now);
    }

    /// Notes a change of nothing but bytes of a file, and of its times.
    fn note_bytes(&self, now: Stamp, number: u64) {
        self.unlogged.set(self.unlogged.get().and_bytes_of(number));
        self.note(now);
    }

    fn note(&self, now: Stamp) {
        self.clock.set(self.clock.get().max(now));
        let was_changed = self.has_changed();
        self.commit.ask();
        if !was_changed {
            self.changed.notify_all();
        }
    }

    fn has_changed(&self) -> bool {
        self.commit.asked() > self.commit.durable()
    }

    /// Makes all changes so far durable.
    async fn sync(&self) -> Result<(), Errno> {
        self.reach(self.commit.asked()).await
    }

    async fn reach(&self, goal: u64) -> Result<(), Errno> {
        let reached = self.commit.reach(goal, &self.latch, async || self.commit_now().await).await;
        reached.map_err(|_| Errno::EIO)
    }

    /// Makes a checkpoint in a task of its own: a caller that goes away does not stop it.
    async fn commit_now(&self) -> Result<u64, BioError> {
        self.alone(async |inner| {
            inner.make_checkpoint(inner.freeze(), Cleaning::default()).await?;
            inner.superblock_in_time().await
        })
        .await
        .map(|(asked, ())| asked)
    }

    /// Cleans some segments likewise. Answers how many blocks that gives back; `None` at the end of the pass.
    async fn clean_now(&self, pass: &Rc<Pass>) -> Result<Option<u64>, Errno> {
        let pass = pass.clone();
        let cleaned = self.alone(async move |inner| inner.clean(&pass).await).await;
        let (asked, gain) = cleaned.map_err(|_| Errno::EIO)?;
        if gain.is_some_and(|gain| gain > 0) {
            self.commit.advance(asked);
        }
        Ok(gain)
    }

    /// Does work on the log in a task of its own, one after the other. Answers the number of the last change before it.
    async fn alone<T: 'static>(
        &self,
        work: impl AsyncFnOnce(&Inner) -> Result<T, LfsError> + 'static,
    ) -> Result<(u64, T), BioError> {
        let inner = self.handle();
        let made = async move {
            let work = async {
                inner.latch.check()?;
                let asked = inner.commit.asked();
                let done = work(&inner).await;
                inner.core.taken.borrow_mut().clear();
                inner.latched(done).map(|done| (asked, done))
            };
            inner.making.alone(work).await
        };
        self.core.rt.spawn("lfs log", made).await
    }

    /// Latches the file system after a failure.
    fn latched<T>(&self, done: Result<T, LfsError>) -> Result<T, BioError> {
        let error = match done {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        let what = "a checkpoint was not made";
        if let LfsError::Device(below) = error {
            self.latch.set_after(&self.core.rt, what, &below, ADVICE);
            return Err(below);
        }
        self.latch.set(&self.core.rt, format_args!("{what}: {error}"), ADVICE);
        Err(BioError::Io(error.to_string().into()))
    }

    /// Whether a log may take a segment that is clean.
    fn may_take(&self, segment: u64) -> bool {
        match self.resting.borrow().get(&segment) {
            None => true,
            Some(None) => false,
            Some(Some(epoch)) => self.core.reads.are_over(*epoch),
        }
    }

    /// No log takes these segments before the next checkpoint is durable.
    fn rest(&self, segments: &[u64]) {
        self.resting.borrow_mut().extend(segments.iter().map(|segment| (*segment, None)));
    }

    /// A checkpoint is durable: logs may take what it made clean, when reads that began before are over.
    fn wake_rested(&self) {
        let (epoch, mut resting) = (self.core.reads.next_epoch(), self.resting.borrow_mut());
        resting.retain(|_, since| since.is_none_or(|since| !self.core.reads.are_over(since)));
        resting.values_mut().filter(|since| since.is_none()).for_each(|since| *since = Some(epoch));
    }

    /// Blocks that logs can take without the segments that are kept back.
    fn free_blocks(&self) -> u64 {
        let clean = self.core.segments.get().clean;
        clean.saturating_sub(self.reserved_segments()) * self.core.geometry.segment_blocks
    }

    /// Segments that are kept back.
    fn reserved_segments(&self) -> u64 {
        self.core.superblock.get().reserved_segments(self.core.geometry.segments)
    }

    /// Blocks that logs can take.
    fn writable_blocks(&self) -> u64 {
        let (head, geometry) = (self.head.get(), &self.core.geometry);
        self.core.segments.get().clean * geometry.segment_blocks + geometry.segment_blocks.saturating_sub(head.offset)
    }

    /// Blocks that the next checkpoint may write.
    fn owed_blocks(&self) -> u64 {
        let per_frame = (self.cache.frame_len() / self.core.geometry.block_bytes) as u64;
        let frames = self.cache.stats().dirty * per_frame;
        let synced = self.synced_blocks.get() * (BLOCKS_OF_CHANGE - 1);
        (frames + self.deleted.borrow().len() as u64) * BLOCKS_OF_CHANGE + synced + BLOCKS_OF_CHECKPOINT
    }

    /// Waits until so many blocks more may change.
    ///
    /// # Errors
    /// `ENOSPC`.
    async fn room(&self, blocks: u64) -> Result<(), Errno> {
        self.check()?;
        if self.has_room(blocks) {
            return Ok(());
        }
        self.sync().await?;
        loop {
            let (pass, writable) = (Rc::new(Pass::new(self)), self.writable_blocks());
            while !self.has_room(blocks) && self.clean_now(&pass).await?.is_some() {}
            if self.has_room(blocks) || self.writable_blocks() <= writable {
                break;
            }
        }
        if self.has_room(blocks) { Ok(()) } else { Err(Errno::ENOSPC) }
    }

    fn has_room(&self, blocks: u64) -> bool {
        self.owed_blocks() + blocks * BLOCKS_OF_CHANGE <= self.free_blocks()
    }

    /// Drops an inode from memory that is as on the medium, if no caller and no call has it.
    fn drop_unused(&self, number: u64) {
        let mut table = self.table.borrow_mut();
        if table.get(&number).is_some_and(is_unused) {
            table.remove(&number);
        }
    }

    fn drop_all_unused(&self) {
        let unused: Vec<u64> = {
            let table = self.table.borrow();
            table.iter().filter(|(_, inode)| is_unused(inode)).map(|(number, _)| *number).collect()
        };
        unused.into_iter().for_each(|number| self.drop_unused(number));
    }
}

fn is_unused(inode: &Rc<Inode>) -> bool {
    !inode.is_in_use() && Rc::strong_count(inode) == 1
}
