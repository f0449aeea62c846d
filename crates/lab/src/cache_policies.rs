//! `cache-policies`: hits of eviction policies on traces, against the bound of all, and their speed against
//! libCacheSim.
//!
//! *Hits.* Each policy plays the recorded traces of the project in lines of 4 KiB. It also plays hours of a generated
//! week of servers in lines of 16 KiB. Caches have 0.1, 1 and 10 % of the lines that a trace uses.
//! `TRACE_SIZE_POLICY_over_lru` is the hit ratio over that of LRU, with LRU's beside it. `below_opt` counts runs with
//! fewer misses than Belady's OPT, which no right policy has. `brute_force_mismatches` counts uses of which a policy
//! and its second form, written from its paper, say different things. The first uses of each load are played in small
//! caches, because the second forms look through all keys. `ghost_fingerprint_loss` is the largest loss of hit ratio of
//! S3-FIFO with ghosts of five bytes, as the kind `cache` has them, over all loads and sizes.
//!
//! `mq_over_lru_least` is the least ratio of hits of MQ and LRU over the periods of 12 hours of the generated week. The
//! cache has a hundredth of the thesis' 100 GB for a hundredth of its requests.
//!
//! *Speed.* libCacheSim's Python wheel runs one policy over one file in a process of its own. The requests follow
//! Zipf's law over a million keys, the cache has 100,000 lines. Both read the same records of 24 bytes. CPU time
//! counts, that of reading included. The rival's table is as small as the cache, which is its fastest setting: its
//! default of 2^24 places halves its rate. `hit_difference_libcachesim` is the largest difference of hit ratios.
//! Without the wheel these figures are absent: the others are reported, the run fails, and says how to install it.

use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::Path;

use esker_caching::policies::{Arc, Lru, Mq, S3Fifo, Sieve};
use esker_caching::policy::MakePolicy;
use esker_caching::{NAMED, Policy, Simulator, SimulatorTally, models, opt};
use esker_lab_kit::cpu_time::CpuTime;
use esker_lab_kit::timing::{in_turns, median, over, worst};
use esker_lab_kit::{Figure, Lab, LabError, peer};
use serde::Deserialize;

use crate::cache_loads::{self, CacheLoad, for_each_record, uses_of};

/// Lines and uses with which second forms are compared.
const BRUTE_LINES: [u32; 2] = [50, 400];
const BRUTE_USES: usize = 40_000;
const RIVAL: &str = "libcachesim";
const PYTHON: &str = "python3";
const SCRIPT: &str = include_str!("cache_policies/libcachesim.py");
const NO_RIVAL: &str = "the Python package libcachesim is not installed, so the figures beside libCacheSim cannot be measured; \
                        run python3 -m pip install libcachesim, and have that python3 on the PATH";

/// Sizes in thousandths of the lines that are used, and the word for them.
const SIZES: [(u64, &str); 3] = [(1, "01"), (10, "1"), (100, "10")];

/// Lines of the thesis' comparison of MQ with LRU, its cache in bytes, and its period.
const MQ_LINE: u32 = 16 << 10;
const MQ_CACHE: f64 = 100e9;
const PERIOD_HOURS: u64 = 12;
const PERIOD: u64 = PERIOD_HOURS * 3_600_000_000_000;

/// Keys and lines of the race.
const KEYS: u32 = 1_000_000;
const LINES: u32 = 100_000;
/// The logarithm of the places of the rival's table.
const POWER: u32 = 17;

/// Bytes of a record of libCacheSim's own format, and those of the key in it.
const RECORD: usize = 24;
const KEY: std::ops::Range<usize> = 4..12;
/// Records that are decoded at once.
const BATCH: usize = 1 << 12;

/// How the rival's version is asked for.
const VERSION: &str = "import importlib.metadata as found; print(found.version('libcachesim'))";

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let hours = lab.scale(24.0, 168.0);
    let mut loads = cache_loads::recorded(4096, lab)?;
    loads.push(cache_loads::week(hours, MQ_LINE, lab)?);
    let (mut figures, mut below, mut mismatches, mut loss) = (Vec::new(), 0, 0, f64::MIN);
    for load in &loads {
        let (of_load, below_opt) = hits(load, lab);
        figures.extend(of_load);
        below += below_opt;
        mismatches += brute_force_mismatches(load);
        loss = fingerprint_losses(load).fold(loss, f64::max);
    }
    let checks = [
        Figure::alone("below_opt", below as f64, "runs"),
        Figure::alone("brute_force_mismatches", mismatches as f64, "uses"),
        Figure::alone("ghost_fingerprint_loss", loss, "hit ratio, the largest difference"),
    ];
    figures.splice(0..0, checks);
    figures.push(mq_over_lru(hours, lab)?);
    match peer::output(PYTHON, &["-I", "-c", VERSION]) {
        Ok(version) => figures.extend(race(version.trim(), lab)?),
        Err(_) => return Err(LabError::Absent { figures, why: NO_RIVAL.to_string() }),
    }
    Ok(figures)
}

/// Hits of all policies on a load, over LRU's, and the number of runs with fewer misses than the bound.
fn hits(load: &CacheLoad, lab: &Lab<'_>) -> (Vec<Figure>, usize) {
    let keys: Vec<u64> = load.uses.iter().map(|line| line.key).collect();
    let (mut figures, mut below) = (Vec::new(), 0);
    for (thousandths, word) in SIZES {
        let lines = (load.footprint * thousandths / 1000).max(1) as u32;
        let least = opt::misses(&keys, lines as usize);
        let runs = NAMED.iter().map(|(name, make)| {
            let mut cache = Simulator::new(make(lines), lines);
            cache.play(&load.uses);
            (*name, cache.tally())
        });
        let runs: Vec<(&str, SimulatorTally)> = runs.collect();
        below += runs.iter().filter(|(_, tally)| tally.line_misses < least).count();
        let shown: Vec<String> = runs.iter().map(|(name, tally)| format!("{name} {:.4}", tally.hit_ratio())).collect();
        lab.say(format!("{}, {lines} of {} lines: {}", load.name, load.footprint, shown.join(", ")));
        figures.extend(over_lru(&format!("{}_{word}", load.name), &runs));
    }
    (figures, below)
}

/// Uses of which a policy and its second form say different things.
fn brute_force_mismatches(load: &CacheLoad) -> usize {
    let none = models::Held::new();
    let differ = |name: &str, make: MakePolicy, lines: u32| {
        let (mut cache, mut model) = (Simulator::new(make(lines), lines), models::of(name, lines));
        let uses = load.uses.iter().take(BRUTE_USES);
        uses.filter(|line| cache.reference(line.key) != model.reference(line.key, &none)).count()
    };
    let of_policy = |(name, make): &(&str, MakePolicy)| BRUTE_LINES.map(|lines| differ(name, *make, lines));
    NAMED.iter().flat_map(of_policy).sum()
}

/// By size, the hit ratio of S3-FIFO with exact ghosts less that with prints.
fn fingerprint_losses(load: &CacheLoad) -> impl Iterator<Item = f64> {
    SIZES.iter().map(|(thousandths, _)| {
        let lines = (load.footprint * thousandths / 1000).max(1) as u32;
        let [exact, compact] = [S3Fifo::new(lines), S3Fifo::compact(lines)].map(|policy| {
            let mut cache = Simulator::new(policy, lines);
            cache.play(&load.uses);
            cache.tally().hit_ratio()
        });
        exact - compact
    })
}

/// The hit ratios of policies over that of LRU, which is the first. Over nothing there is no ratio.
fn over_lru(prefix: &str, runs: &[(&str, SimulatorTally)]) -> Vec<Figure> {
    let lru = runs[0].1.hit_ratio();
    let figure = |(name, tally): &(&str, SimulatorTally)| {
        let id = format!("{prefix}_{}_over_lru", name.replace('-', "_"));
        Figure::alone(id, tally.hit_ratio() / lru, "ratio of hit ratios").peer("lru, hit ratio", lru)
    };
    runs[1..].iter().filter(|_| lru > 0.0).map(figure).collect()
}

/// The least ratio of hits of MQ and LRU in a period of the generated week.
fn mq_over_lru(hours: f64, lab: &Lab<'_>) -> Result<Figure, LabError> {
    let lines = (MQ_CACHE * cache_loads::WEEK_SCALE / f64::from(MQ_LINE)) as u32;
    let (mut mq, mut lru) = (Simulator::new(Mq::new(lines), lines), Simulator::new(Lru::new(lines), lines));
    // What was counted at the end of each period.
    let mut ends: Vec<[SimulatorTally; 2]> = Vec::new();
    let mut uses = Vec::new();
    for_each_record(hours, lab, |record| {
        let period = (record.at.0 / PERIOD) as usize;
        ends.resize(period.max(ends.len()), [mq.tally(), lru.tally()]);
        uses.clear();
        uses.extend(uses_of(record, MQ_LINE));
        mq.play(&uses);
        lru.play(&uses);
    })?;
    ends.push([mq.tally(), lru.tally()]);
    let begins = [Default::default()].into_iter().chain(ends.iter().copied());
    let periods: Vec<[SimulatorTally; 2]> =
        begins.zip(&ends).map(|(before, end)| [0, 1].map(|policy| end[policy].since(before[policy]))).collect();
    for (number, [mq, lru]) in periods.iter().enumerate() {
        let hour = number as u64 * PERIOD_HOURS;
        lab.say(format!("{lines} lines from hour {hour}: mq {:.4}, lru {:.4}", mq.hit_ratio(), lru.hit_ratio()));
    }
    let ratios = periods.iter().map(|[mq, lru]| (mq.hit_ratio(), lru.hit_ratio()));
    let ratios = ratios.filter(|(_, lru)| *lru > 0.0).map(|(mq, lru)| mq / lru);
    Ok(Figure::alone("mq_over_lru_least", ratios.fold(f64::INFINITY, f64::min), "ratio of hit ratios"))
}

/// One run of the race.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
struct Ran {
    /// CPU time.
    seconds: f64,
    /// The share of requests that missed.
    missed: f64,
}

/// A policy of the race: the word for it, our run of a file, and the rival's name of it.
type Runner = (&'static str, fn(&Path) -> Result<Ran, LabError>, &'static str);

const RUNNERS: [Runner; 4] = [
    ("lru", |file| ran(file, Lru::new(LINES)), "LRU"),
    ("arc", |file| ran(file, Arc::new(LINES)), "ARC"),
    ("s3fifo", |file| ran(file, S3Fifo::new(LINES)), "S3FIFO"),
    ("sieve", |file| ran(file, Sieve::new(LINES)), "Sieve"),
];

/// Rates of the same policies here and there, over the same file.
fn race(version: &str, lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let (count, rounds) = lab.scale((4_000_000, 3), (20_000_000, 5));
    let folder = lab.folder()?;
    let file = folder.path().join("zipf.oracleGeneral");
    write_records(&file, &cache_loads::zipf_keys(lab.seed, KEYS, count))?;
    let rival = format!("{RIVAL} {version}, million requests per second of CPU time");
    let (mut figures, mut differences) = (Vec::new(), Vec::new());
    for (word, ours, theirs) in RUNNERS {
        let (mut our_rates, mut rates) = (Vec::new(), Vec::new());
        for round in 1..=rounds {
            let (us, them) = in_turns(round, || ours(&file), || rival_ran(&file, theirs))?;
            let [our_rate, rate] = [us, them].map(|ran| count as f64 / ran.seconds / 1e6);
            let of_round = format!("{word}, round {round} of {rounds}");
            lab.say(format!("{of_round}: {our_rate:.1} against {rate:.1} million per second"));
            our_rates.push(our_rate);
            rates.push(rate);
            differences.push((us.missed - them.missed).abs());
        }
        let unit = "million requests per second of CPU time";
        figures.push(over(format!("{word}_ratio_libcachesim"), &our_rates, rates, &rival));
        figures.push(Figure::alone(format!("{word}_mios_per_s"), median(our_rates), unit));
    }
    figures.push(Figure::alone("hit_difference_libcachesim", worst(&differences), "share of requests"));
    Ok(figures)
}

/// Writes requests in libCacheSim's own format: time in 4 bytes, key in 8, size in 4, next use in 8. The time is less
/// than a day, and the next use is not known.
fn write_records(file: &Path, keys: &[u64]) -> Result<(), LabError> {
    let write = || {
        let mut out = BufWriter::new(File::create(file)?);
        for (at, key) in keys.iter().enumerate() {
            out.write_all(&((at * 86_400 / keys.len()) as u32).to_le_bytes())?;
            out.write_all(&key.to_le_bytes())?;
            out.write_all(&1u32.to_le_bytes())?;
            out.write_all(&(-1i64).to_le_bytes())?;
        }
        out.flush()
    };
    write().map_err(LabError::scratch(file))
}

/// Plays a file of records against a policy.
fn ran<P: Policy>(file: &Path, policy: P) -> Result<Ran, LabError> {
    let scratch = LabError::scratch(file);
    let mut cache = Simulator::new(policy, LINES);
    let before = CpuTime::now().own;
    let mut records = File::open(file).map_err(scratch)?;
    let (mut bytes, mut keys) = (vec![0; RECORD * BATCH], Vec::with_capacity(BATCH));
    loop {
        let mut len = 0;
        while len < bytes.len() {
            match records.read(&mut bytes[len..]).map_err(scratch)? {
                0 => break,
                more => len += more,
            }
        }
        if len == 0 {
            break;
        }
        keys.clear();
        keys.extend(bytes[..len].chunks_exact(RECORD).map(|record| {
            let key = record[KEY].try_into().expect("a key has 8 bytes");
            u64::from_le_bytes(key)
        }));
        cache.run(&keys);
    }
    let seconds = CpuTime::now().own - before;
    let tally = cache.tally();
    Ok(Ran { seconds, missed: tally.request_misses as f64 / tally.requests.max(1) as f64 })
}

fn rival_ran(file: &Path, policy: &str) -> Result<Ran, LabError> {
    let (file, lines, power) = (file.display().to_string(), LINES.to_string(), POWER.to_string());
    let said = peer::output(PYTHON, &["-I", "-c", SCRIPT, &file, policy, &lines, &power])?;
    serde_json::from_str(&said).map_err(|error| peer::fault(RIVAL, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_no_ratio_over_no_hits() {
        let hits = |hits: u64| SimulatorTally { requests: 10, request_misses: 10 - hits, ..SimulatorTally::default() };
        assert_eq!(over_lru("web_1", &[("lru", hits(0)), ("s3-fifo", hits(3))]), []);
        let figures = over_lru("web_1", &[("lru", hits(2)), ("s3-fifo", hits(3))]);
        assert_eq!((figures[0].id.as_str(), figures[0].value), ("web_1_s3_fifo_over_lru", 0.3 / 0.2));
    }

    #[test]
    fn our_run_of_a_file_has_the_misses_of_its_keys() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("keys");
        let keys = cache_loads::zipf_keys(1, 300_000, 3 * BATCH + 5);
        write_records(&file, &keys).unwrap();
        assert_eq!(std::fs::metadata(&file).unwrap().len(), (keys.len() * RECORD) as u64);
        let mut cache = Simulator::new(Sieve::new(LINES), LINES);
        cache.run(&keys);
        let misses = cache.tally().request_misses as f64 / keys.len() as f64;
        assert_eq!(ran(&file, Sieve::new(LINES)).unwrap().missed, misses);
    }

    #[test]
    fn every_policy_of_the_race_has_a_name_of_ours() {
        let names: Vec<String> = NAMED.iter().map(|(name, _)| name.replace('-', "")).collect();
        assert!(RUNNERS.iter().all(|(word, ..)| names.contains(&word.to_string())));
        assert!(RUNNERS.iter().all(|(word, _, rival)| rival.to_lowercase() == *word));
    }
}
