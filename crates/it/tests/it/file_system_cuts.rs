//! A file system on an attached stack: what its devices were asked is recorded, and in states that a power cut between any two
//! of those requests can leave, the stack above them holds a consistent file system with all files that were durable.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::rc::Rc;
use std::sync::{LazyLock, Mutex};

use esker_base::Nanos;
use esker_block::store::SparseStore;
use esker_block::{Bio, Buf, Build, Device, Kind, KindError, Make};
use esker_dev::{Defer, Media, MemoryDevice};
use esker_fuse::{Attached, Export, Setup};
use esker_rt::mem::Pool;
use esker_rt::real::{Reactor, RealConfig};
use esker_rt::{Rt, Sim, SimConfig};
use esker_stack::{Spec, Stack};
use esker_testkit::Bound;
use esker_testkit::crash::{self, Image};
use esker_testkit::recorder::{Journal, Recorder};

const SIZE: u64 = 8 << 20;
const FILES: usize = 24;
/// States that are looked at, about.
const STATES: u64 = 30;

enum Bed {
    Recording(Journal),
    Crashed(Vec<Image>),
}

/// What the devices of the next stack of the one test find, in the order in which they are built.
static BED: Mutex<Bed> = Mutex::new(Bed::Crashed(Vec::new()));

static KINDS: LazyLock<Vec<&'static Kind>> =
    LazyLock::new(|| esker_kinds::ALL.iter().copied().chain([&LEAF]).collect());

static LEAF: Kind = Kind { name: "leaf", build: Build::Device(build_leaf), ..esker_dev::memory::KIND };

fn build_leaf(make: &Make<'_>) -> Result<Rc<dyn Device>, KindError> {
    let size = make.args.int("size");
    match &mut *BED.lock().unwrap() {
        Bed::Recording(journal) => {
            let leaf: Rc<dyn Device> = Recorder::leaf(journal, make.rt, &Media::new(size), 512, Defer::Never);
            Ok(leaf)
        }
        Bed::Crashed(images) if !images.is_empty() => {
            let store = images.remove(0).over(&SparseStore::default());
            Ok(Rc::new(MemoryDevice::over(make.rt, Media::of(size, store), 512, Defer::Never)) as Rc<dyn Device>)
        }
        Bed::Crashed(_) => Err(KindError::Outside("there is no medium for another device".to_string())),
    }
}

fn open(rt: &Rt, text: &str, bed: Bed) -> Rc<dyn Device> {
    *BED.lock().unwrap() = bed;
    let spec = Spec::parse("stack", text).unwrap_or_else(|e| panic!("{text}: {e}"));
    let stack = Stack::build(rt, &Pool::default(), &KINDS, &spec).unwrap_or_else(|e| panic!("{text}: {e}"));
    Rc::new(stack.device("vol").expect("the text names it"))
}

fn tool(program: &str, args: &[&str]) -> Output {
    let output =
        Command::new("timeout").args(["--kill-after=2", "60", program]).args(args).stdin(Stdio::null()).output();
    output.expect("timeout(1) starts")
}

fn check_tool(program: &str, args: &[&str]) {
    let output = tool(program, args);
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {args:?}: {}\n{err}", output.status);
}

fn can_run() -> bool {
    let nodes = ["/dev/fuse", "/dev/loop-control"].into_iter().filter(|path| !Path::new(path).exists());
    let mut missing: Vec<String> = nodes.map(|path| format!("there is no {path}")).collect();
    let is_root = tool("id", &["-u"]).stdout.starts_with(b"0\n");
    missing.extend((!is_root).then(|| "it takes root".to_string()));
    let absent = |program: &&str| Command::new(program).arg("-V").output().is_err();
    let programs = ["mkfs.ext4", "e2fsck", "debugfs"].into_iter().filter(absent);
    missing.extend(programs.map(|program| format!("{program} is missing: run `cargo xtask peers`")));
    if !missing.is_empty() {
        esker_testkit::skip(esker_testkit::Ability::Attach, missing.join("; "));
    }
    missing.is_empty()
}

fn content(file: usize) -> Vec<u8> {
    (0..5000 + 977 * file).map(|i| (i * 7 + file) as u8).collect()
}

/// Ends the mount, whatever happens.
struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _gone = tool("umount", &[&self.0.display().to_string()]);
    }
}

/// Makes a file system and uses it. How many events the devices had seen when each file was durable, the first for none.
fn load(device: &Path, dir: &Path, journal: &Journal) -> Vec<u64> {
    let device = device.display().to_string();
    check_tool("mkfs.ext4", &["-q", "-b", "1024", "-J", "size=1", &device]);
    let mount = dir.join("mnt");
    fs::create_dir(&mount).unwrap();
    check_tool("mount", &[&device, &mount.display().to_string()]);
    let mounted = Mounted(mount.clone());
    check_tool("sync", &["-f", &mount.display().to_string()]);
    let mut durable = vec![journal.points()];
    for file in 0..FILES {
        // Some unrest that nobody makes durable, but the journal orders.
        let noise = mount.join(format!("noise {}", file % 5));
        fs::write(&noise, content(file)).unwrap();
        if file % 5 == 4 {
            fs::remove_file(&noise).unwrap();
        }
        let mut out = File::create(mount.join(format!("f{file}"))).unwrap();
        out.write_all(&content(file)).and_then(|()| out.sync_all()).unwrap();
        durable.push(journal.points());
    }
    drop(mounted);
    durable
}

/// Runs the load on a stack over recording devices.
fn record(text: &str, dir: &Path) -> (Journal, Vec<u64>) {
    let journal = Journal::default();
    let reactor = Reactor::new(RealConfig::seeded(1)).unwrap();
    let rt = reactor.rt();
    let device = open(&rt, text, Bed::Recording(journal.clone()));
    let (seen, dir) = (journal.clone(), dir.to_path_buf());
    let durable = reactor.block_on(async move {
        let setup = Setup { mount: dir.join("fuse"), partitions: false };
        fs::create_dir(&setup.mount).unwrap();
        let export = Export { name: "vol".to_string(), device };
        let attached = Attached::start(&rt, &Pool::default(), vec![export], &setup).await.unwrap();
        let path = attached.disks()[0].path.clone();
        let work = std::thread::spawn(move || load(&path, &dir, &seen));
        while !work.is_finished() {
            rt.sleep(Nanos::millis(2)).await;
        }
        attached.stop().await;
        work.join()
    });
    (journal, durable.expect("the load fails"))
}

/// The whole volume over what a power cut left of its devices, as a file.
fn volume(text: &str, images: &[Image], path: &Path) {
    let sim = Sim::new(SimConfig::seeded(1));
    let device = open(&sim.rt(), text, Bed::Crashed(images.to_vec()));
    let file = File::create(path).unwrap();
    let size = device.limits().size;
    sim.block_on(async move {
        for at in (0..size).step_by(1 << 20) {
            let len = (size - at).min(1 << 20) as usize;
            let done = device.submit(Bio::read(at, Buf::unique(&Pool::default(), len))).await;
            assert_eq!(done.result.err(), None, "byte {at} cannot be read after a power cut");
            file.write_all_at(&done.buf.to_vec(), at).unwrap();
        }
    });
}

/// The journal is replayed, as a mount does; after that nothing is wrong, and the newest durable file is there.
fn judge(image: &Path, newest: Option<usize>, point: u64) {
    let path = image.display().to_string();
    let replayed = tool("e2fsck", &["-p", &path]);
    let told = String::from_utf8_lossy(&replayed.stdout).into_owned();
    assert!(matches!(replayed.status.code(), Some(0 | 1)), "cut before event {point}: {told}");
    let checked = tool("e2fsck", &["-f", "-n", &path]);
    assert!(checked.status.success(), "cut before event {point}: {}", String::from_utf8_lossy(&checked.stdout));
    if let Some(file) = newest {
        let held = tool("debugfs", &["-R", &format!("cat /f{file}"), &path]).stdout;
        assert!(held == content(file), "cut before event {point}: file {file} was durable and holds something else");
    }
}

fn check(text: &str) {
    let dir = tempfile::tempdir().unwrap();
    let (journal, durable) = record(text, dir.path());
    let (first, last) = (durable[0], *durable.last().expect("there are files"));
    let step = ((last - first) / STATES).max(1);
    let image = dir.path().join("image");
    let mut states = 0;
    let bound = Bound { states_max: 1, seed: 5 };
    let looked = crash::for_each_state::<String>(&journal, bound, |point, images| {
        if point >= first && point <= last && (point - first).is_multiple_of(step) {
            volume(text, images, &image);
            let count = durable.iter().filter(|durable| **durable <= point).count() - 1;
            judge(&image, count.checked_sub(1), point);
            states += 1;
        }
        Ok(())
    });
    let points = looked.unwrap().points;
    println!("{states} states of {points}: {text}");
    assert!(states >= STATES && last - first > 100, "only {states} states, {} events", last - first);
}

#[test]
fn a_file_system_on_extensions_is_consistent_after_power_cuts_at_any_write() {
    if !can_run() {
        return;
    }
    let half = |name: &str| format!("{name} = leaf size={}", SIZE + 8192);
    check(&format!("{}; {}; vol = mirror region=64KiB new=equal settle=5ms on a, b | verify", half("a"), half("b")));
    // The log is so small that home takes in what is off-loaded all the time.
    check(&format!("h = leaf size={SIZE}; l = leaf size=1MiB; vol = offload rest=0s full=0.5 on h, l"));
}
