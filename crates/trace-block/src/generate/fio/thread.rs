//! One process of fio: the requests of a job or of one of its clones, as a device without service time has them.

use super::job::{Distribution, Job, OPS, Sizes};
use super::values::Each;
use crate::generate::permutation::Permutation;
use crate::generate::zipf::Zipf;
use crate::record::Op;
use esker_base::{Bits, Nanos, Stream};
use std::rc::Rc;

const SECOND: u128 = 1_000_000_000;

/// A request, at a time since the process began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ask {
    pub at: Nanos,
    pub op: Op,
    pub offset: u64,
    pub len: u64,
}

/// A process at work.
pub(super) struct Running {
    job: Rc<Job>,
    /// First byte of its region.
    base: u64,
    now: Nanos,
    /// When the next request of each operation is due.
    due: Each<Nanos>,
    /// Bytes of each operation.
    issued: Each<u64>,
    requests: u64,
    /// Writes since the last flush, and requests since the last thinking.
    unflushed: u64,
    unthought: u64,
    /// The last flush is still to come.
    flushes: bool,
    has_run_out: bool,
    places: Places,
    directions: Stream,
    lengths: Stream,
    gaps: Stream,
}

impl Running {
    /// A clone of a job.
    pub(super) fn new(job: Rc<Job>, clone: u64, seed: u64) -> Running {
        let stream = |of: &str| Stream::named(seed, &format!("fio/{} {}/{clone}/{of}", job.number, job.name));
        Running {
            base: job.offset + job.offset_increment * clone,
            now: Nanos::ZERO,
            due: [Nanos::ZERO; 3],
            issued: [0; 3],
            requests: 0,
            unflushed: 0,
            unthought: 0,
            flushes: job.flush_at_end,
            has_run_out: false,
            places: Places::new(&job, stream("places")),
            directions: stream("directions"),
            lengths: stream("lengths"),
            gaps: stream("gaps"),
            job,
        }
    }

    /// The time of the next request at the earliest; of one that has ended, its end.
    pub(super) fn now(&self) -> Nanos {
        self.now
    }

    /// The next request.
    pub(super) fn next(&mut self) -> Option<Ask> {
        let job = self.job.clone();
        if self.is_over() {
            return self.last_flush();
        }
        if job.flush_every > 0 && self.unflushed >= job.flush_every {
            self.unflushed = 0;
            return Some(self.flush());
        }
        let which = self.direction();
        if let Some(runtime) = job.runtime.filter(|runtime| self.now >= *runtime) {
            (self.now, self.has_run_out) = (runtime, true);
            return self.last_flush();
        }
        let wanted = length(&job.sizes[which], &mut self.lengths);
        let (offset, len) = self.places.next(which, wanted, job.sizes[which].least());
        let ask = Ask { at: self.now, op: OPS[which], offset: self.base + offset, len };
        self.count(which, len);
        Some(ask)
    }

    /// How much of its requests came, from 0 to 1, by the bound that is nearest.
    pub(super) fn share(&self) -> f64 {
        if self.is_over() {
            return 1.0;
        }
        let of = |done: u64, all: u64| done as f64 / all.max(1) as f64;
        let moved = if self.job.is_time_based { 0.0 } else { of(self.moved(), self.job.total) };
        let requests = self.job.requests_max.map_or(0.0, |most| of(self.requests, most));
        let time = self.job.runtime.map_or(0.0, |runtime| of(self.now.0, runtime.0));
        moved.max(requests).max(time).min(1.0)
    }

    fn moved(&self) -> u64 {
        self.issued.iter().fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }

    fn is_over(&self) -> bool {
        self.has_run_out
            || self.job.requests_max.is_some_and(|most| self.requests >= most)
            || !self.job.is_time_based && self.moved() >= self.job.total
    }

    fn flush(&self) -> Ask {
        Ask { at: self.now, op: Op::Flush, offset: 0, len: 0 }
    }

    fn last_flush(&mut self) -> Option<Ask> {
        std::mem::take(&mut self.flushes).then(|| self.flush())
    }

    /// Which operation comes next, as fio chooses it (`rate_ddir` of its `io_u.c`): by the mix, unless another one is
    /// due and this one is not. Waits until one is.
    fn direction(&mut self) -> usize {
        let job = &self.job;
        let mut chosen = job.used().next().unwrap_or(0);
        let mut other = None;
        if job.sends[0] && job.sends[1] {
            chosen = usize::from(!self.directions.chance(job.reads));
            other = Some(1 - chosen);
        }
        if self.due[chosen] <= self.now {
            return chosen;
        }
        let first = other.filter(|other| self.due[*other] <= self.now || self.due[*other] < self.due[chosen]);
        let first = first.unwrap_or(chosen);
        self.now = self.now.max(self.due[first]);
        first
    }

    /// Counts a request of an operation, and what follows from it for the next ones.
    fn count(&mut self, which: usize, len: u64) {
        self.requests += 1;
        self.issued[which] = self.issued[which].saturating_add(len);
        self.unflushed += u64::from(OPS[which] == Op::Write);
        if let Some(rate) = self.job.rates[which] {
            let exact = |bytes: u64| u128::from(bytes) * SECOND / u128::from(rate);
            let due = match self.job.is_poisson {
                false => exact(self.issued[which]),
                true => {
                    let mean = exact(self.job.sizes[which].least());
                    u128::from(self.due[which].0) + (self.gaps.exponential() * mean as f64) as u128
                }
            };
            self.due[which] = Nanos(u64::try_from(due).unwrap_or(u64::MAX));
        }
        self.unthought += 1;
        if self.unthought >= self.job.thinktime_blocks {
            self.unthought = 0;
            self.now = Nanos(self.now.0.saturating_add(self.job.thinktime.0));
        }
    }
}

/// The size of the next block.
fn length(sizes: &Sizes, draw: &mut Stream) -> u64 {
    match sizes {
        Sizes::One(size) => *size,
        Sizes::Range(low, high) => low * (1 + draw.below(high / low)),
        Sizes::Split(sizes) => {
            let at = draw.unit();
            let found = sizes.partition_point(|(_, part)| *part <= at).min(sizes.len() - 1);
            sizes[found].0
        }
    }
}

/// How offsets in a region are chosen.
enum Choice {
    /// One behind the other, for each operation.
    Sequence(Each<u64>),
    /// Each grain once, then all of them in another order.
    Once {
        order: Permutation,
        next: u64,
        taken: Option<Bits>,
    },
    Anywhere,
    Zipf(Zipf, Permutation),
    /// The power of a uniform number that makes the law.
    Pareto(f64, Permutation),
}

/// A region in grains, and the choice in it.
struct Places {
    grain: u64,
    grains: u64,
    choice: Choice,
    draw: Stream,
}

impl Places {
    fn new(job: &Job, mut draw: Stream) -> Places {
        let grain = job.grain();
        let grains = job.size / grain;
        let mut order = || Permutation::new(grains, &mut draw);
        let choice = match job.distribution {
            _ if !job.is_random => Choice::Sequence([0; 3]),
            Distribution::Uniform if !job.has_map => Choice::Anywhere,
            Distribution::Uniform => {
                let taken = (!job.has_one_size()).then(|| Bits::new(grains as usize));
                Choice::Once { order: order(), next: 0, taken }
            }
            Distribution::Zipf(theta) => Choice::Zipf(Zipf::new(grains, theta), order()),
            Distribution::Pareto(h) => Choice::Pareto(h.ln() / (1.0 - h).ln(), order()),
        };
        Places { grain, grains, choice, draw }
    }

    /// Offset and length of the next block of an operation, which would like to have this length. What does not fit
    /// between its place and the end of the region, or of what was not accessed yet, is cut off.
    fn next(&mut self, which: usize, wanted: u64, least: u64) -> (u64, u64) {
        let (grain, grains, end) = (self.grain, self.grains, self.grain * self.grains);
        let draw = &mut self.draw;
        let at = match &mut self.choice {
            Choice::Sequence(next) => {
                let offset = if end - next[which] < least.min(end) { 0 } else { next[which] };
                let len = wanted.min(end - offset);
                next[which] = offset + len;
                return (offset, len);
            }
            Choice::Once { order, next, taken: None } => {
                if *next == grains {
                    (*order, *next) = (Permutation::new(grains, draw), 0);
                }
                *next += 1;
                order.at(*next - 1)
            }
            Choice::Once { order, next, taken: Some(taken) } => {
                let at = free(order, next, taken, draw);
                let most = wanted.div_ceil(grain).min(grains - at);
                let run = (at..at + most).take_while(|grain| !taken.has(*grain as usize)).count() as u64;
                (at..at + run).for_each(|grain| taken.set(grain as usize));
                return (at * grain, wanted.min(run * grain));
            }
            Choice::Anywhere => draw.below(grains),
            Choice::Zipf(zipf, order) => order.at(zipf.draw(draw)),
            Choice::Pareto(power, order) => order.at(((grains - 1) as f64 * draw.unit().powf(*power)) as u64),
        };
        (at * grain, wanted.min(end - at * grain))
    }
}

/// The next grain of an order that was not taken; if all were, none is.
fn free(order: &mut Permutation, next: &mut u64, taken: &mut Bits, draw: &mut Stream) -> u64 {
    loop {
        if *next == order.bound() {
            (*order, *next) = (Permutation::new(order.bound(), draw), 0);
            taken.clear_all();
        }
        *next += 1;
        let at = order.at(*next - 1);
        if !taken.has(at as usize) {
            return at;
        }
    }
}
