//! Mounts of a served stack, also over a device. Each test needs root and FUSE, and says loudly when it is skipped.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests use the files of their mounts")]

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use esker_block::{Device, Step};
use esker_front_fuse::{MountOptions, Transport, mount_at, mount_point, unmount};
use esker_stack::{KernelCache, Stack};
use esker_testkit::files::{Whole, WholeConfig};
use esker_vfs::{FileSystem, FsKind, FsKindError, FsOpened, Opening};

use super::*;
use crate::{FileSystems, MountOrder, SingleMount, mounts};

/// What the product has, and a file system on a device.
static KINDS: &[FsKind] = &[
    FsKind {
        name: "ram",
        summary: "files in memory",
        needs_device: false,
        options: &["size", "mode"],
        make: None,
        open: esker_vfs::ram::open,
    },
    FsKind {
        name: "whole",
        summary: "files on a device",
        needs_device: true,
        options: &[],
        make: None,
        open: open_whole,
    },
];

fn open_whole(opening: &Opening<'_>) -> FsOpened {
    let (rt, device) = (opening.rt.clone(), opening.device.clone().expect("its kind lies on one"));
    Step::later(async move {
        let opened = Whole::open(&rt, device, WholeConfig { changes_max: u64::MAX, flaw: None }).await;
        let whole = opened.map_err(|error| FsKindError::Unusable(error.to_string()))?;
        Ok(Rc::new(whole) as Rc<dyn FileSystem>)
    })
}

const FILE_SYSTEMS: FileSystems = FileSystems { kinds: KINDS, memory: 16 << 20 };

fn can_run() -> bool {
    let is_root = fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    let reason = match fs::metadata("/dev/fuse") {
        Err(error) => Some(format!("/dev/fuse: {error}")),
        Ok(_) if !is_root => Some("it takes root".to_string()),
        Ok(_) => None,
    };
    if let Some(reason) = &reason {
        esker_testkit::skip(esker_testkit::Ability::Attach, reason);
    }
    reason.is_none()
}

/// Serves a text in which DIR stands for `dir`, and mounts what it says.
async fn serve(rt: &Rt, dir: &Path, text: &str) -> Served {
    let text = text.replace("DIR", &dir.display().to_string());
    let spec = Spec::parse("test", &text).unwrap();
    spec.check(esker_kinds::ALL).unwrap_or_else(|errors| panic!("{errors}"));
    let config = Config { file_systems: FILE_SYSTEMS, ..Config::at(Address::Unix(dir.join("ctl")), "test") };
    let served = Served::start(rt, &Pool::default(), esker_kinds::ALL, &spec, config).unwrap();
    served.opened().await;
    served.mount().await;
    served
}

struct Server {
    control: Address,
    stop: Rc<Notify>,
    end: JoinHandle<Result<(), StopError>>,
}

fn run(rt: &Rt, served: Served) -> Server {
    let (control, stop) = (served.control().clone(), Rc::new(Notify::default()));
    let asked = stop.clone();
    let end = rt.spawn("served", served.run(async move { asked.wait().await }));
    Server { control, stop, end }
}

impl Server {
    async fn stop(self) -> Result<(), StopError> {
        self.stop.notify_one();
        self.end.await
    }

    async fn status(&self, rt: &Rt) -> Status {
        let stream = Stream::connect(rt, &self.control).unwrap();
        serde_json::from_value(say(&stream, Command::Status {}.line().as_bytes()).await.unwrap()).unwrap()
    }
}

/// Uses files on a thread of its own: this one answers for them.
async fn apart<T: Send + 'static>(rt: &Rt, act: impl FnOnce() -> T + Send + 'static) -> T {
    rt.worker(Nanos::ZERO, act).await
}

/// A directory to mount on. What a test that fails has left there is taken away.
struct MountDir(PathBuf);

fn directory(dir: &Path, name: &str) -> MountDir {
    let at = fs::canonicalize(dir).unwrap().join(name);
    fs::create_dir(&at).unwrap();
    MountDir(at)
}

impl MountDir {
    fn file(&self) -> PathBuf {
        self.0.join("f")
    }

    /// What the kernel has mounted there.
    fn kind(&self) -> Option<String> {
        mount_at(&self.0).map(|mount| mount.kind)
    }
}

impl Drop for MountDir {
    fn drop(&mut self) {
        while std::thread::panicking() && self.kind().is_some() && unmount(&self.0, true).is_ok() {}
    }
}

/// Makes a file system of the tests on the export of a text.
async fn make(rt: &Rt, dir: &Path, text: &str) {
    let spec = Spec::parse("test", &text.replace("DIR", &dir.display().to_string())).unwrap();
    let stack = Stack::build(rt, &Pool::default(), esker_kinds::ALL, &spec).unwrap();
    let device: Rc<dyn Device> = Rc::new(stack.export(&spec.exports[0].name).unwrap());
    Whole::make(rt, device).await.unwrap();
    stack.shut(Nanos::secs(10)).await.unwrap();
}

const DISK: &str = "d = file path=DIR/d.img size=4MiB direct=false; e = pass on d";

#[test]
fn a_file_system_over_a_device_is_mounted_written_stopped_and_read_again() {
    if !can_run() {
        return;
    }
    in_world(|rt, dir| async move {
        let at = directory(&dir, "mnt");
        make(&rt, &dir, &format!("{DISK}; export v = e")).await;
        let text =
            format!("{DISK}; mount files = whole at=DIR/mnt on e; export look = e read_only=true nbd=unix:DIR/sock");
        let served = serve(&rt, &dir, &text).await;
        assert_eq!(served.unusable(), [], "both can be used");
        let server = run(&rt, served);
        let file = at.file();
        apart(&rt, move || fs::write(file, [7; 100_000]).unwrap()).await;
        let status = server.status(&rt).await;
        let told = &status.mounts[0];
        assert_eq!((told.name.as_str(), told.fs.as_str(), told.device.as_deref()), ("files", "whole", Some("e")));
        assert!(told.mounted && told.unusable.is_none() && told.requests["WRITE"] == 1, "{told:?}");
        assert!(told.load.as_ref().is_some_and(|load| load.op("read").is_some()), "opening read it: {told:?}");
        // A layer that comes under the file system is passed by what it writes at the end.
        let stream = Stream::connect(&rt, &server.control).unwrap();
        let insert = Command::Insert { device: "st = stats".into(), above: "e".into(), patience_ms: 1000 };
        say(&stream, insert.line().as_bytes()).await.unwrap();
        drop(stream);
        assert_eq!(server.status(&rt).await.mounts[0].device.as_deref(), Some("st"));
        server.stop().await.unwrap();
        assert!(at.kind().is_none());
        // Its tasks end, and let the file go.
        rt.sleep(Nanos::millis(10)).await;

        let server = run(&rt, serve(&rt, &dir, &text).await);
        let file = at.file();
        let read = apart(&rt, move || fs::read(file).unwrap()).await;
        assert!(read.len() == 100_000 && read.iter().all(|byte| *byte == 7));
        server.stop().await.unwrap();
    });
}

#[test]
fn a_freeze_has_what_reached_a_file_system() {
    if !can_run() {
        return;
    }
    in_world(|rt, dir| async move {
        let at = directory(&dir, "mnt");
        make(&rt, &dir, &format!("{DISK}; export v = e")).await;
        let text = format!("{DISK}; st = stats on e; mount files = whole at=DIR/mnt on st");
        let server = run(&rt, serve(&rt, &dir, &text).await);
        let file = at.file();
        apart(&rt, move || fs::write(file, "bytes").unwrap()).await;
        let writes = async || server.status(&rt).await.parts[2].stats.get("writes").copied();
        assert_eq!(writes().await, None, "it holds its change back");
        let stream = Stream::connect(&rt, &server.control).unwrap();
        say(&stream, freeze(60_000).line().as_bytes()).await.unwrap();
        assert!(writes().await > Some(0.0));
        say(&stream, Command::Thaw { freeze: None }.line().as_bytes()).await.unwrap();
        server.stop().await.unwrap();
    });
}

#[test]
fn a_file_system_that_cannot_be_closed_fails_the_stop_and_is_named() {
    if !can_run() {
        return;
    }
    in_world(|rt, dir| async move {
        let at = directory(&dir, "mnt");
        make(&rt, &dir, &format!("{DISK}; export v = e")).await;
        let text = format!("{DISK}; bad = error ops=write every=1 on e; mount files = whole at=DIR/mnt on bad");
        let server = run(&rt, serve(&rt, &dir, &text).await);
        let file = at.file();
        apart(&rt, move || fs::write(file, "bytes").unwrap()).await;
        let told = server.stop().await.unwrap_err().to_string();
        assert!(told.starts_with("stopped, but the file system of mount \"files\" could not be closed: EIO"), "{told}");
        assert!(at.kind().is_none());
    });
}

#[test]
fn a_mount_that_is_taken_away_ends_alone() {
    if !can_run() {
        return;
    }
    in_world(|rt, dir| async move {
        let (a, b) = (directory(&dir, "a"), directory(&dir, "b"));
        let server = run(&rt, serve(&rt, &dir, "mount a = ram at=DIR/a; mount b = ram at=DIR/b cache=none").await);
        let gone = a.0.clone();
        apart(&rt, move || unmount(&gone, false).unwrap()).await;
        while server.status(&rt).await.mounts[0].mounted {
            rt.sleep(Nanos::millis(2)).await;
        }
        let status = server.status(&rt).await;
        assert_eq!(status.problems(), [""; 0], "that is no problem");
        let file = b.file();
        apart(&rt, move || fs::write(file, "bytes").unwrap()).await;
        assert!(server.status(&rt).await.mounts[1].mounted);
        server.stop().await.unwrap();
        assert!(b.kind().is_none());
    });
}

#[test]
fn what_is_in_use_at_a_stop_is_out_of_the_tree_and_served_to_the_end() {
    if !can_run() {
        return;
    }
    in_world(|rt, dir| async move {
        let at = directory(&dir, "mnt");
        let server = run(&rt, serve(&rt, &dir, "mount m = ram at=DIR/mnt").await);
        let file = at.file();
        let open = apart(&rt, move || fs::File::create(file).unwrap()).await;
        let stopped = rt.spawn("stop", server.stop());
        while at.kind().is_some() {
            rt.sleep(Nanos::millis(2)).await;
        }
        assert!(!stopped.is_done());
        let open = apart(&rt, move || {
            std::io::Write::write_all(&mut &open, b"still served").unwrap();
            assert_eq!(open.metadata().unwrap().len(), 12);
            open
        });
        let open = open.await;
        apart(&rt, move || drop(open)).await;
        stopped.await.unwrap();
    });
}

#[test]
fn a_stop_leaves_alone_what_was_mounted_there_since() {
    if !can_run() {
        return;
    }
    in_world(|rt, dir| async move {
        let at = directory(&dir, "mnt");
        let server = run(&rt, serve(&rt, &dir, "mount m = ram at=DIR/mnt").await);
        let (file, gone) = (at.file(), at.0.clone());
        let open = apart(&rt, move || {
            let open = fs::File::create(file).unwrap();
            unmount(&gone, true).unwrap();
            let other = std::process::Command::new("mount").args(["-t", "tmpfs", "other"]).arg(&gone).status();
            assert!(other.unwrap().success());
            open
        });
        let open = open.await;
        let stopped = rt.spawn("stop", server.stop());
        rt.sleep(Nanos::millis(200)).await;
        assert_eq!(at.kind().as_deref(), Some("tmpfs"));
        assert!(!stopped.is_done(), "its own file system is in use");
        let gone = at.0.clone();
        let leave = move || {
            drop(open);
            unmount(&gone, false).unwrap();
        };
        apart(&rt, leave).await;
        stopped.await.unwrap();
    });
}

#[test]
fn mounts_that_cannot_be_are_told_and_the_others_undone() {
    if !can_run() {
        return;
    }
    in_world(|rt, dir| async move {
        let good = directory(&dir, "good");
        let _blank = directory(&dir, "blank");
        let text = "d = memory size=1MiB; mount good = ram at=DIR/good; mount none = ram at=DIR/none; \
                    mount in = ram at=DIR/good/.; mount blank = whole at=DIR/blank on d; \
                    mount odd = ram at=DIR/blank options=mode=9";
        let served = serve(&rt, &dir, text).await;
        let told: Vec<String> = served.unusable().iter().map(ToString::to_string).collect();
        let [none, inside, blank, odd] = &told[..] else { panic!("{told:?}") };
        assert!(none.starts_with("mount \"none\" cannot be used: ") && none.contains("No such file"), "{none}");
        assert!(inside.contains("lies in the directory of mount \"good\""), "{inside}");
        assert!(blank.contains("the device") && blank.ends_with('.'), "{blank}");
        assert!(odd.contains("lies in the directory of mount \"blank\""), "{odd}");
        assert!(good.kind().is_some());
        served.abandon().await;
        assert!(good.kind().is_none(), "nothing stays of a start that is given up");
    });
}

#[test]
fn what_names_no_kind_device_or_option_is_told_before_anything_is_opened() {
    let text = "d = memory size=1MiB\nmount a = rum at=/a\nmount b = ram at=/b on d\nmount c = whole at=/c\n\
                mount e = ram at=/e options=fast\nmount f = ram at=/f options=sise=1\nmount g = ram at=/g options=ro";
    let told = mounts::check(&Spec::parse("s", text).unwrap(), KINDS).unwrap_err().to_string();
    let expected = [
        "s:2: mount \"a\": there is no file system \"rum\"; kinds: ram, whole",
        "s:3: mount \"b\": ram lies on no device (files in memory); leave its device out",
        "s:4: mount \"c\": whole lies on a device, and none is named; add its device",
        "s:5: mount \"e\": -o fast is no option; `esker help mount` lists them",
        "s:6: mount \"f\": -o sise is no option of mounts, and none of \"ram\", which takes size, mode",
    ];
    assert_eq!(told.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn a_mount_of_its_own_lies_on_the_one_export_of_its_stack() {
    if !can_run() {
        return;
    }
    in_world(|rt, dir| async move {
        let at = directory(&dir, "mnt");
        let text = format!("{DISK} @").replace("DIR", &dir.display().to_string());
        let spec = Spec::parse("test", &text).unwrap();
        make(&rt, &dir, &text).await;
        let (options, rest) = MountOptions::read("whole", &["noexec".to_string()]).unwrap();
        let order = || MountOrder {
            kind: FsKind::find(KINDS, "whole").unwrap(),
            at: mount_point(&at.0).unwrap(),
            cache: KernelCache::Through,
            transport: Transport::Auto,
            options: options.clone(),
            rest: rest.clone(),
            memory: 0,
            issuer: 0,
        };
        let pool = Pool::default();
        let start = async |spec: &Spec| SingleMount::start(&rt, &pool, esker_kinds::ALL, Some(spec), &order()).await;
        let mounted = start(&spec).await.unwrap();
        let file = at.file();
        apart(&rt, move || fs::write(file, "kept").unwrap()).await;
        mounted.run(std::future::ready(()), Nanos::secs(10)).await.unwrap();
        let mounted = start(&spec).await.unwrap();
        let file = at.file();
        assert_eq!(apart(&rt, move || fs::read_to_string(file).unwrap()).await, "kept");
        // Taken away by another program, it ends by itself.
        let gone = at.0.clone();
        apart(&rt, move || unmount(&gone, false).unwrap()).await;
        mounted.run(std::future::pending(), Nanos::secs(10)).await.unwrap();
        let two = Spec { exports: [spec.exports.clone(), spec.exports.clone()].concat(), ..spec.clone() };
        let refused = start(&two).await.err().expect("it has two exports").to_string();
        assert!(refused.starts_with("the stack has 2 exports"), "{refused}");
    });
}
