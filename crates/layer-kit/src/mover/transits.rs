//! Where a mover is at work: no two of its moves meet.

use std::cell::RefCell;

use esker_base::ByteRange;
use esker_rt::sync::Notify;

/// The ranges of the upper port that move now.
#[derive(Default)]
pub(super) struct Transits {
    ranges: RefCell<Vec<ByteRange>>,
    ended: Notify,
}

impl Transits {
    /// Begins a move of ranges that do not overlap each other, unless one of their bytes moves already.
    pub(super) fn try_begin(&self, ranges: Vec<ByteRange>) -> Option<Transit<'_>> {
        let mut all = self.ranges.borrow_mut();
        if all.iter().any(|other| ranges.iter().any(|range| range.overlaps(*other))) {
            return None;
        }
        all.extend(&ranges);
        Some(Transit { transits: self, ranges })
    }

    /// The same when none of their bytes moves any more.
    pub(super) async fn begin(&self, ranges: Vec<ByteRange>) -> Transit<'_> {
        let mut begun = None;
        let mut try_again = || {
            begun = self.try_begin(ranges.clone());
            begun.is_some()
        };
        self.ended.wait_until(&mut try_again).await;
        begun.expect("the wait ends with it")
    }
}

/// A move, until it is dropped.
pub(super) struct Transit<'a> {
    transits: &'a Transits,
    ranges: Vec<ByteRange>,
}

impl Drop for Transit<'_> {
    fn drop(&mut self) {
        self.transits.ranges.borrow_mut().retain(|range| !self.ranges.contains(range));
        self.transits.ended.notify_all();
    }
}
