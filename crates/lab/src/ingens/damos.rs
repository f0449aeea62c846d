//! DAMON's schemes for huge pages. `ETHP` is the one that its author measures. Memory that one sample in twenty finds
//! in use may have huge pages. Memory of 2 MiB and more without a use for 7 s may not. `SETTLED` is that of his first
//! tests: both from 2 MiB on, and only if use has not changed for a second.
//!
//! The kernel's monitor gives advice for ranges (`MADV_HUGEPAGE`, `MADV_NOHUGEPAGE`). Huge pages come from faults and
//! from khugepaged, which look for the advice.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use esker_hugepage::REGION_BYTES;

use super::process_cpu;
use super::settings::Settings;
use esker_lab_kit::{Lab, LabError, peer};

const KDAMONDS: &str = "/sys/kernel/mm/damon/admin/kdamonds";
/// Samples, aggregation and looks for new mappings, in microseconds: those of the author's tool.
const INTERVALS: [(&str, u64); 3] = [("sample_us", 5_000), ("aggr_us", 100_000), ("update_us", 1_000_000)];
/// One sample in twenty: 5 %.
const USED: u64 = 1;
/// 7 s and 1 s in aggregations.
const UNUSED: u64 = 70;
const SECOND: u64 = 10;

/// What a scheme does with which regions: least and most of bytes, of samples that find a use, and of aggregations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Scheme {
    action: &'static str,
    bytes: (u64, u64),
    used: (u64, u64),
    age: (u64, u64),
}

/// Most of what the kernel keeps in 32 bits.
const MOST: u64 = u32::MAX as u64;

/// What is done with memory in use, and with other memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Schemes([Scheme; 2]);

/// See the module.
pub(crate) const ETHP: Schemes = Schemes([
    Scheme { action: "hugepage", bytes: (0, u64::MAX), used: (USED, MOST), age: (0, MOST) },
    Scheme { action: "nohugepage", bytes: (REGION_BYTES, u64::MAX), used: (0, 0), age: (UNUSED, MOST) },
]);
/// See the module.
pub(crate) const SETTLED: Schemes = Schemes([
    Scheme { action: "hugepage", bytes: (REGION_BYTES, u64::MAX), used: (USED, MOST), age: (SECOND, MOST) },
    Scheme { action: "nohugepage", bytes: (REGION_BYTES, u64::MAX), used: (0, 0), age: (SECOND, MOST) },
]);

/// The monitor at work on a process, until this is dropped.
pub(crate) struct Damos {
    root: PathBuf,
    /// Put back after the monitor has ended.
    _settings: Settings,
}

/// Whether this kernel has the monitor for processes, and it is free; why not.
///
/// # Errors
/// [`LabError::Rival`].
pub(crate) fn is_here(lab: &Lab<'_>) -> Result<(), LabError> {
    let _settings = taken(lab)?;
    let contexts = Path::new(KDAMONDS).join("0/contexts");
    put(&contexts.join("nr_contexts"), 1).map_err(failed)?;
    let words = fs::read_to_string(contexts.join("0/avail_operations")).map_err(failed)?;
    let operations: Vec<&str> = words.split_whitespace().collect();
    match operations.contains(&"vaddr") {
        true => Ok(()),
        false => Err(failed(format!("this kernel watches no processes (its operations: {})", operations.join(", ")))),
    }
}

fn failed(what: impl ToString) -> LabError {
    peer::fault("DAMON", what)
}

/// Takes the monitor, which has one user at a time.
fn taken(lab: &Lab<'_>) -> Result<Settings, LabError> {
    let count = Path::new(KDAMONDS).join("nr_kdamonds");
    let now = fs::read_to_string(&count).map_err(|error| failed(format!("{}: {error}", count.display())))?;
    if now.trim() != "0" {
        return Err(failed("another program uses it"));
    }
    let off = (Path::new(KDAMONDS).join("0/state"), "off".to_string());
    Settings::take_after(lab.scratch, "esker-lab-damon.json", &count, "1", off)
}

impl Damos {
    /// Lets it work on a process.
    ///
    /// # Errors
    /// The kernel's; if another program uses it.
    pub(crate) fn start(pid: u32, schemes: Schemes, lab: &Lab<'_>) -> Result<Damos, LabError> {
        let settings = taken(lab)?;
        let damos = Damos { root: Path::new(KDAMONDS).join("0"), _settings: settings };
        for (file, value) in values(pid, schemes) {
            put(&damos.root.join(file), value).map_err(failed)?;
        }
        Ok(damos)
    }

    /// CPU time of its thread.
    pub(crate) fn cpu(&self) -> Duration {
        let pid = fs::read_to_string(self.root.join("pid")).ok().and_then(|text| text.trim().parse().ok());
        pid.map_or(Duration::ZERO, process_cpu)
    }
}

impl Drop for Damos {
    fn drop(&mut self) {
        // Also if it has ended with its process.
        drop(put(&self.root.join("state"), "off"));
    }
}

fn put(path: &Path, value: impl ToString) -> std::io::Result<()> {
    let with_path = |error: std::io::Error| std::io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    fs::write(path, value.to_string()).map_err(with_path)
}

/// Files of a monitor and what is written to them, in order.
fn values(pid: u32, Schemes(schemes): Schemes) -> Vec<(String, String)> {
    let context = "contexts/0";
    let mut values = vec![
        ("contexts/nr_contexts".to_string(), "1".to_string()),
        (format!("{context}/operations"), "vaddr".to_string()),
        (format!("{context}/targets/nr_targets"), "1".to_string()),
        (format!("{context}/targets/0/pid_target"), pid.to_string()),
        (format!("{context}/schemes/nr_schemes"), schemes.len().to_string()),
    ];
    let intervals =
        INTERVALS.map(|(name, us)| (format!("{context}/monitoring_attrs/intervals/{name}"), us.to_string()));
    values.extend(intervals);
    for (at, scheme) in schemes.iter().enumerate() {
        let folder = format!("{context}/schemes/{at}");
        values.push((format!("{folder}/action"), scheme.action.to_string()));
        for (bound, (least, most)) in [("sz", scheme.bytes), ("nr_accesses", scheme.used), ("age", scheme.age)] {
            // The most first: the least may not be above it.
            values.push((format!("{folder}/access_pattern/{bound}/max"), most.to_string()));
            values.push((format!("{folder}/access_pattern/{bound}/min"), least.to_string()));
        }
    }
    values.push(("state".to_string(), "on".to_string()));
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_monitor_is_set_up_from_outside_to_inside_and_started_last() {
        let values = values(7, ETHP);
        let at = |file: &str| values.iter().position(|(name, _)| name == file).expect("it is written");
        assert!(at("contexts/nr_contexts") < at("contexts/0/operations"));
        assert!(at("contexts/0/schemes/nr_schemes") < at("contexts/0/schemes/1/action"));
        assert_eq!(values[at("contexts/0/targets/0/pid_target")].1, "7");
        assert_eq!(values.last(), Some(&("state".to_string(), "on".to_string())));
    }

    #[test]
    fn memory_that_one_sample_in_twenty_finds_used_is_advised_and_none_that_is_cold() {
        let [(_, sample), (_, aggregation), _] = INTERVALS;
        assert_eq!(USED as f64 / (aggregation / sample) as f64, 0.05);
        assert_eq!((UNUSED * aggregation, SECOND * aggregation), (7_000_000, 1_000_000));
        for Schemes([huge, not]) in [ETHP, SETTLED] {
            assert!(huge.used.0 > not.used.1, "no region has both");
            assert_eq!(not.bytes.0, 2 << 20);
        }
    }
}
