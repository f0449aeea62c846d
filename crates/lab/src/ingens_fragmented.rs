//! `ingens-fragmented`: latency and rate of requests that each take and use 2 MiB of fresh memory and give it back some
//! requests later, as a server with so many in flight does. Memory is such that compaction cannot make whole, and such
//! that is whole. With one in flight a single block that is whole would do for all.
//!
//! Greedy is `THP=always` twice: with the system's `defrag`, where a fault without a free block falls back at once,
//! and with `defrag=always`, where it compacts first, which is what the source compared with.

use std::collections::VecDeque;
use std::hint::black_box;
use std::time::{Duration, Instant};

use esker_base::units::GIB;
use esker_hugepage::{PAGE_BYTES, REGION_BYTES};
use esker_hugepage_linux::linux::system::{fragmentation_now, huge_blocks};

use crate::ingens::fragmenter::Fragmenter;
use crate::ingens::settings::keep_memory;
use crate::ingens::{Arm, FRESH, first_region, room};
use esker_lab_kit::timing::{at_share, in_rounds, median, over};
use esker_lab_kit::{Figure, Lab, LabError};

const ARMS: [Arm; 5] = [Arm::Base, Arm::Greedy, Arm::GreedyCompacting, Arm::Ours, Arm::Adaptive];
const BASE: usize = 0;
const GREEDY: usize = 1;
const COMPACTING: usize = 2;
const OURS: usize = 3;
const ADAPTIVE: usize = 4;
const REGION: usize = REGION_BYTES as usize;
/// Requests whose memory is held at once.
const IN_FLIGHT: usize = 64;
/// Free memory that is not put into pipes, so that the other programs of the machine have some meanwhile.
const LEFT: u64 = 2 * GIB;
/// Pages on the lists of single CPUs come together again within this.
const SETTLED: Duration = Duration::from_secs(15);
const SETTLED_MOST: Duration = Duration::from_secs(120);
/// Fragmentation that has come so near to what it was is over.
const NEAR: f64 = 0.05;
/// Blocks that are left, each of 2 MiB, come from what others free; a process that takes them sees a new one now and
/// then.
const TAKEN: u32 = 4;

/// What one arm did in one run.
struct Run {
    rate: f64,
    ms: Vec<f64>,
}

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let _kept = keep_memory(lab)?;
    room((2 * IN_FLIGHT * REGION) as u64, lab)?;
    let before = fragmentation_now();
    let whole = turns(lab, &mut || Ok(()))?;
    let fragmenter = Fragmenter::fragment(LEFT)?;
    std::thread::sleep(SETTLED);
    lab.say(format!("fragmentation {before:.2}, then {} MiB lie in pipes", fragmenter.held() >> 20));
    let (mut taken, mut fragmented) = (Vec::new(), 1.0_f64);
    // An arm that compacts makes blocks, and the next one must not find them.
    let parted = turns(lab, &mut || {
        taken.extend(take_blocks(lab)?);
        fragmented = fragmented.min(fragmentation_now());
        Ok(())
    })?;
    drop((taken, fragmenter));
    let freed = Instant::now();
    while fragmentation_now() > before + NEAR && freed.elapsed() < SETTLED_MOST {
        std::thread::sleep(Duration::from_secs(1));
    }
    let index = |id, value| Figure::alone(id, value, "of free memory in too small blocks");
    let mut figures = of_fragmented(&parted);
    figures.extend(of_whole(&whole));
    figures.extend([
        index("fragmentation_before", before),
        index("fragmentation", fragmented),
        index("fragmentation_after", fragmentation_now()),
    ]);
    Ok(figures)
}

/// Takes the blocks that are whole, as huge pages.
fn take_blocks(lab: &Lab<'_>) -> Result<Vec<Vec<u8>>, LabError> {
    let _held = Arm::Greedy.hold(lab)?;
    let take = |_| {
        let mut memory = vec![0u8; huge_blocks(0) as usize + REGION];
        black_box(&mut memory).iter_mut().step_by(REGION).for_each(|byte| *byte = 1);
        memory
    };
    Ok((0..TAKEN).map(take).collect())
}

/// All arms; `prepare` is done before each.
fn turns(lab: &Lab<'_>, prepare: &mut dyn FnMut() -> Result<(), LabError>) -> Result<Vec<Vec<Run>>, LabError> {
    let (rounds, time) = lab.scale((5, Duration::from_secs(4)), (9, Duration::from_secs(15)));
    in_rounds(rounds, &ARMS, |_, arm| {
        prepare()?;
        let _held = arm.hold(lab)?;
        let run = serve(time);
        let [p50, p999] = [0.5, 0.999].map(|share| at_share(run.ms.clone(), share));
        lab.say(format!("{arm:?}: {:.0} requests/s, p50 {p50:.3} ms, p99.9 {p999:.3} ms", run.rate));
        Ok(run)
    })
}

/// Serves requests one after the other, of which each gives back the memory of one long before.
fn serve(time: Duration) -> Run {
    let begun = Instant::now();
    let mut ms = Vec::new();
    let mut held = VecDeque::with_capacity(IN_FLIGHT);
    while begun.elapsed() < time {
        let start = Instant::now();
        let oldest = if held.len() == IN_FLIGHT { held.pop_front() } else { None };
        drop(oldest);
        let (memory, sum) = request();
        black_box(sum);
        held.push_back(memory);
        ms.push(start.elapsed().as_secs_f64() * 1e3);
    }
    Run { rate: ms.len() as f64 / begun.elapsed().as_secs_f64(), ms }
}

/// Fresh memory, each page of one region written and read, and the sum of what was read.
fn request() -> (Vec<u8>, usize) {
    let mut memory = vec![0u8; FRESH];
    let first = first_region(&memory);
    let region = &mut black_box(&mut memory)[first..first + REGION];
    region.iter_mut().step_by(PAGE_BYTES as usize).for_each(|byte| *byte = 1);
    let sum = region.iter().step_by(64).map(|byte| usize::from(*byte)).sum();
    (memory, sum)
}

/// The rate of an arm over that of another, in the middle of all rounds: a machine is faster in one minute than in
/// the next.
fn rates(id: &str, ours: &[Run], theirs: &[Run], rival: &str) -> Figure {
    let [ours, theirs] = [ours, theirs].map(|runs| runs.iter().map(|run| run.rate).collect::<Vec<f64>>());
    over(id, &ours, theirs, rival)
}

/// A percentile of the requests of a run, the middle one of all runs: what a host does elsewhere falls upon a few.
fn at(runs: &[Run], share: f64) -> f64 {
    median(runs.iter().map(|run| at_share(run.ms.clone(), share)).collect())
}

fn of_fragmented(seen: &[Vec<Run>]) -> Vec<Figure> {
    let late_over = |id, arm: usize, share, rival| {
        let [ours, theirs] = [OURS, arm].map(|arm| at(&seen[arm], share));
        Figure::alone(id, ours / theirs, "ratio").peer(rival, theirs)
    };
    let rate_over = |id, arm: usize, rival| rates(id, &seen[OURS], &seen[arm], rival);
    vec![
        late_over("p999_over_greedy", GREEDY, 0.999, "THP=always, ms"),
        late_over("p999_over_compacting", COMPACTING, 0.999, "THP=always and defrag=always, ms"),
        late_over("p90_over_greedy", GREEDY, 0.9, "THP=always, ms"),
        late_over("p90_over_compacting", COMPACTING, 0.9, "THP=always and defrag=always, ms"),
        rate_over("rate_over_greedy", GREEDY, "THP=always, per s"),
        // The source's 1,091.9 over 922.3 requests per second.
        rate_over("rate_over_compacting", COMPACTING, "defrag=always, per s").paper(1.18),
        rate_over("rate_over_base", BASE, "base pages, per s"),
    ]
}

fn of_whole(seen: &[Vec<Run>]) -> [Figure; 2] {
    let over = |id, arm: usize| rates(id, &seen[arm], &seen[GREEDY], "THP=always, per s");
    // The source loses 13.4 % without its adaptive policy.
    [over("whole_rate_over_greedy", OURS).paper(0.866), over("whole_adaptive_rate_over_greedy", ADAPTIVE).paper(1.0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_compared_within_rounds() {
        let runs = |rates: [f64; 3]| rates.map(|rate| Run { rate, ms: Vec::new() });
        // The machine is half as fast from the second round on.
        let figure = rates("r", &runs([200.0, 100.0, 90.0]), &runs([200.0, 100.0, 100.0]), "them");
        assert_eq!((figure.value, figure.peer.map(|peer| peer.value)), (1.0, Some(100.0)));
    }

    #[test]
    fn a_request_takes_fresh_memory_and_reads_what_it_wrote() {
        let before = crate::ingens::thread_faults();
        assert_eq!(request().1, REGION / PAGE_BYTES as usize);
        assert!(crate::ingens::thread_faults() > before);
    }
}
