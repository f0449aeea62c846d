//! Zones of slots whose clean entries a crash makes doubtful.
//!
//! Invariant: a zone is touched on the medium before the first write to a clean entry of it, or to its home. It stays
//! so until a flush of all lower devices has followed the last one. It stops to count in memory before it does on the
//! medium.

use std::collections::VecDeque;

use esker_base::{Bits, Nanos, Time};

/// Time without writes after which a zone may go quiet.
const QUIET_AFTER: Nanos = Nanos::secs(30);

/// What is known of the zones.
pub(super) struct Zones {
    /// Touched on the medium.
    touched: Bits,
    /// Zones whose record is on its way, with the number of its group.
    asked: VecDeque<(u64, u32)>,
    is_asked: Bits,
    /// Written, or to be written, since the last look.
    recent: Bits,
    under_way: Vec<u32>,
    /// When a write was seen last.
    seen: Vec<Time>,
}

impl Zones {
    pub(super) fn new(touched: Bits) -> Zones {
        let zones = touched.len();
        Zones {
            recent: touched.clone(),
            touched,
            asked: VecDeque::new(),
            is_asked: Bits::new(zones),
            under_way: vec![0; zones],
            seen: vec![Time::default(); zones],
        }
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.under_way.len() * (size_of::<u32>() + size_of::<Time>()) + self.touched.len() * 3 / 8
    }

    /// Whether a zone is touched on the medium.
    pub(super) fn is_touched(&self, zone: u32) -> bool {
        self.touched.has(zone as usize)
    }

    /// What a head says: more zones than needed do no harm.
    pub(super) fn for_head(&self) -> Bits {
        let mut zones = self.touched.clone();
        zones.unite(&self.is_asked);
        zones
    }

    /// Whether a record of the zone must be written; it is seen as written from now on.
    pub(super) fn needs_touch(&mut self, zone: u32) -> bool {
        self.recent.set(zone as usize);
        !self.is_touched(zone) && !self.is_asked.has(zone as usize)
    }

    /// The record of a zone waits, as group `number`.
    pub(super) fn ask(&mut self, zone: u32, number: u64) {
        self.is_asked.set(zone as usize);
        self.asked.push_back((number, zone));
    }

    /// All groups up to `number` are durable.
    pub(super) fn arrived(&mut self, number: u64) {
        while let Some((_, zone)) = self.asked.front().copied().filter(|(needed, _)| *needed <= number) {
            self.asked.pop_front();
            self.is_asked.clear(zone as usize);
            self.touched.set(zone as usize);
        }
    }

    /// A write begins.
    pub(super) fn writing(&mut self, zone: u32) {
        self.recent.set(zone as usize);
        self.under_way[zone as usize] += 1;
    }

    /// It has ended.
    pub(super) fn wrote(&mut self, zone: u32) {
        self.recent.set(zone as usize);
        let under_way = &mut self.under_way[zone as usize];
        *under_way = under_way.saturating_sub(1);
    }

    /// The touched zones without writes for long enough.
    pub(super) fn idle(&mut self, now: Time) -> Vec<u32> {
        let mut idle = Vec::new();
        for at in self.touched.iter() {
            if self.recent.has(at) || self.under_way[at] > 0 {
                self.recent.clear(at);
                self.seen[at] = now;
            } else if self.seen[at] + QUIET_AFTER <= now {
                idle.extend(u32::try_from(at));
            }
        }
        idle
    }

    /// Takes those of `idle` that are still without writes out: they count no more, and their records may be written.
    pub(super) fn leave(&mut self, mut idle: Vec<u32>) -> Vec<u32> {
        idle.retain(|zone| !self.recent.has(*zone as usize) && self.under_way[*zone as usize] == 0);
        idle.iter().for_each(|zone| self.touched.clear(*zone as usize));
        idle
    }

    /// Nothing is doubtful any more: all lower devices were flushed and no write is under way.
    pub(super) fn leave_all(&mut self) {
        self.touched.clear_all();
        self.recent.clear_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::default() + Nanos::secs(seconds)
    }

    #[test]
    fn a_zone_counts_from_its_record_until_it_was_idle_for_long() {
        let mut zones = Zones::new(Bits::new(4));
        assert!(zones.needs_touch(2) && !zones.is_touched(2));
        zones.ask(2, 7);
        assert!(!zones.needs_touch(2) && zones.for_head().has(2));
        zones.arrived(6);
        assert!(!zones.is_touched(2));
        zones.arrived(7);
        assert!(zones.is_touched(2) && !zones.needs_touch(2));
        assert_eq!((zones.idle(at(100)), zones.idle(at(129))), (vec![], vec![]));
        assert_eq!(zones.idle(at(130)), [2]);
        zones.wrote(2);
        assert_eq!((zones.idle(at(150)), zones.idle(at(179))), (vec![], vec![]), "the time begins anew");
        assert_eq!(zones.leave(vec![2]), [2]);
        assert!(!zones.is_touched(2) && zones.needs_touch(2) && !zones.for_head().has(2));
    }

    #[test]
    fn a_zone_with_a_write_under_way_stays() {
        let mut touched = Bits::new(2);
        touched.set(1);
        let mut zones = Zones::new(touched);
        zones.writing(1);
        assert_eq!((zones.idle(at(1)), zones.idle(at(90))), (vec![], vec![]));
        zones.wrote(1);
        assert_eq!((zones.idle(at(91)), zones.idle(at(121))), (vec![], vec![1]));
        zones.writing(1);
        assert!(zones.leave(vec![1]).is_empty(), "a write came during the flush");
    }
}
