//! A process that is killed under load: nothing hangs, what it left is shown and cleaned up, and what was made durable
//! is there when it is attached again.

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLockWriteGuard};
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::{Attachment, ESKER, Mount, Place, can_run, check_tool, content, refused, tool};

const STACK: &str = "vol = file path=DIR/disk.img size=256MiB | stats @";
const BYTES: usize = 20_000;
/// Files that are durable before the process is killed.
const DURABLE_MIN: u64 = 40;
/// Ends what the test waits for itself; more than a good machine needs a hundred times over.
const PATIENCE: Duration = Duration::from_secs(25);

/// Writes files and makes each durable, until that fails. Counts those that are.
fn write_until_it_fails(dir: PathBuf, durable: &AtomicU64) {
    for n in 0.. {
        let written = File::create_new(dir.join(n.to_string()))
            .and_then(|mut file| file.write_all(&content(n, BYTES)).and_then(|()| file.sync_all()));
        if written.is_err() {
            return;
        }
        durable.store(n + 1, Ordering::Release);
    }
}

/// Kills the process in the middle of a load, and returns how many files were durable by then, with the guard of the
/// kill.
fn kill_under_load(attachment: &mut Attachment, mount: &Mount) -> (u64, RwLockWriteGuard<'static, ()>) {
    let durable = Arc::new(AtomicU64::new(0));
    let (dir, count) = (mount.0.clone(), durable.clone());
    let load = thread::spawn(move || write_until_it_fails(dir, &count));
    let start = Instant::now();
    while durable.load(Ordering::Acquire) < DURABLE_MIN {
        assert!(start.elapsed() < PATIENCE, "the load goes on: {}", attachment.log());
        thread::sleep(Duration::from_millis(2));
    }
    let kept = durable.load(Ordering::Acquire);
    let dead = attachment.kill();
    while !load.is_finished() {
        assert!(start.elapsed() < PATIENCE, "the load hangs after the kill");
        thread::sleep(Duration::from_millis(2));
    }
    load.join().expect("the load does not panic");
    (kept, dead)
}

fn check_files(mount: &Mount, count: u64) {
    for n in 0..count {
        let found = fs::read(mount.path(&n.to_string())).expect("a durable file is there");
        assert!(found == content(n, BYTES), "file {n} of {count} differs");
    }
}

#[test]
fn a_killed_process_leaves_nothing_that_hangs_and_loses_nothing_durable() {
    if !can_run(&["mkfs.ext4", "e2fsck"]) {
        return;
    }
    let place = Place::new();
    let mount = place.mount_point();
    let mut attachment = place.attach(STACK, &["--name", "victim"]);
    check_tool("mkfs.ext4", &["-q", attachment.device()]);
    mount.mount(attachment.device());
    let (kept, dead) = kill_under_load(&mut attachment, &mount);

    // Requests to the dead device fail at once, and the list says why.
    refused("dd", &["if=/dev/zero", &format!("of={}", attachment.device()), "bs=4k", "count=1", "oflag=direct"]);
    let list = place.list();
    assert!(list.contains("victim: DEAD") && list.contains("is mounted at"), "{list}");
    mount.unmount();
    place.detach("victim");
    assert_eq!((place.list(), place.loops()), (String::new(), Vec::<String>::new()));
    drop(dead);

    let again = place.attach(STACK, &["--name", "victim"]);
    // Mounting replays the journal; after that nothing may be wrong.
    mount.mount(again.device());
    check_files(&mount, kept);
    mount.unmount();
    check_tool("e2fsck", &["-f", "-n", again.device()]);
    place.detach("victim");
    again.ended();
}

#[test]
fn the_next_attach_cleans_up_even_while_the_dead_device_is_mounted() {
    if !can_run(&["mkfs.ext4"]) {
        return;
    }
    let place = Place::new();
    let mount = place.mount_point();
    let mut attachment = place.attach(STACK, &[]);
    let dead = attachment.device().to_string();
    check_tool("mkfs.ext4", &["-q", &dead]);
    mount.mount(&dead);
    let killed = attachment.kill();
    let again = place.attach(STACK, &[]);
    assert_ne!(again.device(), dead, "the dead device belongs to its mount");
    assert!(again.log().contains("cleaned up what a dead process had left"), "{}", again.log());
    mount.unmount();
    assert!(place.loops().iter().all(|line| !line.starts_with(&format!("{dead} "))), "gone with its last user");
    drop(killed);
    check_tool("e2fsck", &["-f", "-n", again.device()]);
    place.detach("vol");
    again.ended();
}

#[test]
fn an_attachment_in_the_background_ends_when_it_is_told_to() {
    if !can_run(&[]) {
        return;
    }
    let place = Place::new();
    let run_dir = place.run_dir();
    let stack = "vol = memory size=16MiB @";
    let out = check_tool(ESKER, &["attach", stack, "--background", "--run-dir", &run_dir]);
    let device = out.lines().next().and_then(|line| line.rsplit(' ').next()).expect("a line about the device");
    check_tool("dd", &["if=/dev/urandom", &format!("of={device}"), "bs=1M", "count=4", "oflag=direct"]);
    let again = refused(ESKER, &["attach", stack, "--background", "--run-dir", &run_dir]);
    assert!(again.contains("\"vol\" is attached already"), "{again}");
    assert!(place.list().contains("vol: process "), "{}", place.list());
    place.detach(device);
    assert_eq!((place.list(), place.loops()), (String::new(), Vec::<String>::new()));
    let log = fs::read_to_string(format!("{run_dir}/vol.log")).expect("the log stays");
    assert!(log.contains("attached already") || log.contains("stopped: everything is flushed"), "{log}");
    let unknown = tool(ESKER, &["detach", "vol", "--run-dir", &run_dir]).output().expect("timeout(1) starts");
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("nothing is attached as \"vol\""));
}
