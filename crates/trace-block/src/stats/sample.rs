//! A bounded table of things that were seen. When it is full it keeps only the things whose hash begins with one more
//! zero bit, so that what stays is always a uniform sample by *identity*, not by frequency (spatially hashed sampling:
//! C. A. Waldspurger, N. Park, A. Garthwaite, I. Ahmad, "Efficient MRC Construction with SHARDS", FAST 2015, there with
//! the fixed-size variant).

/// Slots of a new table.
const FIRST_SLOTS: usize = 1 << 10;

/// What is known of each thing in the sample. A thing is named by a well-mixed 64-bit hash: among a million things two
/// share a name with a probability of about 3 in 10^8.
pub(crate) struct Sample<T> {
    /// Open addressing with linear probing; 0 marks an empty slot. At most half of the slots are used.
    slots: Vec<(u64, T)>,
    used: usize,
    room: usize,
    /// Leading bits that must be zero in the hash of a thing in the sample.
    level: u32,
}

impl<T: Copy + Default> Sample<T> {
    /// A sample of at most `room` things (at least 2). Every thing is in it until there are more.
    pub(super) fn new(room: usize) -> Sample<T> {
        Sample {
            slots: vec![(0, T::default()); FIRST_SLOTS.min(room.next_power_of_two() * 2)],
            used: 0,
            room,
            level: 0,
        }
    }

    /// Each thing in the sample stands for so many things; 1 means that everything seen is known exactly.
    pub(super) fn weight(&self) -> u64 {
        1 << self.level
    }

    /// What is known of the thing called `hash`, new if it was never seen, and for how many things it stands now;
    /// nothing if it is not in the sample.
    #[inline]
    pub(super) fn entry(&mut self, hash: u64) -> Option<(&mut T, u64)> {
        let hash = hash.max(1);
        if !self.takes(hash) {
            return None;
        }
        let mut at = self.slot(hash);
        if self.slots[at].0 == 0 {
            self.make_room();
            if !self.takes(hash) {
                return None;
            }
            at = self.slot(hash);
            self.slots[at] = (hash, T::default());
            self.used += 1;
        }
        let weight = self.weight();
        Some((&mut self.slots[at].1, weight))
    }

    /// What is known of the things in the sample, in no particular order, yet the same for the same trace.
    pub(super) fn values(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().filter(|slot| slot.0 != 0).map(|slot| &slot.1)
    }

    fn takes(&self, hash: u64) -> bool {
        self.level == 0 || hash >> (u64::BITS - self.level) == 0
    }

    /// The slot of `hash`, or the empty one where it belongs.
    fn slot(&self, hash: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        while self.slots[at].0 != 0 && self.slots[at].0 != hash {
            at = (at + 1) & mask;
        }
        at
    }

    /// Makes sure that one more thing fits.
    fn make_room(&mut self) {
        while self.used >= self.room && self.level < 63 {
            self.level += 1;
            self.rebuild(self.slots.len());
        }
        if (self.used + 1) * 2 > self.slots.len() {
            self.rebuild(self.slots.len() * 2);
        }
    }

    fn rebuild(&mut self, slots: usize) {
        let old = std::mem::replace(&mut self.slots, vec![(0, T::default()); slots]);
        self.used = 0;
        for (hash, known) in old {
            if hash != 0 && self.takes(hash) {
                let at = self.slot(hash);
                self.slots[at] = (hash, known);
                self.used += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_base::digest::mix;

    fn counted(things: u64, room: usize) -> Sample<u32> {
        let mut sample = Sample::new(room);
        for thing in (0..things).chain(0..things / 2) {
            if let Some((count, _)) = sample.entry(mix(thing)) {
                *count += 1;
            }
        }
        sample
    }

    #[test]
    fn everything_is_known_while_it_fits() {
        let sample = counted(5_000, 5_000);
        assert_eq!((sample.weight(), sample.values().count()), (1, 5_000));
        assert_eq!(sample.values().filter(|count| **count == 2).count(), 2_500);
    }

    #[test]
    fn a_full_sample_stands_for_everything_and_stays_within_its_room() {
        for (things, room) in [(100_000, 1 << 10), (1_000_000, 1 << 12)] {
            let sample = counted(things, room);
            let kept = sample.values().count();
            assert!(kept <= room && kept > room / 3, "{kept} of {room}");
            let estimate = kept as f64 * sample.weight() as f64;
            // Four standard errors of a sample of that size.
            assert!((estimate / things as f64 - 1.0).abs() < 4.0 / (kept as f64).sqrt(), "{estimate} for {things}");
            let twice = sample.values().filter(|count| **count == 2).count() as f64 / kept as f64;
            assert!((twice - 0.5).abs() < 2.0 / (kept as f64).sqrt(), "{twice}");
        }
    }

    #[test]
    fn counts_of_things_that_stay_are_exact() {
        let mut sample = Sample::<u32>::new(64);
        for round in 0..10 {
            (0..1_000u64).for_each(|thing| {
                if let Some((count, _)) = sample.entry(mix(thing)) {
                    *count += 1;
                }
            });
            assert!(sample.values().all(|count| *count == round + 1), "round {round}");
        }
    }
}
