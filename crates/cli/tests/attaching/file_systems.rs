//! ext4, xfs and btrfs on an attached device: made, mounted, loaded with verification, trimmed, mounted again, checked.

use std::fs;
use std::path::Path;

use crate::harness::{Attachment, ESKER, Mount, Place, can_run, check_tool, content, refused};

const STACK: &str = "vol = file path=DIR/disk.img size=512MiB | stats | pass @";
/// The same with a log-structured volume.
const ON_VOLUME: &str = "vol = file path=DIR/disk.img size=512MiB | logvol size=1GiB segment=8MiB checkpoint_interval=64MiB | stats | pass @";
const NAMED: &str = "d = file path=DIR/disk.img size=512MiB; \
                     vm = thin segment=8MiB checkpoint_interval=64MiB ports=\"vol=1GiB\" on d; export vol = vm.vol";
/// The same with the port of a clone.
const WITH_CLONE: &str = "d = file path=DIR/disk.img size=512MiB; \
                          vm = thin segment=8MiB checkpoint_interval=64MiB ports=\"vol=1GiB,copy=1GiB\" on d; \
                          export vol = vm.vol; export copy = vm.copy";
/// Files that are written and compared.
const FILES: u64 = 24;
/// Bytes of file `n`: whole blocks, and not.
fn size(n: u64) -> usize {
    1_000 + n as usize * 61_003
}

/// How a file system is made and checked. DEV stands for the device.
struct FileSystem {
    make: &'static [&'static str],
    check: &'static [&'static str],
}

const EXT4: FileSystem = FileSystem { make: &["mkfs.ext4", "-q", "DEV"], check: &["e2fsck", "-f", "-n", "DEV"] };
const XFS: FileSystem = FileSystem { make: &["mkfs.xfs", "-q", "DEV"], check: &["xfs_repair", "-n", "DEV"] };
const BTRFS: FileSystem =
    FileSystem { make: &["mkfs.btrfs", "-q", "DEV"], check: &["btrfs", "check", "--readonly", "DEV"] };

fn run(words: &[&str], device: &str) {
    let words: Vec<&str> = words.iter().map(|word| if *word == "DEV" { device } else { word }).collect();
    check_tool(words[0], &words[1..]);
}

fn write_files(mount: &Mount) {
    for n in 0..FILES {
        fs::write(mount.path(&format!("file{n}")), content(n, size(n))).expect("there is space");
    }
}

/// The files with these numbers hold what was written.
fn compare_files(mount: &Mount, numbers: impl Iterator<Item = u64>) {
    for n in numbers {
        let found = fs::read(mount.path(&format!("file{n}"))).expect("the file is there");
        assert!(found == content(n, size(n)), "file{n} differs");
    }
}

/// A load of fio that verifies what it reads.
fn stress(dir: &Path) {
    let words = "--name=verify --rw=randrw --bsrange=4k-64k --size=24m --direct=1 --ioengine=io_uring --iodepth=16 \
                 --serialize_overlap=1 --verify=crc32c --verify_fatal=1 --verify_backlog=64 --verify_state_save=0 \
                 --time_based --runtime=3 --fsync=61 --randseed=7 --output-format=terse";
    let dir = format!("--directory={}", dir.display());
    check_tool("fio", &words.split_whitespace().chain([dir.as_str()]).collect::<Vec<_>>());
    fs::remove_file(Path::new(dir.trim_start_matches("--directory=")).join("verify.0.0")).expect("fio made it");
}

/// Attaches the stack and mounts a new file system on it; files are written there, compared under load, and left.
fn loaded(place: &Place, mount: &Mount, stack: &str, how: &FileSystem) -> Attachment {
    let attachment = place.attach(stack, &[]);
    run(how.make, attachment.device());
    mount.mount(attachment.device());
    write_files(mount);
    stress(&mount.0);
    compare_files(mount, 0..FILES);
    attachment
}

/// Removes every second file.
fn thin_out(mount: &Mount) {
    for n in (0..FILES).step_by(2) {
        fs::remove_file(mount.path(&format!("file{n}"))).unwrap();
    }
    check_tool("sync", &["-f", mount.text()]);
}

/// Unmounts, checks and detaches.
fn end(place: &Place, mount: &Mount, attachment: Attachment, how: &FileSystem) {
    mount.unmount();
    run(how.check, attachment.device());
    place.detach(attachment.device());
    attachment.ended();
}

/// `meter` is the name of the layer that counts.
fn check_file_system(how: &FileSystem, stack: &str, meter: &str) {
    if !can_run(&[how.make[0], how.check[0], "fio", "fstrim"]) {
        return;
    }
    let place = Place::new();
    let mount = place.mount_point();
    let attachment = loaded(&place, &mount, stack, how);
    thin_out(&mount);
    let zeroed = || (attachment.stat(meter, "zeroes"), attachment.stat(meter, "zero_bytes"));
    let before = zeroed();
    check_tool("fstrim", &["-v", mount.text()]);
    let after = zeroed();
    assert!(after.0 > before.0 && after.1 - before.1 >= 100e6, "fstrim reached the stack: {before:?} to {after:?}");
    compare_files(&mount, (1..FILES).step_by(2));
    end(&place, &mount, attachment, how);
    assert_eq!((place.list(), place.loops()), (String::new(), Vec::<String>::new()));

    let again = place.attach(stack, &[]);
    run(how.check, again.device());
    mount.mount(again.device());
    compare_files(&mount, (1..FILES).step_by(2));
    mount.unmount();
    place.detach("vol");
    again.ended();
    assert!(fs::metadata(place.path("disk.img")).is_ok_and(|meta| meta.len() == 512 << 20), "the device's own file");
}

/// Runs `esker volume WORDS`, which must succeed.
fn volume(words: &[&str], whose: [&str; 2]) -> String {
    check_tool(ESKER, &[&["volume"], words, &whose].concat())
}

#[test]
fn ext4_on_a_named_volume_keeps_its_files_gives_space_back_and_is_cloned_and_rolled_back() {
    let how = &EXT4;
    if !can_run(&[how.make[0], how.check[0], "fio", "fstrim", "fsfreeze"]) {
        return;
    }
    let place = Place::new();
    let mount = place.mount_point();
    let attachment = loaded(&place, &mount, NAMED, how);
    check_tool("fsfreeze", &["--freeze", mount.text()]);
    volume(&["snapshot", "vol", "kept"], ["--control", &attachment.control]);
    check_tool("fsfreeze", &["--unfreeze", mount.text()]);
    let mapped = || attachment.stat("vm", "mapped_bytes");
    thin_out(&mount);
    let before = mapped();
    check_tool("fstrim", &["-v", mount.text()]);
    assert!(before - mapped() >= 20e6, "fstrim gives space back: {before} to {}", mapped());
    compare_files(&mount, (1..FILES).step_by(2));
    end(&place, &mount, attachment, how);

    // No server runs it now.
    let stack = NAMED.replace("DIR", &place.dir.path().display().to_string());
    check_tool(ESKER, &["check", &place.path("disk.img")]);
    volume(&["clone", "kept", "copy"], ["--stack", &stack]);
    let space = volume(&["usage", "--json"], ["--stack", &stack]);
    assert!(space.contains("\"shared_bytes\":"), "{space}");
    let again = place.attach(WITH_CLONE, &[]);
    let copy = again.devices[1].clone();
    mount.mount(&copy);
    compare_files(&mount, 0..FILES);
    mount.unmount();
    run(how.check, &copy);
    run(how.check, again.device());
    mount.mount(again.device());
    compare_files(&mount, (1..FILES).step_by(2));
    assert!(!mount.path("file0").exists(), "it was removed");
    mount.unmount();
    refused(ESKER, &["volume", "rollback", "vol", "kept", "--control", &again.control]);
    place.detach(again.device());
    again.ended();
    volume(&["rollback", "vol", "kept", "--force"], ["--stack", &stack]);
    let last = place.attach(NAMED, &[]);
    mount.mount(last.device());
    compare_files(&mount, 0..FILES);
    end(&place, &mount, last, how);
}

#[test]
fn a_named_volume_is_a_device_of_small_sectors_and_holds_ext4_of_small_blocks() {
    let how = FileSystem { make: &["mkfs.ext4", "-q", "-b", "1024", "DEV"], ..EXT4 };
    if !can_run(&["mkfs.ext4", "e2fsck", "fio", "blockdev"]) {
        return;
    }
    let (place, stack) = (Place::new(), NAMED.replace("vol=1GiB", "vol=128MiB"));
    let mount = place.mount_point();
    let attachment = loaded(&place, &mount, &stack, &how);
    assert_eq!(check_tool("blockdev", &["--getss", attachment.device()]).trim(), "512");
    thin_out(&mount);
    end(&place, &mount, attachment, &how);
    let again = place.attach(&stack, &[]);
    mount.mount(again.device());
    compare_files(&mount, (1..FILES).step_by(2));
    end(&place, &mount, again, &how);
}

#[test]
fn ext4_keeps_its_files_and_gives_space_back() {
    check_file_system(&EXT4, STACK, "vol-2");
}

#[test]
fn xfs_keeps_its_files_and_gives_space_back() {
    check_file_system(&XFS, STACK, "vol-2");
}

#[test]
fn xfs_on_a_volume_keeps_its_files_and_gives_space_back() {
    check_file_system(&XFS, ON_VOLUME, "vol-3");
}

#[test]
fn btrfs_keeps_its_files_and_gives_space_back() {
    check_file_system(&BTRFS, STACK, "vol-2");
}

#[test]
fn a_device_grows_while_it_is_mounted_and_ext4_follows_and_shrinks_before_it() {
    if !can_run(&["mkfs.ext4", "e2fsck", "resize2fs", "blockdev"]) {
        return;
    }
    let (place, stack) = (Place::new(), NAMED.replace("vol=1GiB", "vol=64MiB"));
    let (attachment, mount) = (place.attach(&stack, &[]), place.mount_point());
    let (device, control) = (attachment.device(), attachment.control.as_str());
    let has = |bytes: u64| assert_eq!(check_tool("blockdev", &["--getsize64", device]).trim(), bytes.to_string());
    run(EXT4.make, device);
    mount.mount(device);
    write_files(&mount);
    check_tool(ESKER, &["volume", "resize", "vol", "256MiB", "--control", control]);
    has(256 << 20);
    compare_files(&mount, 0..FILES);
    // While it is mounted, that takes CAP_SYS_RESOURCE, which few containers have.
    mount.unmount();
    check_tool("e2fsck", &["-f", "-p", device]);
    check_tool("resize2fs", &[device]);
    mount.mount(device);
    fs::write(mount.path("large"), vec![5; 100 << 20]).expect("more than the volume had before");
    check_tool("sync", &["-f", mount.text()]);
    fs::remove_file(mount.path("large")).unwrap();
    mount.unmount();
    check_tool("e2fsck", &["-f", "-p", device]);
    check_tool("resize2fs", &[device, "48M"]);
    check_tool(ESKER, &["resize", "vol", "48MiB", "--control", control]);
    has(48 << 20);
    run(EXT4.check, device);
    mount.mount(device);
    compare_files(&mount, 0..FILES);
    end(&place, &mount, attachment, &EXT4);
}
