//! `ingens-bloat`: memory and speed of a key-value store after many of its keys were deleted, by threshold. A model.
//!
//! The store keeps values of 8 KiB two to a run of five pages, as jemalloc does with its size class of 10,240 bytes,
//! and gives a run back when both are gone. What belongs to a key (entry, name, header of the value) lies 64 to a page.
//! The table of buckets is an array, a power of two long. The rest of its last region has another use.
//!
//! A GET reads a bucket, entry and name of each key of its chain until its own, and of a key that is there the header
//! and the three pages of the value. Each page costs what was measured for a dependent access over 1 GiB on Linux 6.18,
//! and the rest of the request takes 1 us. Keys are drawn as the source's client does, `redis-benchmark -r`: from all
//! that were ever stored, also deleted ones. Figures that end in `_of_hits` draw from those that are there, so that
//! each GET reads a value. Greedy is Linux with huge pages on faults and khugepaged behind, which fills up every region
//! with a page in it.

use std::collections::BTreeSet;

use esker_base::{Nanos, Stream};
use esker_hugepage::policy::Policy;
use esker_hugepage::sim::{Freeing, Machine};
use esker_hugepage::{Pid, ProcView, REGION_PAGES, Threshold};

use crate::ingens::managed::{BASE_NS, HUGE_NS, ManagedMachine, place};
use crate::ingens::store_figures;
use esker_lab_kit::{Figure, Lab, LabError};

/// Pages of a run of two values, and objects of 64 bytes in a page.
const RUN_PAGES: u64 = 5;
const SMALL_PER_PAGE: u64 = 64;
/// Small objects of a key: its entry, its name, the header of its value.
const SMALL_PER_KEY: u64 = 3;
const ENTRY: u64 = 0;
const NAME: u64 = 1;
const HEADER: u64 = 2;
const BUCKET_BYTES: u64 = 8;
/// The project's own share, and the source's.
const DELETED: [f64; 2] = [0.5, 0.7];
const REQUEST_NS: f64 = 1_000.0;

/// What decides about huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arm {
    /// Nothing: there are none.
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
    hits_s: f64,
}

/// The outcome of each arm; of the policy at 90, 70 and 50 %.
struct Outcomes {
    base: Outcome,
    greedy: Outcome,
    at: [Outcome; 3],
}

impl Outcomes {
    fn measure(keys: u64, deleted: f64, lab: &Lab<'_>) -> Outcomes {
        let of = |arm| {
            let outcome = measure(arm, keys, deleted, lab.seed);
            let Outcome { bytes, gets_s, hits_s } = outcome;
            let (percent, mib) = (deleted * 100.0, bytes / 1048576.0);
            let speed = format!("{gets_s:.0} GETs/s, {hits_s:.0} if all hit");
            lab.say(format!("{percent:.0} % deleted, {arm:?}: {mib:.0} MiB, {speed}"));
            outcome
        };
        Outcomes { base: of(Arm::Base), greedy: of(Arm::Greedy), at: [90, 70, 50].map(|at| of(Arm::Ingens(at))) }
    }

    fn over(&self, one: &Outcome) -> f64 {
        one.bytes / self.base.bytes - 1.0
    }

    fn gain(&self, one: &Outcome, speed: fn(&Outcome) -> f64) -> f64 {
        (speed(one) - speed(&self.base)) / (speed(&self.greedy) - speed(&self.base))
    }

    fn figures(&self, is_source: bool) -> Vec<Figure> {
        let [at_90, at_70, at_50] = self.at.map(|one| [self.over(&one), self.gain(&one, |one| one.gets_s)]);
        let greedy = [self.over(&self.greedy), self.greedy.gets_s / self.base.gets_s];
        let hits = self.gain(&self.at[0], |one| one.hits_s);
        store_figures(is_source, [at_90, at_70, at_50, greedy], hits, [SPEED, "ratio (model)"])
    }
}

const SPEED: &str = "of greedy's gain in GETs per second (model)";

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let keys = lab.scale(40_000, 200_000);
    let [half, source] = DELETED.map(|deleted| Outcomes::measure(keys, deleted, lab));
    Ok([half.figures(false), source.figures(true)].concat())
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

    /// The page of one of the small objects of a key.
    fn small(&self, key: u64, object: u64) -> u64 {
        self.small + (key * SMALL_PER_KEY + object) / SMALL_PER_PAGE
    }

    fn bucket(&self, bucket: u64) -> u64 {
        self.buckets + bucket * BUCKET_BYTES / 4096
    }
}

/// Which keys are there, and in which chain each is, was or would be.
struct Table {
    alive: Vec<u64>,
    bucket_of: Vec<u64>,
    chains: Vec<Vec<u64>>,
}

impl Table {
    fn new(keys: u64, deleted: f64, rng: &mut Stream) -> Table {
        let buckets = keys.next_power_of_two();
        let alive: Vec<u64> = (0..keys).filter(|_| !rng.chance(deleted)).collect();
        let bucket_of: Vec<u64> = (0..keys).map(|_| rng.below(buckets)).collect();
        let mut chains = vec![Vec::new(); buckets as usize];
        // A new key comes to the head of its chain.
        alive.iter().rev().for_each(|key| chains[bucket_of[*key as usize] as usize].push(*key));
        Table { alive, bucket_of, chains }
    }

    /// The pages that a GET reads.
    fn read(&self, layout: &Layout, key: u64) -> Vec<u64> {
        let bucket = self.bucket_of[key as usize];
        let mut pages = vec![layout.bucket(bucket)];
        for other in &self.chains[bucket as usize] {
            pages.extend([ENTRY, NAME].map(|object| layout.small(*other, object)));
            if *other == key {
                pages.push(layout.small(key, HEADER));
                pages.extend(layout.value(key));
                break;
            }
        }
        pages
    }
}

fn measure(arm: Arm, keys: u64, deleted: f64, seed: u64) -> Outcome {
    let layout = Layout::new(keys);
    let freeing = if arm == Arm::Greedy { Freeing::Splits } else { Freeing::Deferred };
    let regions = layout.end / u64::from(REGION_PAGES);
    let mut managed = ManagedMachine::new(2 * regions + 64, policy(arm), freeing, seed);
    if arm == Arm::Greedy {
        managed.machine.set_greedy(true);
    }
    let settle = |managed: &mut ManagedMachine, seconds: u64| {
        if arm != Arm::Base {
            managed.pass(Nanos::secs(seconds));
        }
    };
    let pid = managed.process(regions);
    settle(&mut managed, 30);
    let mut rng = Stream::named(seed, "ingens-bloat");
    let table = Table::new(keys, deleted, &mut rng);
    free_dead(&mut managed.machine, pid, &layout, &table.alive);
    settle(&mut managed, 60);
    let machine = &managed.machine;
    let all: Vec<u64> = (0..keys).collect();
    let mut speed = |drawn: &[u64]| speed(machine, pid, &layout, &table, drawn, &mut rng);
    Outcome { bytes: machine.resident(pid) as f64, gets_s: speed(&all), hits_s: speed(&table.alive) }
}

/// The background scan is fast, so that what counts is where it ends.
fn policy(arm: Arm) -> Policy {
    let (quantum_regions, quantum_sleep, skip_after_miss) = (4_096, Nanos::secs(1), Nanos::secs(20));
    let fast = |policy| Policy { quantum_regions, quantum_sleep, skip_after_miss, ..policy };
    let percent = |percent| Threshold::percent(percent).expect("the experiment's own thresholds");
    match arm {
        Arm::Base | Arm::Ingens(90) => fast(Policy::ingens()),
        Arm::Ingens(at) => fast(Policy { promote: percent(at), demote: percent(at - 5), ..Policy::ingens() }),
        Arm::Greedy => fast(Policy::khugepaged()),
    }
}

/// Gives back the pages on which nothing is alive.
fn free_dead(machine: &mut Machine, pid: Pid, layout: &Layout, alive: &[u64]) {
    let runs: BTreeSet<u64> = alive.iter().map(|key| key / 2).collect();
    for run in (0..layout.keys / 2).filter(|run| !runs.contains(run)) {
        (run * RUN_PAGES..(run + 1) * RUN_PAGES).for_each(|page| machine.free(pid, page));
    }
    let small = |key: u64| [ENTRY, NAME, HEADER].map(|object| layout.small(key, object));
    let kept: BTreeSet<u64> = alive.iter().flat_map(|key| small(*key)).collect();
    let all = layout.small(0, ENTRY)..=layout.small(layout.keys - 1, HEADER);
    all.filter(|page| !kept.contains(page)).for_each(|page| machine.free(pid, page));
}

/// GETs per second of random ones of the keys `drawn`.
fn speed(machine: &Machine, pid: Pid, layout: &Layout, table: &Table, drawn: &[u64], rng: &mut Stream) -> f64 {
    const GETS: u32 = 50_000;
    let is_huge = |page: u64| machine.is_huge(place(pid, page / u64::from(REGION_PAGES)));
    let cost = |page: u64| if is_huge(page) { HUGE_NS } else { BASE_NS };
    let mut ns = 0.0;
    for _ in 0..GETS {
        let key = drawn[rng.below(drawn.len() as u64) as usize];
        ns += table.read(layout, key).into_iter().map(cost).sum::<f64>() + REQUEST_NS;
    }
    f64::from(GETS) * 1e9 / ns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_grows_and_speed_too_as_the_threshold_falls() {
        let arms = [Arm::Base, Arm::Ingens(90), Arm::Ingens(70), Arm::Ingens(50), Arm::Greedy];
        let seen = arms.map(|arm| measure(arm, 20_000, DELETED[1], 1));
        assert!(seen.windows(2).all(|pair| pair[0].bytes <= pair[1].bytes), "{seen:?}");
        assert!(seen.windows(2).all(|pair| pair[0].gets_s <= pair[1].gets_s), "{seen:?}");
        assert!(seen.windows(2).all(|pair| pair[0].hits_s <= pair[1].hits_s), "{seen:?}");
        assert!(seen[1].bytes <= seen[0].bytes * 1.01 && seen[4].bytes > seen[0].bytes * 1.5, "{seen:?}");
    }
    #[test]
    fn a_get_reads_its_chain_up_to_its_key_and_a_value_only_if_it_is_there() {
        let layout = Layout::new(8);
        let chains = vec![vec![5, 2], vec![]];
        let table = Table { alive: vec![2, 5], bucket_of: vec![0, 1, 0, 0, 0, 0, 0, 0], chains };
        let read = |key| table.read(&layout, key).len();
        // Bucket, entry, name, header, three pages; behind another key two more; of a deleted key no value.
        assert_eq!([5, 2, 3, 1].map(read), [7, 9, 5, 1]);
    }
}
