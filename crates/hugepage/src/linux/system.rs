//! This machine as a [`ProcView`].

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use esker_base::Nanos;

use super::damon::Damon;
use super::faults::Faults;
use super::knobs::{KnobError, Knobs, Restored, read};
use super::select::{Rule, Selector};
use super::tracked::{Tracked, Use};
use crate::contiguity;
use crate::util::Threshold;
use crate::view::{Look, Outcome, Pid, Place, ProcView, Refusal, Region};
use crate::{PAGE_BYTES, REGION_BYTES};

/// Where faults of huge pages are allowed, for this size alone; before Linux 6.8 for all.
const FAULTS: [&str; 2] =
    ["/sys/kernel/mm/transparent_hugepage/hugepages-2048kB/enabled", "/sys/kernel/mm/transparent_hugepage/enabled"];
const COMPACT: &str = "/proc/sys/vm/compact_memory";
/// With that program, page tables are looked through so many times more seldom.
const SELDOM: u32 = 8;
/// Nice value of the manager: threads of others wait for the region that it holds, so that it must not wait for a CPU itself.
/// How much of one it takes, its own budget says.
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
    pub poll_share: f64,
    /// Whether faults are made to take base pages.
    pub base_faults: bool,
    /// Length of an interval of access bits; nothing: they are not watched.
    pub access_interval: Option<Nanos>,
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
    /// Nothing where the kernel takes no program: then page tables are looked through as often as configured.
    faults: Option<Faults>,
    /// Whether well used regions are signalled.
    listens: bool,
    /// Dropped, and thereby ended, before the settings are put back.
    damon: Option<Damon>,
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
        let (mut knobs, repaired) = Knobs::open(&settings.state)?;
        if settings.base_faults {
            knobs.set(faults_knob(), "never")?;
        }
        let mut troubles = Vec::new();
        if let Err(error) = rustix::process::setpriority_process(None, NICE) {
            troubles.push(format!("promotions may wait for a CPU: nice {NICE} is refused: {error}"));
        }
        let damon = match settings.access_interval {
            None => None,
            Some(interval) => match super::damon::is_free() {
                Ok(()) => Some(Damon::take(&mut knobs, Duration::from_nanos(interval.0))?),
                Err(why) => {
                    troubles.push(format!("DAMON cannot be used ({why}): all huge pages count as in use"));
                    None
                }
            },
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
            faults,
            listens: true,
            damon,
            knobs,
            repaired,
            troubles,
            polls: (0, Nanos(0)),
        })
    }

    /// Puts back what was set.
    pub fn close(&mut self) -> Vec<Restored> {
        self.damon = None;
        self.knobs.restore()
    }

    /// Begins what the last turn has asked for. To be called after each.
    pub fn settle(&mut self) {
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

    /// Use of every eligible region of a process.
    pub fn uses(&mut self, pid: Pid) -> Vec<Use> {
        self.tracked.get_mut(&pid).map(Tracked::uses).unwrap_or_default()
    }

    fn list(&mut self) {
        self.listed = Some(Instant::now());
        let selected = self.selector.list();
        let faults = &mut self.faults;
        self.tracked.retain(|pid, tracked| {
            let named = selected.iter().any(|one| one.pid == pid.0 && one.name == tracked.name);
            let stays = named && !tracked.has_ended();
            if let Some(faults) = faults.as_mut().filter(|_| !stays) {
                faults.forget(*pid);
            }
            stays
        });
        self.refused.retain(|pid, _| selected.iter().any(|one| one.pid == *pid));
        for one in selected {
            if self.tracked.contains_key(&Pid(one.pid)) || self.refused.contains_key(&one.pid) {
                continue;
            }
            match Tracked::open(one.pid, one.name, one.shares) {
                Ok(tracked) => self.track(Pid(one.pid), tracked),
                Err(error) => drop(self.refused.insert(one.pid, error.to_string())),
            }
        }
    }

    fn track(&mut self, pid: Pid, tracked: Tracked) {
        self.tracked.insert(pid, tracked);
        if let Some(Err(error)) = self.faults.as_mut().map(|faults| faults.watch(pid)) {
            self.troubles.push(format!("process {}: {error}", pid.0));
        }
    }

    /// Regions of which the program in the kernel says that enough was written.
    fn told(&mut self) -> Vec<Place> {
        let mut places = self.faults.as_mut().map(Faults::told).unwrap_or_default();
        places.retain(|place| self.tracked.get_mut(&place.pid).map(|tracked| tracked.expect(place.region)).is_some());
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

    fn look(&mut self, place: Place) -> Option<Look> {
        self.tracked.get_mut(&place.pid)?.look(place.region, self.kpageflags.as_ref())
    }

    fn next(&mut self, pid: Pid, from: Region) -> Option<(Region, Look)> {
        let region = self.tracked.get_mut(&pid)?.next(from)?;
        self.look(Place { pid, region }).map(|look| (region, look))
    }

    fn huge(&mut self, pid: Pid) -> Vec<Region> {
        self.tracked.get_mut(&pid).map(Tracked::huge).unwrap_or_default()
    }

    fn promote(&mut self, place: Place) -> Outcome {
        let gone = Outcome { result: Err(Refusal::Gone), took: Nanos(0) };
        self.tracked.get_mut(&place.pid).map_or(gone, |tracked| tracked.promote(place.region))
    }

    fn demote(&mut self, place: Place) -> Outcome {
        let gone = Outcome { result: Err(Refusal::Gone), took: Nanos(0) };
        let flags = self.kpageflags.as_ref();
        self.tracked.get_mut(&place.pid).map_or(gone, |tracked| tracked.demote(place.region, flags))
    }

    fn activity(&mut self, pid: Pid) -> Option<u64> {
        self.tracked.get(&pid)?.activity()
    }

    fn clear_accessed(&mut self, pid: Pid, regions: &[Region]) {
        let (Some(damon), Some(tracked)) = (&mut self.damon, self.tracked.get(&pid)) else { return };
        for (region, physical) in regions.iter().zip(tracked.physical(regions)) {
            if let Some(physical) = physical.filter(|physical| physical.is_multiple_of(REGION_BYTES)) {
                damon.ask(Place { pid, region: *region }, physical);
            }
        }
    }

    fn accessed(&mut self, pid: Pid, regions: &[Region]) -> Vec<Option<bool>> {
        let mut bit = |region: &Region| self.damon.as_mut()?.bit(Place { pid, region: *region });
        regions.iter().map(&mut bit).collect()
    }

    /// What the kernel tells, and what is found in the tables of processes that had faults.
    fn signals(&mut self) -> Vec<Place> {
        let mut places = self.told();
        let times = if self.faults.is_some() { SELDOM } else { 1 };
        // No region has more pages than it has; what was freed is still seen.
        let pages = if self.listens { self.settings.promote.pages() } else { u32::MAX };
        for (pid, tracked) in &mut self.tracked {
            let begun = Instant::now();
            if begun < tracked.next_poll {
                continue;
            }
            let new = tracked.newly_used(pages);
            places.extend(new.into_iter().map(|region| Place { pid: *pid, region }));
            let took = begun.elapsed();
            self.polls = (self.polls.0 + 1, self.polls.1 + Nanos(took.as_nanos() as u64));
            let rest = took.div_f64(self.settings.poll_share).max(Duration::from_nanos(self.settings.poll.0) * times);
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

    /// While nobody listens, faults cost what they cost without the program in the kernel.
    fn listen(&mut self, on: bool) {
        if on == self.listens {
            return;
        }
        self.listens = on;
        if let Some(Err(error)) = self.faults.as_mut().map(|faults| faults.listen(on)) {
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

/// Bytes of free memory in blocks of huge pages, after the kernel was asked to compact memory if they were fewer than `wanted`.
/// For tests and experiments, which would otherwise show a lack of such blocks and nothing else.
pub fn huge_blocks(wanted: u64) -> u64 {
    let found = blocks_now();
    if found >= wanted {
        return found;
    }
    // All that it may do is to help; what counts is looked at.
    let _tried = fs::write("/proc/sys/vm/compact_memory", "1");
    blocks_now()
}

/// Bytes of free memory in blocks of huge pages.
fn blocks_now() -> u64 {
    let text = fs::read_to_string("/proc/buddyinfo").unwrap_or_default();
    let zones = contiguity::parse_buddyinfo(&text);
    zones.iter().map(|(_, blocks)| blocks.pages_from(contiguity::HUGE_ORDER) * PAGE_BYTES).sum()
}
