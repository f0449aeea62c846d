//! `fs-fuse`: what requests to our FUSE server take, against mergerfs.
//!
//! Both are mounted. Each call reaches its server: attributes are asked for anew, and what is read is not in the page
//! cache of the mount. Rounds alternate. mergerfs is measured in each of its settings; call by call, the one with the
//! best median over all rounds counts. The best of each round would be the luckiest of three draws beside one of ours.
//!
//! There are two comparisons. In the first, our files lie in the memory of the server, those of mergerfs in a tmpfs.
//! Where the kernel has FUSE over io_uring and it is switched on, a third mount takes its requests so, and is compared
//! with ours by `/dev/fuse`. In the second, both pass calls through to the same directory of the scratch folder: like
//! is compared with like, and the names of its figures begin with `host_`. Each round leaves that directory as it was,
//! because our mount does not notice what another changes in it. Each turn begins with the bytes below in memory, so
//! that no device is measured.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use esker_base::units::MIB;
use esker_front_fuse::{CacheMode, Transport};
use esker_rt::mem::Pool;
use rustix::fs::{Advice, AtFlags, Mode, OFlags, StatxFlags};

use crate::mounted::OwnMount;
use esker_lab_kit::scratch::TMPFS;
use esker_lab_kit::{Figure, Lab, LabError, peer, timing};

const FILES: usize = 64;
const PAGE: usize = 4096;
/// Bytes of the file that is read from front to back.
const LARGE: u64 = 64 * MIB;
/// Pages of it that are read at random.
const PAGES: usize = (LARGE / PAGE as u64) as usize;
const IDS: [&str; 4] =
    ["getattr_ratio_mergerfs", "read4k_ratio_mergerfs", "create_ratio_mergerfs", "seq_read_ratio_mergerfs"];
/// The same calls by io_uring, against ours by `/dev/fuse`.
const URING_IDS: [&str; 4] = [
    "uring_getattr_ratio_device",
    "uring_read4k_ratio_device",
    "uring_create_ratio_device",
    "uring_seq_read_ratio_device",
];
/// Settings of mergerfs, as `-o` takes them.
const SETTINGS: [&str; 3] = [
    "cache.files=off,category.create=ff",
    "cache.files=full,cache.attr=120,cache.entry=120,category.create=ff",
    "cache.files=auto-full,dropcacheonclose=true,category.create=ff",
];

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    peer::demand("mergerfs")?;
    Ok([in_memory(lab)?, passed_through(lab)?].concat())
}

fn in_memory(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let ours = OwnMount::of_ram(lab, CacheMode::Through, Transport::Device, 8 * LARGE)?;
    fill(ours.path())?;
    let tmpfs = |_| tempfile::Builder::new().prefix("esker-fs-fuse-").tempdir_in(TMPFS).map_err(fault);
    let below = SETTINGS.iter().map(tmpfs).collect::<Result<Vec<_>, _>>()?;
    below.iter().try_for_each(|below| fill(below.path()))?;
    let mounts = SETTINGS.into_iter().zip(&below).map(|(setting, below)| Mergerfs::new(lab, setting, below.path()));
    let rivals = mounts.collect::<Result<Vec<_>, _>>()?;
    let by_ring = OwnMount::of_ram(lab, CacheMode::Through, Transport::Uring, 8 * LARGE);
    let by_ring = by_ring.inspect_err(|error| lab.say(format!("no FUSE over io_uring: {error}"))).ok();
    by_ring.iter().try_for_each(|mount| fill(mount.path()))?;
    let measure = |at: &Path, calls| rates(at, calls, OFlags::DIRECT);
    let ours = (ours.path(), by_ring.as_ref().map(OwnMount::path));
    compare(lab, ("", &measure), ours, (&rivals, "mergerfs on tmpfs"))
}

fn passed_through(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let below = lab.folder()?;
    fill(below.path())?;
    let ours = OwnMount::of_directory(lab, CacheMode::Through, below.path())?;
    let mounts = SETTINGS.into_iter().map(|setting| Mergerfs::new(lab, setting, below.path()));
    let rivals = mounts.collect::<Result<Vec<_>, _>>()?;
    // Direct reads would pass the bytes in memory by, on one side of both. What is read once is in no cache of a mount.
    let measure = |at: &Path, calls| {
        std::io::copy(&mut File::open(below.path().join("large")).map_err(fault)?, &mut std::io::sink())
            .map_err(fault)?;
        rates(at, calls, OFlags::empty())
    };
    compare(lab, ("host_", &measure), (ours.path(), None), (&rivals, "mergerfs on the same directory"))
}

/// Measures calls of each kind on a mount.
type Measured<'a> = dyn Fn(&Path, usize) -> Result<[f64; 4], LabError> + 'a;

/// Figures whose names begin with `prefix`: our rates over the best ones of the rivals, and those of our mount by
/// io_uring, if there is one, over ours.
fn compare(
    lab: &Lab<'_>,
    (prefix, measure): (&str, &Measured<'_>),
    (ours, by_ring): (&Path, Option<&Path>),
    (rivals, name): (&[Mergerfs], &str),
) -> Result<Vec<Figure>, LabError> {
    let (rounds, calls) = lab.scale((9, 6_000), (15, 20_000));
    let (mut our_rates, mut ring_rates) = (Vec::new(), Vec::new());
    let mut their_rates = vec![Vec::new(); rivals.len()];
    for round in 1..=rounds {
        let our = measure(ours, calls)?;
        lab.say(format!("round {round} of {rounds}: {prefix}ours {our:.0?} a second"));
        our_rates.push(our);
        for (rival, rates) in rivals.iter().zip(&mut their_rates) {
            let found = measure(rival.at.path(), calls)?;
            lab.say(format!("{name} with {}: {found:.0?}", rival.setting));
            rates.push(found);
        }
        if let Some(at) = by_ring {
            ring_rates.push(measure(at, calls)?);
        }
    }
    let column = |rounds: &[[f64; 4]], at: usize| -> Vec<f64> { rounds.iter().map(|round| round[at]).collect() };
    let mut figures = Vec::new();
    for (at, id) in IDS.into_iter().enumerate() {
        let columns = their_rates.iter().map(|rates| column(rates, at));
        let best = columns.max_by(|a, b| timing::median(a.clone()).total_cmp(&timing::median(b.clone())));
        let best = best.expect("mergerfs has settings");
        let rival = format!("{name}, its best setting, calls or bytes per second");
        let id = format!("{prefix}{id}");
        figures.push(timing::over(id, &column(&our_rates, at), best, rival));
    }
    for (at, call) in ["getattr_us", "read4k_us"].into_iter().enumerate() {
        let time = 1e6 / timing::median(column(&our_rates, at));
        figures.push(Figure::alone(format!("{prefix}{call}"), time, "us"));
    }
    if by_ring.is_some() {
        for (at, id) in URING_IDS.into_iter().enumerate() {
            let rival = "ours by /dev/fuse, calls or bytes per second";
            figures.push(timing::over(id, &column(&ring_rates, at), column(&our_rates, at), rival));
        }
    }
    Ok(figures)
}

fn fault(error: impl ToString) -> LabError {
    peer::fault("a mount", error)
}

fn name(at: usize) -> String {
    format!("file{at}")
}

fn fill(at: &Path) -> Result<(), LabError> {
    (0..FILES).try_for_each(|nr| std::fs::write(at.join(name(nr)), [7; PAGE])).map_err(fault)?;
    std::fs::write(at.join("large"), vec![7; LARGE as usize]).map_err(fault)
}

/// Attributes, reads of 4 KiB, new files, and bytes of a long read, each per second.
fn rates(at: &Path, calls: usize, how: OFlags) -> Result<[f64; 4], LabError> {
    let folder = rustix::fs::open(at, OFlags::PATH, Mode::empty()).map_err(fault)?;
    let names = (0..FILES).map(name).collect::<Vec<_>>();
    let getattr = per_second(calls, |nr| {
        // Told to ask the server.
        let flags = AtFlags::STATX_FORCE_SYNC;
        rustix::fs::statx(&folder, &*names[nr % FILES], flags, StatxFlags::BASIC_STATS).map(drop)
    });
    let large = File::options().read(true).custom_flags(how.bits() as i32).open(at.join("large"));
    let (large, mut page) = (large.map_err(fault)?, Pool::default().slab(PAGE));
    [Advice::DontNeed, Advice::Random]
        .into_iter()
        .try_for_each(|advice| rustix::fs::fadvise(&large, 0, None, advice))
        .map_err(fault)?;
    let read = per_second(calls, |nr| {
        let place = (nr * 7_919 % PAGES * PAGE) as u64;
        rustix::io::pread(&large, &mut page[..PAGE], place).map(drop)
    });
    let new = (0..calls).map(|nr| format!("new{nr}")).collect::<Vec<_>>();
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
    let create =
        per_second(calls, |nr| rustix::fs::openat(&folder, &*new[nr], flags, Mode::from_raw_mode(0o644)).map(drop));
    new.iter().try_for_each(|name| rustix::fs::unlinkat(&folder, &**name, AtFlags::empty())).map_err(fault)?;
    Ok([getattr.map_err(fault)?, read.map_err(fault)?, create.map_err(fault)?, long_read(&at.join("large"))?])
}

fn per_second<E>(calls: usize, call: impl FnMut(usize) -> Result<(), E>) -> Result<f64, E> {
    let start = Instant::now();
    (0..calls).try_for_each(call)?;
    Ok(calls as f64 / start.elapsed().as_secs_f64())
}

/// Bytes per second of a file that is not in the page cache of its mount.
fn long_read(path: &Path) -> Result<f64, LabError> {
    let mut file = File::open(path).map_err(fault)?;
    rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).map_err(fault)?;
    let (mut piece, start) = (vec![0; MIB as usize], Instant::now());
    while file.read(&mut piece).map_err(fault)? > 0 {}
    Ok(LARGE as f64 / start.elapsed().as_secs_f64())
}

/// mergerfs on a folder. Dropping it takes it away.
struct Mergerfs {
    at: tempfile::TempDir,
    setting: &'static str,
}

impl Mergerfs {
    fn new(lab: &Lab<'_>, setting: &'static str, below: &Path) -> Result<Mergerfs, LabError> {
        let at = lab.folder()?;
        let (from, to) = (below.display().to_string(), at.path().display().to_string());
        // It goes into the background when it is mounted.
        peer::output("mergerfs", &["-o", setting, &from, &to])?;
        Ok(Mergerfs { at, setting })
    }
}

impl Drop for Mergerfs {
    fn drop(&mut self) {
        let _gone = Command::new("umount").arg("--lazy").arg(self.at.path()).status();
    }
}
