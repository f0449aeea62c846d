//! This machine as a [`ProcView`].

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use esker_base::Nanos;

use super::damon::Damon;
use super::faults::{Ear, Faults};
use super::groups::{Held, Hierarchy};
use super::knobs::{KnobError, Knobs, PutBack, Restored, read};
use super::merging::{self, Merging};
use super::rights;
use super::select::{Rule, Selector};
use super::source::{self, Source};
use super::tracked::{Tracked, Use};
use super::young::Young;
use esker_hugepage::contiguity;
use esker_hugepage::utilisation::Threshold;
use esker_hugepage::view::{ChangeError, Outcome, Pid, ProcView, Region, RegionAddress, RegionView};
use esker_hugepage::{PAGE_BYTES, REGION_BYTES};

/// Where faults of huge pages are allowed, for this size alone; before Linux 6.8 for all.
const FAULTS: [&str; 2] =
    ["/sys/kernel/mm/transparent_hugepage/hugepages-2048kB/enabled", "/sys/kernel/mm/transparent_hugepage/enabled"];
const COMPACT: &str = "/proc/sys/vm/compact_memory";
/// With that program, page tables are looked through so many times more seldom.
const SELDOM: u32 = 8;
/// Nice value of the manager: threads of others wait for the region that it holds, so that it must not wait for a CPU
/// itself. How much of one it takes, its own budget says.
const NICE: i32 = -10;
/// Processes are looked for so often.
const LISTED_EVERY: Duration = Duration::from_secs(1);

/// How this machine is watched.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which processes.
    pub rules: Vec<Rule>,
    /// Use from which a region is signalled.
    pub promote: Threshold,
    /// A process with faults is looked through so often, or eight times more seldom where the kernel tells of faults.
    pub poll: Nanos,
    /// But that takes no more than this share of a CPU.
    pub poll_cpu_max: f64,
    /// Whether faults are made to take base pages.
    pub base_faults: bool,
    /// Length of an interval of access bits; nothing: they are not watched.
    pub access_interval: Option<Nanos>,
    /// Where access bits come from.
    pub access: Source,
    /// How pages are shared; nothing: the manager has nothing to do with that.
    pub merging: Option<merging::Settings>,
    /// Where what was changed is written down.
    pub state: PathBuf,
}

/// This machine.
#[derive(Debug)]
pub struct System {
    settings: Settings,
    selector: Selector,
    listed: Option<Instant>,
    tracked: BTreeMap<Pid, Tracked>,
    /// Processes that could not be taken, with the reason.
    pub refused: BTreeMap<u32, String>,
    kpageflags: Option<File>,
    /// Control groups of memory, where there are any.
    groups: Option<Hierarchy>,
    /// Nothing where the kernel takes no program: then page tables are looked through as often as configured.
    faults: Option<Faults>,
    /// Regions that the program in the kernel has told and that no task has read since.
    asked: BTreeSet<RegionAddress>,
    /// Whether well used regions are signalled.
    listens: bool,
    /// Dropped, and thereby ended, before the settings are put back.
    damon: Option<Damon>,
    young: Option<Young>,
    merging: Option<Merging>,
    knobs: Knobs,
    /// What an earlier manager had left changed.
    pub repaired: Vec<Restored>,
    /// What is not as it was asked for, for a log.
    pub troubles: Vec<String>,
    /// Looks through page tables, and the time that they took.
    pub polls: (u64, Nanos),
}

impl System {
    /// Takes what is needed, and puts back what a killed predecessor left changed.
    ///
    /// # Errors
    /// [`KnobError`].
    pub fn open(settings: Settings) -> Result<System, KnobError> {
        if let Some(missing) = rights::missing() {
            return Err(KnobError::Rights(missing));
        }
        let (mut knobs, repaired) = Knobs::open(&settings.state)?;
        if settings.base_faults {
            knobs.set(faults_knob(), "never")?;
        }
        let mut troubles = Vec::new();
        if let Err(error) = rustix::process::setpriority_process(None, NICE) {
            troubles.push(format!("promotions may wait for a CPU: nice {NICE} is refused: {error}"));
        }
        let (damon, young) = source::open(&settings, &mut knobs, &mut troubles)?;
        let merging = match &settings.merging {
            None => None,
            Some(wanted) => Some(Merging::open(wanted, &mut knobs)?),
        };
        let faults = match Faults::start(settings.promote.pages()) {
            Ok(faults) => Some(faults),
            Err(error) => {
                troubles.push(format!(
                    "no signal of faults from the kernel, page tables are looked through instead: {error}"
                ));
                None
            }
        };
        let kpageflags = File::open("/proc/kpageflags").ok();
        if kpageflags.is_none() {
            troubles
                .push("/proc/kpageflags cannot be read: huge pages that are mapped in parts are not seen".to_string());
        }
        Ok(System {
            selector: Selector::new(settings.rules.clone()),
            settings,
            listed: None,
            tracked: BTreeMap::new(),
            refused: BTreeMap::new(),
            kpageflags,
            groups: Hierarchy::find(),
            faults,
            asked: BTreeSet::new(),
            listens: true,
            damon,
            young,
            merging,
            knobs,
            repaired,
            troubles,
            polls: (0, Nanos(0)),
        })
    }

    /// What puts settings back from another thread.
    pub fn put_back(&self) -> PutBack {
        self.knobs.put_back()
    }

    /// Puts back what was set.
    pub fn close(&mut self) -> Vec<Restored> {
        self.damon = None;
        self.merging = None;
        self.knobs.restore()
    }

    /// Begins what the last turn has asked for. To be called after each.
    pub fn begin_sampling(&mut self) {
        let Some(damon) = &mut self.damon else { return };
        damon.begin();
        if let Some(trouble) = damon.trouble.take() {
            self.troubles.push(format!("DAMON: {trouble}"));
        }
    }

    /// Time until signals are worth asking for.
    pub fn next_poll(&self) -> Nanos {
        let now = Instant::now();
        let next = self.tracked.values().map(|tracked| tracked.next_poll.saturating_duration_since(now)).min();
        next.map_or(self.settings.poll, |next| Nanos(next.as_nanos() as u64)).max(Nanos::millis(1))
    }

    /// Has something to read as soon as signals are worth asking for, where the kernel tells of faults.
    pub fn bell(&self) -> Option<Arc<OwnedFd>> {
        self.faults.as_ref().map(Faults::bell)
    }

    /// The name of a process.
    pub fn name(&self, pid: Pid) -> Option<&str> {
        self.tracked.get(&pid).map(|tracked| tracked.name.as_str())
    }

    /// Bytes of a process that are in memory.
    pub fn resident(&self, pid: Pid) -> u64 {
        self.tracked.get(&pid).map_or(0, Tracked::resident)
    }

    /// Use of every eligible region of a process.
    pub fn uses(&mut self, pid: Pid) -> Vec<Use> {
        self.tracked.get_mut(&pid).map(Tracked::uses).unwrap_or_default()
    }

    /// The control groups of memory that managed processes are in, with those processes.
    pub fn groups(&self) -> Vec<(String, Held, Vec<Pid>)> {
        let Some(groups) = &self.groups else { return Vec::new() };
        let mut members: BTreeMap<String, Vec<Pid>> = BTreeMap::new();
        for pid in self.tracked.keys() {
            groups.of_process(pid.0).into_iter().for_each(|group| members.entry(group).or_default().push(*pid));
        }
        members.into_iter().filter_map(|(group, pids)| Some((group.clone(), groups.held(&group)?, pids))).collect()
    }

    fn list(&mut self) {
        self.listed = Some(Instant::now());
        let selected = self.selector.list();
        let System { faults, young, merging, asked, .. } = self;
        let mut left = BTreeSet::new();
        self.tracked.retain(|pid, tracked| {
            let named = selected.iter().any(|one| one.pid == pid.0 && one.name == tracked.name);
            let stays = named && !tracked.has_ended() && tracked.has_its_memory();
            if !stays {
                left.insert(pid.0);
                faults.iter_mut().for_each(|faults| faults.forget(*pid));
                asked.retain(|place| place.pid != *pid);
                young.iter_mut().for_each(|young| young.forget(*pid));
                merging.iter_mut().for_each(|merging| merging.door.forget(*pid));
            }
            stays
        });
        self.refused.retain(|pid, _| selected.iter().any(|one| one.pid == *pid));
        for one in selected {
            // A process that executes another program counts as another process, which is met at the next look: nothing
            // of the one before is kept.
            let is_known = self.tracked.contains_key(&Pid(one.pid)) || left.contains(&one.pid);
            if is_known || self.refused.contains_key(&one.pid) {
                continue;
            }
            match Tracked::open(one.pid, one.name, one.shares) {
                Ok(tracked) => self.track(Pid(one.pid), tracked),
                Err(error) => drop(self.refused.insert(one.pid, error.to_string())),
            }
        }
        self.admit();
    }

    /// Takes connections of preloaded libraries, and learns what their processes have marked already.
    fn admit(&mut self) {
        let System { merging: Some(merging), tracked, .. } = self else { return };
        for pid in merging.door.admit(Instant::now(), |pid| tracked.contains_key(&pid)) {
            let Some(tracked) = self.tracked.get_mut(&pid) else { continue };
            tracked.learn_mergeable();
            let regions: Vec<Region> = tracked.mergeable.iter().copied().collect();
            regions.into_iter().for_each(|region| {
                watch_writes(&mut self.faults, &mut self.troubles, RegionAddress { pid, region }, true)
            });
        }
    }

    /// What sharing saves on this machine; nothing if the manager has nothing to do with it.
    pub fn saved(&self) -> Option<merging::Saved> {
        self.merging.as_ref().map(Merging::saved)
    }

    /// Bytes of a process that may be shared, that are, and what that saves it; nothing without the library.
    pub fn shared(&self, pid: Pid) -> Option<(u64, u64, i64)> {
        let tracked = self.tracked.get(&pid).filter(|_| self.has_library(pid))?;
        let (merged, profit) = merging::of_process(pid.0);
        Some((tracked.mergeable.len() as u64 * REGION_BYTES, merged, profit))
    }

    fn has_library(&self, pid: Pid) -> bool {
        self.merging.as_ref().is_some_and(|merging| merging.door.has(pid))
    }

    fn track(&mut self, pid: Pid, tracked: Tracked) {
        self.tracked.insert(pid, tracked);
        if let Some(Err(error)) = self.faults.as_mut().map(|faults| faults.watch(pid)) {
            self.troubles.push(format!("process {}: {error}", pid.0));
        }
    }

    /// Regions of which the program in the kernel says that enough was written.
    fn told(&mut self) -> Vec<RegionAddress> {
        let mut places = self.faults.as_mut().map(Faults::told).unwrap_or_default();
        places.retain(|place| self.tracked.get_mut(&place.pid).map(|tracked| tracked.expect(place.region)).is_some());
        self.asked.extend(&places);
        places
    }
}

/// The setting that decides how faults are served.
pub fn faults_knob() -> &'static Path {
    FAULTS.iter().map(Path::new).find(|path| path.is_file()).unwrap_or(Path::new(FAULTS[1]))
}

impl ProcView for System {
    fn processes(&mut self) -> Vec<(Pid, u64)> {
        if self.listed.is_none_or(|at| at.elapsed() >= LISTED_EVERY) {
            self.list();
        }
        self.tracked.iter().map(|(pid, tracked)| (*pid, tracked.shares)).collect()
    }

    fn look(&mut self, place: RegionAddress) -> Option<RegionView> {
        let look = self.tracked.get_mut(&place.pid)?.look(place.region, self.kpageflags.as_ref())?;
        if self.asked.remove(&place)
            && look.used.count() < self.settings.promote.pages()
            && let Some(faults) = &mut self.faults
        {
            faults.correct(place, &look.used);
        }
        Some(look)
    }

    fn next(&mut self, pid: Pid, from: Region) -> Option<(Region, RegionView)> {
        let region = self.tracked.get_mut(&pid)?.next(from)?;
        self.look(RegionAddress { pid, region }).map(|look| (region, look))
    }

    fn huge(&mut self, pid: Pid) -> Vec<Region> {
        self.tracked.get_mut(&pid).map(Tracked::huge).unwrap_or_default()
    }

    fn promote(&mut self, place: RegionAddress) -> Outcome {
        let gone = Outcome { result: Err(ChangeError::Gone), took: Nanos(0) };
        let outcome = self.tracked.get_mut(&place.pid).map_or(gone, |tracked| tracked.promote(place.region));
        if outcome.result.is_ok() {
            self.faults.iter_mut().for_each(|faults| faults.forget_region(place));
        }
        outcome
    }

    fn demote(&mut self, place: RegionAddress) -> Outcome {
        let gone = Outcome { result: Err(ChangeError::Gone), took: Nanos(0) };
        let flags = self.kpageflags.as_ref();
        self.tracked.get_mut(&place.pid).map_or(gone, |tracked| tracked.demote(place.region, flags))
    }

    fn activity(&mut self, pid: Pid) -> Option<u64> {
        self.tracked.get(&pid)?.activity()
    }

    fn clear_accessed(&mut self, pid: Pid, regions: &[Region]) {
        let Some(tracked) = self.tracked.get(&pid) else { return };
        if self.young.is_some() {
            tracked.clear_accessed(regions);
        }
        let Some(damon) = &mut self.damon else { return };
        for (region, physical) in regions.iter().zip(tracked.physical(regions)) {
            if let Some(physical) = physical.filter(|physical| physical.is_multiple_of(REGION_BYTES)) {
                damon.ask(RegionAddress { pid, region: *region }, physical);
            }
        }
    }

    fn accessed(&mut self, pid: Pid, regions: &[Region]) -> Vec<Option<bool>> {
        let System { young, damon, tracked, .. } = self;
        match (young, damon, tracked.get(&pid)) {
            (Some(young), _, Some(tracked)) => young.accessed(pid, regions, tracked.table()),
            (None, Some(damon), _) => {
                regions.iter().map(|region| damon.bit(RegionAddress { pid, region: *region })).collect()
            }
            _ => vec![None; regions.len()],
        }
    }

    /// What the kernel tells, and what is found in the tables of processes that had faults.
    fn signals(&mut self) -> Vec<RegionAddress> {
        let mut places = self.told();
        let times = if self.faults.is_some() { SELDOM } else { 1 };
        let pages = self.listens.then(|| self.settings.promote.pages());
        for (pid, tracked) in &mut self.tracked {
            let begun = Instant::now();
            if begun < tracked.next_poll {
                continue;
            }
            let mut new = tracked.newly_used(pages);
            // What the kernel has split to share its pages has not come to be used.
            let flags = self.kpageflags.as_ref();
            new.retain(|region| {
                !flags.is_some_and(|flags| tracked.mergeable.contains(region) && tracked.is_merged(*region, flags))
            });
            if let (None, Some(flags)) = (&self.faults, flags) {
                new.extend(tracked.newly_private(flags));
            }
            places.extend(new.into_iter().map(|region| RegionAddress { pid: *pid, region }));
            let took = begun.elapsed();
            self.polls = (self.polls.0 + 1, self.polls.1 + Nanos(took.as_nanos() as u64));
            let rest = took.div_f64(self.settings.poll_cpu_max).max(Duration::from_nanos(self.settings.poll.0) * times);
            tracked.next_poll = Instant::now() + rest;
        }
        places
    }

    fn fragmentation(&mut self) -> f64 {
        fragmentation_now()
    }

    /// The kernel knows no bound: all of memory is compacted.
    fn compact(&mut self, _: u64) -> u64 {
        let moved = || {
            let text = fs::read_to_string("/proc/vmstat").unwrap_or_default();
            let count = text.lines().find_map(|line| line.strip_prefix("pgmigrate_success "));
            count.and_then(|count| count.parse::<u64>().ok()).unwrap_or(0)
        };
        let before = moved();
        if let Err(error) = fs::write(COMPACT, "1") {
            self.troubles.push(format!("{COMPACT}: {error}"));
        }
        moved().saturating_sub(before) * PAGE_BYTES
    }

    fn free_blocks(&mut self) -> u64 {
        blocks_now() / REGION_BYTES
    }

    /// Without a listener, faults cost what they cost without the program in the kernel, but for writes to shared
    /// pages.
    fn listen(&mut self, on: bool) {
        if on == self.listens {
            return;
        }
        self.listens = on;
        let ear = match (on, &self.merging) {
            (true, _) => Ear::All,
            (false, Some(_)) => Ear::Shared,
            (false, None) => Ear::Nothing,
        };
        if let Some(Err(error)) = self.faults.as_mut().map(|faults| faults.listen(ear)) {
            self.troubles.push(format!("the program in the kernel: {error}"));
        }
        if on {
            self.tracked.values_mut().for_each(Tracked::look_again);
        }
    }

    fn set_greedy(&mut self, greedy: bool) {
        if let Err(error) = self.knobs.set(faults_knob(), if greedy { "always" } else { "never" }) {
            self.troubles.push(error.to_string());
        }
    }

    fn sharable(&mut self, pid: Pid) -> Option<Vec<(Region, bool)>> {
        let is_there = self.has_library(pid);
        let tracked = self.tracked.get_mut(&pid).filter(|_| is_there)?;
        Some(tracked.uses().into_iter().map(|one| (one.region, one.huge)).collect())
    }

    fn mergeable(&mut self, pid: Pid) -> Vec<Region> {
        self.tracked.get(&pid).map(|tracked| tracked.mergeable.iter().copied().collect()).unwrap_or_default()
    }

    fn set_mergeable(&mut self, pid: Pid, from: Region, count: u64, mergeable: bool) -> bool {
        let (Some(merging), Some(tracked)) = (&mut self.merging, self.tracked.get_mut(&pid)) else { return false };
        let range = (from.0 * REGION_BYTES, count * REGION_BYTES);
        if let Err(error) = merging.door.advise(pid, range, mergeable) {
            self.troubles.push(format!("process {}: its memory stays as it is for sharing: {error}", pid.0));
            return false;
        }
        for region in (from.0..from.0 + count).map(Region) {
            let is_new = if mergeable { tracked.mergeable.insert(region) } else { tracked.mergeable.remove(&region) };
            if is_new {
                watch_writes(&mut self.faults, &mut self.troubles, RegionAddress { pid, region }, mergeable);
            }
        }
        true
    }

    fn is_merged(&mut self, place: RegionAddress) -> bool {
        let (Some(flags), Some(tracked)) = (&self.kpageflags, self.tracked.get(&place.pid)) else { return false };
        tracked.is_merged(place.region, flags)
    }
}

/// Has the kernel tell of writes to shared pages of a region, or no longer.
fn watch_writes(faults: &mut Option<Faults>, troubles: &mut Vec<String>, place: RegionAddress, mergeable: bool) {
    if let Some(Err(error)) = faults.as_mut().map(|faults| faults.set_mergeable(place, mergeable)) {
        troubles.push(format!("process {}: writes to shared pages are not told: {error}", place.pid.0));
    }
}

/// The setting of faults now, for `doctor`.
pub fn faults_now() -> Option<String> {
    read(faults_knob()).ok()
}

/// How fragmented free memory is, from 0 to 1.
pub fn fragmentation_now() -> f64 {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    contiguity::fragmentation_of(&read("/proc/buddyinfo"), &read("/proc/zoneinfo"), &read("/proc/meminfo"))
}

/// Bytes of free memory in blocks of huge pages. If they are fewer than `wanted`, the kernel compacts memory first; if
/// that does not suffice, it gives up its clean caches too. For tests and experiments, which would otherwise show a
/// lack of such blocks and nothing else.
pub fn huge_blocks(wanted: u64) -> u64 {
    // What the kernel gives is looked at afterwards: a knob that refuses is no error.
    let turn = |knob: &str, value: &str| drop(fs::write(format!("/proc/sys/vm/{knob}"), value));
    if blocks_now() < wanted {
        turn("compact_memory", "1");
    }
    if blocks_now() < wanted {
        // The caches keep what is dirty.
        rustix::fs::sync();
        turn("drop_caches", "3");
        turn("compact_memory", "1");
    }
    blocks_now()
}

/// Bytes of free memory in blocks of huge pages.
fn blocks_now() -> u64 {
    let text = fs::read_to_string("/proc/buddyinfo").unwrap_or_default();
    let zones = contiguity::parse_buddyinfo(&text);
    zones.iter().map(|(_, blocks)| blocks.pages_from(contiguity::HUGE_ORDER) * PAGE_BYTES).sum()
}
