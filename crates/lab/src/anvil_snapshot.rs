//! `anvil-snapshot`: random 4 KiB writes to a volume after snapshots of it, against the same volume without any,
//! against snapshots by copying before writing, against qcow2, and against the bare file below.
//!
//! The collector rests in all of it: with and without snapshots, less of the medium is in use than wakes it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;

use esker_base::units::{KIB, MIB};
use esker_block::Device;
use esker_rt::real::{Reactor, RealConfig};
use esker_stack::{Export, Stack};

use crate::copy_on_write::{CopyOnWrite, TABLE};
use crate::random_writes::{self, BLOCK, Load};
use esker_lab_kit::{
    Experiment, Figure, LabError, Options, Peer,
    nbd_serving::{self, Rival, export},
    peer, rig, scratch, timing, volume_load,
};

/// The record.
pub const EXPERIMENT: Experiment = Experiment {
    name: "anvil-snapshot",
    summary: "Random 4 KiB writes after snapshots: against none, copy-on-write, qcow2 and the bare file",
    source: "ANViL, figure 3.5: up to 7 times LVM; issue 6 of this project: at least 0.95 of the rate before, 5 times copy-on-write of \
             2 MiB, 1.5 times the best of it and qcow2, 0.9 of the bare file",
    simulated: false,
    rivals: &["fio", "qemu-img", "qemu-nbd"],
    run,
};

/// Bytes of each medium of ours.
const MEDIUM: u64 = 2048 * MIB;
const PARAMS: &str = "block=4096 segment=8MiB checkpoint_interval=512MiB";
const CHUNKS: [u64; 3] = [4 * KIB, 64 * KIB, 2 * MIB];
/// Depths that are tried; the best one of each side counts.
const DEPTHS: [u64; 3] = [1, 8, 32];
/// Blocks that are written between two snapshots.
const BURST: u64 = 8;
const QEMU: [&str; 3] = ["--aio=threads", "--aio=io_uring", "--aio=native"];

struct Bench {
    dir: PathBuf,
    reactor: Reactor,
    seed: u64,
    quick: bool,
    /// Measurements of each kind.
    pairs: u32,
}

fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Vec<Figure>, LabError> {
    let dir = scratch::folder(&options.scratch)?;
    let (seed, quick, pairs) = (options.seed, options.quick, if options.quick { 7 } else { 15 });
    let reactor = Reactor::new(RealConfig::seeded(seed))?;
    let bench = Bench { dir: dir.path().to_path_buf(), reactor, seed, quick, pairs };
    let mut figures = bench.after_over_before(progress)?;
    figures.extend(bench.over_copy_on_write(progress)?);
    figures.push(bench.over_qcow2(progress)?);
    figures.push(bench.over_file(progress)?);
    Ok(figures)
}

impl Bench {
    fn file(&self, name: &str, bytes: u64) -> Result<PathBuf, LabError> {
        let path = self.dir.join(name);
        scratch::zero_file(&path, bytes)?;
        Ok(path)
    }

    fn build(&self, text: &str) -> Result<Rc<Stack>, LabError> {
        rig::stack(&self.reactor.rt(), &rig::spec(text))
    }

    fn rate(&self, device: &Rc<dyn Device>, load: Load) -> Result<f64, LabError> {
        let (rt, device) = (self.reactor.rt(), device.clone());
        Ok(self.reactor.block_on(async move { random_writes::rate(&rt, &device, load).await })?)
    }

    fn fill(&self, device: &Rc<dyn Device>, bytes: u64) -> Result<(), LabError> {
        let device = device.clone();
        Ok(self.reactor.block_on(async move { random_writes::fill(&device, bytes).await })?)
    }

    fn snapshot(&self, stack: &Rc<Stack>, name: String) -> Result<(), LabError> {
        let (stack, words) = (stack.clone(), ["snapshot".to_string(), "vol".to_string(), name]);
        let done = self.reactor.block_on(async move { stack.order("vm", &words).await });
        done.map(drop).map_err(LabError::data)
    }

    /// The rate with 1, 100 and 1,000 snapshots over that without, with as much in use; the worst of the three.
    fn after_over_before(&self, progress: &mut dyn FnMut(&str)) -> Result<Vec<Figure>, LabError> {
        let bytes = if self.quick { 16 * MIB } else { 64 * MIB };
        let mut worst: [Option<Figure>; 2] = [None, None];
        for snapshots in [1, 100, 1000] {
            let after = self.aged("after", bytes, snapshots, true)?;
            let before = self.aged("before", bytes, snapshots, false)?;
            let ids = [("after_over_before_qd1", 1), ("after_over_before_qd32", 32)];
            for ((id, depth), worst) in ids.into_iter().zip(&mut worst) {
                let load = Load { bytes, depth, writes: if depth == 1 { 2_000 } else { 16_000 }, seed: self.seed };
                let name = format!(
                    "the same without snapshots ({snapshots} of them are compared), depth {depth}, writes per second"
                );
                let rate = |volume: &Aged| self.rate(&volume.device, load);
                let figure = timing::ratio(id, name, self.pairs, || rate(&after), || rate(&before), progress)?;
                progress(&format!("{id} with {snapshots} snapshots: {:.3}", figure.value));
                if worst.as_ref().is_none_or(|worst| figure.value < worst.value) {
                    *worst = Some(figure);
                }
            }
            for volume in [after, before] {
                volume.remove(&self.reactor)?;
            }
        }
        Ok(worst.into_iter().flatten().collect())
    }

    /// A volume all of whose blocks were written in random order, and then as many more as snapshots keep: over the
    /// volume if there are snapshots, beside it if not, so that as much of the medium is live.
    fn aged(&self, name: &str, bytes: u64, snapshots: u64, has_them: bool) -> Result<Aged, LabError> {
        let file = self.file(name, MEDIUM)?;
        let text = format!(
            "a = file path={} direct=true; vm = thin {PARAMS} ports=\"vol={bytes},beside={bytes}\" on a",
            file.display()
        );
        let stack = self.build(&text)?;
        let (vol, beside) = (stack.device("vm.vol"), stack.device("vm.beside"));
        let (vol, beside) = (vol.expect("the experiment's own name"), beside.expect("the experiment's own name"));
        let blocks = bytes / BLOCK;
        self.scatter(&vol, 0, blocks, blocks)?;
        for number in 0..snapshots {
            if has_them {
                self.snapshot(&stack, format!("s{number}"))?;
            }
            self.scatter(if has_them { &vol } else { &beside }, number * BURST, BURST, blocks)?;
        }
        Ok(Aged { device: Rc::new(vol), stack, file })
    }

    /// Writes `count` of a volume's `blocks` blocks, from number `from` of an order without neighbours on.
    fn scatter(&self, vol: &Export, from: u64, count: u64, blocks: u64) -> Result<(), LabError> {
        let vol = vol.clone();
        // An odd step visits each of 2^n blocks once.
        let place = move |i: u64| (from + i) * 40_503 % blocks * BLOCK;
        Ok(self.reactor.block_on(async move { volume_load::write_all(&vol, BLOCK as usize, count, place).await })?)
    }

    /// Against copying before writing, in chunks of three sizes: the first writes after a snapshot.
    fn over_copy_on_write(&self, progress: &mut dyn FnMut(&str)) -> Result<Vec<Figure>, LabError> {
        let bytes = if self.quick { 128 * MIB } else { 512 * MIB };
        let ours = self.best_of_ours(bytes, progress)?;
        let (origin, store) = (self.file("origin", bytes)?, self.file("store", bytes + TABLE as u64)?);
        let text = |name: &str, file: &Path| format!("{name} = file path={} direct=true", file.display());
        let stack = self.build(&format!("{}; {}", text("o", &origin), text("s", &store)))?;
        let (first, second) = (rig::device(&stack, "o"), rig::device(&stack, "s"));
        let mut best = Vec::new();
        for chunk in CHUNKS {
            let fresh =
                || -> Rc<dyn Device> { Rc::new(CopyOnWrite::new(stack.pool(), first.clone(), second.clone(), chunk)) };
            let rate = self.best_rate(bytes, |load| self.rate(&fresh(), load))?;
            progress(&format!(
                "copy-on-write of {} KiB: {:.0} at depth {}; ours: {:.0} at {}",
                chunk / KIB,
                rate.0,
                rate.1,
                ours.0,
                ours.1
            ));
            best.push((chunk, rate));
        }
        drop((first, second, stack));
        for file in [origin, store] {
            std::fs::remove_file(&file).map_err(|source| LabError::Scratch { dir: file, source })?;
        }
        let figure = |id, (chunk, (rate, depth)): (u64, (f64, u64))| {
            let name = format!("copy-on-write of {} KiB at its best depth, {depth}, writes per second", chunk / KIB);
            Figure::alone(id, ours.0 / rate, "ratio").beside(Peer { name, value: rate })
        };
        let fastest = best.iter().copied().max_by(|a, b| a.1.0.total_cmp(&b.1.0)).expect("there are chunks");
        let thesis = *best.last().expect("there are chunks");
        Ok(vec![Figure { paper: Some(7.0), ..figure("over_cow_2m", thesis) }, figure("over_cow_best", fastest)])
    }

    fn best_of_ours(&self, bytes: u64, progress: &mut dyn FnMut(&str)) -> Result<(f64, u64), LabError> {
        let file = self.file("ours", MEDIUM)?;
        let text =
            format!("a = file path={} direct=true; vm = thin {PARAMS} ports=\"vol={bytes}\" on a", file.display());
        let stack = self.build(&text)?;
        let vol = rig::device(&stack, "vm.vol");
        self.fill(&vol, bytes)?;
        let mut number = 0;
        let best = self.best_rate(bytes, |load| {
            number += 1;
            self.snapshot(&stack, format!("s{number}"))?;
            let rate = self.rate(&vol, load)?;
            let words = ["delete".to_string(), format!("s{number}")];
            let asked = stack.clone();
            let deleted = self.reactor.block_on(async move { asked.order("vm", &words).await });
            deleted.map(|_| rate).map_err(LabError::data)
        })?;
        progress(&format!("ours after a snapshot: {:.0} at depth {}", best.0, best.1));
        Aged { device: vol, stack, file }.remove(&self.reactor)?;
        Ok(best)
    }

    /// The best median of a few runs over all depths, and that depth: as many writes as a sixteenth of the blocks, each
    /// run after a snapshot of its own.
    fn best_rate(
        &self,
        bytes: u64,
        mut rate: impl FnMut(Load) -> Result<f64, LabError>,
    ) -> Result<(f64, u64), LabError> {
        let mut best = (0.0, 0);
        for depth in DEPTHS {
            let runs = (0..3).map(|run| rate(Load { bytes, depth, writes: bytes / BLOCK / 16, seed: self.seed + run }));
            let median = timing::median(runs.collect::<Result<Vec<f64>, LabError>>()?);
            best = if median > best.0 { (median, depth) } else { best };
        }
        Ok(best)
    }

    /// Against qcow2 after an internal snapshot, both over NBD, without a cache of the kernel, unflushed, at depth 32.
    fn over_qcow2(&self, progress: &mut dyn FnMut(&str)) -> Result<Figure, LabError> {
        const SIZE: u64 = 128 * MIB;
        let file = self.file("served", MEDIUM)?;
        let text =
            format!("a = file path={} direct=true; vm = thin {PARAMS} ports=\"vol={SIZE}\" on a", file.display());
        let (our_socket, image) = (self.dir.join("ours.sock"), self.dir.join("image.qcow2"));
        let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
        let path = image.display().to_string();
        peer::output("qemu-img", &words(&["create", "-q", "-f", "qcow2", &path, &SIZE.to_string()]))?;
        let qemu = |aio: &str| {
            let socket = self.dir.join("qemu.sock");
            let mut command = Command::new("qemu-nbd");
            command.args(["--persistent", "--format=qcow2", "--cache=none", aio, "--socket"]).arg(&socket).arg(&image);
            Rival::start("qemu-nbd", &mut command, socket)
        };
        {
            let serving = nbd_serving::ours(self.seed, text.clone(), "vm.vol", &our_socket, &[])?;
            fill_over_nbd(&our_socket, SIZE)?;
            drop(serving);
            let rival = qemu(QEMU[0])?;
            fill_over_nbd(&rival.socket, SIZE)?;
            rival.end()?;
        }
        let mut number = 0;
        let ours = |run: u64| {
            let name = format!("s{run}");
            let _serving =
                nbd_serving::ours(self.seed, text.clone(), "vm.vol", &our_socket, &["snapshot", "vol", &name])?;
            writes_over_nbd(&our_socket, SIZE, self.seed + run)
        };
        let mut theirs = |aio: &str| {
            number += 1;
            peer::output("qemu-img", &words(&["snapshot", "-c", &format!("s{number}"), &path]))?;
            let rival = qemu(aio)?;
            let rate = writes_over_nbd(&rival.socket, SIZE, self.seed + number)?;
            rival.end()?;
            Ok::<f64, LabError>(rate)
        };
        let (mut our_rates, mut their_rates) = (Vec::new(), vec![Vec::new(); QEMU.len()]);
        for run in 0..3 {
            our_rates.push(ours(run)?);
            for (aio, rates) in QEMU.into_iter().zip(&mut their_rates) {
                rates.push(theirs(aio)?);
            }
        }
        let our_rate = timing::median(our_rates);
        let medians = QEMU.into_iter().zip(their_rates).map(|(aio, rates)| (aio, timing::median(rates)));
        let (aio, rate) = medians.max_by(|a, b| a.1.total_cmp(&b.1)).expect("there are settings");
        progress(&format!("over NBD: {our_rate:.0} against {rate:.0} of qcow2 with {aio}"));
        let name = format!("qemu-nbd --cache=none {aio} on qcow2 after a snapshot, depth 32, writes per second");
        std::fs::remove_file(&file).map_err(|source| LabError::Scratch { dir: file, source })?;
        Ok(Figure::alone("over_qcow2", our_rate / rate, "ratio").beside(Peer { name, value: rate }))
    }

    /// Against the `file` device that is below the volume.
    fn over_file(&self, progress: &mut dyn FnMut(&str)) -> Result<Figure, LabError> {
        const BYTES: u64 = 64 * MIB;
        let (file, bare) = (self.file("volume", MEDIUM)?, self.file("bare", MEDIUM)?);
        let vol = volume_load::open(&self.reactor, &file, MEDIUM, true, PARAMS)?;
        let device: Rc<dyn Device> = Rc::new(vol.clone());
        let stack = self.build(&format!("b = file path={} direct=true", bare.display()))?;
        let bare = rig::device(&stack, "b");
        self.fill(&device, BYTES)?;
        self.fill(&bare, BYTES)?;
        let load = Load { bytes: BYTES, depth: 32, writes: if self.quick { 16_000 } else { 64_000 }, seed: self.seed };
        let name = "the bare file device, depth 32, writes per second".to_string();
        let (ours, theirs) = (|| self.rate(&device, load), || self.rate(&bare, load));
        timing::ratio("raw_write_ratio_qd32", name, self.pairs, ours, theirs, progress)
    }
}

/// A volume after its past.
struct Aged {
    device: Rc<dyn Device>,
    stack: Rc<Stack>,
    file: PathBuf,
}

impl Aged {
    /// Closes it and removes its medium: all of them together would fill a disk.
    fn remove(self, reactor: &Reactor) -> Result<(), LabError> {
        let Aged { device, stack, file } = self;
        reactor.block_on(async move {
            stack.close().await;
            drop(device);
        });
        std::fs::remove_file(&file).map_err(|source| LabError::Scratch { dir: file, source })
    }
}

fn fill_over_nbd(socket: &Path, bytes: u64) -> Result<(), LabError> {
    peer::fio(&export(socket, bytes), "--rw=write --bs=1m --iodepth=4 --end_fsync=1").map(drop)
}

/// As many random writes as a sixteenth of the blocks, 32 at once.
fn writes_over_nbd(socket: &Path, bytes: u64, seed: u64) -> Result<f64, LabError> {
    let options =
        format!("--rw=randwrite --bs=4k --iodepth=32 --norandommap --randseed={seed} --io_size={}", bytes / 16);
    let report = peer::fio(&export(socket, bytes), &options)?;
    report["jobs"][0]["write"]["iops"].as_f64().ok_or_else(|| peer::fault("fio", "no rate in its report"))
}
