use std::collections::BTreeSet;

use esker_base::Stream;
use proptest::prelude::*;

use super::*;

mod curves;
pub(crate) mod traces;

/// A cache by plain vectors: what a policy is driven by.
struct Cache {
    keys: Vec<Option<u64>>,
    held: BTreeSet<u64>,
    policy: Box<dyn Policy>,
}

struct Seen<'a>(&'a [Option<u64>], &'a BTreeSet<u64>);

impl Lines for Seen<'_> {
    fn key(&self, slot: Slot) -> u64 {
        self.0[slot as usize].expect("a line in the order has a key")
    }

    fn is_held(&self, slot: Slot) -> bool {
        self.1.contains(&self.key(slot))
    }
}

impl Cache {
    fn new(name: &str, lines: u32) -> Cache {
        let policy = by_name(name).expect("a policy of this name")(lines);
        Cache { keys: vec![None; lines as usize], held: BTreeSet::new(), policy }
    }

    fn slot_of(&self, key: u64) -> Option<Slot> {
        self.keys.iter().position(|at| *at == Some(key)).map(|at| at as Slot)
    }

    /// Uses a key, and answers whether it was there. A key that finds no room is not kept.
    fn reference(&mut self, key: u64) -> bool {
        if let Some(slot) = self.slot_of(key) {
            self.policy.hit(slot);
            return true;
        }
        let recall = self.policy.miss(key);
        let free = self.keys.iter().position(Option::is_none).map(|at| at as Slot);
        if let Some(slot) = free.or_else(|| self.evict(recall)) {
            self.keys[slot as usize] = Some(key);
            self.policy.insert(slot, key, recall);
        }
        false
    }

    fn evict(&mut self, recall: Recall) -> Option<Slot> {
        let seen = Seen(&self.keys, &self.held);
        let slot = self.policy.evict(recall, &seen)?;
        assert!(!seen.is_held(slot), "a held line stays");
        Some(slot)
    }

    fn remove(&mut self, key: u64) {
        self.held.remove(&key);
        if let Some(slot) = self.slot_of(key) {
            self.policy.remove(slot);
            self.keys[slot as usize] = None;
        }
    }

    /// Removes a key, or holds it, or lets it go: what happens to a real cache between uses.
    fn disturb(&mut self, rng: &mut Stream, removed: impl FnOnce(u64)) {
        let Some(key) = self.keys[rng.below(self.keys.len() as u64) as usize] else { return };
        match rng.below(4) {
            0 => {
                self.remove(key);
                removed(key);
            }
            1 => drop(self.held.insert(key)),
            _ => self.held.clear(),
        }
    }

    fn present(&self) -> BTreeSet<Slot> {
        (0..self.keys.len() as Slot).filter(|slot| self.keys[*slot as usize].is_some()).collect()
    }

    fn order(&self, most: usize) -> Vec<Slot> {
        let mut order = Vec::new();
        self.policy.order(&mut order, most);
        order
    }
}

/// Compares every hit of a policy with its model, and often all keys that are there.
fn check_hits(name: &str, lines: u32, kind: usize, is_disturbed: bool) {
    let (mut cache, mut model) = (Cache::new(name, lines), models::of(name, lines));
    let mut rng = Stream::named(lines.into(), "disturbed");
    for (at, key) in traces::keys(kind, lines.into(), 3_000 + 20 * u64::from(lines)).into_iter().enumerate() {
        let hit = model.reference(key, &cache.held);
        assert_eq!(cache.reference(key), hit, "{name}, {lines} lines, trace {kind}, reference {at} to {key}");
        if is_disturbed && rng.below(6) == 0 {
            cache.disturb(&mut rng, |key| model.remove(key));
        }
        if at % 8 == 0 || lines < 9 {
            let present = cache.keys.iter().flatten().copied().collect::<BTreeSet<_>>();
            assert_eq!(present, model.keys().into_iter().collect(), "{name}, {lines} lines, trace {kind}, after {at}");
        }
    }
}

fn check(name: &str) {
    for lines in (1..=8).chain([17, 64, 250]) {
        for kind in 0..traces::ALL.len() {
            check_hits(name, lines, kind, false);
            check_hits(name, lines, kind, true);
        }
    }
}

#[test]
fn lru_hits_where_its_model_does() {
    check("lru");
}

#[test]
fn clock_hits_where_its_model_does() {
    check("clock");
}

#[test]
fn two_q_hits_where_its_model_does() {
    check("2q");
}

#[test]
fn mq_hits_where_its_model_does() {
    check("mq");
}

#[test]
fn arc_hits_where_its_model_does() {
    check("arc");
}

#[test]
fn lirs_hits_where_its_model_does() {
    check("lirs");
}

#[test]
fn w_tinylfu_hits_where_its_model_does() {
    check("w-tinylfu");
}

#[test]
fn s3_fifo_hits_where_its_model_does() {
    check("s3-fifo");
}

#[test]
fn sieve_hits_where_its_model_does() {
    check("sieve");
}

#[test]
fn names_lead_to_policies() {
    assert!(NAMED.iter().all(|(name, _)| by_name(name).is_some()));
    assert!(by_name("lru-k").is_none());
}

#[test]
fn a_cache_without_lines_has_no_victim() {
    for (name, _) in NAMED {
        let mut cache = Cache::new(name, 0);
        assert!(!cache.reference(1) && !cache.reference(1) && cache.order(9).is_empty(), "{name}");
    }
}

proptest! {
    /// Of every policy: lines that are held stay, the order has each line once, and a removed line is in it no more.
    #[test]
    fn orders_hold_each_line_once(seed: u64, lines in 1..20u32, choice in 0..NAMED.len()) {
        let mut cache = Cache::new(NAMED[choice].0, lines);
        let mut rng = Stream::named(seed, "orders");
        for _ in 0..400 {
            cache.reference(rng.below(u64::from(lines) * 2));
            if rng.below(4) == 0 {
                cache.disturb(&mut rng, drop);
            }
            let order = cache.order(usize::MAX);
            prop_assert_eq!(order.len(), cache.present().len());
            prop_assert_eq!(order.iter().copied().collect::<BTreeSet<_>>(), cache.present());
            // The first of the order that is not held leaves next, and asking changes nothing.
            prop_assert_eq!(&cache.order(2)[..], &order[..order.len().min(2)]);
        }
    }

    /// The order is that in which lines leave if nothing is used any more.
    #[test]
    fn lines_leave_in_their_order(seed: u64, lines in 1..40u32, choice in 0..NAMED.len()) {
        let mut cache = Cache::new(NAMED[choice].0, lines);
        let mut rng = Stream::named(seed, "coldest");
        for _ in 0..400 {
            cache.reference(rng.below(1 + rng.clone().below(u64::from(lines) * 3)));
        }
        for slot in cache.order(usize::MAX) {
            prop_assert_eq!(cache.evict(Recall::default()), Some(slot));
            cache.keys[slot as usize] = None;
        }
        prop_assert_eq!(cache.evict(Recall::default()), None);
    }
}
