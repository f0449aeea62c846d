//! `device-calibration`: the disk model against disks whose every request was timed.
//!
//! Each disk is built from its DiskSim files alone and plays its trace in virtual time: one request at a time, each
//! after the recorded idle time. Nothing is drawn from random numbers and nothing is fitted, so a request is compared
//! with itself; only the angle of the platters when the trace begins is not known. *Demerit* is the root mean square of
//! the horizontal distance between the distributions of measured and modelled service times, as a share of the measured
//! mean (C. Ruemmler and J. Wilkes, *An Introduction to Disk Drive Modeling*, IEEE Computer 27(3), 1994).
//!
//! A prediction of a load asks less: the mean, the median and the 99th percentile of all service times. Their relative
//! errors, of all disks together, are what the table of known errors in `predict` says of this model.

use esker_base::Nanos;
use esker_base::units::SECTOR;
use esker_block::{Bio, Buf, Device};
use esker_dev_sim::disk_model::{self, Disk, DiskModel, DiskParts, DiskSetup, DiskSimSpec, File};
use esker_dev_sim::meter::Bill;
use esker_dev_sim::{Content, Setup};
use esker_rt::{Sim, SimConfig};

use esker_lab_kit::timing::{at_share, mean, worst};
use esker_lab_kit::{Figure, Lab, LabError};

mod phase;
mod trace;

use phase::Tracker;
use trace::Measured;

/// Slack of a command from the buffer. Measured reads leave a gap from 0.2 to 0.6 ms beyond what the interface needs.
const BUFFERED: Nanos = Nanos::micros(400);

/// Power and price play no part here.
const BILL: Bill = Bill { active_w: 0.0, idle_w: 0.0, price_usd: 0.0 };

/// A measured disk: its DiskSim files and its packed trace.
struct Drive {
    name: &'static str,
    files: [(&'static str, &'static str); 3],
    trace: &'static [u8],
    /// The trace's own word for hit and miss counts, which it has for reads. Elsewhere every line says hit. There a
    /// request counts as hit if its service time, measured or modelled, leaves no room for the medium.
    classed: bool,
}

macro_rules! drive {
    ($name:literal, $model:literal, $curve:literal, $classed:expr) => {
        Drive {
            name: $name,
            files: [
                (
                    concat!($name, ".diskspecs"),
                    include_str!(concat!("../data/disksim/", $name, "/", $name, ".diskspecs")),
                ),
                ($model, include_str!(concat!("../data/disksim/", $name, "/", $model))),
                ($curve, include_str!(concat!("../data/disksim/", $name, "/", $curve))),
            ],
            trace: include_bytes!(concat!("../data/disksim/", $name, "/", $name, ".trace.zst")),
            classed: $classed,
        }
    };
}

const DRIVES: [Drive; 4] = [
    drive!("atlas10k", "atlas10k.model", "atlas10k.seek", false),
    drive!("cheetah9LP", "cheetah9LP.model", "cheetah9LP.seek", false),
    drive!("ibm18es", "ibm18es.model", "ibm18es.seek", false),
    drive!("hp_c2247a", "hp_c2247a_validate.model", "hp_c2247a.parv", true),
];

impl Drive {
    fn figure(&self, what: &str, value: f64, unit: &'static str) -> Figure {
        Figure::alone(format!("{what}_{}", self.name), value, unit)
    }
}

const OF_MEAN: &str = "of the measured mean";

/// What the model made of a request.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Modelled {
    service: Nanos,
    hit: bool,
}

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let (mut figures, mut summaries) = (Vec::new(), Vec::new());
    for drive in &DRIVES {
        lab.say(drive.name);
        let (requests, spec) = (requests(drive)?, spec(drive)?);
        let parts = spec.parts(BILL, None);
        let modelled = play(&parts, &requests, None);
        figures.extend(compare(drive, &parts, &requests, &modelled));
        let errors = summary_errors(&requests, &modelled);
        let named = ["mean_service_error", "median_service_error", "p99_service_error"].into_iter().zip(errors);
        figures.extend(named.map(|(what, error)| drive.figure(what, error, "of the measured value")));
        summaries.extend(errors);
        let half = requests.len() / 2;
        let (spec, agreement) = phase::calibrated(&spec, &requests[..half]);
        let parts = spec.parts(BILL, None);
        let modelled = play(&parts, &requests, Some(Tracker::new(&spec)));
        figures.push(drive.figure("agreement", agreement, "of 1 if one rotation explains all reads"));
        figures.extend(in_phase(drive, &parts, &requests[half..], &modelled[half..]));
    }
    let unit = "of mean, median and 99th percentile, all disks";
    figures.push(Figure::alone("service_mean_error", mean(&summaries), unit));
    figures.push(Figure::alone("service_worst_error", worst(&summaries), "the largest of these"));
    Ok(figures)
}

fn data(drive: &Drive, text: impl std::fmt::Display) -> LabError {
    LabError::Data(format!("{}: {text}", drive.name))
}

fn requests(drive: &Drive) -> Result<Vec<Measured>, LabError> {
    let text = zstd::decode_all(drive.trace).map_err(|error| data(drive, error))?;
    let text = String::from_utf8(text).map_err(|error| data(drive, error))?;
    trace::read(&text).map_err(|error| data(drive, error))
}

fn spec(drive: &Drive) -> Result<DiskSimSpec, LabError> {
    let files: Vec<File> = drive.files.iter().map(|(name, text)| (name.to_string(), text.to_string())).collect();
    disk_model::disksim::load(&files).map_err(|error| data(drive, error))
}

/// Plays the requests one at a time, each after its idle time; with a tracker, when the modelled disk stands as the
/// drive's earlier completions say that the drive stood.
fn play(parts: &DiskParts, requests: &[Measured], mut tracker: Option<Tracker>) -> Vec<Modelled> {
    let sim = Sim::new(SimConfig { seed: 1, cpus: 1 });
    let (rt, model, requests) = (sim.rt(), DiskModel::new(parts.clone()), requests.to_vec());
    let common = Setup {
        size: parts.capacity - parts.capacity % SECTOR,
        block: SECTOR as u32,
        depth: 1,
        cache: parts.buffer.write > 0,
        content: Content::None,
    };
    sim.block_on(async move {
        let disk = Disk::new(&rt, model, DiskSetup { common, age_max: Nanos::secs(1) });
        let mut modelled = Vec::new();
        for request in &requests {
            rt.sleep(request.think).await;
            if let Some(tracker) = &mut tracker {
                rt.sleep(tracker.lag(request, rt.now())).await;
                tracker.note(request);
            }
            let (begin, hits) = (rt.now(), hits(&disk));
            let buf = Buf::described((request.count * SECTOR) as usize, 0);
            let at = request.sector * SECTOR;
            let bio = if request.write { Bio::write(at, buf) } else { Bio::read(at, buf) };
            let answered = disk.submit(bio).await.result.is_ok();
            assert!(answered, "the disk answers what its trace asks");
            modelled.push(Modelled { service: rt.now().since(begin), hit: self::hits(&disk) > hits });
        }
        modelled
    })
}

fn hits(disk: &Disk) -> f64 {
    disk.stats().iter().find(|stat| stat.name == "cache_hits").map_or(0.0, |stat| stat.value)
}

/// Whether a request of this service time did not wait for the medium.
fn is_buffered(parts: &DiskParts, request: &Measured, service: Nanos) -> bool {
    let interface = &parts.interface;
    let overheads = if request.write { [interface.write_hit, interface.write_miss] } else { [interface.read_hit; 2] };
    let overhead = overheads.as_flattened().iter().max().copied().unwrap_or_default();
    service <= overhead + Nanos::transfer(request.count * SECTOR, interface.rate) + BUFFERED
}

fn compare(drive: &Drive, parts: &DiskParts, requests: &[Measured], modelled: &[Modelled]) -> Vec<Figure> {
    let errors = errors(requests, modelled);
    let pairs = requests.iter().zip(modelled);
    let buffered = |request: &Measured, service| is_buffered(parts, request, service);
    let is_right = |(request, modelled): (&Measured, &Modelled)| match drive.classed {
        true => request.hit == modelled.hit,
        false => buffered(request, request.service) == buffered(request, modelled.service),
    };
    let right: Vec<bool> = pairs.filter(|(request, _)| !drive.classed || !request.write).map(is_right).collect();
    let class_right = right.iter().filter(|right| **right).count() as f64 / right.len() as f64;
    let on_medium = on_medium(parts, requests, &errors);
    let mean_error = mean(&errors);
    vec![
        drive.figure("demerit", demerit(&services(requests), &modelled_services(modelled)), OF_MEAN),
        drive.figure("class_right", class_right, "of the requests"),
        drive.figure("median_error", median(errors), OF_MEAN),
        drive.figure("median_error_medium", median(on_medium), OF_MEAN),
        drive.figure("mean_error", mean_error, OF_MEAN),
    ]
}

/// The errors of a drive whose rotation is followed.
fn in_phase(drive: &Drive, parts: &DiskParts, requests: &[Measured], modelled: &[Modelled]) -> Vec<Figure> {
    let errors = errors(requests, modelled);
    let on_medium = median(on_medium(parts, requests, &errors));
    vec![
        drive.figure("median_error_in_phase", median(errors), OF_MEAN),
        drive.figure("median_error_medium_in_phase", on_medium, OF_MEAN),
        drive.figure("rpm", 60.0 / parts.geometry.turn().as_secs_f64(), "turns a minute, calibrated"),
    ]
}

fn services(requests: &[Measured]) -> Vec<f64> {
    requests.iter().map(|request| request.service.as_secs_f64()).collect()
}

fn modelled_services(modelled: &[Modelled]) -> Vec<f64> {
    modelled.iter().map(|request| request.service.as_secs_f64()).collect()
}

/// By how much each modelled service time is off, as a share of the measured mean.
fn errors(requests: &[Measured], modelled: &[Modelled]) -> Vec<f64> {
    let measured = services(requests);
    let (mean, pairs) = (mean(&measured), measured.iter().zip(modelled_services(modelled)));
    pairs.map(|(real, model)| (model - real).abs() / mean).collect()
}

/// Relative errors of the mean, the median and the 99th percentile of all service times.
fn summary_errors(requests: &[Measured], modelled: &[Modelled]) -> [f64; 3] {
    let summaries = |times: Vec<f64>| [mean(&times), at_share(times.clone(), 0.5), at_share(times, 0.99)];
    let measured = summaries(services(requests));
    let simulated = summaries(modelled_services(modelled));
    std::array::from_fn(|at| (simulated[at] / measured[at] - 1.0).abs())
}

/// Those of the requests that the drive served from the medium.
fn on_medium(parts: &DiskParts, requests: &[Measured], errors: &[f64]) -> Vec<f64> {
    let all = requests.iter().zip(errors);
    all.filter(|(request, _)| !is_buffered(parts, request, request.service)).map(|(_, error)| *error).collect()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// Root mean square of the horizontal distance between the distributions of two equally long lists, as a share of the
/// first one's mean.
fn demerit(measured: &[f64], modelled: &[f64]) -> f64 {
    let sorted = |values: &[f64]| {
        let mut values = values.to_vec();
        values.sort_by(f64::total_cmp);
        values
    };
    let squares = sorted(measured).into_iter().zip(sorted(modelled)).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
    (squares / measured.len() as f64).sqrt() / mean(measured)
}
