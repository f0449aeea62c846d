//! A file system on an attached stack whose devices record their requests. The test builds states that a power cut can
//! leave before each answer to a flush. In each state the stack must hold a consistent file system with all durable
//! files. Until the answer the covered writes are open: some are lost, later ones survive earlier ones, and large ones
//! are torn.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::rc::Rc;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use esker_base::Nanos;
use esker_block::store::SparseStore;
use esker_block::{Bio, Buf, Build, Ctx, Device, Extension, Flow, Kind, KindError, Layer, Make, Op, Role, Step};
use esker_dev::{Defer, Media, MemoryDevice};
use esker_front_fuse::{Attached, Export, Setup};
use esker_rt::mem::Pool;
use esker_rt::real::{Reactor, RealConfig};
use esker_rt::{Rt, Sim, SimConfig};
use esker_stack::{Spec, Stack};
use esker_testkit::crash::{self, Image};
use esker_testkit::recorder::{Journal, Recorder};
use esker_testkit::{Bound, Count};

use crate::conformance::give_key;

const SIZE: u64 = 8 << 20;
const FILES: usize = 10;
/// States that are looked at before each answer to a flush: the newest and the oldest one, those in which one block
/// alone is new or old, and drawn ones.
const STATES: u64 = 8;

enum Bed {
    Recording(Journal),
    Crashed(Vec<Image>),
}

/// What the devices of the next stack of the one test find, in the order in which they are built.
static BED: Mutex<Bed> = Mutex::new(Bed::Crashed(Vec::new()));

static KINDS: LazyLock<Vec<&'static Kind>> =
    LazyLock::new(|| esker_kinds::ALL.iter().copied().chain([&LEAF, &EARLY]).collect());

static LEAF: Kind = Kind { name: "leaf", build: Build::Device(build_leaf), ..esker_dev::memory::KIND };

/// The planted bug: a flush is answered while what it covers is open below.
static EARLY: Kind = Kind {
    role: Role::Modifier,
    ..Kind::layer("early", "Answers flushes before writes are durable.", &[], build_early)
};

struct Early;

fn build_early(make: &Make<'_>) -> Result<Layer, KindError> {
    Ok(Layer::single(Early, make.lowers[0].clone()))
}

impl Extension for Early {
    fn issue(&self, _: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        bio.flags.fua = false;
        Step::Now(if bio.op == Op::Flush { Flow::Done(bio.take().ok()) } else { Flow::Down })
    }
}

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
    give_key(rt);
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

/// Makes a file system and uses it. How many events the devices had seen when each file was durable, the first for
/// none.
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
        // Some changes that are not made durable, but that the journal orders.
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

/// Makes the whole volume over what a power cut left of its devices a file.
fn volume(text: &str, images: &[Image], path: &Path) -> Result<(), String> {
    let sim = Sim::new(SimConfig::seeded(1));
    let device = open(&sim.rt(), text, Bed::Crashed(images.to_vec()));
    let file = File::create(path).unwrap();
    let size = device.limits().size;
    let step = u64::from(device.limits().transfer_max).min(1 << 20);
    sim.block_on(async move {
        for at in (0..size).step_by(step as usize) {
            let len = (size - at).min(step) as usize;
            let done = device.submit(Bio::read(at, Buf::unique(&Pool::default(), len))).await;
            done.result.map_err(|error| format!("byte {at} cannot be read: {error}"))?;
            file.write_all_at(&done.buf.to_vec(), at).unwrap();
        }
        Ok(())
    })
}

/// The journal is replayed, as a mount does; after that nothing is wrong, and all durable files are there.
fn judge(image: &Path, durable: usize) -> Result<(), String> {
    let path = image.display().to_string();
    let replayed = tool("e2fsck", &["-p", &path]);
    if !matches!(replayed.status.code(), Some(0 | 1)) {
        return Err(String::from_utf8_lossy(&replayed.stdout).into_owned());
    }
    let checked = tool("e2fsck", &["-f", "-n", &path]);
    if !checked.status.success() {
        return Err(String::from_utf8_lossy(&checked.stdout).into_owned());
    }
    let Some(newest) = durable.checked_sub(1) else { return Ok(()) };
    // The one that was made durable last, and one that was so for long.
    for file in [newest, newest / 2] {
        let held = tool("debugfs", &["-R", &format!("cat /f{file}"), &path]).stdout;
        if held != content(file) {
            return Err(format!("file {file} was durable and holds something else"));
        }
    }
    Ok(())
}

/// Only one stack at a time is over [`BED`].
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Cuts the power before each answer to a flush while the files are made.
///
/// # Errors
/// What the first state that is not as it must be lacks.
fn cut(text: &str) -> Result<Count, String> {
    let dir = tempfile::tempdir().unwrap();
    let (journal, durable) = record(text, dir.path());
    let (first, last) = (durable[0], *durable.last().expect("there are files"));
    let points = journal.flush_answers().into_iter().filter(|point| (first..=last).contains(point));
    let image = dir.path().join("image");
    crash::for_each_state_at(&journal, points, Bound { states_max: STATES, seed: 5 }, |point, images| {
        let count = durable.iter().filter(|durable| **durable <= point).count() - 1;
        let judged = volume(text, images, &image).and_then(|()| judge(&image, count));
        judged.map_err(|what| format!("{text}: cut before event {point}: {what}"))
    })
}

fn check(text: &str) {
    let count = cut(text).unwrap_or_else(|lost| panic!("{lost}"));
    println!("{count:?}: {text}");
    let flushes = FILES as u64;
    assert!(count.points >= flushes, "{count:?}: each file takes a flush: {text}");
    assert!(count.states + STATES * count.exhaustive >= STATES * count.points, "{count:?}: {text}");
    assert!(count.states >= STATES * flushes, "{count:?}: {text}");
}

#[test]
fn a_file_system_on_extensions_is_consistent_after_power_cuts_at_any_flush() {
    let _alone = alone();
    if !can_run() {
        return;
    }
    let member = |name: &str| format!("{name} = leaf size={}", SIZE + 8192);
    check(&format!(
        "{}; {}; vol = mirror region=64KiB initial=assume-clean clean_after=5ms on a, b | verify",
        member("a"),
        member("b")
    ));
    // The log is so small that home takes in what is off-loaded all the time.
    check(&format!("h = leaf size={SIZE}; l = leaf size=1MiB; vol = offload idle_after=0s high_watermark=0.5 on h, l"));
}

#[test]
fn a_file_system_on_layers_with_tables_or_keys_is_consistent_after_power_cuts_at_any_flush() {
    let _alone = alone();
    if !can_run() {
        return;
    }
    check(&format!("vol = leaf size={SIZE} | crypt key=file:any"));
    check(&format!("vol = leaf size={} | shepherd retry_delay=1us spares=16", SIZE + (1 << 20)));
    check(&format!("vol = leaf size={} | dedup block=512 size={SIZE} cache=256KiB", 2 * SIZE));
    check(&format!("vol = leaf size={} | logvol block=512 page=512 segment=64KiB size={SIZE}", 4 * SIZE));
}

#[test]
fn a_flush_that_is_answered_before_the_writes_are_durable_is_noticed() {
    let _alone = alone();
    if !can_run() {
        return;
    }
    let lost = cut(&format!("a = leaf size={SIZE}; b = leaf size={SIZE} | early; vol = stripe chunk=64KiB on a, b"))
        .expect_err("half of the blocks are written whenever their device likes");
    assert!(lost.contains("cut before event"), "{lost}");
    let count = cut(&format!("a = leaf size={SIZE}; b = leaf size={SIZE}; vol = stripe chunk=64KiB on a, b"));
    assert!(count.is_ok(), "{count:?}: it is the flush that was wrong");
}
