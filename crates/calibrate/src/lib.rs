//! Measures what layers and devices take on this machine.
//!
//! Everything is measured through the player that predictions use, so that what it takes itself is known and can be
//! told apart. A layer's cost is the difference between a stack with copies of it and one without, played in turns; a
//! device's times are those of its requests. All is measured in rounds, because a machine that others use changes its
//! speed: a layer's cost is the median of the rounds, a distribution that of all rounds together. What a device takes
//! is measured again where others had the CPU meanwhile.
//!
//! Invariant: reports no cost that it did not measure.
//!
//! Reading order: [`Calibrator`], `requests` (what is played), `layers`, `devices`, `wakes` (of a client),
//! `calls` (of file systems), [`undisturbed`].

#![forbid(unsafe_code)]

mod calls;
mod devices;
mod layers;
mod requests;
mod undisturbed;
mod wakes;

use esker_predict::calibration::times::{GROUPS, WHOLE};
use esker_predict::calibration::{Calibration, Skipped, VERSION, WRITTEN_BY};
use esker_predict::{Latencies, PredictError};

use calls::CallBench;
use devices::DeviceBench;
pub use devices::RawDevice;
use layers::LayerBench;
use undisturbed::Round;
pub use undisturbed::undisturbed;
use wakes::WakeBench;

/// What is measured, and how thoroughly.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where it is measured, for people.
    pub machine: String,
    /// Seed of the requests.
    pub seed: u64,
    /// A file in a folder that has room for it, to measure the device kind `file` with; the caller removes it.
    pub file: Option<String>,
    /// Block devices, to measure the device kind `raw` with. Whether they may be overwritten is the caller's to know.
    pub raw: Vec<RawDevice>,
    /// Leaves out layers.
    pub only_devices: bool,
    /// A counter, in any unit, of the CPU time that other processes took so far; constant where it is unknown.
    pub taken_away: fn() -> u64,
}

/// How often a step is measured until no other process took the CPU meanwhile.
pub const TRIES: u32 = 6;

/// Measures round by round.
pub struct Calibrator {
    options: Options,
    /// Of each part.
    rounds: [u32; Part::ALL.len()],
    layers: Vec<LayerBench>,
    skipped: Vec<Skipped>,
    devices: Vec<DeviceBench>,
    wakes: WakeBench,
    calls: CallBench,
}

/// What is measured together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All layers.
    Layers,
    /// Devices that answer at once.
    OnCpu,
    /// Devices that wait.
    Waiting,
    /// Wakes of clients.
    Wakes,
    /// Calls on file systems.
    Calls,
}

impl Part {
    /// All of them.
    pub const ALL: [Part; 5] = [Part::Layers, Part::OnCpu, Part::Waiting, Part::Wakes, Part::Calls];
}

impl Calibrator {
    /// Everything that can be measured with these options; nothing is measured yet.
    pub fn new(options: Options) -> Calibrator {
        let (layers, skipped) = if options.only_devices { Default::default() } else { layers::all() };
        let devices = devices::all(options.file.as_deref(), &options.raw);
        let (wakes, calls) = (WakeBench::default(), CallBench::default());
        Calibrator { options, rounds: Default::default(), layers, skipped, devices, wakes, calls }
    }

    /// Steps of a round, each told to its `watch`.
    pub fn steps(&self) -> usize {
        let rows: usize = self.devices.iter().map(DeviceBench::steps).sum();
        self.layers.len() + rows + WakeBench::STEPS + CallBench::STEPS
    }

    /// Measures everything once more.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn round(&mut self, watch: &mut dyn FnMut(&str)) -> Result<(), PredictError> {
        Part::ALL.into_iter().try_for_each(|part| self.round_of(part, watch))
    }

    /// Measures one part once more, for callers that do something else between.
    ///
    /// # Errors
    /// As [`Calibrator::round`].
    pub fn round_of(&mut self, part: Part, watch: &mut dyn FnMut(&str)) -> Result<(), PredictError> {
        let rounds = &mut self.rounds[part as usize];
        let round = Round { seed: self.options.seed + u64::from(*rounds), taken_away: self.options.taken_away };
        *rounds += 1;
        let devices = |on_cpu: bool| move |device: &&mut DeviceBench| device.is_on_cpu() == on_cpu;
        match part {
            Part::Layers => self.layers.iter_mut().try_for_each(|layer| {
                watch(layer.name());
                layer.round(round.seed)
            }),
            Part::OnCpu | Part::Waiting => {
                let mut devices = self.devices.iter_mut().filter(devices(part == Part::OnCpu));
                devices.try_for_each(|device| device.round(round, watch))
            }
            Part::Wakes => self.wakes.round(round, watch),
            Part::Calls => self.calls.round(round, watch),
        }
    }

    /// What the rounds so far say, of which each part has at least one.
    pub fn finish(&self) -> Calibration {
        Calibration {
            written_by: WRITTEN_BY.to_string(),
            version: VERSION,
            machine: self.options.machine.clone(),
            seed: self.options.seed,
            rounds: self.rounds.into_iter().max().unwrap_or_default(),
            wakes: self.wakes.wakes(),
            calls: self.calls.costs(),
            kinds: self.layers.iter().map(LayerBench::cost).collect(),
            skipped: self.skipped.clone(),
            devices: self.devices.iter().map(DeviceBench::times).collect(),
        }
    }
}

/// The groups of all rounds together. A stop of the machine weighs as much as it does in use, however short a round is.
fn pooled_groups<'a>(rounds: impl Iterator<Item = &'a Latencies>) -> Vec<f64> {
    Latencies::pooled(rounds).group_means(&GROUPS, WHOLE).into_iter().map(tenths).collect()
}

/// As fine as nanoseconds are told.
fn tenths(ns: f64) -> f64 {
    (ns * 10.0).round() / 10.0
}

/// The middle value, or the mean of the two middle ones; 0 without any.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    quantile(values, 0.5)
}

/// The value below which this share of the values lies; between two values it is linear.
fn quantile(values: impl Iterator<Item = f64>, share: f64) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let Some(last) = values.len().checked_sub(1) else { return 0.0 };
    let at = share * last as f64;
    let (low, high) = (values[at.floor() as usize], values[at.ceil() as usize]);
    low + (high - low) * at.fract()
}

#[cfg(test)]
mod tests;
