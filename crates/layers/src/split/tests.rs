use std::collections::BTreeSet;

use super::{Layout, LowerExtent};

/// Demands, byte by byte, that no two bytes lie in one place, that runs are runs, and that `before` counts.
pub(crate) fn check_layout(layout: &impl Layout, size: u64) {
    let mut taken = BTreeSet::new();
    let mut before = vec![0; layout.lowers()];
    for offset in 0..size {
        let LowerExtent { place, len } = layout.place(offset);
        assert!(len > 0 && taken.insert((place.lower, place.at)), "byte {offset}: {place:?}");
        for (lower, count) in before.iter().enumerate() {
            assert_eq!(layout.before(lower, offset), *count, "lower device {lower} before byte {offset}");
        }
        if len > 1 && offset + 1 < size {
            assert_eq!(layout.place(offset + 1), LowerExtent { place: place.plus(1), len: len - 1 });
        }
        assert_eq!(place.at, before[place.lower], "bytes of one lower device keep their order");
        before[place.lower] += 1;
    }
}
