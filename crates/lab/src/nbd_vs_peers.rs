//! `nbd-vs-peers`: our NBD server on memory against nbdkit's memory plugin, and against qemu-nbd on a raw file in
//! tmpfs. The load is fio's own NBD client over a Unix socket: random 4 KiB reads and writes at depth 1 and 32.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use esker_base::units::MIB;

use esker_lab_kit::{
    Experiment, Figure, LabError, Options,
    nbd_serving::{self, Rival, export},
    peer, scratch,
    serving::Serving,
    timing,
};

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
/// Where a raw file costs no device time.
const TMPFS: &str = "/dev/shm";

/// Settings of a rival that are tried; the best one under each load is what counts. Those of nbdkit that do not begin
/// with a dash are its plugin's. `--no-sr` is not among them: it takes abilities away (holes, block status) that we
/// serve.
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
    let dir = scratch::folder(&options.scratch)?;
    let shm = scratch::folder(Path::new(TMPFS))?;
    let raw = shm.path().join("raw");
    let fault = LabError::scratch(&raw);
    std::fs::File::create_new(&raw).and_then(|file| file.set_len(SIZE)).map_err(fault)?;
    // The speed of a machine that others use changes within a second: many short pairs tell more than a few long ones.
    let (pairs, millis) = if options.quick { (11, 250) } else { (15, 2_000) };
    let span = Duration::from_millis(millis);
    let bench = Bench { dir: dir.path(), raw: &raw, pairs, span, seed: options.seed };
    let ours = dir.path().join("ours");
    let _serving = bench.ours(&ours)?;
    let mut figures = Vec::new();
    let nbdkit = [
        ("qd1_read_ratio_nbdkit", QD1_READ),
        ("qd1_write_ratio_nbdkit", QD1_WRITE),
        ("qd32_read_ratio_nbdkit", QD32_READ),
        ("qd32_write_ratio_nbdkit", QD32_WRITE),
    ];
    for (id, load) in nbdkit {
        figures.push(bench.compare(id, load, &ours, "nbdkit", NBDKIT, progress)?);
    }
    for (id, load) in [("qd32_read_ratio_qemu", QD32_READ), ("qd32_write_ratio_qemu", QD32_WRITE)] {
        figures.push(bench.compare(id, load, &ours, "qemu-nbd", QEMU, progress)?);
    }
    Ok(figures)
}

struct Bench<'a> {
    dir: &'a Path,
    raw: &'a Path,
    pairs: u32,
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
        let name = format!("{program} {}, {} at depth {}, requests per second", best.join(" "), load.rw, load.depth);
        let theirs = || self.rate(load, &rival.socket);
        timing::ratio(id, name, self.pairs, || self.rate(load, ours), theirs, progress)
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
        let rival = Rival::start(program, &mut command, socket)?;
        self.fill(&rival.socket)?;
        Ok(rival)
    }

    /// Our server at `socket`, whose content has been written.
    fn ours(&self, socket: &Path) -> Result<Serving, LabError> {
        let text = format!("vol = memory size={SIZE}");
        let serving = nbd_serving::ours(self.seed, text, "vol", socket, &[])?;
        self.fill(socket)?;
        Ok(serving)
    }

    fn fill(&self, socket: &Path) -> Result<(), LabError> {
        peer::fio(&export(socket, SIZE), "--rw=write --bs=1m --iodepth=4").map(drop)
    }

    fn rate(&self, load: Load, socket: &Path) -> Result<f64, LabError> {
        let options = format!("--rw=rand{} --iodepth={} --bs=4k", load.rw, load.depth);
        peer::fio_rate(&export(socket, SIZE), &options, self.span, self.seed, &[load.rw])
    }
}
