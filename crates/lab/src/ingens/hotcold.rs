//! A program with hot and cold, dense and sparse memory: this program, executed again ([`WORD`]).
//!
//! Of sparse regions every second page is used, of dense ones all are. Hot memory is read and written at random all the
//! time, cold memory never again. The program often takes a little memory and gives it back, so that no translation
//! stays in a CPU for long. An emulated CPU keeps translations of much more memory than real ones do, and a use through
//! a kept one sets no access bit.

use std::hint::black_box;
use std::sync::mpsc::{self, TryRecvError};
use std::thread;

use super::loads::Next;
use super::own::{Own, lines, say};
use super::{FRESH, first_region};
use esker_hugepage::{PAGE_BYTES, REGION_BYTES};
use esker_lab_kit::LabError;

/// Word by which this program is asked to be that.
pub(super) const WORD: &str = "--esker-lab-hot-cold";
const PAGE: usize = PAGE_BYTES as usize;
const REGION: usize = REGION_BYTES as usize;
/// Accesses until memory is taken and given back: about a millisecond.
const BATCH: usize = 2048;
/// Pages of that memory: more than a kernel drops translations of one by one.
const TAKEN: usize = 40;

/// Regions of each kind, in the order of their addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Used all the time.
    pub hot: usize,
    /// Used once.
    pub cold: usize,
    /// Every second page is used all the time.
    pub hot_sparse: usize,
    /// Every second page is used once.
    pub cold_sparse: usize,
}

impl Layout {
    fn regions(self) -> usize {
        self.hot + self.cold + self.hot_sparse + self.cold_sparse
    }

    /// Bytes of all pages that are used.
    pub(crate) fn used(self) -> u64 {
        ((2 * (self.hot + self.cold) + self.hot_sparse + self.cold_sparse) * REGION / 2) as u64
    }

    /// First and last region, and whether it is sparse, of each kind: hot, cold, hot and sparse, cold and sparse.
    fn kinds(self) -> [(std::ops::Range<usize>, bool); 4] {
        let mut end = 0;
        [(self.hot, false), (self.cold, false), (self.hot_sparse, true), (self.cold_sparse, true)].map(
            |(count, sparse)| {
                let start = end;
                end += count;
                (start..end, sparse)
            },
        )
    }
}

/// One that runs.
pub(crate) struct HotCold {
    own: Own,
    layout: Layout,
    /// Address of its first region.
    at: u64,
}

impl HotCold {
    /// Starts one, which has no memory yet.
    ///
    /// # Errors
    /// If this program cannot be executed again.
    pub(crate) fn start(layout: Layout) -> Result<HotCold, LabError> {
        let counts = [layout.hot, layout.cold, layout.hot_sparse, layout.cold_sparse].map(|count| count.to_string());
        let mut own = Own::start("the program", |command| command.arg(WORD).args(counts))?;
        let [at] = own.ask("where")?;
        Ok(HotCold { own, layout, at: at as u64 })
    }

    /// Its number.
    pub(crate) fn pid(&self) -> u32 {
        self.own.pid()
    }

    /// Has it use all its memory once, and then the hot part until this is dropped.
    ///
    /// # Errors
    /// If it has ended.
    pub(crate) fn begin_fill(&mut self) -> Result<(), LabError> {
        self.own.tell("fill")
    }

    /// Waits until all its memory was used once.
    ///
    /// # Errors
    /// If it has ended.
    pub(crate) fn wait_filled(&mut self) -> Result<(), LabError> {
        self.own.hear::<1>().map(drop)
    }

    /// First address and that after the last of each kind: hot, cold, hot and sparse, cold and sparse.
    pub(crate) fn areas(&self) -> [(u64, u64); 4] {
        let address = |region: usize| self.at + region as u64 * REGION_BYTES;
        self.layout.kinds().map(|(regions, _)| (address(regions.start), address(regions.end)))
    }
}

/// Runs as one, if there are the numbers of a layout.
pub(super) fn pass(numbers: &[usize]) -> bool {
    let &[hot, cold, hot_sparse, cold_sparse] = numbers else { return false };
    serve(Layout { hot, cold, hot_sparse, cold_sparse });
    true
}

fn serve(layout: Layout) {
    let bytes = layout.regions() * REGION;
    let mut memory = vec![0u8; FRESH.max(bytes + REGION)];
    let first = first_region(&memory);
    let memory = &mut memory[first..first + bytes];
    let mut lines = lines();
    if lines.next().as_deref() != Some("where") {
        return;
    }
    // Exact: addresses have 47 bits.
    say(&[memory.as_ptr() as usize as f64]);
    if lines.next().as_deref() != Some("fill") {
        return;
    }
    pages(layout, |_| true).into_iter().for_each(|page| memory[page * PAGE] = 1);
    say(&[0.0]);
    let (ended, is_ended) = mpsc::channel::<()>();
    thread::spawn(move || {
        lines.for_each(drop);
        drop(ended);
    });
    work(memory, &pages(layout, |kind| kind % 2 == 0), || is_ended.try_recv() != Err(TryRecvError::Disconnected));
}

/// Pages of the kinds for which `wanted` holds, by their numbers from 0 for hot memory.
fn pages(layout: Layout, wanted: impl Fn(usize) -> bool) -> Vec<usize> {
    let of_kind = |(regions, sparse): (std::ops::Range<usize>, bool)| {
        let all = regions.start * REGION / PAGE..regions.end * REGION / PAGE;
        all.step_by(if sparse { 2 } else { 1 })
    };
    let kinds = layout.kinds().into_iter().enumerate().filter(|(kind, _)| wanted(*kind));
    kinds.flat_map(|(_, kind)| of_kind(kind)).collect()
}

/// Uses pages at random as long as `goes_on`.
fn work(memory: &mut [u8], pages: &[usize], goes_on: impl Fn() -> bool) {
    let mut next = Next::from(1);
    while goes_on() {
        for _ in 0..BATCH {
            let at = pages[next.below(pages.len())] * PAGE + next.below(PAGE);
            memory[at] = memory[at].wrapping_add(1);
        }
        let mut taken = black_box(vec![0u8; FRESH]);
        (0..TAKEN).for_each(|page| taken[page * PAGE] = 1);
        drop(black_box(taken));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: Layout = Layout { hot: 1, cold: 2, hot_sparse: 1, cold_sparse: 1 };

    #[test]
    fn pages_are_those_of_their_kind_and_every_second_one_of_sparse_regions() {
        let all = pages(LAYOUT, |_| true);
        assert_eq!(all.len() as u64 * PAGE_BYTES, LAYOUT.used());
        let hot = pages(LAYOUT, |kind| kind % 2 == 0);
        assert_eq!(hot.len(), 512 + 256);
        assert!(hot.iter().all(|page| *page < 512 || (3 * 512..4 * 512).contains(page) && page % 2 == 0));
    }

    #[test]
    fn work_leaves_cold_memory_and_the_gaps_of_sparse_memory_alone() {
        let mut memory = vec![0u8; LAYOUT.regions() * REGION];
        let rounds = std::cell::Cell::new(0);
        let hot = pages(LAYOUT, |kind| kind % 2 == 0);
        work(&mut memory, &hot, || rounds.replace(rounds.get() + 1) < 2);
        let used = |page: usize| memory[page * PAGE..(page + 1) * PAGE].iter().any(|byte| *byte != 0);
        let pages: Vec<usize> = (0..LAYOUT.regions() * 512).filter(|page| used(*page)).collect();
        assert!(!pages.is_empty() && pages.iter().all(|page| hot.contains(page)), "{} pages", pages.len());
    }
}
