//! What extents ask of a device: random requests and sequential bytes per second, smoothed by the minute.

/// Period of the collector and of the throttle detector, seconds.
pub const PERIOD_S: f64 = 60.0;

/// Weight of the newest minute.
pub const ALPHA: f32 = 0.25;

/// A demand below both of these counts as idle: requests per second and MB per second. An extent that was used once
/// falls below it within hours, so that planning sees only extents in use.
pub const IDLE: f32 = 1e-6;

/// What an extent asks of a device, smoothed.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Demand {
    /// Random requests per second.
    pub random: f32,
    /// Sequential MB (10^6 bytes) per second.
    pub mb_per_s: f32,
    /// All requests per second, random and sequential: what planners by IOPS look at.
    pub iops: f32,
}

impl Demand {
    /// Random requests alone.
    pub fn random(per_s: f32) -> Demand {
        Demand { random: per_s, mb_per_s: 0.0, iops: per_s }
    }

    /// One stream of so many MB per second, in requests of so many KiB.
    pub fn sequential(mb_per_s: f32, request_kib: f32) -> Demand {
        Demand { random: 0.0, mb_per_s, iops: mb_per_s * 1e6 / (request_kib * 1024.0) }
    }

    /// Whether it counts as none.
    pub fn is_idle(&self) -> bool {
        self.random < IDLE && self.mb_per_s < IDLE && self.iops < IDLE
    }

    /// So many times the demand.
    pub fn times(&self, factor: f32) -> Demand {
        Demand { random: self.random * factor, mb_per_s: self.mb_per_s * factor, iops: self.iops * factor }
    }

    /// The mean of this and a newer one, which has the weight `alpha`.
    fn towards(&self, newer: &Demand, alpha: f32) -> Demand {
        let mix = |old: f32, new: f32| old + alpha * (new - old);
        Demand {
            random: mix(self.random, newer.random),
            mb_per_s: mix(self.mb_per_s, newer.mb_per_s),
            iops: mix(self.iops, newer.iops),
        }
    }
}

/// Which bytes count as transferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transfers {
    /// Those of sequential requests. Random requests are charged by their number alone.
    Sequential,
    /// Those of all requests, as one passage of the source has it. Random requests are then charged twice.
    All,
}

/// What an extent was asked in some time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    random: u32,
    requests: u32,
    bytes: u64,
}

impl Counts {
    /// Counts a request.
    #[inline]
    pub fn count(&mut self, bytes: u64, is_random: bool, transfers: Transfers) {
        self.requests += 1;
        self.random += u32::from(is_random);
        if !is_random || transfers == Transfers::All {
            self.bytes += bytes;
        }
    }

    /// Whether there was no request.
    pub fn is_empty(&self) -> bool {
        self.requests == 0
    }

    /// The mean demand, if they were counted over so many seconds.
    pub fn over(&self, seconds: f64) -> Demand {
        Demand {
            random: (f64::from(self.random) / seconds) as f32,
            mb_per_s: (self.bytes as f64 / 1e6 / seconds) as f32,
            iops: (f64::from(self.requests) / seconds) as f32,
        }
    }
}

/// How a minute becomes a demand.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Smoothing {
    /// Weight of the newest minute, above 0 and at most 1.
    pub alpha: f32,
    /// Which bytes count.
    pub transfers: Transfers,
}

/// Counts of one extent in the minute that runs, and its demand at the end of the minute before `minute`.
#[derive(Debug, Clone, Copy)]
struct Row {
    extent: u32,
    counts: Counts,
    demand: Demand,
    /// Minutes that `demand` includes.
    minute: u32,
}

/// No row.
const NONE: u32 = u32::MAX;

/// Counters of all extents. An extent holds four bytes, and a row while its demand is not idle.
///
/// A minute's end visits touched extents only. The demand of all others is decayed when it is asked for.
#[derive(Debug, Clone)]
pub struct Collector {
    smoothing: Smoothing,
    rows_of: Vec<u32>,
    rows: Vec<Row>,
    touched: Vec<u32>,
    minute: u32,
}

impl Collector {
    /// For extents 0 to `extents` - 1, none of which is in use.
    ///
    /// # Panics
    /// If the weight is not above 0 and at most 1.
    pub fn new(extents: u32, smoothing: Smoothing) -> Collector {
        assert!(smoothing.alpha > 0.0 && smoothing.alpha <= 1.0, "the weight of a minute is above 0 and at most 1");
        let rows_of = vec![NONE; extents as usize];
        Collector { smoothing, rows_of, rows: Vec::new(), touched: Vec::new(), minute: 0 }
    }

    /// Counts a request that completed.
    ///
    /// # Panics
    /// If there is no such extent.
    #[inline]
    pub fn count(&mut self, extent: u32, bytes: u64, is_random: bool) {
        let at = self.row_of(extent);
        let row = &mut self.rows[at];
        if row.counts.is_empty() {
            self.touched.push(extent);
        }
        row.counts.count(bytes, is_random, self.smoothing.transfers);
    }

    fn row_of(&mut self, extent: u32) -> usize {
        let at = self.rows_of[extent as usize];
        if at != NONE {
            return at as usize;
        }
        let at = self.rows.len();
        self.rows_of[extent as usize] = at as u32;
        let (counts, demand, minute) = (Counts::default(), Demand::default(), self.minute);
        self.rows.push(Row { extent, counts, demand, minute });
        at
    }

    /// Ends the minute that runs: each touched extent's counts join its demand. Answers how many these were.
    pub fn roll(&mut self) -> usize {
        self.roll_over(PERIOD_S)
    }

    /// The same for a period of another length, in seconds.
    pub fn roll_over(&mut self, seconds: f64) -> usize {
        let touched = std::mem::take(&mut self.touched);
        for extent in &touched {
            let row = &mut self.rows[self.rows_of[*extent as usize] as usize];
            let newest = std::mem::take(&mut row.counts).over(seconds);
            let before = decayed(row, self.minute, self.smoothing.alpha);
            row.demand = before.towards(&newest, self.smoothing.alpha);
            row.minute = self.minute + 1;
        }
        self.minute += 1;
        touched.len()
    }

    /// The demand of an extent at the end of the last full minute.
    pub fn demand(&self, extent: u32) -> Demand {
        match self.rows_of.get(extent as usize) {
            None | Some(&NONE) => Demand::default(),
            Some(at) => decayed(&self.rows[*at as usize], self.minute, self.smoothing.alpha),
        }
    }

    /// All extents in use with their demands, by number. Extents that fell idle lose their rows.
    pub fn in_use(&mut self) -> Vec<(u32, Demand)> {
        self.forget_idle();
        let now = self.minute;
        let alpha = self.smoothing.alpha;
        let mut all: Vec<_> = self.rows.iter().map(|row| (row.extent, decayed(row, now, alpha))).collect();
        all.sort_unstable_by_key(|(extent, _)| *extent);
        all
    }

    fn forget_idle(&mut self) {
        let mut at = 0;
        while at < self.rows.len() {
            let row = &self.rows[at];
            if !row.counts.is_empty() || !decayed(row, self.minute, self.smoothing.alpha).is_idle() {
                at += 1;
                continue;
            }
            self.rows_of[row.extent as usize] = NONE;
            self.rows.swap_remove(at);
            if let Some(moved) = self.rows.get(at) {
                self.rows_of[moved.extent as usize] = at as u32;
            }
        }
    }

    /// Extents that have rows.
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.rows_of.len() * size_of::<u32>() + self.rows.len() * size_of::<Row>()
    }
}

/// The demand of a row at the end of minute `now` - 1, with minutes without a request in between.
fn decayed(row: &Row, now: u32, alpha: f32) -> Demand {
    row.demand.times((1.0 - alpha).powi((now - row.minute) as i32))
}
