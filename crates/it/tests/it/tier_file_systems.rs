//! ext4, XFS and btrfs on an attached tier whose extents move all the time: made, loaded with verification, compared,
//! unmounted and checked, and found again behind a restart.

use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use esker_base::Stream as Random;
use esker_it::kernel::System;

use crate::children::Server;
use crate::movers::order_until_it_dies;

/// A file system of XFS has at least 300 MiB.
const STACK: &str = "fast = file path=DIR/fast.img size=48MiB; mid = file path=DIR/mid.img size=160MiB; slow = file path=DIR/slow.img size=240MiB; \
                     vol = tier devices=\"ssd; sas; sata\" epoch=1s look=100ms share=1 on fast, mid, slow @";
/// Extents of the volume that orders move, fewer than there are.
const EXTENTS: u64 = 400;
/// Files that are written and compared.
const FILES: u64 = 24;
/// Seconds after which a program that a test runs counts as hanging.
const TIME_MAX: &str = "60";

/// How a file system is made, looked through while it is mounted, and checked. DEV is the device, DIR the mount.
struct Tools {
    system: System,
    make: &'static [&'static str],
    scrub: Option<&'static [&'static str]>,
    check: &'static [&'static str],
}

const EXT4: Tools = Tools {
    system: System::Ext4,
    make: &["mkfs.ext4", "-q", "DEV"],
    scrub: None,
    check: &["e2fsck", "-f", "-n", "DEV"],
};
const XFS: Tools =
    Tools { system: System::Xfs, make: &["mkfs.xfs", "-q", "DEV"], scrub: None, check: &["xfs_repair", "-n", "DEV"] };
const BTRFS: Tools = Tools {
    system: System::Btrfs,
    make: &["mkfs.btrfs", "-q", "DEV"],
    scrub: Some(&["btrfs", "scrub", "start", "-B", "DIR"]),
    check: &["btrfs", "check", "--readonly", "DEV"],
};

/// Whether the test can be run here; says what is missing if not.
fn can_run(system: System) -> bool {
    let absent = ["/dev/fuse", "/dev/loop-control"].into_iter().find(|path| !Path::new(path).exists());
    let no_node = absent.map(|path| format!("there is no {path}"));
    let no_root = (!rustix::process::geteuid().is_root()).then(|| "it takes root".to_string());
    let missing = no_root.or(no_node).or_else(|| system.missing());
    if let Some(why) = &missing {
        esker_testkit::skip(esker_testkit::Ability::Attach, why);
    }
    missing.is_none()
}

/// Runs a program to its end, which must be a good one.
fn run(words: &[&str], device: &str, dir: &Path) {
    let dir = dir.display().to_string();
    let filled = words.iter().map(|word| match *word {
        "DEV" => device.to_string(),
        word => word.replace("DIR", &dir),
    });
    let mut command = Command::new("timeout");
    command.args(["--kill-after=2", TIME_MAX]).args(filled).stdin(Stdio::null());
    let output = command.output().expect("timeout(1) starts");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{words:?}: {}\n{out}{err}", output.status);
}

/// Checks a file system once its device is in use no more: a test that is in a mount namespace of its own may have a
/// copy of a mount that has ended here.
fn check(tools: &Tools, device: &str, dir: &Path) {
    let opens_alone = || {
        let flags = rustix::fs::OFlags::EXCL.bits() as i32;
        fs::OpenOptions::new().read(true).custom_flags(flags).open(device).is_ok()
    };
    for _ in 0..200 {
        if opens_alone() {
            break;
        }
        thread::sleep(Duration::from_millis(50));
    }
    run(tools.check, device, dir);
}

/// A file system that is mounted; unmounted when dropped.
struct Mount(PathBuf);

impl Mount {
    fn new(device: &str, dir: &Path) -> Mount {
        let at = dir.join("mnt");
        fs::create_dir_all(&at).unwrap();
        run(&["mount", "-o", "noatime", "DEV", "DIR"], device, &at);
        Mount(at)
    }

    fn end(self) {
        run(&["umount", "DIR"], "", &self.0);
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if thread::panicking() {
            // Not mounted is fine.
            let _unmounted = Command::new("umount").arg("--lazy").arg(&self.0).output();
        }
    }
}

/// Bytes of file `n`: whole blocks, and not.
fn content(n: u64) -> Vec<u8> {
    let mut bytes = vec![0; 1_000 + n as usize * 61_003];
    Random::named(n, "file").fill(&mut bytes);
    bytes
}

fn compare_files(mount: &Mount) {
    for n in 0..FILES {
        let found = fs::read(mount.0.join(n.to_string())).expect("the file is there");
        assert!(found == content(n), "file {n} differs");
    }
}

/// A load of fio that verifies what it reads.
const STRESS: &[&str] = &[
    "fio",
    "--name=verify",
    "--directory=DIR",
    "--rw=randrw",
    "--bsrange=4k-64k",
    "--size=48m",
    "--direct=1",
    "--ioengine=io_uring",
    "--iodepth=16",
    "--serialize_overlap=1",
    "--verify=crc32c",
    "--verify_fatal=1",
    "--verify_backlog=64",
    "--verify_state_save=0",
    "--time_based",
    "--runtime=3",
    "--fsync=61",
    "--randseed=7",
];

/// Everything that a file system goes through on one device.
fn use_it(tools: &Tools, server: &Server, device: &str, dir: &Path) {
    run(tools.make, device, dir);
    let mount = Mount::new(device, dir);
    for n in 0..FILES {
        fs::write(mount.0.join(n.to_string()), content(n)).expect("there is room");
    }
    let before = server.told("moved");
    run(STRESS, device, &mount.0);
    let moved = server.told("moved") - before;
    assert!(moved >= 10.0, "only {moved} extents moved under the load");
    println!("{moved} extents moved under the load of fio");
    // Those in the page cache are not compared.
    run(&["sync", "-f", "DIR"], device, &mount.0);
    let remounted = {
        mount.end();
        Mount::new(device, dir)
    };
    compare_files(&remounted);
    if let Some(scrub) = tools.scrub {
        run(scrub, device, &remounted.0);
    }
    remounted.end();
    check(tools, device, dir);
}

fn check_file_system(tools: &Tools) {
    if !can_run(tools.system) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let stack = STACK.replace("DIR", &dir.display().to_string());
    let (server, device) = Server::attach(dir, &stack);
    let control = server.control.clone();
    let orders = thread::spawn(move || order_until_it_dies(&control, EXTENTS, Random::named(1, "orders")));
    use_it(tools, &server, &device, dir);
    server.stop();
    orders.join().expect("orders end with their server");

    let (server, device) = Server::attach(dir, &stack);
    check(tools, &device, dir);
    let mount = Mount::new(&device, dir);
    compare_files(&mount);
    mount.end();
    server.stop();
}

#[test]
fn ext4_on_a_tier_keeps_its_files_while_extents_move() {
    check_file_system(&EXT4);
}

#[test]
fn xfs_on_a_tier_keeps_its_files_while_extents_move() {
    check_file_system(&XFS);
}

#[test]
fn btrfs_on_a_tier_keeps_its_files_while_extents_move() {
    check_file_system(&BTRFS);
}
