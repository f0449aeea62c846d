//! What was seen of clients: the demand of extents, the response times of ends; and when to look and to plan.

use std::collections::BTreeMap;

use esker_base::{ByteRange, Nanos, Time};
use esker_tiering::control::{Backoff, Corrector, Phase, fell_below, moves_max};
use esker_tiering::demand::Demand;
use esker_tiering::throttle::{LIMITS, Minute, Throttle, ThrottleLimits};
use esker_tiering::{Classifier, Collector, History, Sheet, Smoothing, Transfers};

use crate::config::{EndConfig, TierConfig};

/// Response over service below which an end no longer throttles, as a share of that above which it does.
const RELEASE: f64 = LIMITS.release / LIMITS.theta;
/// The demand that was seen of an end that throttles is multiplied by at most this much.
const PRESSURE_MAX: f64 = 10.0;

/// What an end did since the last look.
#[derive(Clone, Copy, Default)]
struct EndMinute {
    requests: u64,
    random: u64,
    bytes: u64,
    response: Nanos,
}

/// What a look found.
pub(crate) struct Looked {
    /// Which ends throttle.
    pub(crate) throttled: Vec<bool>,
    /// By how much the demand was clipped, at least.
    pub(crate) pressures: Vec<f64>,
    /// Ends that began to throttle.
    pub(crate) began: u64,
    /// Planned moves are dropped.
    pub(crate) drops_plan: bool,
    /// Extents that were touched.
    pub(crate) touched: usize,
}

/// All of it.
pub(crate) struct Seen {
    classifier: Classifier,
    collector: Collector,
    minutes: Vec<EndMinute>,
    /// Whether an end had requests before the last look.
    worked: Vec<bool>,
    throttles: Vec<Throttle>,
    corrector: Corrector,
    backoff: Backoff,
    /// Moves of a plan that each end may have when the load is stable.
    full: Vec<u32>,
    has_backoff: bool,
    /// Extents that the plan of this epoch has moved, with the ends from and to which they went.
    moved: Vec<(u32, [usize; 2])>,
    /// Extents that relief has moved, and until when they stay.
    held: BTreeMap<u32, Time>,
    /// For a planner that needs it.
    pub(crate) history: History,
    looked: Time,
    epoch_began: Time,
}

impl Seen {
    pub(crate) fn new(config: &TierConfig, now: Time) -> Seen {
        let limits = ThrottleLimits { theta: config.theta, release: RELEASE * config.theta, iops: LIMITS.iops };
        let (epoch_s, extent_bytes) = (config.epoch.as_secs_f64(), config.extent as f64);
        let budget = |end: &EndConfig| moves_max(epoch_s, extent_bytes, end.devices.mb_per_s(), config.share).max(1);
        let full: Vec<u32> = config.ends.iter().map(budget).collect();
        Seen {
            classifier: Classifier::new(config.heads as usize),
            collector: Collector::new(
                config.extents,
                Smoothing { alpha: config.alpha, transfers: Transfers::Sequential },
            ),
            minutes: vec![EndMinute::default(); config.ends.len()],
            worked: vec![true; config.ends.len()],
            throttles: vec![Throttle::new(limits); config.ends.len()],
            corrector: Corrector::new(epoch_s),
            backoff: Backoff::new(full.iter().copied().max().unwrap_or(1)),
            full,
            has_backoff: config.backoff,
            moved: Vec::new(),
            held: BTreeMap::new(),
            history: History::new(&config.sheets, extent_bytes, []),
            looked: now,
            epoch_began: now,
        }
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.collector.bytes()
    }

    /// Counts a request that has ended. `at`: the end that answered all of it, and the time that this took.
    #[inline]
    pub(crate) fn count(&mut self, range: ByteRange, extent: u64, at: Option<(usize, Nanos)>) {
        let is_random = self.classifier.is_random(range.start());
        // Only the first extent of a long request is sought.
        let mut is_first = true;
        for part in range.split_at_multiples(extent) {
            self.collector.count((part.start() / extent) as u32, part.len(), is_random && is_first);
            is_first = false;
        }
        if let Some((end, took)) = at {
            let minute = &mut self.minutes[end];
            minute.requests += 1;
            minute.random += u64::from(is_random);
            minute.bytes += range.len();
            minute.response += took;
        }
    }

    /// When the next look is due.
    pub(crate) fn next_look(&self, look: Nanos) -> Time {
        self.looked + look
    }

    /// Whether an epoch is over; the next one begins then.
    pub(crate) fn epoch_ends(&mut self, now: Time, epoch: Nanos) -> bool {
        let is_over = now.since(self.epoch_began) >= epoch;
        if is_over {
            self.epoch_began = now;
        }
        is_over
    }

    /// Rolls the counters of extents that were touched, and looks at the response times of ends.
    pub(crate) fn look(&mut self, now: Time, config: &TierConfig) -> Looked {
        let seconds = now.since(self.looked).as_secs_f64();
        self.looked = now;
        let touched = self.collector.roll_over(seconds);
        self.held.retain(|_, until| *until > now);
        let (mut pressures, mut began) = (Vec::new(), 0);
        for (end, minute) in self.minutes.iter_mut().enumerate() {
            let (minute, sheet) = (std::mem::take(minute), &config.ends[end].devices.sheet);
            self.worked[end] = minute.requests > 0;
            let (seen, throttle) = (minute.over(seconds), &mut self.throttles[end]);
            let did = throttle.throttles();
            let does = config.throttle && throttle.look(&seen, sheet);
            began += u64::from(does && !did);
            pressures.push(if does { seen.ratio(sheet).clamp(1.0, PRESSURE_MAX) } else { 1.0 });
        }
        let throttled: Vec<bool> = self.throttling().collect();
        let turn = self.corrector.look(now.since(Time::ZERO).as_secs_f64(), throttled.contains(&true));
        Looked { throttled, pressures, began, drops_plan: turn.drops_plan, touched }
    }

    /// Which ends throttle.
    pub(crate) fn throttling(&self) -> impl Iterator<Item = bool> + '_ {
        self.throttles.iter().map(Throttle::throttles)
    }

    /// Whether an end had requests before the last look.
    pub(crate) fn worked(&self, end: usize) -> bool {
        self.worked[end]
    }

    /// Whether the epoch that ends is planned.
    pub(crate) fn may_plan(&self) -> bool {
        self.corrector.may_plan()
    }

    /// What the manager does.
    pub(crate) fn phase(&self) -> Phase {
        self.corrector.phase()
    }

    /// The demand of an extent.
    pub(crate) fn demand(&self, extent: u32) -> Demand {
        self.collector.demand(extent)
    }

    /// All extents in use.
    pub(crate) fn in_use(&mut self) -> Vec<(u32, Demand)> {
        self.collector.in_use()
    }

    /// Relief moves an extent, which then stays where it is until a time.
    pub(crate) fn hold(&mut self, extent: u32, until: Time) {
        self.held.insert(extent, until);
    }

    /// Whether relief has just moved an extent.
    pub(crate) fn is_held(&self, extent: u32) -> bool {
        self.held.contains_key(&extent)
    }

    /// Moves from and to each end that a plan may have.
    pub(crate) fn budgets(&self) -> Vec<u32> {
        let most = u64::from(self.full.iter().copied().max().unwrap_or(1));
        let now = |full: &u32| (u64::from(*full) * u64::from(self.backoff.budget()) / most).max(1) as u32;
        self.full.iter().map(now).collect()
    }

    /// The plan has moved an extent.
    pub(crate) fn note_moved(&mut self, extent: u32, ends: [usize; 2]) {
        self.moved.push((extent, ends));
    }

    /// Judges the moves of the epoch that ends: how many would be no worse where they came from.
    pub(crate) fn judge(&mut self, config: &TierConfig) {
        let sheet = |end: usize| -> &Sheet { &config.ends[end].devices.sheet };
        let moved = std::mem::take(&mut self.moved);
        let has_fallen = |(extent, [from, to]): &&(u32, [usize; 2])| {
            let demand = self.collector.demand(*extent);
            fell_below(config.objective, config.extent as f64, &demand, sheet(*from), sheet(*to))
        };
        let fallen = moved.iter().filter(has_fallen).count();
        if self.has_backoff {
            self.backoff.judge(moved.len() as u32, fallen as u32);
        }
    }
}

impl EndMinute {
    fn over(self, seconds: f64) -> Minute {
        let requests = (self.requests as f64).max(1.0);
        Minute {
            iops: self.requests as f64 / seconds,
            random: self.random as f64 / requests,
            mb: self.bytes as f64 / 1e6 / requests,
            response_s: self.response.as_secs_f64() / requests,
        }
    }
}
