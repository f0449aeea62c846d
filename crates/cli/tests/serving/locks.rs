//! A file or device is used by one writer or by readers: servers, qemu and its tools, loop devices.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Output};
use std::thread::sleep;
use std::time::Duration;

use esker_testkit::{Ability, skip};

use crate::harness::{Server, check_esker, tool};

const QEMU: &str = "qemu, or another program that locks as qemu does, uses this file; stop it first";
const ESKER: &str = "another program serves this file; stop it first";
const FILE: &str = "d = file path=DIR/d.img direct=false @ nbd=unix:DIR/sock";
const READER: &str = "d = file path=DIR/d.img direct=false read_only=true @ nbd=unix:DIR/sock";

fn here(dir: &Path, text: &str) -> String {
    text.replace("DIR", &dir.display().to_string())
}

/// A folder with an image.
fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    File::create(dir.path().join("d.img")).unwrap().set_len(4 << 20).unwrap();
    dir
}

fn is_missing(program: &str) -> bool {
    let missing = tool(program, &["--version"]).output().err();
    missing.inspect(|error| skip(Ability::Program, format_args!("{program}: {error}"))).is_some()
}

/// What qemu-io says to a command on the image: by itself, or for readers.
fn qemu_io(dir: &Path, args: &[&str]) -> Output {
    let image = here(dir, "DIR/d.img");
    tool("qemu-io", &[args, &["-f", "raw", &image]].concat()).output().expect("it was there a moment ago")
}

fn check_refused_by_lock(output: &Output) {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("Is another process using the image"), "{said}");
}

/// Serving `stack` fails, and says why.
fn check_refused(dir: &Path, stack: &str, why: &str) {
    let error = check_esker(&["serve", &here(dir, stack), "--control", &here(dir, "DIR/other.ctl")], 1);
    assert!(error.contains(why), "{stack}: {error}");
}

/// A foreign server of the image; ended when dropped.
struct QemuNbd(Child);

impl QemuNbd {
    fn start(dir: &Path, args: &[&str]) -> QemuNbd {
        let (image, socket) = (here(dir, "DIR/d.img"), dir.join("qemu"));
        let fixed = ["--persistent", "--format=raw", "--socket", &socket.display().to_string(), &image];
        let mut child = tool("qemu-nbd", &[args, &fixed].concat()).spawn().expect("it was there a moment ago");
        while !socket.exists() {
            assert_eq!(child.try_wait().unwrap(), None, "qemu-nbd serves");
            sleep(Duration::from_millis(10));
        }
        QemuNbd(child)
    }
}

impl Drop for QemuNbd {
    fn drop(&mut self) {
        // Ended already is fine.
        let _ended = self.0.kill();
        let _reaped = self.0.wait();
    }
}

#[test]
fn qemu_takes_no_image_that_is_served_and_reads_beside_readers() {
    if is_missing("qemu-io") {
        return;
    }
    let dir = folder();
    let server = Server::start(dir.path(), FILE, &[]);
    check_refused_by_lock(&qemu_io(dir.path(), &["-c", "write 0 4k"]));
    check_refused_by_lock(&qemu_io(dir.path(), &["-r", "-c", "read 0 4k"]));
    server.stop();
    let reader = Server::start(dir.path(), READER, &[]);
    check_refused_by_lock(&qemu_io(dir.path(), &["-c", "write 0 4k"]));
    let read = qemu_io(dir.path(), &["-r", "-c", "read 0 4k"]);
    assert!(read.status.success(), "{read:?}");
    reader.stop();
    let written = qemu_io(dir.path(), &["-c", "write 0 4k"]);
    assert!(written.status.success(), "a lock goes with its server: {written:?}");
}

#[test]
fn an_image_that_qemu_uses_is_served_only_beside_readers() {
    if is_missing("qemu-nbd") {
        return;
    }
    let dir = folder();
    let writer = QemuNbd::start(dir.path(), &[]);
    check_refused(dir.path(), FILE, QEMU);
    check_refused(dir.path(), READER, QEMU);
    drop(writer);
    let dir = folder();
    let _reader = QemuNbd::start(dir.path(), &["--read-only"]);
    check_refused(dir.path(), FILE, QEMU);
    Server::start(dir.path(), READER, &[]).stop();
}

/// A loop device over the image; detached when dropped.
struct Loop(String);

impl Loop {
    fn over(dir: &Path, args: &[&str]) -> Option<Loop> {
        let image = here(dir, "DIR/d.img");
        let made = Command::new("losetup").args(["--find", "--show"]).args(args).arg(image).output();
        let made =
            made.map(|output| (output.status.success(), String::from_utf8_lossy(&output.stdout).trim().to_string()));
        let device = made.ok().filter(|(is_made, _)| *is_made).map(|(_, device)| Loop(device));
        if device.is_none() {
            skip(Ability::Attach, "a loop device takes root and losetup");
        }
        device
    }

    /// A stack on it.
    fn raw(&self, args: &str) -> String {
        format!("d = raw path={}{args} @ nbd=unix:DIR/sock", self.0)
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        // It vanishes with the machine at the latest.
        let _detached = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

#[test]
fn a_file_below_a_loop_device_is_served_on_one_of_both_ways() {
    let dir = folder();
    let Some(device) = Loop::over(dir.path(), &[]) else { return };
    check_refused(dir.path(), FILE, &format!("is the file of the loop device {}", device.0));
    check_refused(dir.path(), READER, "losetup --detach");
    let server = Server::start(dir.path(), &device.raw(""), &[]);
    check_refused(dir.path(), FILE, ESKER);
    if !is_missing("qemu-io") {
        check_refused_by_lock(&qemu_io(dir.path(), &["-c", "write 0 4k"]));
        let on_device = tool("qemu-io", &["-f", "raw", "-c", "write 0 4k", &device.0]).output().unwrap();
        check_refused_by_lock(&on_device);
    }
    server.stop();
}

#[test]
fn a_loop_device_over_a_file_that_is_served_is_refused() {
    let dir = folder();
    let server = Server::start(dir.path(), FILE, &[]);
    let Some(device) = Loop::over(dir.path(), &[]) else { return };
    check_refused(
        dir.path(),
        &device.raw(""),
        &format!("is a loop device over a file: {}", here(dir.path(), "DIR/d.img")),
    );
    check_refused(dir.path(), &device.raw(" read_only=true"), ESKER);
    server.stop();
    drop(device);
    let Some(device) = Loop::over(dir.path(), &["--read-only"]) else { return };
    let reader = Server::start(dir.path(), READER, &[]);
    check_refused(dir.path(), FILE, ESKER);
    let beside = device.raw(" read_only=true").replace("sock", "beside");
    let other = tempfile::tempdir().unwrap();
    Server::start(other.path(), &beside, &[]).stop();
    reader.stop();
}
