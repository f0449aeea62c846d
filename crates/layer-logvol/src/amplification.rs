//! Write amplification of the last writes: about as much data as the medium has room for, so that it follows the load.

use std::cell::Cell;

/// Blocks of data of the clients, and all blocks that went below.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Written {
    pub data: u64,
    pub all: u64,
}

/// What had been written at the last two moments between which half a window of data lies.
#[derive(Default)]
pub(crate) struct Amplification {
    marks: Cell<[Written; 2]>,
}

impl Amplification {
    /// So much has been written, of which the last `window` blocks of data are to count.
    pub(crate) fn note(&self, now: Written, window: u64) {
        let [_, newer] = self.marks.get();
        if now.data - newer.data >= window / 2 {
            self.marks.set([newer, now]);
        }
    }

    /// Blocks that went below for each block of data; 0 if nothing was written.
    pub(crate) fn ratio(&self, now: Written) -> f64 {
        let [from, _] = self.marks.get();
        match now.data - from.data {
            0 => 0.0,
            data => (now.all - from.all) as f64 / data as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_writes_count() {
        let (amplification, mut now) = (Amplification::default(), Written::default());
        assert_eq!(amplification.ratio(now), 0.0);
        let mut write = |count: u64, each: u64| {
            for _ in 0..count {
                now = Written { data: now.data + 1, all: now.all + each };
                amplification.note(now, 100);
            }
            amplification.ratio(now)
        };
        assert_eq!(write(40, 1), 1.0);
        assert!((1.1..1.9).contains(&write(20, 2)), "some of the first ones still count");
        assert_eq!(write(60, 2), 2.0, "and no longer do");
    }
}
