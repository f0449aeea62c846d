//! `tier-live`: the kind `tier` over three files as `esker attach` serves it, under fio. Slow requests on ext4 while
//! extents move stand against the same with nothing moving. Random reads of extents on the fast end stand against the
//! fast file attached alone, and requests to a tier at rest against the same files joined by `concat`.
//!
//! The files lie on one disk, so that no end is faster than another, and moves take time of the disk that clients use.
//! Ratios tell what the layer costs, not what tiering gains. This kernel has no device mapper: `concat` stands where
//! `dm-linear` would.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use esker_base::units::MIB;

use esker_lab_kit::attach_process::AttachProcess;
use esker_lab_kit::{Figure, Lab, LabError, peer, scratch, timing};

/// The ends: names and bytes. The volume fits the second one, and the third.
const ENDS: [(&str, u64); 3] = [("fast", 160 * MIB), ("mid", 520 * MIB), ("slow", 520 * MIB)];
const SIZE: u64 = 480 * MIB;
/// Bytes of fio's file on ext4.
const FILE: u64 = 128 * MIB;
/// What is read of the fast end; all of it lies there.
const HOT: u64 = 128 * MIB;
const PAIRS: u32 = 5;
/// Between two looks at whether extents still move.
const PAUSE: Duration = Duration::from_millis(100);
const TIER: &str = "kind = \"tier\"\ndevices = \"ssd; sas; sata\"\nplan = \"none\"\nsize = \"480MiB\"\n";
const CONCAT: &str = "kind = \"concat\"\n";

/// The stack text of these files under one layer.
fn over_files(layer: &str) -> String {
    let file = |(name, _): (&str, u64)| format!("[device.{name}]\nkind = \"file\"\npath = 'FOLDER/{name}'\n");
    let files: String = ENDS.map(file).concat();
    let on = ENDS.map(|(name, _)| format!("\"{name}\"")).join(", ");
    format!("{files}[device.vol]\n{layer}on = [{on}]\n{EXPORT}")
}

const EXPORT: &str = "[[export]]\nname = \"vol\"\ndevice = \"vol\"\n";

fn alone() -> String {
    format!("[device.vol]\nkind = \"file\"\npath = 'FOLDER/fast'\n{EXPORT}")
}

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let [tier, concat, bare] = [lab.folder()?, lab.folder()?, lab.folder()?];
    for (name, bytes) in ENDS {
        scratch::zero_file(&tier.path().join(name), bytes)?;
        scratch::zero_file(&concat.path().join(name), bytes)?;
    }
    scratch::random_file(&bare.path().join("fast"), ENDS[0].1, lab.seed)?;
    let ours = AttachProcess::start(tier.path(), &over_files(TIER))?;
    let joined = AttachProcess::start(concat.path(), &over_files(CONCAT))?;
    let fast = AttachProcess::start(bare.path(), &alone())?;
    for served in [&ours, &joined] {
        fill(served.device(), SIZE)?;
    }
    let hit = hits(&ours, &fast, lab)?;
    fast.stop()?;
    let rest = at_rest(&ours, &joined, lab)?;
    joined.stop()?;
    let moving = moving(&ours, lab)?;
    ours.stop()?;
    Ok([moving, vec![hit], rest].concat())
}

/// Writes the first bytes of a device, so that no read of them is one of a hole.
fn fill(device: &Path, bytes: u64) -> Result<(), LabError> {
    let place = [format!("--filename={}", device.display()), format!("--size={bytes}")];
    peer::fio(&place, "--rw=write --bs=1m --direct=1 --end_fsync=1 --refill_buffers").map(drop)
}

/// Random reads of 4 KiB at depth 32 of extents on the fast end.
fn hits(ours: &AttachProcess, fast: &AttachProcess, lab: &Lab<'_>) -> Result<Figure, LabError> {
    let span = Duration::from_secs(lab.scale(3, 10));
    let rate = |served: &AttachProcess| peer::fio_random((served.device(), HOT), "randread", 32, span, lab.seed);
    let rival = "the fast file attached alone, reads per second".to_string();
    timing::ratio("hit_over_bare", rival, PAIRS, || rate(ours), || rate(fast), lab)
}

/// Random reads and writes of 4 KiB over the whole volume, half of each.
fn at_rest(ours: &AttachProcess, joined: &AttachProcess, lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let span = Duration::from_secs(lab.scale(2, 8));
    let compare = |(id, depth)| {
        let rate = |served: &AttachProcess| peer::fio_random((served.device(), SIZE), "randrw", depth, span, lab.seed);
        let rival = format!("the same files joined by concat, depth {depth}, requests per second");
        timing::ratio(id, rival, PAIRS, || rate(ours), || rate(joined), lab)
    };
    [("qd1_rate_over_concat", 1), ("qd32_rate_over_concat", 32)].into_iter().map(compare).collect()
}

/// ext4 on the tier; unmounted when dropped.
struct Mount(PathBuf);

impl Mount {
    fn new(device: &Path, at: PathBuf) -> Result<Mount, LabError> {
        const MAKE: [&str; 4] = ["-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"];
        let device = device.display().to_string();
        peer::output("mkfs.ext4", &[&MAKE[..], &[device.as_str()]].concat())?;
        fs::create_dir(&at).map_err(LabError::scratch(&at))?;
        peer::output("mount", &["-o", "noatime", &device, &at.display().to_string()])?;
        Ok(Mount(at))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // A mount that stays is seen when the server stops.
        let _unmounted = peer::output("umount", &[&self.0]);
    }
}

/// What fio met in one round: its 99th percentile in nanoseconds, and its requests per second.
#[derive(Clone, Copy)]
struct Met {
    p99: f64,
    rate: f64,
}

/// Rounds of fio on ext4 with and without moves, in turns.
fn moving(ours: &AttachProcess, lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let folder = lab.folder()?;
    let mount = Mount::new(ours.device(), folder.path().join("mounted"))?;
    let file = mount.0.join("data");
    fill(&file, FILE)?;
    let span = Duration::from_secs(lab.scale(5, 20));
    let (mut moving, mut still, mut moved) = (Vec::new(), Vec::new(), Vec::new());
    for pair in 1..=PAIRS {
        let job = || fio(&file, span, lab.seed);
        let ((with, extents), (without, _)) =
            timing::in_turns(pair, || while_extents_move(ours, job), || job().map(|met| (met, 0.0)))?;
        lab.say(format!(
            "pair {pair} of {PAIRS}: 99th percentile {:.0} us while {extents} extents moved, {:.0} us at rest; {:.0} against {:.0} per second",
            with.p99 / 1e3,
            without.p99 / 1e3,
            with.rate,
            without.rate
        ));
        moving.push(with);
        still.push(without);
        moved.push(extents / span.as_secs_f64());
    }
    let all = |met: &[Met], of: fn(&Met) -> f64| met.iter().map(of).collect::<Vec<f64>>();
    let rival = "nothing moves, ns";
    let p99 = timing::over("p99_moving_over_still", &all(&moving, |met| met.p99), all(&still, |met| met.p99), rival);
    let rival = "nothing moves, requests per second";
    let rate =
        timing::over("rate_moving_over_still", &all(&moving, |met| met.rate), all(&still, |met| met.rate), rival);
    Ok(vec![p99, rate, Figure::alone("moved_per_s", timing::median(moved), "extents of 1 MiB per second")])
}

/// Random reads and writes of 4 KiB, four in flight, of which seven in ten are reads.
fn fio(file: &Path, span: Duration, seed: u64) -> Result<Met, LabError> {
    let place = [format!("--filename={}", file.display()), format!("--size={FILE}")];
    let options = format!(
        "--rw=randrw --rwmixread=70 --bs=4k --direct=1 --ioengine=io_uring --iodepth=4 --fsync=64 --unified_rw_reporting=1 \
         --time_based --norandommap --randseed={seed} --runtime={}s",
        span.as_secs()
    );
    let report = peer::fio(&place, &options)?;
    let mixed = &report["jobs"][0]["mixed"];
    let number =
        |value: &serde_json::Value| value.as_f64().ok_or_else(|| peer::fault("fio", "no latency in its report"));
    Ok(Met { p99: number(&mixed["clat_ns"]["percentile"]["99.000000"])?, rate: number(&mixed["iops"])? })
}

/// Does something while extents move all the time, from the second end to the third and back. Gives how many moved,
/// too.
fn while_extents_move<T>(
    ours: &AttachProcess,
    body: impl FnOnce() -> Result<T, LabError>,
) -> Result<(T, f64), LabError> {
    let is_over = AtomicBool::new(false);
    let moved = || ours.stat("moved");
    let before = moved()?;
    let done = thread::scope(|scope| {
        let mover = scope.spawn(|| move_until(ours, &is_over));
        let done = body();
        is_over.store(true, Ordering::Release);
        mover.join().expect("the mover does not panic").and(done)
    })?;
    let extents = moved()? - before;
    settle(ours)?;
    if extents == 0.0 {
        return Err(peer::fault("the tier", "no extent moved meanwhile"));
    }
    Ok((done, extents))
}

/// Orders all extents to one end, and to the other one when they are there.
fn move_until(ours: &AttachProcess, is_over: &AtomicBool) -> Result<(), LabError> {
    let last = SIZE / MIB - 1;
    for end in [1, 2].into_iter().cycle() {
        ours.order(&["place", &format!("0-{last}"), &end.to_string()])?;
        while ours.stat("queued")? + ours.stat("moving")? > 0.0 {
            if is_over.load(Ordering::Acquire) {
                return Ok(());
            }
            thread::sleep(PAUSE);
        }
    }
    Ok(())
}

/// Waits until nothing moves any more.
fn settle(ours: &AttachProcess) -> Result<(), LabError> {
    while ours.stat("queued")? + ours.stat("moving")? > 0.0 {
        thread::sleep(PAUSE);
    }
    Ok(())
}
