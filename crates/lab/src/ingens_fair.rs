//! `ingens-fair`: three equal workers under a promoter that can make 16 MiB huge in ten seconds, by which worker
//! deserves it and one process after the other.
//!
//! Each worker uses all of its memory at random until it has done its work, and then ends. An access costs what was
//! measured for a dependent chase over 1 GiB on Linux 6.18: 182.2 ns in base pages, 136.7 ns in huge ones.
//! `completion_spread` is by how much the last one takes longer than the first. All that is simulated; figures that
//! begin with `served_` are of real processes under the real manager ([`served`]).

use esker_base::Nanos;
use esker_hugepage::policy::{Order, Policy};
use esker_hugepage::sim::{Freeing, Machine};
use esker_hugepage::{Pid, ProcView};

use crate::ingens::managed::{BASE_NS, HUGE_NS, ManagedMachine, place};
use esker_lab_kit::{Figure, Lab, LabError, timing::worst};

mod served;

const WORKERS: usize = 3;
/// Work of a worker, as time in base pages, over the time in which its memory alone could be made huge.
const WORK: f64 = 3.75;

/// How it went under one order.
struct Course {
    /// Seconds until each worker was done, in order of their numbers.
    ended: Vec<f64>,
    /// Largest difference of huge pages between two workers while all ran.
    gap: u64,
}

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let regions = lab.scale(128, 512);
    let course = |order: Order| {
        let course = measure(order, regions, lab.seed);
        lab.say(format!("{order:?}: done after {:.0?} s", course.ended));
        course
    };
    let (fair, in_turn) = (course(Order::Fair), course(Order::RoundRobin));
    let figure = |id, course: &Course| Figure::alone(id, spread(&course.ended), "last over first, less 1");
    let mut figures = vec![
        figure("completion_spread", &fair).peer("in turn", spread(&in_turn.ended)),
        figure("completion_spread_in_turn", &in_turn),
        Figure::alone("huge_gap_max", fair.gap as f64 * 2.0, "MiB between two workers, at most"),
        Figure::alone("huge_gap_max_in_turn", in_turn.gap as f64 * 2.0, "MiB between two workers, at most"),
        Figure::alone("last_done_s", worst(&fair.ended), "s"),
        Figure::alone("last_done_in_turn_s", worst(&in_turn.ended), "s"),
    ];
    figures.extend(served::figures(lab)?);
    Ok(figures)
}

fn spread(ended: &[f64]) -> f64 {
    let (first, last) = ended.iter().fold((f64::INFINITY, 0.0f64), |(low, high), at| (low.min(*at), high.max(*at)));
    last / first - 1.0
}

fn measure(order: Order, regions: u64, seed: u64) -> Course {
    let policy = Policy { order, ..Policy::ingens() };
    let mut managed = ManagedMachine::new(regions * WORKERS as u64 + 64, policy, Freeing::Deferred, seed);
    let pids: Vec<Pid> = (0..WORKERS).map(|_| worker(&mut managed, regions)).collect();
    let quantum_s = policy.quantum_sleep.as_secs_f64() / f64::from(policy.quantum_regions);
    let work = WORK * regions as f64 * quantum_s;
    let (mut done, mut ended, mut gap) = (vec![0.0; WORKERS], vec![None; WORKERS], 0);
    for second in 0.. {
        if ended.iter().all(Option::is_some) {
            break;
        }
        managed.pass(Nanos::secs(1));
        let running: Vec<usize> = (0..WORKERS).filter(|at| ended[*at].is_none()).collect();
        let huge: Vec<u64> = running.iter().map(|at| use_all(&mut managed.machine, pids[*at], regions)).collect();
        if running.len() == WORKERS {
            gap = gap.max(huge.iter().max().unwrap_or(&0) - huge.iter().min().unwrap_or(&0));
        }
        for (at, huge) in running.into_iter().zip(huge) {
            let share = huge as f64 / regions as f64;
            let speed = BASE_NS / (share * HUGE_NS + (1.0 - share) * BASE_NS);
            let left = work - done[at];
            done[at] += speed;
            if left <= speed {
                ended[at] = Some(second as f64 + left / speed);
                managed.machine.exit(pids[at]);
            }
        }
    }
    Course { ended: ended.into_iter().flatten().collect(), gap }
}

/// A worker with all its memory in base pages, for which no fault asks.
fn worker(managed: &mut ManagedMachine, regions: u64) -> Pid {
    let pid = managed.process(regions);
    managed.machine.signals();
    pid
}

/// Uses all regions; returns how many are huge.
fn use_all(machine: &mut Machine, pid: Pid, regions: u64) -> u64 {
    (0..regions).for_each(|region| machine.use_region(place(pid, region)));
    (0..regions).filter(|region| machine.is_huge(place(pid, *region))).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_workers_end_together_and_in_turn_they_do_not() {
        let (fair, in_turn) = (measure(Order::Fair, 64, 1), measure(Order::RoundRobin, 64, 1));
        assert!(spread(&fair.ended) <= 0.05, "{:?}", fair.ended);
        assert!(spread(&in_turn.ended) >= 0.15, "{:?}", in_turn.ended);
        assert!(fair.gap <= 8 && in_turn.gap == 64, "{} and {}", fair.gap, in_turn.gap);
    }
}
