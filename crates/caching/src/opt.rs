//! OPT: the line whose next use is farthest away leaves (Belady, IBM Systems Journal 1966). It knows the future, so
//! it is no policy, but the bound of all.

use std::collections::BTreeSet;

use crate::ids::Ids;

/// The fewest misses with which a cache of `capacity` lines, into which every key comes that misses, serves `keys`.
pub fn misses(keys: &[u64], capacity: usize) -> u64 {
    let nexts = next_uses(keys);
    // Next uses are all different, so they stand for the lines.
    let mut lines = BTreeSet::new();
    let mut misses = 0;
    for (at, next) in nexts.into_iter().enumerate() {
        if !lines.remove(&at) {
            misses += 1;
            if lines.len() >= capacity {
                lines.pop_last();
            }
        }
        if capacity > 0 {
            lines.insert(next);
        }
    }
    misses
}

/// Where each key is used next. If it is not, that is a place of its own behind the end.
fn next_uses(keys: &[u64]) -> Vec<usize> {
    let mut ids = Ids::new();
    let mut nexts: Vec<usize> = keys.iter().map(|key| ids.of(*key).0 as usize).collect();
    let mut uses = vec![None; ids.bound() as usize];
    for (at, next) in nexts.iter_mut().enumerate().rev() {
        let later = uses[*next].replace(at);
        *next = later.unwrap_or(keys.len() + at);
    }
    nexts
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::simulator::Simulator;
    use crate::tests::traces;
    use crate::{NAMED, Policy};

    /// The fewest misses over all choices of victims: a line for every set of keys that a cache may hold.
    fn fewest(keys: &[u64], capacity: usize) -> u64 {
        let mut caches = BTreeMap::from([(BTreeSet::new(), 0)]);
        for key in keys {
            let mut after: BTreeMap<BTreeSet<u64>, u64> = BTreeMap::new();
            let mut offer = |cache, misses| {
                let least = after.entry(cache).or_insert(misses);
                *least = misses.min(*least);
            };
            for (cache, misses) in caches {
                let with = |mut cache: BTreeSet<u64>| {
                    cache.insert(*key);
                    cache
                };
                if cache.contains(key) {
                    offer(cache, misses);
                } else if cache.len() < capacity {
                    offer(with(cache), misses + 1);
                } else {
                    for victim in &cache {
                        let rest = cache.iter().copied().filter(|other| other != victim);
                        offer(with(rest.collect()), misses + 1);
                    }
                }
            }
            caches = after;
        }
        caches.into_values().min().expect("a cache")
    }

    #[test]
    fn no_choice_of_victims_has_fewer_misses() {
        for capacity in 1..=4 {
            for kind in 0..traces::ALL.len() {
                let keys = traces::keys(kind, capacity, 60);
                assert_eq!(misses(&keys, capacity as usize), fewest(&keys, capacity as usize), "{capacity} {kind}");
            }
        }
    }

    #[test]
    fn no_policy_has_fewer_misses() {
        for (name, make) in NAMED {
            for kind in 0..traces::ALL.len() {
                let keys = traces::keys(kind, 50, 5_000);
                let mut simulator = Simulator::<Box<dyn Policy>>::new(make(50), 50);
                simulator.run(&keys);
                assert!(simulator.tally().request_misses >= misses(&keys, 50), "{name} {kind}");
            }
        }
    }

    #[test]
    fn a_cache_without_lines_misses_all() {
        assert_eq!(misses(&[1, 1, 1], 0), 3);
        assert_eq!(misses(&[], 3), 0);
    }
}
