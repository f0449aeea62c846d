//! Where a figure was measured.

use std::fmt;
use std::path::Path;

use serde::Serialize;

/// The machine of a run, as far as it explains figures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Machine {
    /// CPU model.
    pub cpu: String,
    /// Logical CPUs.
    pub cpus: usize,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Kernel release.
    pub kernel: String,
}

/// How a machine serves huge pages.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HugePages {
    /// Whether faults take them.
    pub enabled: String,
    /// The same for pages of 2 MiB alone; empty before Linux 6.8.
    pub enabled_2m: String,
    /// Whether memory is compacted for them.
    pub defrag: String,
    /// How fragmented free memory is, from 0 to 1.
    pub fragmentation: f64,
}

impl HugePages {
    /// Those of this machine; what it does not tell is left empty.
    pub fn now() -> HugePages {
        let setting = |name: &str| {
            let path = Path::new("/sys/kernel/mm/transparent_hugepage").join(name);
            esker_hugepage_linux::linux::knobs::read(&path).unwrap_or_default()
        };
        HugePages {
            enabled: setting("enabled"),
            enabled_2m: setting("hugepages-2048kB/enabled"),
            defrag: setting("defrag"),
            fragmentation: esker_hugepage_linux::linux::system::fragmentation_now(),
        }
    }
}

impl Machine {
    /// This machine; what it does not tell is left empty or zero.
    pub fn here() -> Machine {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let field = |text: &str, key: &str| {
            let line = text.lines().find(|line| line.starts_with(key));
            line.and_then(|line| line.split(':').nth(1)).unwrap_or_default().trim().to_string()
        };
        Machine {
            cpu: field(&read("/proc/cpuinfo"), "model name"),
            cpus: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            memory_mib: told_bytes("/proc/meminfo", "MemTotal").unwrap_or(0) >> 20,
            kernel: read("/proc/sys/kernel/osrelease").trim().to_string(),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} CPUs, {}, {} MiB, Linux {}", self.cpus, self.cpu, self.memory_mib, self.kernel)
    }
}

/// Bytes that a file of the kernel tells under a name, in lines such as `MemFree:  1024 kB`.
pub fn told_bytes(path: &str, name: &str) -> Option<u64> {
    bytes_of(&std::fs::read_to_string(path).ok()?, name)
}

fn bytes_of(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(rest.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
}

/// What others got so far, in the kernel's ticks, while this machine's CPUs wanted to work (other guests of its host)
/// or this thread did (other programs). What a thread waits at each of its wakes adds up to less than a tick in a
/// measurement.
pub fn lost_ticks() -> u64 {
    let waited = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    CpuTimes::now().stolen + waited_ns(&waited) / TICK_NS
}

/// A thread's nanoseconds in queues for a CPU, from its schedstat: time on a CPU, in queues, and turns (sched-stats).
fn waited_ns(schedstat: &str) -> u64 {
    schedstat.split_whitespace().nth(1).and_then(|field| field.parse().ok()).unwrap_or(0)
}

/// The kernel's tick as programs see it: USER_HZ is 100 everywhere that Esker runs.
const TICK_NS: u64 = 10_000_000;

/// What the CPUs have done since the start of the machine, in the kernel's ticks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// Worked, for whatever.
    worked: u64,
    /// Wanted to work while the host of this virtual machine let others.
    stolen: u64,
}

impl CpuTimes {
    /// Until now; all zero where the kernel does not tell.
    pub fn now() -> CpuTimes {
        CpuTimes::parse(&std::fs::read_to_string("/proc/stat").unwrap_or_default())
    }

    /// The first line of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal (proc_stat(5)).
    fn parse(text: &str) -> CpuTimes {
        let line = text.lines().find(|line| line.starts_with("cpu ")).unwrap_or_default();
        let ticks: Vec<u64> = line.split_whitespace().skip(1).map(|field| field.parse().unwrap_or(0)).collect();
        let at = |field: usize| ticks.get(field).copied().unwrap_or(0);
        CpuTimes { worked: [0, 1, 2, 5, 6].into_iter().map(at).sum(), stolen: at(7) }
    }

    /// The share of the CPU time asked for since `before` that others got.
    pub fn stolen_since(&self, before: &CpuTimes) -> f64 {
        let stolen = self.stolen.saturating_sub(before.stolen);
        let worked = self.worked.saturating_sub(before.worked);
        stolen as f64 / (stolen + worked).max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_told_in_kibibytes_under_their_whole_name() {
        let text = "MemFreeish:  7 kB\nMemFree:    1024 kB\nHugePages_Total:   3\n";
        assert_eq!(bytes_of(text, "MemFree"), Some(1 << 20));
        assert_eq!([bytes_of(text, "Mem"), bytes_of(text, "HugePages_Total")], [None, None]);
        assert!(told_bytes("/proc/meminfo", "MemTotal").is_some_and(|bytes| bytes > 1 << 20));
    }

    #[test]
    fn stolen_time_is_a_share_of_what_was_asked_for() {
        let at = |text| CpuTimes::parse(text);
        let (before, after) = (at("cpu  100 0 50 900 7 0 0 10 0 0\ncpu0 1"), at("cpu  160 0 60 990 9 0 0 40 0 0"));
        assert_eq!(after.stolen_since(&before), 0.3);
        assert_eq!(at("nothing").stolen_since(&before), 0.0);
    }

    #[test]
    fn waiting_in_queues_is_read_where_the_kernel_tells_it() {
        assert_eq!([waited_ns("12345 678 9\n"), waited_ns("")], [678, 0]);
    }
}
