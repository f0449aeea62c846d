use std::collections::BTreeSet;

use esker_base::Stream;
use proptest::prelude::*;

use super::*;

/// A cache by plain vectors: what a policy is driven by, and compared with.
struct Cache {
    keys: Vec<Option<u64>>,
    held: BTreeSet<Slot>,
}

impl Lines for Cache {
    fn key(&self, slot: Slot) -> u64 {
        self.keys[slot as usize].expect("a line in the order has a key")
    }

    fn is_held(&self, slot: Slot) -> bool {
        self.held.contains(&slot)
    }
}

impl Cache {
    fn new(lines: u32) -> Cache {
        Cache { keys: vec![None; lines as usize], held: BTreeSet::new() }
    }

    fn slot_of(&self, key: u64) -> Option<Slot> {
        self.keys.iter().position(|at| *at == Some(key)).map(|at| at as Slot)
    }

    /// Uses a key, and answers whether it was there. A key that finds no room is not kept.
    fn reference(&mut self, policy: &mut dyn Policy, key: u64) -> bool {
        if let Some(slot) = self.slot_of(key) {
            policy.hit(slot);
            return true;
        }
        let recall = policy.miss(key);
        let free = self.keys.iter().position(Option::is_none).map(|at| at as Slot);
        let evicted = || policy.evict(recall, self).inspect(|slot| assert!(!self.is_held(*slot), "it does not leave"));
        if let Some(slot) = free.or_else(evicted) {
            self.keys[slot as usize] = Some(key);
            policy.insert(slot, key, recall);
        }
        false
    }
}

/// CLOCK as its definition has it: a ring of keys with a bit, turned until the first key has no bit.
#[derive(Default)]
struct Ring(Vec<Option<(u64, bool)>>, usize);

impl Ring {
    fn reference(&mut self, key: u64) -> bool {
        if let Some((_, used)) = self.0.iter_mut().flatten().find(|(at, _)| *at == key) {
            *used = true;
            return true;
        }
        if let Some(free) = self.0.iter_mut().find(|at| at.is_none()) {
            *free = Some((key, false));
            return false;
        }
        loop {
            let at = self.1;
            self.1 = (at + 1) % self.0.len();
            match &mut self.0[at] {
                Some((_, used)) if *used => *used = false,
                place => {
                    *place = Some((key, false));
                    return false;
                }
            }
        }
    }
}

#[test]
fn clock_hits_where_its_definition_does() {
    for lines in [1, 2, 3, 7, 64] {
        let (mut cache, mut policy) = (Cache::new(lines), Clock::new(lines));
        let mut ring = Ring(vec![None; lines as usize], 0);
        let mut rng = Stream::named(u64::from(lines), "clock");
        for at in 0..20_000 {
            let most = rng.below(u64::from(lines) * 3);
            let key = rng.below(1 + most);
            assert_eq!(cache.reference(&mut policy, key), ring.reference(key), "{lines} lines, reference {at}");
        }
    }
}

#[test]
fn names_lead_to_policies() {
    assert!(NAMED.iter().all(|(name, _)| by_name(name).is_some()));
    assert!(by_name("lru-k").is_none());
}

proptest! {
    /// Of every policy: lines that are held stay, the order has each line once, and a removed line is in it no more.
    #[test]
    fn orders_hold_each_line_once(seed: u64, lines in 1..20u32, choice in 0..NAMED.len()) {
        let (mut cache, mut policy) = (Cache::new(lines), NAMED[choice].1(lines));
        let mut rng = Stream::named(seed, "orders");
        for _ in 0..400 {
            match rng.below(8) {
                0 => {
                    let slot = rng.below(lines.into()) as Slot;
                    if !cache.held.remove(&slot) {
                        cache.held.insert(slot);
                    }
                }
                1 => {
                    let slot = rng.below(lines.into()) as Slot;
                    policy.remove(slot);
                    cache.keys[slot as usize] = None;
                }
                _ => {
                    cache.reference(&mut *policy, rng.below(u64::from(lines) * 2));
                }
            }
            let mut order = Vec::new();
            policy.order(&mut order, usize::MAX);
            let present = (0..lines).filter(|slot| cache.keys[*slot as usize].is_some()).collect::<BTreeSet<_>>();
            prop_assert_eq!(order.len(), present.len());
            prop_assert_eq!(order.iter().copied().collect::<BTreeSet<_>>(), present);
            // The first of the order that is not held leaves next, and asking changes nothing.
            let mut fewer = Vec::new();
            policy.order(&mut fewer, 2);
            prop_assert_eq!(&fewer[..], &order[..order.len().min(2)]);
        }
    }

    /// The order tells the next victim.
    #[test]
    fn the_coldest_line_leaves_next(seed: u64, lines in 1..20u32, choice in 0..NAMED.len()) {
        let (mut cache, mut policy) = (Cache::new(lines), NAMED[choice].1(lines));
        let mut rng = Stream::named(seed, "coldest");
        for _ in 0..200 {
            cache.reference(&mut *policy, rng.below(u64::from(lines) * 2));
        }
        let mut order = Vec::new();
        policy.order(&mut order, 1);
        if cache.keys.iter().all(Option::is_some) {
            prop_assert_eq!(policy.evict(Recall::default(), &cache), order.first().copied());
        }
    }
}
