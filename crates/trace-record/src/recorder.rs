//! Recording a program from its beginning, or a process that runs.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use esker_trace_calls::{WarningKind, Warnings};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use rustix::time::{ClockId, clock_gettime};

use crate::assemble::{Assembler, Sink};
use crate::gate::{Gate, GateError};
use crate::kernel::{Kernel, KernelError, Lost};
use crate::output::Output;
use crate::ptrace::{Status, Tracer, Turn};
use crate::signals::Forwarding;
use crate::{started, wire};

/// How calls are seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// By programs in the kernel where it lets us, else by ptrace.
    Any,
    /// By programs in the kernel.
    Kernel,
    /// By ptrace.
    Ptrace,
}

/// What is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A program with its arguments, from its beginning.
    Program(Vec<OsString>),
    /// A process that runs, until it ends or this one is asked to stop.
    Process(u32),
}

/// How it is recorded.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How calls are seen.
    pub method: Method,
    /// Trees that are taken before the program runs. Other files are looked at when a call first names them.
    pub roots: Vec<PathBuf>,
    /// Gives paths other names, drawn from this seed.
    pub anonymise: Option<u64>,
    /// Room for what was seen and not yet written: a power of two of bytes.
    pub ring_bytes: u32,
    /// The process that starts the program.
    pub gate: Gate,
    /// Set to end the recording of a process that runs; signals set it too.
    pub stop: Arc<AtomicBool>,
    /// Is set when all calls from then on are seen.
    pub ready: Arc<AtomicBool>,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// How the program ended; `None` if only its recording did.
    pub status: Option<Status>,
    /// How calls were seen, and why not by programs in the kernel.
    pub method: Method,
    /// Why the first choice was not used.
    pub instead: Option<String>,
    /// Whether calls that are not recorded went on without a stop.
    pub filtered: bool,
    /// What was not recorded.
    pub lost: Lost,
    /// Threads that were seen.
    pub threads: u64,
    /// Calls that were written.
    pub actions: u64,
    /// Files whose size may be one that the program gave them.
    pub changed: u64,
    /// What was odd.
    pub warnings: Warnings,
}

/// A recording that could not be made.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The program could not be started.
    #[error(transparent)]
    Gate(#[from] GateError),
    /// Programs in the kernel were asked for and are not to be had.
    #[error("calls cannot be seen by programs in the kernel: {0}; record by ptrace instead")]
    Kernel(#[from] KernelError),
    /// This process does not know the numbers of threads by which the kernel calls them.
    #[error(
        "calls cannot be seen by programs in the kernel from inside a name space of processes; record by ptrace instead"
    )]
    NameSpace,
    /// The kernel forbids ptrace.
    #[error("process {0}: may not be traced: {1}; run as its user or root, and see kernel.yama.ptrace_scope")]
    Ptrace(u32, nix::Error),
    /// There is no such process, or it may not be looked at.
    #[error("process {0}: cannot be looked at: {1}")]
    Process(u32, io::Error),
    /// A tree is not there.
    #[error("{0}: cannot be taken: {1}")]
    Root(PathBuf, io::Error),
    /// The recording cannot be written.
    #[error("the recording cannot be written: {0}; what was flushed before is whole")]
    Unwritten(#[source] io::Error),
    /// Signals cannot be passed on.
    #[error("signals cannot be passed on: {0}")]
    Signals(#[source] io::Error),
}

/// The reader of the ring looks so often: seldom enough to cost nothing, often enough to see files while they are
/// there.
const NAP: Duration = Duration::from_millis(1);
/// While a process is recorded by ptrace that we may be asked to leave.
const SHORT_NAP: Duration = Duration::from_micros(100);
/// What was recorded outlives this process after so long.
const FLUSHED_EVERY: Duration = Duration::from_secs(1);
/// The ring of programs that are only tried: pages of any size divide it.
const RING_BYTES_TRIED: u32 = 64 << 10;
/// Inode of the name space of processes that the machine began with.
const FIRST_NAME_SPACE: u64 = 0xeffffffc;

/// Records until the program and all that it started have ended.
///
/// # Errors
/// [`RecordError`].
pub fn record(target: &Target, settings: &Settings, out: impl Write) -> Result<Recorded, RecordError> {
    let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let output = Output::new(out, settings.anonymise, started.as_nanos() as i64).map_err(RecordError::Unwritten)?;
    let kernel = match settings.method {
        Method::Ptrace => Err(None),
        Method::Kernel => Ok(start_kernel(settings.ring_bytes)?),
        Method::Any => start_kernel(settings.ring_bytes).map_err(|error| Some(error.to_string())),
    };
    let (assembler, flushed) = (Assembler::new(clock(), kernel.is_ok()), Instant::now());
    let mut session = Session { settings, roots: Vec::new(), output, assembler, flushed };
    for root in &settings.roots {
        let failed = |error| RecordError::Root(root.clone(), error);
        let root = std::fs::canonicalize(root).map_err(failed)?;
        session.output.walk(&root).map_err(failed)?;
        session.roots.push(root);
    }
    if kernel.as_ref().is_ok_and(|kernel| kernel.sees_requests) {
        session.assembler.see_requests();
    }
    if kernel.as_ref().is_ok_and(|kernel| kernel.sees_writes) {
        session.assembler.see_writes();
    }
    match kernel {
        Ok(kernel) => session.by_kernel(target, kernel),
        Err(instead) => session.by_ptrace(target, instead),
    }
}

/// Starts the programs in the kernel that see calls, and ends them at once. They see no thread meanwhile.
///
/// # Errors
/// [`RecordError`] says why a recording here takes ptrace.
pub fn try_kernel() -> Result<(), RecordError> {
    start_kernel(RING_BYTES_TRIED).map(drop)
}

fn start_kernel(ring_bytes: u32) -> Result<Kernel, RecordError> {
    use std::os::unix::fs::MetadataExt;
    let space = std::fs::metadata("/proc/self/ns/pid").map(|metadata| metadata.ino());
    if space.is_ok_and(|space| space != FIRST_NAME_SPACE) {
        return Err(RecordError::NameSpace);
    }
    Ok(Kernel::start(ring_bytes)?)
}

/// ns of the monotonic clock, which programs in the kernel read too.
pub(crate) fn clock() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

struct Session<'a, W: Write> {
    settings: &'a Settings,
    /// The trees that were taken, without links.
    roots: Vec<PathBuf>,
    output: Output<W>,
    assembler: Assembler,
    flushed: Instant,
}

/// What is left to say when no thread is left.
struct End {
    status: Option<Status>,
    method: Method,
    instead: Option<String>,
    filtered: bool,
    lost: Lost,
}

impl<W: Write> Session<'_, W> {
    fn by_kernel(mut self, target: &Target, mut kernel: Kernel) -> Result<Recorded, RecordError> {
        let (pid, _) = self.begin(target, false)?;
        for tid in self.announce(pid)? {
            kernel.trace(tid)?;
        }
        let _forwarding = self.let_go(target, pid)?;
        let mut status = None;
        loop {
            let Session { output, assembler, .. } = &mut self;
            let seen = kernel.ring.drain(|record| take(record, assembler, output));
            self.maybe_flush()?;
            // First of all: a process may make calls faster than they are written. Those until now are written.
            if self.settings.stop.load(Ordering::Relaxed) {
                self.take_rest(&mut kernel);
                break;
            }
            if seen > 0 {
                continue;
            }
            status = status.or_else(|| reap(target, pid));
            let is_over = status.is_some() || matches!(target, Target::Process(_));
            if is_over && !kernel.is_busy() && self.assembler.alive == 0 {
                break;
            }
            // Records of threads that ended may be lost: then only the kernel knows that none is left.
            if is_over && !kernel.is_busy() && kernel.lost().records > 0 {
                break;
            }
            thread::sleep(NAP);
        }
        let Session { output, assembler, .. } = &mut self;
        kernel.under_way(|record| take(record, assembler, output));
        let lost = kernel.lost();
        self.end(End { status, method: Method::Kernel, instead: None, filtered: false, lost })
    }

    fn take_rest(&mut self, kernel: &mut Kernel) {
        kernel.halt();
        let Session { output, assembler, .. } = self;
        while kernel.ring.drain(|record| take(record, assembler, output)) > 0 {}
    }

    fn by_ptrace(mut self, target: &Target, instead: Option<String>) -> Result<Recorded, RecordError> {
        let (pid, filtered) = self.begin(target, true)?;
        let threads = self.announce(pid)?;
        let mut tracer = Tracer::seize(pid, &threads, filtered).map_err(|error| RecordError::Ptrace(pid, error))?;
        let _forwarding = self.let_go(target, pid)?;
        let is_ours = matches!(target, Target::Program(_));
        let mut status = None;
        loop {
            match tracer.turn(is_ours, clock, &mut self.assembler, &mut self.output) {
                Turn::Done => break,
                Turn::Ended(ended, how) if ended as u32 == pid => status = Some(how),
                Turn::Idle if !is_ours => thread::sleep(SHORT_NAP),
                _ => {}
            }
            if !is_ours && self.settings.stop.load(Ordering::Relaxed) {
                break;
            }
            self.maybe_flush()?;
        }
        tracer.release();
        self.end(End { status, method: Method::Ptrace, instead, filtered, lost: Lost::default() })
    }

    /// The process, and whether its calls are filtered; a program's waits at the gate.
    fn begin(&self, target: &Target, filtered: bool) -> Result<(u32, bool), RecordError> {
        match target {
            Target::Process(pid) => Ok((*pid, false)),
            Target::Program(words) => {
                let (pid, filtered) = self.settings.gate.start(words, filtered)?;
                Ok((pid.as_raw_nonzero().get() as u32, filtered))
            }
        }
    }

    /// Records the present process; the numbers of its threads.
    fn announce(&mut self, pid: u32) -> Result<Vec<u32>, RecordError> {
        let gone = |error| RecordError::Process(pid, error);
        started::announce(pid, &mut self.assembler, &mut self.output).map_err(gone)?;
        started::threads(pid).map_err(gone)
    }

    fn let_go(&mut self, target: &Target, pid: u32) -> Result<Forwarding, RecordError> {
        let is_ours = matches!(target, Target::Program(_));
        self.settings.ready.store(true, Ordering::Release);
        let forwarding = Forwarding::start(pid, is_ours, self.settings.stop.clone()).map_err(RecordError::Signals)?;
        if let Some(pid) = Pid::from_raw(pid as i32).filter(|_| is_ours) {
            kill_process(pid, Signal::CONT).map_err(|error| RecordError::Signals(error.into()))?;
        }
        Ok(forwarding)
    }

    fn maybe_flush(&mut self) -> Result<(), RecordError> {
        if self.flushed.elapsed() < FLUSHED_EVERY {
            return Ok(());
        }
        self.flushed = Instant::now();
        self.output.flush().map_err(RecordError::Unwritten)
    }

    fn end(mut self, end: End) -> Result<Recorded, RecordError> {
        let now = clock();
        // What still runs may change them at any time.
        if self.assembler.alive == 0 && !self.roots.is_empty() {
            self.output.look_after(&self.roots);
        }
        self.assembler.finish(now, &mut self.output);
        let at = self.assembler.time(now);
        if end.lost.records > 0 {
            let text = "no room in the ring".to_string();
            self.output.warning(WarningKind::LostEvents, end.lost.records, at, text);
        }
        if end.lost.foreign > 0 {
            let text = "calls of programs of 32 bits".to_string();
            self.output.warning(WarningKind::UnknownCall, end.lost.foreign, at, text);
        }
        let (threads, actions) = self.output.counts;
        let (warnings, changed) = self.output.finish().map_err(RecordError::Unwritten)?;
        let End { status, method, instead, filtered, lost } = end;
        Ok(Recorded { status, method, instead, filtered, lost, threads, actions, changed, warnings })
    }
}

/// Takes what programs in the kernel put out.
fn take(record: &[u8], assembler: &mut Assembler, sink: &mut impl Sink) {
    let read = wire::read(record, |event| assembler.take(event, sink));
    read.expect("programs in the kernel and their reader are of one make");
}

/// How our program ended, if it has.
fn reap(target: &Target, pid: u32) -> Option<Status> {
    let pid = Pid::from_raw(pid as i32).filter(|_| matches!(target, Target::Program(_)))?;
    let (_, status) = waitpid(Some(pid), WaitOptions::NOHANG).ok()??;
    let exited = status.exit_status().map(Status::Exited);
    exited.or_else(|| status.terminating_signal().map(Status::Killed))
}
