//! Commits and checkpoints: what makes changes durable, in which order, and what follows when that fails.

use std::cell::RefCell;

use esker_block::{Bio, BioError, Buf};
use esker_layer_kit::Io;

use super::{Config, Log, Store};
use crate::cache::METADATA;
use crate::journal::{self, Record, SECTOR, sectors_for};
use crate::layout::SUPERBLOCKS;
use crate::superblock::Superblock;

/// Bytes of one request for zeroes or the journal, at most.
const CHUNK: u64 = 1 << 20;

impl Store {
    /// Whether the journal has room for one more record.
    pub(super) fn has_room(&self) -> bool {
        let log = self.log.borrow();
        let needed = sectors_for(log.pending.len() + 1, self.config.unit);
        (log.next + needed) * SECTOR as u64 <= self.layout().journal
    }

    /// Whether so many records wait that it is time for a commit.
    pub(crate) fn is_due(&self) -> bool {
        self.log.borrow().pending.len() >= self.config.pending_max
    }

    /// Makes all changes up to now durable, and all data that they point to.
    ///
    /// # Errors
    /// What the lower device answers; from then on the volume takes no changes.
    pub async fn commit(&self, io: &Io) -> Result<(), BioError> {
        self.commits.reach(self.commits.asked(), &self.latch, async || self.write_pending(io).await).await
    }

    /// Writes the records that wait, alone: the number of changes that are durable then.
    async fn write_pending(&self, io: &Io) -> Result<u64, BioError> {
        self.latch.check()?;
        let asked = self.commits.asked();
        let Some((mut taken, bytes)) = self.take_pending() else { return Ok(asked) };
        let result = self.write_journal(io, taken.first, bytes).await;
        taken.records.clear();
        self.latching(result)?;
        self.space.borrow_mut().rested(taken.commit);
        self.done.commits.set(self.done.commits.get() + 1);
        Ok(asked)
    }

    fn take_pending(&self) -> Option<(Pending<'_>, Vec<u8>)> {
        let mut log = self.log.borrow_mut();
        if log.pending.is_empty() {
            return None;
        }
        let (commit, first, records) = (log.commit, log.next, std::mem::take(&mut log.pending));
        let bytes = journal::encode(self.set, log.epoch, first, self.config.unit, &records);
        log.commit += 1;
        log.next += (bytes.len() / SECTOR) as u64;
        Some((Pending { log: &self.log, commit, first, records }, bytes))
    }

    async fn write_journal(&self, io: &Io, first: u64, bytes: Vec<u8>) -> Result<(), BioError> {
        // A record never points to data that a power cut could still take back.
        flush(io).await?;
        let at = SUPERBLOCKS + first * SECTOR as u64;
        let most = chunk(&self.config) as usize;
        for (number, piece) in bytes.chunks(most).enumerate() {
            force(io, at + (number * most) as u64, piece).await?;
        }
        Ok(())
    }

    /// Writes the tables, so that the journal is empty. The caller has the turn.
    ///
    /// # Errors
    /// As [`Store::commit`].
    pub async fn checkpoint(&self, io: &Io) -> Result<(), BioError> {
        let checkpoint = async {
            self.commits.advance(self.write_pending(io).await?);
            let result = self.write_tables(io).await;
            self.latching(result)
        };
        self.commits.alone(checkpoint).await
    }

    pub(super) async fn write_tables(&self, io: &Io) -> Result<(), BioError> {
        self.cache.write_back(io).await?;
        flush(io).await?;
        let epoch = self.log.borrow().epoch + 1;
        let (mapped, used) = (self.mapped.get(), self.used.get());
        let superblock = Superblock { set: self.set, epoch, layout: *self.layout(), mapped, used };
        write_superblock(io, &superblock, &self.config).await?;
        let mut log = self.log.borrow_mut();
        (log.epoch, log.next) = (epoch, 0);
        self.done.checkpoints.set(self.done.checkpoints.get() + 1);
        Ok(())
    }

    /// Leaves nothing to replay.
    ///
    /// # Errors
    /// As [`Store::commit`].
    pub async fn quiesce(&self, io: &Io) -> Result<(), BioError> {
        if self.latch.is_set() {
            return Ok(());
        }
        self.turn.alone(self.checkpoint(io)).await
    }

    fn latching(&self, result: Result<(), BioError>) -> Result<(), BioError> {
        result.inspect_err(|error| self.latch.set_after(&self.rt, "its records cannot be kept", error, SAFE))
    }
}

/// Records on their way to the journal. Those of a commit that is dropped before its end wait for the next one.
struct Pending<'a> {
    log: &'a RefCell<Log>,
    commit: u64,
    first: u64,
    records: Vec<Record>,
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if !self.records.is_empty() {
            let mut log = self.log.borrow_mut();
            log.next = self.first;
            log.pending.splice(..0, self.records.drain(..));
        }
    }
}

/// What an operator is told when records could not be written.
const SAFE: &str = "What was flushed before is safe. Repair the lower device, then restart.";

/// What an operator does about tables that contradict each other.
pub(super) const CHECK: &str = "Check the lower device with `esker check`, then restart.";

pub(super) fn chunk(config: &Config) -> u64 {
    let unit = config.unit * SECTOR as u64;
    (CHUNK.min(config.transfer_max) / unit * unit).max(unit)
}

pub(super) async fn flush(io: &Io) -> Result<(), BioError> {
    io.submit(Bio::flush().tagged(METADATA).to(io.lower(0))).await.result.map(drop)
}

async fn force(io: &Io, at: u64, bytes: &[u8]) -> Result<(), BioError> {
    let bio = Bio::write(at, Buf::from_bytes(io.pool(), bytes)).fua().tagged(METADATA).to(io.lower(0));
    io.submit(bio).await.result.map(drop)
}

pub(super) async fn write_superblock(io: &Io, superblock: &Superblock, config: &Config) -> Result<(), BioError> {
    let mut bytes = superblock.encode();
    bytes.resize(config.unit as usize * SECTOR, 0);
    force(io, superblock.at(), &bytes).await
}
