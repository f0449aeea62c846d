//! `fs-calls`: what calls on a file system of ours take in the process itself, against the kernel's tmpfs.
//!
//! A process of `fs-posix` on `ram`, and this process on a tmpfs, make the same calls on the same tree in turns, round
//! by round. A ratio is our rate over tmpfs's. Allocations are counted under callgrind: those of many calls less those
//! of few.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::time::Instant;

use esker_base::Errno;
use esker_base::units::MIB;
use esker_front_fuse::{CacheMode, Transport};
use esker_fs_posix::script::at_once;
use esker_fs_posix::{Follow, OpenFlags, Process, Settings, World};
use esker_rt::mem::Pool;
use esker_vfs::{Cred, Ram, RamConfig, Stamp};
use rustix::fs::{Mode, OFlags};

use crate::data_path::profile::Profile;
use crate::mounted::OwnMount;
use esker_lab_kit::scratch::TMPFS;
use esker_lab_kit::{Figure, Lab, LabError, peer, timing};

/// What makes this program count its own hits: the word, and a number of calls.
pub(crate) const WORD: &str = "--fs-calls-hits";
/// Number of a tmpfs in `statfs`.
const TMPFS_MAGIC: u64 = 0x0102_1994;
/// Files of the tree.
const FILES: usize = 64;
const PAGE: usize = 4096;
/// Bytes of a file.
const BYTES: usize = 16 * PAGE;

/// The calls, in the order of a round.
const CALLS: [&str; 4] = ["stat", "open_close", "read4k", "create"];

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let (rounds, calls) = lab.scale((9, 20_000), (31, 50_000));
    let tmpfs = Tmpfs::new()?;
    let ours = Ours::new();
    let (mut our_ns, mut their_ns) = (Vec::new(), Vec::new());
    for round in 1..=rounds {
        our_ns.push(ours.round(calls)?);
        their_ns.push(tmpfs.round(calls)?);
        let (our, their) = (our_ns[round - 1], their_ns[round - 1]);
        lab.say(format!("round {round} of {rounds}: ram {our:.0?} ns, tmpfs {their:.0?} ns ({CALLS:?})"));
    }
    let column = |rounds: &[[f64; 4]], at: usize| -> Vec<f64> { rounds.iter().map(|round| round[at]).collect() };
    let mut figures = Vec::new();
    for (at, call) in CALLS.into_iter().enumerate() {
        let (our, their) = (column(&our_ns, at), column(&their_ns, at));
        let (unit, scale, suffix) = if call == "create" { ("us", 1e3, "us") } else { ("ns", 1.0, "ns") };
        let of = |values: &[f64]| timing::median(values.to_vec()) / scale;
        figures.push(Figure::alone(format!("{call}_{suffix}_ram_process"), of(&our), unit));
        figures.push(Figure::alone(format!("{call}_{suffix}_tmpfs_kernel"), of(&their), unit));
        let rates = |values: &[f64]| values.iter().map(|ns| 1e9 / ns).collect::<Vec<f64>>();
        figures.push(timing::over(
            format!("{call}_ratio_tmpfs"),
            &rates(&our),
            rates(&their),
            "tmpfs through the kernel, calls per second",
        ));
    }
    figures.push(Figure::alone("allocations_per_hit", allocations(lab)?, "allocations a call"));
    figures.extend(requests(lab)?);
    Ok(figures)
}

/// Requests that a warm call on a mount costs, with the cache that it has by default.
fn requests(lab: &Lab<'_>) -> Result<[Figure; 3], LabError> {
    const TIMES: u32 = 100;
    let fault = |error: std::io::Error| peer::fault("a mount", error);
    let mount = OwnMount::of_ram(lab, CacheMode::Through, Transport::Device, 64 * MIB)?;
    let path = mount.path().join("file");
    std::fs::write(&path, [7; BYTES]).map_err(fault)?;
    let mut file = File::options().append(true).open(&path).map_err(fault)?;
    let per_call = |id: &str, call: &mut dyn FnMut() -> std::io::Result<()>| -> Result<Figure, LabError> {
        call().map_err(fault)?;
        let before = mount.requests()?;
        (0..TIMES).try_for_each(|_| call()).map_err(fault)?;
        let each = (mount.requests()? - before) as f64 / f64::from(TIMES);
        Ok(Figure::alone(id, each, "requests a call"))
    };
    let stat = per_call("fuse_requests_per_stat", &mut || std::fs::metadata(&path).map(drop))?;
    let open = per_call("fuse_requests_per_open", &mut || File::open(&path).map(drop))?;
    let write = per_call("fuse_requests_per_write", &mut || file.write_all(&[8; PAGE]))?;
    Ok([stat, open, write])
}

fn name(at: usize) -> String {
    format!("tree/below/file{at}")
}

/// The process on `ram`.
struct Ours {
    process: Process,
    paths: Vec<String>,
}

/// What a call on the file system of ours refused, as a fault of the run.
fn ours(error: Errno) -> LabError {
    LabError::data(format!("a call on ram failed: {error}"))
}

impl Ours {
    fn new() -> Ours {
        let ram = Ram::new(RamConfig::sized(1 << 30), Pool::default());
        let start = Instant::now();
        let clock = move || Stamp(start.elapsed().as_nanos() as i64);
        let process = World::new(Rc::new(ram), Settings::usual(), clock).process(Cred::root());
        let paths: Vec<String> = (0..FILES).map(|at| format!("/{}", name(at))).collect();
        let made = async {
            process.mkdir("/tree", 0o755).await?;
            process.mkdir("/tree/below", 0o755).await?;
            for path in &paths {
                let fd = process.open(&**path, OpenFlags::RDWR | OpenFlags::CREAT, 0o644).await?;
                process.write(fd, &[7; BYTES]).await?;
                process.close(fd).await?;
            }
            Ok::<_, Errno>(())
        };
        at_once(made).expect("an empty file system in memory takes a small tree");
        Ours { process, paths }
    }

    /// Nanoseconds of each call.
    fn round(&self, calls: usize) -> Result<[f64; 4], LabError> {
        let (process, path) = (&self.process, |at: usize| &*self.paths[at % FILES]);
        let stat = each(calls, |at| at_once(process.stat(path(at), Follow::Links)).map(drop)).map_err(ours)?;
        let open = each(calls, |at| {
            let fd = at_once(process.open(path(at), OpenFlags::RDONLY, 0))?;
            at_once(process.close(fd))
        })
        .map_err(ours)?;
        let fd = at_once(process.open(path(0), OpenFlags::RDONLY, 0)).map_err(ours)?;
        let mut page = [0; PAGE];
        let read = each(calls, |at| at_once(process.pread(fd, &mut page, place(at))).map(drop)).map_err(ours)?;
        at_once(process.close(fd)).map_err(ours)?;
        let new: Vec<String> = (0..calls).map(|at| format!("/tree/new{at}")).collect();
        let create = each(calls, |at| {
            let fd = at_once(process.open(&*new[at], OpenFlags::WRONLY | OpenFlags::CREAT, 0o644))?;
            at_once(process.close(fd))
        })
        .map_err(ours)?;
        new.iter().try_for_each(|path| at_once(process.unlink(&**path))).map_err(ours)?;
        Ok([stat, open, read, create])
    }
}

fn place(at: usize) -> i64 {
    (at * PAGE % BYTES) as i64
}

/// Nanoseconds of one of so many calls.
fn each<E>(calls: usize, mut call: impl FnMut(usize) -> Result<(), E>) -> Result<f64, E> {
    let start = Instant::now();
    (0..calls).try_for_each(&mut call)?;
    Ok(start.elapsed().as_nanos() as f64 / calls as f64)
}

/// The same tree on a tmpfs.
struct Tmpfs {
    folder: tempfile::TempDir,
    paths: Vec<PathBuf>,
}

impl Tmpfs {
    fn new() -> Result<Tmpfs, LabError> {
        let fault = |error: std::io::Error| peer::fault("tmpfs", error);
        let is_tmpfs = rustix::fs::statfs(TMPFS).is_ok_and(|stat| stat.f_type as u64 == TMPFS_MAGIC);
        if !is_tmpfs {
            return Err(peer::fault("tmpfs", format!("{TMPFS} is none; mount one there")));
        }
        let folder = tempfile::Builder::new().prefix("esker-fs-calls-").tempdir_in(TMPFS).map_err(fault)?;
        std::fs::create_dir_all(folder.path().join("tree/below")).map_err(fault)?;
        let paths: Vec<PathBuf> = (0..FILES).map(|at| folder.path().join(name(at))).collect();
        paths.iter().try_for_each(|path| std::fs::write(path, [7; BYTES])).map_err(fault)?;
        Ok(Tmpfs { folder, paths })
    }

    fn round(&self, calls: usize) -> Result<[f64; 4], LabError> {
        let fault = |error: rustix::io::Errno| peer::fault("tmpfs", error);
        let root = rustix::fs::open(self.folder.path(), OFlags::PATH, Mode::empty()).map_err(fault)?;
        // Relative names, as short as ours, and without a copy for each call.
        let names: Vec<std::ffi::CString> = (0..FILES).map(|at| c_name(&name(at))).collect();
        let path = |at: usize| &*names[at % FILES];
        let stat = each(calls, |at| rustix::fs::statat(&root, path(at), rustix::fs::AtFlags::empty()).map(drop));
        let open = each(calls, |at| rustix::fs::openat(&root, path(at), OFlags::RDONLY, Mode::empty()).map(drop));
        let file = rustix::fs::open(&*self.paths[0], OFlags::RDONLY, Mode::empty()).map_err(fault)?;
        let mut page = [0; PAGE];
        let read = each(calls, |at| rustix::io::pread(&file, &mut page, place(at) as u64).map(drop));
        let new: Vec<std::ffi::CString> = (0..calls).map(|at| c_name(&format!("tree/new{at}"))).collect();
        let (flags, mode) = (OFlags::WRONLY | OFlags::CREATE, Mode::from_raw_mode(0o644));
        let create = each(calls, |at| rustix::fs::openat(&root, &*new[at], flags, mode).map(drop));
        let removed =
            new.iter().try_for_each(|path| rustix::fs::unlinkat(&root, &**path, rustix::fs::AtFlags::empty()));
        removed.map_err(fault)?;
        let all = [stat, open, read, create].map(|ns| ns.map_err(fault));
        let [stat, open, read, create] = all;
        Ok([stat?, open?, read?, create?])
    }
}

fn c_name(name: &str) -> std::ffi::CString {
    std::ffi::CString::new(name).expect("a name without zero bytes")
}

/// Allocations of one hit: `stat`, `open` and `close`, or a read of 4 KiB.
fn allocations(lab: &Lab<'_>) -> Result<f64, LabError> {
    let folder = lab.folder()?;
    let [few, many] = [2_000, 12_000];
    let count = |calls: u64| profile(folder.path(), calls).map(|profile| profile.allocations.values().sum::<u64>());
    Ok((count(many)? as f64 - count(few)? as f64) / (3 * (many - few)) as f64)
}

/// The profile of this program with so many calls of each kind.
fn profile(folder: &Path, calls: u64) -> Result<Profile, LabError> {
    let fault = |what: String| peer::fault("valgrind", what);
    let own = std::env::current_exe().map_err(|error| fault(error.to_string()))?;
    let out = folder.join("profile");
    let run = Command::new("valgrind")
        .args(["--tool=callgrind", "--separate-callers12=malloc", "--separate-callers12=realloc"])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(own)
        .args([WORD, &calls.to_string()])
        .output()
        .map_err(|error| fault(error.to_string()))?;
    if !run.status.success() {
        return Err(fault(String::from_utf8_lossy(&run.stderr).into_owned()));
    }
    let told = std::fs::read_to_string(&out).map_err(|error| fault(error.to_string()))?;
    Profile::parse(&told).map_err(fault)
}

/// Makes so many hits of each kind, if the numbers behind the word say how many.
pub(crate) fn pass(numbers: &[usize]) -> bool {
    let [calls] = numbers else { return false };
    let Ours { process, paths } = Ours::new();
    let hits = async {
        let fd = process.open(&*paths[0], OpenFlags::RDONLY, 0).await?;
        let mut page = [0; PAGE];
        for at in 0..*calls {
            let path = &*paths[at % FILES];
            process.stat(path, Follow::Links).await?;
            let other = process.open(path, OpenFlags::RDONLY, 0).await?;
            process.close(other).await?;
            process.pread(fd, &mut page, place(at)).await?;
        }
        Ok::<_, Errno>(())
    };
    at_once(hits).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_on_both_sides_tells_a_time_for_each_call() {
        let sides = [Ours::new().round(10), Tmpfs::new().and_then(|tmpfs| tmpfs.round(10))];
        for side in sides {
            assert!(side.unwrap().iter().all(|ns| *ns > 0.0));
        }
    }

    #[test]
    fn hits_are_made_if_a_number_says_how_many() {
        assert_eq!([pass(&[3]), pass(&[]), pass(&[1, 2])], [true, false, false]);
    }
}
