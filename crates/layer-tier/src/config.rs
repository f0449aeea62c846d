//! What a stack text and the devices below say.

use std::ops::RangeInclusive;

use esker_base::Nanos;
use esker_block::{KindError, Limits, Make, OpKind, Support};
use esker_layer_kit::media;
use esker_layer_kit::slots::{CommitRule, Doubt, SlotKind, SlotMap, SlotShape, Suspects, ZONES};
use esker_tiering::classify::HEADS_MAX;
use esker_tiering::{Objective, Sheet};

use crate::devices::{Devices, parse};
use crate::orders::Orderly;

/// Largest half of the map's journal in bytes, and the part of the first end that a half takes at most.
const JOURNAL_MAX: u64 = 1 << 20;
const JOURNAL_SHARE: u64 = 256;
/// Smallest half in blocks of the first end.
const JOURNAL_BLOCKS: u64 = 8;
const PAGE: u64 = 4096;

/// Sizes that tests make small.
pub(crate) struct Scale {
    /// Extents, in bytes.
    pub(crate) extents: RangeInclusive<u64>,
    /// Bytes that are copied at once at most.
    pub(crate) unit: u64,
}

/// Those of the product.
pub(crate) const SCALE: Scale = Scale { extents: 1 << 20..=64 << 20, unit: 1 << 20 };

/// One lower device.
#[derive(Clone, Debug)]
pub(crate) struct EndConfig {
    pub(crate) limits: Limits,
    pub(crate) devices: Devices,
    /// Its type, an index of [`TierConfig::sheets`].
    pub(crate) tier: usize,
    /// Slots that fit. The first end has what the map leaves.
    pub(crate) slots: u32,
}

/// Which planner places extents.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Plan {
    /// None: extents stay where they are.
    None,
    /// By the sum over all epochs; it needs what was seen before.
    Est,
    /// One of `tiering` that needs nothing else.
    Named(&'static str),
}

/// What a stack text and the devices say.
#[derive(Clone)]
pub struct TierConfig {
    pub(crate) name: String,
    /// Bytes of an extent.
    pub(crate) extent: u64,
    /// How many there are.
    pub(crate) extents: u32,
    /// Bytes that are copied at once.
    pub(crate) unit: u64,
    pub(crate) shape: SlotShape,
    pub(crate) ends: Vec<EndConfig>,
    pub(crate) sheets: Vec<Sheet>,
    pub(crate) plan: Plan,
    pub(crate) objective: Objective,
    /// Whether plans leave ends empty.
    pub(crate) consolidate: bool,
    pub(crate) epoch: Nanos,
    pub(crate) look: Nanos,
    pub(crate) alpha: f32,
    /// Streams that are told apart.
    pub(crate) heads: u64,
    pub(crate) share: f64,
    pub(crate) throttle: bool,
    pub(crate) theta: f64,
    pub(crate) backoff: bool,
    /// Whether payloads are described: no end stores bytes.
    pub(crate) is_described: bool,
    pub(crate) opened: Orderly,
}

impl TierConfig {
    /// Reads the arguments. Gives the limits of the volume, too.
    ///
    /// # Errors
    /// What does not fit together, and what to do.
    pub(crate) fn of(make: &Make<'_>, scale: &Scale) -> Result<(TierConfig, Limits), KindError> {
        let unfit = |what: String| KindError::Unfit(format!("{}: {what}", make.name));
        let extent = make.args.int("extent");
        if !extent.is_power_of_two() || !scale.extents.contains(&extent) {
            return Err(unfit(format!("extent={extent} is not a power of two from 1MiB to 64MiB")));
        }
        let devices = parse(make.args.text("devices")).map_err(unfit)?;
        if devices.len() != make.lowers.len() {
            return Err(unfit(format!(
                "`devices` has {} sheets for {} ends; write one for each device of `on`, in their order",
                devices.len(),
                make.lowers.len()
            )));
        }
        let both = strictest(make.lowers);
        if u64::from(both.block) > PAGE || both.transfer_max < PAGE as u32 {
            return Err(unfit("the ends need blocks of at most 4096 bytes, and transfers of at least as many".into()));
        }
        let (sheets, ends) = ends(make.lowers, devices, extent).map_err(unfit)?;
        let (shape, extents_max) = shape(&ends, extent).map_err(unfit)?;
        let extents = extents(make, extent, extents_max).map_err(unfit)?;
        let shape = SlotShape { keys: u64::from(extents), ..shape };
        SlotMap::plan(&shape, &ends[0].limits).map_err(|error| unfit(format!("the first end {error}")))?;
        let largest = u64::from(both.transfer_max).min(scale.unit).min(extent);
        let limits = volume_limits(both.clone(), u64::from(extents) * extent);
        let config = TierConfig {
            name: make.name.to_string(),
            extent,
            extents,
            unit: 1 << largest.ilog2(),
            shape,
            ends,
            sheets,
            plan: plan_of(make.args.text("plan")),
            objective: Objective::by_name(make.args.text("objective")).expect("one of the choices"),
            consolidate: make.args.flag("consolidate"),
            epoch: make.args.span("epoch"),
            look: make.args.span("look"),
            alpha: make.args.float("alpha") as f32,
            heads: make.args.int("heads"),
            share: make.args.float("share"),
            throttle: make.args.flag("throttle"),
            theta: make.args.float("theta"),
            backoff: make.args.flag("backoff"),
            is_described: both.described,
            opened: Orderly::default(),
        };
        config.check().map_err(unfit)?;
        Ok((config, limits))
    }

    fn check(&self) -> Result<(), String> {
        let large = self.sheets.iter().find(|sheet| self.extent as f64 > sheet.bytes);
        if let Some(sheet) = large {
            return Err(format!(
                "an extent of {} bytes is larger than one {}; choose smaller extents",
                self.extent, sheet.name
            ));
        }
        let rules = [
            (
                self.look > Nanos::ZERO && self.epoch >= self.look,
                "`look` must be above 0, and `epoch` at least as long",
            ),
            (self.alpha > 0.0, "`alpha` must be above 0"),
            ((1..=HEADS_MAX as u64).contains(&self.heads), "`heads` must be from 1 to 32"),
            (self.share > 0.0, "`share` must be above 0"),
            (self.theta >= 1.0, "`theta` must be at least 1"),
        ];
        rules.iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, what)| Err((*what).to_string()))
    }
}

fn plan_of(word: &str) -> Plan {
    let named = esker_tiering::planners::NAMED.into_iter().find(|name| *name == word);
    match named {
        None => Plan::None,
        Some("est") => Plan::Est,
        Some(name) => Plan::Named(name),
    }
}

fn strictest(lowers: &[Limits]) -> Limits {
    lowers[1..].iter().fold(lowers[0].clone(), |both, lower| both.strictest(lower))
}

/// The types of devices, and the ends with their types.
fn ends(lowers: &[Limits], devices: Vec<Devices>, extent: u64) -> Result<(Vec<Sheet>, Vec<EndConfig>), String> {
    let mut sheets: Vec<Sheet> = Vec::new();
    let mut ends = Vec::new();
    for (number, (limits, devices)) in lowers.iter().zip(devices).enumerate() {
        let tier = sheets.iter().position(|sheet| *sheet == devices.sheet).unwrap_or(sheets.len());
        if tier == sheets.len() {
            sheets.push(devices.sheet.clone());
        }
        let slots = limits.size.saturating_sub(label_bytes(extent)) / extent;
        if number > 0 && slots < 2 {
            return Err(format!(
                "end {number} has {} bytes, which is no room for two extents of {extent} behind its label; choose smaller \
                 extents or a larger device",
                limits.size
            ));
        }
        let slots =
            u32::try_from(slots).map_err(|_| format!("end {number} has too many extents; choose larger ones"))?;
        ends.push(EndConfig { limits: limits.clone(), devices, tier, slots });
    }
    Ok((sheets, ends))
}

/// Bytes before the slots of an end that is not the first.
pub(crate) fn label_bytes(extent: u64) -> u64 {
    media::HEAD.next_multiple_of(extent)
}

/// The map, and how many extents there are at most.
fn shape(ends: &[EndConfig], extent: u64) -> Result<(SlotShape, u32), String> {
    let first = &ends[0].limits;
    let least = JOURNAL_BLOCKS * u64::from(first.block).max(512);
    let journal = (first.size / JOURNAL_SHARE).clamp(least, JOURNAL_MAX) / PAGE * PAGE;
    let others: u64 = ends[1..].iter().map(|end| u64::from(end.slots)).sum();
    let shape = SlotShape {
        kind: SlotKind::Tier,
        unit: extent,
        keys: 1,
        slots: Some(first.size / extent + others),
        journal,
        zones: ZONES,
        doubt: Doubt::Zones,
        suspects: Suspects::Drop,
        commit: CommitRule::Group,
    };
    let planned = |shape: &SlotShape| SlotMap::plan(shape, first).map_err(|error| format!("the first end {error}"));
    // A map for fewer slots is no larger, so what it leaves is enough.
    let here = planned(&shape)?.here;
    if here < 2 {
        return Err(format!(
            "the first end has {} bytes, which is no room for the map and two extents of {extent}; choose smaller extents or a \
             larger device",
            first.size
        ));
    }
    let slots = u64::from(here) + others;
    let extents = slots - ends.len() as u64;
    let extents = u32::try_from(extents).map_err(|_| "there are too many extents; choose larger ones".to_string())?;
    Ok((SlotShape { slots: Some(slots), ..shape }, extents))
}

/// Extents of the volume: those of its size.
fn extents(make: &Make<'_>, extent: u64, most: u32) -> Result<u32, String> {
    let Some(size) = make.args.int_opt("size") else { return Ok(most) };
    let extents = size / extent;
    match u32::try_from(extents) {
        Ok(extents) if extents > 0 && extents <= most && size.is_multiple_of(extent) => Ok(extents),
        _ => Err(format!("size={size} is not a multiple of the extent up to {}", u64::from(most) * extent)),
    }
}

/// Requests are cut at the borders of extents, so no more than a block is written as a whole.
fn volume_limits(both: Limits, size: u64) -> Limits {
    let limits = Limits { size, atomic: both.block, ranges_max: 0, ..both };
    let none = [OpKind::Clone, OpKind::Move, OpKind::Delete, OpKind::Extents];
    none.into_iter().fold(limits, |limits, kind| limits.with(kind, Support::No))
}
