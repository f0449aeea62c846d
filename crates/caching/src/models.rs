//! The policies once more, from their papers, with plain vectors of keys: what tests and the lab compare hits with.
//! Each use looks through all keys. The oldest key is always the first.

use std::collections::BTreeSet;

use crate::index::hash;
use crate::sketch::Sketch;

/// Keys that cannot leave.
pub type Held = BTreeSet<u64>;

/// A cache with its policy.
pub trait Model {
    /// Whether the key is there. If it is not, it comes in, unless all that would have to leave is held.
    fn reference(&mut self, key: u64, held: &Held) -> bool;

    /// A key leaves without a choice.
    fn remove(&mut self, key: u64);

    /// All keys that are there.
    fn keys(&self) -> Vec<u64>;
}

/// The model of the policy of a name, for a cache of so many lines.
///
/// # Panics
/// If there is no such policy.
pub fn of(name: &str, lines: u32) -> Box<dyn Model> {
    let lines = lines as usize;
    match name {
        "lru" => Box::new(Lru { lines, keys: Vec::new() }),
        "clock" => Box::new(Clock { ring: vec![None; lines], hand: 0 }),
        "2q" => Box::new(TwoQ { lines, a1in: Vec::new(), a1out: Vec::new(), am: Vec::new() }),
        "mq" => Box::new(Mq { lines, life: 4 * lines as u64, ..Mq::default() }),
        "arc" => Box::new(Arc { c: lines, ..Arc::default() }),
        "lirs" => Box::new(Lirs { lines, ..Lirs::default() }),
        "w-tinylfu" => Box::new(TinyLfu { lines, parts: Default::default(), sketch: Sketch::new(lines as u32) }),
        "s3-fifo" => Box::new(S3Fifo { lines, ..S3Fifo::default() }),
        "sieve" => Box::new(Sieve { lines, keys: Vec::new(), hand: 0 }),
        _ => panic!("{name} has no model"),
    }
}

/// Takes a key out of a list.
fn take(list: &mut Vec<u64>, key: u64) -> bool {
    let at = list.iter().position(|other| *other == key);
    at.is_some_and(|at| list.remove(at) == key)
}

/// Takes the oldest key that is not held.
fn leave(list: &mut Vec<u64>, held: &Held) -> Option<u64> {
    let at = list.iter().position(|key| !held.contains(key))?;
    Some(list.remove(at))
}

/// Adds a key to a list of bounded length.
fn remember(list: &mut Vec<u64>, key: u64, most: usize) {
    list.push(key);
    if list.len() > most {
        list.remove(0);
    }
}

struct Lru {
    lines: usize,
    keys: Vec<u64>,
}

impl Model for Lru {
    fn reference(&mut self, key: u64, held: &Held) -> bool {
        let hit = take(&mut self.keys, key);
        if hit || self.keys.len() < self.lines || leave(&mut self.keys, held).is_some() {
            self.keys.push(key);
        }
        hit
    }

    fn remove(&mut self, key: u64) {
        take(&mut self.keys, key);
    }

    fn keys(&self) -> Vec<u64> {
        self.keys.clone()
    }
}

/// CLOCK as its definition has it: a ring of keys with a bit, turned until the first key has no bit.
struct Clock {
    ring: Vec<Option<(u64, bool)>>,
    hand: usize,
}

impl Model for Clock {
    fn reference(&mut self, key: u64, held: &Held) -> bool {
        if let Some((_, used)) = self.ring.iter_mut().flatten().find(|(at, _)| *at == key) {
            *used = true;
            return true;
        }
        if let Some(free) = self.ring.iter_mut().find(|at| at.is_none()) {
            *free = Some((key, false));
            return false;
        }
        for _ in 0..2 * self.ring.len() {
            let at = self.hand;
            self.hand = (at + 1) % self.ring.len();
            match &mut self.ring[at] {
                Some((_, used)) if *used => *used = false,
                Some((old, _)) if held.contains(old) => {}
                place => {
                    *place = Some((key, false));
                    break;
                }
            }
        }
        false
    }

    fn remove(&mut self, key: u64) {
        self.ring.iter_mut().filter(|at| at.is_some_and(|(old, _)| old == key)).for_each(|at| *at = None);
    }

    fn keys(&self) -> Vec<u64> {
        self.ring.iter().flatten().map(|(key, _)| *key).collect()
    }
}

struct TwoQ {
    lines: usize,
    a1in: Vec<u64>,
    a1out: Vec<u64>,
    am: Vec<u64>,
}

impl TwoQ {
    fn reclaim(&mut self, held: &Held) -> bool {
        if self.a1in.len() + self.am.len() < self.lines {
            return true;
        }
        let over = self.a1in.len() > (self.lines / 4).max(1);
        if !over && leave(&mut self.am, held).is_some() {
            return true;
        }
        if let Some(old) = leave(&mut self.a1in, held) {
            remember(&mut self.a1out, old, (self.lines / 2).max(1));
            return true;
        }
        leave(&mut self.am, held).is_some()
    }
}

impl Model for TwoQ {
    fn reference(&mut self, key: u64, held: &Held) -> bool {
        if take(&mut self.am, key) {
            self.am.push(key);
            return true;
        }
        if self.a1in.contains(&key) {
            return true;
        }
        let was_out = take(&mut self.a1out, key);
        if self.reclaim(held) {
            if was_out { self.am.push(key) } else { self.a1in.push(key) }
        }
        false
    }

    fn remove(&mut self, key: u64) {
        take(&mut self.am, key);
        take(&mut self.a1in, key);
    }

    fn keys(&self) -> Vec<u64> {
        [&self.a1in[..], &self.am].concat()
    }
}

#[derive(Clone, Copy)]
struct Block {
    key: u64,
    f: u64,
    expire: u64,
}

#[derive(Default)]
struct Mq {
    lines: usize,
    life: u64,
    now: u64,
    q: [Vec<Block>; 8],
    out: Vec<(u64, u64)>,
}

impl Mq {
    fn find(&mut self, key: u64) -> Option<Block> {
        for queue in &mut self.q {
            if let Some(at) = queue.iter().position(|block| block.key == key) {
                return Some(queue.remove(at));
            }
        }
        None
    }

    fn evict(&mut self, held: &Held) -> bool {
        for queue in &mut self.q {
            if let Some(at) = queue.iter().position(|block| !held.contains(&block.key)) {
                let block = queue.remove(at);
                self.out.push((block.key, block.f));
                if self.out.len() > 2 * self.lines {
                    self.out.remove(0);
                }
                return true;
            }
        }
        false
    }
}

impl Model for Mq {
    fn reference(&mut self, key: u64, held: &Held) -> bool {
        self.now += 1;
        let found = self.find(key);
        let f = match found {
            Some(block) => block.f,
            None => {
                let saved = self.out.iter().position(|(old, _)| *old == key).map(|at| self.out.remove(at).1);
                if self.q.iter().map(Vec::len).sum::<usize>() == self.lines && !self.evict(held) {
                    return false;
                }
                saved.unwrap_or(0)
            }
        };
        let block = Block { key, f: f + 1, expire: self.now + self.life };
        self.q[((f + 1).ilog2() as usize).min(7)].push(block);
        for k in 1..8 {
            if self.q[k].first().is_some_and(|block| block.expire < self.now) {
                let block = self.q[k].remove(0);
                self.q[k - 1].push(Block { expire: self.now + self.life, ..block });
            }
        }
        found.is_some()
    }

    fn remove(&mut self, key: u64) {
        self.find(key);
    }

    fn keys(&self) -> Vec<u64> {
        self.q.iter().flatten().map(|block| block.key).collect()
    }
}

/// The four cases of figure 4.
#[derive(Default)]
struct Arc {
    c: usize,
    p: f64,
    t1: Vec<u64>,
    t2: Vec<u64>,
    b1: Vec<u64>,
    b2: Vec<u64>,
}

impl Arc {
    fn replace(&mut self, is_in_b2: bool, held: &Held) {
        let t1 = self.t1.len() as f64;
        let is_first = !self.t1.is_empty() && (t1 > self.p || is_in_b2 && t1 == self.p);
        for turn in [is_first, !is_first] {
            let (list, ghosts) = if turn { (&mut self.t1, &mut self.b1) } else { (&mut self.t2, &mut self.b2) };
            if let Some(key) = leave(list, held) {
                ghosts.push(key);
                return;
            }
        }
    }
}

impl Model for Arc {
    fn reference(&mut self, key: u64, held: &Held) -> bool {
        // Case I.
        if take(&mut self.t1, key) || take(&mut self.t2, key) {
            self.t2.push(key);
            return true;
        }
        let (b1, b2, c) = (self.b1.len() as f64, self.b2.len() as f64, self.c as f64);
        let is_full = self.t1.len() + self.t2.len() == self.c;
        let all_held = is_full && self.t1.iter().chain(&self.t2).all(|key| held.contains(key));
        // Cases II and III.
        let is_in_b1 = take(&mut self.b1, key);
        let is_in_b2 = take(&mut self.b2, key);
        if is_in_b1 || is_in_b2 {
            self.p = match is_in_b1 {
                true => c.min(self.p + if b1 >= b2 { 1.0 } else { b2 / b1 }),
                false => 0f64.max(self.p - if b2 >= b1 { 1.0 } else { b1 / b2 }),
            };
            if is_full && !all_held {
                self.replace(is_in_b2, held);
            }
            if !all_held {
                self.t2.push(key);
            }
            return false;
        }
        // Case IV.
        if all_held {
            return false;
        }
        let l1 = self.t1.len() + self.b1.len();
        if l1 == self.c && self.t1.len() == self.c {
            leave(&mut self.t1, held);
        } else {
            if l1 == self.c {
                self.b1.remove(0);
            } else if l1 + self.t2.len() + self.b2.len() == 2 * self.c {
                self.b2.remove(0);
            }
            if is_full {
                self.replace(false, held);
            }
        }
        self.t1.push(key);
        false
    }

    fn remove(&mut self, key: u64) {
        take(&mut self.t1, key);
        take(&mut self.t2, key);
    }

    fn keys(&self) -> Vec<u64> {
        [&self.t1[..], &self.t2].concat()
    }
}

#[derive(Default)]
struct Lirs {
    lines: usize,
    /// S: keys of all kinds.
    s: Vec<u64>,
    lir: Vec<u64>,
    /// Q: resident HIR.
    q: Vec<u64>,
    /// HIR of S that are not resident, by when they left.
    gone: Vec<u64>,
}

impl Lirs {
    fn lir_most(&self) -> usize {
        self.lines - (self.lines / 100).max(1)
    }

    fn prune(&mut self) {
        while self.s.first().is_some_and(|key| !self.lir.contains(key)) {
            let key = self.s.remove(0);
            take(&mut self.gone, key);
        }
    }

    fn promote(&mut self, key: u64) {
        self.lir.push(key);
        if self.lir.len() > self.lir_most() {
            self.prune();
            let bottom = self.s.remove(0);
            take(&mut self.lir, bottom);
            self.q.push(bottom);
        }
    }

    fn evict(&mut self, held: &Held) -> bool {
        if let Some(key) = leave(&mut self.q, held) {
            if self.s.contains(&key) {
                self.gone.push(key);
            }
            if self.gone.len() > 2 * self.lines {
                let forgotten = self.gone.remove(0);
                take(&mut self.s, forgotten);
            }
            return true;
        }
        let bottom = self.s.iter().find(|key| self.lir.contains(key) && !held.contains(key)).copied();
        bottom.inspect(|key| self.remove(*key)).is_some()
    }
}

impl Model for Lirs {
    fn reference(&mut self, key: u64, held: &Held) -> bool {
        let hit = self.lir.contains(&key) || self.q.contains(&key);
        let is_in_s = take(&mut self.s, key);
        let was_gone = take(&mut self.gone, key);
        if !hit && self.lir.len() + self.q.len() == self.lines && !self.evict(held) {
            return false;
        }
        self.s.push(key);
        if self.lir.contains(&key) {
        } else if hit && is_in_s {
            take(&mut self.q, key);
            self.promote(key);
        } else if !hit && (was_gone || self.lir.len() < self.lir_most()) {
            self.promote(key);
        } else {
            take(&mut self.q, key);
            self.q.push(key);
        }
        self.prune();
        hit
    }

    fn remove(&mut self, key: u64) {
        if take(&mut self.lir, key) | take(&mut self.q, key) {
            take(&mut self.s, key);
            self.prune();
        }
    }

    fn keys(&self) -> Vec<u64> {
        [&self.lir[..], &self.q].concat()
    }
}

/// The sketch has a test of its own.
struct TinyLfu {
    lines: usize,
    /// Window, probation, protected.
    parts: [Vec<u64>; 3],
    sketch: Sketch,
}

impl TinyLfu {
    fn evict(&mut self, held: &Held) -> bool {
        let [window, probation, protected] = &self.parts;
        let free = |list: &[u64]| list.iter().find(|key| !held.contains(key)).copied();
        let candidate = free(window);
        let victim = free(probation).or(free(protected));
        let frequency = |key: u64| self.sketch.count(hash(key) as u32);
        let loser = match (candidate, victim) {
            (Some(_), Some(victim)) if window.len() < (self.lines / 100).max(1) => Some(victim),
            (Some(candidate), Some(victim)) if frequency(candidate) > frequency(victim) => Some(victim),
            (candidate, victim) => candidate.or(victim),
        };
        loser.inspect(|key| self.remove(*key)).is_some()
    }
}

impl Model for TinyLfu {
    fn reference(&mut self, key: u64, held: &Held) -> bool {
        self.sketch.add(hash(key) as u32);
        let window_most = (self.lines / 100).max(1);
        if take(&mut self.parts[0], key) {
            self.parts[0].push(key);
            return true;
        }
        if take(&mut self.parts[1], key) || take(&mut self.parts[2], key) {
            self.parts[2].push(key);
            if self.parts[2].len() > (self.lines - window_most) * 4 / 5 {
                let demoted = self.parts[2].remove(0);
                self.parts[1].push(demoted);
            }
            return true;
        }
        if self.keys().len() == self.lines && !self.evict(held) {
            return false;
        }
        self.parts[0].push(key);
        if self.parts[0].len() > window_most {
            let candidate = self.parts[0].remove(0);
            self.parts[1].push(candidate);
        }
        false
    }

    fn remove(&mut self, key: u64) {
        self.parts.iter_mut().for_each(|part| part.retain(|old| *old != key));
    }

    fn keys(&self) -> Vec<u64> {
        self.parts.concat()
    }
}

#[derive(Default)]
struct S3Fifo {
    lines: usize,
    s: Vec<(u64, u8)>,
    m: Vec<(u64, u8)>,
    g: Vec<u64>,
    has_evicted: bool,
}

impl S3Fifo {
    fn small(&self) -> usize {
        (self.lines / 10).max(1)
    }

    fn evict_s(&mut self, held: &Held) -> bool {
        while let Some(at) = self.s.iter().position(|(key, _)| !held.contains(key)) {
            let (key, freq) = self.s.remove(at);
            if freq <= 1 {
                let most = self.lines - self.small();
                remember(&mut self.g, key, most);
                return true;
            }
            self.m.push((key, 0));
        }
        false
    }

    fn evict_m(&mut self, held: &Held) -> bool {
        while let Some(at) = self.m.iter().position(|(key, _)| !held.contains(key)) {
            let (key, freq) = self.m.remove(at);
            if freq == 0 {
                return true;
            }
            self.m.push((key, freq - 1));
        }
        false
    }
}

impl Model for S3Fifo {
    fn reference(&mut self, key: u64, held: &Held) -> bool {
        if let Some((_, freq)) = self.s.iter_mut().chain(&mut self.m).find(|(old, _)| *old == key) {
            *freq = (*freq + 1).min(3);
            return true;
        }
        let was_ghost = take(&mut self.g, key);
        if self.s.len() + self.m.len() == self.lines {
            self.has_evicted = true;
            let small_first = self.s.len() >= self.small() || self.m.is_empty();
            if !(small_first && self.evict_s(held) || self.evict_m(held) || self.evict_s(held)) {
                return false;
            }
        }
        let fills = !self.has_evicted && self.s.len() >= self.small();
        let queue = if was_ghost || fills { &mut self.m } else { &mut self.s };
        queue.push((key, 0));
        false
    }

    fn remove(&mut self, key: u64) {
        self.s.retain(|(old, _)| *old != key);
        self.m.retain(|(old, _)| *old != key);
    }

    fn keys(&self) -> Vec<u64> {
        self.s.iter().chain(&self.m).map(|(key, _)| *key).collect()
    }
}

struct Sieve {
    lines: usize,
    keys: Vec<(u64, bool)>,
    hand: usize,
}

impl Model for Sieve {
    fn reference(&mut self, key: u64, held: &Held) -> bool {
        if let Some((_, visited)) = self.keys.iter_mut().find(|(old, _)| *old == key) {
            *visited = true;
            return true;
        }
        if self.keys.len() == self.lines {
            let mut steps = 0;
            loop {
                if self.hand >= self.keys.len() {
                    self.hand = 0;
                }
                let (old, visited) = &mut self.keys[self.hand];
                if !*visited && !held.contains(old) {
                    self.keys.remove(self.hand);
                    // A hand behind the newest begins anew at the oldest, even if newer keys come first.
                    if self.hand == self.keys.len() {
                        self.hand = usize::MAX;
                    }
                    break;
                }
                *visited = false;
                self.hand += 1;
                steps += 1;
                if steps == 2 * self.lines {
                    self.hand = if self.hand == self.lines { usize::MAX } else { self.hand };
                    return false;
                }
            }
        }
        self.keys.push((key, false));
        false
    }

    fn remove(&mut self, key: u64) {
        let Some(at) = self.keys.iter().position(|(old, _)| *old == key) else { return };
        self.keys.remove(at);
        if at < self.hand && self.hand != usize::MAX {
            self.hand -= 1;
        }
        if self.hand == self.keys.len() {
            self.hand = usize::MAX;
        }
    }

    fn keys(&self) -> Vec<u64> {
        self.keys.iter().map(|(key, _)| *key).collect()
    }
}
