//! `ingens-scan`: the cost of looks at memory and of changes. Figures are the look through page tables, the clearing of
//! access bits with and without sampling, and the time that a thread stands still while its region is promoted.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use esker_base::Stream;
use esker_base::units::{GIB, MIB};
use esker_hugepage::{PAGE_BYTES, REGION_BYTES};
use esker_hugepage_linux::linux::tracked::Tracked;
use esker_sys::process::{Advice, Process};

use crate::ingens::loads::Next;
use crate::ingens::settings::keep_memory;
use crate::ingens::{Arm, Seen, first_region, room, thread_cpu};
use esker_lab_kit::timing::{at_share, median, medians_of};
use esker_lab_kit::{Figure, Lab, LabError, peer};

const PAGE: usize = PAGE_BYTES as usize;
const REGION: usize = REGION_BYTES as usize;
/// Looks of which the median counts.
const LOOKS: usize = 9;
/// Access bits are cleared so often; what that costs once is measured in reads that take less.
const PERIOD_MS: f64 = 2e3;
/// Of these the median counts.
const ROUNDS: u32 = 25;
/// Of a hundred regions in use, so many are cleared.
const SAMPLED: u64 = 20;
/// Promotions use blocks of so many times the memory until they use again what was given back. A virtual machine
/// waits for its host in each that it never had; all are had once by asking whether there is room.
const BLOCKS_USED: u64 = 3;
/// So many promotions are watched, in the short form, too: of fewer, p99.9 is the worst or the one after it.
const STALLS: usize = 10_000;
/// A promotion takes about so long, and as long a watch goes on without one.
const PROMOTION: Duration = Duration::from_micros(600);
/// Before and after it, so much is watched too.
const MARGIN: Duration = Duration::from_micros(200);

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let (bytes, reads) = lab.scale((512 * MIB, 20_000_000), (2 * GIB, 80_000_000));
    let _kept = keep_memory(lab)?;
    room(BLOCKS_USED * bytes, lab)?;
    let _held = Arm::Base.hold(lab)?;
    let mut memory = Memory::new(bytes as usize)?;
    Ok([looks(&mut memory, lab)?, clearing(&memory, reads, lab)?, standing_still(&mut memory, lab)?].concat())
}

/// Memory of this process, in whole regions, and this process as others see it.
struct Memory {
    bytes: Vec<u8>,
    first: usize,
    regions: usize,
    process: Process,
}

impl Memory {
    fn new(bytes: usize) -> Result<Memory, LabError> {
        let process = Process::open(std::process::id()).map_err(|error| peer::fault("this process", error))?;
        let memory = vec![0u8; bytes + REGION];
        Ok(Memory { first: first_region(&memory), bytes: memory, regions: bytes / REGION, process })
    }

    fn address(&self, region: usize) -> u64 {
        (self.bytes.as_ptr() as usize + self.first + region * REGION) as u64
    }

    fn region(&self, region: usize) -> &[u8] {
        &self.bytes[self.first + region * REGION..][..REGION]
    }

    /// Writes each page whose number is a multiple of `step`.
    fn fill(&mut self, step: usize) {
        let end = self.first + self.regions * REGION;
        black_box(&mut self.bytes)[self.first..end].iter_mut().step_by(PAGE * step).for_each(|byte| *byte = 1);
    }

    fn collapse(&self, region: usize) -> Result<(), LabError> {
        let done = self.process.advise(self.address(region), REGION_BYTES, Advice::Collapse);
        done.map(drop).map_err(|error| peer::fault("a promotion", error))
    }

    /// Splits a huge page.
    fn split(&self, region: usize) -> Result<(), LabError> {
        let done = self.process.advise(self.address(region), PAGE_BYTES, Advice::Cold);
        done.map(drop).map_err(|error| peer::fault("a demotion", error))
    }
}

/// Looks through the page table of this process, which is little else than this memory.
fn looks(memory: &mut Memory, lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let failed = |error| peer::fault("the page table", error);
    let mut tracked = Tracked::open(std::process::id(), String::new(), 1).map_err(failed)?;
    let mut per_gib = |memory: &Memory| {
        let look = |_| {
            let begun = Instant::now();
            black_box(tracked.uses());
            begun.elapsed().as_secs_f64() * 1e3
        };
        median((0..LOOKS).map(look).collect()) * GIB as f64 / (memory.regions * REGION) as f64
    };
    memory.fill(2);
    let half = per_gib(memory);
    memory.fill(1);
    let full = per_gib(memory);
    (0..memory.regions).try_for_each(|region| memory.collapse(region))?;
    let huge = per_gib(memory);
    (0..memory.regions).try_for_each(|region| memory.split(region))?;
    lab.say(format!("ms per GiB: {full:.2} of base pages, {half:.2} every second, {huge:.3} of huge pages"));
    let figure = |id, value| Figure::alone(id, value, "ms per GiB");
    Ok(vec![figure("scan_ms_base", full), figure("scan_ms_half", half), figure("scan_ms_huge", huge)])
}

/// How many regions of a hundred are cleared in each period.
fn clearing(memory: &Memory, reads: u64, lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    if Seen::open()?.huge_in(&memory.bytes) > 0 {
        return Err(LabError::Data("huge pages were not split".to_string()));
    }
    let [all, sampled] = medians_of(ROUNDS, |round| {
        let seed = lab.seed + u64::from(round);
        let [none, each, some] = [0, 100, SAMPLED].map(|percent| read_beside(memory, reads, percent, seed));
        lab.say(format!("round {round} of {ROUNDS}: {none:.1} ms, {each:.1} cleared, {some:.1} sampled"));
        Ok([each, some].map(|cleared| (cleared - none) / PERIOD_MS))
    })?;
    let unit = "of the CPU time of random reads in base pages, above it";
    Ok(vec![
        Figure::alone("cleared_overhead", all, unit).paper(0.29),
        Figure::alone("sampled_overhead", sampled, unit).paper(0.08),
        Figure::alone("sampled_over_cleared", sampled / all, "ratio").paper(0.28),
    ])
}

/// Milliseconds of CPU time of random reads while access bits of so many regions of a hundred are cleared once.
fn read_beside(memory: &Memory, reads: u64, percent: u64, seed: u64) -> f64 {
    scope(|threads| {
        threads.spawn(|| {
            let mut rng = Stream::named(seed, "ingens-scan");
            for region in (0..memory.regions).filter(|_| rng.below(100) < percent) {
                // The kernel may refuse a region that is busy.
                drop(memory.process.advise(memory.address(region), REGION_BYTES, Advice::Cold));
            }
        });
        let (mut next, mut sum) = (Next::from(seed), 0);
        let before = thread_cpu();
        for _ in 0..reads {
            sum += u64::from(memory.bytes[memory.first + next.below(memory.regions * REGION)]);
        }
        black_box(sum);
        (thread_cpu() - before).as_secs_f64() * 1e3
    })
}

/// How long a thread stands still that uses a region while it is promoted, and while nothing happens.
fn standing_still(memory: &mut Memory, lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    memory.fill(1);
    let (mut promoted, mut control) = (Vec::new(), Vec::new());
    let watch = Watch { region: AtomicUsize::new(0), longest: AtomicU64::new(0), is_over: AtomicBool::new(false) };
    let memory = &*memory;
    scope(|threads| -> Result<(), LabError> {
        threads.spawn(|| watch.use_regions(memory));
        let done = (0..STALLS).try_for_each(|at| {
            let region = at % memory.regions;
            watch.region.store(region, Ordering::Relaxed);
            control.push(watch.longest_while(|| {
                sleep(PROMOTION);
                Ok(())
            })?);
            promoted.push(watch.longest_while(|| memory.collapse(region))?);
            memory.split(region)
        });
        watch.is_over.store(true, Ordering::Relaxed);
        done
    })?;
    let (with, without) = (at_share(promoted.clone(), 0.999), at_share(control, 0.999));
    lab.say(format!("p99.9 of {STALLS} promotions: {with:.2} ms, without one {without:.2} ms"));
    Ok(vec![
        Figure::alone("stall_ms_median", median(promoted), "ms without progress in a promotion"),
        Figure::alone("stall_ms_p999", with, "ms without progress in a promotion"),
        Figure::alone("stall_ms_p999_above_control", with - without, "ms above that without one"),
    ])
}

/// A thread that uses regions, seen from another one.
struct Watch {
    region: AtomicUsize,
    /// Nanoseconds between two reads, the most since it was last set to zero.
    longest: AtomicU64,
    is_over: AtomicBool,
}

impl Watch {
    fn use_regions(&self, memory: &Memory) {
        let mut last = Instant::now();
        let mut page = 0;
        while !self.is_over.load(Ordering::Relaxed) {
            let region = memory.region(self.region.load(Ordering::Relaxed));
            black_box(region[page * PAGE]);
            page = (page + 1) % (REGION / PAGE);
            let now = Instant::now();
            self.longest.fetch_max((now - last).as_nanos() as u64, Ordering::Relaxed);
            last = now;
        }
    }

    /// Milliseconds between two reads, the most while something is done.
    fn longest_while(&self, act: impl FnOnce() -> Result<(), LabError>) -> Result<f64, LabError> {
        sleep(MARGIN);
        self.longest.store(0, Ordering::Relaxed);
        act()?;
        sleep(MARGIN);
        Ok(self.longest.load(Ordering::Relaxed) as f64 / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_come_to_read_is_seen() {
        let watch = Watch { region: AtomicUsize::new(0), longest: AtomicU64::new(0), is_over: AtomicBool::new(false) };
        let longest = watch.longest_while(|| {
            watch.longest.fetch_max(3_000_000, Ordering::Relaxed);
            Ok(())
        });
        assert_eq!(longest.unwrap(), 3.0);
        assert_eq!(watch.longest_while(|| Ok(())).unwrap(), 0.0, "of each watch alone");
    }

    #[test]
    fn a_read_is_timed_while_bits_are_cleared() {
        let mut memory = Memory::new(4 * REGION).unwrap();
        memory.fill(1);
        assert!(read_beside(&memory, 100_000, 100, 1) > 0.0);
        assert!(memory.address(1).is_multiple_of(REGION_BYTES) && memory.region(3)[0] == 1);
    }
}
