//! Claims, and which of them wait for which.
//!
//! A claim waits for the claims that it met in the [`Front`] and that exclude it. It keeps what it met, because an
//! exclusive claim may leave before it is granted: then the claims after it meet what that one met. So does the front.

use std::collections::BTreeMap;
use std::task::{Poll, Waker};

use esker_base::ByteRange;

use super::front::{Front, Holders, Segment, Tickets};
use super::{Mode, Ticket};

struct Claim {
    mode: Mode,
    ranges: Ranges,
    /// What it met, in order; nothing once it is granted. Some of these claims may have gone.
    under: Vec<Segment>,
    /// How many claims it waits for.
    waits: usize,
    /// Claims that wait for it.
    followers: Tickets,
    waker: Option<Waker>,
}

/// Ranges that neither overlap nor touch, in order. One, the common case, takes no memory of its own.
struct Ranges {
    first: Option<ByteRange>,
    more: Vec<ByteRange>,
}

impl Ranges {
    fn of(ranges: impl IntoIterator<Item = ByteRange>) -> Ranges {
        let mut ranges = ranges.into_iter().filter(|range| !range.is_empty());
        let (first, mut more) = (ranges.next(), ranges.collect::<Vec<_>>());
        if more.is_empty() {
            return Ranges { first, more };
        }
        more.extend(first);
        more.sort_unstable_by_key(|range| range.start());
        let mut apart: Vec<ByteRange> = Vec::with_capacity(more.len());
        for range in more {
            match apart.last_mut() {
                Some(last) if range.start() <= last.end() => {
                    let len = range.end().max(last.end()) - last.start();
                    *last = ByteRange::new(last.start(), len).expect("it ends where one of the two ends");
                }
                _ => apart.push(range),
            }
        }
        Ranges { first: None, more: apart }
    }

    fn iter(&self) -> impl Iterator<Item = ByteRange> {
        self.first.into_iter().chain(self.more.iter().copied())
    }
}

/// All claims on one device.
#[derive(Default)]
pub(super) struct Table {
    claims: BTreeMap<Ticket, Box<Claim>>,
    front: Front,
    last: Ticket,
}

impl Table {
    pub(super) fn enter(&mut self, ranges: impl IntoIterator<Item = ByteRange>, mode: Mode) -> Ticket {
        self.last += 1;
        let (ticket, ranges) = (self.last, Ranges::of(ranges));
        let mut under = Vec::new();
        for range in ranges.iter() {
            match mode {
                Mode::Exclusive => self.front.cover(range, ticket, &mut under),
                Mode::Shared => self.front.share(range, ticket, &mut under),
            }
        }
        let waits = self.follow(ticket, &under);
        if waits == 0 {
            under = Vec::new();
        }
        let claim = Claim { mode, ranges, under, waits, followers: Tickets::default(), waker: None };
        self.claims.insert(ticket, Box::new(claim));
        ticket
    }

    /// Whether there is no claim.
    pub(super) fn is_idle(&self) -> bool {
        self.claims.is_empty()
    }

    pub(super) fn is_granted(&self, ticket: Ticket) -> bool {
        self.claims.get(&ticket).is_none_or(|claim| claim.waits == 0)
    }

    pub(super) fn poll_granted(&mut self, ticket: Ticket, waker: &Waker) -> Poll<()> {
        match self.claims.get_mut(&ticket) {
            Some(claim) if claim.waits > 0 => {
                claim.waker = Some(waker.clone());
                Poll::Pending
            }
            _ => Poll::Ready(()),
        }
    }

    /// Returns the wakers of the claims that are granted by it, in the order of their tickets.
    pub(super) fn leave(&mut self, ticket: Ticket) -> Vec<Waker> {
        let Some(claim) = self.claims.remove(&ticket) else { return Vec::new() };
        let Claim { mode, ranges, under, waits, followers, .. } = *claim;
        for blocker in under.iter().flat_map(|segment| segment.holders.all()) {
            if let Some(blocker) = self.claims.get_mut(&blocker) {
                blocker.followers.remove(ticket);
            }
        }
        for range in ranges.iter() {
            if waits == 0 && self.front.take_alone(range, ticket) {
                continue;
            }
            match mode {
                Mode::Shared => self.front.unshare(range, ticket),
                Mode::Exclusive => {
                    self.front
                        .uncover(range, ticket, |segment| beneath(segment, &under, Mode::Exclusive, &self.claims));
                }
            }
        }
        let mut woken = Vec::new();
        for follower in followers.iter() {
            if mode == Mode::Exclusive && !under.is_empty() {
                self.inherit(follower, ticket, &under);
            }
            self.front.look(1);
            let follower = self.claims.get_mut(&follower).expect("it waits for the one that leaves");
            follower.waits -= 1;
            if follower.waits == 0 {
                follower.under = Vec::new();
                woken.extend(follower.waker.take());
            }
        }
        woken
    }

    /// Makes a claim wait for the claims in `segments` that live. Returns how many it did not wait for before.
    fn follow(&mut self, ticket: Ticket, segments: &[Segment]) -> usize {
        let mut added = 0;
        for blocker in segments.iter().flat_map(|segment| segment.holders.all()) {
            self.front.look(1);
            if let Some(blocker) = self.claims.get_mut(&blocker) {
                added += usize::from(blocker.followers.insert(ticket));
            }
        }
        added
    }

    /// An exclusive claim left before it was granted: a follower meets what that one had met. This costs as much as
    /// both met.
    fn inherit(&mut self, follower: Ticket, gone: Ticket, under: &[Segment]) {
        let claim = self.claims.get_mut(&follower).expect("it waits for the one that leaves");
        let (mode, met) = (claim.mode, std::mem::take(&mut claim.under));
        let mut meets = Vec::with_capacity(met.len());
        for segment in met {
            self.front.look(1);
            match segment.holders.exclusive {
                Some(exclusive) if exclusive == gone => meets.extend(beneath(segment, under, mode, &self.claims)),
                _ => meets.push(segment),
            }
        }
        let added = self.follow(follower, &meets);
        let claim = self.claims.get_mut(&follower).expect("looked at above");
        claim.waits += added;
        claim.under = meets;
    }

    /// Whether it holds nothing.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.claims.is_empty() && self.segments() == 0
    }

    #[cfg(test)]
    pub(super) fn segments(&self) -> usize {
        self.front.segments().count()
    }

    #[cfg(test)]
    pub(super) fn looked_at(&self) -> usize {
        self.front.looked_at
    }

    /// What must always hold.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let mut last = None;
        for (start, end, holders) in self.front.segments() {
            assert!(start < end && last.is_none_or(|(last, _)| last <= start), "segments lie apart");
            assert!(last != Some((start, holders)), "neighbours differ");
            assert!(holders.all().next().is_some() && holders.all().all(|ticket| self.claims.contains_key(&ticket)));
            last = Some((end, holders));
        }
        let mut waits = BTreeMap::new();
        for follower in self.claims.values().flat_map(|claim| claim.followers.iter()) {
            *waits.entry(follower).or_insert(0) += 1;
        }
        for (ticket, claim) in &self.claims {
            assert_eq!(claim.waits, waits.remove(ticket).unwrap_or(0), "ticket {ticket}");
            assert!(claim.waits > 0 || claim.under.is_empty());
        }
        assert!(waits.is_empty(), "claims that have gone follow none");
    }
}

/// What a segment becomes when its exclusive claim, which had met `under`, has gone. A claim of mode `mode` meets it: a
/// shared one does not wait for shared ones.
fn beneath(segment: Segment, under: &[Segment], mode: Mode, claims: &BTreeMap<Ticket, Box<Claim>>) -> Vec<Segment> {
    let later = &segment.holders.shared;
    let piece = |start, end, holders| Segment { start, end, holders };
    let bare = || Holders { exclusive: None, shared: later.clone() };
    let mut pieces = Vec::new();
    let mut at = segment.start;
    let first = under.partition_point(|below| below.end <= segment.start);
    for below in under[first..].iter().take_while(|below| below.start < segment.end) {
        let (start, end) = (below.start.max(segment.start), below.end.min(segment.end));
        if at < start {
            pieces.push(piece(at, start, bare()));
        }
        let mut holders = bare();
        holders.exclusive = below.holders.exclusive.filter(|ticket| claims.contains_key(ticket));
        if mode == Mode::Exclusive {
            for ticket in below.holders.shared.iter().filter(|ticket| claims.contains_key(ticket)) {
                holders.shared.insert(ticket);
            }
        }
        pieces.push(piece(start, end, holders));
        at = end;
    }
    if at < segment.end {
        pieces.push(piece(at, segment.end, bare()));
    }
    pieces.retain(|piece| piece.holders.all().next().is_some());
    pieces
}
