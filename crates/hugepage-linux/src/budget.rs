//! The manager's own share of a CPU: what it may use grows with time up to a burst, and it waits while it has used
//! more.

use esker_base::{Nanos, Time};

/// Unused time that is kept.
const BURST: Nanos = Nanos::millis(500);

/// An account of CPU time.
#[derive(Clone, Debug)]
pub struct Budget {
    share: f64,
    /// May be below 0.
    left_ns: f64,
    at: Time,
    used: Nanos,
}

impl Budget {
    /// For a share of a CPU above 0, with `used` CPU time already used that does not count.
    pub fn new(share: f64, now: Time, used: Nanos) -> Budget {
        Budget { share, left_ns: BURST.0 as f64, at: now, used }
    }

    /// Takes the CPU time used until `now` and says when work may go on.
    pub fn charge(&mut self, now: Time, used: Nanos) -> Time {
        let earned = now.since(self.at).0 as f64 * self.share;
        let spent = used.saturating_sub(self.used).0 as f64;
        self.left_ns = (self.left_ns + earned).min(BURST.0 as f64) - spent;
        (self.at, self.used) = (now, used);
        match self.left_ns < 0.0 {
            true => now + Nanos((-self.left_ns / self.share) as u64),
            false => now,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_greedy_worker_is_held_to_its_share() {
        let mut budget = Budget::new(0.1, Time(0), Nanos(0));
        let (mut now, mut used) = (Time(0), Nanos(0));
        while now < Time(100_000_000_000) {
            let work = Nanos::millis(20);
            (now, used) = (now + work, used + work);
            now = budget.charge(now, used);
        }
        let share = used.as_secs_f64() / 100.0;
        assert!((0.099..0.107).contains(&share), "{share}");
    }

    #[test]
    fn rest_is_kept_up_to_a_burst_only() {
        let mut budget = Budget::new(0.5, Time(0), Nanos(0));
        let late = Time(1_000_000_000_000);
        assert_eq!(budget.charge(late, Nanos::millis(500)), late);
        assert_eq!(budget.charge(late, Nanos::millis(600)), late + Nanos::millis(200));
    }
}
