//! Moves that wait, and the order in which they begin.
//!
//! Relief of a device that throttles goes first, then what operators ordered, then the plan. A move begins when both of
//! its ends are without another one and its destination has a free slot.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

/// Why an extent moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Why {
    /// Its end throttles: it goes at once, and piece by piece.
    Relief,
    /// An operator said so.
    Ordered,
    /// The plan of an epoch says so.
    Planned,
}

/// A move that waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Job {
    pub(crate) extent: u32,
    /// The end to which it goes.
    pub(crate) to: usize,
    pub(crate) why: Why,
}

/// What may be done with a job now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fit {
    /// It may begin.
    Begins,
    /// It must wait.
    Waits,
    /// It is over: the extent lies there, or can never get there.
    Over,
}

/// All moves that wait.
#[derive(Default)]
pub(crate) struct Queue {
    relief: VecDeque<Job>,
    ordered: VecDeque<Job>,
    planned: VecDeque<Job>,
}

impl Queue {
    /// Adds moves, in their order.
    pub(crate) fn add(&mut self, why: Why, moves: impl IntoIterator<Item = (u32, usize)>) {
        let jobs = moves.into_iter().map(|(extent, to)| Job { extent, to, why });
        match why {
            Why::Relief => self.relief.extend(jobs),
            Why::Ordered => self.ordered.extend(jobs),
            Why::Planned => self.planned.extend(jobs),
        }
    }

    /// Adds moves of these extents that an operator ordered. What was ordered for them before and waits still goes, so
    /// that the queue holds at most one order for each extent.
    pub(crate) fn order(&mut self, extents: &RangeInclusive<u32>, moves: Vec<(u32, usize)>) {
        self.ordered.retain(|job| !extents.contains(&job.extent));
        self.add(Why::Ordered, moves);
    }

    /// Drops what is left of a plan. Answers how many moves these were.
    pub(crate) fn drop_plan(&mut self) -> u64 {
        let dropped = self.planned.len() as u64;
        self.planned.clear();
        dropped
    }

    /// Drops all other moves. Answers how many these were.
    pub(crate) fn drop_unplanned(&mut self) -> u64 {
        let dropped = self.relief.len() + self.ordered.len();
        self.relief.clear();
        self.ordered.clear();
        dropped as u64
    }

    /// Moves that wait.
    pub(crate) fn len(&self) -> usize {
        self.relief.len() + self.ordered.len() + self.planned.len()
    }

    /// Whether a move of relief waits.
    pub(crate) fn has_relief(&self) -> bool {
        !self.relief.is_empty()
    }

    /// Extents about which an order of an operator waits.
    pub(crate) fn orders(&self) -> impl Iterator<Item = u32> + '_ {
        self.ordered.iter().map(|job| job.extent)
    }

    /// Takes the first move that may begin. Those before it that are over go.
    pub(crate) fn next(&mut self, fit: impl Fn(&Job) -> Fit) -> Option<Job> {
        [&mut self.relief, &mut self.ordered, &mut self.planned].into_iter().find_map(|jobs| next_of(jobs, &fit))
    }
}

fn next_of(jobs: &mut VecDeque<Job>, fit: &impl Fn(&Job) -> Fit) -> Option<Job> {
    let mut at = 0;
    while let Some(job) = jobs.get(at) {
        match fit(job) {
            Fit::Begins => return jobs.remove(at),
            Fit::Waits => at += 1,
            Fit::Over => drop(jobs.remove(at)),
        }
    }
    None
}

/// Brings moves into an order in which each finds a free slot, as far as there is one. Moves are pairs of ends; `free`
/// is the number of free slots of each end, and `budgets` that of the moves in which it may take part. Gives places in
/// `moves`.
pub(crate) fn sequence(moves: &[(usize, usize)], mut free: Vec<u32>, mut budgets: Vec<u32>) -> Vec<usize> {
    let mut by_end: Vec<VecDeque<usize>> = vec![VecDeque::new(); free.len()];
    moves.iter().enumerate().for_each(|(at, (_, to))| by_end[*to].push_back(at));
    let mut order = Vec::new();
    loop {
        for (to, jobs) in by_end.iter_mut().enumerate() {
            while jobs.front().is_some_and(|at| budgets[to] == 0 || budgets[moves[*at].0] == 0) {
                jobs.pop_front();
            }
        }
        let fits = by_end.iter().enumerate().filter(|(to, _)| free[*to] > 0);
        let Some(at) = fits.filter_map(|(_, jobs)| jobs.front().copied()).min() else { return order };
        let (from, to) = moves[at];
        by_end[to].pop_front();
        for end in [from, to] {
            budgets[end] -= 1;
        }
        free[to] -= 1;
        free[from] += 1;
        order.push(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relief_goes_first_and_what_is_over_goes_away() {
        let mut queue = Queue::default();
        queue.add(Why::Planned, [(1, 0), (2, 1)]);
        queue.add(Why::Ordered, [(3, 0), (4, 1)]);
        queue.add(Why::Relief, [(5, 1)]);
        let fit = |job: &Job| match job.extent {
            3 => Fit::Over,
            4 => Fit::Waits,
            _ => Fit::Begins,
        };
        let next = |queue: &mut Queue| queue.next(fit).map(|job| job.extent);
        assert_eq!((next(&mut queue), next(&mut queue), queue.len()), (Some(5), Some(1), 2));
        assert_eq!(queue.orders().collect::<Vec<_>>(), [4]);
        assert_eq!((queue.drop_plan(), next(&mut queue), queue.len()), (1, None, 1));
    }

    #[test]
    fn of_an_extent_only_the_last_order_waits() {
        let mut queue = Queue::default();
        for round in 0..1000 {
            queue.order(&(0..=9), (0..10).map(|extent| (extent, round % 3)).collect());
        }
        queue.order(&(5..=9), vec![(6, 2)]);
        let waiting: Vec<(u32, usize)> = queue.ordered.iter().map(|job| (job.extent, job.to)).collect();
        assert_eq!(waiting, [(0, 0), (1, 0), (2, 0), (3, 0), (4, 0), (6, 2)]);
    }

    #[test]
    fn a_full_end_is_left_before_it_is_entered() {
        // Two go up to an end with one free slot, two come down from it.
        let moves = [(1, 0), (1, 0), (0, 1), (0, 1)];
        assert_eq!(sequence(&moves, vec![1, 0], vec![9; 2]), [0, 2, 1, 3]);
        assert_eq!(sequence(&moves, vec![1, 0], vec![3, 9]), [0, 2, 1]);
        assert_eq!(sequence(&moves, vec![0, 0], vec![9; 2]), [] as [usize; 0]);
        assert_eq!(sequence(&moves, vec![0, 5], vec![9; 2]), [2, 0, 3, 1]);
    }

    #[test]
    fn each_end_has_a_budget_of_its_own() {
        let moves = [(0, 1), (0, 1), (2, 3), (2, 3), (0, 3)];
        assert_eq!(sequence(&moves, vec![9; 4], vec![1, 9, 9, 9]), [0, 2, 3], "another pair goes on");
        assert_eq!(sequence(&moves, vec![9; 4], vec![9, 9, 9, 1]), [0, 1, 2]);
    }
}
