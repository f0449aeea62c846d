//! `anvil-snapshot`: random 4 KiB writes to a volume after snapshots of it, against the same volume without any,
//! against snapshots by copying before writing, against qcow2, and against the bare file below.
//!
//! The collector rests in all of it: with and without snapshots, less of the medium is in use than wakes it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;

use esker_base::units::{KIB, MIB};
use esker_block::Device;
use esker_rt::real::Reactor;
use esker_stack::{Export, Stack};

use crate::copy_on_write::{CopyOnWrite, TABLE};
use crate::random_writes::{self, BLOCK, Load};
use esker_lab_kit::nbd_serving::{self, Rival, export};
use esker_lab_kit::{Figure, Lab, LabError, peer, rig, scratch, timing, volume_load};

/// Bytes of each medium of ours.
const MEDIUM: u64 = 2048 * MIB;
const PARAMS: &str = "block=4096 segment=8MiB checkpoint_interval=512MiB";
const CHUNKS: [u64; 3] = [4 * KIB, 64 * KIB, 2 * MIB];
/// Depths that are tried; the best one of each side counts.
const DEPTHS: [u64; 3] = [1, 8, 32];
/// Blocks that are written between two snapshots.
const BURST: u64 = 8;
const QEMU: [&str; 3] = ["--aio=threads", "--aio=io_uring", "--aio=native"];

struct Bench<'a, 'b> {
    lab: &'a Lab<'b>,
    dir: PathBuf,
    reactor: Reactor,
    pairs: u32,
}

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let dir = lab.folder()?;
    let bench = Bench { lab, dir: dir.path().to_path_buf(), reactor: lab.reactor()?, pairs: lab.scale(7, 15) };
    let mut figures = bench.after_over_before()?;
    figures.extend(bench.over_copy_on_write()?);
    figures.push(bench.over_qcow2()?);
    figures.push(bench.over_file()?);
    Ok(figures)
}

impl Bench<'_, '_> {
    fn file(&self, name: &str, bytes: u64) -> Result<PathBuf, LabError> {
        let path = self.dir.join(name);
        scratch::zero_file(&path, bytes)?;
        Ok(path)
    }

    fn build(&self, text: &str) -> Result<Rc<Stack>, LabError> {
        rig::stack(&self.reactor.rt(), &rig::spec(text))
    }

    /// Thin volumes over a new medium.
    fn thin(&self, name: &str, ports: &str) -> Result<Thin, LabError> {
        let file = self.file(name, MEDIUM)?;
        let stack = self.build(&thin_text(&file, ports))?;
        Ok(Thin { device: rig::device(&stack, "vm.vol"), stack, file })
    }

    fn rate(&self, device: &Rc<dyn Device>, load: Load) -> Result<f64, LabError> {
        let (rt, device) = (self.reactor.rt(), device.clone());
        Ok(self.reactor.block_on(async move { random_writes::rate(&rt, &device, load).await })?)
    }

    fn fill(&self, device: &Rc<dyn Device>, bytes: u64) -> Result<(), LabError> {
        let device = device.clone();
        Ok(self.reactor.block_on(async move { random_writes::fill(&device, bytes).await })?)
    }

    fn order(&self, thin: &Thin, words: &[&str]) -> Result<(), LabError> {
        let (stack, words) = (thin.stack.clone(), words.iter().map(ToString::to_string).collect::<Vec<_>>());
        let done = self.reactor.block_on(async move { stack.order("vm", &words).await });
        done.map(drop).map_err(LabError::data)
    }

    /// Closes it and removes its medium: all of them together would fill a disk.
    fn remove(&self, thin: Thin) -> Result<(), LabError> {
        let Thin { device, stack, file } = thin;
        self.reactor.block_on(async move {
            stack.close().await;
            drop(device);
        });
        std::fs::remove_file(&file).map_err(LabError::scratch(&file))
    }

    /// The rate with 1, 100 and 1,000 snapshots over that without, with as much in use; the worst of the three.
    fn after_over_before(&self) -> Result<Vec<Figure>, LabError> {
        let bytes = self.lab.scale(16 * MIB, 64 * MIB);
        let mut worst: [Option<Figure>; 2] = [None, None];
        for snapshots in [1, 100, 1000] {
            let after = self.aged("after", bytes, snapshots, true)?;
            let before = self.aged("before", bytes, snapshots, false)?;
            for ((depth, writes), worst) in [(1, 2_000), (32, 16_000)].into_iter().zip(&mut worst) {
                let load = Load { bytes, depth, writes, seed: self.lab.seed };
                let id = format!("after_over_before_qd{depth}");
                let name = format!("the same without snapshots ({snapshots} of them are compared), depth {depth}");
                let rate = |volume: &Thin| self.rate(&volume.device, load);
                let (ours, theirs) = (|| rate(&after), || rate(&before));
                let figure = timing::ratio(&id, name + ", writes per second", self.pairs, ours, theirs, self.lab)?;
                self.lab.say(format!("{id} with {snapshots} snapshots: {:.3}", figure.value));
                if worst.as_ref().is_none_or(|worst| figure.value < worst.value) {
                    *worst = Some(figure);
                }
            }
            [after, before].into_iter().try_for_each(|volume| self.remove(volume))?;
        }
        Ok(worst.into_iter().flatten().collect())
    }

    /// A volume all of whose blocks were written in random order, and then as many more as snapshots keep: over the
    /// volume if there are snapshots, beside it if not, so that as much of the medium is live.
    fn aged(&self, name: &str, bytes: u64, snapshots: u64, has_them: bool) -> Result<Thin, LabError> {
        let thin = self.thin(name, &format!("vol={bytes},beside={bytes}"))?;
        let port = |name| thin.stack.device(name).expect("the experiment's own name");
        let (vol, beside) = (port("vm.vol"), port("vm.beside"));
        let blocks = bytes / BLOCK;
        self.scatter(&vol, 0, blocks, blocks)?;
        for number in 0..snapshots {
            if has_them {
                self.order(&thin, &["snapshot", "vol", &format!("s{number}")])?;
            }
            self.scatter(if has_them { &vol } else { &beside }, number * BURST, BURST, blocks)?;
        }
        Ok(thin)
    }

    /// Writes `count` of a volume's `blocks` blocks, from number `from` of an order without neighbours on.
    fn scatter(&self, vol: &Export, from: u64, count: u64, blocks: u64) -> Result<(), LabError> {
        let vol = vol.clone();
        // An odd step visits each of 2^n blocks once.
        let place = move |i: u64| (from + i) * 40_503 % blocks * BLOCK;
        Ok(self.reactor.block_on(async move { volume_load::write_all(&vol, BLOCK as usize, count, place).await })?)
    }

    /// Against copying before writing, in chunks of three sizes: the first writes after a snapshot.
    fn over_copy_on_write(&self) -> Result<[Figure; 2], LabError> {
        let bytes = self.lab.scale(128 * MIB, 512 * MIB);
        let ours = self.best_of_ours(bytes)?;
        let (origin, store) = (self.file("origin", bytes)?, self.file("store", bytes + TABLE as u64)?);
        let text = |name: &str, file: &Path| format!("{name} = file path={} direct=true", file.display());
        let stack = self.build(&format!("{}; {}", text("o", &origin), text("s", &store)))?;
        let (first, second) = (rig::device(&stack, "o"), rig::device(&stack, "s"));
        let mut best = Vec::new();
        for chunk in CHUNKS {
            let fresh =
                || -> Rc<dyn Device> { Rc::new(CopyOnWrite::new(stack.pool(), first.clone(), second.clone(), chunk)) };
            let (rate, depth) = self.best_rate(bytes, |load| self.rate(&fresh(), load))?;
            let name = format!("copy-on-write of {} KiB at its best depth, {depth}, writes per second", chunk / KIB);
            self.lab.say(format!("{rate:.0}: {name}; ours: {ours:.0}"));
            best.push((name, rate));
        }
        drop((first, second, stack));
        for file in [origin, store] {
            std::fs::remove_file(&file).map_err(LabError::scratch(&file))?;
        }
        let figure = |id, (name, rate): &(String, f64)| Figure::alone(id, ours / rate, "ratio").peer(name, *rate);
        let fastest = best.iter().max_by(|a, b| a.1.total_cmp(&b.1)).expect("there are chunks");
        let thesis = best.last().expect("there are chunks");
        Ok([figure("over_cow_2m", thesis).paper(7.0), figure("over_cow_best", fastest)])
    }

    fn best_of_ours(&self, bytes: u64) -> Result<f64, LabError> {
        let thin = self.thin("ours", &format!("vol={bytes}"))?;
        self.fill(&thin.device, bytes)?;
        let mut number = 0;
        let (rate, depth) = self.best_rate(bytes, |load| {
            number += 1;
            let name = format!("s{number}");
            self.order(&thin, &["snapshot", "vol", &name])?;
            let rate = self.rate(&thin.device, load)?;
            self.order(&thin, &["delete", &name])?;
            Ok(rate)
        })?;
        self.lab.say(format!("ours after a snapshot: {rate:.0} at depth {depth}"));
        self.remove(thin)?;
        Ok(rate)
    }

    /// The best median of a few runs over all depths, and that depth: as many writes as a sixteenth of the blocks,
    /// each run after a snapshot of its own.
    fn best_rate(
        &self,
        bytes: u64,
        mut rate: impl FnMut(Load) -> Result<f64, LabError>,
    ) -> Result<(f64, u64), LabError> {
        let (mut best, writes) = ((0.0, 0), bytes / BLOCK / 16);
        for depth in DEPTHS {
            let load = |run| Load { bytes, depth, writes, seed: self.lab.seed + u64::from(run) };
            let median = timing::median_of(3, |run| rate(load(run)))?;
            best = if median > best.0 { (median, depth) } else { best };
        }
        Ok(best)
    }

    /// Against qcow2 after an internal snapshot, both over NBD, without a cache of the kernel, unflushed, at depth 32.
    fn over_qcow2(&self) -> Result<Figure, LabError> {
        const SIZE: u64 = 128 * MIB;
        let file = self.file("served", MEDIUM)?;
        let (our_socket, image) = (self.dir.join("ours.sock"), self.dir.join("image.qcow2"));
        let path = image.display().to_string();
        peer::output("qemu-img", &["create", "-q", "-f", "qcow2", &path, &SIZE.to_string()])?;
        let seed = self.lab.seed;
        let serve = |words: &[&str]| {
            nbd_serving::ours(seed, thin_text(&file, &format!("vol={SIZE}")), "vm.vol", &our_socket, words)
        };
        let serving = serve(&[])?;
        fill_over_nbd(&our_socket, SIZE)?;
        drop(serving);
        let rival = self.qemu(QEMU[0], &image)?;
        fill_over_nbd(&rival.socket, SIZE)?;
        rival.end()?;
        let mut number = 0;
        let mut theirs = |aio: &str| {
            number += 1;
            peer::output("qemu-img", &["snapshot", "-c", &format!("s{number}"), &path])?;
            let rival = self.qemu(aio, &image)?;
            let rate = writes_over_nbd(&rival.socket, SIZE, seed + number)?;
            rival.end()?;
            Ok::<f64, LabError>(rate)
        };
        let [our_rate, rates @ ..]: [f64; 1 + QEMU.len()] = timing::medians_of(3, |run| {
            let run = u64::from(run) - 1;
            let serving = serve(&["snapshot", "vol", &format!("s{run}")])?;
            let ours = writes_over_nbd(&our_socket, SIZE, seed + run)?;
            drop(serving);
            let [threads, io_uring, native] = QEMU.map(&mut theirs);
            Ok([ours, threads?, io_uring?, native?])
        })?;
        let settings = QEMU.into_iter().zip(rates);
        let (aio, rate) = settings.max_by(|a, b| a.1.total_cmp(&b.1)).expect("there are settings");
        self.lab.say(format!("over NBD: {our_rate:.0} against {rate:.0} of qcow2 with {aio}"));
        let name = format!("qemu-nbd --cache=none {aio} on qcow2 after a snapshot, depth 32, writes per second");
        std::fs::remove_file(&file).map_err(LabError::scratch(&file))?;
        Ok(Figure::alone("over_qcow2", our_rate / rate, "ratio").peer(name, rate))
    }

    fn qemu(&self, aio: &str, image: &Path) -> Result<Rival, LabError> {
        let socket = self.dir.join("qemu.sock");
        let mut command = Command::new("qemu-nbd");
        command.args(["--persistent", "--format=qcow2", "--cache=none", aio, "--socket"]).arg(&socket).arg(image);
        Rival::start("qemu-nbd", &mut command, socket)
    }

    /// Against the `file` device that is below the volume.
    fn over_file(&self) -> Result<Figure, LabError> {
        const BYTES: u64 = 64 * MIB;
        let (file, bare) = (self.file("volume", MEDIUM)?, self.file("bare", MEDIUM)?);
        let device: Rc<dyn Device> = Rc::new(volume_load::open(&self.reactor, &file, MEDIUM, true, PARAMS)?);
        let stack = self.build(&format!("b = file path={} direct=true", bare.display()))?;
        let bare = rig::device(&stack, "b");
        self.fill(&device, BYTES)?;
        self.fill(&bare, BYTES)?;
        let load = Load { bytes: BYTES, depth: 32, writes: self.lab.scale(16_000, 64_000), seed: self.lab.seed };
        let name = "the bare file device, depth 32, writes per second".to_string();
        let (ours, theirs) = (|| self.rate(&device, load), || self.rate(&bare, load));
        timing::ratio("raw_write_ratio_qd32", name, self.pairs, ours, theirs, self.lab)
    }
}

/// Thin volumes over a medium; `device` is the port `vol`.
struct Thin {
    device: Rc<dyn Device>,
    stack: Rc<Stack>,
    file: PathBuf,
}

fn thin_text(file: &Path, ports: &str) -> String {
    format!("a = file path={} direct=true; vm = thin {PARAMS} ports=\"{ports}\" on a", file.display())
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
