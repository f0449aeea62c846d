//! A program with much memory of which a part is used all the time, and pages that others have too: this program,
//! executed again with a word of its own ([`WORD`]).
//!
//! Half of all pages, every second one, hold what the same pages of all guests hold. Hot memory is read at random, and
//! written in the pages that only they have; cold memory is never used again; of sparse regions only one half is.
//! Beside it there is memory of which no other process has any page, used as hot memory is: whatever is merged, it
//! stays as it is, and tells how fast the machine is just now.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use esker_hugepage::{PAGE_BYTES, REGION_BYTES};
use esker_hugepage_linux::linux::merging::of_process;
use esker_hugepage_linux::linux::system::huge_blocks;

use super::loads::Next;
use super::own::{Own, lines, say};
use super::{first_region, huge_of, thread_cpu};
use esker_lab_kit::{Lab, LabError, peer, timing::median};

/// Word by which this program is asked to be a guest.
pub(super) const WORD: &str = "--esker-lab-guest";
/// The library that lets a guest be told which of its pages may be shared.
const LIBRARY: &str = "libesker_hugepage_preload.so";
const PAGE: usize = PAGE_BYTES as usize;
const REGION: usize = REGION_BYTES as usize;
/// Reads between two looks at the clock.
const BATCH: u64 = 200_000;
/// One access of so many is a write.
const WRITES: u64 = 1 << 10;
/// Where nothing is measured, a guest works for a while and then rests as long: hot, and others work too.
const PACE: Duration = Duration::from_millis(20);

/// Regions of a guest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// Used all the time.
    pub hot: usize,
    /// Used all the time, without a page that others have.
    pub control: usize,
    /// Never used again.
    pub cold: usize,
    /// Never used again, and only one half of their pages ever.
    pub sparse: usize,
}

impl Layout {
    /// All regions.
    pub(crate) fn regions(self) -> usize {
        self.hot + self.control + self.cold + self.sparse
    }

    /// Bytes that a guest takes.
    pub(crate) fn bytes(self) -> u64 {
        ((2 * (self.hot + self.control + self.cold) + self.sparse) * REGION / 2) as u64
    }
}

/// A guest that runs.
pub(crate) struct Guest {
    own: Own,
    layout: Layout,
}

impl Guest {
    /// Starts one with the library, which looks for a manager at `socket`. It has no memory yet.
    ///
    /// # Errors
    /// If the library is not there, or this program cannot be executed again.
    pub(crate) fn start(number: usize, layout: Layout, socket: &Path) -> Result<Guest, LabError> {
        let own = std::env::current_exe().map_err(|error| peer::fault("a guest", error))?;
        let library = library(&own)?;
        let own = Own::start("a guest", |command| {
            command.args([WORD, &number.to_string()]);
            command.args([layout.hot, layout.control, layout.cold, layout.sparse].map(|count| count.to_string()));
            command.env("LD_PRELOAD", library).env("ESKER_HUGEPAGE_SHARE", socket)
        })?;
        Ok(Guest { own, layout })
    }

    /// Its number.
    pub(crate) fn pid(&self) -> u32 {
        self.own.pid()
    }

    /// Fills its memory.
    ///
    /// # Errors
    /// If it has ended.
    pub(crate) fn fill(&mut self) -> Result<(), LabError> {
        self.ask("fill").map(drop)
    }

    /// CPU time of an access to its hot memory over that to the memory that is not shared, of medians of batches for so
    /// long.
    ///
    /// # Errors
    /// If it has ended.
    pub(crate) fn measure(&mut self, time: Duration) -> Result<f64, LabError> {
        self.ask(&format!("measure {}", time.as_millis()))
    }

    /// Share of its memory in huge pages.
    pub(crate) fn huge_share(&self) -> f64 {
        huge_of(self.pid()) as f64 / self.layout.bytes() as f64
    }

    /// Bytes of it that are shared.
    pub(crate) fn merged(&self) -> u64 {
        of_process(self.pid()).0
    }

    fn ask(&mut self, words: &str) -> Result<f64, LabError> {
        self.own.ask(words).map(|[value]| value)
    }
}

/// The library: beside this program, or where cargo puts it for tests and systems for all.
fn library(own: &Path) -> Result<PathBuf, LabError> {
    let folder = own.parent().unwrap_or(Path::new("/"));
    let places = [folder.to_path_buf(), folder.join("deps"), folder.join("../lib/esker")];
    let found = places.iter().map(|place| place.join(LIBRARY)).find(|path| path.is_file());
    found.ok_or_else(|| {
        let folder = folder.display();
        let build = "cargo build --release -p esker-hugepage-preload";
        LabError::Data(format!("{LIBRARY} is not in {folder}; build it with {build}"))
    })
}

/// Runs as a guest, if there are its number and its layout.
pub(super) fn pass(numbers: &[usize]) -> bool {
    let &[number, hot, control, cold, sparse] = numbers else { return false };
    serve(number as u64, Layout { hot, control, cold, sparse });
    true
}

/// Does what the lines on its input say, until that is closed.
fn serve(number: u64, layout: Layout) {
    // The kernel's own alignment is not that of huge pages.
    let mut memory = vec![0u8; (layout.regions() + 1) * REGION];
    let first = first_region(&memory);
    let memory = &mut memory[first..first + layout.regions() * REGION];
    let mut lines = lines();
    if lines.next().as_deref() != Some("fill") {
        return;
    }
    fill(memory, number, layout);
    say(&[0.0]);
    let mut next = Next::from(number);
    let (hot, control) = memory[..(layout.hot + layout.control) * REGION].split_at_mut(layout.hot * REGION);
    loop {
        let Some(line) = paced([&mut *hot, &mut *control], &mut next, &mut lines) else { return };
        let millis = line.strip_prefix("measure ").and_then(|word| word.parse().ok()).unwrap_or(0);
        say(&[measure([&mut *hot, &mut *control], &mut next, Duration::from_millis(millis))]);
    }
}

/// Works with rests until there is a line.
fn paced(memory: [&mut [u8]; 2], next: &mut Next, lines: &mut (impl Iterator<Item = String> + Send)) -> Option<String> {
    let (mut memory, is_told) = (memory, AtomicBool::new(false));
    scope(|threads| {
        let reader = threads.spawn(|| {
            let line = lines.next();
            is_told.store(true, Ordering::Relaxed);
            line
        });
        while !is_told.load(Ordering::Relaxed) {
            let begun = Instant::now();
            while begun.elapsed() < PACE {
                memory.iter_mut().for_each(|memory| accesses(memory, next, BATCH / 16));
            }
            sleep(PACE);
        }
        reader.join().ok()?
    })
}

fn measure(mut memory: [&mut [u8]; 2], next: &mut Next, time: Duration) -> f64 {
    let begun = Instant::now();
    let mut batches: [Vec<f64>; 2] = Default::default();
    while batches[0].is_empty() || begun.elapsed() < time {
        for (memory, batches) in memory.iter_mut().zip(&mut batches) {
            let before = thread_cpu();
            accesses(memory, next, BATCH);
            batches.push((thread_cpu() - before).as_nanos() as f64);
        }
    }
    let [hot, control] = batches.map(median);
    hot / control
}

/// Reads at places of which each depends on what the one before held, and writes.
fn accesses(hot: &mut [u8], next: &mut Next, count: u64) {
    let mut seen = 0;
    for at in 0..count {
        let place = (next.below(hot.len()) + seen) % hot.len();
        seen = usize::from(hot[place]);
        if at % WRITES == 0 {
            // Pages with odd numbers are not shared.
            let page = place / (2 * PAGE) * 2 + 1;
            hot[page * PAGE + place % PAGE] = seen as u8;
        }
    }
    black_box(seen);
}

fn fill(memory: &mut [u8], number: u64, layout: Layout) {
    let sparse_from = (layout.regions() - layout.sparse) * REGION / PAGE;
    let own = layout.hot * REGION / PAGE..(layout.hot + layout.control) * REGION / PAGE;
    for (page, bytes) in memory.chunks_exact_mut(PAGE).enumerate() {
        if page >= sparse_from && page % (REGION / PAGE) >= REGION / PAGE / 2 {
            continue;
        }
        let whose = if page.is_multiple_of(2) && !own.contains(&page) { 0 } else { number + 1 };
        let mut words = Next::from((page as u64) << 8 | whose);
        for word in bytes.chunks_exact_mut(8) {
            word.copy_from_slice(&(words.below(usize::MAX) as u64).to_le_bytes());
        }
    }
}

/// Makes sure that so many guests have room in huge pages.
///
/// # Errors
/// If they have not.
pub(crate) fn room_for(count: usize, layout: Layout, lab: &Lab<'_>) -> Result<(), LabError> {
    let wanted = count as u64 * layout.bytes();
    // Memory that was shared by guests before comes back in time only.
    let begun = Instant::now();
    while huge_blocks(wanted) < wanted && begun.elapsed() < Duration::from_secs(10) {
        sleep(Duration::from_millis(500));
    }
    super::room(wanted, lab)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: Layout = Layout { hot: 1, control: 1, cold: 1, sparse: 1 };

    #[test]
    fn guests_have_every_second_page_in_common_and_no_other() {
        let memory = |number| {
            let mut memory = vec![0u8; LAYOUT.regions() * REGION];
            fill(&mut memory, number, LAYOUT);
            memory
        };
        let (one, other) = (memory(0), memory(1));
        let pages = || one.chunks_exact(PAGE).zip(other.chunks_exact(PAGE)).enumerate();
        let is_used = |page: usize| page < 3 * 512 || page % 512 < 256;
        let is_own = |page: usize| page / 512 == 1 || page % 2 == 1;
        assert!(pages().all(|(page, (a, b))| (a == b) == (!is_own(page) || !is_used(page))));
        let distinct: std::collections::BTreeSet<&[u8]> = one.chunks_exact(PAGE).collect();
        assert_eq!(distinct.len(), 3 * 512 + 256 + 1, "within a guest no page is like another, but those of zeroes");
        assert_eq!(LAYOUT.bytes(), 7 * REGION_BYTES / 2);
    }

    #[test]
    fn work_leaves_what_guests_have_in_common() {
        let mut memory = vec![0u8; 2 * REGION];
        fill(&mut memory, 7, Layout { hot: 1, control: 1, cold: 0, sparse: 0 });
        let before = memory.clone();
        let (hot, control) = memory.split_at_mut(REGION);
        assert!(measure([hot, control], &mut Next::from(1), Duration::ZERO) > 0.0);
        let mut pages = before.chunks_exact(PAGE).zip(memory.chunks_exact(PAGE)).enumerate();
        assert!(pages.all(|(page, (a, b))| page % 2 == 1 || page >= 512 || a == b));
        assert!(before != memory, "it writes");
    }
}
