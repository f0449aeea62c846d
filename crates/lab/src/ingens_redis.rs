//! `ingens-redis`: memory and GETs of a real Redis after half and after 70 % of its keys were deleted, by what decides
//! about huge pages.
//!
//! Each server is filled, loses its keys and comes to rest under its own arm. Then all stand side by side without a
//! change, and short rounds of GETs go from one to the next. Speeds are compared within a round, since a shared host's
//! own speed moves by more from one second to the next than huge pages bring. `disable-thp no` holds in all of them,
//! and the greedy one must have huge pages. Greedy has khugepaged tuned fast, which fills up every region with a page
//! in it: its best speed. Speed is GETs by the server's own CPU time, of which its one thread uses all that it gets;
//! memory is what its control group is charged, with what was freed inside of huge pages. Keys are drawn as the
//! source's client does, `redis-benchmark -r`: from all that were ever stored, also deleted ones. For figures that end
//! in `_of_hits` from those that are there, so that each GET copies a value.

use std::path::Path;
use std::time::Duration;

use esker_base::Stream;
use esker_hugepage_linux::linux::system::faults_knob;

use crate::ingens::chase::access_ns;
use crate::ingens::redis::{PROGRAM, Redis};
use crate::ingens::settings::keep_memory;
use crate::ingens::{Arm, Manager, room, set, store_figures, wait_stable};
use esker_lab_kit::timing::{at_share, median};
use esker_lab_kit::{Figure, Lab, LabError, Peer, peer};

/// The project's own share, and the source's.
const DELETED: [f64; 2] = [0.5, 0.7];
/// What a key takes with its value, about.
const KEY_BYTES: u64 = 10_400;
/// Sizes at which the cost of accesses is shown: of what a quick run's keys take without their values (which is what
/// is dense at 90 %), and of its values.
const KEYS: usize = 16 << 20;
const VALUES: usize = 1 << 30;
const KHUGEPAGED: &str = "/sys/kernel/mm/transparent_hugepage/khugepaged";
/// A server whose huge pages have not changed for so long has come to rest.
const QUIET: Duration = Duration::from_secs(6);
const REST_MOST: Duration = Duration::from_secs(120);
/// In a server of mostly huge pages, at least this share of memory is in them.
const GREEDY_LEAST: f64 = 0.5;
/// The background scan is fast, so that what counts is where it ends.
const FAST: &str =
    "quantum = \"4GiB\"\nquantum_sleep = \"1s\"\nskip_after_miss = \"10s\"\ncpu_max = 1.0\npoll_cpu_max = 0.5\n";
const PERCENTS: [u32; 3] = [90, 70, 50];
/// A GET that finds its value takes so many times as long as the others do on average, about.
const HITS_LESS: usize = 3;

/// A server at rest, with the manager that decides about it.
struct Side {
    name: String,
    redis: Redis,
    _manager: Option<Manager>,
    bytes: f64,
    gets_s: Vec<f64>,
    hits_s: Vec<f64>,
    batches_ms: Vec<f64>,
}

struct Load {
    keys: Vec<u64>,
    alive: Vec<u64>,
    dead: Vec<u64>,
}

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let _kept = keep_memory(lab)?;
    let mut figures = Vec::new();
    for deleted in DELETED {
        figures.extend(self::figures(deleted == DELETED[1], &measure(deleted, lab)?));
    }
    figures.extend([saved("huge_saves_ns_of_keys", KEYS, lab)?, saved("huge_saves_ns_of_values", VALUES, lab)?]);
    Ok(figures)
}

/// All servers, with so much deleted.
fn measure(deleted: f64, lab: &Lab<'_>) -> Result<Vec<Side>, LabError> {
    let (keys, rounds, gets) = lab.scale((120_000, 40, 20_000), (400_000, 100, 40_000));
    let load = Load::new(keys, deleted, lab.seed);
    lab.say(format!("{:.0} % of {keys} keys are deleted", deleted * 100.0));
    room(2 * keys * KEY_BYTES, lab)?;
    let mut sides = vec![greedy(&load, lab)?];
    let held = Arm::Base.hold(lab)?;
    sides.push(side("base pages".to_string(), None, &load, lab)?);
    for percent in PERCENTS {
        sides.push(side(format!("at {percent} %"), Some(percent), &load, lab)?);
    }
    for round in 0..rounds {
        for turn in 0..sides.len() {
            let at = (round + turn) % sides.len();
            sides[at].read(&load, gets, lab.seed + round as u64)?;
        }
        let told = |side: &Side| format!("{} {:.0} ({:.0})", side.name, side.gets_s[round], side.hits_s[round]);
        let list: Vec<String> = sides.iter().map(told).collect();
        lab.say(format!("round {} of {rounds}, GETs (hits) per second of CPU: {}", round + 1, list.join(", ")));
    }
    drop(held);
    Ok(sides)
}

impl Load {
    fn new(keys: u64, deleted: f64, seed: u64) -> Load {
        let mut rng = Stream::named(seed, "ingens-redis");
        let (dead, alive) = (0..keys).partition(|_| rng.chance(deleted));
        Load { keys: (0..keys).collect(), alive, dead }
    }
}

/// Linux with huge pages on faults, and khugepaged tuned fast until it finds nothing more.
fn greedy(load: &Load, lab: &Lab<'_>) -> Result<Side, LabError> {
    let [pages, sleep, again] =
        ["pages_to_scan", "scan_sleep_millisecs", "alloc_sleep_millisecs"].map(|name| Path::new(KHUGEPAGED).join(name));
    let _held = set(lab, &[(faults_knob(), "always"), (&pages, "1000000"), (&sleep, "10"), (&again, "10")])?;
    let side = side("THP=always".to_string(), None, load, lab)?;
    let huge = side.redis.huge() as f64 / side.redis.charged() as f64;
    match huge >= GREEDY_LEAST {
        true => Ok(side),
        false => Err(peer::fault(PROGRAM, format!("only {:.0} % of it are huge pages with THP=always", huge * 100.0))),
    }
}

/// Fills a server, deletes, and waits until nothing changes any more.
fn side(name: String, percent: Option<u32>, load: &Load, lab: &Lab<'_>) -> Result<Side, LabError> {
    let mut redis = Redis::start(lab.scratch)?;
    let config = |percent: u32| format!("promote_percent = {percent}\ndemote_percent = {}\n{FAST}", percent - 5);
    let manager = percent.map(|percent| Manager::start(lab.scratch, redis.pid(), &config(percent))).transpose()?;
    redis.fill(load.keys.len() as u64)?;
    redis.delete(&load.dead)?;
    // Its own bookkeeping comes and goes.
    wait_stable(QUIET, REST_MOST, || (redis.huge() >> 21, redis.charged() >> 22), PartialEq::eq);
    let bytes = redis.charged() as f64;
    let (mib, huge) = (bytes / 1048576.0, redis.huge() >> 20);
    lab.say(format!("{name}: {mib:.0} MiB, {huge} MiB of them in huge pages"));
    Ok(Side { name, redis, _manager: manager, bytes, gets_s: Vec::new(), hits_s: Vec::new(), batches_ms: Vec::new() })
}

impl Side {
    /// A round of GETs of both kinds, the same for each server.
    fn read(&mut self, load: &Load, gets: usize, seed: u64) -> Result<(), LabError> {
        let mut rng = Stream::named(seed, "ingens-redis-gets");
        let rate = |gets: usize, cpu: Duration| gets as f64 / cpu.as_secs_f64();
        let (cpu, batches) = self.redis.read(&load.keys, gets, &mut rng)?;
        self.gets_s.push(rate(gets, cpu));
        self.batches_ms.extend(batches);
        let hits = gets / HITS_LESS;
        let (cpu, _) = self.redis.read(&load.alive, hits, &mut rng)?;
        self.hits_s.push(rate(hits, cpu));
        Ok(())
    }
}

/// GETs per second of CPU of a server, by round.
type Speeds = fn(&Side) -> &[f64];

const OF_ALL: Speeds = |side| &side.gets_s;
const OF_HITS: Speeds = |side| &side.hits_s;

/// Speed over another server's: the median of the rounds' ratios.
fn ratio(speeds: Speeds, side: &Side, other: &Side) -> f64 {
    median(speeds(side).iter().zip(speeds(other)).map(|(own, theirs)| own / theirs).collect())
}

const BASE_SPEED: &str = "base pages, GETs per second of CPU";
const SPEED: &str = "of greedy's gain in GETs per second of CPU";

/// Its part of greedy's gain.
fn gain(speeds: Speeds, side: &Side, base: &Side, greedy: &Side) -> f64 {
    (ratio(speeds, side, base) - 1.0) / (ratio(speeds, greedy, base) - 1.0)
}

fn figures(is_source: bool, sides: &[Side]) -> Vec<Figure> {
    let [greedy, base, at_90, at_70, at_50] = sides else { unreachable!("there are five servers") };
    let over = |side: &Side| side.bytes / base.bytes - 1.0;
    let arms = [at_90, at_70, at_50].map(|side| [over(side), gain(OF_ALL, side, base, greedy)]);
    let [first, second, third] = arms;
    let values = [first, second, third, [over(greedy), ratio(OF_ALL, greedy, base)]];
    let mut figures = store_figures(is_source, values, gain(OF_HITS, at_90, base, greedy), [SPEED, "ratio"]);
    if !is_source {
        let speed = |id, speeds, side| Figure::alone(id, ratio(speeds, side, base), "ratio");
        figures[7].peer = Some(Peer { name: BASE_SPEED.to_string(), value: median(base.gets_s.clone()) });
        figures.insert(8, speed("speed_over_base_at_90", OF_ALL, at_90));
        figures.push(speed("greedy_speed_over_base_of_hits", OF_HITS, greedy));
        let batches = [("base", base), ("at_90", at_90), ("at_70", at_70), ("at_50", at_50), ("greedy", greedy)];
        let batch = |(name, side): (&str, &Side)| {
            Figure::alone(format!("p999_{name}"), at_share(side.batches_ms.clone(), 0.999), "ms for 32 GETs")
        };
        figures.extend(batches.map(batch));
    }
    figures
}

/// What a huge page saves of an access that waits for the one before.
fn saved(id: &'static str, bytes: usize, lab: &Lab<'_>) -> Result<Figure, LabError> {
    let (base, huge) = access_ns(bytes, lab)?;
    let name = format!("an access to {} MiB in base pages, ns", bytes >> 20);
    Ok(Figure::alone(id, base - huge, "ns of an access that waits for the one before").peer(name, base))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_keys_are_deleted_in_each_server_and_about_as_many_as_asked() {
        let load = Load::new(10_000, 0.7, 1);
        assert_eq!(load.dead, Load::new(10_000, 0.7, 1).dead);
        assert_eq!(load.alive.len() + load.dead.len(), load.keys.len());
        assert!((6_800..7_200).contains(&load.dead.len()), "{}", load.dead.len());
    }
}
