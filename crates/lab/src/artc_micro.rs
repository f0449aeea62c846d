//! `artc-micro`: threads that read random blocks of their own files, on one modelled disk and on two striped ones. What
//! was traced on each is replayed on each; the error of a mode is how far its replay's elapsed time is from that of the
//! program itself on the target. `--quick` has 2 threads and few reads.

use std::path::Path;

use esker_base::Time;
use esker_trace_calls::words::{OpenFlags, ReadWriteFlags, ResolveFlags, SyncKind};
use esker_trace_calls::{
    Action, At, Call, Entry, EntryKind, Fd, Outcome, PathBytes, Platform, Process, ProcessId, Thread, ThreadId, Trace,
    Word,
};
use esker_trace_order::rules::Order;
use esker_trace_replay::{FsyncMeans, Speed};

use crate::artc::mounted::{DISK, FileSystem, Mounted};
use crate::artc::readers::{Readers, Source, Way};
use crate::artc::{How, compiled, replayed, root};
use esker_lab_kit::{Experiment, Figure, LabError, Options, scratch};

/// The record.
pub const EXPERIMENT: Experiment = Experiment {
    name: "artc-micro",
    summary: "Errors of replays of parallel readers across one and two modelled disks, by mode",
    source: "thesis on hardware-driven evolution, section 2.5.2, figure 2.8",
    simulated: false,
    rivals: &[],
    run,
};

/// Relative errors of each mode.
#[derive(Default)]
struct Errors {
    root: Vec<f64>,
    temporal: Vec<f64>,
    single: Vec<f64>,
}

fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Vec<Figure>, LabError> {
    let dir = scratch::folder(&options.scratch)?;
    let stripe = format!("a = {DISK}; b = {DISK}; vol = stripe chunk=512KiB on a, b");
    let devices = [
        Mounted::new("disk", FileSystem::Ext4, &format!("vol = {DISK}"), dir.path(), options.seed)?,
        Mounted::new("striped", FileSystem::Ext4, &stripe, dir.path(), options.seed)?,
    ];
    let sizes: &[(u32, u32)] = if options.quick { &[(2, 300)] } else { &[(1, 1000), (2, 1000), (8, 1000)] };
    let (mut errors, mut alone) = (Errors::default(), Vec::new());
    for (threads, reads) in sizes {
        let readers =
            Readers { threads: *threads, reads: *reads, bytes: 32 << 20, way: Way::Random, seed: options.seed };
        let sources =
            devices.iter().map(|device| source(&readers, &device.run_dir())).collect::<Result<Vec<_>, _>>()?;
        alone.push(sources[0].elapsed_ns);
        for source in &sources {
            for (target, device) in sources.iter().zip(&devices) {
                let how = format!("{threads} threads, {} to {} ms", source.ms(), target.ms());
                compare(source, target, &device.run_dir(), options, &mut errors, &mut |text| {
                    progress(&format!("{how}: {text}"))
                })?;
            }
        }
    }
    let [durable, device] = fsyncs(&devices[0].run_dir(), options, progress)?;
    let mean = |errors: &[f64]| errors.iter().sum::<f64>() / errors.len().max(1) as f64;
    let worst = |errors: &[f64]| errors.iter().copied().fold(0.0, f64::max);
    Ok(vec![
        Figure::alone("replay_pairs", errors.root.len() as f64, "pairs of source and target"),
        Figure::alone("root_worst_error", worst(&errors.root), "share").paper(0.05),
        Figure::alone("root_mean_error", mean(&errors.root), "share"),
        Figure::alone("temporal_mean_error", mean(&errors.temporal), "share"),
        Figure::alone("single_mean_error", mean(&errors.single), "share"),
        Figure::alone("read_time_ratio_max_threads", alone[alone.len() - 1] / alone[0], "ratio"),
        Figure::alone("fsync_durable_median", durable[1], "ms").paper(11.0),
        Figure::alone("fsync_device_p95", device[2], "ms").paper(1.0),
    ])
}

fn source(readers: &Readers, dir: &Path) -> Result<Source, LabError> {
    readers.prepare(dir)?;
    Source::of(|| readers.run(dir))
}

fn compare(
    source: &Source,
    target: &Source,
    dir: &Path,
    options: &Options,
    errors: &mut Errors,
    progress: &mut dyn FnMut(&str),
) -> Result<(), LabError> {
    let modes =
        [(root(), &mut errors.root), (Order::Temporal, &mut errors.temporal), (Order::Single, &mut errors.single)];
    for (order, errors) in modes {
        let how = How::plain(order, Speed::Scaled(1.0), options.seed);
        let report = replayed(&source.program, dir, how)?;
        let error = (report.elapsed_ns as f64 - target.elapsed_ns).abs() / target.elapsed_ns;
        progress(&format!("{} {} ms, error {:.1} %", report.how.mode, report.elapsed_ns / 1_000_000, error * 100.0));
        errors.push(error);
    }
    Ok(())
}

/// Writes of blocks, each followed by an `fsync`: percentiles 10, 50, 95 and 99 of the latter in ms, as durable, and as
/// only with the device, whose cache is volatile.
fn fsyncs(dir: &Path, options: &Options, progress: &mut dyn FnMut(&str)) -> Result<[[f64; 4]; 2], LabError> {
    let program = compiled(log_writer(if options.quick { 100 } else { 500 }))?;
    let mut percentiles = [[0.0; 4]; 2];
    for (means, found) in [FsyncMeans::Durable, FsyncMeans::Device].into_iter().zip(&mut percentiles) {
        let how = How { fsync: means, ..How::plain(root(), Speed::Afap, options.seed) };
        let report = replayed(&program, dir, how)?;
        let fsync = report.calls.iter().find(|call| call.call == "fsync");
        let fsync = fsync.ok_or_else(|| LabError::Data("no fsync was replayed".to_string()))?;
        *found = fsync.percentiles_ns.map(|ns| ns as f64 / 1e6);
        progress(&format!("fsync {}: {found:.2?} ms at 10, 50, 95 and 99 %", report.how.fsync));
    }
    Ok(percentiles)
}

/// One thread that overwrites a log block by block, durably.
fn log_writer(blocks: u64) -> Trace {
    let mut trace = Trace::new(Platform::Linux, "experiment");
    trace.processes.push(Process { pid: 1, parent: None, cwd: PathBytes::from("/"), umask: 0o22 });
    trace.threads.push(Thread { tid: 1, process: ProcessId(0), parent: None, name: Word::from("writer") });
    trace.snapshot.entries.insert(PathBytes::from("/log"), Entry::plain(EntryKind::File { size: blocks * 4096 }));
    let (fd, flags) = (Fd(3), ReadWriteFlags::empty());
    let open = Call::Open { at: At::cwd("/log"), flags: OpenFlags::WRITE, mode: 0, resolve: ResolveFlags::empty() };
    let writes = (0..blocks).flat_map(|block| {
        let write = Call::Pwrite { fd, offset: block as i64 * 4096, len: 4096, parts: 0, flags };
        [(write, 4096), (Call::Sync { fd, kind: SyncKind::Full }, 0)]
    });
    let calls = std::iter::once((open, 3)).chain(writes).zip((0..).step_by(1000));
    let action = |((call, result), at): ((Call, i64), u64)| Action {
        thread: ThreadId(0),
        enter: Time(at),
        leave: Time(at + 500),
        call,
        outcome: Outcome::Done(result),
    };
    trace.actions = calls.map(action).collect();
    trace
}
