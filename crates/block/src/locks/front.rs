//! The front: the claims that a new one meets on each byte.
//!
//! The bytes with claims on them are cut into segments. A segment names the last exclusive claim on its bytes and the
//! shared ones that came after it. To wait for these is to wait for all, because the exclusive claim waits for what
//! came before it. So a queue of claims on the same bytes has one link for each claim.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use esker_base::ByteRange;

use super::Ticket;

/// Claims on the bytes of one segment.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Holders {
    /// The last exclusive claim.
    pub exclusive: Option<Ticket>,
    /// Shared claims that came later.
    pub shared: Tickets,
}

impl Holders {
    fn is_empty(&self) -> bool {
        self.exclusive.is_none() && self.shared.is_empty()
    }

    /// Whether this claim is the only one.
    fn are_only(&self, ticket: Ticket) -> bool {
        match self.exclusive {
            Some(exclusive) => exclusive == ticket && self.shared.is_empty(),
            None => self.shared.one == Some(ticket),
        }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = Ticket> {
        self.exclusive.into_iter().chain(self.shared.iter())
    }
}

/// A set of tickets. One, the common case, takes no memory of its own.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Tickets {
    /// The only one, while `more` is empty.
    one: Option<Ticket>,
    more: BTreeSet<Ticket>,
}

impl Tickets {
    pub(super) fn of(ticket: Ticket) -> Tickets {
        Tickets { one: Some(ticket), more: BTreeSet::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.one.is_none() && self.more.is_empty()
    }

    /// How many.
    pub(super) fn len(&self) -> usize {
        self.more.len() + usize::from(self.one.is_some())
    }

    /// In ascending order.
    pub(super) fn iter(&self) -> impl Iterator<Item = Ticket> {
        self.one.into_iter().chain(self.more.iter().copied())
    }

    /// Whether it was not there yet.
    pub(super) fn insert(&mut self, ticket: Ticket) -> bool {
        if self.is_empty() {
            self.one = Some(ticket);
            return true;
        }
        if self.one == Some(ticket) {
            return false;
        }
        self.more.extend(self.one.take());
        self.more.insert(ticket)
    }

    pub(super) fn remove(&mut self, ticket: Ticket) {
        match self.one {
            Some(one) if one == ticket => self.one = None,
            Some(_) => {}
            None => {
                self.more.remove(&ticket);
                if self.more.len() == 1 {
                    self.one = self.more.pop_first();
                }
            }
        }
    }
}

/// Bytes and the claims on them.
#[derive(Debug)]
pub(super) struct Segment {
    pub start: u64,
    pub end: u64,
    pub holders: Holders,
}

struct Body {
    end: u64,
    holders: Holders,
}

/// Segments, by their first byte. None overlaps another, none is without claims, neighbours have different claims, and
/// all of these live: there are at most twice as many segments as ranges of claims.
#[derive(Default)]
pub(super) struct Front {
    segments: BTreeMap<u64, Body>,
    /// Segments that were looked at so far: the cost, for tests.
    #[cfg(test)]
    pub looked_at: usize,
}

impl Front {
    /// Puts an exclusive claim before all others in `range`. What was there goes to `under`, in order.
    pub(super) fn cover(&mut self, range: ByteRange, ticket: Ticket, under: &mut Vec<Segment>) {
        let holders = Holders { exclusive: Some(ticket), shared: Tickets::default() };
        if self.is_free(range) {
            return self.insert(range.start(), range.end(), holders);
        }
        self.cut(range.start());
        self.cut(range.end());
        while let Some((start, _)) = self.segments.range(range.start()..range.end()).next() {
            let start = *start;
            let body = self.segments.remove(&start).expect("it was just found");
            self.look(1);
            under.push(Segment { start, end: body.end, holders: body.holders });
        }
        self.insert(range.start(), range.end(), holders);
    }

    /// Adds a shared claim in `range`. The exclusive claims there go to `under`, in order.
    pub(super) fn share(&mut self, range: ByteRange, ticket: Ticket, under: &mut Vec<Segment>) {
        let alone = || Holders { exclusive: None, shared: Tickets::of(ticket) };
        if self.is_free(range) {
            return self.insert(range.start(), range.end(), alone());
        }
        self.cut(range.start());
        self.cut(range.end());
        let mut at = range.start();
        while at < range.end() {
            let next = self.segments.range_mut(at..range.end()).next();
            let gap_end = next.as_ref().map_or(range.end(), |(start, _)| **start);
            if let Some((start, body)) = next.filter(|_| gap_end == at) {
                if let Some(exclusive) = body.holders.exclusive {
                    let holders = Holders { exclusive: Some(exclusive), shared: Tickets::default() };
                    under.push(Segment { start: *start, end: body.end, holders });
                }
                body.holders.shared.insert(ticket);
                at = body.end;
                self.look(1);
            } else {
                self.insert(at, gap_end, alone());
                at = gap_end;
            }
        }
    }

    /// Takes a granted claim out of `range`, if it met nothing there and nothing came since: the common case.
    pub(super) fn take_alone(&mut self, range: ByteRange, ticket: Ticket) -> bool {
        match self.segments.entry(range.start()) {
            Entry::Occupied(entry) if entry.get().end == range.end() && entry.get().holders.are_only(ticket) => {
                entry.remove();
                true
            }
            Entry::Occupied(_) | Entry::Vacant(_) => false,
        }
    }

    /// Takes a shared claim out of `range`.
    pub(super) fn unshare(&mut self, range: ByteRange, ticket: Ticket) {
        let mut from = range.start();
        while from < range.end()
            && let Some((start, body)) = self.segments.range_mut(from..range.end()).next()
        {
            let start = *start;
            from = body.end;
            body.holders.shared.remove(ticket);
            if body.holders.is_empty() {
                self.segments.remove(&start);
            }
            self.look(1);
        }
        self.join(range);
    }

    /// Takes an exclusive claim out of `range`: where it is the last one, what it covered shows again. `beneath` tells
    /// that of a segment.
    pub(super) fn uncover(&mut self, range: ByteRange, ticket: Ticket, beneath: impl Fn(Segment) -> Vec<Segment>) {
        let mut from = range.start();
        while from < range.end()
            && let Some((start, body)) = self.segments.range(from..range.end()).next()
        {
            let start = *start;
            from = body.end;
            if body.holders.exclusive == Some(ticket) {
                let Body { end, holders } = self.segments.remove(&start).expect("it was just found");
                for Segment { start, end, holders } in beneath(Segment { start, end, holders }) {
                    self.insert(start, end, holders);
                }
            }
            self.look(1);
        }
        self.join(range);
    }

    /// Makes one segment of equal neighbours in `range` and at its ends, where a claim has gone. Nowhere else can
    /// neighbours have become equal: what tells them apart covers one of them only, hence ends between them.
    fn join(&mut self, range: ByteRange) {
        let before = self.segments.range(..range.start()).next_back();
        let mut from = before.map_or(range.start(), |(start, _)| *start);
        let mut last: Option<u64> = None;
        while from <= range.end()
            && let Some((start, body)) = self.segments.range(from..=range.end()).next()
        {
            let (start, end) = (*start, body.end);
            let is_same = |(_, last): &(&u64, &Body)| last.end == start && last.holders == body.holders;
            let equal = last.and_then(|last| self.segments.get_key_value(&last)).filter(is_same).map(|(last, _)| *last);
            match equal {
                Some(last) => {
                    self.segments.remove(&start);
                    self.segments.get_mut(&last).expect("it was just found").end = end;
                }
                None => last = Some(start),
            }
            from = end;
            self.look(1);
        }
    }

    fn is_free(&self, range: ByteRange) -> bool {
        let before = self.segments.range(..range.end()).next_back();
        before.is_none_or(|(_, body)| body.end <= range.start())
    }

    fn insert(&mut self, start: u64, end: u64, holders: Holders) {
        self.segments.insert(start, Body { end, holders });
        self.look(1);
    }

    /// Makes `at` an edge of segments.
    fn cut(&mut self, at: u64) {
        let before = self.segments.range_mut(..at).next_back();
        let Some((_, body)) = before.filter(|(_, body)| at < body.end) else { return };
        let after = Body { end: body.end, holders: body.holders.clone() };
        body.end = at;
        let copied = after.holders.shared.len();
        self.segments.insert(at, after);
        self.look(1 + copied);
    }

    /// Counts the work.
    pub(super) fn look(&mut self, at: usize) {
        #[cfg(test)]
        {
            self.looked_at += at;
        }
        #[cfg(not(test))]
        let _only_for_tests = at;
    }

    #[cfg(test)]
    pub(super) fn segments(&self) -> impl Iterator<Item = (u64, u64, &Holders)> {
        self.segments.iter().map(|(start, body)| (*start, body.end, &body.holders))
    }
}
