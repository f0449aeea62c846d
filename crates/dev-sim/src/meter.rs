//! Counts busy time and energy of a device that is active, idle, or after a while at rest.

use esker_base::{Nanos, Time};
use esker_block::{KindError, Usage};

use crate::catalogue::Numbers;

/// What a device draws and costs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bill {
    /// Watts while it works on at least one request.
    pub active_w: f64,
    /// Watts while it is ready and does nothing.
    pub idle_w: f64,
    /// Price in US dollars.
    pub price_usd: f64,
}

/// A state of low power into which a device falls when nothing is asked of it, and the way back.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rest {
    /// Idle time before it.
    pub after: Nanos,
    /// Watts in it.
    pub rest_w: f64,
    /// Time until it is ready again: a disk spins up, a drive's link wakes.
    pub wake: Nanos,
    /// Watts while it wakes.
    pub wake_w: f64,
}

impl Bill {
    /// The bill that the numbers `active_w`, `idle_w` and `price_usd` make.
    ///
    /// # Errors
    /// One that is unknown or negative.
    pub fn of(numbers: &Numbers) -> Result<Bill, KindError> {
        let number = |name| not_negative(name, numbers.float(name)?);
        Ok(Bill { active_w: number("active_w")?, idle_w: number("idle_w")?, price_usd: number("price_usd")? })
    }
}

/// `value`, if it is a possible power, price or time.
///
/// # Errors
/// Its name.
pub(crate) fn not_negative(name: &str, value: f64) -> Result<f64, KindError> {
    if value >= 0.0 { Ok(value) } else { Err(KindError::Unfit(format!("{name} = {value} must not be negative"))) }
}

/// Accumulates the union of the spans in which a device worked, reported in the order in which they begin.
#[derive(Clone, Copy, Default, Debug)]
pub struct Meter {
    rest: Option<Rest>,
    busy: Nanos,
    busy_until: Time,
    /// Spent at rest before the last wake, and how often it woke.
    rested: Nanos,
    wakes: u64,
    /// End of the last wake.
    awake: Time,
    /// Bytes written to the medium.
    pub written: u64,
    /// Bytes read from the medium.
    pub read: u64,
}

impl Meter {
    /// The meter of a device that may come to rest. It is awake when the world begins.
    pub fn new(rest: Option<Rest>) -> Meter {
        Meter { rest, ..Meter::default() }
    }

    /// Notes that the device works from `from` to `to`; the end may lie in the future.
    #[inline]
    pub fn work(&mut self, from: Time, to: Time) {
        self.busy += to.since(from.max(self.busy_until));
        self.busy_until = self.busy_until.max(to);
    }

    /// Says when the device is ready for what the host asks at `now`, and wakes it if it is at rest. Call it for every
    /// request, before the [`Meter::work`] that it delays: work that is noted first would hide the rest.
    #[inline]
    pub fn wake(&mut self, now: Time) -> Time {
        let Some(rest) = self.rest else { return now };
        let resting = self.resting(now);
        if resting > Nanos::ZERO {
            self.rested += resting;
            self.wakes += 1;
            self.awake = now + rest.wake;
            self.busy_until = self.awake;
        }
        self.ready(now)
    }

    /// When the medium can work at the earliest, at or after `now`: while the device wakes, it cannot.
    #[inline]
    pub fn ready(&self, now: Time) -> Time {
        now.max(self.awake)
    }

    /// How long the device is at rest at `now`; zero while it is not.
    pub fn resting(&self, now: Time) -> Nanos {
        self.rest.map_or(Nanos::ZERO, |rest| now.since(self.busy_until + rest.after))
    }

    /// How often the device woke.
    pub fn wakes(&self) -> u64 {
        self.wakes
    }

    /// Busy time up to `now`. Exact if all work noted so far began before `now`.
    pub fn busy(&self, now: Time) -> Nanos {
        self.busy.saturating_sub(self.busy_until.since(now.max(self.awake)))
    }

    /// What the device has used from the world's begin to `now`.
    pub fn usage(&self, bill: &Bill, now: Time) -> Usage {
        let busy = self.busy(now);
        let (mut not_idle, mut other_j) = (busy, 0.0);
        if let Some(rest) = self.rest {
            let waking = Nanos(rest.wake.0 * self.wakes).saturating_sub(self.awake.since(now));
            let resting = self.rested + self.resting(now);
            not_idle += waking + resting;
            other_j = rest.wake_w * waking.as_secs_f64() + rest.rest_w * resting.as_secs_f64();
        }
        let idle = now.since(Time::ZERO).saturating_sub(not_idle);
        Usage {
            energy_j: bill.active_w * busy.as_secs_f64() + bill.idle_w * idle.as_secs_f64() + other_j,
            busy,
            price_usd: bill.price_usd,
            written: self.written,
            read: self.read,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BILL: Bill = Bill { active_w: 8.0, idle_w: 5.0, price_usd: 100.0 };

    fn second(n: u64) -> Time {
        Time::ZERO + Nanos::secs(n)
    }

    #[test]
    fn overlapping_work_counts_once_and_future_work_not_yet() {
        let mut meter = Meter::default();
        meter.work(Time(10), Time(30));
        meter.work(Time(20), Time(50));
        meter.work(Time(25), Time(40));
        assert_eq!(meter.busy(Time(30)), Nanos(20));
        meter.work(Time(90), Time(100));
        assert_eq!(meter.busy(Time(200)), Nanos(50));
    }

    #[test]
    fn energy_is_active_and_idle_power_times_their_spans() {
        let mut meter = Meter::default();
        meter.work(second(1), second(3));
        let usage = meter.usage(&BILL, second(10));
        assert_eq!((usage.energy_j, usage.price_usd), (2.0 * 8.0 + 8.0 * 5.0, 100.0));
    }

    #[test]
    fn a_device_falls_asleep_and_takes_time_and_energy_to_wake() {
        let rest = Rest { after: Nanos::secs(10), rest_w: 1.0, wake: Nanos::secs(4), wake_w: 20.0 };
        let mut meter = Meter::new(Some(rest));
        assert_eq!(meter.wake(second(5)), second(5));
        meter.work(second(5), second(6));
        assert_eq!(meter.wake(second(16)), second(16), "it rests only after more than ten idle seconds");
        assert_eq!(meter.usage(&BILL, second(26)).energy_j, 8.0 + 15.0 * 5.0 + 10.0);
        assert_eq!(meter.wake(second(26)), second(30));
        assert_eq!(meter.wake(second(27)), second(30), "a second request waits for the same wake");
        assert_eq!(meter.usage(&BILL, second(28)).energy_j, 8.0 + 15.0 * 5.0 + 10.0 + 2.0 * 20.0);
        meter.work(second(26), second(31));
        let usage = meter.usage(&BILL, second(31));
        assert_eq!((usage.busy, meter.wakes()), (Nanos::secs(2), 1));
        assert_eq!(usage.energy_j, 2.0 * 8.0 + 15.0 * 5.0 + 10.0 + 4.0 * 20.0);
    }
}
