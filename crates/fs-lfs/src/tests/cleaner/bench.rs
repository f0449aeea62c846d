//! What tests of the cleaner share: a file system that answers some calls otherwise, a load, and configurations.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use esker_base::{Errno, Nanos, Stream};
use esker_block::Step;
use esker_vfs::{Answer, FileSystem, Ino, Sync};

use crate::Lfs;
use crate::cleaner::config::{LateAbort, Share, StepLimits};
use crate::cleaner::{CleanerConfig, CleanerTurn, LfsCleaner, StepEnd};
use crate::control::{
    CheckpointInfo, CheckpointMode, Checkpoints, Cleaned, CleaningOrder, DatBlock, LfsControl, LfsTotals, SegmentInfo,
    SegmentLogs, SegmentUpdate, VirtualBlock,
};
use crate::tests::control::{at, bytes, create, write};
use crate::write::CleanerSession;

pub(crate) const BLOCKS: u64 = 1024;

/// A file system in which a part of the calls answers otherwise.
pub(crate) struct Warped {
    pub(crate) control: CleanerSession,
    /// What setting usages answers, if it sets one of these fields.
    pub(crate) refused: Cell<Option<(Errno, u32)>>,
    /// Usages that were set.
    pub(crate) set: RefCell<Vec<SegmentUpdate>>,
    /// Orders so far.
    pub(crate) orders: RefCell<Vec<CleaningOrder>>,
    /// Whether everything that may be cleaned is old enough.
    pub(crate) is_eager: bool,
}

impl Warped {
    pub(crate) fn new(fs: &Lfs, is_eager: bool) -> Rc<Warped> {
        let (control, refused) = (fs.control(), Cell::default());
        Rc::new(Warped { control, refused, set: RefCell::default(), orders: RefCell::default(), is_eager })
    }
}

impl LfsControl for Warped {
    fn claim(&self) -> Answer<()> {
        self.control.claim()
    }

    fn release(&self) -> Answer<()> {
        self.control.release()
    }

    fn totals(&self) -> Answer<LfsTotals> {
        let is_eager = self.is_eager;
        self.control.totals().map(move |totals| {
            totals.map(|totals| match is_eager {
                true => LfsTotals { now: totals.now + 2, written: totals.now + 2, ..totals },
                false => totals,
            })
        })
    }

    fn segments(&self, from: u64) -> Answer<Vec<SegmentInfo>> {
        self.control.segments(from)
    }

    fn set_segments(&self, updates: Vec<SegmentUpdate>) -> Answer<()> {
        let fields = updates.iter().fold(0, |fields, update| fields | update.fields);
        match self.refused.get() {
            Some((errno, refused)) if fields & refused != 0 => Step::Now(Err(errno)),
            _ => {
                self.set.borrow_mut().extend(&updates);
                self.control.set_segments(updates)
            }
        }
    }

    fn virtual_blocks(&self, vblocks: Vec<u64>) -> Answer<Vec<VirtualBlock>> {
        self.control.virtual_blocks(vblocks)
    }

    fn dat_blocks(&self, blocks: Vec<DatBlock>) -> Answer<Vec<DatBlock>> {
        self.control.dat_blocks(blocks)
    }

    fn checkpoints(&self, from: u64, which: Checkpoints) -> Answer<Vec<CheckpointInfo>> {
        self.control.checkpoints(from, which)
    }

    fn set_mode(&self, cno: u64, mode: CheckpointMode) -> Answer<()> {
        self.control.set_mode(cno, mode)
    }

    fn delete_checkpoint(&self, cno: u64) -> Answer<()> {
        self.control.delete_checkpoint(cno)
    }

    fn logs(&self, segment: u64) -> Answer<SegmentLogs> {
        self.control.logs(segment)
    }

    fn clean(&self, order: CleaningOrder) -> Answer<Cleaned> {
        self.orders.borrow_mut().push(order.clone());
        self.control.clean(order)
    }

    fn sync(&self) -> Answer<u64> {
        self.control.sync()
    }
}

/// A file that is overwritten at random, a second for each sync.
pub(crate) struct Load {
    pub(crate) ino: Ino,
    pub(crate) rng: Stream,
    pub(crate) seconds: u64,
    pub(crate) rounds: Vec<u64>,
}

impl Load {
    pub(crate) async fn new(fs: &Lfs) -> Load {
        let ino = create(fs, at(1), "file").await;
        for number in 0..BLOCKS {
            write(fs, at(1), ino, number, 0).await;
        }
        fs.sync(at(1), Sync::All).await.unwrap();
        Load { ino, rng: Stream::named(7, "overwrites"), seconds: 2, rounds: vec![0; BLOCKS as usize] }
    }

    /// So many blocks of the first `among`, with a sync.
    pub(crate) async fn overwrite(&mut self, fs: &Lfs, blocks: u64, among: u64) {
        self.seconds += 1;
        for _ in 0..blocks {
            let number = self.rng.below(among);
            write(fs, at(self.seconds), self.ino, number, self.seconds).await;
            self.rounds[number as usize] = self.seconds;
        }
        fs.sync(at(self.seconds), Sync::All).await.unwrap();
    }

    pub(crate) async fn assert_whole(&self, fs: &Lfs) {
        for (number, round) in (0..).zip(&self.rounds) {
            let read = fs.read(at(self.seconds), self.ino, number * 4096, 4096).await.unwrap().to_vec();
            assert!(read == bytes(number, *round), "block {number}");
        }
    }
}

/// A cleaner that takes one segment at a time, the oldest, and leaves what gives back less than half of it.
pub(crate) fn picky(late_abort: LateAbort) -> CleanerConfig {
    let config = eager("timestamp");
    let limits = StepLimits { segments: 1, min_reclaimable: Share::Percent(50.0), ..config.relaxed };
    CleanerConfig { late_abort, relaxed: limits, pressed: limits, ..config }
}

/// A cleaner that always works.
pub(crate) fn eager(policy: &str) -> CleanerConfig {
    let limits = StepLimits { segments: 4, interval: Nanos::millis(1), min_reclaimable: Share::Percent(10.0) };
    let (min_clean, max_clean) = (Share::Percent(100.0), Share::Percent(100.0));
    let policy = policy.to_string();
    CleanerConfig { min_clean, max_clean, policy, relaxed: limits, pressed: limits, ..CleanerConfig::usual() }
}

/// Turns until a pass finds no victim. Answers the blocks that were copied.
pub(crate) async fn passed(cleaner: &LfsCleaner) -> u64 {
    let mut copied = 0;
    for _ in 0..1000 {
        match cleaner.turn().await.unwrap() {
            CleanerTurn::Made(step) if step.end == StepEnd::Nothing => return copied,
            CleanerTurn::Made(step) => copied += step.copied,
            CleanerTurn::Idle => return copied,
        }
    }
    panic!("a pass comes to no end");
}
