//! A player that is alone, with descriptors of its own.

#![allow(clippy::disallowed_types, reason = "a file is looked at after its directory is gone")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::*;

/// What the descriptors listed in a directory of the kernel lead to.
fn open_in(listed: &Path) -> Vec<PathBuf> {
    // Threads and descriptors come and go meanwhile.
    let entries = fs::read_dir(listed).into_iter().flatten().flatten();
    entries.filter_map(|entry| fs::read_link(entry.path()).ok()).collect()
}

/// Whether any thread of this process has `file` open, and whether the process itself has.
fn who_has_open(file: &Path) -> [bool; 2] {
    let tasks = fs::read_dir("/proc/self/task").unwrap().flatten();
    let has = |listed: &Path| open_in(listed).iter().any(|open| open == file);
    [tasks.map(|task| task.path().join("fd")).any(|listed| has(&listed)), has(Path::new("/proc/self/fd"))]
}

/// A thread that opens a file, computes for 300 ms, and reads it; with another thread that does nothing of interest.
fn reader(threads: u32) -> Program {
    let mut draft = Draft::of(threads);
    draft.file("/f", 10);
    draft.open(0, "/f", OpenFlags::READ, 3);
    draft.now += 300_000_000;
    draft.call(0, Call::Read { fd: Fd(3), len: 100, parts: 0 }, Outcome::Done(10));
    draft.program()
}

#[test]
fn who_is_alone_shares_descriptors_with_nobody_and_leaves_none_open() {
    for (threads, shared) in [(1, false), (2, true)] {
        let (sender, seen) = mpsc::channel();
        let watch = move |root: &Root| {
            let file = root.path().canonicalize().unwrap().join("f");
            thread::spawn(move || {
                thread::sleep(Duration::from_millis(150));
                sender.send((who_has_open(&file), file)).unwrap();
            });
        };
        let (finished, report) = play_after(&reader(threads), ROOT(), Speed::Scaled(1.0), options(), watch);
        let (open, file) = seen.recv().unwrap();
        assert_eq!(open, [true, shared], "{threads} threads");
        assert_eq!((finished.stuck, report.mismatches.count), (None, 0));
        assert_eq!(who_has_open(&file), [false, false], "{threads} threads");
    }
}

#[test]
fn numbers_of_descriptors_lead_to_the_files_of_who_is_alone() {
    let mut draft = Draft::of(1);
    draft.file("/f", 10);
    let file = Object::Path { at: At::cwd("/f"), follow: true };
    draft.call(0, Call::Chmod { file: file.clone(), mode: 0o640 }, Outcome::Done(0));
    draft.call(0, Call::Access { file, mode: AccessMode::empty() }, Outcome::Done(0));
    let (sender, changed) = mpsc::channel();
    // What is changed is looked at before the directory goes, by its descriptor.
    let watch = move |root: &Root| sender.send(fs::File::open(root.path().join("f")).unwrap()).unwrap();
    let (_, report) = play_after(&draft.program(), ROOT(), Speed::Afap, options(), watch);
    assert_eq!(report.mismatches.count, 0, "{:?}", report.mismatches.listed.first());
    assert_eq!(changed.recv().unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o640);
}
