//! `nbd-vs-peers`: our NBD server on memory against nbdkit's memory plugin, and against qemu-nbd on a raw file in tmpfs.
//! The load is fio's own NBD client over a Unix socket: random 4 KiB reads and writes at depth 1 and 32.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use esker_base::Nanos;
use esker_base::units::MIB;
use esker_nbd::listen::listen;
use esker_nbd::{Config, Export, Server};
use esker_rt::Rt;
use esker_rt::mem::Pool;
use esker_rt::net::Address;
use esker_rt::real::{Reactor, RealConfig};
use esker_rt::sync::race;
use esker_stack::{Spec, Stack};

use crate::experiment::{Experiment, Figure, LabError, Options, Peer};
use crate::peer;
use crate::timing::median;

/// The record.
pub const EXPERIMENT: Experiment = Experiment {
    name: "nbd-vs-peers",
    summary: "Random 4 KiB over NBD against nbdkit and qemu-nbd, each with its best setting",
    source: "the project's own bars: 1.0 of nbdkit, 1.25 of it for reads at depth 32, 2.0 of qemu-nbd",
    simulated: false,
    rivals: &["fio", "nbdkit", "qemu-nbd"],
    run,
};

/// Bytes of each export; all of them are written before anything is measured.
const SIZE: u64 = 64 * MIB;
const PAIRS: u32 = 5;
/// A server that does not listen by then has failed.
const START_MAX: Duration = Duration::from_secs(10);
/// Where a raw file costs no device time.
const TMPFS: &str = "/dev/shm";

/// Settings of a rival that are tried; the best one under each load is what counts. Those of nbdkit that do not begin with
/// a dash are its plugin's. `--no-sr` is not among them: it takes abilities away (holes, block status) that we serve.
const NBDKIT: &[&[&str]] =
    &[&["--threads=1"], &["--threads=4"], &["--threads=16"], &["--threads=1", "allocator=malloc"]];
const QEMU: &[&[&str]] = &[&["--aio=threads"], &["--aio=io_uring"], &["--aio=native", "--cache=none"]];

/// One load.
#[derive(Clone, Copy)]
struct Load {
    rw: &'static str,
    depth: u32,
}

const QD1_READ: Load = Load { rw: "read", depth: 1 };
const QD1_WRITE: Load = Load { rw: "write", depth: 1 };
const QD32_READ: Load = Load { rw: "read", depth: 32 };
const QD32_WRITE: Load = Load { rw: "write", depth: 32 };

fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Vec<Figure>, LabError> {
    let fault = |source| LabError::Scratch { dir: options.scratch.clone(), source };
    let dir = tempfile::tempdir_in(&options.scratch).map_err(fault)?;
    let shm = tempfile::tempdir_in(TMPFS).map_err(|source| LabError::Scratch { dir: TMPFS.into(), source })?;
    let raw = shm.path().join("raw");
    std::fs::File::create_new(&raw).and_then(|file| file.set_len(SIZE)).map_err(fault)?;
    let span = Duration::from_millis(if options.quick { 600 } else { 5_000 });
    let bench = Bench { dir: dir.path(), raw: &raw, span, seed: options.seed };
    let ours = bench.ours()?;
    let mut figures = Vec::new();
    let nbdkit = [
        ("qd1_read_ratio_nbdkit", QD1_READ),
        ("qd1_write_ratio_nbdkit", QD1_WRITE),
        ("qd32_read_ratio_nbdkit", QD32_READ),
        ("qd32_write_ratio_nbdkit", QD32_WRITE),
    ];
    for (id, load) in nbdkit {
        figures.push(bench.compare(id, load, &ours.socket, "nbdkit", NBDKIT, progress)?);
    }
    for (id, load) in [("qd32_read_ratio_qemu", QD32_READ), ("qd32_write_ratio_qemu", QD32_WRITE)] {
        figures.push(bench.compare(id, load, &ours.socket, "qemu-nbd", QEMU, progress)?);
    }
    Ok(figures)
}

struct Bench<'a> {
    dir: &'a Path,
    raw: &'a Path,
    span: Duration,
    seed: u64,
}

impl Bench<'_> {
    fn compare(
        &self,
        id: &'static str,
        load: Load,
        ours: &Path,
        program: &'static str,
        settings: &[&[&str]],
        progress: &mut dyn FnMut(&str),
    ) -> Result<Figure, LabError> {
        let best = self.best_setting(load, program, settings, progress)?;
        let rival = self.rival(program, best)?;
        let (mut ratios, mut rates) = (Vec::new(), Vec::new());
        for pair in 1..=PAIRS {
            // Whoever comes second may find a busier or quieter machine: take turns.
            let (us, them) = if pair % 2 == 0 {
                let us = self.rate(load, ours)?;
                (us, self.rate(load, &rival.socket)?)
            } else {
                let them = self.rate(load, &rival.socket)?;
                (self.rate(load, ours)?, them)
            };
            progress(&format!("{id}, pair {pair} of {PAIRS}: {us:.0} against {them:.0} requests per second"));
            ratios.push(us / them);
            rates.push(them);
        }
        let name = format!("{program} {}, {} at depth {}, requests per second", best.join(" "), load.rw, load.depth);
        let peer = Peer { name, value: median(rates) };
        Ok(Figure { peer: Some(peer), ..Figure::alone(id, median(ratios), "ratio") })
    }

    fn best_setting<'s>(
        &self,
        load: Load,
        program: &'static str,
        settings: &[&'s [&'s str]],
        progress: &mut dyn FnMut(&str),
    ) -> Result<&'s [&'s str], LabError> {
        let mut best: (f64, &[&str]) = (0.0, &[]);
        for setting in settings {
            let rival = self.rival(program, setting)?;
            let rate = self.rate(load, &rival.socket)?;
            progress(&format!("{program} {}: {rate:.0} requests per second", setting.join(" ")));
            if rate > best.0 {
                best = (rate, setting);
            }
        }
        Ok(best.1)
    }

    /// Starts a rival whose content has been written.
    fn rival(&self, program: &'static str, setting: &[&str]) -> Result<Rival, LabError> {
        let socket = self.dir.join(program);
        // Left over by the last one, which was killed.
        let _gone = std::fs::remove_file(&socket);
        let mut command = Command::new(program);
        match program {
            "nbdkit" => {
                let is_flag = |word: &&str| word.starts_with("--");
                let (flags, parameters): (Vec<&str>, Vec<&str>) = setting.iter().copied().partition(is_flag);
                command.args(["--foreground", "--unix"]).arg(&socket).args(flags);
                command.args(["memory", &SIZE.to_string()]).args(parameters)
            }
            _ => command
                .args(["--persistent", "--shared=4", "--format=raw", "--socket"])
                .arg(&socket)
                .args(setting)
                .arg(self.raw),
        };
        let fault = |what: String| LabError::Rival { program: program.to_string(), what };
        // It complains of each look whether it listens already.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().map_err(|e| fault(e.to_string()))?;
        let rival = Rival { child, socket };
        wait_for(&rival.socket).map_err(fault)?;
        self.fill(&rival.socket)?;
        Ok(rival)
    }

    fn ours(&self) -> Result<Ours, LabError> {
        let socket = self.dir.join("ours");
        let stop = Arc::new(AtomicBool::new(false));
        let (asked, address, seed) = (stop.clone(), Address::Unix(socket.clone()), self.seed);
        let thread = spawn(move || {
            let reactor = Reactor::new(RealConfig::seeded(seed)).unwrap_or_else(|e| panic!("{e}"));
            let rt = reactor.rt();
            reactor.block_on(serve(rt, address, asked));
        });
        let ours = Ours { stop, thread: Some(thread), socket };
        wait_for(&ours.socket).map_err(|what| LabError::Rival { program: "our own server".to_string(), what })?;
        self.fill(&ours.socket)?;
        Ok(ours)
    }

    fn fill(&self, socket: &Path) -> Result<(), LabError> {
        self.fio(socket, &["--rw=write", "--bs=1m", "--iodepth=4"]).map(drop)
    }

    fn rate(&self, load: Load, socket: &Path) -> Result<f64, LabError> {
        let (rw, depth) = (format!("--rw=rand{}", load.rw), format!("--iodepth={}", load.depth));
        let runtime = format!("--runtime={}ms", self.span.as_millis());
        let report = self.fio(socket, &[&rw, &depth, &runtime, "--bs=4k", "--time_based", "--norandommap"])?;
        let rate = report["jobs"][0][load.rw]["iops"].as_f64();
        rate.ok_or_else(|| LabError::Rival { program: "fio".to_string(), what: "no rate in its report".to_string() })
    }

    fn fio(&self, socket: &Path, args: &[&str]) -> Result<serde_json::Value, LabError> {
        let fixed = [
            "--name=lab".to_string(),
            "--ioengine=nbd".to_string(),
            format!("--uri=nbd+unix:///?socket={}", socket.display()),
            format!("--size={SIZE}"),
            format!("--randseed={}", self.seed),
            "--output-format=json".to_string(),
        ];
        let all: Vec<String> = fixed.into_iter().chain(args.iter().map(ToString::to_string)).collect();
        let report = peer::output("fio", &all)?;
        // The engine prints a line of its own before the report.
        let begin = report.find('{').unwrap_or_default();
        let wrong = |e: serde_json::Error| LabError::Rival { program: "fio".to_string(), what: e.to_string() };
        serde_json::from_str(&report[begin..]).map_err(wrong)
    }
}

/// A rival's server; killed when dropped.
struct Rival {
    child: Child,
    socket: PathBuf,
}

impl Drop for Rival {
    fn drop(&mut self) {
        // Ended already is fine.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// Our server on a thread of its own; stopped when dropped.
struct Ours {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    socket: PathBuf,
}

impl Drop for Ours {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // A panic there has been printed, and its figures were refused by fio.
        let _ended = self.thread.take().map(JoinHandle::join);
    }
}

/// Serves a disk in memory until asked to stop, which is looked for now and then.
async fn serve(rt: Rt, address: Address, stop: Arc<AtomicBool>) {
    let pool = Pool::default();
    let text = format!("vol = memory size={SIZE} @");
    let spec = Spec::parse("nbd-vs-peers", &text).unwrap_or_else(|e| panic!("the experiment's own text: {e}"));
    let stack = Stack::build(&rt, &pool, esker_kinds::ALL, &spec).unwrap_or_else(|e| panic!("{e}"));
    let device = Rc::new(stack.export("vol").expect("the experiment's own name"));
    let exports = vec![Export::new("vol", device)];
    let server = Server::new(&rt, &pool, exports, Config::production()).unwrap_or_else(|e| panic!("{e}"));
    let listener = listen(&rt, &address).unwrap_or_else(|e| panic!("{e}"));
    let asked = async {
        while !stop.load(Ordering::Relaxed) {
            rt.sleep(Nanos::millis(100)).await;
        }
    };
    race(server.serve(&listener), asked).await;
    server.stop().await;
    stack.close().await;
}

/// Waits until somebody listens at `socket`.
fn wait_for(socket: &Path) -> Result<(), String> {
    let start = Instant::now();
    while start.elapsed() < START_MAX {
        if std::os::unix::net::UnixStream::connect(socket).is_ok() {
            return Ok(());
        }
        sleep(Duration::from_millis(20));
    }
    Err(format!("it does not listen after {} s", START_MAX.as_secs()))
}
