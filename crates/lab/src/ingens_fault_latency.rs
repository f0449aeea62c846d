//! `ingens-fault-latency`: what a fault costs in base pages, under greedy huge pages and beside our manager, and how
//! soon a well used region is promoted.
//!
//! Fresh memory is written page by page, and each write is timed. The kernel tells how many of them were faults: those
//! are the slowest ones.

use std::hint::black_box;
use std::time::{Duration, Instant};

use esker_base::units::MIB;
use esker_hugepage::{PAGE_BYTES, REGION_BYTES, Threshold};

use crate::ingens::settings::keep_memory;
use crate::ingens::{Arm, Seen, first_region, room, thread_faults};
use esker_lab_kit::{
    Experiment, Figure, LabError, Options, Peer,
    timing::{at_share, median},
};

/// The record.
pub const EXPERIMENT: Experiment = Experiment {
    name: "ingens-fault-latency",
    summary: "Latency of faults in base pages, with greedy huge pages and beside the manager; how soon it promotes",
    source: "Ingens, table of page fault latency; the project's own bar: promoted within 100 ms of the 461st page",
    simulated: false,
    rivals: &[],
    run,
};

const ARMS: [Arm; 3] = [Arm::Base, Arm::Greedy, Arm::Ours];
const PAGE: usize = PAGE_BYTES as usize;
const REGION: usize = REGION_BYTES as usize;
/// A promotion that takes longer counts as so long.
const PATIENCE: Duration = Duration::from_secs(3);
const LOOKED_EVERY: Duration = Duration::from_micros(200);

/// Faults of fresh memory, in microseconds.
#[derive(Clone, Copy, Debug)]
struct Faults {
    mean: f64,
    p50: f64,
    p99: f64,
    p999: f64,
    max: f64,
    /// Of all writes, whether they faulted or not.
    writes_p999: f64,
    /// Of all writes together, for each MiB.
    per_mib: f64,
}

fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Vec<Figure>, LabError> {
    let (rounds, bytes, regions) = if options.quick { (3, 256 * MIB, 32) } else { (9, 1024 * MIB, 200) };
    let _kept = keep_memory(options)?;
    room(bytes, options)?;
    let mut seen: [Vec<Faults>; 3] = Default::default();
    let mut huge_faults = 0;
    for round in 0..rounds {
        for turn in 0..ARMS.len() {
            // A later run may find a busier machine, so the first place rotates.
            let arm = (round + turn) % ARMS.len();
            let _held = ARMS[arm].hold(options)?;
            let before = huge_faults_so_far();
            let faults = touch(bytes as usize);
            huge_faults += if ARMS[arm] == Arm::Ours { huge_faults_so_far() - before } else { 0 };
            progress(&format!("round {} of {rounds}, {:?}: {faults:.1?} us", round + 1, ARMS[arm]));
            seen[arm].push(faults);
        }
    }
    let soon = promotions(options, regions, progress)?;
    let mut figures = latencies(&seen);
    figures.push(Figure::alone("huge_faults_beside_the_manager", huge_faults as f64, "huge pages in faults"));
    figures.push(Figure::alone("promotion_ms", median(soon.clone()), "ms from the 461st page, median"));
    figures.push(Figure::alone("promotion_ms_worst", at_share(soon, 1.0), "ms from the 461st page"));
    Ok(figures)
}

fn latencies(seen: &[Vec<Faults>; 3]) -> Vec<Figure> {
    let middle = |arm: usize, get: fn(&Faults) -> f64| median(seen[arm].iter().map(get).collect());
    let (base, greedy, ours) = (0, 1, 2);
    let ratio = |id, over: usize, under: usize, name: &str, get: fn(&Faults) -> f64| {
        let peer = Peer { name: name.to_string(), value: middle(under, get) };
        Figure::alone(id, middle(over, get) / middle(under, get), "ratio").beside(peer)
    };
    // The source's own: 0.0037 ms and 0.378 ms.
    let greedy_mean = ratio("greedy_over_base_mean", greedy, base, "base pages, us", |faults| faults.mean);
    let mut figures = vec![
        Figure { paper: Some(105.0), ..greedy_mean },
        ratio("ours_over_base_mean", ours, base, "base pages, us", |faults| faults.mean),
        ratio("ours_over_base_p99", ours, base, "base pages, us", |faults| faults.p99),
        ratio("ours_over_greedy_p99", ours, greedy, "THP=always, us", |faults| faults.p99),
        ratio("ours_over_greedy_writes_p999", ours, greedy, "THP=always, us", |faults| faults.writes_p999),
        ratio("ours_over_greedy_per_mib", ours, greedy, "THP=always, us", |faults| faults.per_mib),
    ];
    type Get = fn(&Faults) -> f64;
    let each: [([&'static str; 3], Get); 4] = [
        (["base_p50", "greedy_p50", "ours_p50"], |faults| faults.p50),
        (["base_p99", "greedy_p99", "ours_p99"], |faults| faults.p99),
        (["base_p999", "greedy_p999", "ours_p999"], |faults| faults.p999),
        (["base_max", "greedy_max", "ours_max"], |faults| faults.max),
    ];
    for (ids, get) in each {
        figures.extend(
            ids.into_iter()
                .zip([base, greedy, ours])
                .map(|(id, arm)| Figure::alone(id, middle(arm, get), "us a fault")),
        );
    }
    figures
}

/// Writes fresh memory, page by page.
fn touch(bytes: usize) -> Faults {
    // Written once, so that what is noted costs no faults.
    let mut writes = vec![1.0; bytes / PAGE];
    let mut memory = vec![0u8; bytes];
    let before = thread_faults();
    for (page, took) in writes.iter_mut().enumerate() {
        let begun = Instant::now();
        black_box(&mut memory)[page * PAGE] = 1;
        *took = begun.elapsed().as_nanos() as f64 / 1e3;
    }
    let faults = thread_faults() - before;
    summary(writes, faults as usize, bytes)
}

fn summary(mut writes: Vec<f64>, faults: usize, bytes: usize) -> Faults {
    writes.sort_by(f64::total_cmp);
    let slowest = &writes[writes.len() - faults.clamp(1, writes.len())..];
    let at = |share| at_share(slowest.to_vec(), share);
    Faults {
        mean: slowest.iter().sum::<f64>() / slowest.len() as f64,
        p50: at(0.5),
        p99: at(0.99),
        p999: at(0.999),
        max: at(1.0),
        per_mib: writes.iter().sum::<f64>() / (bytes as f64 / MIB as f64),
        writes_p999: at_share(writes, 0.999),
    }
}

/// Milliseconds from the 461st page of each of some regions until a huge page backs it.
fn promotions(options: &Options, regions: usize, progress: &mut dyn FnMut(&str)) -> Result<Vec<f64>, LabError> {
    let _held = Arm::Ours.hold(options)?;
    let seen = Seen::open()?;
    let mut memory = vec![0u8; (regions + 1) * REGION];
    let first = first_region(&memory);
    let enough = Threshold::percent(90).expect("the source's threshold").pages() as usize;
    let mut soon = Vec::new();
    for region in 0..regions {
        let at = first + region * REGION;
        (0..enough - 1).for_each(|page| black_box(&mut memory)[at + page * PAGE] = 1);
        // Before the write that asks for it: the manager may take this CPU before that returns.
        let begun = Instant::now();
        black_box(&mut memory)[at + (enough - 1) * PAGE] = 1;
        while seen.huge_in(&memory[at..at + REGION]) == 0 && begun.elapsed() < PATIENCE {
            std::thread::sleep(LOOKED_EVERY);
        }
        soon.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    let list = soon.iter().map(|ms| format!("{ms:.1}")).collect::<Vec<_>>().join(" ");
    progress(&format!("promoted after ms: {list}"));
    Ok(soon)
}

/// Huge pages that faults of this machine have taken since its start.
fn huge_faults_so_far() -> u64 {
    let text = std::fs::read_to_string("/proc/vmstat").unwrap_or_default();
    let count = text.lines().find_map(|line| line.strip_prefix("thp_fault_alloc "));
    count.and_then(|count| count.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_the_slowest_writes() {
        let writes = (0..1000).map(|at| if at % 100 == 0 { 50.0 + f64::from(at) } else { 0.1 }).collect();
        let faults = summary(writes, 10, MIB as usize);
        assert_eq!((faults.mean, faults.p50, faults.max), (500.0, 450.0, 950.0));
        assert!((faults.per_mib - 5099.0).abs() < 1e-6, "{}", faults.per_mib);
    }

    #[test]
    fn memory_that_is_written_faults() {
        let before = thread_faults();
        let faults = touch(crate::ingens::FRESH);
        assert!(thread_faults() > before, "the kernel counts them");
        assert!(faults.mean > 0.0 && faults.p50 <= faults.p99 && faults.p999 <= faults.max, "{faults:?}");
    }
}
