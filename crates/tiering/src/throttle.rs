//! Extents whose device is too slow cannot show what they ask. The detector finds such arrays by their response times
//! (the source's section 3.4.6, which has no numbers).

use crate::sheet::Sheet;

/// What an array did in a minute.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Minute {
    /// Requests per second.
    pub iops: f64,
    /// Share of them that is random.
    pub random: f64,
    /// Mean MB of a request.
    pub mb: f64,
    /// Mean response time, seconds.
    pub response_s: f64,
}

impl Minute {
    /// The time that one request of this mix takes on an idle device, seconds.
    pub fn service_s(&self, sheet: &Sheet) -> f64 {
        self.random * sheet.rtime_s + self.mb * sheet.xtime_s_per_mb
    }

    /// Response over service: 1 without a queue.
    pub fn ratio(&self, sheet: &Sheet) -> f64 {
        self.response_s / self.service_s(sheet)
    }
}

/// When an array throttles.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ThrottleLimits {
    /// Response over service above which it does.
    pub theta: f64,
    /// Response over service below which it no longer does.
    pub release: f64,
    /// Requests per second below which a mean says nothing.
    pub iops: f64,
}

/// The limits of this project. The source prints none.
pub const LIMITS: ThrottleLimits = ThrottleLimits { theta: 3.0, release: 2.0, iops: 10.0 };

/// The detector of one array.
#[derive(Debug, Clone)]
pub struct Throttle {
    limits: ThrottleLimits,
    throttles: bool,
}

impl Throttle {
    /// Of an array that does not throttle.
    pub fn new(limits: ThrottleLimits) -> Throttle {
        Throttle { limits, throttles: false }
    }

    /// Looks at a minute, and answers whether the array throttles.
    pub fn look(&mut self, minute: &Minute, sheet: &Sheet) -> bool {
        let limit = if self.throttles { self.limits.release } else { self.limits.theta };
        self.throttles = minute.iops > self.limits.iops && minute.ratio(sheet) > limit;
        self.throttles
    }

    /// Whether it throttled in the last minute.
    pub fn throttles(&self) -> bool {
        self.throttles
    }
}
