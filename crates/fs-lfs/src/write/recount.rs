//! Counts that a cleaner brings (`SET_SUINFO` and `SET_INC_FLAGS`, sections 3.18 and 4.1).
//!
//! A cleaner counts a victim that it leaves, while the file system goes on. If the counter changed since the cleaner
//! began, or a snapshot came or went, its count is old, and the counter stays as it is. An exact counter stays exact.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use esker_base::Errno;

use super::Inner;
use super::core::Core;
use super::counting::{SnapshotCounting, protector};
use crate::control::{SegmentUpdate, update_field};
use crate::error::LfsError;
use crate::format::usage::{UsageHead, flag};
use crate::format::{DatEntry, LiveCounters, SegmentUsage};

/// How far a cleaner's count of a segment is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Recount {
    /// It has begun, and no block of the segment came or went since.
    Begun,
    /// One did.
    Old,
    /// It was taken.
    Taken,
}

/// The segments that cleaners count.
#[derive(Default)]
pub(super) struct Recounts(RefCell<BTreeMap<u64, Recount>>);

impl Recounts {
    /// A cleaner reads the logs of a segment.
    pub(super) fn begin(&self, segment: u64) {
        self.0.borrow_mut().insert(segment, Recount::Begun);
    }

    /// The counter of a segment changes.
    pub(super) fn change(&self, segment: u64) {
        if let Some(recount @ Recount::Begun) = self.0.borrow_mut().get_mut(&segment) {
            *recount = Recount::Old;
        }
    }

    /// What snapshots protect changes.
    pub(super) fn change_all(&self) {
        self.0.borrow_mut().values_mut().filter(|recount| **recount == Recount::Begun).for_each(|recount| {
            *recount = Recount::Old;
        });
    }

    /// A segment becomes clean.
    pub(super) fn forget(&self, segment: u64) {
        self.0.borrow_mut().remove(&segment);
    }

    /// Whether a count is taken. One of which no logs were read is.
    fn set(&self, segment: u64) -> bool {
        let mut recounts = self.0.borrow_mut();
        let is_taken = recounts.get(&segment) != Some(&Recount::Old);
        recounts.insert(segment, if is_taken { Recount::Taken } else { Recount::Old });
        is_taken
    }

    fn is_taken(&self, segment: u64) -> bool {
        self.0.borrow().get(&segment) == Some(&Recount::Taken)
    }
}

impl Core {
    /// Whether marks of blocks that died say what counters have: the rules without a scan do not look at them.
    pub(super) fn keeps_marks(&self) -> bool {
        let is_scanned = !matches!(self.counting.snapshots, SnapshotCounting::Stock | SnapshotCounting::Starvation);
        self.has_counters() && is_scanned
    }

    /// The mark of a block that died and that a cleaner counted. If its snapshot is gone since, the counter loses it.
    async fn include(&self, vblock: u64, entry: &DatEntry) -> Result<(), LfsError> {
        let protector = protector(entry, &self.snapshots.borrow());
        match protector {
            Some(snapshot) => self.dat_put(vblock, DatEntry { snapshot, ..*entry }).await,
            None => {
                self.note_live(entry.place, -1);
                Ok(())
            }
        }
    }
}

impl Inner {
    /// Marks blocks of segments whose counter was set: the counter has them. Other blocks stay as they are.
    pub(super) async fn include(&self, vblocks: &[u64]) -> Result<(), LfsError> {
        let core = &self.core;
        let vblocks: BTreeSet<u64> = vblocks.iter().copied().collect();
        for vblock in vblocks {
            let Some(entry) = core.dat_entry_in_use(vblock).await? else { continue };
            let is_out = entry.is_live() || entry.is_counted() || !core.geometry.has(entry.place);
            if !is_out && core.recounts.is_taken(core.geometry.segment_of(entry.place)) {
                core.include(vblock, &entry).await?;
            }
        }
        Ok(())
    }

    /// Sets usages if all of them may be.
    pub(super) async fn set_usages(&self, updates: &[SegmentUpdate]) -> Result<Result<(), Errno>, LfsError> {
        if self.is_closed.get() {
            return Ok(Err(Errno::ENODEV));
        }
        let mut seen = BTreeSet::new();
        for update in updates {
            if !self.may_set(update).await? || !seen.insert(update.segment) {
                return Ok(Err(Errno::EINVAL));
            }
        }
        for update in updates {
            let before = self.core.usage(update.segment).await?;
            let is_count = update.fields & update_field::COUNTERS != 0;
            let is_old = is_count && (self.core.is_scanning() || !self.core.recounts.set(update.segment));
            let fields = if is_old { update.fields & !update_field::COUNTERS } else { update.fields };
            let after = updated(&before, &SegmentUpdate { fields, ..*update });
            if fields & update_field::LIVE != 0 {
                // The new number is that of now.
                self.core.live_changes.borrow_mut().remove(&update.segment);
            }
            self.core.set_usage(update.segment, after).await?;
            let mut header = self.core.segments.get();
            header.clean =
                header.clean.saturating_add_signed(i64::from(after.is_clean()) - i64::from(before.is_clean()));
            self.core.segments.set(header);
        }
        Ok(Ok(()))
    }

    async fn may_set(&self, update: &SegmentUpdate) -> Result<bool, LfsError> {
        let (core, fields) = (&self.core, update.fields);
        if update.segment >= core.geometry.segments || fields & !update_field::ALL != 0 {
            return Ok(false);
        }
        let (before, room) = (core.usage(update.segment).await?, self.blocks_of(update.segment));
        let has = |field: u32| fields & field != 0;
        let may_count = !has(update_field::COUNTERS) || before.live.is_some();
        let counts = [(update_field::LIVE, update.live.live), (update_field::SNAPSHOT, update.live.snapshot)];
        let fit = counts.iter().all(|(field, count)| !has(*field) || u64::from(*count) <= room);
        let keeps_blocks = !has(update_field::BLOCKS) || update.blocks == before.head.blocks;
        let changed = (before.head.flags ^ update.flags) & !(flag::ACTIVE | flag::ERROR);
        Ok(may_count && fit && keeps_blocks && (!has(update_field::FLAGS) || changed == 0))
    }
}

/// A usage with the new values.
fn updated(before: &SegmentUsage, update: &SegmentUpdate) -> SegmentUsage {
    let has = |field: u32| update.fields & field != 0;
    let UsageHead { changed, blocks, flags } = before.head;
    let head = UsageHead {
        changed: if has(update_field::CHANGED) { update.changed } else { changed },
        blocks,
        flags: if has(update_field::FLAGS) { update.flags & !flag::ACTIVE } else { flags },
    };
    let live = before.live.map(|live| LiveCounters {
        live: if has(update_field::LIVE) { update.live.live } else { live.live },
        snapshot: if has(update_field::SNAPSHOT) { update.live.snapshot } else { live.snapshot },
        changed: if has(update_field::LIVE_CHANGED) { update.live.changed } else { live.changed },
    });
    SegmentUsage { head, live }
}
