//! How many devices of each type a load needs: the configuration adviser of the source, and its baselines.
//!
//! For each epoch extents go to the type where they cost least. A type needs the larger of two sums, of time and of
//! room. Over epochs the largest need of each type counts (section 3.4.4). [`joint`] looks for fewer devices: the
//! cheapest ones on which a plan finds room for each epoch.

use crate::demand::Demand;
use crate::epoch::{Array, Epoch, NOWHERE, Placement, UsedExtent};
use crate::history::{History, InUse};
use crate::model::{Objective, performance};
use crate::planners::{Edt, Planner};
use crate::sheet::{Sheet, peak_w, usd};

/// A load over time.
#[derive(Debug, Clone, Copy)]
pub struct Workload<'a> {
    /// Size of an extent, bytes.
    pub extent_bytes: f64,
    /// Extents in all, those among them that are never in use.
    pub extents: u64,
    /// Extents in use, epoch by epoch.
    pub epochs: &'a [Vec<(u32, Demand)>],
    /// So many times the load, on so many times the data.
    pub growth: f64,
}

impl Workload<'_> {
    /// The same extents, whose demand is all requests, each of which counts as random: what is seen by IOPS alone.
    fn by_iops(&self) -> Vec<Vec<(u32, Demand)>> {
        let one =
            |(extent, demand): &(u32, Demand)| (*extent, Demand { random: demand.iops, mb_per_s: 0.0, ..*demand });
        self.epochs.iter().map(|epoch| epoch.iter().map(one).collect()).collect()
    }
}

/// What one type needs in one epoch, in devices.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Need {
    /// Sum of the time of its extents.
    pub performance: f64,
    /// Sum of their room.
    pub capacity: f64,
}

impl Need {
    /// Devices: the larger of both sums.
    pub fn devices(&self) -> f64 {
        self.performance.max(self.capacity)
    }

    /// Whole devices.
    pub fn count(&self) -> u32 {
        whole(self.devices())
    }
}

/// Rounds up, but not for what is only rounding of sums.
fn whole(devices: f64) -> u32 {
    (devices - 1e-9).ceil().max(0.0) as u32
}

/// An extent that no single device serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Striped {
    /// Epoch, from 0.
    pub epoch: usize,
    /// Extent.
    pub extent: u32,
    /// The type that it was given to.
    pub tier: usize,
    /// Devices of that type over which it must be striped.
    pub devices: u32,
}

/// How many devices of each type.
#[derive(Debug, Clone, PartialEq)]
pub struct Sizes {
    /// Whole devices of each type.
    pub counts: Vec<u32>,
    /// The same without rounding. In small systems rounding decides, so both are told.
    pub fractional: Vec<f64>,
    /// Needs of each epoch, by type.
    pub epochs: Vec<Vec<Need>>,
    /// Extents that no single device serves.
    pub striped: Vec<Striped>,
}

impl Sizes {
    /// Combines needs of epochs: the largest of each type.
    pub fn of(tiers: usize, epochs: Vec<Vec<Need>>, striped: Vec<Striped>) -> Sizes {
        let largest = |tier: usize| epochs.iter().map(|needs| needs[tier].devices()).fold(0.0, f64::max);
        let fractional: Vec<f64> = (0..tiers).map(largest).collect();
        let counts = fractional.iter().map(|devices| whole(*devices)).collect();
        Sizes { counts, fractional, epochs, striped }
    }

    /// Price of the whole devices, US dollars.
    pub fn usd(&self, sheets: &[Sheet]) -> f64 {
        usd(sheets, &self.counts.iter().map(|count| f64::from(*count)).collect::<Vec<_>>())
    }

    /// Price without rounding, US dollars.
    pub fn usd_fractional(&self, sheets: &[Sheet]) -> f64 {
        usd(sheets, &self.fractional)
    }

    /// Peak power of the whole devices by their sheets, watts.
    pub fn peak_w(&self, sheets: &[Sheet]) -> f64 {
        peak_w(sheets, &self.counts.iter().map(|count| f64::from(*count)).collect::<Vec<_>>())
    }
}

/// Needs of one epoch, where `tier_of` gives each extent in use a type, and idle ones go to `idle_tier`.
fn needs(
    sheets: &[Sheet],
    load: &Workload<'_>,
    epoch: &InUse,
    idle: u64,
    idle_tier: usize,
    tier_of: &dyn Fn(u32, &Demand) -> usize,
) -> Vec<Need> {
    let mut extents = vec![0u64; sheets.len()];
    let mut needs = vec![Need::default(); sheets.len()];
    extents[idle_tier] += idle;
    for (extent, demand) in epoch {
        let tier = tier_of(*extent, demand);
        extents[tier] += 1;
        needs[tier].performance += performance(demand, &sheets[tier]) * load.growth;
    }
    for ((need, extents), sheet) in needs.iter_mut().zip(extents).zip(sheets) {
        need.capacity = extents as f64 * sheet.capacity(load.extent_bytes) * load.growth;
    }
    needs
}

/// The type of least burden for an extent, with so many devices over which it must be striped: 1 unless no single
/// device serves it.
fn binned(sheets: &[Sheet], extent_bytes: f64, objective: Objective, demand: &Demand) -> (usize, u32) {
    let single = vec![1; sheets.len()];
    if let Some(tier) = objective.best(demand, extent_bytes, sheets, &single) {
        return (tier, 1);
    }
    let tier = objective.best(demand, extent_bytes, sheets, &vec![u32::MAX; sheets.len()]);
    let tier = tier.expect("there is a type of devices");
    (tier, whole(performance(demand, &sheets[tier])))
}

/// The configuration adviser: extent-based dynamic tiering.
///
/// # Panics
/// If there is no sheet.
pub fn edt(sheets: &[Sheet], load: &Workload<'_>, objective: Objective) -> Sizes {
    by_bins(sheets, load, load.epochs, objective)
}

/// Baseline: dynamic tiering by requests per second alone. Each request counts as random, whatever stream it is in.
/// Room counts, for the data must lie somewhere.
///
/// # Panics
/// If there is no sheet.
pub fn idt(sheets: &[Sheet], load: &Workload<'_>, objective: Objective) -> Sizes {
    by_bins(sheets, load, &load.by_iops(), objective)
}

fn by_bins(sheets: &[Sheet], load: &Workload<'_>, epochs: &[Vec<(u32, Demand)>], objective: Objective) -> Sizes {
    let bin = |demand: &Demand| binned(sheets, load.extent_bytes, objective, demand);
    let (idle_tier, _) = bin(&Demand::default());
    let mut striped = Vec::new();
    let mut all = Vec::new();
    for (number, epoch) in epochs.iter().enumerate() {
        let idle = load.extents.saturating_sub(epoch.len() as u64);
        all.push(needs(sheets, load, epoch, idle, idle_tier, &|_, demand| bin(demand).0));
        for (extent, demand) in epoch {
            let (tier, devices) = bin(demand);
            if devices > 1 {
                striped.push(Striped { epoch: number, extent: *extent, tier, devices });
            }
        }
    }
    Sizes::of(sheets.len(), all, striped)
}

/// Baseline: static tiering. Each extent is on the type where the sum of its costs over all epochs is least, and each
/// type has the devices of its peak.
///
/// # Panics
/// If there is no sheet.
pub fn est(sheets: &[Sheet], load: &Workload<'_>, objective: Objective) -> Sizes {
    let history = History::new(sheets, load.extent_bytes, load.epochs.iter().map(Vec::as_slice));
    let least = |shares: &[f64]| {
        let burden = |tier: &usize| shares[*tier] * objective.weight(&sheets[*tier]);
        (0..sheets.len()).min_by(|a, b| burden(a).total_cmp(&burden(b))).expect("there is a type of devices")
    };
    let tier_of = |extent: u32| history.of(extent).map(|seen| least(&seen.shares));
    let known: std::collections::BTreeMap<u32, usize> =
        history.extents().filter_map(|extent| Some((extent, tier_of(extent)?))).collect();
    let idle_shares: Vec<f64> = sheets.iter().map(|sheet| sheet.capacity(load.extent_bytes)).collect();
    let idle = load.extents.saturating_sub(known.len() as u64);
    let mut homes = vec![0.0; sheets.len()];
    homes[least(&idle_shares)] += idle as f64;
    known.values().for_each(|tier| homes[*tier] += 1.0);
    let mut epochs = Vec::new();
    for epoch in load.epochs {
        let mut needs = needs(sheets, load, epoch, 0, 0, &|extent, _| known[&extent]);
        for ((need, homes), sheet) in needs.iter_mut().zip(&homes).zip(sheets) {
            need.capacity = homes * sheet.capacity(load.extent_bytes) * load.growth;
        }
        epochs.push(needs);
    }
    Sizes::of(sheets.len(), epochs, Vec::new())
}

/// Baseline: one type alone, for room and for the peaks of requests and of bytes per second, by measured peaks.
pub fn homogeneous(sheets: &[Sheet], tier: usize, load: &Workload<'_>) -> Sizes {
    let sheet = &sheets[tier];
    let capacity = load.extents as f64 * sheet.capacity(load.extent_bytes) * load.growth;
    let sum =
        |epoch: &InUse, of: fn(&Demand) -> f32| epoch.iter().map(|(_, demand)| f64::from(of(demand))).sum::<f64>();
    let need = |epoch: &Vec<(u32, Demand)>| {
        let random = sum(epoch, |demand| demand.random) / sheet.iops;
        let bytes = sum(epoch, |demand| demand.mb_per_s) / sheet.mb_per_s;
        let mut needs = vec![Need::default(); sheets.len()];
        needs[tier] = Need { performance: random.max(bytes) * load.growth, capacity };
        needs
    };
    Sizes::of(sheets.len(), load.epochs.iter().map(need).collect(), Vec::new())
}

/// The cheapest whole devices on which a plan finds room and time for each epoch, each device being an array.
///
/// Every combination that costs less than the per-type maxima of [`edt`] is tried, the cheapest first. `None`: none of
/// these is enough, as the maxima of sums need not be packable. Growth counts as so many times the demand and extents.
/// This packs every epoch for each combination, so it is for small configurations.
///
/// # Panics
/// If there is no sheet.
pub fn joint(sheets: &[Sheet], load: &Workload<'_>, objective: Objective) -> Option<Vec<u32>> {
    let most = edt(sheets, load, objective);
    let mut candidates = vec![vec![]];
    for sheet in sheets {
        let extend = |counts: Vec<u32>| {
            let spent: f64 = counts.iter().zip(sheets).map(|(count, sheet)| f64::from(*count) * sheet.usd).sum();
            let room = if sheet.usd > 0.0 { ((most.usd(sheets) - spent) / sheet.usd + 1e-9) as u32 } else { 0 };
            (0..=room).map(move |count| [counts.clone(), vec![count]].concat())
        };
        candidates = candidates.into_iter().flat_map(extend).collect();
    }
    let price = |counts: &Vec<u32>| usd(sheets, &counts.iter().map(|count| f64::from(*count)).collect::<Vec<_>>());
    let holds = |counts: &Vec<u32>| {
        let slots: f64 = counts.iter().zip(sheets).map(|(count, sheet)| f64::from(*count) * slots(sheet, load)).sum();
        slots >= load.extents as f64 * load.growth
    };
    candidates.retain(holds);
    candidates.sort_by(|a, b| price(a).total_cmp(&price(b)).then_with(|| a.cmp(b)));
    // The epoch that refused the last candidate is the most likely one to refuse the next.
    let mut order: Vec<usize> = (0..load.epochs.len()).collect();
    candidates.into_iter().find(|counts| {
        let refuses = order.iter().position(|epoch| !packs(sheets, load, objective, &load.epochs[*epoch], counts));
        if let Some(refuses) = refuses {
            order[..=refuses].rotate_right(1);
        }
        refuses.is_none()
    })
}

fn slots(sheet: &Sheet, load: &Workload<'_>) -> f64 {
    (sheet.bytes / load.extent_bytes).floor()
}

/// Whether a plan finds room and time for an epoch on so many devices.
fn packs(sheets: &[Sheet], load: &Workload<'_>, objective: Objective, in_use: &InUse, counts: &[u32]) -> bool {
    let placement = fresh(sheets, load, objective, in_use, counts);
    placement.overloads.is_empty() && placement.idle_overload == 0
}

fn fresh(sheets: &[Sheet], load: &Workload<'_>, objective: Objective, in_use: &InUse, counts: &[u32]) -> Placement {
    let mut arrays = Vec::new();
    for (tier, count) in counts.iter().enumerate() {
        let extents_max = slots(&sheets[tier], load) as u32;
        let array = Array { tier, devices: 1, extents_max, idle: 0, is_powered: true };
        arrays.extend(std::iter::repeat_n(array, *count as usize));
    }
    // Growth is as many times the extents, each with its demand.
    let copies = (in_use.len() as f64 * load.growth).round() as usize;
    let extents = in_use.iter().cycle().take(copies).zip(0..);
    let extents: Vec<UsedExtent> =
        extents.map(|((_, demand), id)| UsedExtent { id, at: NOWHERE, demand: *demand, is_held: false }).collect();
    let idle = (load.extents as f64 * load.growth).ceil() as u64 - copies as u64;
    let (extent_bytes, idle_nowhere) = (load.extent_bytes, u32::try_from(idle).expect("a volume has 32-bit extents"));
    let epoch =
        Epoch { sheets, arrays: &arrays, extents: &extents, extent_bytes, idle_nowhere, fill: 1.0, consolidates: true };
    Edt { objective }.plan(&epoch)
}
