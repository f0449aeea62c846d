//! Processes on physical memory, as a [`ProcView`].

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use esker_base::{Nanos, Time};

use super::costs::Costs;
use super::physical::{Frame, Physical};
use crate::contiguity::HUGE_ORDER;
use crate::utilisation::{Threshold, Util};
use crate::view::{Backing, ChangeError, Outcome, Pid, ProcView, Region, RegionAddress, RegionView, Skip};
use crate::{PAGE_BYTES, REGION_BYTES, REGION_PAGES};

/// What the system does when a page inside a huge page is freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freeing {
    /// The huge page is split at once, as Linux does under pressure.
    Splits,
    /// It stays until it is demoted.
    Deferred,
}

#[derive(Clone, Debug)]
enum Memory {
    Base(Box<[Option<Frame>]>),
    Huge(u32),
}

#[derive(Clone, Debug)]
struct Range {
    used: Util,
    memory: Memory,
    skip: Option<Skip>,
    pinned: bool,
    accessed: bool,
    mergeable: bool,
    merged: bool,
}

impl Range {
    fn is_huge(&self) -> bool {
        matches!(self.memory, Memory::Huge(_))
    }
}

#[derive(Clone, Debug)]
struct Process {
    shares: u64,
    activity: u64,
    ranges: BTreeMap<Region, Range>,
}

/// The machine.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The instant, for costs that depend on it; [`super::run`] sets it.
    pub now: Time,
    /// Physical memory.
    pub physical: Physical,
    costs: Costs,
    processes: BTreeMap<Pid, Process>,
    next_pid: u32,
    promote: Threshold,
    demote: Threshold,
    freeing: Freeing,
    greedy: bool,
    signals: Vec<RegionAddress>,
    listens: bool,
    /// Faults that took a huge page.
    pub huge_faults: u64,
    /// Promotions take so much longer, for tests of slow ones.
    pub delay: Nanos,
    /// How fragmented memory is said to be, instead of how it is.
    pub said_fragmentation: Option<f64>,
    /// Compactions asked for.
    pub compactions: Vec<Time>,
    /// Access bits that were cleared.
    pub cleared: u64,
    /// Whether processes can be told which of their pages may be shared.
    pub can_share: bool,
    /// Promotions of regions whose pages may be shared: as soon as one is done, the kernel splits it again.
    pub promoted_mergeable: u64,
}

impl Machine {
    /// A machine whose faults take base pages and signal regions that cross a threshold.
    pub fn new(physical: Physical, costs: Costs, promote: Threshold, demote: Threshold, freeing: Freeing) -> Machine {
        Machine {
            now: Time(0),
            physical,
            costs,
            processes: BTreeMap::new(),
            next_pid: 1,
            promote,
            demote,
            freeing,
            greedy: false,
            signals: Vec::new(),
            listens: true,
            huge_faults: 0,
            delay: Nanos(0),
            said_fragmentation: None,
            compactions: Vec::new(),
            cleared: 0,
            can_share: false,
            promoted_mergeable: 0,
        }
    }

    /// Starts a process.
    pub fn spawn(&mut self, shares: u64) -> Pid {
        let pid = Pid(self.next_pid);
        self.next_pid += 1;
        self.processes.insert(pid, Process { shares, activity: 0, ranges: BTreeMap::new() });
        pid
    }

    /// Ends a process; its memory is free.
    pub fn exit(&mut self, pid: Pid) {
        let Some(process) = self.processes.remove(&pid) else { return };
        for range in process.ranges.into_values() {
            give_all(&mut self.physical, range.memory);
        }
    }

    /// Unmaps a region.
    pub fn unmap(&mut self, place: RegionAddress) {
        let Some(process) = self.processes.get_mut(&place.pid) else { return };
        if let Some(range) = process.ranges.remove(&place.region) {
            give_all(&mut self.physical, range.memory);
        }
    }

    /// Says that a region cannot be huge, or has pinned pages. It must have been touched.
    pub fn mark(&mut self, place: RegionAddress, skip: Option<Skip>, pinned: bool) {
        let range = self.range_mut(place).expect("only a region that was touched is marked");
        (range.skip, range.pinned) = (skip, pinned);
    }

    /// A write to a virtual page. Returns what its fault cost, 0 without one. Nothing if memory is full.
    pub fn touch(&mut self, pid: Pid, page: u64) -> Option<Nanos> {
        let (region, at) = split_page(page);
        let place = RegionAddress { pid, region };
        let cost = self.map(place)?;
        let process = self.processes.get_mut(&pid)?;
        process.activity += 1;
        let range = process.ranges.get_mut(&region)?;
        range.accessed = true;
        // The region's other pages stay shared.
        if range.merged {
            self.signals.push(place);
        }
        if range.used.has(at) {
            return Some(cost);
        }
        let fault = match &mut range.memory {
            Memory::Huge(_) => Nanos(0),
            Memory::Base(frames) => {
                frames[at as usize] = Some(self.physical.take_base(Some((pid, page)))?);
                self.costs.base_fault
            }
        };
        range.used.set(at);
        if self.listens && range.used.count() == self.promote.pages() && !range.is_huge() {
            self.signals.push(place);
        }
        Some(cost + fault)
    }

    /// Makes sure that a region is there. Returns what the first fault in it cost beyond a base page.
    fn map(&mut self, place: RegionAddress) -> Option<Nanos> {
        let process = self.processes.get_mut(&place.pid)?;
        let Entry::Vacant(vacant) = process.ranges.entry(place.region) else { return Some(Nanos(0)) };
        let block = if self.greedy { self.physical.take_huge() } else { None };
        self.huge_faults += u64::from(block.is_some());
        let (memory, cost) = match block {
            Some(block) => (Memory::Huge(block), self.costs.huge_fault),
            None => (Memory::Base(vec![None; REGION_PAGES as usize].into()), Nanos(0)),
        };
        vacant.insert(Range {
            used: Util::EMPTY,
            memory,
            skip: None,
            pinned: false,
            accessed: true,
            mergeable: false,
            merged: false,
        });
        Some(cost)
    }

    /// Touches every page of regions.
    pub fn fill(&mut self, pid: Pid, regions: std::ops::Range<u64>) -> Option<Nanos> {
        let mut pages = regions.start * u64::from(REGION_PAGES)..regions.end * u64::from(REGION_PAGES);
        pages.try_fold(Nanos(0), |sum, page| Some(sum + self.touch(pid, page)?))
    }

    /// The process gives a page back.
    pub fn free(&mut self, pid: Pid, page: u64) {
        let (region, at) = split_page(page);
        let place = RegionAddress { pid, region };
        let (freeing, demote) = (self.freeing, self.demote.pages());
        let Some(range) = self.range_mut(place) else { return };
        if !range.used.clear(at) {
            return;
        }
        let left = range.used.count();
        match &mut range.memory {
            Memory::Base(frames) => {
                let frame = frames[at as usize].take().expect("a used page has a frame");
                self.physical.give_base(frame);
            }
            Memory::Huge(_) if freeing == Freeing::Splits => drop(self.demote(place)),
            Memory::Huge(_) if left + 1 == demote => self.signals.push(place),
            Memory::Huge(_) => {}
        }
    }

    /// The kernel finds a duplicate of a page of a region, which splits its huge page. False if its pages may not be
    /// shared.
    pub fn merge(&mut self, place: RegionAddress) -> bool {
        let Some(range) = self.range_mut(place).filter(|range| range.mergeable) else { return false };
        range.merged = true;
        self.demote(place).result.is_ok()
    }

    /// The process uses a region.
    pub fn use_region(&mut self, place: RegionAddress) {
        let Some(process) = self.processes.get_mut(&place.pid) else { return };
        process.activity += 1;
        if let Some(range) = process.ranges.get_mut(&place.region) {
            range.accessed = true;
        }
    }

    /// Whether a huge page backs a region.
    pub fn is_huge(&self, place: RegionAddress) -> bool {
        let range = self.processes.get(&place.pid).and_then(|process| process.ranges.get(&place.region));
        range.is_some_and(Range::is_huge)
    }

    /// Memory of a process in bytes.
    pub fn resident(&self, pid: Pid) -> u64 {
        let bytes = |range: &Range| match &range.memory {
            Memory::Huge(_) => REGION_BYTES,
            Memory::Base(_) => u64::from(range.used.count()) * PAGE_BYTES,
        };
        self.processes.get(&pid).map_or(0, |process| process.ranges.values().map(bytes).sum())
    }

    /// Whether faults take huge pages at once.
    pub fn is_greedy(&self) -> bool {
        self.greedy
    }

    fn range_mut(&mut self, place: RegionAddress) -> Option<&mut Range> {
        self.processes.get_mut(&place.pid)?.ranges.get_mut(&place.region)
    }
}

fn split_page(page: u64) -> (Region, u32) {
    (Region(page / u64::from(REGION_PAGES)), (page % u64::from(REGION_PAGES)) as u32)
}

fn give_all(physical: &mut Physical, memory: Memory) {
    match memory {
        Memory::Huge(block) => physical.give_huge(block),
        Memory::Base(frames) => frames.iter().flatten().for_each(|frame| physical.give_base(*frame)),
    }
}

fn look_at(range: &Range) -> RegionView {
    let backing = match &range.memory {
        Memory::Huge(_) => Backing::Huge,
        Memory::Base(_) => Backing::Base,
    };
    RegionView { used: range.used, backing, skip: range.skip }
}

impl ProcView for Machine {
    fn processes(&mut self) -> Vec<(Pid, u64)> {
        self.processes.iter().map(|(pid, process)| (*pid, process.shares)).collect()
    }

    fn look(&mut self, place: RegionAddress) -> Option<RegionView> {
        self.range_mut(place).map(|range| look_at(range))
    }

    fn next(&mut self, pid: Pid, from: Region) -> Option<(Region, RegionView)> {
        let mut ranges = self.processes.get(&pid)?.ranges.range(from..);
        ranges.find(|(_, range)| range.used.count() > 0).map(|(region, range)| (*region, look_at(range)))
    }

    fn huge(&mut self, pid: Pid) -> Vec<Region> {
        let Some(process) = self.processes.get(&pid) else { return Vec::new() };
        process.ranges.iter().filter(|(_, range)| range.is_huge()).map(|(region, _)| *region).collect()
    }

    fn promote(&mut self, place: RegionAddress) -> Outcome {
        let delay = self.delay;
        let refused = |refusal| Outcome { result: Err(refusal), took: Nanos::micros(1) };
        let Some(range) = self.processes.get_mut(&place.pid).and_then(|process| process.ranges.get_mut(&place.region))
        else {
            return refused(ChangeError::Gone);
        };
        if range.skip.is_some() || range.used.count() == 0 {
            return refused(ChangeError::Changed);
        }
        if range.pinned {
            return refused(ChangeError::Pinned);
        }
        self.promoted_mergeable += u64::from(range.mergeable);
        let Memory::Base(frames) = &mut range.memory else {
            return Outcome { result: Ok(()), took: Nanos(300) };
        };
        let Some(block) = self.physical.take_huge() else { return refused(ChangeError::NoContiguity) };
        frames.iter_mut().filter_map(Option::take).for_each(|frame| self.physical.give_base(frame));
        range.memory = Memory::Huge(block);
        range.accessed = true;
        Outcome { result: Ok(()), took: self.costs.promotion(range.used.count()) + delay }
    }

    fn demote(&mut self, place: RegionAddress) -> Outcome {
        let Some(range) = self.processes.get_mut(&place.pid).and_then(|process| process.ranges.get_mut(&place.region))
        else {
            return Outcome { result: Err(ChangeError::Gone), took: Nanos::micros(1) };
        };
        let Memory::Huge(block) = range.memory else {
            return Outcome { result: Ok(()), took: Nanos(300) };
        };
        let first = place.region.0 * u64::from(REGION_PAGES);
        self.physical.split(block, range.used, place.pid, first);
        let frame = |page: u32| range.used.has(page).then_some(Frame(block * REGION_PAGES + page));
        range.memory = Memory::Base((0..REGION_PAGES).map(frame).collect());
        Outcome { result: Ok(()), took: self.costs.demote }
    }

    fn activity(&mut self, pid: Pid) -> Option<u64> {
        self.processes.get(&pid).map(|process| process.activity)
    }

    fn clear_accessed(&mut self, pid: Pid, regions: &[Region]) {
        self.cleared += regions.len() as u64;
        for region in regions {
            if let Some(range) = self.range_mut(RegionAddress { pid, region: *region }) {
                range.accessed = false;
            }
        }
    }

    fn accessed(&mut self, pid: Pid, regions: &[Region]) -> Vec<Option<bool>> {
        let mut bit =
            |region: &Region| self.range_mut(RegionAddress { pid, region: *region }).map(|range| range.accessed);
        regions.iter().map(&mut bit).collect()
    }

    fn signals(&mut self) -> Vec<RegionAddress> {
        std::mem::take(&mut self.signals)
    }

    fn fragmentation(&mut self) -> f64 {
        self.said_fragmentation.unwrap_or_else(|| self.physical.free_blocks().fragmentation(0))
    }

    fn compact(&mut self, bytes_max: u64) -> u64 {
        self.compactions.push(self.now);
        let moved = self.physical.compact(bytes_max / PAGE_BYTES);
        for one in &moved {
            let ((pid, page), to) = (one.owner, one.to);
            let (region, at) = split_page(page);
            let range = self.range_mut(RegionAddress { pid, region }).expect("the owner of a frame is alive");
            let Memory::Base(frames) = &mut range.memory else { panic!("a base page of a huge range was moved") };
            frames[at as usize] = Some(to);
        }
        moved.len() as u64 * PAGE_BYTES
    }

    fn free_blocks(&mut self) -> u64 {
        self.physical.free_blocks().pages_from(HUGE_ORDER) / u64::from(REGION_PAGES)
    }

    fn listen(&mut self, on: bool) {
        self.listens = on;
        let is_well_used =
            |range: &Range| !range.is_huge() && !range.merged && range.used.count() >= self.promote.pages();
        for (pid, process) in self.processes.iter().filter(|_| on) {
            let regions = process.ranges.iter().filter(|(_, range)| is_well_used(range));
            self.signals.extend(regions.map(|(region, _)| RegionAddress { pid: *pid, region: *region }));
        }
    }

    fn set_greedy(&mut self, greedy: bool) {
        self.greedy = greedy;
    }

    fn sharable(&mut self, pid: Pid) -> Option<Vec<(Region, bool)>> {
        let process = self.processes.get(&pid).filter(|_| self.can_share)?;
        Some(process.ranges.iter().map(|(region, range)| (*region, range.is_huge())).collect())
    }

    fn mergeable(&mut self, pid: Pid) -> Vec<Region> {
        let Some(process) = self.processes.get(&pid) else { return Vec::new() };
        process.ranges.iter().filter(|(_, range)| range.mergeable).map(|(region, _)| *region).collect()
    }

    fn set_mergeable(&mut self, pid: Pid, from: Region, count: u64, mergeable: bool) -> bool {
        let Some(process) = self.processes.get_mut(&pid).filter(|_| self.can_share) else { return false };
        for (_, range) in process.ranges.range_mut(from..Region(from.0 + count)) {
            range.mergeable = mergeable;
            range.merged &= mergeable;
        }
        true
    }

    fn is_merged(&mut self, place: RegionAddress) -> bool {
        self.range_mut(place).is_some_and(|range| range.merged)
    }
}
