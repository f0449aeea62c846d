//! `anvil-snapshot-large`: what snapshots of a large volume that was written at random cost, while the collector works.
//!
//! Two thin volumes over files. Both are written at random, block by block, so that each has an extent for every block.
//! *After* has 1,000 snapshots, and a few random writes between them; *before* has none, and as much live data beside
//! the volume. Both fill so much of their medium that segments are cleaned. While *after* gets its snapshots, a client
//! reads what is not mapped: the volume answers that at once, so the time between two answers is the time in which it
//! answers nothing.
//!
//! Beside each snapshot, two blocks of a plain file are overwritten and made durable by `fdatasync`: what the machine's
//! disk makes of one durable write, at its worst.
//!
//! `after_over_before`: random writes, each round of *after* behind a new snapshot, with the round before it deleted.

use std::cell::Cell;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Instant;

use esker_base::Stream;
use esker_base::units::{GIB, MIB};
use esker_block::{Bio, BioError, Buf, Device};
use esker_rt::real::Reactor;
use esker_stack::{Export, Stack};

use crate::random_writes::{self, BLOCK, Load};
use esker_lab_kit::{Figure, Lab, LabError, rig, scratch, timing, volume_load};

const PARAMS: &str = "block=4096 segment=8MiB checkpoint_interval=512MiB";
const SNAPSHOTS: u64 = 1_000;
/// Blocks that are written between two snapshots.
const BURST: u64 = 8;
/// Share of the medium that is live when both volumes are aged: cleaning begins at a half.
const LIVE: f64 = 0.6;
/// Between two reads of the client that looks for stalls.
const LOOK_US: u64 = 100;

/// One of both volumes.
struct Arm {
    stack: Rc<Stack>,
    vol: Export,
    beside: Export,
    /// Where both live.
    file: PathBuf,
    /// Blocks that were written to `beside`.
    kept: Cell<u64>,
    /// Rounds that were measured.
    rounds: Cell<u64>,
}

struct Bench<'a, 'b> {
    lab: &'a Lab<'b>,
    reactor: Reactor,
    /// Bytes of a volume, and how many of its blocks are written.
    bytes: u64,
    written: u64,
}

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let dir = lab.folder()?;
    let (bytes, written) = lab.scale((4 * GIB, 4 * GIB), (64 * GIB, 8 * GIB));
    let bench = Bench { lab, reactor: lab.reactor()?, bytes, written };
    let before = bench.aged(dir.path().join("before"))?;
    bench.settle(&before, SNAPSHOTS * BURST)?;
    let after = bench.aged(dir.path().join("after"))?;
    let mut figures = bench.snapshots(&after)?;
    for (depth, writes) in [(1, 2_000), (32, 16_000)] {
        figures.push(bench.after_over_before(&after, &before, depth, writes)?);
    }
    figures.extend(bench.changes(&after)?);
    for arm in [before, after] {
        let (moved, used) = (stat_of(&arm, "moved_bytes") / MIB as f64, stat_of(&arm, "used_ratio"));
        lab.say(format!("{}: {moved:.0} MiB were moved, {used:.2} of the medium is used", arm.file.display()));
        bench.reactor.block_on(async move { arm.stack.close().await });
    }
    Ok(figures)
}

/// A plain file in which two blocks are made durable.
struct Control {
    file: File,
    path: PathBuf,
}

impl Control {
    fn new(path: &Path) -> Result<Control, LabError> {
        let written = File::create(path).and_then(|file| file.write_all_at(&[1; 2 * BLOCK as usize], 0).map(|()| file));
        Ok(Control { file: written.map_err(LabError::scratch(path))?, path: path.to_path_buf() })
    }

    /// Seconds that it takes.
    fn seconds(&self) -> Result<f64, LabError> {
        let start = Instant::now();
        let done = self.file.write_all_at(&[2; 2 * BLOCK as usize], 0).and_then(|()| self.file.sync_data());
        done.map_err(LabError::scratch(&self.path))?;
        Ok(start.elapsed().as_secs_f64())
    }
}

/// A number that the volumes of an arm tell about themselves.
fn stat_of(arm: &Arm, name: &str) -> f64 {
    let parts = arm.stack.stats();
    let part = parts.iter().find(|part| part.kind == "thin").expect("the stack has one");
    part.stats.iter().find(|stat| stat.name == name).map_or(f64::NAN, |stat| stat.value)
}

/// Resident memory of this process, in KiB.
fn resident_kib() -> Result<f64, LabError> {
    let path = "/proc/self/statm";
    let text = std::fs::read_to_string(path).map_err(LabError::scratch(&path))?;
    let pages: f64 = text.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(f64::NAN);
    Ok(pages * 4.0)
}

fn millis(seconds: f64) -> f64 {
    seconds * 1e3
}

impl Bench<'_, '_> {
    /// A volume with `written` bytes at random places, and an empty one beside it.
    fn aged(&self, file: PathBuf) -> Result<Arm, LabError> {
        let medium = (self.written as f64 / LIVE) as u64 / (8 * MIB) * (8 * MIB);
        scratch::zero_file(&file, medium)?;
        let (path, bytes) = (file.display(), self.bytes);
        let text =
            format!("a = file path={path} direct=true; vm = thin {PARAMS} ports=\"vol={bytes},beside={bytes}\" on a");
        let stack = rig::stack(&self.reactor.rt(), &rig::spec(&text))?;
        let port = |name| stack.device(name).expect("the experiment's own name");
        let (vol, beside) = (port("vm.vol"), port("vm.beside"));
        let arm = Arm { vol, beside, stack, file, kept: Cell::new(0), rounds: Cell::new(0) };
        self.scatter(&arm.vol, 0, self.written / BLOCK)?;
        self.lab.say(format!("{}: {:.0} extents", arm.file.display(), stat_of(&arm, "mappings")));
        Ok(arm)
    }

    /// Writes `count` blocks from number `from` of an order without neighbours on.
    fn scatter(&self, vol: &Export, from: u64, count: u64) -> Result<(), LabError> {
        let (vol, blocks) = (vol.clone(), self.bytes / BLOCK);
        // An odd step visits each of 2^n blocks once.
        let place = move |i: u64| (from + i) * 40_503 % blocks * BLOCK;
        Ok(self.reactor.block_on(async move { volume_load::write_all(&vol, BLOCK as usize, count, place).await })?)
    }

    /// Makes as many blocks live beside the volume as snapshots keep in the other arm.
    fn settle(&self, arm: &Arm, blocks: u64) -> Result<(), LabError> {
        let from = arm.kept.replace(arm.kept.get() + blocks);
        self.scatter(&arm.beside, from, blocks)
    }

    /// Seconds that an order takes.
    fn order(&self, arm: &Arm, words: &[&str]) -> Result<f64, LabError> {
        let (stack, words) = (arm.stack.clone(), words.iter().map(ToString::to_string).collect::<Vec<_>>());
        let start = Instant::now();
        self.reactor.block_on(async move { stack.order("vm", &words).await }).map_err(LabError::data)?;
        Ok(start.elapsed().as_secs_f64())
    }

    /// Takes all snapshots, with writes in between.
    fn snapshots(&self, arm: &Arm) -> Result<Vec<Figure>, LabError> {
        let memory = resident_kib()?;
        let control = Control::new(&arm.file.with_extension("control"))?;
        let (mut taken, mut stalls, mut controls) = (Vec::new(), Vec::new(), Vec::new());
        for number in 0..SNAPSHOTS {
            let name = format!("s{number}");
            let (seconds, stall) = self.watched(arm, &["snapshot", "vol", &name])?;
            taken.push(seconds);
            stalls.push(stall);
            controls.push(control.seconds()?);
            self.scatter(&arm.vol, number * BURST, BURST)?;
        }
        let per = (resident_kib()? - memory) / SNAPSHOTS as f64;
        self.lab.say(format!("snapshots: median {:.3} ms", millis(timing::median(taken.clone()))));
        Ok(vec![
            Figure::alone("snapshot_ms_worst", millis(timing::worst(&taken)), "ms")
                .peer("write and fdatasync of a file, worst", millis(timing::worst(&controls))),
            Figure::alone("snapshot_ms", millis(timing::median(taken)), "ms")
                .peer("write and fdatasync of a file", millis(timing::median(controls))),
            Figure::alone("stall_ms_worst", millis(timing::worst(&stalls)), "ms"),
            Figure::alone("memory_kib_per_snapshot", per, "KiB"),
        ])
    }

    /// Seconds that an order takes, and the longest time in which the volume answered nothing meanwhile.
    fn watched(&self, arm: &Arm, words: &[&str]) -> Result<(f64, f64), LabError> {
        let (stack, beside) = (arm.stack.clone(), arm.beside.clone());
        let words: Vec<String> = words.iter().map(ToString::to_string).collect();
        let (done, hole) = (Rc::new(Cell::new(false)), self.bytes - BLOCK);
        let ended = done.clone();
        let work = async move {
            let rt = stack.rt().clone();
            let look = rt.spawn("look", async move {
                let (mut worst, rt) = (0.0_f64, beside.stack().rt().clone());
                while !ended.get() {
                    let start = Instant::now();
                    rt.sleep(esker_base::Nanos::micros(LOOK_US)).await;
                    let buf = Buf::unique(beside.stack().pool(), BLOCK as usize);
                    beside.submit(Bio::read(hole, buf)).await.result?;
                    worst = worst.max(start.elapsed().as_secs_f64() - LOOK_US as f64 * 1e-6);
                }
                Ok::<f64, BioError>(worst)
            });
            rt.yield_now().await;
            let start = Instant::now();
            let ordered = stack.order("vm", &words).await;
            let seconds = start.elapsed().as_secs_f64();
            done.set(true);
            (ordered, seconds, look.await)
        };
        let (ordered, seconds, stall) = self.reactor.block_on(work);
        ordered.map_err(LabError::data)?;
        Ok((seconds, stall?))
    }

    /// The rate behind a snapshot over that without any, with as much in use.
    fn after_over_before(&self, after: &Arm, before: &Arm, depth: u64, writes: u64) -> Result<Figure, LabError> {
        let rate = |arm: &Arm| {
            let round = arm.rounds.replace(arm.rounds.get() + 1);
            let load = Load { bytes: self.bytes, depth, writes, seed: self.lab.seed + round };
            let (rt, device): (_, Rc<dyn Device>) = (self.reactor.rt(), Rc::new(arm.vol.clone()));
            let rate = self.reactor.block_on(async move { random_writes::rate(&rt, &device, load).await })?;
            Ok::<(u64, f64), LabError>((round, rate))
        };
        let ours = || {
            let number = after.rounds.get();
            self.order(after, &["snapshot", "vol", &format!("r{number}")])?;
            if number > 0 {
                self.order(after, &["delete", &format!("r{}", number - 1)])?;
            }
            rate(after).map(|(_, rate)| rate)
        };
        let theirs = || {
            let (_, rate) = rate(before)?;
            // What the snapshots keep of these writes.
            self.settle(before, writes)?;
            Ok(rate)
        };
        let id = format!("after_over_before_qd{depth}");
        let name = format!("the same without snapshots, depth {depth}, writes per second");
        timing::ratio(&id, name, self.lab.scale(5, 11), ours, theirs, self.lab)
    }

    /// Roll back, clone, and deletion of a tenth of the snapshots.
    fn changes(&self, arm: &Arm) -> Result<Vec<Figure>, LabError> {
        let mut random = Stream::named(self.lab.seed, "snapshots");
        let mut name = move || format!("s{}", 100 + random.below(SNAPSHOTS - 100));
        let rolled = timing::median_of(5, |_| self.order(arm, &["rollback", "vol", &name(), "force"]))?;
        let cloned = timing::median_of(5, |number| self.order(arm, &["clone", "s500", &format!("c{number}")]))?;
        let mut deleted = Vec::new();
        for number in 0..SNAPSHOTS / 10 {
            deleted.push(self.watched(arm, &["delete", &format!("s{number}")])?);
        }
        let (taken, stalls): (Vec<f64>, Vec<f64>) = deleted.into_iter().unzip();
        Ok(vec![
            Figure::alone("rollback_ms", millis(rolled), "ms"),
            Figure::alone("clone_ms", millis(cloned), "ms"),
            Figure::alone("delete_ms_worst", millis(timing::worst(&taken)), "ms"),
            Figure::alone("delete_stall_ms_worst", millis(timing::worst(&stalls)), "ms"),
        ])
    }
}
