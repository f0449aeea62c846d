//! Measures what layers and devices take on this machine.
//!
//! Everything is measured through the player that predictions use, so that what it takes itself is known and can be told
//! apart. A layer's cost is the difference between a stack with copies of it and one without, played in turns; a device's
//! times are those of its requests. All is measured in rounds and each figure is the median of its rounds, because other
//! programs disturb a round but seldom most of them.
//!
//! Reading order: [`Calibrator`], `bench` (one stack, played many times), `layers`, `devices`, `wakes` (of a client).

mod bench;
mod devices;
mod layers;
mod wakes;

use crate::calibration::{Calibration, Skipped, VERSION, WRITTEN_BY};
use crate::error::PredictError;
use devices::DeviceBench;
use layers::LayerBench;
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
    /// Leaves out layers.
    pub only_devices: bool,
}

/// Measures round by round.
pub struct Calibrator {
    options: Options,
    rounds: u32,
    layers: Vec<LayerBench>,
    skipped: Vec<Skipped>,
    devices: Vec<DeviceBench>,
    wakes: WakeBench,
}

impl Calibrator {
    /// Everything that can be measured with these options; nothing is measured yet.
    pub fn new(options: Options) -> Calibrator {
        let (layers, skipped) = if options.only_devices { Default::default() } else { layers::all() };
        let devices = devices::all(options.file.as_deref());
        Calibrator { options, rounds: 0, layers, skipped, devices, wakes: WakeBench::default() }
    }

    /// Steps of a round, each told to its `watch`.
    pub fn steps(&self) -> usize {
        self.layers.len() + self.devices.len()
    }

    /// Measures everything once more.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn round(&mut self, watch: &mut dyn FnMut(&str)) -> Result<(), PredictError> {
        let seed = self.options.seed + u64::from(self.rounds);
        for layer in &mut self.layers {
            watch(layer.name());
            layer.round(seed)?;
        }
        for device in &mut self.devices {
            watch(device.name());
            device.round(seed)?;
        }
        self.wakes.round(seed)?;
        self.rounds += 1;
        Ok(())
    }

    /// The medians of the rounds so far, of which there is at least one.
    pub fn finish(&self) -> Calibration {
        Calibration {
            written_by: WRITTEN_BY.to_string(),
            version: VERSION,
            machine: self.options.machine.clone(),
            seed: self.options.seed,
            rounds: self.rounds,
            wake_late_ns: self.wakes.late(),
            kinds: self.layers.iter().map(LayerBench::cost).collect(),
            skipped: self.skipped.clone(),
            devices: self.devices.iter().map(DeviceBench::times).collect(),
        }
    }
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
