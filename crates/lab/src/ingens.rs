//! What the experiments with real huge pages share: what decides about them, what that costs, and where they are.
//!
//! The load runs in this process, and the manager is `esker hugepage run` beside it, as a user has it.

use std::fmt::Display;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use esker_base::units::GIB;
use esker_hugepage::REGION_BYTES;
use esker_hugepage_linux::Status;
use esker_hugepage_linux::linux::system::{faults_knob, faults_now, huge_blocks};
use esker_sys::process::{PageRun, PageTable, Wanted, page_is};
use rustix::process::{Pid, Signal, kill_process};
use rustix::time::{ClockId, clock_gettime};
use tempfile::TempDir;

use esker_lab_kit::bound::{BEGUN_WITHIN, bound, connect};
use esker_lab_kit::{Figure, Lab, LabError, machine::told_bytes, peer, scratch};
use loads::{Work, be_busy};
use settings::Settings;

pub(crate) mod chase;
pub(crate) mod chaser;
pub(crate) mod damos;
pub(crate) mod fragmenter;
pub(crate) mod guest;
pub(crate) mod hotcold;
pub(crate) mod loads;
pub(crate) mod managed;
pub mod own;
pub(crate) mod redis;
pub(crate) mod settings;

/// An allocation of so much is never served from memory that was used before (`M_MMAP_THRESHOLD` of mallopt(3)).
pub(crate) const FRESH: usize = 48 << 20;
/// The kernel's own thread that makes huge pages: the pages that it looks at in one go, and the time until the next
/// one.
const KHUGEPAGED: [&str; 2] = [
    "/sys/kernel/mm/transparent_hugepage/khugepaged/pages_to_scan",
    "/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs",
];
/// Whether faults compact memory.
const DEFRAG: &str = "/sys/kernel/mm/transparent_hugepage/defrag";
/// The source's threshold.
const ADAPTIVE: &str = "greedy_below = 0.5\n";
/// It meets new processes within this.
const MET_WITHIN: Duration = Duration::from_millis(300);

/// Left to others.
pub(crate) const SPARE: u64 = GIB;

/// Makes sure that so much free memory is in blocks of huge pages, and that a host has given it to this machine.
/// Neither is measured, and a virtual machine's memory costs milliseconds for each huge page that it touches first.
///
/// # Errors
/// If it is not, also after the kernel has compacted memory; with what to do.
pub(crate) fn room(bytes: u64, lab: &Lab<'_>) -> Result<(), LabError> {
    let free = huge_blocks(bytes);
    if free < bytes {
        let [wanted, there] = [bytes, free].map(|bytes| bytes >> 20);
        return Err(LabError::Data(format!(
            "{wanted} MiB of free memory in blocks of huge pages are needed and {there} MiB are there; free some (sync; \
             echo 1 > /proc/sys/vm/drop_caches), wait half a minute and run it again"
        )));
    }
    let _held = Arm::Greedy.hold(lab)?;
    drop(std::hint::black_box(vec![1u8; bytes as usize]));
    Ok(())
}

/// The same with what memory is there, if it is less, but for [`SPARE`].
///
/// # Errors
/// As [`room`] has them.
pub(crate) fn room_up_to(bytes: u64, lab: &Lab<'_>) -> Result<(), LabError> {
    room(bytes.min(huge_blocks(bytes + SPARE).saturating_sub(SPARE)), lab)
}

/// What decides about huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arm {
    /// Nothing: faults take base pages.
    Base,
    /// The kernel: every fault takes a huge page where it can (`THP=always`).
    Greedy,
    /// The same, and faults compact memory first (`defrag=always`), as was usual until Linux 4.6.
    GreedyCompacting,
    /// The kernel, for programs that ask for it alone (`THP=madvise`).
    Advised,
    /// The same, and the kernel's own thread at full speed, as in [`Arm::KhugepagedFast`].
    AdvisedFast,
    /// The kernel's own thread as the kernel has it: 16 MiB in 10 s. Faults are greedy meanwhile, so that memory that
    /// is to have none of theirs must be there before.
    Khugepaged,
    /// The same at full speed: 16 MiB, and 10 ms of sleep.
    KhugepagedFast,
    /// Our manager.
    Ours,
    /// Our manager, greedy while memory is not fragmented.
    Adaptive,
}

/// An arm in force, until this is dropped.
pub(crate) struct Held {
    manager: Option<Manager>,
    _settings: Option<Settings>,
}

impl Arm {
    /// Puts it in force. Settings that an experiment that was killed has left behind are put back first.
    ///
    /// # Errors
    /// [`LabError`]: this takes root, and a kernel with huge pages.
    pub(crate) fn hold(self, lab: &Lab<'_>) -> Result<Held, LabError> {
        match self {
            Arm::Base => set(lab, &[(faults_knob(), "never")]),
            Arm::Greedy => set(lab, &[(faults_knob(), "always")]),
            Arm::GreedyCompacting => set(lab, &[(faults_knob(), "always"), (Path::new(DEFRAG), "always")]),
            Arm::Advised => set(lab, &[(faults_knob(), "madvise")]),
            Arm::AdvisedFast => khugepaged(lab, "10", "madvise"),
            Arm::Khugepaged => khugepaged(lab, "10000", "always"),
            Arm::KhugepagedFast => khugepaged(lab, "10", "always"),
            Arm::Ours => here(lab, ""),
            Arm::Adaptive => here(lab, ADAPTIVE),
        }
    }
}

impl Held {
    /// CPU time of the manager, if there is one.
    pub(crate) fn cpu(&self) -> Duration {
        self.manager.as_ref().map_or(Duration::ZERO, Manager::cpu)
    }

    /// What the manager takes of a CPU beside this process, which sleeps for a time and then works as long: two
    /// figures.
    ///
    /// # Errors
    /// If its CPU time is not told.
    pub(crate) fn shares(&self, work: &mut dyn Work, time: Duration, lab: &Lab<'_>) -> Result<[Figure; 2], LabError> {
        let figure = |id, unit, during: &mut dyn FnMut()| {
            let (begun, before) = (Instant::now(), self.cpu());
            during();
            let share = (self.cpu() - before).as_secs_f64() / begun.elapsed().as_secs_f64();
            lab.say(format!("the manager: {:.2} % {unit}", share * 100.0));
            Figure::alone(id, share, unit)
        };
        let idle = figure("daemon_core_share_idle", "of a CPU, beside a process that sleeps", &mut || sleep(time));
        let busy = figure("daemon_core_share", "of a CPU, beside a busy process", &mut || be_busy(work, time));
        if self.cpu().is_zero() {
            return Err(peer::fault(PROGRAM, "its CPU time is not told"));
        }
        Ok([idle, busy])
    }
}

fn khugepaged(lab: &Lab<'_>, sleep_ms: &str, faults: &str) -> Result<Held, LabError> {
    let [pages, sleep] = KHUGEPAGED.map(Path::new);
    set(lab, &[(pages, "4096"), (sleep, sleep_ms), (faults_knob(), faults)])
}

/// The manager of this process.
fn here(lab: &Lab<'_>, config: &str) -> Result<Held, LabError> {
    let manager = Manager::start(lab.scratch, std::process::id(), config)?;
    let wanted: &[&str] = if config == ADAPTIVE { &["never", "always"] } else { &["never"] };
    match faults_now() {
        Some(now) if wanted.contains(&now.as_str()) => Ok(Held { manager: Some(manager), _settings: None }),
        other => Err(peer::fault(PROGRAM, format!("faults are served as {other:?}"))),
    }
}

/// Puts settings in force.
///
/// # Errors
/// The kernel's.
pub(crate) fn set(lab: &Lab<'_>, settings: &[(&Path, &str)]) -> Result<Held, LabError> {
    Ok(Held { manager: None, _settings: Some(Settings::take(lab.scratch, "esker-lab-ingens.json", settings)?) })
}

const PROGRAM: &str = "esker hugepage run";
/// A manager that is alive answers within one promotion, which took 9.6 s where others held both CPUs.
const PATIENCE: Duration = Duration::from_secs(60);

/// `esker hugepage run` for one process.
pub(crate) struct Manager {
    child: Child,
    folder: TempDir,
}

impl Manager {
    /// Starts it for a process with faults of base pages, and everything else as `config` says.
    ///
    /// # Errors
    /// Its last words.
    pub(crate) fn start(parent: &Path, pid: u32, config: &str) -> Result<Manager, LabError> {
        Manager::of(parent, &[pid], config)
    }

    /// The same for several processes.
    ///
    /// # Errors
    /// Its last words.
    pub(crate) fn of(parent: &Path, pids: &[u32], config: &str) -> Result<Manager, LabError> {
        let folder = scratch::folder(parent)?;
        let at = |name: &str| folder.path().join(name);
        let processes: String = pids.iter().map(|pid| format!("[[process]]\npid = {pid}\n")).collect();
        let text = format!("state = {:?}\nfaults = \"base\"\n{config}{processes}", at("state.json"));
        std::fs::write(at("config.toml"), text).map_err(failed)?;
        let mut command = bound("INT", std::env::current_exe().map_err(failed)?);
        command.args(["hugepage", "run", "--config"]).arg(at("config.toml")).arg("--control").arg(at("control"));
        let words = File::create(at("words")).map_err(failed)?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(words);
        let mut manager = Manager { child: command.spawn().map_err(failed)?, folder };
        let control = manager.control();
        connect(&control, BEGUN_WITHIN, || Ok(manager.child.try_wait()?.is_some())).map_err(|_| {
            let words = std::fs::read_to_string(manager.folder.path().join("words")).unwrap_or_default();
            peer::fault(PROGRAM, words.trim())
        })?;
        sleep(MET_WITHIN);
        Ok(manager)
    }

    fn control(&self) -> PathBuf {
        self.folder.path().join("control")
    }

    /// What it tells.
    ///
    /// # Errors
    /// If it is gone.
    pub(crate) fn status(&self) -> Result<Status, LabError> {
        let mut stream = UnixStream::connect(self.control()).map_err(failed)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        let mut answer = String::new();
        stream.write_all(b"GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n").map_err(failed)?;
        stream.read_to_string(&mut answer).map_err(failed)?;
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        serde_json::from_str(body).map_err(|error| peer::fault(PROGRAM, error))
    }

    /// Bytes of memory that it takes.
    ///
    /// # Errors
    /// If it is gone.
    pub(crate) fn memory(&self) -> Result<u64, LabError> {
        let told = told_bytes(&format!("/proc/{}/status", self.child.id()), "VmRSS");
        told.ok_or_else(|| peer::fault(PROGRAM, "its memory is not told"))
    }

    /// CPU time that it has used, with its threads.
    pub(crate) fn cpu(&self) -> Duration {
        process_cpu(self.child.id())
    }
}

fn failed(error: std::io::Error) -> LabError {
    peer::fault(PROGRAM, error)
}

impl Drop for Manager {
    fn drop(&mut self) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        // One that is gone already needs no signal.
        let _told = pid.map(|pid| kill_process(pid, Signal::INT));
        let _ended = self.child.wait();
    }
}

/// Waits until what is looked at has been the same for `quiet`, but no longer than `most`.
pub(crate) fn wait_stable<T: Default>(
    quiet: Duration,
    most: Duration,
    look: impl Fn() -> T,
    same: impl Fn(&T, &T) -> bool,
) {
    let begun = Instant::now();
    let (mut seen, mut since) = (T::default(), Instant::now());
    while since.elapsed() < quiet && begun.elapsed() < most {
        sleep(Duration::from_millis(500));
        let now = look();
        if !same(&seen, &now) {
            (seen, since) = (now, Instant::now());
        }
    }
}

/// Bytes of a process, by its number or `self`, in huge pages.
pub(crate) fn huge_of(process: impl Display) -> u64 {
    told_bytes(&format!("/proc/{process}/smaps_rollup"), "AnonHugePages").unwrap_or(0)
}

/// CPU time of a process with its threads: fields 14 and 15 of proc_pid_stat(5).
pub(crate) fn process_cpu(pid: u32) -> Duration {
    let ticks = stat(&format!("/proc/{pid}/stat"), &[14, 15]).iter().sum::<u64>();
    Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// CPU time of this thread.
pub(crate) fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Page faults of this thread so far: fields 10 and 12 of proc_pid_stat(5).
pub(crate) fn thread_faults() -> u64 {
    stat("/proc/thread-self/stat", &[10, 12]).iter().sum()
}

/// Numbers of a file such as /proc/PID/stat, whose second field may hold anything within its brackets.
fn stat(path: &str, fields: &[usize]) -> Vec<u64> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let rest: Vec<&str> = text.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().collect()).unwrap_or_default();
    fields.iter().map(|field| rest.get(field - 3).and_then(|word| word.parse().ok()).unwrap_or(0)).collect()
}

/// Of a store that has lost many keys, at 90, 70 and 50 % and greedy: memory over that in base pages, and the part of
/// greedy's gain in speed, or greedy's speed itself. Then the part of the gain in GETs that hit, at 90 %. Units are
/// of gain and speed.
pub(crate) fn store_figures(
    is_source: bool,
    values: [[f64; 2]; 4],
    hits: f64,
    units: [&'static str; 2],
) -> Vec<Figure> {
    // The source's tables, made relative: 12.2 GB and 19.0 k/s in base pages, 20.7 GB and 21.7 k/s greedy.
    const PAPERS: [[f64; 2]; 4] = [[0.008, 0.70], [0.057, 0.78], [0.459, 0.96], [0.697, 1.142]];
    let prefix = if is_source { "source_" } else { "" };
    let figure = |id: String, value, unit, paper: Option<f64>| {
        Figure::alone(format!("{prefix}{id}"), value, unit).paper(paper.filter(|_| is_source))
    };
    let mut figures = Vec::new();
    for ((arm, value), paper) in ["at_90", "at_70", "at_50", "greedy"].into_iter().zip(values).zip(PAPERS) {
        let (id, unit) = match arm {
            "greedy" => ("greedy_speed_over_base".to_string(), units[1]),
            arm => (format!("gain_over_greedy_{arm}"), units[0]),
        };
        let memory = "of the memory in base pages, above it";
        figures.push(figure(format!("memory_over_base_{arm}"), value[0], memory, Some(paper[0])));
        figures.push(figure(id, value[1], unit, Some(paper[1])));
    }
    figures.push(figure("gain_over_greedy_at_90_of_hits".to_string(), hits, units[0], None));
    figures
}

/// How far into memory its first whole region begins.
pub(crate) fn first_region(memory: &[u8]) -> usize {
    memory.as_ptr().align_offset(REGION_BYTES as usize)
}

/// Where a process has huge pages.
pub(crate) struct Seen(PageTable);

impl Seen {
    /// Opens this process' own page table.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn open() -> Result<Seen, LabError> {
        Seen::of(std::process::id())
    }

    /// Opens the page table of a process.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn of(pid: u32) -> Result<Seen, LabError> {
        PageTable::open(pid).map(Seen).map_err(|error| peer::fault("the page table", error))
    }

    /// Bytes in huge pages from address `start` up to `end`.
    pub(crate) fn huge(&self, start: u64, end: u64) -> u64 {
        let mut room = vec![PageRun::default(); 256];
        let (mut at, mut bytes) = (start, 0);
        while at < end {
            let wanted = Wanted { any: page_is::HUGE, none: page_is::ZERO };
            let Ok((runs, walked)) = self.0.scan((at, end), wanted, &mut room) else { break };
            bytes += runs.iter().map(|run| run.end - run.start).sum::<u64>();
            if walked <= at {
                break;
            }
            at = walked;
        }
        bytes
    }

    /// The same of memory of this process, in whole regions.
    pub(crate) fn huge_in(&self, memory: &[u8]) -> u64 {
        let start = memory.as_ptr() as usize as u64;
        self.huge(start.next_multiple_of(REGION_BYTES), (start + memory.len() as u64) / REGION_BYTES * REGION_BYTES)
    }
}
