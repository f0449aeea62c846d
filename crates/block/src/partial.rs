//! Changes of parts of blocks, by read-modify-write: which blocks a range fills in part, and what is written back.
//!
//! The caller keeps all other changes of these blocks away from the first read to the write.

use esker_base::ByteRange;
use esker_rt::mem::Pool;
use esker_rt::sync::join_all;

use crate::{BioError, Buf, Extent};

/// The whole blocks around a range. They end inside the device, whose size is a multiple of `block`.
pub fn outer(range: ByteRange, block: u64) -> ByteRange {
    range.align_out(block).expect("a device's last block ends below 2^64")
}

/// The whole blocks inside a range, if there are any.
pub fn inner(range: ByteRange, block: u64) -> Option<ByteRange> {
    let (start, end) = (range.start().checked_next_multiple_of(block)?, range.end() - range.end() % block);
    (start < end).then(|| span(start, end))
}

/// The blocks that a range fills in part: two at most, in order.
pub fn edges(range: ByteRange, block: u64) -> impl Iterator<Item = ByteRange> {
    let around = outer(range, block);
    let last = around.end().saturating_sub(block);
    let is_cut = [around.start() < range.start(), range.end() < around.end()];
    let first = is_cut[0] || is_cut[1] && last == around.start();
    let second = is_cut[1] && last > around.start();
    let at = |is_edge: bool, at: u64| is_edge.then(|| span(at, at + block));
    [at(first, around.start()), at(second, last)].into_iter().flatten()
}

/// The parts of a range that do not fill blocks: in front of the whole blocks inside and behind them, or all of it if
/// there are none.
pub fn rims(range: ByteRange, block: u64) -> impl Iterator<Item = ByteRange> {
    let rims = match inner(range, block) {
        Some(middle) => [span(range.start(), middle.start()), span(middle.end(), range.end())],
        None => [range, span(range.end(), range.end())],
    };
    rims.into_iter().filter(|rim| !rim.is_empty())
}

/// The bytes of the whole blocks around a range, when `data` is written there: in one piece, because a direct device
/// takes no vectors whose elements are parts of its block. `read` gives the bytes of a block; it is asked for each
/// edge, together.
///
/// # Errors
/// The first error of `read`.
pub async fn widened(
    range: ByteRange,
    block: u64,
    data: Buf,
    pool: &Pool,
    read: impl AsyncFn(ByteRange) -> Result<Buf, BioError>,
) -> Result<Buf, BioError> {
    let around = outer(range, block);
    let (head, tail) = ((range.start() - around.start()) as usize, (around.end() - range.end()) as usize);
    let reads = edges(range, block).map(|edge| read(edge));
    let mut blocks = join_all(reads).await.into_iter().collect::<Result<Vec<Buf>, BioError>>()?;
    let mut parts = Vec::with_capacity(3);
    parts.extend((head > 0).then(|| blocks[0].slice(0, head)));
    parts.push(data);
    let after = blocks.last_mut().filter(|_| tail > 0);
    parts.extend(after.map(|last| last.slice(block as usize - tail, tail)));
    let joined = Buf::chain(parts);
    Ok(if joined.is_described() { joined } else { joined.into_unique(pool) })
}

/// The extents without their first `skip` bytes, and `len` bytes at most. Never empty if they cover more than `skip`.
pub fn cut(extents: &[Extent], skip: u64, len: u64) -> Box<[Extent]> {
    let wanted = span(skip, skip + len);
    let mut at = 0;
    let cut = extents.iter().filter_map(|extent| {
        let here = span(at, at + extent.len).intersect(wanted);
        at += extent.len;
        here.map(|range| Extent { len: range.len(), state: extent.state })
    });
    cut.collect()
}

fn span(start: u64, end: u64) -> ByteRange {
    ByteRange::new(start, end - start).expect("it ends at a number of 64 bits")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ExtentState;

    fn pairs(ranges: impl Iterator<Item = ByteRange>) -> Vec<(u64, u64)> {
        ranges.map(|range| (range.start(), range.end())).collect()
    }

    #[test]
    fn edges_and_rims_are_what_a_range_fills_in_part() {
        for (range, around, at, of) in [
            ((0, 8), (0, 8), vec![], vec![]),
            ((1, 3), (0, 4), vec![(0, 4)], vec![(1, 3)]),
            ((0, 3), (0, 4), vec![(0, 4)], vec![(0, 3)]),
            ((1, 4), (0, 4), vec![(0, 4)], vec![(1, 4)]),
            ((3, 5), (0, 8), vec![(0, 4), (4, 8)], vec![(3, 5)]),
            ((3, 8), (0, 8), vec![(0, 4)], vec![(3, 4)]),
            ((4, 9), (4, 12), vec![(8, 12)], vec![(8, 9)]),
            ((3, 17), (0, 20), vec![(0, 4), (16, 20)], vec![(3, 4), (16, 17)]),
        ] {
            let bytes = span(range.0, range.1);
            let whole = outer(bytes, 4);
            assert_eq!((whole.start(), whole.end()), around, "{range:?}");
            assert_eq!((pairs(edges(bytes, 4)), pairs(rims(bytes, 4))), (at, of), "{range:?}");
        }
        assert_eq!(inner(span(3, 17), 4), Some(span(4, 16)));
        assert_eq!((inner(span(3, 5), 4), inner(span(1, 3), 4)), (None, None));
    }

    #[test]
    fn what_lies_around_the_data_stays_and_each_edge_is_read_once() {
        use esker_rt::sim::{SimConfig, twice};
        twice(SimConfig::seeded(1), |_| async move {
            let pool = Pool::default();
            let old: Vec<u8> = (0..20).collect();
            for (start, end) in [(1, 3), (0, 3), (3, 5), (3, 17), (4, 12)] {
                let range = span(start, end);
                let count = std::cell::Cell::new(0);
                let read = async |at: ByteRange| {
                    count.set(count.get() + 1);
                    Ok(Buf::from_bytes(&pool, &old[at.start() as usize..at.end() as usize]))
                };
                let data = Buf::from_bytes(&pool, &vec![99; range.len() as usize]);
                let bytes = widened(range, 4, data, &pool, read).await.unwrap();
                let mut expected = old.clone();
                expected[start as usize..end as usize].fill(99);
                let around = outer(range, 4);
                assert_eq!(bytes.to_vec(), expected[around.start() as usize..around.end() as usize]);
                assert_eq!(count.get(), edges(range, 4).count());
            }
            let range = span(1, 3);
            let failed = widened(range, 4, Buf::from_bytes(&pool, &[1; 2]), &pool, async |_| Err(BioError::io("no")));
            assert_eq!(failed.await.err(), Some(BioError::io("no")));
        });
    }

    #[test]
    fn extents_are_cut_to_the_bytes_that_were_asked_for() {
        let extent = |len, state| Extent { len, state };
        let extents = [extent(8, ExtentState::Data), extent(4, ExtentState::Hole)];
        assert_eq!(*cut(&extents, 6, 3), [extent(2, ExtentState::Data), extent(1, ExtentState::Hole)]);
        assert_eq!(*cut(&extents, 8, 100), [extent(4, ExtentState::Hole)]);
    }
}
