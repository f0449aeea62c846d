//! Counting against brute force.

use proptest::prelude::*;

use super::*;

const EPOCH: Nanos = Nanos(100);

fn direction(write: bool) -> Direction {
    if write { Direction::Write } else { Direction::Read }
}

proptest! {
    #[test]
    fn popular_blocks_are_what_brute_force_counts(
        accesses in prop::collection::vec((0u16..2, 0u64..12, any::<bool>(), 0u64..40), 1..200),
        k in 0usize..15, epochs in 0usize..5, which in 0usize..3,
    ) {
        let counted = [Counted::Both, Counted::Only(Direction::Read), Counted::Only(Direction::Write)][which];
        let mut popular = Popular::new(4, EPOCH, 1_000);
        let (mut now, mut seen) = (Time::ZERO, Vec::new());
        for (volume, block, write, wait) in accesses {
            now = now + Nanos(wait);
            popular.accessed(VolumeId(volume), block, direction(write), now);
            seen.push((volume, block, write, now));
        }
        let number = |at: Time| at.since(Time::ZERO).0 / EPOCH.0;
        let in_window = |at: Time| number(at) + (epochs.min(4) as u64) > number(now);
        let counts = |write: bool| match counted {
            Counted::Both => true,
            Counted::Only(direction) => (direction == Direction::Write) == write,
        };
        let mut expected: Vec<PopularBlock> = (0..12)
            .filter_map(|block| {
                let of: Vec<_> = seen.iter().filter(|s| s.0 == 1 && s.1 == block && in_window(s.3)).collect();
                let accesses = of.iter().filter(|s| counts(s.2)).count() as u64;
                let last = of.iter().map(|s| s.3).max()?;
                (accesses > 0).then_some(PopularBlock { block, accesses, last })
            })
            .collect();
        expected.sort_by(|a, b| (b.accesses, b.last).cmp(&(a.accesses, a.last)).then(a.block.cmp(&b.block)));
        expected.truncate(k);
        prop_assert_eq!(popular.popular(VolumeId(1), k, epochs, counted), expected);
        prop_assert_eq!(popular.dropped(), 0);
    }
}

#[test]
fn equally_popular_blocks_are_ordered_by_recency_and_then_by_number() {
    let mut popular = Popular::new(2, EPOCH, 100);
    for (block, at) in [(9, 1), (3, 1), (5, 2), (7, 2)] {
        popular.accessed(VolumeId(0), block, Direction::Read, Time(at));
    }
    let blocks = popular.popular(VolumeId(0), 4, 1, Counted::Both);
    assert_eq!(blocks.iter().map(|b| b.block).collect::<Vec<_>>(), [5, 7, 3, 9]);
    assert_eq!(popular.counts(VolumeId(0), 9), Counts { reads: 1, writes: 0, last: Time(1) });
    assert_eq!(popular.popular(VolumeId(4), 4, 1, Counted::Both), []);
}

#[test]
fn memory_is_bounded_and_what_is_dropped_is_told() {
    let mut popular = Popular::new(3, EPOCH, 10);
    for block in 0..8 {
        popular.accessed(VolumeId(0), block, Direction::Read, Time(0));
    }
    for block in 0..8 {
        popular.accessed(VolumeId(0), block, Direction::Write, Time(150));
    }
    assert_eq!((popular.blocks, popular.dropped()), (8, 1), "the older epoch went");
    for block in 100..110 {
        popular.accessed(VolumeId(0), 0, Direction::Write, Time(160));
        popular.accessed(VolumeId(0), block, Direction::Write, Time(160));
    }
    assert!(popular.blocks <= 10 && popular.dropped() > 1);
    assert_eq!(popular.popular(VolumeId(0), 1, 1, Counted::Both)[0].block, 0, "the popular one stays");
}

#[test]
fn information_is_kept_by_clones_and_bounded_by_its_field() {
    let mut bio = Bio::flush();
    for (key, value) in [(Key::Trace, u64::MAX), (Key::Issuer, 7), (Key::Stream, 8), (Key::Pid, 9), (Key::Priority, 10)]
    {
        assert_eq!(set_information(&mut bio, key, value), Ok(()));
        assert_eq!(information(&bio, key), value);
    }
    assert_eq!(set_information(&mut bio, Key::Pid, 1 << 32), Err(u64::from(u32::MAX)));
    assert_eq!(set_information(&mut bio, Key::Storage, 256), Err(255));
    assert_eq!((information(&bio, Key::Pid), information(&bio, Key::Storage)), (9, 0));
}
