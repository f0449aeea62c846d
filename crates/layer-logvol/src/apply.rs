//! What records do to the map. Requests and recovery go through here alike, in the order of the log, so that both end
//! in the same map.

use crate::format::Record;
use crate::map::{Each, Extent, Map};

/// Applies one record; `pba` is where its data lies, if it has any. What is added is told before what it replaces is
/// told to be gone, so that a block that stays in use never counts as dead.
pub fn apply(map: &mut Map, record: &Record, pba: u64, each: Each<'_>) {
    match *record {
        Record::Write { lba, len, .. } => map.map(Extent { lba, pba, len }, each),
        Record::Clone { src, dst, len } => map.duplicate(src, dst, len, each),
        Record::Move { src, dst, len } => {
            map.duplicate(src, dst, len, each);
            map.unmap(src..src + len, each);
        }
        Record::Delete { lba, len } => map.unmap(lba..lba + len, each),
        Record::Apart { .. } => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::{Change, Fanout};

    #[test]
    fn references_never_fall_to_zero_while_something_stays_mapped() {
        let mut map = Map::new(Fanout { leaf: 4, inner: 4, roots: 4, index: 4, changes: 4 });
        let mut live = 0i64;
        let mut run = |record: Record, expected: i64| {
            apply(&mut map, &record, 100, &mut |change| {
                match change {
                    Change::Added(mapping) => live += i64::from(mapping.extent.len),
                    Change::Removed(extent) => live -= i64::from(extent.len),
                }
                assert!(live > 0, "{record:?}");
            });
            assert_eq!(live, expected, "{record:?}");
        };
        run(Record::Write { lba: 10, len: 4, sum: 0, run: 0 }, 4);
        run(Record::Clone { src: 10, dst: 20, len: 4 }, 8);
        run(Record::Clone { src: 8, dst: 20, len: 4 }, 6);
        run(Record::Move { src: 10, dst: 30, len: 4 }, 6);
        run(Record::Delete { lba: 0, len: 30 }, 4);
        run(Record::Write { lba: 30, len: 4, sum: 0, run: 0 }, 4);
    }
}
