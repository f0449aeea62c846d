//! `artc-micro`: threads that read random blocks of their own files, on one modelled disk and on two striped ones.
//! What was traced on each is replayed on each; the error of a mode is how far its replay's elapsed time is from that
//! of the program itself on the target. `--quick` has 2 threads and few reads.

use std::path::Path;

use esker_trace_calls::words::{OpenFlags, ReadWriteFlags, ResolveFlags, SyncKind};
use esker_trace_calls::{At, Call, Entry, EntryKind, Fd, PathBytes, Trace};
use esker_trace_replay::{FsyncMeans, Speed};

use crate::artc::mounted::{ModelDevice, Mounted};
use crate::artc::readers::{Readers, Way, source};
use crate::artc::{How, Source, action, begun, compiled, modes, replayed, root};
use esker_lab_kit::timing::{mean, worst};
use esker_lab_kit::{Figure, Lab, LabError};

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let devices = [Mounted::ext4(lab, ModelDevice::FastDisk)?, Mounted::ext4(lab, ModelDevice::FastStriped)?];
    let sizes: &[(u32, u32)] = if lab.quick { &[(2, 300)] } else { &[(1, 1000), (2, 1000), (8, 1000)] };
    let (mut errors, mut alone) = (Vec::new(), Vec::new());
    for &(threads, reads) in sizes {
        let readers = Readers { threads, reads, bytes: 32 << 20, way: Way::Random, seed: lab.seed };
        let traced = |device: &Mounted| {
            readers.prepare(&device.run_dir())?;
            source(|| readers.run(&device.run_dir()))
        };
        let sources = devices.iter().map(traced).collect::<Result<Vec<_>, _>>()?;
        alone.push(sources[0].elapsed_ns);
        for source in &sources {
            for (target, device) in sources.iter().zip(&devices) {
                lab.say(format!("{threads} threads, {} to {} ms", source.ms(), target.ms()));
                errors.push(compare(source, target, &device.run_dir(), lab)?);
            }
        }
    }
    let [durable, device] = fsyncs(&devices[0].run_dir(), lab)?;
    let of = |mode: usize| errors.iter().map(|errors| errors[mode]).collect::<Vec<f64>>();
    let [root, temporal, single] = [of(0), of(1), of(2)];
    Ok(vec![
        Figure::alone("replay_pairs", root.len() as f64, "pairs of source and target"),
        Figure::alone("root_worst_error", worst(&root), "share").paper(0.05),
        Figure::alone("root_mean_error", mean(&root), "share"),
        Figure::alone("temporal_mean_error", mean(&temporal), "share"),
        Figure::alone("single_mean_error", mean(&single), "share"),
        Figure::alone("read_time_ratio_max_threads", alone[alone.len() - 1] / alone[0], "ratio"),
        Figure::alone("fsync_durable_median", durable[1], "ms").paper(11.0),
        Figure::alone("fsync_device_p95", device[2], "ms").paper(1.0),
    ])
}

/// The relative errors of replays in each mode.
fn compare(source: &Source, target: &Source, dir: &Path, lab: &Lab<'_>) -> Result<Vec<f64>, LabError> {
    let error = |(mode, order)| {
        let report = replayed(&source.program, dir, How::paced(order, lab.seed))?;
        let error = target.error(report.elapsed_ns as f64).abs();
        lab.say(format!("{mode} {} ms, error {:.1} %", report.elapsed_ns / 1_000_000, error * 100.0));
        Ok(error)
    };
    modes().into_iter().map(error).collect()
}

/// Writes of blocks, each followed by an `fsync`: percentiles 10, 50, 95 and 99 of the latter in ms, as durable, and as
/// only with the device, whose cache is volatile.
fn fsyncs(dir: &Path, lab: &Lab<'_>) -> Result<[[f64; 4]; 2], LabError> {
    let program = compiled(log_writer(if lab.quick { 100 } else { 500 }))?;
    let mut percentiles = [[0.0; 4]; 2];
    for (means, found) in [FsyncMeans::Durable, FsyncMeans::Device].into_iter().zip(&mut percentiles) {
        let how = How { fsync: means, ..How::plain(root(), Speed::Afap, lab.seed) };
        let report = replayed(&program, dir, how)?;
        let fsync = report.calls.iter().find(|call| call.call == "fsync");
        let fsync = fsync.ok_or_else(|| LabError::Data("no fsync was replayed".to_string()))?;
        *found = fsync.percentiles_ns.map(|ns| ns as f64 / 1e6);
        lab.say(format!("fsync {}: {found:.2?} ms at 10, 50, 95 and 99 %", report.how.fsync));
    }
    Ok(percentiles)
}

/// One thread that overwrites a log block by block, durably.
fn log_writer(blocks: u64) -> Trace {
    let mut trace = begun(1, "writer");
    trace.snapshot.entries.insert(PathBytes::from("/log"), Entry::plain(EntryKind::File { size: blocks * 4096 }));
    let (fd, flags) = (Fd(3), ReadWriteFlags::empty());
    let open = Call::Open { at: At::cwd("/log"), flags: OpenFlags::WRITE, mode: 0, resolve: ResolveFlags::empty() };
    let writes = (0..blocks).flat_map(|block| {
        let write = Call::Pwrite { fd, offset: block as i64 * 4096, len: 4096, parts: 0, flags };
        [(write, 4096), (Call::Sync { fd, kind: SyncKind::Full }, 0)]
    });
    let calls = std::iter::once((open, 3)).chain(writes).zip((0..).step_by(1000));
    trace.actions = calls.map(|((call, result), at)| action(0, [at, at + 500], call, result)).collect();
    trace
}
