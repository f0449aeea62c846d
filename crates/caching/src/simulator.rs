//! A cache without data: plays uses of lines against a policy, and counts.

use crate::index::{BATCH, Index, NONE, hash};
use crate::request::LineUse;
use crate::{Lines, Policy, Slot};

/// The share of places that the index uses.
const LOAD: f64 = 0.5;

/// What a simulator has seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SimulatorTally {
    /// Requests.
    pub requests: u64,
    /// Requests that missed a line.
    pub request_misses: u64,
    /// Bytes of requests.
    pub bytes: u64,
    /// Bytes in lines that missed.
    pub byte_misses: u64,
    /// Lines that missed.
    pub line_misses: u64,
}

impl SimulatorTally {
    /// The share of requests that hit.
    pub fn hit_ratio(self) -> f64 {
        (self.requests - self.request_misses) as f64 / self.requests.max(1) as f64
    }

    /// What came behind an earlier tally of the same simulator.
    pub fn since(self, before: SimulatorTally) -> SimulatorTally {
        SimulatorTally {
            requests: self.requests - before.requests,
            request_misses: self.request_misses - before.request_misses,
            bytes: self.bytes - before.bytes,
            byte_misses: self.byte_misses - before.byte_misses,
            line_misses: self.line_misses - before.line_misses,
        }
    }
}

/// Which key is in which line.
pub trait Directory {
    /// The line of a key.
    fn find(&self, key: u64) -> Option<Slot>;

    /// The key of a line, if one ever came there.
    fn key(&self, slot: Slot) -> Option<u64>;

    /// Puts a key that is in no line into a line. A key that was there before is in no line then.
    fn put(&mut self, key: u64, slot: Slot);

    /// Lines in which up to a batch of keys are, as far as a short look says.
    fn guess(&self, keys: &[u64], slots: &mut [Slot; BATCH]);

    /// Memory in bytes.
    fn bytes(&self) -> usize;
}

/// A directory for any keys: an index of hashes.
pub struct Hashed {
    index: Index,
    keys: Vec<u64>,
}

impl Hashed {
    /// For a cache of `lines` lines.
    pub fn new(lines: u32) -> Hashed {
        Hashed { index: Index::new(lines, LOAD), keys: Vec::with_capacity(lines as usize) }
    }
}

impl Directory for Hashed {
    #[inline]
    fn find(&self, key: u64) -> Option<Slot> {
        self.index.find(hash(key), |slot| self.keys[slot as usize] == key)
    }

    #[inline]
    fn key(&self, slot: Slot) -> Option<u64> {
        self.keys.get(slot as usize).copied()
    }

    #[inline]
    fn put(&mut self, key: u64, slot: Slot) {
        match self.keys.get_mut(slot as usize) {
            Some(old) => {
                self.index.remove(hash(*old), slot);
                *old = key;
            }
            None => self.keys.push(key),
        }
        self.index.insert(hash(key), slot);
    }

    #[inline]
    fn guess(&self, keys: &[u64], slots: &mut [Slot; BATCH]) {
        self.index.guess(keys, &self.keys, slots);
    }

    fn bytes(&self) -> usize {
        self.index.bytes() + self.keys.capacity() * size_of::<u64>()
    }
}

/// A directory for keys that are dense numbers, as [`crate::ids::dense`] gives them: no hash.
pub struct Dense {
    places: Vec<Slot>,
    keys: Vec<u32>,
}

impl Dense {
    /// For a cache of `lines` lines, and keys below `keys`.
    pub fn new(lines: u32, keys: u32) -> Dense {
        Dense { places: vec![NONE; keys as usize], keys: Vec::with_capacity(lines as usize) }
    }
}

impl Directory for Dense {
    #[inline]
    fn find(&self, key: u64) -> Option<Slot> {
        Some(self.places[key as usize]).filter(|slot| *slot != NONE)
    }

    #[inline]
    fn key(&self, slot: Slot) -> Option<u64> {
        self.keys.get(slot as usize).map(|key| u64::from(*key))
    }

    #[inline]
    fn put(&mut self, key: u64, slot: Slot) {
        match self.keys.get_mut(slot as usize) {
            Some(old) => {
                self.places[*old as usize] = NONE;
                *old = key as u32;
            }
            None => self.keys.push(key as u32),
        }
        self.places[key as usize] = slot;
    }

    #[inline]
    fn guess(&self, keys: &[u64], slots: &mut [Slot; BATCH]) {
        keys.iter().zip(slots).for_each(|(key, slot)| *slot = self.places[*key as usize]);
    }

    fn bytes(&self) -> usize {
        (self.places.capacity() + self.keys.capacity()) * size_of::<u32>()
    }
}

/// The lines of a simulator. None is ever held.
struct Idle<'a, D>(&'a D);

impl<D: Directory> Lines for Idle<'_, D> {
    #[inline]
    fn key(&self, slot: Slot) -> u64 {
        self.0.key(slot).unwrap_or(0)
    }

    #[inline]
    fn is_held(&self, _slot: Slot) -> bool {
        false
    }
}

/// A cache of `lines` lines. A key that misses always comes in.
pub struct Simulator<P, D = Hashed> {
    policy: P,
    directory: D,
    lines: u32,
    used: u32,
    tally: SimulatorTally,
}

impl<P: Policy> Simulator<P> {
    /// For any keys. The policy is one for `lines` lines.
    pub fn new(policy: P, lines: u32) -> Simulator<P> {
        Simulator::with(policy, lines, Hashed::new(lines))
    }
}

impl<P: Policy, D: Directory> Simulator<P, D> {
    /// With this directory, which is empty.
    pub fn with(policy: P, lines: u32, directory: D) -> Simulator<P, D> {
        Simulator { policy, directory, lines, used: 0, tally: SimulatorTally::default() }
    }

    /// Plays requests for one line each, without bytes.
    pub fn run(&mut self, keys: &[u64]) {
        let mut slots = [NONE; BATCH];
        for batch in keys.chunks(BATCH) {
            self.directory.guess(batch, &mut slots);
            let mut misses = 0;
            for (key, slot) in batch.iter().zip(&slots) {
                // A line before in the batch may have taken the place.
                if self.directory.key(*slot) == Some(*key) {
                    self.policy.hit(*slot);
                } else {
                    misses += u64::from(!self.reference(*key));
                }
            }
            self.tally.requests += batch.len() as u64;
            self.tally.request_misses += misses;
            self.tally.line_misses += misses;
        }
    }

    /// Plays requests of several lines. The last one must be whole. A request is a hit only if all its lines are.
    pub fn play(&mut self, lines: &[LineUse]) {
        let mut hit = true;
        for line in lines {
            let line_hit = self.reference(line.key);
            hit &= line_hit;
            self.tally.bytes += u64::from(line.bytes);
            if !line_hit {
                self.tally.line_misses += 1;
                self.tally.byte_misses += u64::from(line.bytes);
            }
            if line.is_last {
                self.tally.requests += 1;
                self.tally.request_misses += u64::from(!std::mem::replace(&mut hit, true));
            }
        }
    }

    /// Uses a line, and says whether it was there. Nothing is counted.
    #[inline]
    pub fn reference(&mut self, key: u64) -> bool {
        match self.directory.find(key) {
            Some(slot) => {
                self.policy.hit(slot);
                true
            }
            None => {
                self.admit(key);
                false
            }
        }
    }

    fn admit(&mut self, key: u64) {
        let recall = self.policy.miss(key);
        let slot = if self.used < self.lines {
            self.used += 1;
            Some(self.used - 1)
        } else {
            self.policy.evict(recall, &Idle(&self.directory))
        };
        if let Some(slot) = slot {
            self.directory.put(key, slot);
            self.policy.insert(slot, key, recall);
        }
    }

    /// What was counted.
    pub fn tally(&self) -> SimulatorTally {
        self.tally
    }

    /// Memory of the policy and of the directory in bytes.
    pub fn bytes(&self) -> [usize; 2] {
        [self.policy.bytes(), self.directory.bytes()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::dense;
    use crate::tests::traces;
    use crate::{NAMED, policies::Lru};

    /// Misses of a simulator that plays one by one.
    fn one_by_one(make: crate::policy::MakePolicy, lines: u32, keys: &[u64]) -> u64 {
        let mut simulator = Simulator::new(make(lines), lines);
        keys.iter().filter(|key| !simulator.reference(**key)).count() as u64
    }

    #[test]
    fn batches_and_dense_keys_change_no_hit() {
        for (name, make) in NAMED {
            for (lines, kind) in [(1, 0), (3, 1), (40, 2), (300, 1), (300, 3)] {
                let keys = traces::keys(kind, lines.into(), 20_000);
                let expected = one_by_one(*make, lines, &keys);
                let mut hashed = Simulator::new(make(lines), lines);
                hashed.run(&keys);
                let (ids, count) = dense(&keys);
                let mut by_number = Simulator::with(make(lines), lines, Dense::new(lines, count));
                by_number.run(&ids);
                let found = [hashed.tally(), by_number.tally()].map(|tally| (tally.requests, tally.request_misses));
                // Keys are what W-TinyLFU hashes, so other numbers are other counts.
                let alike = if *name == "w-tinylfu" { found[0] } else { found[1] };
                assert_eq!((found[0], alike), ((20_000, expected), (20_000, expected)), "{name} {lines} {kind}");
            }
        }
    }

    #[test]
    fn a_request_hits_if_all_its_lines_do() {
        let line = |key, is_last| LineUse { key, bytes: 10, is_last };
        let mut simulator = Simulator::new(Lru::new(4), 4);
        simulator.play(&[line(1, true), line(2, false), line(1, true), line(1, false), line(2, true)]);
        let expected = SimulatorTally { requests: 3, request_misses: 2, bytes: 50, byte_misses: 20, line_misses: 2 };
        assert_eq!(simulator.tally(), expected);
    }

    #[test]
    fn a_cache_without_lines_misses_all() {
        for (name, make) in NAMED {
            let mut simulator = Simulator::new(make(0), 0);
            simulator.run(&[1, 1, 1]);
            assert_eq!(simulator.tally().request_misses, 3, "{name}");
        }
    }
}
