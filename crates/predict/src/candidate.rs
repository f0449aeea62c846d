//! Candidate stacks: the default ones, sized for the traces, and the user's own.

use std::collections::BTreeMap;

use esker_base::units::{KIB, MIB, size_text};
use esker_block::Args;
use esker_dev_sim::disk_model::{self, DiskSpec, File, disksim};
use esker_dev_sim::ssd_model::SsdSpec;
use esker_stack::{DeviceSpec, ExportSpec, Place, Spec};

use crate::error::PredictError;
use crate::trace::Facts;

/// A stack that is to be compared with others. Its exports serve the traces, in their order.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Short name.
    pub name: String,
    /// What it is, in a few words.
    pub what: String,
    /// The stack.
    pub spec: Spec,
}

/// Sizes of volumes and devices are multiples of this.
const GRAIN: u64 = MIB;
const CHUNK: u64 = 64 * KIB;
const STRIPED: u64 = 4;

/// A disk that was measured: the files of one folder in DiskSim's formats.
#[derive(Clone, Debug)]
pub struct MeasuredDisk {
    /// Short name.
    pub name: String,
    /// Names without their folder, and texts.
    pub files: Vec<File>,
}

/// Equal devices under a candidate that is made for the traces.
struct Model {
    kind: &'static str,
    /// The parameter that says which device, and its value.
    which: (&'static str, String),
    /// The same for people.
    shown: String,
    device: &'static str,
    capacity: u64,
}

impl Candidate {
    /// One disk, a stripe of four, one solid-state drive on SATA and one on NVMe, each with a volume for every trace.
    /// Where one device is too small for all volumes, as many as are needed are joined.
    pub fn defaults(traces: &[Facts]) -> Vec<Candidate> {
        let disk = |profile: &'static str| Model {
            kind: "disk-model",
            which: ("profile", profile.to_string()),
            shown: profile.to_string(),
            device: "disk",
            capacity: DiskSpec::profile(profile).map_or(0, |spec| spec.capacity),
        };
        let ssd = |profile: &'static str| Model {
            kind: "ssd-model",
            which: ("profile", profile.to_string()),
            shown: profile.to_string(),
            device: "ssd",
            capacity: SsdSpec::profile(profile).map_or(0, |spec| spec.capacity),
        };
        vec![
            joined("disk", &disk("hdd-7200-2021"), traces),
            striped("disk-stripe", &disk("hdd-7200-2021"), traces),
            joined("ssd-sata", &ssd("ssd-sata-2021"), traces),
            joined("ssd-nvme", &ssd("ssd-nvme-2022"), traces),
        ]
    }

    /// A measured disk, or as many of them as the volumes need.
    ///
    /// # Errors
    /// What makes no disk, with file and line.
    pub fn of_disk(disk: &MeasuredDisk, traces: &[Facts]) -> Result<Candidate, PredictError> {
        let refused = |source| PredictError::Disk { name: disk.name.clone(), source };
        let texts = disksim::join(&disk.files);
        let given = BTreeMap::from([("measured".to_string(), texts.clone())]);
        let args = Args::read(&disk_model::KIND, &given).map_err(refused)?;
        let model = Model {
            kind: disk_model::KIND.name,
            which: ("measured", texts),
            shown: format!("measured {} (power and price are the model's default)", disk.name),
            device: "disk",
            capacity: disk_model::parts(&args).map_err(refused)?.capacity,
        };
        Ok(joined(&disk.name, &model, traces))
    }
}

fn volume_bytes(trace: &Facts) -> u64 {
    trace.reach_bytes.max(1).next_multiple_of(GRAIN)
}

fn total_bytes(traces: &[Facts]) -> u64 {
    traces.iter().map(volume_bytes).sum()
}

/// Devices one after the other, or a single one.
fn joined(name: &str, model: &Model, traces: &[Facts]) -> Candidate {
    let total = total_bytes(traces);
    let usable = (model.capacity - model.capacity % GRAIN).max(GRAIN);
    let count = total.div_ceil(usable).max(1);
    let size = |at: u64| usable.min(total - at * usable);
    let spec = arranged(name, model, (0..count).map(size).collect(), ("concat", &[]), traces);
    let what = match count {
        1 => format!("one {}", model.shown),
        _ => format!("{count} {} joined", model.shown),
    };
    Candidate { name: name.to_string(), what, spec }
}

/// Equal devices side by side.
fn striped(name: &str, model: &Model, traces: &[Facts]) -> Candidate {
    let total = total_bytes(traces);
    let count = STRIPED.max(total.div_ceil((model.capacity - model.capacity % GRAIN).max(GRAIN)));
    let size = total.div_ceil(count).next_multiple_of(GRAIN);
    let chunk = ("chunk", size_text(CHUNK));
    let spec = arranged(name, model, vec![size; count as usize], ("stripe", &[chunk]), traces);
    let what = format!("stripe of {count} {}", model.shown);
    Candidate { name: name.to_string(), what, spec }
}

/// Devices of these sizes, what joins them if they are several, small blocks on top, and a window for each trace.
fn arranged(name: &str, model: &Model, sizes: Vec<u64>, join: (&str, &[(&str, String)]), traces: &[Facts]) -> Spec {
    let place = || Place::new(name, 0);
    let part = |name: &str, kind: &str, on: Vec<String>, args: &[(&str, String)]| {
        let args: BTreeMap<_, _> = args.iter().map(|(key, value)| (key.to_string(), value.clone())).collect();
        DeviceSpec::new(name, kind, on, args, place())
    };
    let mut spec = Spec::default();
    for (at, size) in sizes.iter().enumerate() {
        let args = [model.which.clone(), ("size", size_text(*size))];
        spec.devices.push(part(&format!("{}{at}", model.device), model.kind, Vec::new(), &args));
    }
    let leaves: Vec<String> = spec.devices.iter().map(|device| device.name.clone()).collect();
    let below = match leaves.as_slice() {
        [one] => one.clone(),
        _ => {
            spec.devices.push(part("array", join.0, leaves, join.1));
            "array".to_string()
        }
    };
    spec.devices.push(part("blocks", "align", vec![below], &[("block", "512".to_string())]));
    let mut start = 0;
    for (at, trace) in traces.iter().enumerate() {
        let (device, size) = (format!("volume{at}"), volume_bytes(trace));
        let args = [("start", size_text(start)), ("size", size_text(size))];
        spec.devices.push(part(&device, "offset", vec!["blocks".to_string()], &args));
        spec.exports.push(ExportSpec { name: trace.volume.clone(), device, nbd: None, read_only: false, at: place() });
        start += size;
    }
    spec
}
