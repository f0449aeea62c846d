//! What records do to the map. Requests and recovery go through here alike, in the order of the log, so that both end
//! in the same map.

use crate::format::Record;
use crate::map::{Extent, Map};

/// One change of one mapping: for code that counts references or watches segments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// These blocks are mapped now.
    Added(Extent),
    /// These blocks were mapped and no longer are.
    Removed(Extent),
}

/// Applies one record; `pba` is where its data lies, if it has any. What is added is told before what it replaces is
/// told to be gone, so that a block that stays in use never counts as dead.
pub fn apply(map: &mut Map, record: &Record, pba: u64, each: &mut dyn FnMut(Change)) {
    match *record {
        Record::Write { lba, len, .. } => put(map, Extent { lba, pba, len }, each),
        Record::Clone { src, dst, len } => duplicate(map, src, dst, len, each),
        Record::Move { src, dst, len } => {
            duplicate(map, src, dst, len, each);
            map.unmap(src..src + len, &mut |gone| each(Change::Removed(gone)));
        }
        Record::Delete { lba, len } => map.unmap(lba..lba + len, &mut |gone| each(Change::Removed(gone))),
        Record::Apart { .. } => {}
    }
}

fn put(map: &mut Map, extent: Extent, each: &mut dyn FnMut(Change)) {
    each(Change::Added(extent));
    map.map(extent, &mut |gone| each(Change::Removed(gone)));
}

/// Pieces of a source that are looked at together.
const PIECES: usize = 256;

/// The destination becomes an exact image of the source, its holes included. Both do not overlap, so the source stays
/// as it is meanwhile.
fn duplicate(map: &mut Map, src: u64, dst: u64, len: u64, each: &mut dyn FnMut(Change)) {
    let (mut from, mut to) = (src, dst);
    let mut pieces: Vec<Extent> = Vec::new();
    loop {
        pieces.clear();
        pieces.extend(map.pieces(from..src + len).take(PIECES));
        let Some(last) = pieces.last() else { break };
        from = last.end();
        for piece in &pieces {
            let image = Extent { lba: dst + (piece.lba - src), ..*piece };
            map.unmap(to..image.lba, &mut |gone| each(Change::Removed(gone)));
            put(map, image, each);
            to = image.end();
        }
    }
    map.unmap(to..dst + len, &mut |gone| each(Change::Removed(gone)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::Fanout;

    #[test]
    fn references_never_fall_to_zero_while_something_stays_mapped() {
        let mut map = Map::new(Fanout { leaf: 4, inner: 4 });
        let mut live = 0i64;
        let mut run = |record: Record, expected: i64| {
            apply(&mut map, &record, 100, &mut |change| {
                match change {
                    Change::Added(extent) => live += i64::from(extent.len),
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
