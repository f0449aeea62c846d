//! The requests in the gate: a slab, so that they come and go without an allocation once it is large enough.

use esker_base::ByteRange;

use super::Ticket;

/// Whether a request is under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// It may be anywhere below.
    Goes,
    /// It waits for holds.
    Held,
    /// It waits for holds and for write-backs.
    HeldHome,
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    pub(super) range: ByteRange,
    pub(super) changes: bool,
    pub(super) stage: Stage,
}

enum Place {
    /// With the word of the next vacant place, or 0.
    Vacant(u32),
    Taken(Flight),
}

/// All of them; the word of a ticket is the number of its place, from 1.
#[derive(Default)]
pub(super) struct Flights {
    places: Vec<Place>,
    /// Word of the first vacant place, or 0.
    vacant: u32,
}

impl Flights {
    /// A request that goes.
    #[inline]
    pub(super) fn add(&mut self, range: ByteRange, changes: bool) -> Ticket {
        let word = self.vacant;
        match self.places.get_mut((word as usize).wrapping_sub(1)) {
            Some(place) => {
                let Place::Vacant(next) = *place else { unreachable!("the list of vacant places holds no taken one") };
                self.vacant = next;
                *place = Place::Taken(Flight { range, changes, stage: Stage::Goes });
                Ticket(word)
            }
            None => self.grow(range, changes),
        }
    }

    #[cold]
    fn grow(&mut self, range: ByteRange, changes: bool) -> Ticket {
        self.places.push(Place::Taken(Flight { range, changes, stage: Stage::Goes }));
        Ticket(u32::try_from(self.places.len()).expect("fewer requests under way than 2^32"))
    }

    #[inline]
    pub(super) fn remove(&mut self, ticket: Ticket) {
        let place = &mut self.places[ticket.0 as usize - 1];
        assert!(matches!(place, Place::Taken(_)), "{ticket:?} has left before");
        *place = Place::Vacant(self.vacant);
        self.vacant = ticket.0;
    }

    pub(super) fn get(&self, ticket: Ticket) -> &Flight {
        match &self.places[ticket.0 as usize - 1] {
            Place::Taken(flight) => flight,
            Place::Vacant(_) => panic!("{ticket:?} has left before"),
        }
    }

    pub(super) fn set_stage(&mut self, ticket: Ticket, stage: Stage) {
        if let Place::Taken(flight) = &mut self.places[ticket.0 as usize - 1] {
            flight.stage = stage;
        }
    }

    fn all(&self) -> impl Iterator<Item = (Ticket, &Flight)> {
        self.places.iter().zip(1..).filter_map(|(place, word)| match place {
            Place::Taken(flight) => Some((Ticket(word), flight)),
            Place::Vacant(_) => None,
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all().next().is_none()
    }

    /// Those that go and have a byte of `range`.
    pub(super) fn under_way(&self, range: ByteRange) -> impl Iterator<Item = (Ticket, &Flight)> {
        self.all().filter(move |(_, flight)| flight.stage == Stage::Goes && flight.range.overlaps(range))
    }

    /// Those that wait.
    pub(super) fn waiting(&self) -> impl Iterator<Item = (Ticket, &Flight)> {
        self.all().filter(|(_, flight)| flight.stage != Stage::Goes)
    }
}
