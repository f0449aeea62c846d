//! One process of this machine: its page table, read and advised about.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use esker_base::Nanos;
use esker_sys::process::{Advice, PageRun, PageTable, Process, Wanted, page_is};

use super::maps::{self, Mapping};
use super::merging;
use esker_hugepage::utilisation::Util;
use esker_hugepage::view::{Backing, ChangeError, Outcome, Region, RegionView, Skip};
use esker_hugepage::{PAGE_BYTES, REGION_BYTES, REGION_PAGES};

/// Mappings are read again when they are older.
const MAPPINGS_AGE_MAX: Duration = Duration::from_millis(500);
/// Runs of pages that one call returns.
const RUNS: usize = 1024;
/// Pages that hold memory. What is only read before it is written shares a page of zeroes.
const USED: Wanted = Wanted { any: page_is::PRESENT | page_is::SWAPPED, none: page_is::ZERO };
/// `KPF_THP` of `linux/kernel-page-flags.h`: part of a huge page of this size, however it is mapped.
const THP: u64 = 1 << 22;
/// `KPF_KSM`: shared with equal pages.
const KSM: u64 = 1 << 21;

/// A process that is managed.
#[derive(Debug)]
pub struct Tracked {
    pid: u32,
    /// Its name.
    pub name: String,
    /// Its shares.
    pub shares: u64,
    process: Process,
    table: PageTable,
    mappings: Vec<Mapping>,
    mappings_at: Option<Instant>,
    /// Page faults when its table was last looked through.
    faults: Option<u64>,
    /// Regions in base pages that were used well enough then.
    above: BTreeSet<Region>,
    /// Regions that were huge then.
    huge: BTreeSet<Region>,
    /// Regions whose pages may be shared.
    pub mergeable: BTreeSet<Region>,
    /// Of those, how many pages of each were shared when that was last looked at, and bytes of all.
    merged: (BTreeMap<Region, u32>, u64),
    /// When it may be looked through again.
    pub next_poll: Instant,
}

/// Use of one region, as a pass over the table finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// Which.
    pub region: Region,
    /// Pages that hold memory.
    pub used: u32,
    /// Whether a huge page maps it.
    pub huge: bool,
}

impl Tracked {
    /// Takes hold of a process.
    ///
    /// # Errors
    /// The kernel's.
    pub fn open(pid: u32, name: String, shares: u64) -> io::Result<Tracked> {
        Ok(Tracked {
            pid,
            name,
            shares,
            process: Process::open(pid)?,
            table: PageTable::open(pid)?,
            mappings: Vec::new(),
            mappings_at: None,
            faults: None,
            above: BTreeSet::new(),
            huge: BTreeSet::new(),
            mergeable: BTreeSet::new(),
            merged: (BTreeMap::new(), 0),
            next_poll: Instant::now(),
        })
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.process.has_ended()
    }

    /// Whether it has the memory that it was taken with: once it has executed another program, its page table is
    /// another one, also under the same name.
    pub fn has_its_memory(&self) -> bool {
        self.table.frames(0, 1).is_ok()
    }

    /// A number that grows with what it does: its page faults, and its CPU time in hundredths of a second.
    pub fn activity(&self) -> Option<u64> {
        let stat = Stat::read(self.pid)?;
        Some(stat.faults()? + stat.field(14)? + stat.field(15)?)
    }

    /// Bytes of its memory as the kernel tells them (proc_pid_statm(5)): without what it has freed inside huge pages,
    /// which stays charged.
    pub fn resident(&self) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/statm", self.pid)).unwrap_or_default();
        text.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * PAGE_BYTES
    }

    /// Reads the mappings again at the next look if none is known that holds this region.
    pub fn expect(&mut self, region: Region) {
        if maps::skip_of(&self.mappings, region).is_none() {
            self.mappings_at = None;
        }
    }

    fn mappings(&mut self) -> &[Mapping] {
        if self.mappings_at.is_none_or(|at| at.elapsed() > MAPPINGS_AGE_MAX) {
            let text = fs::read_to_string(format!("/proc/{}/maps", self.pid)).unwrap_or_default();
            // Refusals that only the long form tells are kept for as long as the mapping is the same.
            let advised = std::mem::take(&mut self.mappings);
            let refuses = |one: &Mapping| {
                advised
                    .iter()
                    .any(|old| old.skip == Some(Skip::Advised) && (old.start, old.end) == (one.start, one.end))
            };
            self.mappings = maps::parse(&text);
            for mapping in &mut self.mappings {
                if mapping.skip.is_none() && refuses(mapping) {
                    mapping.skip = Some(Skip::Advised);
                }
            }
            self.mappings_at = Some(Instant::now());
        }
        &self.mappings
    }

    /// Learns which mappings refuse huge pages: of use after a refusal only, as it costs milliseconds for each GiB.
    fn learn_refusals(&mut self) {
        if let Ok(text) = fs::read_to_string(format!("/proc/{}/smaps", self.pid)) {
            self.mappings = maps::parse(&text);
            self.mappings_at = Some(Instant::now());
        }
    }

    /// Ranges of addresses that may have huge pages.
    fn eligible(&mut self) -> Vec<(u64, u64)> {
        let whole = |mapping: &Mapping| {
            let start = mapping.start.next_multiple_of(REGION_BYTES);
            let end = mapping.end / REGION_BYTES * REGION_BYTES;
            (mapping.skip.is_none() && start < end).then_some((start, end))
        };
        self.mappings().iter().filter_map(whole).collect()
    }

    /// A region as it is now; nothing if nothing is mapped there.
    pub fn look(&mut self, region: Region, kpageflags: Option<&File>) -> Option<RegionView> {
        let skip = maps::skip_of(self.mappings(), region)?;
        let mut room = [PageRun::default(); REGION_PAGES as usize];
        let (start, end) = maps::bytes_of(region);
        let (runs, _) = self.table.scan((start, end), USED, &mut room).ok()?;
        let mut used = Util::EMPTY;
        let mut backing = Backing::Base;
        let mut first = None;
        for run in runs {
            let page = |address: u64| ((address - start) / PAGE_BYTES) as u32;
            used.set_range(page(run.start)..page(run.end));
            if run.is & page_is::HUGE != 0 {
                backing = Backing::Huge;
            } else if run.is & page_is::PRESENT != 0 {
                first = first.or(Some(run.start));
            }
        }
        if let (Backing::Base, Some(first), Some(flags)) = (backing, first, kpageflags)
            && self.is_part_of_huge(first, flags)
        {
            backing = Backing::Split;
        }
        Some(RegionView { used, backing, skip })
    }

    /// Whether the page at an address is part of a huge page in physical memory.
    fn is_part_of_huge(&self, address: u64, kpageflags: &File) -> bool {
        self.which_have(THP, (address, 1), kpageflags).next().is_some()
    }

    /// Whether pages of a region are shared with equal ones.
    pub fn is_merged(&self, region: Region, kpageflags: &File) -> bool {
        self.which_have(KSM, (maps::bytes_of(region).0, REGION_PAGES as usize), kpageflags).next().is_some()
    }

    /// Regions of which fewer pages are shared than at the last call, because they were written. Looked through only if
    /// the kernel has counted a change.
    pub fn newly_private(&mut self, kpageflags: &File) -> Vec<Region> {
        let bytes = merging::of_process(self.pid).0;
        if self.merged.1 == bytes {
            return Vec::new();
        }
        let shared = |region: &Region| {
            let range = (maps::bytes_of(*region).0, REGION_PAGES as usize);
            (*region, self.which_have(KSM, range, kpageflags).count() as u32)
        };
        let now: BTreeMap<Region, u32> = self.mergeable.iter().map(shared).collect();
        let (before, _) = std::mem::replace(&mut self.merged, (now, bytes));
        let is_fewer = |(region, count): &(&Region, &u32)| before.get(region).is_some_and(|before| before > count);
        self.merged.0.iter().filter(is_fewer).map(|(region, _)| *region).collect()
    }

    /// Which pages in a range have a flag, by their flags.
    fn which_have<'a>(
        &self,
        flag: u64,
        (start, count): (u64, usize),
        kpageflags: &'a File,
    ) -> impl Iterator<Item = u64> + use<'a> {
        let flags = move |frame: u64| {
            let mut word = [0; 8];
            kpageflags.read_exact_at(&mut word, frame * 8).ok().map(|()| u64::from_le_bytes(word))
        };
        let frames = self.table.frames(start, count).unwrap_or_default();
        frames.into_iter().flatten().filter_map(flags).filter(move |flags| flags & flag != 0)
    }

    /// Learns which pages may be shared already, because an earlier manager or the process itself has said so.
    pub fn learn_mergeable(&mut self) {
        let text = fs::read_to_string(format!("/proc/{}/smaps", self.pid)).unwrap_or_default();
        let whole = |mapping: &Mapping| (mapping.start.div_ceil(REGION_BYTES)..mapping.end / REGION_BYTES).map(Region);
        let mappings = maps::parse(&text);
        self.mergeable = mappings.iter().filter(|mapping| mapping.mergeable).flat_map(whole).collect();
    }

    /// The next region at or after `from` that holds memory.
    pub fn next(&mut self, from: Region) -> Option<Region> {
        let from = maps::bytes_of(from).0;
        let ends: Vec<(u64, u64)> = self
            .mappings()
            .iter()
            .filter(|mapping| mapping.end > from && mapping.skip != Some(Skip::Special))
            .map(|mapping| (mapping.start.max(from), mapping.end))
            .collect();
        let mut room = [PageRun::default(); 1];
        ends.into_iter().find_map(|range| {
            let (runs, _) = self.table.scan(range, USED, &mut room).ok()?;
            runs.first().map(|run| Region(run.start / REGION_BYTES))
        })
    }

    /// Runs of wanted pages of all eligible mappings, in order.
    fn each_run(&mut self, wanted: Wanted, mut take: impl FnMut(&PageRun)) {
        let mut room = vec![PageRun::default(); RUNS];
        for (start, end) in self.eligible() {
            let mut at = start;
            while at < end {
                // A mapping may vanish on the way.
                let Ok((runs, walked)) = self.table.scan((at, end), wanted, &mut room) else { break };
                runs.iter().for_each(&mut take);
                if walked <= at {
                    break;
                }
                at = walked;
            }
        }
    }

    /// The regions that a huge page backs.
    pub fn huge(&mut self) -> Vec<Region> {
        let mut huge = Vec::new();
        self.each_run(Wanted { any: page_is::HUGE, none: page_is::ZERO }, |run| {
            huge.extend((run.start / REGION_BYTES..run.end / REGION_BYTES).map(Region));
        });
        huge
    }

    /// Use of every eligible region that holds memory.
    pub fn uses(&mut self) -> Vec<Use> {
        let mut uses: Vec<Use> = Vec::new();
        self.each_run(USED, |run| {
            let mut at = run.start;
            while at < run.end {
                let region = Region(at / REGION_BYTES);
                let end = run.end.min((region.0 + 1) * REGION_BYTES);
                let (used, huge) = (((end - at) / PAGE_BYTES) as u32, run.is & page_is::HUGE != 0);
                match uses.last_mut().filter(|last| last.region == region) {
                    Some(last) => (last.used, last.huge) = (last.used + used, last.huge || huge),
                    None => uses.push(Use { region, used, huge }),
                }
                at = end;
            }
        });
        uses
    }

    /// Regions that have come to be used by `pages` or more since the last call, if there were faults since, and those
    /// of whose huge page something was freed. Without `pages` only the latter, for which base pages are not looked at.
    pub fn newly_used(&mut self, pages: Option<u32>) -> Vec<Region> {
        let faults = Stat::read(self.pid).and_then(|stat| stat.faults());
        if faults.is_none() || faults == self.faults {
            return Vec::new();
        }
        self.faults = faults;
        let Some(pages) = pages else {
            let huge = self.huge().into_iter().collect();
            return std::mem::replace(&mut self.huge, huge).difference(&self.huge).copied().collect();
        };
        let uses = self.uses();
        let above: BTreeSet<Region> =
            uses.iter().filter(|one| !one.huge && one.used >= pages).map(|one| one.region).collect();
        let huge: BTreeSet<Region> = uses.iter().filter(|one| one.huge).map(|one| one.region).collect();
        let parted =
            uses.iter().map(|one| one.region).filter(|region| self.huge.contains(region) && !huge.contains(region));
        let new: BTreeSet<Region> = above.difference(&self.above).copied().chain(parted).collect();
        (self.above, self.huge) = (above, huge);
        new.into_iter().collect()
    }

    /// Takes all that is used for new, and looks at the next opportunity.
    pub fn look_again(&mut self) {
        self.above.clear();
        (self.faults, self.next_poll) = (None, Instant::now());
    }

    /// Makes a region huge, and looks whether it is.
    pub fn promote(&mut self, region: Region) -> Outcome {
        let begun = Instant::now();
        let done = self.process.advise(maps::bytes_of(region).0, REGION_BYTES, Advice::Collapse);
        let took = Nanos(begun.elapsed().as_nanos() as u64);
        let result = match done {
            Ok(_) if self.look(region, None).is_some_and(|look| look.backing == Backing::Huge) => Ok(()),
            Ok(_) => Err(ChangeError::NothingDone),
            Err(error) => Err(refusal(&error)),
        };
        if result == Err(ChangeError::Changed) {
            self.learn_refusals();
        }
        Outcome { result, took }
    }

    /// Splits the huge page of a region, whereupon what was freed of it is given back, and looks whether it is split.
    pub fn demote(&mut self, region: Region, kpageflags: Option<&File>) -> Outcome {
        let begun = Instant::now();
        let result = self.split(region, kpageflags);
        Outcome { result, took: Nanos(begun.elapsed().as_nanos() as u64) }
    }

    fn split(&mut self, region: Region, kpageflags: Option<&File>) -> Result<(), ChangeError> {
        let look = self.look(region, kpageflags).ok_or(ChangeError::Changed)?;
        let page = look.used.pages().next().ok_or(ChangeError::Changed)?;
        let address = maps::bytes_of(region).0 + u64::from(page) * PAGE_BYTES;
        self.process.advise(address, PAGE_BYTES, Advice::Cold).map_err(|error| refusal(&error))?;
        match self.look(region, kpageflags) {
            Some(after) if after.backing == Backing::Base => Ok(()),
            Some(_) => Err(ChangeError::NothingDone),
            None => Err(ChangeError::Changed),
        }
    }

    /// Its page table.
    pub fn table(&self) -> &PageTable {
        &self.table
    }

    /// Clears the access bits of regions, with the translations that hold them: neighbours in one go, which interrupts
    /// other CPUs once.
    pub fn clear_accessed(&self, regions: &[Region]) {
        for run in regions.chunk_by(|one, next| one.0 + 1 == next.0) {
            let cold = |regions: &[Region]| {
                self.process.advise(maps::bytes_of(regions[0]).0, regions.len() as u64 * REGION_BYTES, Advice::Cold)
            };
            // One that is gone has none to clear, and its neighbours have.
            if cold(run).is_err() {
                run.chunks(1).for_each(|one| drop(cold(one)));
            }
        }
    }

    /// Physical addresses of the huge pages of regions.
    pub fn physical(&self, regions: &[Region]) -> Vec<Option<u64>> {
        let frame = |region: &Region| self.table.frames(maps::bytes_of(*region).0, 1).ok().and_then(|frames| frames[0]);
        regions.iter().map(|region| frame(region).map(|frame| frame * PAGE_BYTES)).collect()
    }
}

/// What the kernel's answer to an advice means (measured on Linux 6.18).
fn refusal(error: &io::Error) -> ChangeError {
    use rustix::io::Errno;
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::AGAIN) => ChangeError::Pinned,
        Some(Errno::BUSY) => ChangeError::Limit,
        Some(Errno::NOMEM) => ChangeError::NoContiguity,
        Some(Errno::SRCH) => ChangeError::Gone,
        Some(Errno::PERM | Errno::ACCESS) => ChangeError::Denied,
        _ => ChangeError::Changed,
    }
}

/// Numbers of proc_pid_stat(5). Its second field may hold anything within its brackets.
struct Stat(String);

impl Stat {
    fn read(pid: u32) -> Option<Stat> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        text.rsplit_once(')').map(|(_, rest)| Stat(rest.to_string()))
    }

    /// One from the third on.
    fn field(&self, number: usize) -> Option<u64> {
        self.0.split_whitespace().nth(number - 3)?.parse().ok()
    }

    /// Page faults, without and with I/O.
    fn faults(&self) -> Option<u64> {
        Some(self.field(10)? + self.field(12)?)
    }
}
