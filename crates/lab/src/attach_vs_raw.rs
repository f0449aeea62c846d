//! `attach-vs-raw`: an attached stack of one `file` device against a loop device on that very file, both with direct
//! I/O below. Random 4 KiB reads and writes, half of each, at depth 1 and 32.

use std::path::{Path, PathBuf};
use std::time::Duration;

use esker_base::units::MIB;
use esker_front_fuse::Setup;
use esker_sys::loop_device::{self, LoopSetup};

use esker_lab_kit::{Experiment, Figure, LabError, Options, peer, scratch, serving::attach, timing};

/// The record.
pub const EXPERIMENT: Experiment = Experiment {
    name: "attach-vs-raw",
    summary: "Random 4 KiB on an attached file device against a loop device on the same file",
    source: "the issue of front ends, which sets no bar",
    simulated: false,
    rivals: &["fio"],
    run,
};

/// Bytes of the file.
const SIZE: u64 = 256 * MIB;
const PAIRS: u32 = 5;
/// Logical block of both devices in bytes: that of the `file` device.
const BLOCK: u32 = 512;

fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Vec<Figure>, LabError> {
    let dir = scratch::folder(&options.scratch)?;
    let file = dir.path().join("data");
    scratch::random_file(&file, SIZE, options.seed)?;
    let raw = Raw::over(&file)?;
    let mount = dir.path().join("files");
    std::fs::create_dir(&mount).map_err(LabError::scratch(&mount))?;
    let text = format!("[device.vol]\nkind = \"file\"\npath = '{}'\n", file.display());
    let (_ours, device) = attach(&text, Setup { mount, partitions: false }, options.seed)?;
    let span = Duration::from_secs(if options.quick { 2 } else { 8 });
    let compare = |(id, depth): (&'static str, u32)| {
        let name = format!("loop device with direct I/O on the file, depth {depth}, requests per second");
        let rate = |device: &Path| rate(device, depth, span, options.seed);
        timing::ratio(id, name, PAIRS, || rate(&device), || rate(&raw.0), progress)
    };
    [("qd1_ratio_raw", 1), ("qd32_ratio_raw", 32)].into_iter().map(compare).collect()
}

fn rate(device: &Path, depth: u32, span: Duration, seed: u64) -> Result<f64, LabError> {
    let place = [format!("--filename={}", device.display()), format!("--size={SIZE}")];
    let options = format!("--rw=randrw --bs=4k --direct=1 --ioengine=io_uring --iodepth={depth}");
    peer::fio_rate(&place, &options, span, seed, &["read", "write"])
}

/// A loop device straight on the file; released when dropped.
struct Raw(PathBuf);

impl Raw {
    fn over(file: &Path) -> Result<Raw, LabError> {
        let setup = LoopSetup { block: BLOCK, read_only: false, partitions: false };
        let device = loop_device::configure(file, setup);
        device.map(Raw).map_err(|e| peer::fault("the loop device", format!("{e}; this experiment takes root")))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // Gone already is fine.
        let _gone = loop_device::clear(&self.0);
    }
}
