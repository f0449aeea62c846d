//! `ingens-fault-latency`: what a fault costs in base pages, under greedy huge pages and beside our manager, and how
//! soon a well used region is promoted.
//!
//! Fresh memory is written page by page, and each write is timed. The kernel tells how many of them were faults:
//! those are the slowest ones.

use std::hint::black_box;
use std::time::{Duration, Instant};

use esker_base::units::MIB;
use esker_hugepage::{PAGE_BYTES, REGION_BYTES, Threshold};

use crate::ingens::settings::keep_memory;
use crate::ingens::{Arm, Seen, first_region, room, thread_faults};
use esker_lab_kit::timing::{at_share, in_rounds, mean, median};
use esker_lab_kit::{Figure, Lab, LabError};

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

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let (rounds, bytes, regions) = lab.scale((3, 256 * MIB, 32), (9, 1024 * MIB, 200));
    let _kept = keep_memory(lab)?;
    room(bytes, lab)?;
    let mut huge_faults = 0;
    let seen = in_rounds(rounds, &ARMS, |round, arm| {
        let _held = arm.hold(lab)?;
        let before = huge_faults_so_far();
        let faults = touch(bytes as usize);
        huge_faults += if *arm == Arm::Ours { huge_faults_so_far() - before } else { 0 };
        lab.say(format!("round {round} of {rounds}, {arm:?}: {faults:.1?} us"));
        Ok(faults)
    })?;
    let soon = promotions(regions, lab)?;
    let mut figures = latencies(&seen);
    figures.push(Figure::alone("huge_faults_beside_the_manager", huge_faults as f64, "huge pages in faults"));
    figures.push(Figure::alone("promotion_ms", median(soon.clone()), "ms from the 461st page, median"));
    figures.push(Figure::alone("promotion_ms_worst", at_share(soon, 1.0), "ms from the 461st page"));
    Ok(figures)
}

fn latencies(seen: &[Vec<Faults>]) -> Vec<Figure> {
    type Get = fn(&Faults) -> f64;
    let middle = |arm: usize, get: Get| median(seen[arm].iter().map(get).collect());
    let (base, greedy, ours) = (0, 1, 2);
    let ratio = |id, over: usize, under: usize, get: Get| {
        let name = if under == base { "base pages, us" } else { "THP=always, us" };
        Figure::alone(id, middle(over, get) / middle(under, get), "ratio").peer(name, middle(under, get))
    };
    let mut figures = vec![
        // The source's own: 0.0037 ms and 0.378 ms.
        ratio("greedy_over_base_mean", greedy, base, |faults| faults.mean).paper(105.0),
        ratio("ours_over_base_mean", ours, base, |faults| faults.mean),
        ratio("ours_over_base_p99", ours, base, |faults| faults.p99),
        ratio("ours_over_greedy_p99", ours, greedy, |faults| faults.p99),
        ratio("ours_over_greedy_writes_p999", ours, greedy, |faults| faults.writes_p999),
        ratio("ours_over_greedy_per_mib", ours, greedy, |faults| faults.per_mib),
    ];
    let each: [(&str, Get); 4] = [
        ("p50", |faults| faults.p50),
        ("p99", |faults| faults.p99),
        ("p999", |faults| faults.p999),
        ("max", |faults| faults.max),
    ];
    for (what, get) in each {
        let arms = [("base", base), ("greedy", greedy), ("ours", ours)];
        figures.extend(arms.map(|(name, arm)| Figure::alone(format!("{name}_{what}"), middle(arm, get), "us a fault")));
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
        mean: mean(slowest),
        p50: at(0.5),
        p99: at(0.99),
        p999: at(0.999),
        max: at(1.0),
        per_mib: writes.iter().sum::<f64>() / (bytes as f64 / MIB as f64),
        writes_p999: at_share(writes, 0.999),
    }
}

/// Milliseconds from the 461st page of each of some regions until a huge page backs it.
fn promotions(regions: usize, lab: &Lab<'_>) -> Result<Vec<f64>, LabError> {
    let _held = Arm::Ours.hold(lab)?;
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
    lab.say(format!("promoted after ms: {list}"));
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
