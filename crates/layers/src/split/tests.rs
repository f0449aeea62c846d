use std::collections::BTreeSet;

use super::Layout;

/// Demands, byte by byte, that no two bytes lie in one place, that runs are runs, and that `before` counts.
pub(crate) fn check_layout(layout: &impl Layout, size: u64) {
    let mut taken = BTreeSet::new();
    let mut before = vec![0; layout.lowers()];
    for offset in 0..size {
        let place = layout.place(offset);
        assert!(place.run > 0 && taken.insert((place.lower, place.at)), "byte {offset}: {place:?}");
        for (lower, count) in before.iter().enumerate() {
            assert_eq!(layout.before(lower, offset), *count, "lower device {lower} before byte {offset}");
        }
        if place.run > 1 && offset + 1 < size {
            let next = layout.place(offset + 1);
            assert_eq!((next.lower, next.at, next.run), (place.lower, place.at + 1, place.run - 1));
        }
        assert_eq!(place.at, before[place.lower], "bytes of one lower device keep their order");
        before[place.lower] += 1;
    }
}
