//! Loads with much memory and little order, each a fixed sequence of work: equal work under every arm, with equal
//! results.

use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::ingens::FRESH;

/// Fresh memory of a busy process lives so long.
const LIFE: Duration = Duration::from_millis(500);

/// A load whose memory is there.
pub(crate) trait Work {
    /// Does so much more: accesses, edges or requests.
    fn work(&mut self, count: u64);

    /// A digest of all that was done.
    fn digest(&self) -> u64;
}

/// A load.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    /// Name, as in ids of figures.
    pub name: &'static str,
    /// Takes about so many bytes and writes them all.
    pub begin: fn(bytes: usize, seed: u64) -> Box<dyn Work>,
}

/// All.
pub(crate) const ALL: [Load; 3] = [
    Load { name: "array", begin: |bytes, seed| Box::new(Array::new(bytes, seed)) },
    Load { name: "graph", begin: |bytes, seed| Box::new(Graph::new(bytes, seed)) },
    Load { name: "requests", begin: |bytes, seed| Box::new(Requests::new(bytes, seed)) },
];

/// Bytes that [`be_busy`] takes in a time, in base pages and then in huge ones. What it gives back is not what it takes
/// next: the kernel keeps blocks that have grown together for last.
pub(crate) fn turnover(time: Duration) -> u64 {
    2 * FRESH as u64 * time.div_duration_f64(LIFE).ceil() as u64
}

/// Works for a while, and takes and gives back fresh memory twice a second.
pub(crate) fn be_busy(work: &mut dyn Work, time: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < time {
        let fresh = black_box(vec![1u8; FRESH]);
        let until = (begun.elapsed() + LIFE).min(time);
        // Also if taking the memory took all the time.
        work.work(10_000);
        while begun.elapsed() < until {
            work.work(10_000);
        }
        drop(fresh);
    }
}

/// Knuth's linear congruence: what decides where to go next must cost less than going there.
pub(crate) struct Next(u64);

impl From<u64> for Next {
    fn from(seed: u64) -> Next {
        Next(seed)
    }
}

impl Next {
    /// One of the numbers below.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((u128::from(self.0) * bound as u128) >> 64) as usize
    }
}

/// Random updates of an array, as HPCC's RandomAccess has them.
struct Array {
    cells: Vec<u64>,
    next: Next,
    digest: u64,
}

impl Array {
    fn new(bytes: usize, seed: u64) -> Array {
        Array { cells: (0..bytes as u64 / 8).collect(), next: Next::from(seed), digest: 0 }
    }
}

impl Work for Array {
    fn work(&mut self, count: u64) {
        for _ in 0..count {
            let at = self.next.below(self.cells.len());
            let cell = &mut self.cells[at];
            *cell = cell.rotate_left(1) ^ self.next.0;
            self.digest = self.digest.wrapping_add(*cell);
        }
    }

    fn digest(&self) -> u64 {
        self.digest
    }
}

const EDGES: usize = 16;

/// PageRank over random edges, 16 from each vertex; counted in edges.
struct Graph {
    edges: Vec<u32>,
    ranks: Vec<f32>,
    ranks_new: Vec<f32>,
    at: usize,
}

impl Graph {
    fn new(bytes: usize, seed: u64) -> Graph {
        let vertices = bytes / (EDGES * size_of::<u32>() + 2 * size_of::<f32>());
        let mut next = Next::from(seed);
        Graph {
            edges: (0..vertices * EDGES).map(|_| next.below(vertices) as u32).collect(),
            ranks: (0..vertices).map(|_| next.below(1000) as f32).collect(),
            ranks_new: vec![1.0; vertices],
            at: 0,
        }
    }
}

impl Work for Graph {
    fn work(&mut self, count: u64) {
        for _ in 0..count.div_ceil(EDGES as u64) {
            let edges = &self.edges[self.at * EDGES..(self.at + 1) * EDGES];
            let sum: f32 = edges.iter().map(|from| self.ranks[*from as usize]).sum();
            self.ranks_new[self.at] = 0.15 + 0.85 * sum / EDGES as f32;
            self.at += 1;
            if self.at == self.ranks.len() {
                self.at = 0;
                std::mem::swap(&mut self.ranks, &mut self.ranks_new);
            }
        }
    }

    fn digest(&self) -> u64 {
        let ranks = self.ranks.iter().chain(&self.ranks_new);
        ranks.fold(0, |digest: u64, rank| digest.rotate_left(1) ^ u64::from(rank.to_bits()))
    }
}

const VALUE: usize = 512;
const ANSWER: usize = 256;

/// A server's requests: a key is looked up in a table, its value answered in part, and every tenth value written anew.
struct Requests {
    table: Vec<u32>,
    values: Vec<u8>,
    answer: [u8; ANSWER],
    next: Next,
    served: u64,
    digest: u64,
}

impl Requests {
    fn new(bytes: usize, seed: u64) -> Requests {
        let keys = bytes / (VALUE + size_of::<u32>());
        let mut table: Vec<u32> = (0..keys as u32).collect();
        let mut next = Next::from(seed);
        (1..keys).for_each(|key| table.swap(key, next.below(key + 1)));
        let values = (0..keys * VALUE).map(|at| (at / VALUE) as u8).collect();
        Requests { table, values, answer: [0; ANSWER], next, served: 0, digest: 0 }
    }
}

impl Work for Requests {
    fn work(&mut self, count: u64) {
        for _ in 0..count {
            let at = self.table[self.next.below(self.table.len())] as usize * VALUE;
            let value = &mut self.values[at..at + VALUE];
            if self.served.is_multiple_of(10) {
                value.fill(self.served as u8);
            }
            self.answer.copy_from_slice(&value[..ANSWER]);
            self.served += 1;
            self.digest = self.digest.rotate_left(1) ^ u64::from(black_box(&self.answer)[ANSWER - 1]);
        }
    }

    fn digest(&self) -> u64 {
        self.digest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_does_the_same_again_and_something_else_with_another_seed() {
        let digest = |load: &Load, seed, parts: &[u64]| {
            let mut work = (load.begin)(1 << 20, seed);
            parts.iter().for_each(|count| work.work(*count));
            work.digest()
        };
        for load in &ALL {
            let whole = digest(load, 1, &[200_000]);
            assert_eq!(whole, digest(load, 1, &[80_000, 120_000]), "{}: parts make a whole", load.name);
            assert_ne!(whole, digest(load, 2, &[200_000]), "{}", load.name);
            assert_ne!(whole, digest(load, 1, &[100_000]), "{}", load.name);
        }
    }

    #[test]
    fn a_busy_process_works_until_its_time_is_over() {
        let mut work = (ALL[0].begin)(1 << 20, 1);
        let (before, begun) = (work.digest(), Instant::now());
        be_busy(work.as_mut(), Duration::from_millis(50));
        assert!(work.digest() != before && begun.elapsed() >= Duration::from_millis(50));
    }
}
