//! Requests of faults: regions to look at before anything else, each at most once; and those that are to be tried
//! again.
//!
//! A process' own come in the order in which it asked; whose comes first, the caller says. (The source serves all of
//! them in one order of arrival, so that the process that faults most wins where not all can be served.) A region that
//! deserves a huge page while none is free waits apart from regions that are still to be looked at: these may hold a
//! huge page to be given back.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use esker_base::Time;

use crate::view::{Pid, Region, RegionAddress};

/// Regions of one process that wait at most: 128 GiB. More are dropped, and the background scan finds them.
const REGIONS_MAX: usize = 1 << 16;

/// The queue.
#[derive(Debug, Default)]
pub struct Urgent {
    lines: BTreeMap<Pid, Line>,
    /// Those that are tried again, by when, with how often they were.
    later: BTreeSet<(Time, RegionAddress)>,
    tries: BTreeMap<RegionAddress, u32>,
    /// Places that were dropped because too many waited.
    pub dropped: u64,
}

/// What one process waits for.
#[derive(Debug, Default)]
struct Line {
    /// To be looked at.
    asked: VecDeque<Region>,
    /// Found to deserve a huge page when there was no room for one.
    wanting: VecDeque<Region>,
    /// Both.
    waiting: BTreeSet<Region>,
}

impl Line {
    fn is_open(&self, has_room: bool) -> bool {
        !self.asked.is_empty() || has_room && !self.wanting.is_empty()
    }
}

impl Urgent {
    /// Asks for a place. False if it waits already, or too many of its process do.
    pub fn ask(&mut self, place: RegionAddress) -> bool {
        !self.tries.contains_key(&place) && self.wait(place, |line| &mut line.asked)
    }

    /// Has a place that deserves a huge page wait until there is room for one.
    pub fn want(&mut self, place: RegionAddress) {
        self.tries.remove(&place);
        self.wait(place, |line| &mut line.wanting);
    }

    fn wait(&mut self, place: RegionAddress, queue: fn(&mut Line) -> &mut VecDeque<Region>) -> bool {
        let line = self.lines.entry(place.pid).or_default();
        if line.waiting.contains(&place.region) {
            return false;
        }
        if line.waiting.len() >= REGIONS_MAX {
            self.dropped += 1;
            return false;
        }
        line.waiting.insert(place.region);
        queue(line).push_back(place.region);
        true
    }

    /// Asks for a place again at `at`.
    pub fn ask_again(&mut self, place: RegionAddress, at: Time) {
        *self.tries.entry(place).or_default() += 1;
        self.later.insert((at, place));
    }

    /// How often a place was asked for again since it was last done with.
    pub fn tries(&self, place: RegionAddress) -> u32 {
        self.tries.get(&place).copied().unwrap_or(0)
    }

    /// A place is done with.
    pub fn done(&mut self, place: RegionAddress) {
        self.tries.remove(&place);
    }

    /// A place that is to be tried again by now.
    pub fn again(&mut self, now: Time) -> Option<RegionAddress> {
        let (at, place) = self.later.first().copied().filter(|(at, _)| *at <= now)?;
        self.later.remove(&(at, place));
        Some(place)
    }

    /// Waiting processes, by number. `has_room`: a huge page can be had.
    pub fn who(&self, has_room: bool) -> impl Iterator<Item = Pid> + Clone {
        self.lines.iter().filter(move |(_, line)| line.is_open(has_room)).map(|(pid, _)| *pid)
    }

    /// The next place of a process.
    pub fn take(&mut self, pid: Pid, has_room: bool) -> Option<RegionAddress> {
        let line = self.lines.get_mut(&pid)?;
        let wanted = if has_room { line.wanting.pop_front() } else { None };
        let region = wanted.or_else(|| line.asked.pop_front())?;
        line.waiting.remove(&region);
        if line.waiting.is_empty() {
            self.lines.remove(&pid);
        }
        Some(RegionAddress { pid, region })
    }

    /// When the next one is due; the beginning of time if one is already.
    pub fn due(&self, has_room: bool) -> Option<Time> {
        match self.who(has_room).next() {
            None => self.later.first().map(|(at, _)| *at),
            Some(_) => Some(Time(0)),
        }
    }

    /// Forgets a process.
    pub fn forget(&mut self, pid: Pid) {
        self.lines.remove(&pid);
        self.later.retain(|(_, place)| place.pid != pid);
        self.tries.retain(|place, _| place.pid != pid);
    }

    /// Places that wait.
    pub fn len(&self) -> usize {
        self.lines.values().map(|line| line.waiting.len()).sum::<usize>() + self.later.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(pid: u32, region: u64) -> RegionAddress {
        RegionAddress { pid: Pid(pid), region: Region(region) }
    }

    fn who(urgent: &Urgent, has_room: bool) -> Vec<u32> {
        urgent.who(has_room).map(|pid| pid.0).collect()
    }

    #[test]
    fn a_place_waits_once_and_places_of_a_process_come_in_order() {
        let mut urgent = Urgent::default();
        let asked = [place(1, 5), place(2, 1), place(1, 3), place(1, 5)].map(|place| urgent.ask(place));
        assert_eq!((asked, who(&urgent, false)), ([true, true, true, false], vec![1, 2]));
        let got: Vec<RegionAddress> = std::iter::from_fn(|| urgent.take(Pid(1), false)).collect();
        assert_eq!((got, who(&urgent, false)), (vec![place(1, 5), place(1, 3)], vec![2]));
        assert!(urgent.ask(place(1, 5)), "it may be asked for again once it was taken");
    }

    #[test]
    fn who_wants_a_huge_page_waits_for_room_and_holds_up_no_look() {
        let mut urgent = Urgent::default();
        urgent.want(place(1, 5));
        assert!(!urgent.ask(place(1, 5)), "it waits");
        assert!((who(&urgent, false), urgent.due(false)) == (vec![], None));
        assert!((who(&urgent, true), urgent.due(true)) == (vec![1], Some(Time(0))));
        urgent.ask(place(1, 6));
        let mut take = |has_room| urgent.take(Pid(1), has_room);
        assert_eq!(
            [take(false), take(false), take(true), take(true)],
            [Some(place(1, 6)), None, Some(place(1, 5)), None]
        );
    }

    #[test]
    fn what_is_tried_again_waits_for_its_time_and_is_not_queued_twice() {
        let mut urgent = Urgent::default();
        urgent.ask_again(place(1, 1), Time(100));
        assert!(!urgent.ask(place(1, 1)));
        assert_eq!((urgent.again(Time(99)), urgent.due(true)), (None, Some(Time(100))));
        assert_eq!((urgent.again(Time(100)), urgent.tries(place(1, 1))), (Some(place(1, 1)), 1));
        urgent.done(place(1, 1));
        assert!(urgent.ask(place(1, 1)) && urgent.tries(place(1, 1)) == 0);
    }

    #[test]
    fn a_forgotten_process_leaves_nothing() {
        let mut urgent = Urgent::default();
        (0..10).for_each(|region| assert!(urgent.ask(place(region as u32 % 2, region))));
        urgent.want(place(1, 77));
        urgent.ask_again(place(1, 99), Time(5));
        urgent.forget(Pid(1));
        assert_eq!((urgent.len(), urgent.tries.len(), who(&urgent, true)), (5, 0, vec![0]));
    }

    #[test]
    fn the_queue_of_a_process_is_bounded_and_fills_nobody_elses() {
        let mut urgent = Urgent::default();
        let taken = (0..REGIONS_MAX as u64 + 7).filter(|region| urgent.ask(place(1, *region))).count();
        assert_eq!((taken, urgent.len(), urgent.dropped), (REGIONS_MAX, REGIONS_MAX, 7));
        assert!(urgent.ask(place(2, 0)));
    }
}
