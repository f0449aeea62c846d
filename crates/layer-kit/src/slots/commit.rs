//! Commits and checkpoints: what makes changes durable, in which order, and what follows when that fails.
//!
//! Lock order: the turn to write the journal (`commits`), then the turn to write a checkpoint (`checkpoints`). A
//! checkpoint that is under way needs the former for the groups before its beginning only. These find room in the half
//! that it began.

use std::cell::RefCell;
use std::collections::BTreeSet;

use esker_block::flight::WIDTH;
use esker_block::{Bio, BioError, Buf};
use esker_framing::cell::CELL;
use esker_framing::{seal, slot};

use super::head::SlotHead;
use super::journal::{self, Location, PER_SECTOR, Packed, Record, SECTOR};
use super::layout::CommitRule;
use super::open::{METADATA, zero};
use super::{Doubt, Log, LowerSet, MapError, NOTE_BYTES, SlotCounts, SlotMap};
use crate::io::Io;

/// What an operator is told when records could not be written.
const SAFE: &str = "What was flushed before is safe. Repair the lower device, then restart.";

/// What there is to write.
enum Due<'a> {
    Nothing,
    /// The half of the journal is full.
    NoRoom,
    Batch(Batch<'a>),
}

/// Groups on their way to the journal. Those of a commit that is dropped before its end wait for the next one.
struct Batch<'a> {
    log: &'a RefCell<Log>,
    packed: Packed,
    to: Location,
    after: LowerSet,
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        let packed = std::mem::take(&mut self.packed);
        if !packed.groups.is_empty() {
            let mut log = self.log.borrow_mut();
            log.next = self.to.number;
            log.taken -= packed.groups.len() as u64;
            log.after = log.after.and(self.after);
            log.waiting.put_back(packed);
        }
    }
}

impl SlotMap {
    /// Makes all changes up to now durable, behind flushes of what they rely on. Callers share commits. A caller that
    /// leaves a half of the journal nearly full does the checkpoint that follows.
    ///
    /// # Errors
    /// What a lower device answers; from then on the map takes no commits.
    pub async fn commit(&self, io: &Io) -> Result<(), MapError> {
        self.reach(io, self.commits.asked()).await?;
        if self.is_due() {
            self.checkpoint(io).await?;
        }
        Ok(())
    }

    async fn reach(&self, io: &Io, goal: u64) -> Result<(), BioError> {
        self.commits.reach(goal, &self.latch, async || self.write_waiting(io).await).await
    }

    /// Writes what waits, alone: the number of groups that are durable then.
    async fn write_waiting(&self, io: &Io) -> Result<u64, BioError> {
        loop {
            self.latch.check()?;
            let mut batch = match self.take_waiting() {
                Due::Nothing => return Ok(self.commits.asked()),
                Due::NoRoom => {
                    self.make_room(io).await?;
                    continue;
                }
                Due::Batch(batch) => batch,
            };
            let number = self.log.borrow().taken;
            let result = self.write_batch(io, &batch).await;
            batch.packed = Packed::default();
            self.latching(result)?;
            let mut log = self.log.borrow_mut();
            log.durable = log.next;
            self.free.borrow_mut().arrived(number);
            self.zones.borrow_mut().arrived(number);
            return Ok(number);
        }
    }

    fn take_waiting(&self) -> Due<'_> {
        let mut log = self.log.borrow_mut();
        if log.waiting.is_empty() {
            return Due::Nothing;
        }
        let room = (self.layout.sectors() - (log.next - log.first)) / self.unit * self.unit;
        // What a checkpoint needs must fit, if need be as one commit.
        let needed = log.goal.saturating_sub(log.taken) as usize;
        let rest = (2 * log.waiting.records() / PER_SECTOR + 1) as u64;
        let groups = match self.commit {
            CommitRule::Each if needed == 0 || self.unit + rest.next_multiple_of(self.unit) <= room => 1,
            CommitRule::Each => needed,
            CommitRule::Group => usize::MAX,
        };
        let packed = log.waiting.take(room, groups);
        if packed.groups.is_empty() {
            return Due::NoRoom;
        }
        let at = self.layout.half_at(log.half) + (log.next - log.first) * SECTOR as u64;
        let to = Location { set: self.set, epoch: log.half, number: log.next, at };
        log.next += (packed.sectors.len() as u64).next_multiple_of(self.unit);
        log.taken += packed.groups.len() as u64;
        let after = std::mem::take(&mut log.after);
        if !log.waiting.is_empty() {
            // Nothing says which of the groups needed which flush.
            log.after = after;
        }
        Due::Batch(Batch { log: &self.log, packed, to, after })
    }

    async fn write_batch(&self, io: &Io, batch: &Batch<'_>) -> Result<(), BioError> {
        // A record never tells of data that a power cut could still take back.
        let flushes: Vec<Bio> =
            batch.after.volumes(io).into_iter().map(|lower| Bio::flush().tagged(METADATA).to(lower)).collect();
        let count = flushes.len() as u64;
        io.all(flushes, WIDTH).await.into_iter().try_for_each(|flush| flush.result.map(drop))?;
        let bytes = journal::encode(&batch.to, self.unit, &batch.packed);
        for (number, piece) in bytes.chunks(self.chunk).enumerate() {
            force(io, self.lower, batch.to.at + (number * self.chunk) as u64, piece).await?;
        }
        let forced = bytes.len().div_ceil(self.chunk) as u64;
        self.count(|counts| {
            counts.commits += 1;
            counts.flushes += count;
            counts.forced += forced;
        });
        Ok(())
    }

    /// The half is full: records go to the other one, for which a checkpoint that is still under way must end.
    async fn make_room(&self, io: &Io) -> Result<(), BioError> {
        match self.is_owed() {
            false => {
                self.switch();
                Ok(())
            }
            true => Box::pin(self.write_checkpoint(io)).await,
        }
    }

    /// Whether records go to a half whose head is not written yet.
    fn is_owed(&self) -> bool {
        let log = self.log.borrow();
        log.half != log.epoch
    }

    /// Whether a checkpoint should come: three quarters of a half are full, or one was begun and is not under way.
    pub fn is_due(&self) -> bool {
        let log = self.log.borrow();
        match log.half == log.epoch {
            true => (log.next - log.first) * 4 >= self.layout.sectors() * 3,
            false => !self.checkpoints.is_taken(),
        }
    }

    /// Writes the cells that have changed, so that a half of the journal is free. Commits go on meanwhile.
    ///
    /// # Errors
    /// As [`SlotMap::commit`].
    pub async fn checkpoint(&self, io: &Io) -> Result<(), MapError> {
        let switch = async {
            if !self.is_owed() {
                self.switch();
            }
        };
        self.commits.alone(switch).await;
        Ok(self.write_checkpoint(io).await?)
    }

    /// From here on records go to the other half. The caller has the turn to write the journal.
    fn switch(&self) {
        let mut log = self.log.borrow_mut();
        assert_eq!(log.half, log.epoch, "a checkpoint begins when the one before has ended");
        log.half += 1;
        (log.before, log.first) = (log.first, log.next);
        drop(log);
        self.begin_checkpoint();
    }

    /// The checkpoint into the half to which records go takes the cells as they are now.
    fn begin_checkpoint(&self) {
        let (mut table, mut log) = (self.table.borrow_mut(), self.log.borrow_mut());
        table.begin_checkpoint(log.half, self.unit as usize);
        // An image has no masks, so each half begins with all of them. A half that a crash left without room for them
        // has them: they lie in its first commit, which is torn only where there is room.
        let masks: Vec<Record> = table.masks().flatten().collect();
        let needed = (masks.len().div_ceil(PER_SECTOR) as u64).next_multiple_of(self.unit);
        if log.next - log.first + needed <= self.layout.sectors() {
            for group in masks.chunks(PER_SECTOR) {
                log.waiting.push(group);
                self.commits.ask();
            }
        }
        log.goal = self.commits.asked();
    }

    /// Writes the checkpoint that was begun, if it was not written meanwhile.
    async fn write_checkpoint(&self, io: &Io) -> Result<(), BioError> {
        let checkpoint = async {
            if !self.is_owed() {
                return Ok(());
            }
            self.latch.check()?;
            let goal = self.log.borrow().goal;
            // Records are durable before a cell with their values is written.
            self.reach(io, goal).await?;
            let result = self.write_image(io).await;
            self.latching(result)
        };
        self.checkpoints.alone(checkpoint).await
    }

    async fn write_image(&self, io: &Io) -> Result<(), BioError> {
        let (cells, epoch) = (self.table.borrow().checkpoint_cells(), self.log.borrow().half);
        let take = |run: &[u32]| self.table.borrow_mut().take_cells(self.set, epoch, run);
        self.write_cells(io, epoch, &cells, take).await?;
        flush(io, self.lower).await?;
        let head = self.head(epoch);
        write_head(io, self.lower, &seal(&head), epoch).await?;
        self.log.borrow_mut().epoch = epoch;
        self.table.borrow_mut().end_checkpoint();
        self.count(|counts| {
            counts.checkpoints += 1;
            counts.forced += 1;
            counts.cells += cells.len() as u64;
        });
        Ok(())
    }

    /// Writes cells of the image of `epoch`: whole blocks, whose bytes `take` gives.
    async fn write_cells(
        &self,
        io: &Io,
        epoch: u64,
        cells: &[u32],
        take: impl Fn(&[u32]) -> Vec<u8>,
    ) -> Result<(), BioError> {
        let most = self.chunk / CELL;
        let runs: Vec<&[u32]> = cells.chunk_by(|a, b| a + 1 == *b).flat_map(|run| run.chunks(most)).collect();
        for group in runs.chunks(WIDTH) {
            let bio = |run: &&[u32]| {
                let buf = Buf::from_bytes(io.pool(), &take(run));
                Bio::write(self.layout.cell_at(epoch, run[0]), buf).tagged(METADATA).to(io.lower(self.lower))
            };
            let written = io.all(group.iter().map(bio).collect(), WIDTH).await;
            written.into_iter().try_for_each(|write| write.result.map(drop))?;
        }
        Ok(())
    }

    /// The head of the checkpoint that is being written.
    fn head(&self, epoch: u64) -> SlotHead {
        let (log, session) = (self.log.borrow(), self.session.borrow());
        SlotHead {
            set: self.set,
            epoch,
            kind: self.kind,
            layout: self.layout,
            is_clean: session.is_clean,
            doubt: if session.doubts_all { Doubt::All } else { Doubt::Zones },
            before: log.before,
            first: log.first,
            next: log.durable,
            note: session.note,
            touched: self.zones.borrow().for_head(),
        }
    }

    /// Writes heads that say that the map is in use, with the owner's `note`, before the first change. Both heads say
    /// so then: a damaged one brings no older note back.
    ///
    /// # Errors
    /// As [`SlotMap::commit`].
    pub async fn begin(&self, io: &Io, note: &[u8; NOTE_BYTES]) -> Result<(), MapError> {
        if self.session.borrow().is_begun {
            // A checkpoint that is under way has the older note.
            self.write_checkpoint(io).await?;
        }
        let mended = self.mend(io).await;
        self.latching(mended)?;
        {
            let mut session = self.session.borrow_mut();
            (session.note, session.is_clean) = (*note, false);
        }
        match self.is_owed() && !self.session.borrow().is_begun {
            true => {
                self.begin_checkpoint();
                self.write_checkpoint(io).await?;
            }
            false => self.checkpoint(io).await?,
        }
        // What was doubtful is in an image now, and no older record changes it back.
        self.session.borrow_mut().doubts_all = self.doubt == Doubt::All;
        self.checkpoint(io).await?;
        self.session.borrow_mut().is_begun = true;
        Ok(())
    }

    /// Mends what a crash or damage left: the remains of a torn commit, and cells in whose place an older image served.
    async fn mend(&self, io: &Io) -> Result<(), BioError> {
        let (remains, damaged) = {
            let mut session = self.session.borrow_mut();
            (session.remains.take(), std::mem::take(&mut session.damaged))
        };
        let (block, epoch) = (self.unit * SECTOR as u64, self.log.borrow().epoch);
        if remains.is_none() && damaged.is_empty() {
            return Ok(());
        }
        if let Some(remains) = remains {
            let whole = remains.start..remains.end.next_multiple_of(block);
            zero(io, self.lower, whole, self.chunk as u64, false).await?;
        }
        let unit = self.unit as u32;
        let units: BTreeSet<u32> = damaged.iter().map(|cell| cell / unit * unit).collect();
        let cells: Vec<u32> = units.into_iter().flat_map(|first| first..first + unit).collect();
        let table = &self.table;
        let take =
            |run: &[u32]| run.iter().flat_map(|cell| table.borrow().sealed(self.set, epoch, *cell, None)).collect();
        self.write_cells(io, epoch, &cells, take).await?;
        flush(io, self.lower).await
    }

    /// Makes everything durable and leaves a map that is clean, with the owner's `note`: nothing to replay, and no
    /// entry doubtful. No write of a slot or of home may be under way. Before the next change it is begun again.
    ///
    /// # Errors
    /// As [`SlotMap::commit`].
    pub async fn settle(&self, io: &Io, note: &[u8; NOTE_BYTES]) -> Result<(), MapError> {
        let all = (0..io.lowers()).fold(LowerSet::NONE, |all, lower| all.and(LowerSet::one(lower)));
        self.settle_behind(io, note, all).await
    }

    /// The same for an owner that has flushed the other lower devices before: only those of `flushed` are flushed here.
    ///
    /// # Errors
    /// As [`SlotMap::commit`].
    pub async fn settle_behind(&self, io: &Io, note: &[u8; NOTE_BYTES], flushed: LowerSet) -> Result<(), MapError> {
        if !self.session.borrow().is_begun {
            return Ok(());
        }
        let flushes = flushed.volumes(io).into_iter().map(|lower| Bio::flush().to(lower)).collect();
        let flushed = io.all(flushes, WIDTH).await.into_iter().try_for_each(|flush| flush.result.map(drop));
        self.latching(flushed)?;
        self.reach(io, self.commits.asked()).await?;
        self.write_checkpoint(io).await?;
        self.zones.borrow_mut().leave_all();
        {
            let mut session = self.session.borrow_mut();
            (session.note, session.is_clean) = (*note, true);
        }
        self.checkpoint(io).await?;
        self.session.borrow_mut().is_begun = false;
        Ok(())
    }

    /// Touches the zones of slots: clean entries there, and their homes, may be written when this ends. Nothing is
    /// written for zones that are touched already.
    ///
    /// # Errors
    /// As [`SlotMap::commit`].
    pub async fn touch(&self, io: &Io, slots: &[u32]) -> Result<(), MapError> {
        if self.doubt == Doubt::All {
            return Ok(());
        }
        for slot in slots {
            let zone = self.layout.zone_of(*slot);
            if self.is_full() {
                self.commit(io).await?;
            }
            if self.zones.borrow_mut().needs_touch(zone) {
                self.push(&[Record::Touch { zone }], LowerSet::NONE);
                self.zones.borrow_mut().ask(zone, self.commits.asked());
            }
        }
        match slots.iter().all(|slot| self.trusts(*slot)) {
            true => Ok(()),
            false => self.commit(io).await,
        }
    }

    /// Lets zones go quiet to which nothing was written for 30 s. Behind a flush of all lower devices their entries are
    /// not doubtful any more. Call it every few seconds.
    ///
    /// # Errors
    /// As [`SlotMap::commit`].
    pub async fn quiet(&self, io: &Io) -> Result<(), MapError> {
        let mut idle = self.zones.borrow_mut().idle(self.rt.now());
        idle.truncate(self.waiting_max());
        if idle.is_empty() || !self.session.borrow().is_begun {
            return Ok(());
        }
        let flushed = io.flush_all().await;
        self.latching(flushed)?;
        if self.is_full() {
            self.commit(io).await?;
        }
        for zone in self.zones.borrow_mut().leave(idle) {
            self.push(&[Record::Quiet { zone }], LowerSet::NONE);
        }
        self.commit(io).await
    }

    fn count(&self, change: impl FnOnce(&mut SlotCounts)) {
        let mut counts = self.counts.get();
        change(&mut counts);
        self.counts.set(counts);
    }

    fn latching(&self, result: Result<(), BioError>) -> Result<(), BioError> {
        result.inspect_err(|error| self.latch.set_after(&self.rt, "its records cannot be kept", error, SAFE))
    }
}

/// Makes all completed writes of a lower device durable.
pub(super) async fn flush(io: &Io, lower: usize) -> Result<(), BioError> {
    io.submit(Bio::flush().tagged(METADATA).to(io.lower(lower))).await.result.map(drop)
}

async fn force(io: &Io, lower: usize, at: u64, bytes: &[u8]) -> Result<(), BioError> {
    let bio = Bio::write(at, Buf::from_bytes(io.pool(), bytes)).fua().tagged(METADATA).to(io.lower(lower));
    io.submit(bio).await.result.map(drop)
}

/// Writes a sealed head of `epoch` to its slot.
pub(super) async fn write_head(io: &Io, lower: usize, head: &[u8], epoch: u64) -> Result<(), BioError> {
    force(io, lower, (slot(epoch) * esker_framing::SLOT) as u64, head).await
}
