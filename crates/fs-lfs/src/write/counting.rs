//! What counters of live blocks count (sections 3.14 to 3.17).
//!
//! Each entry of the DAT has a mark: whether the counter of its segment has the block, or the number of a snapshot that
//! protects the block, which the counter then has too. While a mount tracks, a counter is the number of its
//! segment's entries that are counted, and of its blocks of the DAT. Only Prevent-Starvation lowers it besides.
//! Whatever changes a mark changes the counter with it, and both reach the medium in one checkpoint.
//!
//! A counter is right if the counted blocks are those that live or that a snapshot protects. The rules of
//! [`SnapshotCounting`] come close to that at different costs.

use super::LfsConfig;
use super::clean::{DeadBlock, MovedBlock};
use super::core::Core;
use crate::error::LfsError;
use crate::format::dat::mark;
use crate::format::{DatEntry, Payload};

/// How counters of live blocks follow changes of snapshots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SnapshotCounting {
    /// Not at all.
    Stock,
    /// Prevent-Starvation: counters that may be too high are lowered, so that the cleaner looks there again.
    Starvation,
    /// Scan-Dead-Blocks: each change looks at all dead blocks. Those that die in a snapshot later are missed.
    Dead,
    /// Scan-All-Blocks: each change looks at all blocks. Counters are exact.
    All,
    /// A block that dies is held against all snapshots. A change has a scan of dead blocks begin that goes on in the
    /// background. When it ends, counters are exact.
    Background,
}

impl LfsConfig {
    /// Whether a change is one of which the time of a counter's last change tells.
    pub(super) fn tells_time_of(&self, change: LiveChange) -> bool {
        self.tells_dat_times || change.more != change.of_dat
    }
}

impl SnapshotCounting {
    /// Every rule, by its name.
    pub const ALL: [(&str, SnapshotCounting); 5] = [
        ("background", SnapshotCounting::Background),
        ("all", SnapshotCounting::All),
        ("dead", SnapshotCounting::Dead),
        ("starvation", SnapshotCounting::Starvation),
        ("stock", SnapshotCounting::Stock),
    ];
}

/// Live blocks that a segment gained or lost.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct LiveChange {
    pub more: i64,
    /// Of these, blocks of the DAT that ended.
    pub of_dat: i64,
}

impl LiveChange {
    pub(super) fn add(&mut self, other: LiveChange) {
        self.more += other.more;
        self.of_dat += other.of_dat;
    }
}

/// A change of the list of snapshots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SnapshotChange {
    /// This checkpoint became a snapshot.
    Made(u64),
    /// This one is no snapshot any more. Its neighbours in the list were these; 0: none.
    Dropped { number: u64, before: u64, after: u64 },
}

impl SnapshotChange {
    /// The mark that an entry gets by the rules of the source (sections 3.16 and 3.17); `None` if it keeps its own.
    /// Blocks that live are looked at only by Scan-All-Blocks.
    pub(super) fn mark(self, entry: &DatEntry, looks_at_live: bool) -> Option<u64> {
        let (SnapshotChange::Made(number) | SnapshotChange::Dropped { number, .. }) = self;
        // An entry without a place seems to be part of every checkpoint, and is part of none.
        let is_out = entry.place == 0 || (entry.is_live() && !looks_at_live);
        if is_out || !entry.covers(number) || (entry.names_snapshot() && entry.snapshot != number) {
            return None;
        }
        let mark = match self {
            SnapshotChange::Made(number) => number,
            SnapshotChange::Dropped { before, .. } if before != 0 && entry.covers(before) => before,
            SnapshotChange::Dropped { after, .. } if after != 0 && entry.covers(after) => after,
            SnapshotChange::Dropped { .. } if entry.is_live() => mark::COUNTED,
            SnapshotChange::Dropped { .. } => mark::UNCOUNTED,
        };
        (mark != entry.snapshot).then_some(mark)
    }
}

/// The right mark of an entry where these are all snapshots, in ascending order; `None` if it has it. `adopts`: marks
/// of blocks that died say nothing, and no counter has these blocks.
pub(super) fn right_mark(entry: &DatEntry, snapshots: &[u64], adopts: bool) -> Option<(u64, i64)> {
    if entry.place == 0 {
        return None;
    }
    let right = match entry.is_live() {
        true if entry.is_counted() => entry.snapshot,
        true => mark::COUNTED,
        false => protector(entry, snapshots).unwrap_or(mark::UNCOUNTED),
    };
    let was_counted = match entry.is_live() || entry.names_snapshot() {
        true => entry.is_counted() || adopts,
        false => entry.is_counted() && !adopts,
    };
    let change = i64::from(right != mark::UNCOUNTED) - i64::from(was_counted);
    (right != entry.snapshot).then_some((right, change))
}

/// A snapshot that protects a block: the one that its entry names, or else the oldest.
pub(crate) fn protector(entry: &DatEntry, snapshots: &[u64]) -> Option<u64> {
    if entry.covers(entry.snapshot) && snapshots.binary_search(&entry.snapshot).is_ok() {
        return Some(entry.snapshot);
    }
    let oldest = snapshots.get(snapshots.partition_point(|number| *number < entry.start));
    oldest.copied().filter(|number| entry.covers(*number))
}

impl Core {
    /// Notes that the segment of a place has so many live blocks more.
    pub(super) fn note_live(&self, place: u64, more: i64) {
        self.note(place, LiveChange { more, of_dat: 0 });
    }

    /// Notes that a block of the DAT ended.
    pub(super) fn note_dat_ended(&self, place: u64) {
        self.note(place, LiveChange { more: -1, of_dat: -1 });
    }

    fn note(&self, place: u64, change: LiveChange) {
        if self.has_counters() && change.more != 0 {
            let segment = self.geometry.segment_of(place);
            self.live_changes.borrow_mut().entry(segment).or_default().add(change);
            self.recounts.change(segment);
        }
    }

    /// The entry of a block that ends. The counter of its segment loses the block, unless a snapshot protects it as far
    /// as the rule knows.
    pub(super) fn ended(&self, entry: &DatEntry, end: u64) -> DatEntry {
        let ended = DatEntry { end, ..*entry };
        if !self.has_counters() {
            return ended;
        }
        let snapshot = match self.counting.snapshots {
            // No snapshot can protect a block that was part of no checkpoint.
            _ if ended.start == ended.end => mark::UNCOUNTED,
            SnapshotCounting::Background => protector(&ended, &self.snapshots.borrow()).unwrap_or(mark::UNCOUNTED),
            SnapshotCounting::Stock | SnapshotCounting::Starvation | SnapshotCounting::Dead | SnapshotCounting::All => {
                if entry.names_snapshot() {
                    entry.snapshot
                } else {
                    mark::UNCOUNTED
                }
            }
        };
        let ended = DatEntry { snapshot, ..ended };
        self.note_live(entry.place, i64::from(ended.is_counted()) - i64::from(entry.is_counted()));
        ended
    }

    /// The mark of a block that gets a place in a segment whose counter has the block, or has not.
    pub(super) fn moved_mark(&self, entry: &DatEntry, is_counted: bool) -> u64 {
        match is_counted {
            _ if !self.has_counters() => entry.snapshot,
            false => mark::UNCOUNTED,
            true if entry.names_snapshot() => entry.snapshot,
            true if entry.is_live() || self.counting.snapshots != SnapshotCounting::Background => mark::COUNTED,
            true => protector(entry, &self.snapshots.borrow()).unwrap_or(mark::COUNTED),
        }
    }

    /// Gives blocks of a segment whose counter was set the marks that agree with the counter (section 3.21, rule 11).
    pub(super) async fn mark_again(&self, kept: &[MovedBlock], dead: &[DeadBlock]) -> Result<(), LfsError> {
        if !self.has_counters() {
            return Ok(());
        }
        let kept = kept.iter().filter_map(|moved| match moved.block.what {
            Payload::Data { vblock, .. } | Payload::Node { vblock } => Some((vblock, moved.kept.is_counted())),
            Payload::DatData { .. } | Payload::DatNode { .. } => None,
        });
        for (vblock, is_counted) in kept.chain(dead.iter().map(|dead| (dead.vblock, false))) {
            let entry = self.dat_entry(vblock).await?;
            let snapshot = self.moved_mark(&entry, is_counted);
            if snapshot != entry.snapshot {
                self.dat_put(vblock, DatEntry { snapshot, ..entry }).await?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::CNO_MAX;

    fn entry(place: u64, start: u64, end: u64, snapshot: u64) -> DatEntry {
        DatEntry { place, start, end, snapshot }
    }

    /// Item 41.
    #[test]
    fn an_entry_without_a_place_is_never_marked() {
        let unassigned = entry(0, 1, CNO_MAX, mark::COUNTED);
        let dropped = SnapshotChange::Dropped { number: 5, before: 3, after: 0 };
        for change in [SnapshotChange::Made(5), dropped] {
            assert_eq!([change.mark(&unassigned, true), change.mark(&unassigned, false)], [None; 2]);
        }
        assert_eq!(right_mark(&unassigned, &[5], true), None);
        assert_eq!(right_mark(&entry(0, 1, 1, mark::COUNTED), &[5], false), None, "a free entry");
    }

    #[test]
    fn marks_are_those_of_the_source() {
        let (made, dropped) =
            (SnapshotChange::Made, |number, before, after| SnapshotChange::Dropped { number, before, after });
        let (live, dead) = (|snapshot| entry(9, 3, CNO_MAX, snapshot), |snapshot| entry(9, 3, 6, snapshot));
        for (change, entry, all_says, dead_says) in [
            (made(5), live(mark::COUNTED), Some(5), None),
            (made(5), dead(mark::UNCOUNTED), Some(5), Some(5)),
            (made(5), dead(mark::COUNTED), Some(5), Some(5)),
            (made(5), dead(4), None, None),
            (made(6), dead(mark::UNCOUNTED), None, None),
            (made(2), live(mark::COUNTED), None, None),
            (dropped(5, 4, 0), dead(5), Some(4), Some(4)),
            (dropped(5, 2, 7), dead(5), Some(mark::UNCOUNTED), Some(mark::UNCOUNTED)),
            (dropped(4, 2, 5), dead(4), Some(5), Some(5)),
            (dropped(5, 4, 0), dead(4), None, None),
            (dropped(5, 0, 0), dead(mark::COUNTED), Some(mark::UNCOUNTED), Some(mark::UNCOUNTED)),
            (dropped(5, 0, 0), live(5), Some(mark::COUNTED), None),
            (dropped(5, 0, 8), live(5), Some(8), None),
        ] {
            let found = (change.mark(&entry, true), change.mark(&entry, false));
            assert_eq!(found, (all_says, dead_says), "{change:?} of {entry:?}");
        }
    }

    #[test]
    fn a_right_mark_names_a_snapshot_that_is_there() {
        let (live, dead) = (|snapshot| entry(9, 3, CNO_MAX, snapshot), |snapshot| entry(9, 3, 6, snapshot));
        let (counted, uncounted) = (mark::COUNTED, mark::UNCOUNTED);
        for (entry, snapshots, adopts, right) in [
            (live(counted), &[4, 5][..], false, None),
            (live(5), &[], false, None),
            (live(uncounted), &[], false, Some((counted, 1))),
            (dead(counted), &[4, 5], false, Some((4, 0))),
            (dead(uncounted), &[2, 5], false, Some((5, 1))),
            (dead(5), &[4, 5], false, None),
            (dead(5), &[4], false, Some((4, 0))),
            (dead(5), &[2, 6], false, Some((uncounted, -1))),
            (dead(counted), &[], false, Some((uncounted, -1))),
            (dead(counted), &[], true, Some((uncounted, 0))),
            (dead(counted), &[4], true, Some((4, 1))),
            (live(uncounted), &[], true, Some((counted, 0))),
        ] {
            assert_eq!(right_mark(&entry, snapshots, adopts), right, "{entry:?} {snapshots:?} {adopts}");
        }
    }
}
