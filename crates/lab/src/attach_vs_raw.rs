//! `attach-vs-raw`: an attached stack of one `file` device against a loop device on an equal file beside it, both with
//! direct I/O below. Random 4 KiB reads and writes, half of each, at depth 1 and 32. A `file` device refuses the file
//! of a loop device, so one file cannot serve both.

use std::path::{Path, PathBuf};
use std::time::Duration;

use esker_base::units::MIB;
use esker_front_fuse::Setup;
use esker_sys::loop_device::{self, LoopSetup};

use esker_lab_kit::{Figure, Lab, LabError, peer, scratch, serving::attach, timing};

/// Bytes of the file.
const SIZE: u64 = 256 * MIB;
const PAIRS: u32 = 5;
/// Logical block of both devices in bytes: that of the `file` device.
const BLOCK: u32 = 512;

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let dir = lab.folder()?;
    let [file, below_raw] = ["data", "raw"].map(|name| dir.path().join(name));
    [&file, &below_raw].into_iter().try_for_each(|path| scratch::random_file(path, SIZE, lab.seed))?;
    let raw = Raw::over(&below_raw)?;
    let mount = dir.path().join("files");
    std::fs::create_dir(&mount).map_err(LabError::scratch(&mount))?;
    let text = format!("[device.vol]\nkind = \"file\"\npath = '{}'\n", file.display());
    let (_ours, device) = attach(&text, Setup { mount, partitions: false }, lab.seed)?;
    let span = Duration::from_secs(lab.scale(2, 8));
    let compare = |(id, depth)| {
        let name = format!("loop device with direct I/O on a file, depth {depth}, requests per second");
        let rate = |device: &Path| peer::fio_random((device, SIZE), "randrw", depth, span, lab.seed);
        timing::ratio(id, name, PAIRS, || rate(&device), || rate(&raw.0), lab)
    };
    [("qd1_ratio_raw", 1), ("qd32_ratio_raw", 32)].into_iter().map(compare).collect()
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
