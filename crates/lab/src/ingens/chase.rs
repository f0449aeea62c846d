//! What an access costs that waits for the one before it, by where the memory's pages are: what huge pages can save
//! at most.

use std::hint::black_box;
use std::time::Instant;

use esker_base::Stream;
use esker_hugepage::PAGE_BYTES;

use crate::ingens::{Arm, FRESH, first_region};
use esker_lab_kit::{Lab, LabError, timing::median};

const PAGE: usize = PAGE_BYTES as usize;
/// A line of a CPU's cache: each page has one that is used, at a place of its own.
const LINE: usize = 64;
const STEPS: usize = 400_000;
const PAIRS: usize = 5;

/// Nanoseconds of an access to a random page of so many bytes that depends on the access before, in base pages and in
/// huge ones.
///
/// # Errors
/// [`LabError`], see [`Arm::hold`].
pub(crate) fn access_ns(bytes: usize, lab: &Lab<'_>) -> Result<(f64, f64), LabError> {
    let of = |arm: Arm| {
        let _held = arm.hold(lab)?;
        let mut memory = vec![0u8; FRESH.max(bytes + (2 << 20))];
        let first = first_region(&memory);
        let cells = &mut black_box(&mut memory)[first..first + bytes];
        Ok::<f64, LabError>(chase(cells, lab.seed))
    };
    let (mut base, mut huge) = (Vec::new(), Vec::new());
    for _ in 0..PAIRS {
        base.push(of(Arm::Base)?);
        huge.push(of(Arm::Greedy)?);
    }
    Ok((median(base), median(huge)))
}

/// Nanoseconds of a step through a circle, followed first once around, so that caches hold what they can, then timed.
fn chase(memory: &mut [u8], seed: u64) -> f64 {
    lay(memory, seed);
    let at = follow(memory, memory.len() / PAGE, 0);
    let begun = Instant::now();
    follow(memory, STEPS, at);
    begun.elapsed().as_secs_f64() * 1e9 / STEPS as f64
}

/// Writes one circle through all pages of memory.
pub(super) fn lay(memory: &mut [u8], seed: u64) {
    let place = |page: usize| page * PAGE + page % (PAGE / LINE) * LINE;
    for (page, next) in circle(memory.len() / PAGE, seed).into_iter().enumerate() {
        let at = place(page);
        memory[at..at + 8].copy_from_slice(&(place(next) as u64).to_ne_bytes());
    }
}

/// Takes so many steps of the circle. Returns where the last one leads.
pub(super) fn follow(memory: &[u8], steps: usize, from: usize) -> usize {
    black_box((0..steps).fold(from, |at, _| {
        let cell: [u8; 8] = memory[at..at + 8].try_into().expect("a cell has eight bytes");
        u64::from_ne_bytes(cell) as usize
    }))
}

/// The next page of each, in one circle through all (Sattolo's algorithm).
fn circle(pages: usize, seed: u64) -> Vec<usize> {
    let mut rng = Stream::named(seed, "ingens-chase");
    let mut next: Vec<usize> = (0..pages).collect();
    for at in (1..pages).rev() {
        next.swap(at, rng.below(at as u64) as usize);
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_circle_leads_through_all_pages() {
        let next = circle(1000, 1);
        let mut at = 0;
        let steps = (1..).find(|_| {
            at = next[at];
            at == 0
        });
        assert_eq!(steps, Some(1000));
        assert_ne!(next, circle(1000, 2));
    }
}
