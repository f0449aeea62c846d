#![allow(clippy::disallowed_methods, reason = "looks at the real tree")]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use esker_base::Progress;
use esker_trace_calls::{Word, Xattr};

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
    InitOptions { mode, force: false, keep_modes: false, max_bytes: None, drop_caches: false, seed: 1 }
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
    let dir = crate::testing::private_dir();
    let run = dir.path().join("run");
    let mut told = Vec::new();
    let mut hear = |now: Progress<'_>| told.push((now.done, now.total));
    let (root, done) = initialise(&run, &rich(), options(InitMode::Full), &mut hear).unwrap();
    assert!(told.is_sorted());
    assert_eq!(told.last(), Some(&(105_010 + 5000, Some(105_010 + 5000))));
    assert_eq!(done.made, done.entries);
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
    let dir = crate::testing::private_dir();
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
    let dir = crate::testing::private_dir();
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
    let dir = crate::testing::private_dir();
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
    let dir = crate::testing::private_dir();
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
    let dir = crate::testing::private_dir();
    fs::create_dir(dir.path().join(TREE)).unwrap();
    assert!(matches!(make(dir.path(), &rich(), InitMode::Full), Err(InitError::Foreign { .. })));
    assert!(matches!(make(&dir.path().join("none"), &rich(), InitMode::None), Err(InitError::Absent { .. })));
}

#[test]
fn links_inside_the_tree_do_not_lead_an_initialisation_out() {
    let dir = crate::testing::private_dir();
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

/// Calls `work` on a file system of its own, or says that there can be none.
fn on_small_file_system(options: &std::ffi::CStr, work: impl FnOnce(&Path)) {
    let dir = crate::testing::private_dir();
    let mounted = rustix::mount::mount("none", dir.path(), "tmpfs", rustix::mount::MountFlags::empty(), options);
    if let Err(e) = mounted {
        return esker_skip::skip(
            esker_skip::Ability::Attach,
            format_args!("a small file system cannot be mounted: {e}"),
        );
    }
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    work(dir.path());
    rustix::mount::unmount(dir.path(), rustix::mount::UnmountFlags::DETACH).unwrap();
}

#[test]
fn a_full_device_is_told_with_all_that_matters() {
    on_small_file_system(c"size=1m,nr_inodes=8", |dir| {
        let paths: Vec<String> = (0..20).map(|at| format!("/f{at:02}")).collect();
        let entries: Vec<(&str, Entry)> = paths.iter().map(|path| (path.as_str(), file(100))).collect();
        let failed = make(dir, &snapshot(&entries), InitMode::Full);
        let Err(InitError::NoSpace { path, made, all, needed, .. }) = failed else { panic!("{failed:?}") };
        assert_eq!((path.to_string(), all, needed), (format!("/f{made:02}"), 20, 2000));
    });
}

#[test]
fn a_tree_larger_than_the_device_is_refused_before_the_first_byte() {
    on_small_file_system(c"size=1m", |dir| {
        let tree = |size| snapshot(&[("/a", file(1000)), ("/b", file(size))]);
        for size in [4 << 20, 1 << 62, u64::MAX] {
            let failed = make(dir, &tree(size), InitMode::Full);
            let Err(InitError::TooLarge { needed, free, .. }) = failed else { panic!("{size}: {failed:?}") };
            assert!(needed >= size && free <= 1 << 20, "{needed} {free}");
            assert_eq!(fs::read_dir(dir.join(TREE)).unwrap().count(), 0, "nothing was written");
        }
        make(dir, &tree(600 << 10), InitMode::Full).unwrap();
        // What is there need not be free once more.
        make(dir, &tree(700 << 10), InitMode::Delta).unwrap();
        let two_names = [("/x", Entry { group: 1, ..file(600 << 10) }), ("/y", Entry { group: 1, ..file(600 << 10) })];
        make(dir, &snapshot(&two_names), InitMode::Full).unwrap();
    });
}

#[test]
fn a_sparse_file_stays_sparse_and_needs_only_its_data() {
    on_small_file_system(c"size=1m", |dir| {
        let sparse = |holes| snapshot(&[("/a", Entry { holes, ..file(1 << 40) })]);
        let blocks = |dir: &Path| {
            let stat = fs::metadata(dir.join(TREE).join("a")).unwrap();
            assert_eq!(stat.len(), 1 << 40);
            stat.blocks() * 512
        };
        let failed = make(dir, &sparse(0), InitMode::Full);
        assert!(matches!(failed, Err(InitError::TooLarge { .. })), "{failed:?}");
        for (mode, data) in [(InitMode::Full, 300 << 10), (InitMode::Delta, 600 << 10), (InitMode::Delta, 100 << 10)] {
            make(dir, &sparse((1 << 40) - data), mode).unwrap();
            assert_eq!(blocks(dir), data, "{mode:?}");
        }
    });
}

#[test]
fn more_bytes_than_allowed_are_refused_before_anything_is_made() {
    let dir = crate::testing::private_dir();
    let run = dir.path().join("run");
    let with = |max| InitOptions { max_bytes: Some(max), ..options(InitMode::Full) };
    let tree = snapshot(&[("/a", file(1000)), ("/b", file(u64::MAX))]);
    let refused = initialise(&run, &tree, with(5000), &mut |_| {}).err();
    assert!(matches!(refused, Some(InitError::OverMax { max: 5000, .. })), "{refused:?}");
    assert!(!run.exists());
    let tree = snapshot(&[("/a", file(1000))]);
    assert!(initialise(&run, &tree, with(999), &mut |_| {}).is_err());
    initialise(&run, &tree, with(1000), &mut |_| {}).unwrap();
}

#[test]
fn a_planted_tree_or_manifest_leads_nowhere() {
    let dir = crate::testing::private_dir();
    let victim = dir.path().join("victim");
    fs::create_dir_all(victim.join("home")).unwrap();
    fs::write(victim.join("home/file"), "precious").unwrap();
    let trap = |name: &str, plant: &dyn Fn(&Path)| {
        let trap = dir.path().join(name);
        fs::create_dir(&trap).unwrap();
        plant(&trap);
        for mode in [InitMode::Full, InitMode::Delta, InitMode::None] {
            for force in [false, true] {
                let made = initialise(&trap, &rich(), InitOptions { force, ..options(mode) }, &mut |_| {});
                assert!(made.is_err(), "{name} {mode:?} {force}");
            }
        }
        assert_eq!(fs::read_to_string(victim.join("home/file")).unwrap(), "precious", "{name}");
        assert_eq!(fs::read_dir(&victim).unwrap().count(), 1, "{name}");
    };
    trap("tree", &|at| {
        symlink(&victim, at.join(TREE)).unwrap();
        fs::write(at.join(MANIFEST), "{}").unwrap();
    });
    trap("manifest", &|at| symlink(victim.join("home/file"), at.join(MANIFEST)).unwrap());
    trap("shm", &|at| symlink(&victim, at.join(SHM)).unwrap());
}

#[test]
fn a_manifest_counts_only_for_the_tree_that_it_names() {
    let dir = crate::testing::private_dir();
    let run = dir.path().join("run");
    make(&run, &rich(), InitMode::Full).unwrap();
    let whole = fs::read_to_string(run.join(MANIFEST)).unwrap();
    let check = |text: &str, counts: bool| {
        fs::write(run.join(MANIFEST), text).unwrap();
        let made = make(&run, &rich(), InitMode::Delta);
        assert_eq!(made.is_ok(), counts, "{made:?}");
    };
    check("{}", false);
    check(&whole[..whole.len() / 2], false);
    check(&whole.replacen("\"esker_replay_manifest\":2", "\"esker_replay_manifest\":1", 1), false);
    check(&whole, true);
    fs::rename(run.join(TREE), dir.path().join("old")).unwrap();
    fs::create_dir(run.join(TREE)).unwrap();
    fs::write(run.join(TREE).join("of-others"), "kept").unwrap();
    check(&whole, false);
    assert!(run.join(TREE).join("of-others").exists());
}

#[test]
fn a_run_directory_becomes_private_unless_others_have_files_there() {
    let mode = |dir: &Path| fs::metadata(dir).unwrap().mode() & 0o7777;
    for (foreign, expected) in [(false, 0o700), (true, 0o755)] {
        let dir = crate::testing::private_dir();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        if foreign {
            fs::write(dir.path().join("thesis.tex"), "").unwrap();
        }
        for force in [foreign, false] {
            initialise(dir.path(), &rich(), InitOptions { force, ..options(InitMode::Full) }, &mut |_| {}).unwrap();
            assert_eq!(mode(dir.path()), expected, "foreign {foreign}");
        }
    }
}

#[test]
fn what_grants_rights_is_restored_only_for_owners_of_the_trace() {
    let xattr = |name: &str| Xattr { name: Word::from(name), len: 20 };
    let xattrs = vec![xattr("security.capability"), xattr("trusted.x"), xattr("user.y")];
    let tree = snapshot(&[
        ("/set", Entry { mode: 0o6755, ..file(10) }),
        ("/dir", Entry { mode: 0o3777, ..Entry::plain(EntryKind::Directory) }),
        ("/attributes", Entry { xattrs, ..file(10) }),
    ]);
    let dir = crate::testing::private_dir();
    let mode = |name: &str| fs::metadata(dir.path().join(TREE).join(name)).unwrap().mode() & 0o7777;
    let with = |keep_modes, mode| {
        let options = InitOptions { keep_modes, ..options(mode) };
        initialise(dir.path(), &tree, options, &mut |_| {}).unwrap().1
    };
    let counts = |done: &Initialised| done.adapted.iter().map(|one| one.count).collect::<Vec<_>>();
    let check_stripped = |done: &Initialised| {
        assert_eq!((mode("set"), mode("dir")), (0o755, 0o1777));
        assert_eq!(crate::audit::privileges(dir.path()), Ok(Vec::new()));
        assert_eq!(counts(done), [2, 2], "attributes and modes");
    };
    check_stripped(&with(false, InitMode::Full));
    let kept = with(true, InitMode::Delta);
    assert_eq!((mode("set"), mode("dir"), kept.adapted.len()), (0o6755, 0o3777, 0));
    // The manifest of a run that kept them proves nothing for one that does not.
    check_stripped(&with(false, InitMode::Delta));
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
