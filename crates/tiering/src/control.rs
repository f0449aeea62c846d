//! When plans are made, and how much they may move.

use crate::demand::Demand;
use crate::model::Objective;
use crate::sheet::Sheet;

/// What the manager does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Phase {
    /// Plans each epoch, and moves extents by the plan.
    Packing,
    /// An array throttles: only its load is moved. Saving energy rests.
    Correcting,
    /// No array throttles any more, since this time, seconds.
    Calm {
        /// Since when.
        since_s: f64,
    },
}

/// What a look at the arrays means for the manager.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Turn {
    /// The phase from now on.
    pub phase: Phase,
    /// Moves of the plan that have not begun are dropped, and those under way end.
    pub drops_plan: bool,
}

/// Packing, correcting, calm for one epoch, packing.
#[derive(Debug, Clone)]
pub struct Corrector {
    epoch_s: f64,
    phase: Phase,
}

impl Corrector {
    /// With epochs of this length, seconds.
    pub fn new(epoch_s: f64) -> Corrector {
        Corrector { epoch_s, phase: Phase::Packing }
    }

    /// Looks at the arrays at a time, in seconds.
    pub fn look(&mut self, now_s: f64, any_throttles: bool) -> Turn {
        let before = self.phase;
        self.phase = match before {
            _ if any_throttles => Phase::Correcting,
            Phase::Correcting => Phase::Calm { since_s: now_s },
            Phase::Calm { since_s } if now_s - since_s >= self.epoch_s => Phase::Packing,
            Phase::Packing | Phase::Calm { .. } => before,
        };
        Turn { phase: self.phase, drops_plan: any_throttles && before == Phase::Packing }
    }

    /// The phase.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Whether an epoch that ends now is planned.
    pub fn may_plan(&self) -> bool {
        self.phase == Phase::Packing
    }
}

/// How many extents an epoch may move. An unstable load halves it, a stable one doubles it again.
///
/// The author of the source asks for such a back-off and describes none.
#[derive(Debug, Clone)]
pub struct Backoff {
    full: u32,
    now: u32,
}

impl Backoff {
    /// At most so many extents, also after a while of success. At least one.
    pub fn new(full: u32) -> Backoff {
        let full = full.max(1);
        Backoff { full, now: full }
    }

    /// Extents that this epoch may move.
    pub fn budget(&self) -> u32 {
        self.now
    }

    /// Judges an epoch: of so many extents that it moved, so many fell below their break-evens.
    pub fn judge(&mut self, moved: u32, fallen: u32) {
        if u64::from(fallen) * 2 > u64::from(moved) {
            self.now = (self.now / 2).max(1);
        } else if moved > 0 {
            self.now = self.now.saturating_mul(2).min(self.full);
        }
    }
}

/// Whether an extent that went from one type to another would now be no worse where it came from.
pub fn fell_below(objective: Objective, extent_bytes: f64, now: &Demand, from: &Sheet, to: &Sheet) -> bool {
    objective.burden(now, extent_bytes, from) <= objective.burden(now, extent_bytes, to)
}

/// Share of the bandwidth of a pair of arrays that moves may take.
pub const MIGRATION_SHARE: f64 = 0.1;

/// The least length of an epoch in which so many extents move within a share of a bandwidth, seconds.
pub fn epoch_s(moves: u32, extent_bytes: f64, mb_per_s: f64, share: f64) -> f64 {
    f64::from(moves) * extent_bytes / 1e6 / (mb_per_s * share)
}

/// The most extents that an epoch moves within a share of a bandwidth.
pub fn moves_max(epoch_s: f64, extent_bytes: f64, mb_per_s: f64, share: f64) -> u32 {
    (epoch_s * mb_per_s * share * 1e6 / extent_bytes) as u32
}
