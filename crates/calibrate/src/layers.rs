//! What layers cost.

use esker_base::units::{KIB, MIB, size_text};
use esker_block::{Arity, Build, Kind, ParamType, Worlds};
use esker_predict::PredictError;
use esker_predict::bench::Bench;
use esker_predict::calibration::{KindCost, Skipped};
use esker_stack::{DeviceSpec, Spec};

use super::requests::{Ops, Requests, device};
use super::{median, quantile};

/// Copies of a layer on each other, where they can stand so: what one costs is small beside a request.
const COPIES: usize = 8;
/// Lower devices of a layer that has several.
const LOWERS: usize = 4;
/// Short and long requests, in bytes.
const LENS: [u64; 2] = [4 * KIB, 64 * KIB];
/// Requests of one batch: so short that another program seldom comes between.
const BATCH: u64 = 512;
/// Batches of each stack in a round, of which the fastest counts: nothing makes a batch faster than it is.
const BATCHES: usize = 12;
/// Bytes of the memory below. Moving them pushes what a layer needs out of the nearest caches, as it does in use.
const SIZE: u64 = 32 * MIB;

/// Parameters without which a kind cannot be built, or would do what is not to be measured.
const GIVEN: &[(&str, &[(&str, &str)])] = &[("rate", &[("iops", "1000000000")]), ("stripe", &[("chunk", "64KiB")])];

/// One layer, measured against the same stack without it.
pub(crate) struct LayerBench {
    kind: &'static Kind,
    copies: usize,
    /// By length: what one copy cost in each round, in nanoseconds.
    costs: [Vec<f64>; LENS.len()],
}

/// All layers that can be measured, and why the others cannot.
pub(crate) fn all() -> (Vec<LayerBench>, Vec<Skipped>) {
    let (mut benches, mut skipped) = (Vec::new(), Vec::new());
    for kind in esker_kinds::ALL.iter().copied().filter(|kind| matches!(kind.build, Build::Layer(_))) {
        match copies(kind) {
            Ok(copies) => benches.push(LayerBench { kind, copies, costs: Default::default() }),
            Err(why) => skipped.push(Skipped { name: kind.name.to_string(), why: why.to_string() }),
        }
    }
    (benches, skipped)
}

/// Why a layer is not measured.
#[derive(Debug, thiserror::Error)]
enum UnfitLayer {
    #[error("needs the outside world ({0})")]
    Outside(&'static str),
    #[error("needs the parameter {0}")]
    Parameter(&'static str),
    #[error("exists only in the real world")]
    RealOnly,
    #[error("no stack could be built with its defaults")]
    Unbuilt,
}

/// How many copies of a layer can stand on each other; not even one, and why.
fn copies(kind: &'static Kind) -> Result<usize, UnfitLayer> {
    let given = given(kind);
    let missing = kind
        .params
        .iter()
        .find(|param| param.default.is_none() && !param.optional && !given.iter().any(|(name, _)| *name == param.name));
    match missing {
        Some(param) if matches!(param.ty, ParamType::Text | ParamType::Secret) => {
            return Err(UnfitLayer::Outside(param.name));
        }
        Some(param) => return Err(UnfitLayer::Parameter(param.name)),
        None if kind.worlds == Worlds::RealOnly => return Err(UnfitLayer::RealOnly),
        None => {}
    }
    let stands = |copies: &usize| {
        let spec = Spec { devices: devices(kind, *copies), ..Spec::default() };
        let is_sound = spec.check(esker_kinds::ALL).is_ok();
        is_sound && Bench::new(spec.devices, 1).is_ok()
    };
    let most = if kind.lowers == Arity::One { COPIES } else { 1 };
    [most, 1].into_iter().find(stands).ok_or(UnfitLayer::Unbuilt)
}

fn given(kind: &Kind) -> &'static [(&'static str, &'static str)] {
    GIVEN.iter().find(|(name, _)| *name == kind.name).map_or(&[], |(_, args)| args)
}

/// A stack with so many copies of the layer; with none, what they would stand on.
fn devices(kind: &Kind, copies: usize) -> Vec<DeviceSpec> {
    let count = if kind.lowers == Arity::One || copies == 0 { 1 } else { LOWERS };
    let names: Vec<String> = (0..count).map(|at| format!("d{at}")).collect();
    let size = size_text(SIZE / count as u64);
    let mut devices: Vec<DeviceSpec> =
        names.iter().map(|name| device(name, "memory", &[], &[("size", &size)])).collect();
    let mut on: Vec<&str> = names.iter().map(String::as_str).collect();
    let tops: Vec<String> = (0..copies).map(|copy| format!("l{copy}")).collect();
    for top in &tops {
        devices.push(device(top, kind.name, &on, given(kind)));
        on = vec![top];
    }
    devices
}

impl LayerBench {
    /// The kind.
    pub(crate) fn name(&self) -> &'static str {
        self.kind.name
    }

    /// Measures it once more, in turns with the stack without it.
    ///
    /// # Errors
    /// What cannot be built or played.
    pub(crate) fn round(&mut self, seed: u64) -> Result<(), PredictError> {
        let without = Bench::new(devices(self.kind, 0), seed)?;
        let with = Bench::new(devices(self.kind, self.copies), seed)?;
        without.fill()?;
        with.fill()?;
        for (len, costs) in LENS.into_iter().zip(&mut self.costs) {
            let requests = Requests { ops: Ops::Mixed, len, depth: 1, count: BATCH };
            let cycle = |bench: &Bench| Ok::<_, PredictError>(requests.take(bench, SIZE, seed)?.cycle_ns);
            let (mut base, mut more) = (f64::INFINITY, f64::INFINITY);
            for _ in 0..BATCHES {
                base = base.min(cycle(&without)?);
                more = more.min(cycle(&with)?);
            }
            costs.push((more - base) / self.copies as f64);
        }
        Ok(())
    }

    /// The median over the rounds.
    pub(crate) fn cost(&self) -> KindCost {
        let [short, long] = &self.costs;
        let middle = |costs: &[f64]| median(costs.iter().copied());
        let spread = |costs: &[f64]| {
            let at = |share| quantile(costs.iter().copied(), share);
            (at(0.75) - at(0.25)) / 2.0
        };
        let kib = (LENS[1] - LENS[0]) as f64 / KIB as f64;
        let grows = middle(long) - middle(short);
        let matters = grows > 2.0 * (spread(long) + spread(short));
        let ns_per_kib = if matters { grows / kib } else { 0.0 };
        let ns = (middle(short) - ns_per_kib * (LENS[0] / KIB) as f64).max(0.0);
        let rounded = |x: f64| (x * 100.0).round() / 100.0;
        KindCost {
            name: self.kind.name.to_string(),
            ns: rounded(ns),
            ns_per_kib: rounded(ns_per_kib),
            spread_ns: rounded(spread(short)),
        }
    }
}
