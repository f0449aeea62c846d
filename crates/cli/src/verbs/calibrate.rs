//! `esker calibrate`: measures what layers and devices take on this machine.

use std::path::{Path, PathBuf};

use esker_base::units::{digits, size_human};
use esker_base::{Nanos, Unit};
use esker_calibrate::{Calibrator, Options, RawDevice};
use esker_lab_kit::machine::{Machine, lost_ticks};
use esker_predict::calibration::{DeviceTimes, FILE, FsCallCost, KindCost, Times, WRITTEN_BY};
use esker_predict::{Calibration, PredictError};

use crate::block_devices::look_at;
use crate::failure::Failure;
use crate::outputs::{Output, OutputError};
use crate::progress::Pace;
use crate::terminal::{Terminal, table};
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Calibrate>(About {
    words: &["calibrate"],
    summary: "Measure what layers, devices and file systems take on this machine",
    details: "Plays small requests through every layer and through devices in memory, in turns with the same stack \
              without the layer. Writes the CPU time of each layer and the service times of each device; `esker \
              try` charges them in virtual time. Calls on file systems in memory are measured too, for `esker trace replay \
              --on`. --scratch also measures a file in that folder, by operation, \
              length and requests in flight. The file takes 256 MiB and is removed afterwards. --device also \
              measures a block device, which no program may use meanwhile. The device is only read. With \
              --overwrite, random blocks anywhere on it are overwritten; a device that holds something is refused \
              without --force. A layer's cost is the median of the rounds; a distribution is that of all rounds \
              together. Let nothing else run meanwhile.",
    examples: &[
        Example { line: "esker calibrate", does: "measures CPU and memory, and writes esker-calibration.toml" },
        Example {
            line: "esker calibrate --scratch /srv --out srv.toml",
            does: "measures files in that folder as well",
        },
        Example { line: "esker calibrate --device /dev/sdb --rounds 3", does: "measures reads of that disk as well" },
        Example {
            line: "esker calibrate --device /dev/nvme1n1 --overwrite",
            does: "measures reads, writes and flushes of an empty disk",
        },
        Example { line: "esker calibrate --rounds 3 --json", does: "measures briefly and prints JSON too" },
    ],
});

/// Bytes of the mark that a calibration file begins with.
const MARKS: [&str; 1] = ["Written by esker calibrate"];

#[derive(clap::Args)]
struct Calibrate {
    /// Where the result goes
    #[arg(long, value_name = "FILE", default_value = FILE)]
    out: PathBuf,
    /// Folder in which a file is measured
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    /// Block device that is measured, by the path that stacks will name; only read. May be repeated
    #[arg(long = "device", value_name = "PATH")]
    devices: Vec<PathBuf>,
    /// Measures writes to the devices too, which destroys what they hold
    #[arg(long, requires = "devices")]
    overwrite: bool,
    /// How often everything is measured
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Seed of the requests
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The result as JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Replaces a file that esker did not write; with --overwrite, overwrites devices that hold something
    #[arg(long)]
    force: bool,
}

impl Run for Calibrate {
    const PACE: Option<Pace> = Some(Pace::Shows("steps of all rounds"));

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let output = Output::claim(self.out.clone(), &MARKS, self.force, "--out")?;
        output.prepare()?;
        let raw = self.raw_devices(terminal)?;
        let folder = self.scratch.as_deref().map(scratch).transpose()?;
        let file = folder.as_ref().map(|folder| folder.path().join("measured").display().to_string());
        let machine = Machine::here();
        let machine = format!("{}, {} CPUs, Linux {}", machine.cpu, machine.cpus, machine.kernel);
        let options = Options { machine, seed: self.seed, file, raw, only_devices: false, taken_away: lost_ticks };
        let calibration = self.measure(options, terminal)?;
        output.put(&calibration.to_toml())?;
        match self.json {
            true => terminal.say(&calibration.to_json()),
            false => terminal.say(&format!("{}\n\nwritten  {}", page(&calibration), output.path().display())),
        }
    }
}

impl Calibrate {
    /// The devices, which are looked at and told about before anything is measured.
    fn raw_devices(&self, terminal: &mut Terminal) -> Result<Vec<RawDevice>, Failure> {
        let device = |path: &PathBuf| {
            terminal.complain(&look_at(path, self.overwrite, self.force)?);
            Ok(RawDevice { path: path.display().to_string(), overwrite: self.overwrite })
        };
        self.devices.iter().map(device).collect()
    }

    fn measure(&self, options: Options, terminal: &Terminal) -> Result<Calibration, PredictError> {
        let mut calibrator = Calibrator::new(options);
        let steps = calibrator.steps() as u64 * u64::from(self.rounds);
        let part = terminal.watcher().part("rounds", Unit::Of("steps"), Some(steps));
        for round in 1..=self.rounds {
            calibrator.round(&mut |step| {
                part.at(&format!("round {round} of {}, {step}", self.rounds));
                part.more(1);
            })?;
        }
        Ok(calibrator.finish())
    }
}

/// A folder of its own in `folder`, removed when it is dropped.
fn scratch(folder: &Path) -> Result<tempfile::TempDir, OutputError> {
    let refused = |error| OutputError::Refused(folder.display().to_string(), error, "--scratch");
    tempfile::Builder::new().prefix("esker-calibrate-").tempdir_in(folder).map_err(refused)
}

fn page(calibration: &Calibration) -> String {
    let skipped = calibration.skipped.iter().map(|kind| format!("{}: not measured: {}", kind.name, kind.why));
    let calls: Vec<_> = calibration.calls.iter().map(call).collect();
    let devices = calibration.devices.iter().flat_map(|device| device.times.iter().map(|times| row(device, times)));
    let (layers, devices): (Vec<_>, Vec<_>) = (calibration.kinds.iter().map(layer).collect(), devices.collect());
    let head = format!("{WRITTEN_BY}: {} rounds on {}\n", calibration.rounds, calibration.machine);
    let parts = [head, table(&["layer", "per request", "per KiB", "spread"], &layers)].into_iter().chain(skipped);
    let calls = [String::new(), table(&["call", "per call", "per KiB", "spread"], &calls), String::new()];
    let devices = table(&["device", "size", "operation", "length", "depth", "mean", "p50", "p99"], &devices);
    parts.chain(calls).chain([devices]).collect::<Vec<_>>().join("\n")
}

fn call(cost: &FsCallCost) -> Vec<String> {
    costs(format!("{} {}", cost.file_system, cost.name), [cost.ns, cost.ns_per_kib, cost.spread_ns])
}

fn layer(cost: &KindCost) -> Vec<String> {
    costs(cost.name.clone(), [cost.ns, cost.ns_per_kib, cost.spread_ns])
}

/// Costs are often below a nanosecond.
fn costs(name: String, ns: [f64; 3]) -> Vec<String> {
    let [each, per_kib, spread] = ns.map(|ns| format!("{} ns", digits(ns)));
    vec![name, each, per_kib, spread]
}

fn row(device: &DeviceTimes, times: &Times) -> Vec<String> {
    let [mean, p50, p99] = [times.mean_ns, times.at(0.5), times.at(0.99)].map(|ns| Nanos(ns as u64).to_string());
    let op = format!("{}{}", times.op.word(), if times.mixed { " mixed" } else { "" });
    let (size, length) = (size_human(device.size), size_human(times.len));
    vec![device.kind.clone(), size, op, length, times.depth.to_string(), mean, p50, p99]
}
