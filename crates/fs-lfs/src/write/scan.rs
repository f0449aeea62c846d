//! Scans of the DAT: what counters are told when the list of snapshots changes.
//!
//! Scan-Dead-Blocks and Scan-All-Blocks look at the whole DAT within the change of mode. The background scan looks at a
//! piece at a time. Its position is part of each checkpoint ([`ScanRecord`]), with the marks and counters that it
//! changed: behind a crash it goes on where that checkpoint was. A change of mode while it goes on has it look at each
//! entry once more, from where it is. What dies meanwhile is held against the new list, so one look behind the last
//! change makes an entry right.

use std::rc::Weak;

use esker_base::{Errno, Nanos};
use esker_rt::Rt;

use super::Inner;
use super::clean::Cleaning;
use super::core::Core;
use super::counting::{SnapshotChange, SnapshotCounting, right_mark};
use crate::error::LfsError;
use crate::format::alloc::has_bit;
use crate::format::{DatEntry, ScanRecord};

/// How long a piece keeps checkpoints and changes of mode waiting, unless a read is slower.
const PIECE_TIME: Nanos = Nanos::millis(10);
/// Blocks of the DAT that one piece looks at.
const PIECE_BLOCKS: u64 = 256;
/// Blocks of the DAT that pieces change before a checkpoint takes them.
const CHANGED_MAX: u64 = 64;
/// Pause between two pieces at least. Half of the time is for others.
const PAUSE_MIN: Nanos = Nanos::millis(1);
/// How long a scan waits that finds no room.
const PATIENCE: Nanos = Nanos::secs(30);

/// What a look at a block of the DAT found.
struct Swept {
    /// The entry behind it.
    next: u64,
    is_changed: bool,
}

impl Core {
    /// Looks at the entries of a block of the DAT from `vblock` on that are in use. `mark` gives an entry another mark,
    /// and tells how many blocks more its counter has then. `None`: no group lies there.
    async fn sweep(
        &self,
        vblock: u64,
        mark: &impl Fn(&DatEntry) -> Option<(u64, i64)>,
    ) -> Result<Option<Swept>, LfsError> {
        let shape = self.geometry.dat;
        let place = self.entry_place(&shape, vblock)?;
        if self.meta_block(&self.dat, place.desc_block).await?.is_none() {
            return Ok(None);
        }
        let group = vblock - place.bit as u64;
        let Some(bits) = self.meta_block(&self.dat, place.bits_block).await? else {
            return Ok(Some(Swept { next: group + shape.per_group, is_changed: false }));
        };
        let entry_bytes = shape.entry_bytes as usize;
        let first = place.bit - place.offset / entry_bytes;
        let behind = (first as u64 + shape.per_block).min(shape.per_group) as usize;
        let used: Vec<usize> = (place.bit..behind).filter(|bit| has_bit(&bits, *bit)).collect();
        let mut swept = Swept { next: group + behind as u64, is_changed: false };
        let block = if used.is_empty() { None } else { self.meta_block(&self.dat, place.block).await? };
        let Some(block) = block else { return Ok(Some(swept)) };
        let mut marked = Vec::new();
        for offset in used.into_iter().map(|bit| (bit - first) * entry_bytes) {
            let Ok(entry) = DatEntry::read(&block[offset..]) else { continue };
            if let Some((snapshot, more)) = mark(&entry).filter(|_| self.geometry.has(entry.place)) {
                self.note_live(entry.place, more);
                marked.push((offset, DatEntry { snapshot, ..entry }));
            }
        }
        if !marked.is_empty() {
            swept.is_changed = true;
            self.meta_edit(&self.dat, place.block, |block| {
                marked.iter().for_each(|(offset, entry)| entry.write(&mut block[*offset..]));
            })
            .await?;
        }
        Ok(Some(swept))
    }

    /// Tells counters of a change of the list of snapshots by the rules of Scan-Dead-Blocks or Scan-All-Blocks.
    async fn scan_for(&self, change: SnapshotChange, looks_at_live: bool) -> Result<(), LfsError> {
        let mark = |entry: &DatEntry| {
            let mark = change.mark(entry, looks_at_live)?;
            let marked = DatEntry { snapshot: mark, ..*entry };
            Some((mark, i64::from(marked.is_counted()) - i64::from(entry.is_counted())))
        };
        let mut next = 0;
        while let Some(swept) = self.sweep(next, &mark).await? {
            next = swept.next;
        }
        Ok(())
    }

    /// Tells counters of a change of the list of snapshots, by the rule of this mount.
    pub(super) async fn tell_counters_of(&self, change: SnapshotChange) -> Result<(), LfsError> {
        if !self.has_counters() {
            return Ok(());
        }
        self.recounts.change_all();
        // Every rule leaves something to a later mount that scans in the background.
        self.scan.set(self.scan.get().asked());
        match self.counting.snapshots {
            SnapshotCounting::Stock | SnapshotCounting::Background => Ok(()),
            SnapshotCounting::Starvation => match change {
                SnapshotChange::Made(_) => Ok(()),
                SnapshotChange::Dropped { .. } => self.fix_starving().await,
            },
            SnapshotCounting::Dead => self.scan_for(change, false).await,
            SnapshotCounting::All => self.scan_for(change, true).await,
        }
    }

    /// Blocks of the DAT that a change of mode may change.
    pub(super) fn scan_blocks(&self) -> u64 {
        let scans = matches!(self.counting.snapshots, SnapshotCounting::Dead | SnapshotCounting::All);
        match scans && self.has_counters() {
            true => self.dat.record().blocks / (self.geometry.block_bytes as u64 / 512),
            false => 0,
        }
    }

    /// Whether a background scan goes on.
    pub(super) fn is_scanning(&self) -> bool {
        let is_background = self.counting.snapshots == SnapshotCounting::Background && self.has_counters();
        is_background && !self.scan.get().is_over()
    }

    /// Where the scan of the last mount was. Without that, marks of what died say nothing.
    pub(super) async fn load_scan(&self, latest: u64) -> Result<(), LfsError> {
        let block = self.meta_block(&self.cpfile, 0).await?;
        let found = block.and_then(|block| ScanRecord::of(&block, latest));
        self.scan.set(found.unwrap_or(ScanRecord { laps: 1, adopts: 1, ..ScanRecord::over(latest) }));
        Ok(())
    }
}

impl Inner {
    /// Waits until the scan of a change of mode has room. It may take segments that are kept back: a snapshot that
    /// holds all room can be dropped.
    ///
    /// # Errors
    /// `ENOSPC`.
    pub(super) async fn room_for_scan(&self) -> Result<(), Errno> {
        let blocks = self.core.scan_blocks();
        match blocks == 0 || self.has_writable(blocks) {
            true => self.check(),
            false => self.room(blocks).await,
        }
    }

    /// Whether a checkpoint that changes so many blocks of the DAT has room, with nodes of its map.
    fn has_writable(&self, blocks: u64) -> bool {
        blocks + 2 * super::BLOCKS_OF_CHECKPOINT <= self.writable_blocks()
    }

    /// Scans a piece. A checkpoint takes what many pieces changed, and what the last one did.
    async fn scan_piece(&self) -> Result<(), LfsError> {
        let (core, begun) = (&self.core, self.core.rt.now());
        if self.is_closed.get() {
            return Ok(());
        }
        let snapshots = core.snapshots.borrow().clone();
        let mut blocks = 0;
        while core.is_scanning() && blocks < PIECE_BLOCKS && self.scanned.get() < CHANGED_MAX {
            let record = core.scan.get();
            let mark = |entry: &DatEntry| right_mark(entry, &snapshots, record.adopts == 1);
            core.scan.set(match core.sweep(record.next, &mark).await? {
                None => record.wrapped(),
                Some(swept) => {
                    self.scanned.set(self.scanned.get() + u64::from(swept.is_changed));
                    ScanRecord { next: swept.next, ..record }
                }
            });
            blocks += 1;
            if core.rt.now().since(begun) >= PIECE_TIME {
                break;
            }
        }
        let is_over = !core.is_scanning();
        if is_over {
            core.scan.set(ScanRecord::over(core.scan.get().cno));
        }
        if is_over || self.scanned.get() >= CHANGED_MAX {
            self.make_checkpoint(self.unchanged(), Cleaning::default()).await?;
        }
        Ok(())
    }
}

/// Scans piece by piece, whenever a change of mode asks for it.
pub(super) async fn scans(fs: Weak<Inner>) {
    while let Some(inner) = fs.upgrade() {
        inner.changed.wait_until(|| inner.core.is_scanning() || inner.is_closed.get()).await;
        if inner.is_closed.get() {
            return;
        }
        let (rt, begun): (Rt, _) = (inner.core.rt.clone(), inner.core.rt.now());
        let has_room = match inner.room(CHANGED_MAX / super::BLOCKS_OF_CHANGE).await {
            Err(Errno::ENOSPC) => inner.has_writable(CHANGED_MAX),
            Err(_) => return,
            Ok(()) => true,
        };
        // An error latches the file system, and calls tell it.
        if has_room && inner.alone(async |inner| inner.scan_piece().await).await.is_err() {
            return;
        }
        drop(inner);
        rt.sleep(if has_room { rt.now().since(begun).max(PAUSE_MIN) } else { PATIENCE }).await;
    }
}
