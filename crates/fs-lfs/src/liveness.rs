//! What keeps a block: the one rule for the file system and for cleaners.

use crate::format::DatEntry;

/// What keeps a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Liveness {
    /// The newest state has it.
    Live,
    /// A snapshot has it.
    Snapshot,
    /// A checkpoint has it that is too young to be deleted.
    Period,
    /// Nothing: its room can be given back.
    Dead,
}

impl Liveness {
    /// Whether the counter of its segment has the block.
    pub(crate) fn is_counted(self) -> bool {
        matches!(self, Liveness::Live | Liveness::Snapshot)
    }
}

/// What keeps a block of a log (section 3.10). `cno` is the checkpoint that its log names: 0 for files without
/// versions. `snapshots` are in ascending order; checkpoints from `protected` on stay.
pub(crate) fn liveness(entry: &DatEntry, cno: u64, snapshots: &[u64], protected: u64) -> Liveness {
    match () {
        () if entry.is_live() => Liveness::Live,
        () if cno == 0 => Liveness::Dead,
        () if snapshots
            .get(snapshots.partition_point(|number| *number < entry.start))
            .is_some_and(|s| *s < entry.end) =>
        {
            Liveness::Snapshot
        }
        () if entry.end > protected => Liveness::Period,
        () => Liveness::Dead,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::CNO_MAX;

    /// Item 22: all combinations of lives, snapshots, protection and files without versions.
    #[test]
    fn liveness_is_that_of_the_specification_for_all_small_lives() {
        let ends = |start: u64| (start..7).chain([CNO_MAX]);
        let mut seen = [0; 4];
        for (start, chosen, protected) in (1..6)
            .flat_map(|s| (0..64_u64).map(move |c| (s, c)))
            .flat_map(|(s, c)| (1..8).map(move |protected| (s, c, protected)))
        {
            let snapshots: Vec<u64> = (1..7).filter(|number| chosen >> (number - 1) & 1 == 1).collect();
            for (end, cno) in ends(start).flat_map(|end| [(end, 0), (end, start)]) {
                let entry = DatEntry { place: 9, start, end, snapshot: 0 };
                let is_in_a_snapshot = snapshots.iter().any(|number| start <= *number && *number < end);
                let right = match (end == CNO_MAX, cno, is_in_a_snapshot, end > protected) {
                    (true, ..) => Liveness::Live,
                    (false, 0, ..) => Liveness::Dead,
                    (false, _, true, _) => Liveness::Snapshot,
                    (false, _, false, true) => Liveness::Period,
                    (false, _, false, false) => Liveness::Dead,
                };
                assert_eq!(liveness(&entry, cno, &snapshots, protected), right, "{entry:?} {snapshots:?} {protected}");
                seen[right as usize] += 1;
            }
        }
        assert!(seen.iter().all(|count| *count > 100), "{seen:?}");
    }
}
