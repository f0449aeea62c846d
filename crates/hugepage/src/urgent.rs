//! Requests of faults: regions to look at before anything else, each at most once, in the order in which they came; and
//! those that are to be tried again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use esker_base::Time;

use crate::view::{Pid, Place};

/// Places that wait at most. More are dropped: the background scan finds them.
const PLACES_MAX: usize = 1 << 16;

/// The queue.
#[derive(Debug, Default)]
pub struct Urgent {
    queue: VecDeque<Place>,
    queued: BTreeSet<Place>,
    /// Those that are tried again, by when, with how often they were.
    later: BTreeSet<(Time, Place)>,
    tries: BTreeMap<Place, u32>,
    /// Places that were dropped because too many waited.
    pub dropped: u64,
}

impl Urgent {
    /// Asks for a place. False if it waits already, or too many do.
    pub fn ask(&mut self, place: Place) -> bool {
        if self.tries.contains_key(&place) || self.queued.contains(&place) {
            return false;
        }
        if self.queued.len() >= PLACES_MAX {
            self.dropped += 1;
            return false;
        }
        self.queued.insert(place);
        self.queue.push_back(place);
        true
    }

    /// Asks for a place again at `at`.
    pub fn ask_again(&mut self, place: Place, at: Time) {
        *self.tries.entry(place).or_default() += 1;
        self.later.insert((at, place));
    }

    /// How often a place was asked for again since it was last done with.
    pub fn tries(&self, place: Place) -> u32 {
        self.tries.get(&place).copied().unwrap_or(0)
    }

    /// A place is done with.
    pub fn done(&mut self, place: Place) {
        self.tries.remove(&place);
    }

    /// The next place that is due.
    pub fn next(&mut self, now: Time) -> Option<Place> {
        if let Some((at, place)) = self.later.first().copied().filter(|(at, _)| *at <= now) {
            self.later.remove(&(at, place));
            return Some(place);
        }
        let place = self.queue.pop_front()?;
        self.queued.remove(&place);
        Some(place)
    }

    /// When the next one is due; the beginning of time if one is already.
    pub fn due(&self) -> Option<Time> {
        match self.queue.is_empty() {
            true => self.later.first().map(|(at, _)| *at),
            false => Some(Time(0)),
        }
    }

    /// Forgets a process.
    pub fn forget(&mut self, pid: Pid) {
        self.queue.retain(|place| place.pid != pid);
        self.queued.retain(|place| place.pid != pid);
        self.later.retain(|(_, place)| place.pid != pid);
        self.tries.retain(|place, _| place.pid != pid);
    }

    /// Places that wait.
    pub fn len(&self) -> usize {
        self.queue.len() + self.later.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::Region;

    fn place(pid: u32, region: u64) -> Place {
        Place { pid: Pid(pid), region: Region(region) }
    }

    #[test]
    fn a_place_waits_once_and_places_come_in_order() {
        let mut urgent = Urgent::default();
        let asked = [place(1, 5), place(2, 1), place(1, 5)].map(|place| urgent.ask(place));
        assert_eq!(asked, [true, true, false]);
        let got: Vec<Place> = std::iter::from_fn(|| urgent.next(Time(0))).collect();
        assert_eq!(got, [place(1, 5), place(2, 1)]);
        assert!(urgent.ask(place(1, 5)), "it may be asked for again once it was taken");
    }

    #[test]
    fn what_is_tried_again_waits_for_its_time_and_is_not_queued_twice() {
        let mut urgent = Urgent::default();
        urgent.ask_again(place(1, 1), Time(100));
        assert!(!urgent.ask(place(1, 1)));
        assert_eq!((urgent.next(Time(99)), urgent.due()), (None, Some(Time(100))));
        assert_eq!((urgent.next(Time(100)), urgent.tries(place(1, 1))), (Some(place(1, 1)), 1));
        urgent.done(place(1, 1));
        assert!(urgent.ask(place(1, 1)) && urgent.tries(place(1, 1)) == 0);
    }

    #[test]
    fn a_forgotten_process_leaves_nothing() {
        let mut urgent = Urgent::default();
        (0..10).for_each(|region| assert!(urgent.ask(place(region as u32 % 2, region))));
        urgent.ask_again(place(1, 99), Time(5));
        urgent.forget(Pid(1));
        assert_eq!((urgent.len(), urgent.tries.len(), urgent.queued.len()), (5, 0, 5));
    }

    #[test]
    fn the_queue_is_bounded() {
        let mut urgent = Urgent::default();
        let taken = (0..PLACES_MAX as u64 + 7).filter(|region| urgent.ask(place(1, *region))).count();
        assert_eq!((taken, urgent.len(), urgent.dropped), (PLACES_MAX, PLACES_MAX, 7));
    }
}
