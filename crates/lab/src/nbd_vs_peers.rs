//! `nbd-vs-peers`: our NBD server on memory against nbdkit's memory plugin, and against qemu-nbd on a raw file in
//! tmpfs. The load is fio's own NBD client over a Unix socket: random 4 KiB reads and writes at depth 1 and 32.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use esker_base::units::MIB;

use esker_lab_kit::nbd_serving::{self, Rival, export};
use esker_lab_kit::{Figure, Lab, LabError, peer, scratch, serving::Serving, timing};

/// Bytes of each export; all of them are written before anything is measured.
const SIZE: u64 = 64 * MIB;

/// Settings of a rival that are tried; the best one under each load is what counts. Those of nbdkit that do not begin
/// with a dash are its plugin's. `--no-sr` is not among them: it takes abilities away (holes, block status) that we
/// serve.
const NBDKIT: &[&[&str]] =
    &[&["--threads=1"], &["--threads=4"], &["--threads=16"], &["--threads=1", "allocator=malloc"]];
const QEMU: &[&[&str]] = &[&["--aio=threads"], &["--aio=io_uring"], &["--aio=native", "--cache=none"]];

/// Random reads or writes, so many in flight.
#[derive(Clone, Copy)]
struct Load {
    rw: &'static str,
    depth: u32,
}

/// A rival, the word for it in names of figures, its settings, and the loads in which it is compared.
type Opponent = (&'static str, &'static str, &'static [&'static [&'static str]], &'static [Load]);

const LOADS: [Load; 4] = [
    Load { rw: "read", depth: 1 },
    Load { rw: "write", depth: 1 },
    Load { rw: "read", depth: 32 },
    Load { rw: "write", depth: 32 },
];
const OPPONENTS: [Opponent; 2] =
    [("nbdkit", "nbdkit", NBDKIT, &LOADS), ("qemu-nbd", "qemu", QEMU, LOADS.split_at(2).1)];

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let dir = lab.folder()?;
    let shm = scratch::folder(Path::new(scratch::TMPFS))?;
    let raw = shm.path().join("raw");
    let fault = LabError::scratch(&raw);
    std::fs::File::create_new(&raw).and_then(|file| file.set_len(SIZE)).map_err(fault)?;
    // The speed of a machine that others use changes within a second: many short pairs tell more than a few long ones.
    let (pairs, millis) = lab.scale((11, 250), (15, 2_000));
    let bench = Bench { lab, dir: dir.path(), raw: &raw, span: Duration::from_millis(millis) };
    let ours = dir.path().join("ours");
    let _serving = bench.ours(&ours)?;
    let mut figures = Vec::new();
    for (program, word, settings, loads) in OPPONENTS {
        for load in loads.iter().copied() {
            let Load { rw, depth } = load;
            let best = bench.best_setting(load, program, settings)?;
            let rival = bench.rival(program, best)?;
            let name = format!("{program} {}, {rw} at depth {depth}, requests per second", best.join(" "));
            let (ours, theirs) = (|| bench.rate(load, &ours), || bench.rate(load, &rival.socket));
            figures.push(timing::ratio(&format!("qd{depth}_{rw}_ratio_{word}"), name, pairs, ours, theirs, lab)?);
        }
    }
    Ok(figures)
}

struct Bench<'a, 'b> {
    lab: &'a Lab<'b>,
    dir: &'a Path,
    raw: &'a Path,
    span: Duration,
}

impl Bench<'_, '_> {
    fn best_setting<'s>(
        &self,
        load: Load,
        program: &str,
        settings: &[&'s [&'s str]],
    ) -> Result<&'s [&'s str], LabError> {
        let mut best: (f64, &[&str]) = (0.0, &[]);
        for setting in settings {
            let rival = self.rival(program, setting)?;
            let rate = self.rate(load, &rival.socket)?;
            self.lab.say(format!("{program} {}: {rate:.0} requests per second", setting.join(" ")));
            best = if rate > best.0 { (rate, setting) } else { best };
        }
        Ok(best.1)
    }

    /// Starts a rival whose content has been written.
    fn rival(&self, program: &str, setting: &[&str]) -> Result<Rival, LabError> {
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
        let serving = nbd_serving::ours(self.lab.seed, text, "vol", socket, &[])?;
        self.fill(socket)?;
        Ok(serving)
    }

    fn fill(&self, socket: &Path) -> Result<(), LabError> {
        peer::fio(&export(socket, SIZE), "--rw=write --bs=1m --iodepth=4").map(drop)
    }

    fn rate(&self, load: Load, socket: &Path) -> Result<f64, LabError> {
        let options = format!("--rw=rand{} --iodepth={} --bs=4k", load.rw, load.depth);
        peer::fio_rate(&export(socket, SIZE), &options, self.span, self.lab.seed, &[load.rw])
    }
}
