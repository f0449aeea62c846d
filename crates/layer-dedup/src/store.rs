//! The tables in use: what they say, and transitions; below, opening, and commits and checkpoints.
//!
//! Lock order: the turn to change tables (`turn`), then the turn to write the journal (`commits`). Invariants: data is
//! durable before a record that points to it is written, records are durable before a page with what they say, pages
//! before the superblock that forgets the records.

mod commit;
mod open;

use std::cell::{Cell, RefCell};

use esker_block::{BioError, Latch};
use esker_framing::cell::PAYLOAD;
use esker_layer_kit::{GroupCommit, Io, Turn};
use esker_rt::Rt;

pub use open::OpenError;

use crate::cache::Cache;
use crate::index;
use crate::journal::{Fingerprint, Left, Record, Taken};
use crate::layout::{BITS_PER_CELL, BITS_PER_PAGE, ENTRY, Layout, SLOT, Spot};
use crate::space::Space;
use crate::superblock::Superblock;

/// How a volume is to behave.
#[derive(Clone, Debug)]
pub struct Config {
    /// Name in the stack text.
    pub name: String,
    /// Where everything lies, if the volume is new.
    pub layout: Layout,
    /// Bytes of the lower device.
    pub device: u64,
    /// Sectors of the journal that are written together at least.
    pub unit: u64,
    /// Largest write of the lower device in bytes.
    pub transfer_max: u64,
    /// Whether the lower device can zero.
    pub zeroes: bool,
    /// Pages of the tables in memory.
    pub pages_max: usize,
    /// Records that wait for a commit at most.
    pub pending_max: usize,
    /// References of a data block at most; one more block takes another copy.
    pub refs_max: u32,
    /// Whether blocks with equal fingerprints are compared.
    pub verify: bool,
}

/// The entry of a data block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// What its bytes hash to.
    pub fingerprint: Fingerprint,
    /// Blocks of the volume that have it.
    pub refs: u32,
}

impl Entry {
    /// From its bytes.
    pub fn decode(bytes: &[u8; ENTRY]) -> Entry {
        let (fingerprint, refs) = bytes.split_at(32);
        let refs = u32::from_le_bytes(refs.try_into().expect("four bytes"));
        Entry { fingerprint: fingerprint.try_into().expect("32 bytes"), refs }
    }

    fn encode(&self) -> [u8; ENTRY] {
        let mut bytes = [0; ENTRY];
        bytes[..32].copy_from_slice(&self.fingerprint);
        bytes[32..].copy_from_slice(&self.refs.to_le_bytes());
        bytes
    }
}

/// Records on their way to the journal.
#[derive(Default)]
struct Log {
    epoch: u64,
    /// Sector with which the next commit begins.
    next: u64,
    /// Number of the commit that will hold what is pending.
    commit: u64,
    pending: Vec<Record>,
}

/// What it did since it was opened.
#[derive(Default)]
pub(crate) struct Done {
    pub commits: Cell<u64>,
    pub checkpoints: Cell<u64>,
    pub replayed: Cell<u64>,
}

/// The tables in use.
pub struct Store {
    pub(crate) config: Config,
    rt: Rt,
    set: u128,
    pub(crate) cache: Cache,
    pub(crate) turn: Turn,
    commits: GroupCommit,
    log: RefCell<Log>,
    pub(crate) space: RefCell<Space>,
    mapped: Cell<u64>,
    used: Cell<u32>,
    pub(crate) latch: Latch,
    pub(crate) done: Done,
}

impl Store {
    fn of(config: Config, superblock: &Superblock, rt: &Rt) -> Store {
        Store {
            rt: rt.clone(),
            cache: Cache::new(config.layout, superblock.set, config.pages_max, config.transfer_max),
            set: superblock.set,
            turn: Turn::default(),
            commits: GroupCommit::default(),
            log: RefCell::new(Log { epoch: superblock.epoch, ..Log::default() }),
            space: RefCell::default(),
            mapped: Cell::new(superblock.mapped),
            used: Cell::new(superblock.used),
            latch: Latch::new(&config.name),
            done: Done::default(),
            config,
        }
    }

    /// Where everything lies.
    pub fn layout(&self) -> &Layout {
        &self.config.layout
    }

    /// Blocks of the volume that have a data block.
    pub fn mapped(&self) -> u64 {
        self.mapped.get()
    }

    /// Data blocks in use.
    pub fn used(&self) -> u32 {
        self.used.get()
    }

    /// The cell of the free map that begins with block `base`.
    async fn bits(&self, io: &Io, base: u32) -> Result<[u8; PAYLOAD], BioError> {
        let (spot, _) = self.layout().bit(base);
        self.cache.load(io, spot.page).await?;
        self.cache.get(spot)
    }

    /// The data block of a volume block.
    ///
    /// # Errors
    /// What the lower device answers, and damaged tables.
    pub async fn block_of(&self, io: &Io, logical: u32) -> Result<Option<u32>, BioError> {
        self.cache.load(io, self.layout().map(logical).page).await?;
        self.block_at_hand(logical)
    }

    /// As [`Store::block_of`], when the page of the map is there.
    pub(crate) fn block_at_hand(&self, logical: u32) -> Result<Option<u32>, BioError> {
        let block = u32::from_le_bytes(self.cache.get(self.layout().map(logical))?).checked_sub(1);
        match block {
            Some(block) if block >= self.layout().physical => Err(wrong(format!(
                "the map leads block {logical} of the volume to data block {block}, which is not there"
            ))),
            block => Ok(block),
        }
    }

    /// The entry of a data block.
    pub(crate) async fn entry(&self, io: &Io, block: u32) -> Result<Entry, BioError> {
        let spot = self.layout().entry(block);
        self.cache.load(io, spot.page).await?;
        Ok(Entry::decode(&self.cache.get(spot)?))
    }

    /// A data block with this fingerprint that can have one more reference. The caller has the turn.
    ///
    /// # Errors
    /// As [`Store::block_of`].
    pub(crate) async fn find(&self, io: &Io, fingerprint: &Fingerprint) -> Result<Option<u32>, BioError> {
        let spot = self.layout().bucket(fingerprint);
        self.cache.load(io, spot.page).await?;
        let bucket: [u8; PAYLOAD] = self.cache.get(spot)?;
        for block in index::blocks(&bucket, index::tag(fingerprint)).filter(|block| *block < self.layout().physical) {
            let entry = self.entry(io, block).await?;
            if entry.fingerprint == *fingerprint && (1..self.config.refs_max).contains(&entry.refs) {
                return Ok(Some(block));
            }
        }
        Ok(None)
    }

    /// Takes a free data block, if there is one that may be taken. The caller has the turn.
    ///
    /// # Errors
    /// As [`Store::block_of`]; a block that is free in one table and used in another.
    pub(crate) async fn allocate(&self, io: &Io) -> Result<Option<u32>, BioError> {
        let order = self.space.borrow().order();
        for (page, from) in order {
            let first = page * BITS_PER_PAGE as u32;
            let end = (u64::from(first) + BITS_PER_PAGE).min(u64::from(self.layout().physical)) as u32;
            let cell = BITS_PER_CELL as u32;
            let begin = first + from.saturating_sub(first) / cell * cell;
            for base in (begin..end).step_by(cell as usize) {
                let bits = self.bits(io, base).await?;
                let found = self.space.borrow().find(&bits, base, from, end);
                let Some(block) = found else { continue };
                if self.entry(io, block).await?.refs != 0 {
                    let what = format!("data block {block} is free in the free map and used in its entry");
                    self.latch.set(&self.rt, &what, commit::CHECK);
                    return Err(wrong(what));
                }
                self.space.borrow_mut().reserve(block);
                return Ok(Some(block));
            }
        }
        Ok(None)
    }

    /// Gives a volume block another data block, or none. The caller has the turn.
    ///
    /// # Errors
    /// As [`Store::block_of`], and then nothing has changed.
    pub(crate) async fn change(
        &self,
        io: &Io,
        logical: u32,
        target: Option<(u32, Fingerprint)>,
    ) -> Result<(), BioError> {
        self.latch.check()?;
        if self.cache.is_full_of_changes() || !self.has_room() {
            self.checkpoint(io).await?;
        }
        self.cache.hold();
        let result = self.change_held(io, logical, target).await;
        self.cache.release();
        result
    }

    async fn change_held(&self, io: &Io, logical: u32, target: Option<(u32, Fingerprint)>) -> Result<(), BioError> {
        let before = self.block_of(io, logical).await?;
        if before == target.map(|(block, _)| block) {
            return Ok(());
        }
        let left = match before {
            Some(block) => match self.entry(io, block).await?.refs.checked_sub(1) {
                Some(refs) => Some(Left { block, refs }),
                None => return Err(wrong(format!("data block {block} has a volume block and no reference"))),
            },
            None => None,
        };
        let taken = match target {
            Some((block, fingerprint)) => {
                Some(Taken { block, refs: self.entry(io, block).await?.refs.saturating_add(1), fingerprint })
            }
            None => None,
        };
        let record = Record { logical, left, taken };
        self.ready(io, &record).await?;
        self.apply(&record);
        self.note(record);
        Ok(())
    }

    /// Loads all that a record changes, so that it is applied whole or not at all.
    async fn ready(&self, io: &Io, record: &Record) -> Result<(), BioError> {
        let layout = self.layout();
        let mut spots = vec![layout.map(record.logical)];
        if let Some(left) = record.left {
            spots.push(layout.entry(left.block));
            if left.refs == 0 {
                let fingerprint = self.entry(io, left.block).await?.fingerprint;
                spots.extend([layout.bit(left.block).0, layout.bucket(&fingerprint)]);
            }
        }
        if let Some(taken) = record.taken {
            spots.push(layout.entry(taken.block));
            if taken.refs == 1 {
                spots.extend([layout.bit(taken.block).0, layout.bucket(&taken.fingerprint)]);
            }
        }
        for spot in spots {
            self.cache.load(io, spot.page).await?;
            self.cache.get::<1>(spot)?;
        }
        Ok(())
    }

    /// Puts a record into the tables, all of which are at hand.
    fn apply(&self, record: &Record) {
        let layout = self.layout();
        let block = record.taken.map_or(0, |taken| taken.block + 1);
        self.cache.put(layout.map(record.logical), &block.to_le_bytes());
        if let Some(Left { block, refs }) = record.left {
            let spot = layout.entry(block);
            let mut entry = Entry::decode(&self.at_hand(spot));
            match refs {
                0 => {
                    self.unindex(block, &entry.fingerprint);
                    entry = Entry { fingerprint: [0; 32], refs: 0 };
                    self.mark(block, false);
                    self.used.set(self.used.get().saturating_sub(1));
                }
                refs => entry.refs = refs,
            }
            self.cache.put(spot, &entry.encode());
            self.mapped.set(self.mapped.get().saturating_sub(1));
        }
        if let Some(Taken { block, refs, fingerprint }) = record.taken {
            self.cache.put(layout.entry(block), &Entry { fingerprint, refs }.encode());
            if refs == 1 {
                self.mark(block, true);
                self.index(block, &fingerprint);
                self.used.set(self.used.get().saturating_add(1));
            }
            self.mapped.set(self.mapped.get().saturating_add(1));
        }
    }

    fn at_hand<const N: usize>(&self, spot: Spot) -> [u8; N] {
        self.cache.get(spot).expect("a record is applied when its cells are at hand and sound")
    }

    fn mark(&self, block: u32, is_used: bool) {
        let (spot, bit) = self.layout().bit(block);
        let [byte] = self.at_hand(spot);
        self.cache.put(spot, &[if is_used { byte | bit } else { byte & !bit }]);
    }

    fn index(&self, block: u32, fingerprint: &Fingerprint) {
        let spot = self.layout().bucket(fingerprint);
        let bucket: [u8; PAYLOAD] = self.at_hand(spot);
        if let Some((at, bytes)) = index::insert(&bucket, index::tag(fingerprint), block) {
            self.cache.put(Spot { at, ..spot }, &bytes);
        }
    }

    fn unindex(&self, block: u32, fingerprint: &Fingerprint) {
        let spot = self.layout().bucket(fingerprint);
        let bucket: [u8; PAYLOAD] = self.at_hand(spot);
        if let Some(at) = index::find(&bucket, index::tag(fingerprint), block) {
            self.cache.put(Spot { at, ..spot }, &[0; SLOT]);
        }
    }

    /// What follows from a record that was applied just now.
    fn note(&self, record: Record) {
        let (mut log, mut space) = (self.log.borrow_mut(), self.space.borrow_mut());
        if let Some(left) = record.left.filter(|left| left.refs == 0) {
            space.freed(left.block, log.commit);
        }
        if let Some(taken) = record.taken.filter(|taken| taken.refs == 1) {
            space.used(taken.block);
        }
        log.pending.push(record);
        self.commits.ask();
    }
}

fn wrong(what: String) -> BioError {
    BioError::io(format!("the tables contradict each other: {what}; check the lower device"))
}
