//! Candidate stacks: the default ones, sized for the traces, and the user's own.

use std::collections::BTreeMap;

use esker_base::units::{KIB, MIB, size_human, size_text};
use esker_block::Args;
use esker_dev_sim::catalogue;
use esker_dev_sim::disk_model::{self, DiskSpec, File, disksim};
use esker_dev_sim::ssd_model::{self, SsdSpec};
use esker_stack::{DeviceSpec, ExportSpec, Location, Spec};

use crate::error::PredictError;
use crate::facts::Facts;

/// A stack that is to be compared with others. Its exports serve the traces, in their order.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Short name.
    pub name: String,
    /// What it is, in a few words.
    pub what: String,
    /// The stack.
    pub spec: Spec,
    /// What is served in its place, if that differs: layers have other times at another speed.
    pub served: Option<Spec>,
    /// Whether its layers learn what is asked for. If so, it is asked for everything a first time before counting
    /// begins.
    pub learns: bool,
}

/// Sizes of volumes and devices are multiples of this.
const GRAIN: u64 = MIB;
const CHUNK: u64 = 64 * KIB;
const STRIPED: u64 = 4;
/// The disk that volumes are sized for.
const LARGE_DISK: &str = "hdd-7200-2021";
/// The parameter of `ssd-model` that says how full a drive is.
const FILL: &str = "fill";
/// Most devices of a candidate that is made for the traces, if they are as large as the largest disk.
const DRIVES_MAX: u64 = 64;

/// A disk that was measured: the files of one folder in DiskSim's formats.
#[derive(Clone, Debug)]
pub struct MeasuredDisk {
    /// Short name.
    pub name: String,
    /// Names without their folder, and texts.
    pub files: Vec<File>,
}

/// How candidates are made for traces.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Making {
    /// Share of its flash that each solid-state drive has filled before; 0: a new drive.
    pub fill: f64,
    /// Whether requests may be moved inside a candidate that is too small for the data.
    pub wraps: bool,
}

/// Equal devices under a candidate that is made for the traces.
struct Model {
    device: &'static str,
    kind: &'static str,
    /// The parameters that say which device.
    args: Vec<(&'static str, String)>,
    /// The same for people.
    shown: String,
    capacity: u64,
}

impl Model {
    fn disk(profile: &str) -> Model {
        Model {
            device: "disk",
            kind: disk_model::KIND.name,
            args: vec![("profile", profile.to_string())],
            shown: product(disk_model::KIND.name, profile),
            capacity: DiskSpec::profile(profile).map_or(0, |spec| spec.capacity),
        }
    }

    fn ssd(profile: &str, fill: f64) -> Model {
        let filled = (fill > 0.0).then(|| (FILL, fill.to_string()));
        Model {
            device: "ssd",
            kind: ssd_model::KIND.name,
            args: [("profile", profile.to_string())].into_iter().chain(filled).collect(),
            shown: product(ssd_model::KIND.name, profile),
            capacity: SsdSpec::profile(profile).map_or(0, |spec| spec.capacity),
        }
    }

    /// The part of its capacity that volumes take.
    fn usable(&self) -> u64 {
        (self.capacity - self.capacity % GRAIN).max(GRAIN)
    }
}

/// Product and profile of a device of the catalogue.
fn product(kind: &str, profile: &str) -> String {
    catalogue::find(kind, profile).map_or_else(|_| profile.to_string(), |entry| format!("{} ({profile})", entry.what))
}

impl Candidate {
    /// One whose layers learn nothing.
    pub fn of(name: &str, what: &str, spec: Spec) -> Candidate {
        Candidate { name: name.to_string(), what: what.to_string(), spec, served: None, learns: false }
    }

    /// One disk, a smaller one, a stripe of four, one solid-state drive on SATA and one on NVMe, each with a volume for
    /// every export. Where one device is too small for all volumes, as many as are needed are joined.
    ///
    /// # Errors
    /// A trace that reaches further than 64 drives hold, unless requests may be moved inside.
    pub fn defaults(traces: &[Facts], making: &Making) -> Result<Vec<Candidate>, PredictError> {
        let volumes = Volumes::usual(traces, making)?;
        let ssd = |profile| Model::ssd(profile, making.fill);
        Ok(vec![
            joined("disk", &Model::disk(LARGE_DISK), &volumes),
            joined("disk-1tb", &Model::disk("hdd-7200-2016"), &volumes),
            striped("disk-stripe", &Model::disk(LARGE_DISK), &volumes),
            joined("ssd-sata", &ssd("ssd-sata-2021"), &volumes),
            joined("ssd-nvme", &ssd("ssd-nvme-2022"), &volumes),
        ])
    }

    /// A measured disk, or as many of them as the volumes need.
    ///
    /// # Errors
    /// What makes no disk, with file and line; what [`Candidate::defaults`] refuses.
    pub fn of_disk(disk: &MeasuredDisk, traces: &[Facts], making: &Making) -> Result<Candidate, PredictError> {
        let refused = |source| PredictError::Disk { name: disk.name.clone(), source };
        let texts = disksim::join(&disk.files);
        let given = BTreeMap::from([("measured".to_string(), texts.clone())]);
        let args = Args::read(&disk_model::KIND, &given).map_err(refused)?;
        let model = Model {
            device: "disk",
            kind: disk_model::KIND.name,
            args: vec![("measured", texts)],
            shown: format!("measured {} (power and price are the model's default)", disk.name),
            capacity: disk_model::parts(&args).map_err(refused)?.capacity,
        };
        Ok(joined(&disk.name, &model, &Volumes::of(traces, making, &model)?))
    }

    /// As it is, with its solid-state drives filled where its text does not say how far they are.
    pub(crate) fn filled(mut self, fill: f64) -> Candidate {
        let drives = self.spec.devices.iter_mut().filter(|device| device.kind == ssd_model::KIND.name && fill > 0.0);
        for drive in drives {
            drive.args.entry(FILL.to_string()).or_insert_with(|| fill.to_string());
        }
        self
    }
}

/// Name and size of the volumes that a candidate needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volumes(Vec<(String, u64)>);

impl Volumes {
    /// A single one, of at least so many bytes.
    pub fn one(name: &str, bytes: u64) -> Volumes {
        Volumes(vec![(name.to_string(), bytes.next_multiple_of(GRAIN))])
    }

    /// Those that the default candidates have.
    ///
    /// # Errors
    /// What [`Candidate::defaults`] refuses.
    pub(crate) fn usual(traces: &[Facts], making: &Making) -> Result<Volumes, PredictError> {
        Volumes::of(traces, making, &Model::disk(LARGE_DISK))
    }

    /// # Errors
    /// A trace that reaches further than as many devices like `model` as a candidate may have.
    fn of(traces: &[Facts], making: &Making, model: &Model) -> Result<Volumes, PredictError> {
        let share = (model.usable() / traces.len().max(1) as u64 / GRAIN * GRAIN).max(GRAIN);
        let needed = |trace: &Facts| trace.reach_bytes.max(1).checked_next_multiple_of(GRAIN).unwrap_or(u64::MAX);
        let sizes = traces.iter().map(|trace| if making.wraps { needed(trace).min(share) } else { needed(trace) });
        let volumes: Vec<_> = traces.iter().map(|trace| trace.volume.clone()).zip(sizes).collect();
        let total = volumes.iter().try_fold(0u64, |sum, (_, size)| sum.checked_add(*size));
        if total.is_some_and(|total| total.div_ceil(model.usable()) <= DRIVES_MAX) {
            return Ok(Volumes(volumes));
        }
        let farthest = traces.iter().max_by_key(|trace| trace.reach_bytes);
        Err(PredictError::TooFar {
            trace: farthest.map_or(String::new(), |trace| trace.name.clone()),
            reach: size_human(farthest.map_or(0, |trace| trace.reach_bytes)),
            drives: DRIVES_MAX,
            largest: size_human(model.capacity),
        })
    }

    /// Bytes of all, one behind the other.
    pub fn total(&self) -> u64 {
        self.0.iter().map(|(_, size)| size).sum()
    }

    /// Adds small blocks on a device of a stack, and for each volume a window and its export.
    pub fn put_on(&self, spec: &mut Spec, device: &str, place: &Location) {
        spec.devices.push(part("blocks", "align", vec![device.to_string()], &[("block", "512".to_string())], place));
        let mut start = 0;
        for (at, (name, size)) in self.0.iter().enumerate() {
            let device = format!("volume{at}");
            let args = [("start", size_text(start)), ("size", size_text(*size))];
            spec.devices.push(part(&device, "offset", vec!["blocks".to_string()], &args, place));
            spec.exports.push(ExportSpec {
                name: name.clone(),
                device,
                nbd: None,
                read_only: false,
                at: place.clone(),
            });
            start += size;
        }
    }
}

fn part(name: &str, kind: &str, on: Vec<String>, args: &[(&str, String)], place: &Location) -> DeviceSpec {
    let args: BTreeMap<_, _> = args.iter().map(|(key, value)| (key.to_string(), value.clone())).collect();
    DeviceSpec::new(name, kind, on, args, place.clone())
}

/// Devices one after the other, or a single one.
fn joined(name: &str, model: &Model, volumes: &Volumes) -> Candidate {
    let (total, usable) = (volumes.total(), model.usable());
    let count = total.div_ceil(usable).max(1);
    let size = |at: u64| usable.min(total - at * usable);
    let spec = arranged(name, model, (0..count).map(size).collect(), ("concat", &[]), volumes);
    let what = match count {
        1 => format!("one {}", model.shown),
        _ => format!("{count} {} joined", model.shown),
    };
    Candidate::of(name, &what, spec)
}

/// Equal devices side by side.
fn striped(name: &str, model: &Model, volumes: &Volumes) -> Candidate {
    let total = volumes.total();
    let count = STRIPED.max(total.div_ceil(model.usable()));
    let size = total.div_ceil(count).next_multiple_of(GRAIN);
    let chunk = ("chunk", size_text(CHUNK));
    let spec = arranged(name, model, vec![size; count as usize], ("stripe", &[chunk]), volumes);
    let what = format!("stripe of {count} {}", model.shown);
    Candidate::of(name, &what, spec)
}

/// Devices of these sizes, what joins them if they are several, and the volumes.
fn arranged(name: &str, model: &Model, sizes: Vec<u64>, join: (&str, &[(&str, String)]), volumes: &Volumes) -> Spec {
    let place = Location::new(name, 0);
    let mut spec = Spec::default();
    for (at, size) in sizes.iter().enumerate() {
        let args: Vec<_> = model.args.iter().cloned().chain([("size", size_text(*size))]).collect();
        spec.devices.push(part(&format!("{}{at}", model.device), model.kind, Vec::new(), &args, &place));
    }
    let leaves: Vec<String> = spec.devices.iter().map(|device| device.name.clone()).collect();
    let below = match leaves.as_slice() {
        [one] => one.clone(),
        _ => {
            spec.devices.push(part("array", join.0, leaves, join.1, &place));
            "array".to_string()
        }
    };
    volumes.put_on(&mut spec, &below, &place);
    spec
}
