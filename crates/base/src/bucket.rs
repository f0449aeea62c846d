//! A token bucket.

use std::cell::Cell;

use crate::units::{Nanos, Time};

/// A token bucket as a schedule (the generic cell rate algorithm, ITU-T I.371 annex A). Tokens are time, and a request
/// may overdraw the bucket, so that one larger than the burst still goes.
#[derive(Debug)]
pub struct Bucket {
    burst: Nanos,
    /// When all that was let through so far will have been paid for.
    paid: Cell<Time>,
}

impl Bucket {
    /// A bucket that is empty at `now` and saves up to `burst` of unused time.
    pub fn new(burst: Nanos, now: Time) -> Bucket {
        Bucket { burst, paid: Cell::new(now) }
    }

    /// Takes `cost` and tells when the request may go. Never earlier than for the request before.
    pub fn take(&self, now: Time, cost: Nanos) -> Time {
        let go = self.paid.get().max(Time(now.0.saturating_sub(self.burst.0)));
        self.paid.set(go + cost);
        go
    }

    /// When all that was let through will have been paid for.
    pub fn paid(&self) -> Time {
        self.paid.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_uses_idle_time_once() {
        let bucket = Bucket::new(Nanos(30), Time::ZERO);
        let goes = |now: u64| bucket.take(Time(now), Nanos(10)) <= Time(now);
        assert_eq!([1000; 6].map(goes), [true, true, true, true, false, false], "three saved and one due");
        assert_eq!(
            (bucket.take(Time(1000), Nanos(10)), bucket.paid()),
            (Time(1030), Time(1040)),
            "behind the two before"
        );
    }
}
