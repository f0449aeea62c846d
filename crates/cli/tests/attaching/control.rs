//! An attached stack is changed and watched as a served one is, and range operations reach readers of its device.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};

use crate::harness::{ESKER, Place, can_run, check_tool, content};

const PIECE: usize = 64 << 10;

/// Reads through the page cache of the device.
fn read(device: &str, at: usize) -> Vec<u8> {
    let mut file = File::open(device).expect("the device can be read");
    let mut bytes = vec![0; PIECE];
    file.seek(SeekFrom::Start(at as u64)).and_then(|_| file.read_exact(&mut bytes)).expect("it is that long");
    bytes
}

fn write(device: &str, at: usize, bytes: &[u8]) {
    use std::os::unix::fs::FileExt;
    let file = File::options().write(true).open(device).expect("the device can be written");
    file.write_all_at(bytes, at as u64).and_then(|()| file.sync_all()).expect("it takes bytes");
}

#[test]
fn layers_are_inserted_and_removed_under_a_mounted_file_system() {
    if !can_run(&["mkfs.ext4"]) {
        return;
    }
    let place = Place::new();
    let mount = place.mount_point();
    let attachment = place.attach("vol = memory size=64MiB | pass @", &[]);
    check_tool("mkfs.ext4", &["-q", attachment.device()]);
    mount.mount(attachment.device());
    let control = ["--control", &attachment.control];
    check_tool(ESKER, &[&["stack", "insert", "--above", "vol-1", "watch = stats"], &control[..]].concat());
    fs::write(mount.path("file"), content(1, 100_000)).unwrap();
    check_tool("sync", &["-f", mount.text()]);
    assert!(attachment.stat("watch", "write_bytes") >= 100_000.0, "the new layer sees the file system's writes");
    check_tool(ESKER, &[&["stack", "remove", "watch"], &control[..]].concat());
    assert!(fs::read(mount.path("file")).unwrap() == content(1, 100_000));
    mount.unmount();
    check_tool(ESKER, &[&["stop"], &control[..]].concat());
    attachment.ended();
}

#[test]
fn cloned_ranges_are_seen_through_the_page_cache() {
    check_clones("vol = memory size=16MiB block=4KiB | emulate | stats @");
}

#[test]
fn ranges_cloned_on_a_volume_are_seen_through_the_page_cache() {
    check_clones("vol = memory size=32MiB block=4KiB | logvol size=16MiB segment=1MiB | stats @");
}

/// By the control socket and by copy_file_range.
fn check_clones(stack: &str) {
    if !can_run(&[]) {
        return;
    }
    let place = Place::new();
    let attachment = place.attach(stack, &[]);
    let device = attachment.device();
    let (first, second) = (content(1, PIECE), content(2, PIECE));
    write(device, 0, &first);
    write(device, PIECE, &second);
    // A program keeps the device open, so that its page cache lives.
    let open = File::open(device).unwrap();
    let before = read(device, 4 * PIECE);
    assert!(before.iter().all(|byte| *byte == 0));
    let word = PIECE.to_string();
    let to = (4 * PIECE).to_string();
    let operation = format!("clone:0:{word}:{to}");
    check_tool(ESKER, &["remap", "--control", &attachment.control, "vol", &operation]);
    assert!(read(device, 4 * PIECE) == first, "through the control socket");

    // The standard library copies between files with copy_file_range.
    let path = place.path("run/vol/files/vol");
    let (mut from, mut into) = (File::open(&path).unwrap(), File::options().write(true).open(&path).unwrap());
    from.seek(SeekFrom::Start(PIECE as u64)).unwrap();
    into.seek(SeekFrom::Start(4 * PIECE as u64)).unwrap();
    let clones = attachment.stat("vol", "range_vectors");
    assert_eq!(std::io::copy(&mut from.take(PIECE as u64), &mut into).unwrap(), PIECE as u64);
    assert!(attachment.stat("vol", "range_vectors") > clones, "the copy was a clone");
    assert!(read(device, 4 * PIECE) == second, "through copy_file_range");
    drop((open, into));
    place.detach("vol");
    attachment.ended();
}
