//! A guest's kernel and Esker read and write the same images of NILFS2.
//!
//! The guest fills three file systems: one that `mkfs.nilfs2` made, and two that Esker made and wrote to. Linux's own
//! cleaner cleans the first one. Esker's has cleaned the last one, beside a snapshot, with moved blocks apart. There a
//! background scan of another snapshot is under way, whose place lies in the image: the kernel must not mind. The guest
//! tells their trees when a snapshot was made and at the end, and what `lssu` and `lscp` say. Esker must see the
//! same, and find nothing wrong. Then Esker writes to all of them again.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use esker_block::store::SparseStore;
use esker_dev::{Defer, Media, MemoryDevice};
use esker_fs_lfs::dump::{Show, dump};
use esker_fs_lfs::{
    CleanerConfig, Lfs, LfsCleaner, LfsConfig, LfsReader, MkfsConfig, SnapshotCounting, Volume, check, mkfs,
};
use esker_fs_posix::script::{Outcome, Player, ScriptOp};
use esker_guest::image::Image;
use esker_guest::machine::{Guest, Power};
use esker_it::guest::{LIBRARY, MEMORY_MIB};
use esker_rt::{Rt, Sim, SimConfig};
use esker_testkit::files::breach::actor;
use esker_testkit::files::listing::{GuestTold, columns, rows};
use esker_vfs::{Call, FileSystem, Name, New, NewKind, Stamp, Sync};

const SECTOR: u32 = 512;
const SHELL: &str = include_str!("../../src/guest/nilfs2.sh");
/// Device, name of its steps, bytes of a block and of the largest file.
const USED: [(&str, &str, u32, u64); 3] =
    [("vda", "theirs", 1024, 3_000_000), ("vdb", "ours", 4096, 4_000_000), ("vdc", "ours-1k", 1024, 3_000_000)];
const DEVICE_BYTES: u64 = 40 << 20;

fn device(rt: &Rt, media: &Rc<Media>) -> Rc<MemoryDevice> {
    Rc::new(MemoryDevice::over(rt, media.clone(), SECTOR, Defer::Never))
}

/// Calls that the writer makes before the guest has a file system: a tree with maps of several levels, holes, links and
/// names of all kinds, in several checkpoints.
const BEFORE: &str = "mkdir w 0755\nopen #0 w/large rdwr,creat 0644\nwrite #0 1900000 x1\nclose #0\n\
    open #0 w/sparse rdwr,creat 0600\nwrite #0 9000 x2 @3000000000\nwrite #0 100 x3 @70000\nsync all\n\
    truncate #0 2999999000\nclose #0\nsymlink large w/link\nmknod w/pipe fifo 0640 0\nmknod w/disk block 0600 1797\n\
    link w/large w/other\nmkdir w/sub 0700\nopen #1 w/sub/cut rdwr,creat 0644\nwrite #1 900000 x4\nsync all\n\
    truncate #1 10001\nallocate #1 punch 0 8192\nclose #1\nrename w/sub w/moved replace\nchown w/pipe 1000 100\n\
    open #0 w/gone rdwr,creat 0644\nwrite #0 500000 x5\nsync all\nunlink w/gone\nclose #0\n";
/// The last calls before a crash: bytes that are synced alone, in logs that the kernel must bring forward.
const SYNCED: &str =
    "open #0 w/large rdwr 0\nwrite #0 200000 x8 @300000\nsync data #0\nwrite #0 50 x9 @9\nsync data #0\n";
/// Calls behind which a snapshot has many blocks that no longer live, and segments hold live and dead blocks.
const CHURN: [&str; 2] = [
    "mkdir w/churn 0755\nopen #0 w/churn/old rdwr,creat 0644\nwrite #0 1200000 x10\nsync all\nclose #0\n\
    open #0 w/churn/file rdwr,creat 0644\nwrite #0 1500000 x11\nsync all\nwrite #0 700000 x12 @300000\nsync all\n\
    close #0\n",
    "unlink w/churn/old\nopen #0 w/churn/file rdwr 0\nwrite #0 400000 x13 @200000\nsync all\nwrite #0 9000 x14 @7\n\
    sync all\nwrite #0 800000 x15 @600000\nsync all\nclose #0\n",
];
/// Calls that it makes behind the guest, on what the guest made.
const AFTER_THEIRS: &str = "open #0 big rdwr 0\nwrite #0 90000 x6 @50000\ntruncate #0 70000\nclose #0\nmkdir back 0755\n\
    rename moved back/moved replace\nopen #0 back/new rdwr,creat 0644\nwrite #0 700000 x7\nsync all\nclose #0\n\
    unlink blocks9\nlink small back/small\n";
/// The same, on what it made itself.
const AFTER: &str = "open #0 w/large rdwr 0\nwrite #0 300000 x6 @100000\ntruncate #0 1500000\nclose #0\n\
    mkdir back 0755\nrename w/moved back/moved replace\nopen #0 back/new rdwr,creat 0644\nwrite #0 700000 x7\n\
    sync all\nclose #0\nunlink w/other\n";

/// How the writer ends.
#[derive(PartialEq, Eq)]
enum End {
    Unmount,
    Crash,
}

/// Plays calls with the writer.
async fn play(rt: &Rt, media: &Rc<Media>, script: &str, end: End) -> Vec<String> {
    let now = Stamp(1_700_000_100_000_000_000);
    let fs: Rc<dyn FileSystem> = Rc::new(Lfs::open(rt, device(rt, media), now).await.unwrap());
    let mut player = actor(fs.clone());
    for op in ScriptOp::script(script).unwrap() {
        let outcome = player.call(&op).await;
        assert!(!matches!(outcome, Outcome::Failed(_)), "{op}: {outcome}");
    }
    drop(player);
    let shown = rows(&*fs, Call::at(now)).await.unwrap();
    if end == End::Unmount {
        fs.close().await.unwrap();
    }
    shown
}

async fn is_clean(rt: &Rt, media: &Rc<Media>, name: &str) {
    let found = check(rt, device(rt, media)).await.unwrap();
    let findings: Vec<_> = found.findings.iter().map(ToString::to_string).collect();
    assert!(findings.is_empty(), "{name}:\n{}", findings.join("\n"));
}

/// A snapshot that Esker made: its number, and what it shows.
type Kept = (u64, Vec<String>);

/// Makes a snapshot between changes, and has the cleaner work until nothing is left to clean, with moved blocks apart.
async fn clean(rt: &Rt, media: &Rc<Media>) -> Kept {
    let now = Stamp(1_700_000_050_000_000_000);
    let config = LfsConfig { moved_apart: true, age_sort: true, ..background() };
    let fs = Rc::new(Lfs::open_with(rt, device(rt, media), now, config).await.unwrap());
    let mut player = actor(fs.clone());
    let mut kept = (0, Vec::new());
    for script in CHURN {
        for op in ScriptOp::script(script).unwrap() {
            let outcome = player.call(&op).await;
            assert!(!matches!(outcome, Outcome::Failed(_)), "{op}: {outcome}");
        }
        if kept.0 == 0 {
            let number = fs.ask(&["snapshot".to_string()]).await.unwrap();
            kept = (number.trim().parse().unwrap(), rows(&*fs, Call::at(now)).await.unwrap());
        }
    }
    drop(player);
    let config = "min_clean_segments 100%\nmax_clean_segments 100%\nmc_cleaning_interval 0\nselection_policy greedy\n";
    let config = CleanerConfig::parse(config);
    let (before, control) = (stat(&*fs, "dirty_segments"), Rc::new(fs.control()));
    // What was written in the second of the last change is too young for a cleaner.
    let later = Call::at(Stamp(2_000_000_100_000_000_000));
    let new = New { what: NewKind::File, mode: 0o600, uid: 0, gid: 0 };
    let made = fs.create(later, fs.root(), Some(Name::new(b"later").unwrap()), new).await.unwrap();
    fs.forget(made.ino, 1);
    fs.sync(later, Sync::All).await.unwrap();
    LfsCleaner::new(rt, control, config.unwrap()).run_once().await.unwrap();
    let after = stat(&*fs, "dirty_segments");
    assert!(after < before - 1.0, "of {before} segments {after} are left");
    fs.close().await.unwrap();
    kept
}

/// Counters follow snapshots in the background.
fn background() -> LfsConfig {
    LfsConfig { snapshots: SnapshotCounting::Background, ..LfsConfig::usual() }
}

/// Makes a snapshot and unmounts while counters do not follow it yet.
async fn leave_a_scan(rt: &Rt, media: &Rc<Media>) -> Kept {
    let now = Stamp(1_700_000_060_000_000_000);
    let fs = Lfs::open_with(rt, device(rt, media), now, background()).await.unwrap();
    let number = fs.ask(&["snapshot".to_string()]).await.unwrap();
    let kept = (number.trim().parse().unwrap(), rows(&fs, Call::at(now)).await.unwrap());
    assert!(stat(&fs, "scanning") > 0.0, "a scan is under way at the unmount");
    fs.close().await.unwrap();
    kept
}

fn stat(fs: &dyn FileSystem, name: &str) -> f64 {
    fs.stats().iter().find(|stat| stat.name == name).unwrap().value
}

/// Writes a file system of ours to a file. The last writer crashed. Answers the row of the file that it had synced.
fn make(path: &Path, block_bytes: u32) -> (String, Vec<Kept>) {
    let (media, sim) = (Media::new(DEVICE_BYTES), Sim::new(SimConfig::seeded(1)));
    let (rt, made) = (sim.rt(), media.clone());
    let config = MkfsConfig {
        block_bytes,
        segment_bytes: Some(512 << 10),
        live_counters: block_bytes == 1024,
        ..MkfsConfig::usual(Stamp(1_700_000_000_000_000_000))
    };
    let synced = sim.block_on(async move {
        mkfs(&rt, device(&rt, &made), &config).await.unwrap();
        play(&rt, &made, BEFORE, End::Unmount).await;
        is_clean(&rt, &made, "before the guest").await;
        let kept = match config.live_counters {
            true => vec![clean(&rt, &made).await, leave_a_scan(&rt, &made).await],
            false => Vec::new(),
        };
        is_clean(&rt, &made, "cleaned").await;
        let rows = play(&rt, &made, SYNCED, End::Crash).await;
        (rows.into_iter().find(|row| row.starts_with(LARGE)).unwrap(), kept)
    });
    let all = esker_base::ByteRange::new(0, DEVICE_BYTES).unwrap();
    std::fs::write(path, media.bytes(all)).unwrap();
    synced
}

/// What the row of the file begins with, and its parts without the time.
const LARGE: &str = "./w/large|";

fn without_time(row: &str) -> Vec<&str> {
    row.split('|').enumerate().filter(|(nr, _)| *nr != TIME).map(|(_, part)| part).collect()
}

/// The part of a row that is a time.
const TIME: usize = 7;

/// What Esker reads of a device is what the guest told, and the guest saw what was synced before.
fn compare(path: &Path, name: &str, told: &GuestTold, made: Option<&(String, Vec<Kept>)>) {
    let mut store = SparseStore::default();
    store.write(0, &std::fs::read(path).unwrap());
    let media = Media::of(DEVICE_BYTES, store);
    let trees = ["latest", "snapshot"].map(|which| told.rows(&format!("{name}-{which}")));
    assert!(trees.iter().all(|tree| tree.len() > 60), "{name}: the guest told of both trees");
    if let Some((synced, _)) = made {
        let seen = trees[1].iter().find(|row| row.starts_with(LARGE)).unwrap();
        assert_eq!(without_time(seen), without_time(synced), "{name}: the kernel brings synced bytes forward");
    }
    let table = |from: &str, to: &str, count| {
        let rows = told.table(&format!("{from} {name}"), &format!("{to} {name}"), count);
        assert!(!rows.is_empty(), "{name}: {from}");
        rows
    };
    let (segments, checkpoints) = (table("LSSU", "LSCP", 5), table("LSCP", "OVER", 7));
    let sim = Sim::new(SimConfig::seeded(1));
    let (rt, name) = (sim.rt(), name.to_string());
    let own = made.map(|(_, kept)| kept.clone()).unwrap_or_default();
    sim.block_on(async move {
        is_clean(&rt, &media, &name).await;
        let volume = Rc::new(Volume::open(&rt, device(&rt, &media)).await.unwrap());
        let all = volume.checkpoints().await.unwrap();
        let snapshot = all.iter().rfind(|entry| entry.is_snapshot()).map(|entry| entry.head.cno);
        let kept: Vec<Kept> = snapshot.map(|cno| (cno, trees[1].clone())).into_iter().chain(own).collect();
        for (cno, tree) in [None, snapshot].into_iter().zip(trees) {
            let reader = LfsReader::of(volume.clone(), cno).await.unwrap();
            assert_eq!(rows(&reader, Call::at(Stamp(0))).await.unwrap(), tree, "{name} {cno:?}");
        }
        let listed = columns(&dump(&volume, Show::Segments).await.unwrap(), 5);
        let in_use = segments.into_iter().filter(|row| !row[3].starts_with("---"));
        assert_eq!(listed, in_use.map(on_medium).collect::<Vec<_>>(), "{name}: lssu");
        assert_eq!(columns(&dump(&volume, Show::Checkpoints).await.unwrap(), 7), checkpoints, "{name}: lscp");
        let script = if name == "theirs" { AFTER_THEIRS } else { AFTER };
        let written = play(&rt, &media, script, End::Unmount).await;
        is_clean(&rt, &media, &format!("{name} behind the guest")).await;
        let reader = LfsReader::open(&rt, device(&rt, &media), None).await.unwrap();
        assert_eq!(rows(&reader, Call::at(Stamp(0))).await.unwrap(), written, "{name} behind the guest");
        for (cno, tree) in kept {
            let reader = LfsReader::open(&rt, device(&rt, &media), Some(cno)).await.unwrap();
            assert_eq!(rows(&reader, Call::at(Stamp(0))).await.unwrap(), tree, "{name}: snapshot {cno} stays");
        }
    });
}

/// A row of `lssu` without the state that lies in the kernel's memory: in use by the writer.
fn on_medium(mut row: Vec<String>) -> Vec<String> {
    row[3] = format!("-{}", &row[3][1..]);
    row
}

fn boot(image: &Image, dir: &Path) {
    let paths: Vec<PathBuf> = USED.iter().map(|(disk, ..)| dir.join(disk)).collect();
    std::fs::write(&paths[0], []).unwrap();
    std::fs::OpenOptions::new().write(true).open(&paths[0]).unwrap().set_len(DEVICE_BYTES).unwrap();
    let made = [None, Some(make(&paths[1], USED[1].2)), Some(make(&paths[2], USED[2].2))];
    let drive =
        |path: &PathBuf| ["-drive".to_string(), format!("file={},format=raw,if=virtio,cache=unsafe", path.display())];
    let devices: Vec<String> = paths.iter().flat_map(drive).collect();
    let mut job = "step theirs-make /bin/mkfs.nilfs2 -q -f -b 1024 -B 256 -L 'of Linux' -O none /dev/vda\n".to_string();
    for (disk, name, block, bytes) in USED {
        let cleaner = if name == "theirs" { "cleaner" } else { "true" };
        job += &format!("use {name} /dev/{disk} {block} {bytes} {cleaner}\n");
    }
    let library = format!("{LIBRARY}\n{SHELL}");
    let limit = Duration::from_secs(400);
    let (programs, memory_mib) = (Vec::new(), MEMORY_MIB);
    let guest = Guest { image, programs, library: &library, job, devices, cpus: 1, memory_mib, limit };
    let log = guest.run(dir, &mut |_| Ok(Power::On)).unwrap();
    println!("kernel {}, {:.1} s\n{}", log.kernel, log.seconds, log.table());
    assert!(log.is_good(), "{}\n{}", log.table(), log.text);
    let told = GuestTold(log.text);
    for (((_, name, ..), path), made) in USED.iter().zip(&paths).zip(&made) {
        compare(path, name, &told, made.as_ref());
    }
}

#[test]
fn a_guest_and_esker_read_and_write_the_same_images() {
    let Some((image, cache)) = crate::guests::image() else { return };
    boot(&image, tempfile::tempdir_in(&cache).unwrap().path());
}
