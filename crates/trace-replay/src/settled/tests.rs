#![allow(clippy::disallowed_methods, reason = "changes the real tree")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use esker_trace_calls::Snapshot;

use super::*;
use crate::init::initialise;
use crate::testing::{FULL_INIT, private_dir};

fn file(size: u64, group: u64) -> Entry {
    Entry { group, ..Entry::plain(EntryKind::File { size }) }
}

/// What a program left: files of one and two names, links, FIFOs, sockets and a device.
fn left() -> FinalTree {
    let link = EntryKind::Symlink { target: PathBytes::from("../elsewhere") };
    let device = EntryKind::Device { block: true, major: 8, minor: 0 };
    let entries = [
        ("/w", Entry::plain(EntryKind::Directory)),
        ("/w/a", file(10, 0)),
        ("/w/d", Entry::plain(EntryKind::Directory)),
        ("/w/d/one", file(7, 1)),
        ("/w/d/other", file(7, 1)),
        ("/w/device", Entry::plain(device)),
        ("/w/fifo", Entry::plain(EntryKind::Fifo)),
        ("/w/link", Entry::plain(link)),
        ("/w/rights", Entry { mode: 0o4755, ..file(1, 0) }),
        ("/w/socket", Entry::plain(EntryKind::Socket)),
    ];
    let entries = entries.map(|(path, entry)| (PathBytes::from(path), entry)).into();
    let paths = |path: &str| vec![PathBytes::from(path)];
    FinalTree { roots: paths("/w"), without: paths("/w/mount"), tree: Snapshot { entries } }
}

/// Differences after a change of the tree that the program left.
fn after(change: impl FnOnce(&Path)) -> TreeDifferences {
    let dir = private_dir();
    let (root, _) = initialise(dir.path(), &left().tree, FULL_INIT, &mut |_| {}).expect("a tree");
    change(&root.path().join("w"));
    differences(&root, &left(), false).expect("the tree is there")
}

/// Of known permissions: other tests change the mask of this process.
fn directory(path: &Path) {
    fs::create_dir(path).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn check(change: impl FnOnce(&Path), path: &str, expected: &str, actual: &str) {
    let found = after(change);
    let [path, expected, actual] = [path, expected, actual].map(str::to_string);
    assert_eq!(found.listed, [TreeDifference { path, expected, actual }]);
    assert_eq!(found.count, 1);
}

#[test]
fn a_tree_as_the_program_left_it_does_not_differ() {
    let found = after(|_| {});
    assert_eq!((found.count, found.compared, found.not_compared), (0, 10, None), "{:?}", found.listed);
}

#[test]
fn names_are_compared() {
    check(|at| fs::remove_file(at.join("a")).unwrap(), "/w/a", "a file of 10 bytes, mode 0644", "nothing");
    check(|at| directory(&at.join("new")), "/w/new", "nothing", "a directory, mode 0755");
}

#[test]
fn what_was_not_looked_at_is_not_compared() {
    let found = after(|at| {
        fs::create_dir(at.join("mount")).unwrap();
        fs::write(at.join("mount/inside"), "x").unwrap();
        fs::write(at.join("../beside"), "x").unwrap();
    });
    assert_eq!((found.count, found.compared), (0, 10));
}

#[test]
fn types_sizes_and_permissions_are_compared() {
    let file = "a file of 10 bytes, mode 0644";
    check(|at| fs::write(at.join("a"), "123").unwrap(), "/w/a", file, "a file of 3 bytes, mode 0644");
    let mode = |at: &Path| fs::set_permissions(at.join("a"), fs::Permissions::from_mode(0o600)).unwrap();
    check(mode, "/w/a", file, "a file of 10 bytes, mode 0600");
    let fifo = |at: &Path| {
        fs::remove_file(at.join("fifo")).unwrap();
        directory(&at.join("fifo"));
    };
    check(fifo, "/w/fifo", "a FIFO, mode 0644", "a directory, mode 0755");
}

#[test]
fn links_are_compared() {
    let target = |at: &Path| {
        fs::remove_file(at.join("link")).unwrap();
        symlink("elsewhere", at.join("link")).unwrap();
    };
    check(target, "/w/link", "a link to ../elsewhere", "a link to elsewhere");
    let split = |at: &Path| {
        fs::copy(at.join("d/other"), at.join("d/copy")).unwrap();
        fs::rename(at.join("d/copy"), at.join("d/other")).unwrap();
    };
    check(split, "/w/d/other", "a name of /w/d/one", "a name of /w/d/other");
}

#[test]
fn a_tree_that_is_gone_differs_as_a_whole() {
    let found = after(|at| fs::remove_dir_all(at).unwrap());
    assert_eq!((found.count, found.compared), (10, 10));
}
