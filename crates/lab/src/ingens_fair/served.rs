//! The same of real processes under the real manager.
//!
//! The workers have all their memory, in base pages, before the manager meets them. It may then make half of it huge,
//! and rests after each promotion, so that promotion is slow. Each worker follows a circle through its pages, in which
//! each access waits for the one before. Work is counted in CPU time, since three workers share fewer CPUs. Of equal
//! workers one may have slower memory than another, also in base pages: a host serves a virtual machine so. So figures
//! that end in `_over_base` compare each worker's time with its own speed in a trial before the manager begins.

use std::thread::sleep;
use std::time::{Duration, Instant};

use esker_hugepage::REGION_BYTES;
use esker_hugepage::policy::Order;

use super::{WORKERS, spread};
use crate::ingens::chaser::{Chaser, Took};
use crate::ingens::settings::keep_memory;
use crate::ingens::{Arm, Manager, huge_of, room};
use esker_lab_kit::timing::worst;
use esker_lab_kit::{Figure, Lab, LabError};

/// The manager rests for so many times what a promotion took, whatever that was.
const RESTS: u32 = 40;
/// A trial is one part in so many of the work.
const TRIAL: u64 = 6;
const LOOKS: Duration = Duration::from_millis(250);
/// Workers that have not ended by then hang.
const PATIENCE: Duration = Duration::from_secs(900);
const MIB: f64 = 1048576.0;

/// How it went under one order.
#[derive(Debug)]
struct Course {
    /// What each worker took, in order of their numbers.
    took: Vec<Took>,
    /// CPU time of the same work in base pages, by each worker's trial.
    base_s: Vec<f64>,
    looks: Looks,
}

impl Course {
    fn cpu_s(&self) -> Vec<f64> {
        self.took.iter().map(|took| took.cpu_s).collect()
    }

    /// CPU time of each worker over that in base pages.
    fn over_base(&self) -> Vec<f64> {
        self.took.iter().zip(&self.base_s).map(|(took, base_s)| took.cpu_s / base_s).collect()
    }

    fn wall_s(&self) -> Vec<f64> {
        self.took.iter().map(|took| took.wall_s).collect()
    }
}

/// What was seen of huge pages while all workers ran.
#[derive(Debug, Default)]
struct Looks {
    /// Largest difference between two workers, in bytes.
    gap: u64,
    /// Smallest worker's share of all huge pages, at each look with some.
    least: Vec<f64>,
    /// Seconds until the budget was spent.
    spent_s: Option<f64>,
}

impl Looks {
    /// Takes in the huge pages of all workers, in bytes, at a time.
    fn add(&mut self, huge: &[u64], budget: u64, at: Duration) {
        let (least, most) = (huge.iter().min().unwrap_or(&0), huge.iter().max().unwrap_or(&0));
        self.gap = self.gap.max(most - least);
        let all: u64 = huge.iter().sum();
        if all > 0 {
            self.least.push(*least as f64 / all as f64);
        }
        if all >= budget {
            self.spent_s.get_or_insert(at.as_secs_f64());
        }
    }

    fn least_share(&self) -> f64 {
        self.least.iter().sum::<f64>() / self.least.len().max(1) as f64
    }
}

/// Figures of both orders.
///
/// # Errors
/// [`LabError`]: this takes root, and free memory in blocks of huge pages.
pub(super) fn figures(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let (regions, steps) = lab.scale((256, 110_000_000), (512, 400_000_000));
    let _kept = keep_memory(lab)?;
    // Base pages of all and, beside them, the budget.
    room(WORKERS as u64 * regions * REGION_BYTES * 3 / 2, lab)?;
    let course = |order: Order| {
        let course = measure(order, regions, steps, lab)?;
        let (wall, cpu, looks) = (course.wall_s(), course.cpu_s(), &course.looks);
        let (gap, least, over) = (looks.gap >> 20, looks.least_share(), course.over_base());
        lab.say(format!(
            "{order:?}, real processes: done after {wall:.1?} s, {cpu:.1?} s of CPU, {over:.2?} of the time in base \
             pages; at most {gap} MiB apart, the least share {least:.2}"
        ));
        Ok::<Course, LabError>(course)
    };
    let (fair, in_turn) = (course(Order::Fair)?, course(Order::RoundRobin)?);
    let between = "MiB between two workers, at most";
    let least = "of all huge pages in the least served worker, mean";
    let spreads = [&fair, &in_turn].map(|course| spread(&course.cpu_s()));
    let overs = [&fair, &in_turn].map(|course| spread(&course.over_base()));
    let over = "the same of CPU time over that in base pages";
    let last = "CPU time of the last over the first, less 1";
    Ok(vec![
        Figure::alone("served_completion_spread", spreads[0], last).peer("in turn", spreads[1]),
        Figure::alone("served_completion_spread_in_turn", spreads[1], last),
        Figure::alone("served_completion_spread_over_base", overs[0], over).peer("in turn", overs[1]),
        Figure::alone("served_completion_spread_over_base_in_turn", overs[1], over),
        Figure::alone("served_huge_gap_max", fair.looks.gap as f64 / MIB, between),
        Figure::alone("served_huge_gap_max_in_turn", in_turn.looks.gap as f64 / MIB, between),
        Figure::alone("served_least_share", fair.looks.least_share(), least),
        Figure::alone("served_least_share_in_turn", in_turn.looks.least_share(), least),
        Figure::alone("served_budget_spent_s", spent(&fair)?, "s until half of all memory is huge"),
        Figure::alone("served_budget_spent_in_turn_s", spent(&in_turn)?, "s until half of all memory is huge"),
        Figure::alone("served_last_done_s", worst(&fair.wall_s()), "s"),
        Figure::alone("served_last_done_in_turn_s", worst(&in_turn.wall_s()), "s"),
    ])
}

fn spent(course: &Course) -> Result<f64, LabError> {
    let why = "the manager did not spend its budget while all workers ran: this machine is busy, run it again";
    course.looks.spent_s.ok_or_else(|| LabError::data(why))
}

fn measure(order: Order, regions: u64, steps: u64, lab: &Lab<'_>) -> Result<Course, LabError> {
    let held = Arm::Base.hold(lab)?;
    let start = |number| Chaser::start(regions, lab.seed + number);
    let mut workers = (0..WORKERS as u64).map(start).collect::<Result<Vec<Chaser>, LabError>>()?;
    let pids: Vec<u32> = workers.iter().map(Chaser::pid).collect();
    let trial = steps / TRIAL;
    workers.iter_mut().try_for_each(|worker| worker.begin_trial(trial))?;
    let trials = workers.iter_mut().map(Chaser::end_trial).collect::<Result<Vec<f64>, LabError>>()?;
    let base_s = trials.iter().map(|cpu_s| cpu_s * steps as f64 / trial as f64).collect();
    let budget = WORKERS as u64 * regions / 2 * REGION_BYTES;
    let _manager = Manager::of(lab.scratch, &pids, &config(order, budget))?;
    workers.iter_mut().try_for_each(|worker| worker.work(steps))?;
    let (begun, mut took, mut looks) = (Instant::now(), vec![None; WORKERS], Looks::default());
    while took.iter().any(Option::is_none) {
        sleep(LOOKS);
        let huge: Vec<u64> = pids.iter().map(huge_of).collect();
        for (worker, took) in workers.iter_mut().zip(&mut took).filter(|(_, took)| took.is_none()) {
            *took = worker.took()?;
        }
        if took.iter().all(Option::is_none) {
            looks.add(&huge, budget, begun.elapsed());
        }
        if begun.elapsed() > PATIENCE {
            return Err(LabError::data("a worker does not come to its end"));
        }
    }
    drop(held);
    Ok(Course { took: took.into_iter().flatten().collect(), base_s, looks })
}

/// Every promotion counts as slow, so that the manager rests after each.
fn config(order: Order, budget: u64) -> String {
    let order = match order {
        Order::Fair => "fair",
        Order::RoundRobin => "round_robin",
    };
    let mib = budget >> 20;
    format!("order = \"{order}\"\nbudget = \"{mib}MiB\"\nslow_promotion = \"1us\"\nbackoff_factor = {RESTS}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_hugepage_linux::Config;

    #[test]
    fn looks_keep_the_largest_gap_the_mean_least_share_and_when_the_budget_was_spent() {
        let mut looks = Looks::default();
        looks.add(&[0, 0, 0], 100, Duration::from_secs(1));
        looks.add(&[60, 0, 0], 100, Duration::from_secs(2));
        looks.add(&[40, 30, 30], 100, Duration::from_secs(3));
        looks.add(&[34, 33, 33], 100, Duration::from_secs(4));
        assert_eq!((looks.gap, looks.spent_s), (60, Some(3.0)));
        assert!((looks.least_share() - (0.0 + 0.3 + 0.33) / 3.0).abs() < 1e-12, "{}", looks.least_share());
    }

    #[test]
    fn the_manager_takes_either_order_a_budget_and_a_rest_after_every_promotion() {
        for order in [Order::Fair, Order::RoundRobin] {
            let text = config(order, 3 << 29) + "[[process]]\npid = 1\n";
            let policy = Config::parse(&text).unwrap().policy;
            assert_eq!((policy.order, policy.budget, policy.backoff_factor), (order, Some(768), RESTS));
            assert!(policy.slow_promotion < esker_base::Nanos::millis(1));
        }
    }
}
