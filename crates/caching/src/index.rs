//! From keys to dense numbers: a hash table whose bucket is one line of the processor's cache.
//!
//! A bucket has sixteen places of 32 bits: a tag of the hash, and the number plus one. A look-up compares all tags of a
//! bucket at once, without branches, and then mostly one key, which the caller has. This filter is that of F14 (Bronson
//! and Shi, Facebook, 2019), with the width of the tag set by the number of lines. A full bucket passes keys on to the
//! next one and counts them, so removing leaves no tombstones.

use esker_base::digest::mix;

use crate::Slot;

const PLACES: usize = 16;
/// Keys that are looked up at once.
pub(crate) const BATCH: usize = 32;
/// A number that no key has.
pub(crate) const NONE: Slot = Slot::MAX;

#[repr(align(64))]
#[derive(Clone, Copy)]
struct Bucket([u32; PLACES]);

/// The hash of a key.
#[inline]
pub fn hash(key: u64) -> u64 {
    mix(key)
}

/// Numbers below a bound, by hashes of their keys.
pub struct Index {
    buckets: Vec<Bucket>,
    /// Keys that a bucket passed on. The largest count stays.
    passed: Vec<u8>,
    /// Bits of a number in a place. The tag has the others.
    bits: u32,
}

impl Index {
    /// For `lines` numbers, which take the share `load` of all places.
    pub fn new(lines: u32, load: f64) -> Index {
        assert!(lines < 1 << 28, "an index of {lines} lines has no room for tags; choose larger lines");
        let buckets = (f64::from(lines.max(1)) / (PLACES as f64 * load)).ceil() as usize;
        Index {
            buckets: vec![Bucket([0; PLACES]); buckets],
            passed: vec![0; buckets],
            bits: u32::BITS - lines.leading_zeros(),
        }
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.buckets.len() * (size_of::<Bucket>() + size_of::<u8>())
    }

    /// The number of the key with this hash, which `is` recognises.
    #[inline]
    pub fn find(&self, hash: u64, is: impl Fn(Slot) -> bool) -> Option<Slot> {
        let mut at = self.home(hash);
        for _ in 0..self.buckets.len() {
            let mut places = self.matches(at, self.tag(hash));
            while places != 0 {
                let slot = self.slot(at, places.trailing_zeros());
                if is(slot) {
                    return Some(slot);
                }
                places &= places - 1;
            }
            if self.passed[at] == 0 {
                return None;
            }
            at = self.next(at);
        }
        None
    }

    /// The numbers of up to a batch of keys. `NONE` says only that one was not found at the first place. `keys` has the
    /// keys by number. No look-up needs the one before, so the processor fetches all buckets at the same time.
    #[inline]
    pub(crate) fn guess(&self, wanted: &[u64], keys: &[u64], slots: &mut [Slot; BATCH]) {
        for (key, slot) in wanted.iter().zip(slots.iter_mut()) {
            let hash = hash(*key);
            let places = self.matches(self.home(hash), self.tag(hash));
            *slot = if places == 0 { NONE } else { self.slot(self.home(hash), places.trailing_zeros()) };
        }
        for (key, slot) in wanted.iter().zip(slots.iter_mut()) {
            if keys.get(*slot as usize) != Some(key) {
                *slot = NONE;
            }
        }
    }

    /// Adds the number of a key that is not there.
    #[inline]
    pub fn insert(&mut self, hash: u64, slot: Slot) {
        let mut at = self.home(hash);
        loop {
            let empty = self.equal(at, 0, u32::MAX);
            if empty != 0 {
                let place = self.tag(hash) | (slot + 1);
                return self.set(at, empty.trailing_zeros(), place);
            }
            self.passed[at] = self.passed[at].saturating_add(1);
            at = self.next(at);
        }
    }

    /// Removes the number of a key that is there.
    #[inline]
    pub fn remove(&mut self, hash: u64, slot: Slot) {
        let place = self.tag(hash) | (slot + 1);
        let mut at = self.home(hash);
        for _ in 0..self.buckets.len() {
            let found = self.equal(at, place, u32::MAX);
            if found != 0 {
                return self.set(at, found.trailing_zeros(), 0);
            }
            if self.passed[at] < u8::MAX {
                self.passed[at] -= 1;
            }
            at = self.next(at);
        }
    }

    #[inline]
    fn home(&self, hash: u64) -> usize {
        (((hash >> 32) * self.buckets.len() as u64) >> 32) as usize
    }

    #[inline]
    fn next(&self, at: usize) -> usize {
        if at + 1 == self.buckets.len() { 0 } else { at + 1 }
    }

    /// The tag of a hash where a place has it. It is never 0, which is an empty place's.
    #[inline]
    fn tag(&self, hash: u64) -> u32 {
        let tag = hash as u32 >> self.bits << self.bits;
        if tag == 0 { 1 << self.bits } else { tag }
    }

    #[inline]
    fn slot(&self, at: usize, place: u32) -> Slot {
        (self.buckets[at].0[place as usize] & ((1 << self.bits) - 1)) - 1
    }

    #[inline]
    fn set(&mut self, at: usize, place: u32, value: u32) {
        self.buckets[at].0[place as usize] = value;
    }

    /// Places of a bucket with this tag, a bit each.
    #[inline]
    fn matches(&self, at: usize, tag: u32) -> u32 {
        self.equal(at, tag, u32::MAX >> self.bits << self.bits)
    }

    /// Places that equal `value` in the bits of `mask`, a bit each. The loop has no branch, so the compiler makes it a
    /// few instructions on vectors. Words of two places in plain arithmetic were slower.
    #[inline]
    fn equal(&self, at: usize, value: u32, mask: u32) -> u32 {
        let places = self.buckets[at].0.iter().enumerate();
        places.fold(0, |equal, (at, place)| equal | u32::from((place ^ value) & mask == 0) << at)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use esker_base::Stream;

    use super::*;

    /// Looks keys up in an index beside a map, while they come and go. `spread` makes hashes alike.
    fn check(lines: u32, load: f64, spread: impl Fn(u64) -> u64) {
        let (mut index, mut map) = (Index::new(lines, load), BTreeMap::new());
        let (mut free, mut keys) = ((0..lines).collect::<Vec<_>>(), vec![0; lines as usize]);
        let mut rng = Stream::named(lines.into(), "index");
        for _ in 0..20_000 {
            let key = rng.below(u64::from(lines) * 2);
            let found = index.find(spread(key), |slot| keys[slot as usize] == key);
            assert_eq!(found, map.get(&key).copied(), "{key} of {lines}");
            if let Some(slot) = found {
                if rng.chance(0.45) {
                    index.remove(spread(key), slot);
                    map.remove(&key);
                    free.push(slot);
                }
            } else if let Some(slot) = free.pop() {
                keys[slot as usize] = key;
                index.insert(spread(key), slot);
                map.insert(key, slot);
            }
        }
        map.into_iter().for_each(|(key, slot)| index.remove(spread(key), slot));
        assert!(index.passed.iter().all(|count| *count == 0 || *count == u8::MAX), "{:?}", index.passed);
        assert!(index.buckets.iter().flat_map(|bucket| bucket.0).all(|place| place == 0));
    }

    #[test]
    fn keys_are_found_while_they_are_there() {
        for lines in [1, 2, 13, 14, 100, 3_000] {
            for load in [0.5, 0.85, 1.0] {
                check(lines, load, hash);
            }
        }
    }

    #[test]
    fn keys_with_like_hashes_are_found_too() {
        check(100, 0.5, |_| 0);
        check(100, 0.85, |key| key % 3);
        check(1_000, 0.85, |key| ((key % 5) << 60) | key);
        check(1_000, 0.5, |_| u64::MAX);
    }
}
