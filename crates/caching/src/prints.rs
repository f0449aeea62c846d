//! Keys that left, as prints of their hashes: 5 bytes for each instead of the key and its links.
//!
//! A bucket is one line of the processor's cache with sixteen places. A place has 16 bits of the hash and the tick in
//! which the key left. A tick is a number of keys that leave, and the prints of each are counted: while there are too
//! many, those of the oldest tick are forgotten. A key has two buckets, and its print takes the place of the oldest in
//! both. So hardly any print is forgotten early, although few places are free. Another key with the same print in the
//! same bucket counts as remembered: one in 2,000 look-ups of keys that are not.
//!
//! Prints are the way of the authors of S3-FIFO (SOSP 2023, section 4.2). Theirs are forgotten by age alone, so that
//! keys which come back cost others their place.

use crate::index::hash;

const PLACES: usize = 16;
/// Share of the places that prints take which are remembered.
const LOAD: f64 = 0.8;
/// Ticks in which as many keys leave as are remembered, at most.
const TICKS: u32 = 1 << 12;
/// Ticks that are remembered at most, over those in which so many keys leave. Keys that come back make room for older
/// ones. A place that was not written for sixteen times `TICKS` would seem new again; by then, its bucket has taken
/// hundreds of others.
const STRETCH: u32 = 4;

#[repr(align(64))]
#[derive(Clone, Copy)]
struct Bucket([u32; PLACES]);

/// The newest keys that left, up to a number.
pub(crate) struct Prints {
    buckets: Vec<Bucket>,
    most: u32,
    /// Prints of each tick that is remembered: those from `oldest` to `now`, round and round.
    counts: Vec<u32>,
    oldest: u64,
    now: u64,
    /// Keys that left in this tick, and in each.
    in_tick: u32,
    of_tick: u32,
    len: u32,
}

impl Prints {
    pub(crate) fn new(most: u32) -> Prints {
        let buckets = (f64::from(most) / (PLACES as f64 * LOAD)).ceil().max(1.0) as usize;
        let of_tick = most.div_ceil(TICKS).max(1);
        let ticks = (STRETCH * most.div_ceil(of_tick).max(1)).next_power_of_two() as usize;
        Prints {
            buckets: vec![Bucket([0; PLACES]); buckets],
            most,
            counts: vec![0; ticks],
            // What empty places say was forgotten long ago.
            oldest: u64::from(u16::MAX / 2),
            now: u64::from(u16::MAX / 2),
            in_tick: 0,
            of_tick,
            len: 0,
        }
    }

    /// Remembers a key.
    pub(crate) fn push(&mut self, key: u64) {
        if self.in_tick == self.of_tick {
            self.begin_tick();
        }
        self.in_tick += 1;
        let (places, print) = self.places(key);
        let (at, place) = places.max_by_key(|(at, place)| self.age(self.buckets[*at].0[*place])).unwrap_or((0, 0));
        self.forget(at, place);
        self.buckets[at].0[place] = u32::from(print) << 16 | u32::from(self.now as u16);
        self.count(self.now, 1);
        while self.len > self.most {
            self.forget_oldest();
        }
    }

    /// Forgets a key. Whether it was remembered.
    pub(crate) fn take(&mut self, key: u64) -> bool {
        let (mut places, print) = self.places(key);
        let is_it = |at: usize, place: usize| {
            let place = self.buckets[at].0[place];
            (place >> 16) as u16 == print && self.is_remembered(place)
        };
        let found = places.find(|(at, place)| is_it(*at, *place));
        found.inspect(|(at, place)| self.forget(*at, *place)).is_some()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.buckets.len() * size_of::<Bucket>() + self.counts.capacity() * size_of::<u32>()
    }

    fn begin_tick(&mut self) {
        self.now += 1;
        self.in_tick = 0;
        if self.now - self.oldest == self.counts.len() as u64 {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        let at = self.oldest as usize & (self.counts.len() - 1);
        self.len -= std::mem::take(&mut self.counts[at]);
        self.oldest += 1;
    }

    /// A place has no print any more.
    fn forget(&mut self, at: usize, place: usize) {
        let was = self.buckets[at].0[place];
        if self.is_remembered(was) {
            self.count(self.now - u64::from(self.age(was)), -1);
            // Older than all that are remembered.
            self.buckets[at].0[place] = u32::from((self.oldest - 1) as u16);
        }
    }

    fn count(&mut self, tick: u64, more: i32) {
        let at = tick as usize & (self.counts.len() - 1);
        self.counts[at] = self.counts[at].wrapping_add_signed(more);
        self.len = self.len.wrapping_add_signed(more);
    }

    /// Where the print of a key may be, and the print.
    fn places(&self, key: u64) -> (impl Iterator<Item = (usize, usize)> + use<>, u16) {
        let hash = hash(key);
        let bucket = |word: u32| ((u64::from(word) * self.buckets.len() as u64) >> 32) as usize;
        let buckets = [bucket((hash >> 32) as u32), bucket((hash >> 16) as u32)];
        (buckets.into_iter().flat_map(|at| (0..PLACES).map(move |place| (at, place))), hash as u16)
    }

    /// Ticks since a print was written.
    fn age(&self, place: u32) -> u16 {
        (self.now as u16).wrapping_sub(place as u16)
    }

    fn is_remembered(&self, place: u32) -> bool {
        u64::from(self.age(place)) <= self.now - self.oldest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_keys_are_remembered_and_each_is_taken_once() {
        for most in [1, 10, 1000, 100_000] {
            let mut prints = Prints::new(most);
            let all = 3 * u64::from(most);
            (0..all).for_each(|key| prints.push(key));
            let newest = u64::from(most) * 9 / 10;
            let kept = (all - newest..all).filter(|key| prints.take(*key)).count() as u64;
            assert!(kept * 100 >= newest * 97, "{kept} of {newest} of {most}");
            let again = (all - newest..all).filter(|key| prints.take(*key)).count() as u64;
            let old = (0..all - u64::from(most) * 11 / 10).filter(|key| prints.take(*key)).count() as u64;
            assert!(
                again * 500 <= newest && old * 500 <= all,
                "{again} were taken twice, {old} old ones are remembered"
            );
        }
    }

    #[test]
    fn keys_that_never_left_are_hardly_ever_remembered() {
        let mut prints = Prints::new(50_000);
        (0..200_000).for_each(|key| prints.push(key));
        let wrong = (1 << 40..(1 << 40) + 200_000).filter(|key| prints.take(*key)).count();
        assert!(wrong < 200, "{wrong} of 200,000");
    }

    #[test]
    fn keys_that_come_back_make_room_for_older_ones() {
        for most in [100, 10_000] {
            let mut prints = Prints::new(most);
            let (first, second) = (0..u64::from(most), 1 << 32..(1 << 32) + u64::from(most));
            first.clone().for_each(|key| prints.push(key));
            for key in second {
                prints.push(key);
                prints.take(key);
            }
            let kept = first.filter(|key| prints.take(*key)).count();
            assert!(kept * 100 >= most as usize * 95, "{kept} of {most}");
        }
    }

    #[test]
    fn nothing_is_remembered_at_first() {
        let mut prints = Prints::new(100);
        assert!((0..1000).all(|key| !prints.take(key)));
        assert!(Prints::new(1 << 20).bytes() <= 6 << 20);
    }
}
