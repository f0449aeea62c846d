//! When requests arrive, and from which flow.

use esker_base::{Nanos, Stream};

const HOUR_NS: u64 = 3_600_000_000_000;

/// Hours after which a day's rates repeat.
pub(super) const DAY: usize = 24;

/// Requests that know nothing of each other (a Poisson process) at rates that change with the hour of the day.
pub(super) struct Clock {
    /// For each hour of the day, the sum of the rates of the flows up to each one, in requests per second.
    rates: Vec<Vec<f64>>,
    now: u64,
    end: u64,
    gaps: Stream,
    choice: Stream,
}

impl Clock {
    /// A clock for flows with these rates in each hour of a day, from 0 to `end`.
    pub(super) fn new(flows: &[[f64; DAY]], end: Nanos, seed: u64) -> Clock {
        let sums = |hour: usize| {
            let sum = |sum: &mut f64, rates: &[f64; DAY]| {
                *sum += rates[hour];
                Some(*sum)
            };
            flows.iter().scan(0.0, sum).collect()
        };
        Clock {
            rates: (0..DAY).map(sums).collect(),
            now: 0,
            end: end.0,
            gaps: Stream::named(seed, "generate/gaps"),
            choice: Stream::named(seed, "generate/flows"),
        }
    }

    /// The time of the next request and its flow.
    pub(super) fn next(&mut self) -> Option<(Nanos, usize)> {
        loop {
            let hour = self.now / HOUR_NS;
            let rates = &self.rates[hour as usize % DAY];
            let total = rates.last().copied().unwrap_or(0.0);
            let border = (hour + 1) * HOUR_NS;
            let gap = if total > 0.0 { self.gaps.exponential() * 1e9 / total } else { f64::INFINITY };
            // What is memoryless may be drawn anew at the border, where the rate changes.
            if gap >= (border - self.now) as f64 {
                self.now = border;
            } else {
                self.now += gap as u64;
            }
            if self.now >= self.end {
                return None;
            }
            if self.now < border {
                let at = self.choice.unit() * total;
                let flow = rates.partition_point(|sum| *sum <= at);
                return Some((Nanos(self.now), flow.min(rates.len() - 1)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_follow_the_hour_and_flows_their_share() {
        let mut busy = [0.0; DAY];
        busy[1] = 10.0;
        busy[3] = 1.0;
        let flows = [busy, [0.0; DAY], busy.map(|rate| rate * 3.0)];
        let mut clock = Clock::new(&flows, Nanos(HOUR_NS * 28), 9);
        let mut counts = [[0u32; 28]; 3];
        let mut last = Nanos::ZERO;
        while let Some((at, flow)) = clock.next() {
            assert!(at >= last);
            last = at;
            counts[flow][(at.0 / HOUR_NS) as usize] += 1;
        }
        let near = |count: u32, expected: f64| (f64::from(count) - expected).abs() < 4.0 * expected.sqrt();
        assert!(near(counts[0][1], 36_000.0) && near(counts[0][3], 3_600.0), "{counts:?}");
        assert!(
            near(counts[2][1], 108_000.0) && near(counts[2][25], 108_000.0),
            "the next day is the same: {counts:?}"
        );
        assert_eq!(counts[1], [0; 28]);
        assert_eq!((counts[0][0], counts[0][2], counts[0][27] > 0), (0, 0, true));
    }
}
