//! Counts busy time and energy of a device that is either active or idle.

use esker_base::{Nanos, Time};
use esker_block::{Args, Usage};

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

impl Bill {
    /// This bill with what the parameters `active_w`, `idle_w` and `price_usd` say instead.
    pub(crate) fn with(mut self, args: &Args) -> Bill {
        let fields =
            [("active_w", &mut self.active_w), ("idle_w", &mut self.idle_w), ("price_usd", &mut self.price_usd)];
        for (name, field) in fields {
            *field = args.get(name).map_or(*field, |_| args.float(name));
        }
        self
    }
}

/// Accumulates the union of the spans in which a device worked, reported in the order in which they begin.
#[derive(Clone, Copy, Default, Debug)]
pub struct Meter {
    busy: Nanos,
    busy_until: Time,
    /// Bytes written to the medium.
    pub written: u64,
    /// Bytes read from the medium.
    pub read: u64,
}

impl Meter {
    /// Notes that the device works from `from` to `to`; the end may lie in the future.
    #[inline]
    pub fn work(&mut self, from: Time, to: Time) {
        self.busy += to.since(from.max(self.busy_until));
        self.busy_until = self.busy_until.max(to);
    }

    /// Busy time up to `now`. Exact if all work noted so far began before `now`.
    pub fn busy(&self, now: Time) -> Nanos {
        self.busy.saturating_sub(self.busy_until.since(now))
    }

    /// What the device has used from the world's begin to `now`.
    pub fn usage(&self, bill: &Bill, now: Time) -> Usage {
        let busy = self.busy(now);
        let idle = now.since(Time::ZERO).saturating_sub(busy);
        Usage {
            energy_j: bill.active_w * busy.as_secs_f64() + bill.idle_w * idle.as_secs_f64(),
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
        meter.work(Time::ZERO + Nanos::secs(1), Time::ZERO + Nanos::secs(3));
        let bill = Bill { active_w: 8.0, idle_w: 5.0, price_usd: 100.0 };
        let usage = meter.usage(&bill, Time::ZERO + Nanos::secs(10));
        assert_eq!((usage.energy_j, usage.price_usd), (2.0 * 8.0 + 8.0 * 5.0, 100.0));
    }
}
