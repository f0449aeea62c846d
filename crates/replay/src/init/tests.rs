#![allow(clippy::disallowed_methods, reason = "looks at the real tree")]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use esker_trace::{Word, Xattr};

use super::*;

const MTIME: i64 = 1_600_000_000_123_456_789;

fn snapshot(entries: &[(&str, Entry)]) -> Snapshot {
    Snapshot { entries: entries.iter().map(|(path, entry)| (PathBytes::from(*path), entry.clone())).collect() }
}

fn file(size: u64) -> Entry {
    Entry::plain(EntryKind::File { size })
}

fn link(target: &str) -> Entry {
    Entry::plain(EntryKind::Symlink { target: PathBytes::from(target) })
}

fn rich() -> Snapshot {
    let xattrs = vec![Xattr { name: Word::from("user.colour"), len: 9 }];
    snapshot(&[
        ("/implied/deep/file", file(100_000)),
        ("/attributes", Entry { xattrs, mode: 0o600, modified: MTIME, ..file(10) }),
        ("/one", Entry { group: 3, ..file(5000) }),
        ("/two", Entry { group: 3, ..file(5000) }),
        ("/link", link("/implied/deep")),
        ("/dangling", link("../../nowhere")),
        ("/fifo", Entry::plain(EntryKind::Fifo)),
        ("/socket", Entry::plain(EntryKind::Socket)),
        ("/dev/random", Entry::plain(EntryKind::Device { block: false, major: 1, minor: 8 })),
        ("/closed", Entry { mode: 0o500, modified: MTIME, ..Entry::plain(EntryKind::Directory) }),
        ("/closed/inside", file(0)),
    ])
}

fn options(mode: InitMode) -> InitOptions {
    InitOptions { mode, force: false, drop_caches: false, seed: 1 }
}

fn make(dir: &Path, snapshot: &Snapshot, mode: InitMode) -> Result<Initialised, InitError> {
    initialise(dir, snapshot, options(mode), &mut |_| {}).map(|(_, done)| done)
}

/// All that a program could see of a tree, but inode numbers.
fn picture(root: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    let mut names: Vec<_> = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    for path in names {
        let stat = fs::symlink_metadata(&path).unwrap();
        let target = fs::read_link(&path).unwrap_or_default();
        let size = if stat.is_file() { stat.len() } else { 0 };
        let links = if stat.is_dir() { 0 } else { stat.nlink() };
        lines.push(format!("{path:?} {:o} {size} {links} {target:?}", stat.mode()));
        if stat.is_dir() {
            lines.extend(picture(&path));
        }
    }
    lines
}

#[test]
fn a_full_initialisation_makes_everything() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    let mut last = Progress::default();
    let (root, done) = initialise(&run, &rich(), options(InitMode::Full), &mut |now| last = now).unwrap();
    assert_eq!((last.entries, last.bytes), (last.entries_all, 105_010 + 5000));
    assert_eq!(done.made, last.entries_all);
    let at = |path: &str| root.path().join(path);
    let deep = fs::metadata(at("implied/deep/file")).unwrap();
    assert_eq!(deep.len(), 100_000);
    assert!(deep.blocks() * 512 >= 100_000, "holes do not reach a device");
    let attributes = fs::metadata(at("attributes")).unwrap();
    assert_eq!(attributes.permissions().mode() & 0o7777, 0o600);
    assert_eq!(attributes.mtime() * 1_000_000_000 + attributes.mtime_nsec(), MTIME);
    assert_eq!(fs::metadata(at("one")).unwrap().ino(), fs::metadata(at("two")).unwrap().ino());
    assert_eq!(fs::read_link(at("link")).unwrap(), Path::new("/implied/deep"));
    let closed = fs::metadata(at("closed")).unwrap();
    assert_eq!((closed.mode() & 0o7777, closed.mtime()), (0o500, MTIME / 1_000_000_000));
    let value = rustix::fs::getxattr(at("attributes"), "user.colour", &mut [0u8; 64][..]);
    match value {
        Ok(len) => assert_eq!(len, 9),
        Err(e) => assert!(done.notes.iter().any(|note| note.contains("user.colour")), "{e} was not told"),
    }
    assert_eq!(fs::symlink_metadata(at("fifo")).unwrap().mode() & 0o170_000, 0o010_000);
    assert_eq!(fs::symlink_metadata(at("socket")).unwrap().mode() & 0o170_000, 0o140_000);
}

#[test]
fn data_is_neither_zero_nor_compressible_nor_shared() {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path(), &snapshot(&[("/a", file(3 << 20)), ("/b", file(3 << 20))]), InitMode::Full).unwrap();
    let read = |name| fs::read(dir.path().join(TREE).join(name)).unwrap();
    let (a, b) = (read("a"), read("b"));
    let blocks: std::collections::BTreeSet<&[u8]> = a.chunks(4096).chain(b.chunks(4096)).collect();
    assert_eq!(blocks.len(), 2 * (3 << 20) / 4096, "no block comes twice");
    let ones: u64 = a.iter().map(|byte| u64::from(byte.count_ones())).sum();
    let share = ones as f64 / (a.len() * 8) as f64;
    assert!((0.49..0.51).contains(&share), "{share}");
}

#[test]
fn a_delta_initialisation_undoes_whatever_was_done() {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path(), &rich(), InitMode::Full).unwrap();
    let root = dir.path().join(TREE);
    let before = picture(&root);
    fs::rename(root.join("implied"), root.join("moved")).unwrap();
    fs::write(root.join("attributes"), vec![0; 70_000]).unwrap();
    fs::remove_file(root.join("two")).unwrap();
    fs::write(root.join("two"), "alone").unwrap();
    fs::hard_link(root.join("one"), root.join("three")).unwrap();
    fs::remove_file(root.join("link")).unwrap();
    symlink("elsewhere", root.join("link")).unwrap();
    fs::remove_file(root.join("fifo")).unwrap();
    fs::create_dir_all(root.join("fifo/was/one")).unwrap();
    fs::set_permissions(root.join("closed"), fs::Permissions::from_mode(0o777)).unwrap();
    fs::write(root.join("closed/more"), "x").unwrap();
    assert_ne!(picture(&root), before);
    let done = make(dir.path(), &rich(), InitMode::Delta).unwrap();
    assert_eq!(picture(&root), before);
    assert!(done.removed >= 6 && done.made >= 4, "{done:?}");
}

#[test]
fn a_delta_touches_only_what_changed() {
    let dir = tempfile::tempdir().unwrap();
    let entries: Vec<(String, Entry)> = (0..300).map(|at| (format!("/d{}/f{at}", at % 7), file(2000))).collect();
    let entries: Vec<(&str, Entry)> = entries.iter().map(|(path, entry)| (path.as_str(), entry.clone())).collect();
    let tree = snapshot(&entries);
    make(dir.path(), &tree, InitMode::Full).unwrap();
    let root = dir.path().join(TREE);
    let times = |name: &str| fs::metadata(root.join(name)).unwrap().ctime_nsec();
    let untouched = times("d1/f1");
    fs::write(root.join("d0/f0"), "short").unwrap();
    fs::remove_file(root.join("d2/f2")).unwrap();
    let done = make(dir.path(), &tree, InitMode::Delta).unwrap();
    assert_eq!((done.made, done.changed, done.removed), (1, 1, 0));
    assert_eq!(done.bytes, 2000 + 1995);
    assert_eq!(times("d1/f1"), untouched);
    let again = make(dir.path(), &tree, InitMode::Delta).unwrap();
    assert_eq!((again.made, again.changed, again.removed, again.bytes), (0, 0, 0, 0));
}

#[test]
fn foreign_directories_are_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("thesis.tex"), "years of work").unwrap();
    let refused = make(dir.path(), &rich(), InitMode::Full).unwrap_err();
    assert!(refused.to_string().contains("thesis.tex"), "{refused}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    let forced = InitOptions { force: true, ..options(InitMode::Full) };
    initialise(dir.path(), &rich(), forced, &mut |_| {}).unwrap();
    assert_eq!(fs::read_to_string(dir.path().join("thesis.tex")).unwrap(), "years of work");
}

#[test]
fn a_tree_that_nobody_of_us_made_is_foreign_too() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join(TREE)).unwrap();
    assert!(matches!(make(dir.path(), &rich(), InitMode::Full), Err(InitError::Foreign { .. })));
    assert!(matches!(make(&dir.path().join("none"), &rich(), InitMode::None), Err(InitError::Absent { .. })));
}

#[test]
fn links_inside_the_tree_do_not_lead_an_initialisation_out() {
    let dir = tempfile::tempdir().unwrap();
    let outside = dir.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("kept"), "k").unwrap();
    let run = dir.path().join("run");
    let tree = snapshot(&[("/d/file", file(10))]);
    make(&run, &tree, InitMode::Full).unwrap();
    fs::remove_dir_all(run.join(TREE).join("d")).unwrap();
    symlink(&outside, run.join(TREE).join("d")).unwrap();
    make(&run, &tree, InitMode::Delta).unwrap();
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    assert!(
        run.join(TREE).join("d/file").is_file()
            && !fs::symlink_metadata(run.join(TREE).join("d")).unwrap().is_symlink()
    );
}

#[test]
fn a_full_device_is_told_with_all_that_matters() {
    let dir = tempfile::tempdir().unwrap();
    let mounted = rustix::mount::mount("none", dir.path(), "tmpfs", rustix::mount::MountFlags::empty(), c"size=1m");
    if let Err(e) = mounted {
        return esker_skip::skip(
            esker_skip::Ability::Attach,
            format_args!("a small file system cannot be mounted: {e}"),
        );
    }
    let failed = make(dir.path(), &snapshot(&[("/a", file(1000)), ("/b", file(4 << 20))]), InitMode::Full);
    let unmounted = rustix::mount::unmount(dir.path(), rustix::mount::UnmountFlags::DETACH);
    unmounted.unwrap();
    let Err(InitError::NoSpace { path, made, needed, .. }) = failed else { panic!("{failed:?}") };
    assert_eq!((path.to_string().as_str(), made, needed), ("/b", 1, 1000 + (4 << 20)));
}

#[test]
fn overlaid_trees_are_united() {
    let one =
        snapshot(&[("/a", file(10)), ("/x", Entry { group: 1, ..file(7) }), ("/y", Entry { group: 1, ..file(7) })]);
    let other = snapshot(&[
        ("/a", file(30)),
        ("/b", link("a")),
        ("/x", Entry { group: 9, ..file(7) }),
        ("/z", Entry { group: 9, ..file(7) }),
    ]);
    let (union, conflicts) = overlay(&[&one, &other]).unwrap();
    assert_eq!(union.entries.len(), 5);
    assert_eq!(conflicts, [Conflict { path: PathBytes::from("/a"), sizes: (10, 30) }]);
    let group = |path: &str| union.entries[&PathBytes::from(path)].group;
    assert!(group("/x") > 0 && group("/x") == group("/y") && group("/x") == group("/z"));
    let refused = overlay(&[&one, &snapshot(&[("/a", link("b"))])]).unwrap_err();
    assert_eq!((refused.one, refused.other), ("a file", "a symbolic link"));
}
