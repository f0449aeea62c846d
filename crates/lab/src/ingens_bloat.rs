//! `ingens-bloat`: memory and speed of a key-value store after 70 % of its keys were deleted, by threshold. A model.
//!
//! The store keeps values of 8 KiB two to a run of five pages, as jemalloc does with its size class of 10,240 bytes, and
//! gives a run back when both are gone. What belongs to a key (entry, name, header of the value) lies 64 to a page; the
//! table of buckets is an array, a power of two long; the rest of its last region is used by something else. A GET reads a bucket, three small objects and the three pages of its value; each page
//! costs what was measured for a dependent access over 1 GiB on Linux 6.18, and the rest of the request takes 1 us.
//! Greedy is Linux with huge pages on faults and khugepaged behind, which fills up every region with a page in it.

use std::collections::BTreeMap;

use esker_base::{Nanos, Stream, Time};
use esker_hugepage::policy::Policy;
use esker_hugepage::sim::{self, Costs, Freeing, Machine, Physical};
use esker_hugepage::{Manager, Pid, Place, REGION_PAGES, Region, Threshold};

use crate::experiment::{Experiment, Figure, LabError, Options};

/// The record.
pub const EXPERIMENT: Experiment = Experiment {
    name: "ingens-bloat",
    summary: "Memory and speed of a modelled key-value store with 70 % of its keys deleted, by promotion threshold",
    source: "Ingens, tables of Redis' memory and throughput; the project's own bars: 1 % and 60 %",
    simulated: true,
    rivals: &[],
    run,
};

/// Pages of a run of two values, and objects of 64 bytes in a page.
const RUN_PAGES: u64 = 5;
const SMALL_PER_PAGE: u64 = 64;
/// Small objects of a key: its entry, its name, the header of its value.
const SMALL_PER_KEY: u64 = 3;
const BUCKET_BYTES: u64 = 8;
const DELETED: f64 = 0.7;
const BASE_NS: f64 = 182.2;
const HUGE_NS: f64 = 136.7;
const REQUEST_NS: f64 = 1_000.0;

/// Who decides about huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arm {
    /// Nobody: there are none.
    Base,
    /// The policy, at so many per cent.
    Ingens(i64),
    /// Linux.
    Greedy,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Outcome {
    bytes: f64,
    gets_s: f64,
}

fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Vec<Figure>, LabError> {
    let keys = if options.quick { 40_000 } else { 200_000 };
    let mut outcome = |arm| {
        let outcome = measure(arm, keys, options.seed);
        progress(&format!("{arm:?}: {:.0} MiB, {:.0} GETs/s", outcome.bytes / 1048576.0, outcome.gets_s));
        outcome
    };
    let (base, greedy) = (outcome(Arm::Base), outcome(Arm::Greedy));
    let over = |one: Outcome| one.bytes / base.bytes - 1.0;
    let gain = |one: Outcome| (one.gets_s - base.gets_s) / (greedy.gets_s - base.gets_s);
    let (at_90, at_70, at_50) = (outcome(Arm::Ingens(90)), outcome(Arm::Ingens(70)), outcome(Arm::Ingens(50)));
    let paper = |id, value, unit, paper| Figure { paper: Some(paper), ..Figure::alone(id, value, unit) };
    let (memory, speed) = ("of the memory in base pages, above it", "of greedy's gain in GETs per second (model)");
    // The source's tables, made relative: 12.2 GB and 19.0 k/s in base pages, 20.7 GB and 21.7 k/s greedy.
    Ok(vec![
        paper("memory_over_base_at_90", over(at_90), memory, 0.008),
        paper("gain_over_greedy_at_90", gain(at_90), speed, 0.70),
        paper("memory_over_base_at_70", over(at_70), memory, 0.057),
        paper("gain_over_greedy_at_70", gain(at_70), speed, 0.78),
        paper("memory_over_base_at_50", over(at_50), memory, 0.459),
        paper("gain_over_greedy_at_50", gain(at_50), speed, 0.96),
        paper("memory_over_base_greedy", over(greedy), memory, 0.697),
        paper("greedy_speed_over_base", greedy.gets_s / base.gets_s, "ratio (model)", 1.142),
    ])
}

/// Where a store keeps what.
#[derive(Clone, Copy)]
struct Layout {
    /// Keys.
    keys: u64,
    /// First page of the small objects.
    small: u64,
    /// First page of the buckets.
    buckets: u64,
    /// Page after the last one.
    end: u64,
}

impl Layout {
    fn new(keys: u64) -> Layout {
        let aligned = |page: u64| page.next_multiple_of(u64::from(REGION_PAGES));
        let small = aligned(keys / 2 * RUN_PAGES);
        let buckets = small + (keys * SMALL_PER_KEY).div_ceil(SMALL_PER_PAGE);
        Layout {
            keys,
            small,
            buckets,
            end: aligned(buckets + (keys.next_power_of_two() * BUCKET_BYTES).div_ceil(4096)),
        }
    }

    /// The pages of a value: of two in a run, the second begins in the middle of a page.
    fn value(&self, key: u64) -> std::ops::Range<u64> {
        let first = key / 2 * RUN_PAGES + key % 2 * 2;
        first..first + 3
    }

    fn small(&self, object: u64) -> u64 {
        self.small + object / SMALL_PER_PAGE
    }

    /// The pages that a GET reads.
    fn read(&self, key: u64, bucket: u64) -> impl Iterator<Item = u64> + use<> {
        let small = [0, 1, 2].map(|object| self.small(key * SMALL_PER_KEY + object));
        let bucket = self.buckets + bucket * BUCKET_BYTES / 4096;
        self.value(key).chain(small).chain([bucket])
    }
}

fn measure(arm: Arm, keys: u64, seed: u64) -> Outcome {
    let layout = Layout::new(keys);
    let policy = policy(arm);
    let freeing = if arm == Arm::Greedy { Freeing::Splits } else { Freeing::Deferred };
    let memory = Physical::new((layout.end / u64::from(REGION_PAGES)) as u32 * 2 + 64);
    let mut machine = Machine::new(memory, Costs::MEASURED, policy.promote, policy.demote, freeing);
    let mut manager = Manager::new(policy, seed);
    if arm == Arm::Greedy {
        esker_hugepage::ProcView::set_greedy(&mut machine, true);
    }
    let mut clock = Time(0);
    let mut settle = |machine: &mut Machine, seconds: u64| {
        let until = clock + Nanos::secs(seconds);
        if arm != Arm::Base {
            sim::run(&mut manager, machine, clock, until, &mut |_, _| {});
        }
        clock = until;
    };
    let pid = machine.spawn(10_000);
    for page in 0..layout.end {
        machine.touch(pid, page).expect("the machine was made large enough");
    }
    settle(&mut machine, 30);
    let mut rng = Stream::named(seed, "ingens-bloat");
    let alive: Vec<u64> = (0..layout.keys).filter(|_| !rng.chance(DELETED)).collect();
    free_dead(&mut machine, pid, &layout, &alive);
    settle(&mut machine, 60);
    Outcome { bytes: machine.resident(pid) as f64, gets_s: speed(&machine, pid, &layout, &alive, &mut rng) }
}

/// The background scan is fast, so that what counts is where it ends.
fn policy(arm: Arm) -> Policy {
    let (quantum_regions, quantum_sleep, exclusion) = (4_096, Nanos::secs(1), Nanos::secs(20));
    let fast = |policy| Policy { quantum_regions, quantum_sleep, exclusion, ..policy };
    let percent = |percent| Threshold::percent(percent).expect("the experiment's own thresholds");
    match arm {
        Arm::Base | Arm::Ingens(90) => fast(Policy::ingens()),
        Arm::Ingens(at) => fast(Policy { promote: percent(at), demote: percent(at - 5), ..Policy::ingens() }),
        Arm::Greedy => fast(Policy::khugepaged()),
    }
}

/// Gives back the pages on which nothing is alive.
fn free_dead(machine: &mut Machine, pid: Pid, layout: &Layout, alive: &[u64]) {
    let runs: BTreeMap<u64, ()> = alive.iter().map(|key| (key / 2, ())).collect();
    for run in (0..layout.keys / 2).filter(|run| !runs.contains_key(run)) {
        (run * RUN_PAGES..(run + 1) * RUN_PAGES).for_each(|page| machine.free(pid, page));
    }
    let objects = alive.iter().flat_map(|key| (0..SMALL_PER_KEY).map(move |object| key * SMALL_PER_KEY + object));
    let kept: BTreeMap<u64, ()> = objects.map(|object| (layout.small(object), ())).collect();
    let all = layout.small(0)..layout.small(layout.keys * SMALL_PER_KEY - 1) + 1;
    all.filter(|page| !kept.contains_key(page)).for_each(|page| machine.free(pid, page));
}

/// GETs per second over random keys.
fn speed(machine: &Machine, pid: Pid, layout: &Layout, alive: &[u64], rng: &mut Stream) -> f64 {
    const GETS: u32 = 50_000;
    let mut ns = 0.0;
    for _ in 0..GETS {
        let key = alive[rng.below(alive.len() as u64) as usize];
        let pages = layout.read(key, rng.below(layout.keys.next_power_of_two()));
        let region = |page: u64| Place { pid, region: Region(page / u64::from(REGION_PAGES)) };
        ns += pages.map(|page| if machine.is_huge(region(page)) { HUGE_NS } else { BASE_NS }).sum::<f64>() + REQUEST_NS;
    }
    f64::from(GETS) * 1e9 / ns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_grows_and_speed_too_as_the_threshold_falls() {
        let arms = [Arm::Base, Arm::Ingens(90), Arm::Ingens(70), Arm::Ingens(50), Arm::Greedy];
        let seen = arms.map(|arm| measure(arm, 20_000, 1));
        assert!(seen.windows(2).all(|pair| pair[0].bytes <= pair[1].bytes), "{seen:?}");
        assert!(seen.windows(2).all(|pair| pair[0].gets_s <= pair[1].gets_s), "{seen:?}");
        assert!(seen[1].bytes <= seen[0].bytes * 1.01 && seen[4].bytes > seen[0].bytes * 1.5, "{seen:?}");
    }
}
