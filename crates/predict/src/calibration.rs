//! What a machine's CPU and devices take: measured by `esker calibrate`, charged in virtual time.
//!
//! Reading order: [`Calibration`] (the file), [`times`] (service times of a device, by operation, length and requests
//! in flight), [`twin`] (a stack text with measured devices and costs in place of real ones), `measured` and `cpu` (the
//! two kinds that a twin is made of).

mod cpu;
mod measured;
pub mod times;
pub mod twin;

use serde::{Deserialize, Serialize};

pub use times::{ClientCost, DeviceTimes, OpName, Times};

/// Where `esker calibrate` writes and `esker try` looks, unless told otherwise.
pub const FILE: &str = "esker-calibration.toml";
/// The mark by which files of ours are known.
pub const WRITTEN_BY: &str = "esker calibrate";
/// Of the file's form.
pub const VERSION: u32 = 2;

/// What one machine takes. CPU times are of one core at the speed that it had.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// [`WRITTEN_BY`].
    pub written_by: String,
    /// [`VERSION`].
    pub version: u32,
    /// Where it was measured, for people.
    pub machine: String,
    /// Seed of the requests.
    pub seed: u64,
    /// How often everything was measured.
    pub rounds: u32,
    /// How late one wakes, by what one waited, from the shortest on.
    #[serde(default, rename = "wake")]
    pub wakes: Vec<Wake>,
    /// Layers.
    #[serde(default, rename = "kind")]
    pub kinds: Vec<KindCost>,
    /// Kinds that were not measured.
    #[serde(default)]
    pub skipped: Vec<Skipped>,
    /// Calls on file systems.
    #[serde(default, rename = "call")]
    pub calls: Vec<FsCallCost>,
    /// Devices.
    #[serde(default, rename = "device")]
    pub devices: Vec<DeviceTimes>,
}

/// How late one wakes that waited for an instant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wake {
    /// What was waited.
    pub span_ns: u64,
    /// Means of the groups of [`times::GROUPS`].
    pub late_ns: Vec<f64>,
}

/// CPU time of one request through one layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KindCost {
    /// Kind.
    pub name: String,
    /// Nanoseconds for a request of 4 KiB, without what its bytes take.
    pub ns: f64,
    /// Nanoseconds for each further KiB; 0 where it made no difference beyond the spread.
    pub ns_per_kib: f64,
    /// Half the distance between the quartiles of the rounds, in nanoseconds.
    pub spread_ns: f64,
}

/// CPU time of one class of calls on a file system of ours, as a process makes them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FsCallCost {
    /// Kind of the file system.
    pub file_system: String,
    /// Class of calls.
    pub name: String,
    /// Nanoseconds of a call, without what its bytes take.
    pub ns: f64,
    /// Nanoseconds for each KiB.
    pub ns_per_kib: f64,
    /// Half the distance between the quartiles of the rounds, in nanoseconds.
    pub spread_ns: f64,
}

/// A kind that was not measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Skipped {
    /// Kind.
    pub name: String,
    /// Why.
    pub why: String,
}

/// What is wrong with a calibration file.
#[derive(Debug, thiserror::Error)]
pub enum CalibrationError {
    /// It is not of the form.
    #[error("{file}: {what}; measure again with `esker calibrate`")]
    Form {
        /// The file.
        file: String,
        /// What is wrong, with its line.
        what: String,
    },
    /// A device without a size, which the real world would take from the medium.
    #[error("{candidate}: device \"{device}\" has no size, and predicting opens no file; add size = \"...\"")]
    Size {
        /// The stack.
        candidate: String,
        /// The device.
        device: String,
    },
    /// A device that exists only in the real world and was not measured.
    #[error(
        "{candidate}: device \"{device}\" of kind \"{kind}\" exists only in the real world, and the calibration holds no \
         times for it; measure them with `esker calibrate` (--scratch DIR for files, --device PATH for a block device, by \
         the path that the stack names) and give the file with --calibration, or use a model"
    )]
    NotMeasured {
        /// The stack.
        candidate: String,
        /// The device.
        device: String,
        /// Its kind.
        kind: String,
    },
}

impl Calibration {
    /// Reads `text`; `file` is its name in messages.
    ///
    /// # Errors
    /// What is not of the form, with its line.
    pub fn parse(file: &str, text: &str) -> Result<Calibration, CalibrationError> {
        let wrong = |what: String| CalibrationError::Form { file: file.to_string(), what };
        let read: Calibration = toml::from_str(text).map_err(|e| wrong(e.to_string().trim_end().to_string()))?;
        if read.version != VERSION {
            return Err(wrong(format!(
                "version {} is not the version {VERSION} that this program reads",
                read.version
            )));
        }
        let is_sound = |x: f64| x.is_finite() && x >= 0.0;
        let is_wake =
            |wake: &Wake| wake.late_ns.len() == times::GROUP_COUNT && wake.late_ns.iter().all(|x| is_sound(*x));
        if !read.wakes.iter().all(is_wake) || !read.wakes.is_sorted_by_key(|wake| wake.span_ns) {
            let count = times::GROUP_COUNT;
            return Err(wrong(format!("[[wake]] need rising spans, each with {count} finite numbers from 0 on")));
        }
        if let Some(kind) = read.kinds.iter().find(|k| !is_sound(k.ns) || !is_sound(k.ns_per_kib)) {
            return Err(wrong(format!("kind \"{}\": times are finite numbers from 0 on", kind.name)));
        }
        if let Some(call) = read.calls.iter().find(|call| !is_sound(call.ns) || !is_sound(call.ns_per_kib)) {
            return Err(wrong(format!("call \"{}\": times are finite numbers from 0 on", call.name)));
        }
        match read.devices.iter().find_map(|device| Some((device, device.fault()?))) {
            Some((device, fault)) => Err(wrong(format!("device \"{}\": {fault}", device.kind))),
            None => Ok(read),
        }
    }

    /// The text of the file.
    pub fn to_toml(&self) -> String {
        let body = toml::to_string(self).expect("tables come last in every structure");
        format!(
            "# Written by {WRITTEN_BY}. Times are in nanoseconds, of the machine named below. Read by `esker try`.\n{body}"
        )
    }

    /// As one JSON object.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("all keys are texts")
    }

    /// What a layer of that kind takes, if it was measured.
    pub fn kind(&self, name: &str) -> Option<&KindCost> {
        self.kinds.iter().find(|kind| kind.name == name)
    }

    /// The times of the very device of that kind at that path.
    pub fn device_at(&self, kind: &str, path: &str) -> Option<&DeviceTimes> {
        self.devices.iter().find(|device| device.kind == kind && device.path.as_deref() == Some(path))
    }

    /// The times of a device of that kind and about that size, which stands for all such.
    pub fn device(&self, kind: &str, size: u64) -> Option<&DeviceTimes> {
        let far = |device: &&DeviceTimes| (size.max(1) as f64 / device.size.max(1) as f64).ln().abs();
        let of_kind = self.devices.iter().filter(|device| device.kind == kind && device.path.is_none());
        of_kind.min_by(|a, b| far(a).total_cmp(&far(b)))
    }
}

#[cfg(test)]
mod tests;
