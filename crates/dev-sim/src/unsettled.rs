//! The book of answered writes that a power cut may still undo.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use esker_base::{ByteRange, Time};

use crate::access::Content;

/// A write's range and its number on the media.
pub(crate) type Written = (ByteRange, u64);

/// Answered writes that the media do not hold as settled.
#[derive(Default)]
pub(crate) struct Unsettled {
    /// Those for which no instant is known yet, in the order of their answers, and how many there were before.
    open: VecDeque<Written>,
    before: u64,
    /// The others, by the instant at which the medium holds them.
    ends: BinaryHeap<Reverse<(Time, u64, u64, u64)>>,
}

impl Unsettled {
    /// Adds a write that the medium holds at `stable`, if that is known.
    pub(crate) fn add(&mut self, stable: Option<Time>, written: Written) {
        match stable {
            Some(end) => self.ends.push(ending(end, written)),
            None => self.open.push_back(written),
        }
    }

    /// Says that the medium holds at `end` the writes for which no instant was known.
    pub(crate) fn close(&mut self, end: Time) {
        self.before += self.open.len() as u64;
        self.ends.extend(self.open.drain(..).map(|written| ending(end, written)));
    }

    /// Settles the writes that the medium holds by `now`.
    #[inline]
    pub(crate) fn settle_ended(&mut self, now: Time, content: &Content) {
        while let Some(Reverse((end, number, start, len))) = self.ends.peek().copied()
            && end <= now
        {
            self.ends.pop();
            if let Some(range) = ByteRange::new(start, len) {
                content.mark_stable(range, number);
            }
        }
    }

    /// The writes so far for which no instant is known, for [`Unsettled::settle_to`].
    pub(crate) fn mark(&self) -> u64 {
        self.before + self.open.len() as u64
    }

    /// Settles the writes up to a mark. Another call may have settled some of them meanwhile.
    pub(crate) fn settle_to(&mut self, mark: u64, content: &Content) {
        let count = mark.saturating_sub(self.before);
        self.before += count;
        self.open.drain(..count as usize).for_each(|(range, write)| content.mark_stable(range, write));
    }
}

fn ending(end: Time, (range, number): Written) -> Reverse<(Time, u64, u64, u64)> {
    Reverse((end, number, range.start(), range.len()))
}
