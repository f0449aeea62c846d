//! File systems of the kernel on an attached device that records, against the promises that they make. Scripts are
//! played in directories of their own; then the file system is mounted in states that a power cut could have left.
//!
//! Working directory and root belong to a whole process, and a mount to its namespace: [`judge`] takes a process of its
//! own, under `unshare --mount`.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;

use esker_base::{Nanos, Stream, span};
use esker_block::store::SparseStore;
use esker_block::{Bio, Device, Done, ExtentState, Limits, Op, Step};
use esker_dev::{Defer, Media};
use esker_front_fuse::{Attached, Export, Setup};
use esker_fs_host::Host;
use esker_fs_posix::script::{Bounded, Durable, Outcome, Player, ScriptOp, at_once, audit};
use esker_rt::mem::Pool;
use esker_rt::real::{Reactor, RealConfig};
use esker_testkit::files::breach::{TreeFacts, actor, tree, tree_of};
use esker_testkit::files::weak::{WeakMoment, violations};
use esker_testkit::{Bound, Journal, Recorder, crash};
use esker_vfs::{Ram, RamConfig};
use rustix::fs::{Mode, OFlags};

use super::bed::{System, run};

/// Violations that are told.
const TOLD_MAX: usize = 8;

/// How much is tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WeakScale {
    /// Scripts of two steps.
    pub scripts: u64,
    /// Crash points, spread over all of them.
    pub points_max: usize,
    /// States of each point.
    pub states_max: u64,
    /// Seed of all draws.
    pub seed: u64,
    /// Whether the device answers flushes that it does not do: proves that violations are found.
    pub lies: bool,
}

/// What was found.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct WeakRun {
    /// Crash points.
    pub points: u64,
    /// States that were mounted.
    pub states: u64,
    /// Objects whose promise was judged, in all states.
    pub judged: u64,
    /// Broken promises.
    pub violations: u64,
    /// The first of them, in words.
    pub told: Vec<String>,
}

/// The history of one directory.
struct History {
    script: Vec<ScriptOp>,
    moments: Vec<WeakMoment>,
}

/// Plays scripts on a file system, cuts the power, and judges what is found.
///
/// # Errors
/// What keeps the run from being made; tmpfs has no device.
pub fn judge(system: System, scale: WeakScale, folder: &Path) -> Result<WeakRun, String> {
    let made = system.make_small().ok_or_else(|| format!("{} has no device", system.name()))?;
    let (journal, histories) = record(system, made, scale, folder)?;
    let first = histories[0].moments[0].until;
    let all: Vec<u64> = match scale.lies {
        false => journal.flush_answers().into_iter().filter(|point| *point >= first).collect(),
        true => (first..=journal.points()).collect(),
    };
    let step = all.len().div_ceil(scale.points_max).max(1);
    let points = all.into_iter().step_by(step);
    let (image, mut done) = (folder.join("image"), WeakRun::default());
    let count = crash::for_each_state_at(
        &journal,
        points,
        Bound { states_max: scale.states_max, seed: scale.seed },
        |point, images| {
            write_image(&images[0].over(&SparseStore::default()), made.1, &image)?;
            let found = match look(system, &image, folder, (&histories, point)) {
                Ok(found) => found,
                Err(why) => {
                    done.violations += 1;
                    done.told
                        .extend((done.told.len() < TOLD_MAX).then(|| format!("crash before event {point}: {why}")));
                    return Ok(());
                }
            };
            for (history, found) in histories.iter().zip(found) {
                let Some(found) = found else { continue };
                let broken = violations(&history.moments, point, &found);
                done.judged += found.len() as u64;
                done.violations += broken.len() as u64;
                let calls: Vec<String> = history.script.iter().map(ScriptOp::to_string).collect();
                let left = TOLD_MAX.saturating_sub(done.told.len());
                let lines = broken.into_iter().take(left);
                done.told.extend(lines.map(|line| format!("crash before event {point}: {line}\n{}", calls.join("\n"))));
            }
            Ok::<_, String>(())
        },
    )?;
    (done.points, done.states) = (count.points, count.states);
    Ok(done)
}

/// A device that answers flushes without doing them.
struct Lying(Rc<dyn Device>);

impl Device for Lying {
    fn limits(&self) -> &Limits {
        self.0.limits()
    }

    fn submit(&self, mut bio: Bio) -> Step<Done> {
        bio.flags.fua = false;
        if bio.op == Op::Flush { Step::Now(bio.ok()) } else { self.0.submit(bio) }
    }
}

/// What makes a file system, before the path of its device, and the bytes of that.
type Made = (&'static [&'static str], u64);

/// Plays the scripts on a file system on an attached device.
fn record(system: System, made: Made, scale: WeakScale, folder: &Path) -> Result<(Journal, Vec<History>), String> {
    let journal = Journal::default();
    let reactor = Reactor::new(RealConfig::seeded(scale.seed)).map_err(|error| error.to_string())?;
    let rt = reactor.rt();
    let leaf: Rc<dyn Device> = Recorder::leaf(&journal, &rt, &Media::new(made.1), system.whole(), Defer::Never);
    let device = if scale.lies { Rc::new(Lying(leaf)) } else { leaf };
    let (seen, folder) = (journal.clone(), folder.to_path_buf());
    let histories = reactor.block_on(async move {
        let setup = Setup { mount: folder.join("fuse"), partitions: false };
        fs::create_dir(&setup.mount).map_err(|error| error.to_string())?;
        let export = Export { name: "vol".to_string(), device };
        let attached = Attached::start(&rt, &Pool::default(), vec![export], &setup).await;
        let attached = attached.map_err(|error| error.to_string())?;
        let path = attached.disks()[0].path.clone();
        let work = std::thread::spawn(move || load(system, made.0, scale, (&path, &folder), &seen));
        while !work.is_finished() {
            rt.sleep(Nanos::millis(2)).await;
        }
        attached.stop().await;
        work.join().map_err(|_| "the load panics".to_string())?
    });
    Ok((journal, histories?))
}

/// Ends the mount, whatever happens.
struct Mounted(PathBuf);

impl Mounted {
    fn new(what: &Path, at: PathBuf, options: &[&str]) -> Result<Mounted, String> {
        fs::create_dir_all(&at).map_err(|error| error.to_string())?;
        let mount =
            Command::new("mount").args(options).arg(what).arg(&at).output().map_err(|error| error.to_string())?;
        match mount.status.success() {
            true => Ok(Mounted(at)),
            false => Err(format!("it cannot be mounted: {}", String::from_utf8_lossy(&mount.stderr).trim())),
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Inside the mount nothing can be unmounted.
        drop(std::env::set_current_dir("/"));
        let _gone = Command::new("umount").arg(&self.0).output();
    }
}

fn load(
    system: System,
    make: &[&str],
    scale: WeakScale,
    (device, folder): (&Path, &Path),
    journal: &Journal,
) -> Result<Vec<History>, String> {
    run(Command::new(make[0]).args(&make[1..]).arg(device));
    let mounted = Mounted::new(device, folder.join("mounted"), &[])?;
    let scripts = Bounded::new(2);
    let mut rng = Stream::named(scale.seed, "scripts on a file system of the kernel");
    let mut histories = Vec::new();
    for number in 0..scale.scripts {
        let script = [Bounded::before(), scripts.steps(rng.below(scripts.count()))].concat();
        histories.push(play(system, number, script, (&mounted.0, journal))?);
    }
    Ok(histories)
}

fn play(
    system: System,
    number: u64,
    script: Vec<ScriptOp>,
    (mounted, journal): (&Path, &Journal),
) -> Result<History, String> {
    let at = mounted.join(format!("s{number}"));
    let from = journal.points();
    fs::create_dir(&at).and_then(|()| std::env::set_current_dir(&at)).map_err(|error| error.to_string())?;
    let mut theirs = Host::at(&at).map_err(|error| error.to_string())?;
    let ram = Ram::new(RamConfig::sized(4 << 20), Pool::default());
    let mut ours = actor(Rc::new(ram.clone()));
    at_once(theirs.call(&ScriptOp::Sync(Durable::All)));
    let moment = |op, succeeded, from| {
        let tree = comparable(system, at_once(tree(Rc::new(ram.fork()))));
        WeakMoment { op, succeeded, tree, from, until: journal.points() }
    };
    let mut moments = vec![moment(None, true, from)];
    for op in &script {
        let from = journal.points();
        let (their, our) = (at_once(theirs.call(op)), at_once(ours.call(op)));
        let [succeeded, wanted] = [&their, &our].map(|outcome| !matches!(outcome, Outcome::Failed(_)));
        if succeeded != wanted {
            return Err(format!("{op}: the kernel answers {their}, and the oracle {our}"));
        }
        moments.push(moment(Some(op.clone()), succeeded, from));
    }
    Ok(History { script, moments })
}

/// Without what the file system tells otherwise than others: directories of btrfs always have one link.
fn comparable(system: System, mut tree: TreeFacts) -> TreeFacts {
    if system == System::Btrfs {
        for facts in tree.values_mut().filter(|facts| facts.starts_with("dir ")) {
            let words = facts.split(' ').filter(|word| !word.starts_with("links="));
            *facts = words.collect::<Vec<_>>().join(" ");
        }
    }
    tree
}

/// Writes an image in the place of the one before, as a new file.
///
/// A loop device stays with its file while any process has the device open, and programs that look for a free one open
/// all of them. `mount -o loop` takes such a device again for the same file, with the blocks of the state before in its
/// page cache.
fn write_image(store: &SparseStore, bytes: u64, path: &Path) -> Result<(), String> {
    let told = |error: std::io::Error| format!("{}: {error}", path.display());
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(told(error)),
        _ => {}
    }
    let file = File::create_new(path).map_err(told)?;
    file.set_len(bytes).map_err(told)?;
    let mut at = 0;
    for extent in store.extents(span(0, bytes)) {
        if extent.state == ExtentState::Data {
            let mut part = vec![0; extent.len as usize];
            store.read(at, &mut part);
            file.write_all_at(&part, at).map_err(told)?;
        }
        at += extent.len;
    }
    Ok(())
}

/// The trees of all directories that were there before the point, or why nothing is seen.
fn look(
    system: System,
    image: &Path,
    folder: &Path,
    (histories, point): (&[History], u64),
) -> Result<Vec<Option<TreeFacts>>, String> {
    let mounted = Mounted::new(image, folder.join("look"), &["-o", "loop"])?;
    let root: OwnedFd = rustix::fs::open("/", OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())
        .map_err(|error| format!("the root directory: {error}"))?;
    let mut found = Vec::new();
    for (number, history) in histories.iter().enumerate() {
        if history.moments[0].until > point {
            found.push(None);
            continue;
        }
        let at = mounted.0.join(format!("s{number}"));
        if !at.exists() {
            // A tree without its root breaks every promise.
            found.push(Some(TreeFacts::new()));
            continue;
        }
        let told = |error: rustix::io::Errno| format!("{}: {error}", at.display());
        rustix::process::chroot(&at).and_then(|()| rustix::process::chdir("/")).map_err(told)?;
        let tree = Host::at(Path::new("/")).map(|mut host| tree_of(at_once(audit(&mut host))));
        rustix::process::fchdir(&root).and_then(|()| rustix::process::chroot(".")).map_err(told)?;
        found.push(Some(comparable(system, tree.map_err(|error| error.to_string())?)));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    /// As a loop device holds the image before, while another process looks at the device.
    #[test]
    fn an_image_is_not_the_file_of_the_image_before() {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("image");
        let mut store = SparseStore::default();
        store.write(0, &[1; 512]);
        write_image(&store, 4096, &image).unwrap();
        let held = File::open(&image).unwrap();
        write_image(&SparseStore::default(), 4096, &image).unwrap();
        let now = File::open(&image).unwrap();
        assert_ne!(held.metadata().unwrap().ino(), now.metadata().unwrap().ino());
        let mut bytes = [0; 512];
        held.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(bytes, [1; 512]);
        assert_eq!(now.metadata().unwrap().len(), 4096);
    }
}
