//! What cannot be done is refused, and says why.

use std::fs;
use std::time::{Duration, Instant};

use crate::harness::{ESKER, Place, can_run, check_tool, esker, refused};

#[test]
fn a_read_only_export_is_a_read_only_device() {
    if !can_run(&["mkfs.ext4", "blockdev"]) {
        return;
    }
    let place = Place::new();
    fs::File::create_new(place.path("disk.img")).and_then(|file| file.set_len(64 << 20)).unwrap();
    check_tool("mkfs.ext4", &["-q", &place.path("disk.img")]);
    let stack = "[device.disk]\nkind = \"file\"\npath = \"DIR/disk.img\"\n\n\
                 [[export]]\nname = \"vol\"\ndevice = \"disk\"\nread_only = true\n";
    let attachment = place.attach(stack, &[]);
    assert_eq!(check_tool("blockdev", &["--getro", attachment.device()]).trim(), "1");
    let target = format!("of={}", attachment.device());
    refused("dd", &["if=/dev/zero", &target, "bs=4k", "count=1", "oflag=direct"]);
    refused("dd", &["if=/dev/zero", &format!("of={}", place.path("run/vol/files/vol")), "bs=4k", "conv=notrunc"]);
    let mount = place.mount_point();
    check_tool("mount", &["-o", "ro", attachment.device(), mount.text()]);
    assert!(mount.path("lost+found").is_dir());
    mount.unmount();
    place.detach("vol");
    attachment.ended();
}

#[test]
fn a_mounted_device_is_not_detached_and_a_signal_waits_for_it() {
    if !can_run(&["mkfs.ext4"]) {
        return;
    }
    let place = Place::new();
    let mount = place.mount_point();
    let mut attachment = place.attach("vol = memory size=64MiB @", &[]);
    check_tool("mkfs.ext4", &["-q", attachment.device()]);
    mount.mount(attachment.device());
    for what in ["vol", attachment.device()] {
        let error = refused(ESKER, &["detach", what, "--run-dir", &place.run_dir()]);
        assert!(error.contains("is mounted at") && error.contains("unmount it first"), "{error}");
    }
    attachment.signal("TERM");
    let start = Instant::now();
    while !attachment.log().contains("unmount what is mounted") {
        assert!(attachment.is_running() && start.elapsed() < Duration::from_secs(20), "{}", attachment.log());
        std::thread::sleep(Duration::from_millis(20));
    }
    fs::write(mount.path("late"), [7; 10_000]).expect("requests are still answered");
    check_tool("sync", &["-f", mount.text()]);
    mount.unmount();
    attachment.ended();
    assert_eq!((place.list(), place.loops()), (String::new(), Vec::<String>::new()));
}

#[test]
fn what_is_wrong_is_named() {
    if !can_run(&[]) {
        return;
    }
    let place = Place::new();
    let run_dir = place.run_dir();
    let error = |args: &[&str]| refused(ESKER, &[&["attach"], args, &["--run-dir", &run_dir]].concat());
    assert!(error(&["vol = memory size=1MiB"]).contains("no export"));
    let unknown = error(&["vol = memory size=1MiB @", "--export", "other"]);
    assert!(unknown.contains("no export is named \"other\""), "{unknown}");
    assert!(error(&["vol = memory size=1MiB @", "--name", "a/b"]).contains("cannot name an attachment"));
    assert!(error(&["-", "--background"]).contains("standard input"));
    assert_eq!((place.list(), place.loops()), (String::new(), Vec::<String>::new()), "what was begun is undone");
    assert_eq!(esker(&["attach"]).status.code(), Some(2));
}

#[test]
fn a_device_that_is_used_or_holds_something_is_not_overwritten_by_a_calibration() {
    if !can_run(&["mkfs.ext4"]) {
        return;
    }
    let place = Place::new();
    let mount = place.mount_point();
    let attachment = place.attach("vol = memory size=64MiB @", &[]);
    let device = attachment.device();
    check_tool("mkfs.ext4", &["-q", device]);
    let out = place.path("times.toml");
    let calibrate = |more: &[&str]| {
        refused(ESKER, &[&["calibrate", "--rounds", "1", "--out", &out, "--device", device], more].concat())
    };
    let held = calibrate(&["--overwrite"]);
    assert!(held.contains("an ext2, ext3 or ext4 file system") && held.contains("--force"), "{held}");
    mount.mount(device);
    for more in [&["--overwrite", "--force"][..], &[]] {
        let used = calibrate(more);
        assert!(used.contains("is mounted at") && used.contains("--scratch"), "{used}");
    }
    let folder = refused(ESKER, &["calibrate", "--out", &out, "--device", &place.run_dir()]);
    assert!(folder.contains("is not a block device"), "{folder}");
    mount.unmount();
    place.detach("vol");
    attachment.ended();
    assert!(!fs::exists(&out).unwrap(), "nothing was measured");
}
