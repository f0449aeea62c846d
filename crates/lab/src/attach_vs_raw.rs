//! `attach-vs-raw`: an attached stack of one `file` device against a loop device on that very file, both with direct
//! I/O below. Random 4 KiB reads and writes, half of each, at depth 1 and 32.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

use esker_base::units::MIB;
use esker_base::{Nanos, Stream};
use esker_fuse::{Attached, Export, Setup};
use esker_rt::Rt;
use esker_rt::mem::Pool;
use esker_rt::real::loop_device::{self, LoopSetup};
use esker_rt::real::{Reactor, RealConfig};
use esker_stack::{Spec, Stack};

use crate::experiment::{Experiment, Figure, LabError, Options, Peer};
use crate::peer;
use crate::timing::median;

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
    let fault = |source| LabError::Scratch { dir: options.scratch.clone(), source };
    let dir = tempfile::tempdir_in(&options.scratch).map_err(fault)?;
    let file = dir.path().join("data");
    fill(&file, options.seed).map_err(fault)?;
    let raw = Raw::over(&file)?;
    let ours = Ours::over(&file, &dir.path().join("files"), options.seed)?;
    let bench = Bench { span: Duration::from_secs(if options.quick { 2 } else { 8 }), seed: options.seed };
    let depths = [("qd1_ratio_raw", 1), ("qd32_ratio_raw", 32)];
    depths.into_iter().map(|(id, depth)| bench.compare(id, depth, &ours.device, &raw.0, progress)).collect()
}

/// Random content, so that no layer below can cheat on zeroes.
fn fill(path: &Path, seed: u64) -> std::io::Result<()> {
    let mut random = Stream::named(seed, "attach-vs-raw content");
    let mut file = File::create_new(path)?;
    let mut chunk = vec![0; MIB as usize];
    for _ in 0..SIZE / MIB {
        random.fill(&mut chunk);
        file.write_all(&chunk)?;
    }
    file.sync_all()
}

struct Bench {
    span: Duration,
    seed: u64,
}

impl Bench {
    fn compare(
        &self,
        id: &'static str,
        depth: u32,
        ours: &Path,
        raw: &Path,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Figure, LabError> {
        let (mut ratios, mut rates) = (Vec::new(), Vec::new());
        for pair in 1..=PAIRS {
            // Whoever comes second may find a busier or quieter machine: take turns.
            let (us, them) = if pair % 2 == 0 {
                let us = self.rate(depth, ours)?;
                (us, self.rate(depth, raw)?)
            } else {
                let them = self.rate(depth, raw)?;
                (self.rate(depth, ours)?, them)
            };
            progress(&format!("depth {depth}, pair {pair} of {PAIRS}: {us:.0} against {them:.0} requests per second"));
            ratios.push(us / them);
            rates.push(them);
        }
        let name = format!("loop device with direct I/O on the file, depth {depth}, requests per second");
        let peer = Peer { name, value: median(rates) };
        Ok(Figure { peer: Some(peer), ..Figure::alone(id, median(ratios), "ratio") })
    }

    fn rate(&self, depth: u32, device: &Path) -> Result<f64, LabError> {
        let args = [
            "--name=lab".to_string(),
            format!("--filename={}", device.display()),
            format!("--iodepth={depth}"),
            format!("--size={SIZE}"),
            format!("--randseed={}", self.seed),
            format!("--runtime={}", self.span.as_secs()),
        ];
        let fixed =
            "--rw=randrw --bs=4k --direct=1 --ioengine=io_uring --time_based --norandommap --output-format=json";
        let words: Vec<String> = args.into_iter().chain(fixed.split(' ').map(str::to_string)).collect();
        let report: serde_json::Value = serde_json::from_str(&peer::output("fio", &words)?).unwrap_or_default();
        let rate = |way: &str| report["jobs"][0][way]["iops"].as_f64();
        let both = rate("read").zip(rate("write")).map(|(reads, writes)| reads + writes);
        both.ok_or_else(|| LabError::Rival { program: "fio".to_string(), what: "no rate in its report".to_string() })
    }
}

fn fault(program: &str, what: impl ToString) -> LabError {
    LabError::Rival { program: program.to_string(), what: what.to_string() }
}

/// A loop device straight on the file; released when dropped.
struct Raw(PathBuf);

impl Raw {
    fn over(file: &Path) -> Result<Raw, LabError> {
        let setup = LoopSetup { block: BLOCK, read_only: false, partitions: false };
        let device = loop_device::configure(file, setup);
        device.map(Raw).map_err(|e| fault("the loop device", format!("{e}; this experiment takes root")))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // Gone already is fine.
        let _gone = loop_device::clear(&self.0);
    }
}

/// Our device, served by a thread of its own; released when dropped.
struct Ours {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    device: PathBuf,
}

impl Ours {
    fn over(file: &Path, mount: &Path, seed: u64) -> Result<Ours, LabError> {
        std::fs::create_dir(mount).map_err(|e| fault("our own device", e))?;
        let stop = Arc::new(AtomicBool::new(false));
        let (asked, file) = (stop.clone(), file.to_path_buf());
        let setup = Setup { mount: mount.to_path_buf(), partitions: false };
        let (tell, told) = channel();
        let thread = spawn(move || {
            let reactor = Reactor::new(RealConfig::seeded(seed)).unwrap_or_else(|e| panic!("{e}"));
            let rt = reactor.rt();
            reactor.block_on(serve(rt, file, setup, tell, asked));
        });
        let device = told.recv().map_err(|e| fault("our own device", e))?;
        let device = device.map_err(|e| fault("our own device", e))?;
        Ok(Ours { stop, thread: Some(thread), device })
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // A panic there has been printed, and its figures were refused by fio.
        let _ended = self.thread.take().map(JoinHandle::join);
    }
}

/// Attaches the file until asked to stop, which is looked for now and then.
async fn serve(rt: Rt, file: PathBuf, setup: Setup, tell: Sender<Result<PathBuf, String>>, stop: Arc<AtomicBool>) {
    let pool = Pool::default();
    let text = format!("[device.vol]\nkind = \"file\"\npath = '{}'\n", file.display());
    let spec = Spec::parse("attach-vs-raw", &text).unwrap_or_else(|e| panic!("the experiment's own text: {e}"));
    let stack = match Stack::build(&rt, &pool, esker_kinds::ALL, &spec) {
        Ok(stack) => stack,
        Err(error) => return drop(tell.send(Err(error.to_string()))),
    };
    let device = Rc::new(stack.device("vol").expect("the experiment's own name"));
    let exports = vec![Export { name: "vol".to_string(), device }];
    match Attached::start(&rt, &pool, exports, &setup).await {
        Err(error) => drop(tell.send(Err(error.to_string()))),
        Ok(attached) => {
            // Whoever does not wait for the device any more has stopped us too.
            let _heard = tell.send(Ok(attached.disks()[0].path.clone()));
            while !stop.load(Ordering::Relaxed) {
                rt.sleep(Nanos::millis(100)).await;
            }
            attached.stop().await;
        }
    }
    stack.close().await;
}
