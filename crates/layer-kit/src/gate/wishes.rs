//! What movers want: a short list, looked at from its begin to its end by each request that comes or goes meanwhile.

use std::ops::Range;

use esker_base::{Bits, ByteRange};

use super::Ticket;
use super::flights::{Flight, Stage};

/// A range with more units than this has no bit for each.
const EACH_MAX: u64 = 65_536;
/// Changes that are told apart then. If there are more, all units count as changed.
const FEW_MAX: usize = 256;

/// Units of a watched range that have changed, counted from its begin.
///
/// A client that changes something allocates nothing for it, whatever the range is.
#[derive(Clone, Debug)]
pub enum Changed {
    /// A bit for each unit.
    Each(Bits),
    /// Some of many units. A watch may have pages at both ends of a volume.
    Few(Vec<Range<u64>>),
    /// Too many to be told apart.
    All,
}

impl Changed {
    fn none_of(units: u64) -> Changed {
        match units <= EACH_MAX {
            true => Changed::Each(Bits::new(units as usize)),
            false => Changed::Few(Vec::with_capacity(FEW_MAX)),
        }
    }

    fn add(&mut self, units: Range<u64>) {
        match self {
            Changed::Each(bits) => bits.set_range(units.start as usize..units.end as usize),
            Changed::Few(few) if few.len() < FEW_MAX => few.push(units),
            Changed::Few(_) | Changed::All => *self = Changed::All,
        }
    }

    /// Whether none has changed.
    pub fn is_empty(&self) -> bool {
        match self {
            Changed::Each(bits) => bits.is_empty(),
            Changed::Few(few) => few.is_empty(),
            Changed::All => false,
        }
    }

    /// Whether this one has changed, or may have.
    pub fn has(&self, unit: u64) -> bool {
        match self {
            Changed::Each(bits) => bits.has(unit as usize),
            Changed::Few(few) => few.iter().any(|units| units.contains(&unit)),
            Changed::All => true,
        }
    }

    /// Adds them to a set of units of the same range.
    pub(crate) fn add_to(&self, units: &mut Bits) {
        match self {
            Changed::Each(bits) => units.unite(bits),
            Changed::Few(few) => few.iter().for_each(|few| units.set_range(few.start as usize..few.end as usize)),
            Changed::All => units.set_all(),
        }
    }
}

/// Which units of a range have changed.
pub(super) struct Marks {
    range: ByteRange,
    unit: u64,
    changed: Changed,
}

impl Marks {
    pub(super) fn new(range: ByteRange, unit: u64) -> Marks {
        assert!(unit > 0, "a unit has bytes");
        Marks { range, unit, changed: Changed::none_of(range.len().div_ceil(unit)) }
    }

    pub(super) fn mark(&mut self, range: ByteRange) {
        let Some(part) = self.range.intersect(range) else { return };
        let unit = |at: u64| (at - self.range.start()) / self.unit;
        self.changed.add(unit(part.start())..unit(part.end() - 1) + 1);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.changed.is_empty()
    }

    pub(super) fn take(&mut self) -> Changed {
        std::mem::replace(&mut self.changed, Changed::none_of(self.range.len().div_ceil(self.unit)))
    }
}

/// Requests that a mover waits for. One that came later is not among them, even if it has the place of one that has
/// left.
pub(super) struct Awaited {
    tickets: Bits,
    left: usize,
}

impl Awaited {
    pub(super) fn of(tickets: impl Iterator<Item = Ticket>) -> Awaited {
        let mut awaited = Awaited { tickets: Bits::new(0), left: 0 };
        for ticket in tickets {
            let place = ticket.0 as usize;
            awaited.tickets.set_range(place..place + 1);
            awaited.left += 1;
        }
        awaited
    }

    /// A request is under way no more. Whether it was the last one.
    fn strike(&mut self, ticket: Ticket) -> bool {
        let place = ticket.0 as usize;
        if !self.tickets.has(place) {
            return false;
        }
        self.tickets.clear(place);
        self.left -= 1;
        self.left == 0
    }
}

pub(super) enum What {
    Watch(Marks),
    Hold(Awaited),
    Drain(Awaited),
    HomeBound,
}

impl What {
    pub(super) fn marks(&mut self) -> &mut Marks {
        match self {
            What::Watch(marks) => marks,
            What::Hold(_) | What::Drain(_) | What::HomeBound => unreachable!("only a watch is asked for its marks"),
        }
    }

    /// Whether nothing is waited for.
    pub(super) fn is_over(&self) -> bool {
        match self {
            What::Hold(awaited) | What::Drain(awaited) => awaited.left == 0,
            What::Watch(_) | What::HomeBound => true,
        }
    }
}

struct Entry {
    number: u64,
    range: ByteRange,
    what: What,
}

#[derive(Default)]
pub(super) struct Wishes {
    entries: Vec<Entry>,
    last: u64,
}

impl Wishes {
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn add(&mut self, range: ByteRange, what: What) -> u64 {
        self.last += 1;
        self.entries.push(Entry { number: self.last, range, what });
        self.last
    }

    pub(super) fn get(&mut self, number: u64) -> &mut What {
        let entry = self.entries.iter_mut().find(|entry| entry.number == number);
        &mut entry.expect("a wish stands until its guard is dropped").what
    }

    pub(super) fn remove(&mut self, number: u64) {
        self.entries.retain(|entry| entry.number != number);
    }

    fn any(&self, range: ByteRange, is_it: impl Fn(&What) -> bool) -> bool {
        self.entries.iter().any(|entry| is_it(&entry.what) && entry.range.overlaps(range))
    }

    /// Whether a request must wait that waits for what `stage` says.
    pub(super) fn do_stop(&self, flight: Flight, stage: Stage) -> bool {
        let is_held = flight.changes && self.any(flight.range, |what| matches!(what, What::Hold(_)));
        is_held || (stage == Stage::HeldHome && self.are_home_bound(flight.range))
    }

    /// Whether a write-back has any of these bytes.
    pub(super) fn are_home_bound(&self, range: ByteRange) -> bool {
        self.any(range, |what| matches!(what, What::HomeBound))
    }

    /// A change begins to go, or has ended.
    pub(super) fn mark(&mut self, range: ByteRange) {
        for entry in &mut self.entries {
            if let What::Watch(marks) = &mut entry.what {
                marks.mark(range);
            }
        }
    }

    /// A request is under way no more. Whether all that a mover waits for have ended by that.
    pub(super) fn stopped(&mut self, ticket: Ticket) -> bool {
        let mut has_ended = false;
        for entry in &mut self.entries {
            if let What::Hold(awaited) | What::Drain(awaited) = &mut entry.what {
                has_ended |= awaited.strike(ticket);
            }
        }
        has_ended
    }
}
