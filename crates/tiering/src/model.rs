//! How much of a device an extent takes, and what that costs.

use crate::demand::Demand;
use crate::sheet::Sheet;

/// Of one device, the share of its time that a demand takes: RC(E_p, D) of the source, section 3.4.
///
/// It is compared with capacity as a *sum*: a tier needs the larger of both sums, never the sum of larger ones.
#[inline]
pub fn performance(demand: &Demand, sheet: &Sheet) -> f64 {
    f64::from(demand.random) * sheet.rtime_s + f64::from(demand.mb_per_s) * sheet.xtime_s_per_mb
}

/// Of one device, the share that an extent takes by itself: RC(E, D), the larger of its time and its room.
#[inline]
pub fn consumption(demand: &Demand, extent_bytes: f64, sheet: &Sheet) -> f64 {
    performance(demand, sheet).max(sheet.capacity(extent_bytes))
}

/// What a placement makes small.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Objective {
    /// Price of the shares of devices. The default.
    Cost,
    /// Active power of the shares of devices, as the source's online manager has it. With the printed watts an SSD has
    /// the least in all three dimensions, so it is always the answer.
    Power,
    /// Price first. Power decides between tiers of nearly one price: twice the watts weigh as 7 % of the price.
    CostThenPower,
    /// The shares themselves, without price: the planner `utilisation` of the source's chapter 6.
    Resources,
    /// Time of devices alone, which is the sum of service times: what makes answers come soon on devices that are
    /// there anyway. Room bounds a placement and weighs nothing, but idle extents go where it is cheap. Not in the
    /// source.
    Time,
}

/// Weight of a dollar's worth of room in [`Objective::Time`], devices' worth of time. It moves extents that ask next to
/// nothing to cheap room: at 1,000 dollars and a thousandth of a device, those with less than a microsecond a second.
const ROOM_WEIGHT: f64 = 1e-6;

/// Exponent of watts in [`Objective::CostThenPower`].
const POWER_WEIGHT: f64 = 0.1;

impl Objective {
    /// All, by the names that configurations use.
    pub const NAMED: [(&str, Objective); 5] = [
        ("cost", Objective::Cost),
        ("power", Objective::Power),
        ("cost-then-power", Objective::CostThenPower),
        ("resources", Objective::Resources),
        ("time", Objective::Time),
    ];

    /// The objective of this name.
    pub fn by_name(name: &str) -> Option<Objective> {
        Objective::NAMED.iter().find(|(known, _)| *known == name).map(|(_, objective)| *objective)
    }

    /// What one device weighs.
    pub fn weight(self, sheet: &Sheet) -> f64 {
        match self {
            Objective::Cost => sheet.usd,
            Objective::Power => sheet.active_w,
            Objective::CostThenPower => sheet.usd * sheet.active_w.powf(POWER_WEIGHT),
            Objective::Resources | Objective::Time => 1.0,
        }
    }

    /// What an extent takes of a device where this objective counts it.
    #[inline]
    pub(crate) fn share(self, demand: &Demand, extent_bytes: f64, sheet: &Sheet) -> f64 {
        match self {
            Objective::Time => performance(demand, sheet),
            Objective::Cost | Objective::Power | Objective::CostThenPower | Objective::Resources => {
                consumption(demand, extent_bytes, sheet)
            }
        }
    }

    /// What so large a share weighs.
    #[inline]
    pub(crate) fn weighed(self, share: f64, extent_bytes: f64, sheet: &Sheet) -> f64 {
        match self {
            Objective::Time => share + ROOM_WEIGHT * sheet.usd * sheet.capacity(extent_bytes),
            Objective::Cost | Objective::Power | Objective::CostThenPower | Objective::Resources => {
                share * self.weight(sheet)
            }
        }
    }

    /// What an extent weighs on a device: the fractional burden of the source.
    #[inline]
    pub fn burden(self, demand: &Demand, extent_bytes: f64, sheet: &Sheet) -> f64 {
        self.weighed(self.share(demand, extent_bytes, sheet), extent_bytes, sheet)
    }

    /// The best type for an extent, whatever is free: the one of least burden that can serve it with so many devices
    /// in one array. `None`: no type can.
    pub fn best(self, demand: &Demand, extent_bytes: f64, sheets: &[Sheet], devices: &[u32]) -> Option<usize> {
        let serves = |tier: &usize| performance(demand, &sheets[*tier]) <= f64::from(devices[*tier]);
        let burden = |tier: usize| self.burden(demand, extent_bytes, &sheets[tier]);
        (0..sheets.len()).filter(serves).min_by(|a, b| burden(*a).total_cmp(&burden(*b)))
    }
}

/// One row of a demand that has one dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dimension {
    /// Random requests per second.
    Random,
    /// Sequential MB per second.
    Sequential,
}

impl Dimension {
    /// Seconds of a device for one unit.
    pub fn seconds(self, sheet: &Sheet) -> f64 {
        match self {
            Dimension::Random => sheet.rtime_s,
            Dimension::Sequential => sheet.xtime_s_per_mb,
        }
    }
}

/// The demand at which the time of an extent on a device overtakes its room.
pub fn overtakes(dimension: Dimension, extent_bytes: f64, sheet: &Sheet) -> f64 {
    sheet.capacity(extent_bytes) / dimension.seconds(sheet)
}

/// The demand from which `high` has a lower burden than `low`, for an extent that is cheaper on `low` while it is idle.
/// `None`: it never has, or always.
///
/// The crossing lies where `low` is paid by time and `high` still by room: both lines of time begin at nothing.
pub fn break_even(low: &Sheet, high: &Sheet, by: Dimension, extent_bytes: f64, objective: Objective) -> Option<f64> {
    let room = |sheet: &Sheet| objective.weight(sheet) * sheet.capacity(extent_bytes);
    let slope = |sheet: &Sheet| objective.weight(sheet) * by.seconds(sheet);
    (room(low) < room(high) && slope(low) > slope(high)).then(|| room(high) / slope(low))
}
