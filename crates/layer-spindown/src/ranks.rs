//! Which pages save most energy: values that halve with time, in buckets by their logarithm.
//!
//! The value of a page halves in each half-life, and grows with each access (3.3.4 of the reading of EXCES). All values
//! halve alike, so their order changes with accesses only. A page therefore has one number, the logarithm of its value
//! as it would be at the begin of time, and nothing decays. Buckets hold an eighth of a doubling each. Those that are
//! 64 doublings below the highest one share the lowest bucket.
//!
//! Each operation takes a constant time. Memory is bounded: the page with the lowest value and no copy is forgotten.

use esker_base::{Nanos, Time};
use esker_caching::Slot;
use esker_caching::index::{Index, hash};

/// Buckets of one doubling.
const STEPS: f32 = 8.0;
/// Buckets of a class.
const BUCKETS: u32 = 512;
const NONE: u32 = u32::MAX;
/// Share of the places of the index that are used when all pages are known.
const LOAD: f64 = 0.85;
/// The logarithm of the value of a page that was never used, below that of any access.
const UNUSED: f32 = -30.0;
/// Pages without a copy that are remembered for each slot, and at most.
const GHOSTS: u32 = 3;
const GHOSTS_MAX: u32 = 1 << 22;

/// What a page is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Class {
    /// It has no copy.
    Ghost,
    /// It has a copy, which may make room.
    Copy,
    /// It has a copy, which was found to be newer than home.
    Held,
}

const CLASSES: u32 = 3;

#[derive(Clone, Copy)]
struct Node {
    page: u32,
    /// The logarithm to the base of 2 of the value at the begin of time.
    log: f32,
    older: u32,
    newer: u32,
    slot: u32,
    class: Class,
}

/// The pages that are worth most. Values are in joules.
pub struct Ranks {
    half_life: Nanos,
    /// The ends of the rings of all classes and buckets, then pages.
    nodes: Vec<Node>,
    nodes_max: usize,
    unused: Vec<u32>,
    index: Index,
    by_slot: Vec<u32>,
    /// The highest bucket that had a page, counted without end.
    top: i64,
}

impl Ranks {
    /// For so many slots.
    pub fn new(half_life: Nanos, slots: u32) -> Ranks {
        let pages = slots + slots.saturating_mul(GHOSTS).clamp(1, GHOSTS_MAX);
        let ends = CLASSES * BUCKETS;
        let end = |at| Node { page: NONE, log: 0.0, older: at, newer: at, slot: NONE, class: Class::Ghost };
        Ranks {
            half_life,
            nodes: (0..ends).map(end).collect(),
            nodes_max: (ends + pages) as usize,
            unused: Vec::new(),
            index: Index::new(ends + pages, LOAD),
            by_slot: vec![NONE; slots as usize],
            top: i64::MIN,
        }
    }

    /// Half-lives from the begin of time to `at`.
    fn age(&self, at: Time) -> f64 {
        at.since(Time::ZERO).as_secs_f64() / self.half_life.as_secs_f64()
    }

    /// A page was accessed, which was worth so many joules, above zero.
    pub fn note(&mut self, page: u64, joules: f64, at: Time) {
        let log = (joules.log2() + self.age(at)) as f32;
        let node = match self.find(page) {
            Some(node) => node,
            None => return self.insert(page, log),
        };
        let old = self.nodes[node as usize].log;
        let (high, low) = (old.max(log), old.min(log));
        self.unlink(node);
        self.nodes[node as usize].log = high + (1.0 + (low - high).exp2()).log2();
        self.link(node);
    }

    /// The same for the page with its copy in a slot.
    pub fn note_slot(&mut self, slot: Slot, joules: f64, at: Time) {
        let node = self.by_slot[slot as usize];
        if node != NONE {
            self.note(u64::from(self.nodes[node as usize].page), joules, at);
        }
    }

    /// A page has its copy in a slot.
    pub fn placed(&mut self, page: u64, slot: Slot, at: Time) {
        if self.find(page).is_none() {
            let log = UNUSED + self.age(at) as f32;
            self.insert(page, log);
        }
        let node = self.find(page).expect("it was put there");
        self.by_slot[slot as usize] = node;
        self.nodes[node as usize].slot = slot;
        self.change(node, Class::Copy);
    }

    /// The copy in a slot is gone.
    pub fn removed(&mut self, slot: Slot) {
        let node = std::mem::replace(&mut self.by_slot[slot as usize], NONE);
        if node != NONE {
            self.nodes[node as usize].slot = NONE;
            self.change(node, Class::Ghost);
        }
    }

    /// The copy in a slot may be given up again.
    pub fn released(&mut self, slot: Slot) {
        let node = self.by_slot[slot as usize];
        if node != NONE && self.nodes[node as usize].class == Class::Held {
            self.change(node, Class::Copy);
        }
    }

    /// The copy that is worth least, of those that are not held. It is gone then.
    pub fn victim(&mut self, is_held: impl Fn(Slot) -> bool) -> Option<Slot> {
        loop {
            let node = self.ascending(Class::Copy).next()?;
            let slot = self.nodes[node as usize].slot;
            if !is_held(slot) {
                self.removed(slot);
                return Some(slot);
            }
            self.change(node, Class::Held);
        }
    }

    /// Pages without a copy that are worth more than so many joules at `at`, the best first, with the logarithms of
    /// their values.
    pub fn wanted(&self, joules: f64, at: Time) -> impl Iterator<Item = (u64, f32)> + '_ {
        let least = (joules.log2() + self.age(at)) as f32;
        let pages = self.descending(Class::Ghost).map(|node| &self.nodes[node as usize]);
        pages.take_while(move |node| bucket(node.log) >= bucket(least)).map(|node| (u64::from(node.page), node.log))
    }

    /// Copies that may make room, those first that are worth least, with the logarithms of the values of their pages.
    pub fn copies(&self) -> impl Iterator<Item = (Slot, f32)> + '_ {
        self.ascending(Class::Copy).map(|node| (self.nodes[node as usize].slot, self.nodes[node as usize].log))
    }

    /// All copies, those first that are worth least.
    pub fn coldest(&self) -> impl Iterator<Item = Slot> + '_ {
        let both =
            |bucket| self.ring(Ranks::end(Class::Copy, bucket)).chain(self.ring(Ranks::end(Class::Held, bucket)));
        (self.bottom()..=self.top).flat_map(both).map(|node| self.nodes[node as usize].slot)
    }

    /// Joules that a page is worth; 0 if it is not known.
    pub fn joules(&self, page: u64, at: Time) -> f64 {
        self.find(page).map_or(0.0, |node| (f64::from(self.nodes[node as usize].log) - self.age(at)).exp2())
    }

    /// Pages that are known.
    pub fn pages(&self) -> usize {
        self.nodes.len() - (CLASSES * BUCKETS) as usize - self.unused.len()
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.nodes.len() * size_of::<Node>() + self.by_slot.len() * size_of::<u32>() + self.index.bytes()
    }

    fn find(&self, page: u64) -> Option<u32> {
        self.index.find(hash(page), |node| u64::from(self.nodes[node as usize].page) == page)
    }

    fn insert(&mut self, page: u64, log: f32) {
        if self.unused.is_empty() && self.nodes.len() == self.nodes_max {
            self.forget();
        }
        let page = u32::try_from(page).expect("the map has fewer pages");
        let fresh = Node { page, log, older: NONE, newer: NONE, slot: NONE, class: Class::Ghost };
        let node = match self.unused.pop() {
            Some(node) => {
                self.nodes[node as usize] = fresh;
                node
            }
            None => {
                self.nodes.push(fresh);
                (self.nodes.len() - 1) as u32
            }
        };
        self.index.insert(hash(u64::from(page)), node);
        self.link(node);
    }

    /// Forgets the page without a copy that is worth least: there are more pages than slots.
    fn forget(&mut self) {
        let node = self.ascending(Class::Ghost).next().expect("there are more pages than slots");
        self.unlink(node);
        self.index.remove(hash(u64::from(self.nodes[node as usize].page)), node);
        self.unused.push(node);
    }

    fn change(&mut self, node: u32, class: Class) {
        self.unlink(node);
        self.nodes[node as usize].class = class;
        self.link(node);
    }

    /// The lowest bucket that has a ring of its own.
    fn bottom(&self) -> i64 {
        self.top.saturating_sub(i64::from(BUCKETS) - 1)
    }

    /// The end of the ring of a bucket.
    fn end(class: Class, bucket: i64) -> u32 {
        class as u32 * BUCKETS + bucket.rem_euclid(i64::from(BUCKETS)) as u32
    }

    /// Nodes of a class, those of the highest bucket first.
    fn descending(&self, class: Class) -> impl Iterator<Item = u32> + '_ {
        (self.bottom()..=self.top).rev().flat_map(move |bucket| self.ring(Ranks::end(class, bucket)))
    }

    /// Nodes of a class, those of the lowest bucket first.
    fn ascending(&self, class: Class) -> impl Iterator<Item = u32> + '_ {
        (self.bottom()..=self.top).flat_map(move |bucket| self.ring(Ranks::end(class, bucket)))
    }

    /// The nodes of a ring, the oldest first.
    fn ring(&self, end: u32) -> impl Iterator<Item = u32> + '_ {
        let behind = move |node: &u32| Some(self.nodes[*node as usize].newer).filter(|node| *node != end);
        std::iter::successors(behind(&end), behind)
    }

    fn unlink(&mut self, node: u32) {
        let Node { older, newer, .. } = self.nodes[node as usize];
        self.nodes[older as usize].newer = newer;
        self.nodes[newer as usize].older = older;
    }

    fn link(&mut self, node: u32) {
        let Node { log, class, .. } = self.nodes[node as usize];
        let bucket = bucket(log);
        self.rise(bucket);
        let end = Ranks::end(class, bucket.max(self.bottom()));
        let newest = self.nodes[end as usize].older;
        self.nodes[node as usize].older = newest;
        self.nodes[node as usize].newer = end;
        self.nodes[newest as usize].newer = node;
        self.nodes[end as usize].older = node;
    }

    /// Makes room for a higher bucket: its ring is that of the lowest one, whose pages join the next.
    fn rise(&mut self, bucket: i64) {
        if self.top == i64::MIN {
            self.top = bucket;
        }
        for _ in 0..(bucket - self.top).min(i64::from(BUCKETS)) {
            self.merge(self.bottom(), self.bottom() + 1);
            self.top += 1;
        }
        if self.top < bucket {
            // Behind so many steps all pages are in the lowest bucket.
            let bottom = self.bottom();
            self.top = bucket;
            self.merge(bottom, self.bottom());
        }
    }

    /// Puts the pages of one bucket into another one, in all classes.
    fn merge(&mut self, from: i64, to: i64) {
        for class in [Class::Ghost, Class::Copy, Class::Held] {
            if Ranks::end(class, from) != Ranks::end(class, to) {
                self.join(Ranks::end(class, from), Ranks::end(class, to));
            }
        }
    }

    /// Puts the nodes of a ring before those of another one.
    fn join(&mut self, from: u32, to: u32) {
        let Node { older: newest, newer: oldest, .. } = self.nodes[from as usize];
        if oldest == from {
            return;
        }
        let first = self.nodes[to as usize].newer;
        self.nodes[to as usize].newer = oldest;
        self.nodes[oldest as usize].older = to;
        self.nodes[newest as usize].newer = first;
        self.nodes[first as usize].older = newest;
        self.nodes[from as usize].older = from;
        self.nodes[from as usize].newer = from;
    }
}

fn bucket(log: f32) -> i64 {
    (log * STEPS).floor() as i64
}
