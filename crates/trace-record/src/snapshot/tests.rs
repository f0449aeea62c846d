use std::os::unix::fs::symlink;

use super::*;

/// What is taken, by path below the folder.
fn taken(
    folder: &Path,
    take: impl FnOnce(&mut Snapshot, &mut dyn FnMut(&PathBytes, &Entry)),
) -> BTreeMap<String, Entry> {
    let mut entries = BTreeMap::new();
    let mut snapshot = Snapshot::new(i64::MAX);
    take(&mut snapshot, &mut |path, entry| {
        let path = path.to_string();
        if let Some(below) = path.strip_prefix(folder.to_str().expect("a plain name")) {
            assert!(entries.insert(below.to_string(), entry.clone()).is_none(), "{path} twice");
        }
    });
    entries
}

fn tree() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("scratch");
    let at = |name: &str| folder.path().join(name);
    fs::create_dir_all(at("d/e")).expect("scratch");
    fs::write(at("d/e/file"), "12345").expect("scratch");
    fs::hard_link(at("d/e/file"), at("again")).expect("scratch");
    symlink("d", at("link")).expect("scratch");
    symlink("nowhere", at("dangling")).expect("scratch");
    folder
}

#[test]
fn a_tree_is_taken_whole() {
    let folder = tree();
    let entries = taken(folder.path(), |snapshot, give| {
        snapshot.walk(folder.path(), &mut |path, entry| give(path, entry)).expect("it is there");
    });
    let names: Vec<&str> = entries.keys().map(String::as_str).collect();
    assert_eq!(names, ["", "/again", "/d", "/d/e", "/d/e/file", "/dangling", "/link"]);
    assert_eq!(entries["/d/e/file"].kind, EntryKind::File { size: 5 });
    assert_eq!(entries["/link"].kind, EntryKind::Symlink { target: PathBytes::from("d") });
    assert!(entries["/again"].group > 0);
    assert_eq!(entries["/again"].group, entries["/d/e/file"].group);
}

#[test]
fn what_lies_on_a_path_is_taken_once_through_links() {
    let folder = tree();
    let path = folder.path().join("link/./e/../e/file");
    let entries = taken(folder.path(), |snapshot, give| {
        for _ in 0..2 {
            snapshot.touch(path.as_os_str().as_bytes(), &mut |path, entry| give(path, entry));
        }
    });
    let names: Vec<&str> = entries.keys().map(String::as_str).collect();
    assert_eq!(names, ["", "/d", "/d/e", "/d/e/file", "/link"]);
}

#[test]
fn a_path_leads_where_the_kernel_says() {
    let folder = tree();
    let real = folder.path().canonicalize().expect("it is there");
    let mut snapshot = Snapshot::new(i64::MAX);
    for (path, leads) in [("link/./e/../e/file", "d/e/file"), ("link/..", ""), ("d/e/new", "d/e/new"), ("link", "d")] {
        let resolved = snapshot.resolve(folder.path().join(path).as_os_str().as_bytes(), &mut |_, _| {});
        assert_eq!(PathBuf::from(OsString::from_vec(resolved)), real.join(leads), "{path}");
    }
}

#[test]
fn what_is_younger_than_the_recording_was_not_there_before() {
    let folder = tree();
    let mut snapshot = Snapshot::new(0);
    let mut seen = 0;
    snapshot.touch(folder.path().join("d/e/file").as_os_str().as_bytes(), &mut |_, _| seen += 1);
    assert_eq!(seen, 0);
    assert_eq!(snapshot.changed, 0);
}

#[test]
fn links_in_a_circle_end() {
    let folder = tempfile::tempdir().expect("scratch");
    symlink("b", folder.path().join("a")).expect("scratch");
    symlink("a", folder.path().join("b")).expect("scratch");
    let entries = taken(folder.path(), |snapshot, give| {
        let path = folder.path().join("a/x");
        snapshot.touch(path.as_os_str().as_bytes(), &mut |path, entry| give(path, entry));
    });
    assert_eq!(entries.len(), 3, "{entries:?}");
}

#[test]
fn holes_of_a_file_are_counted() {
    use std::os::unix::fs::FileExt;
    let folder = tempfile::tempdir().expect("scratch");
    let path = folder.path().join("sparse");
    let file = fs::File::create(&path).expect("scratch");
    file.write_all_at(&[1; 4096], 1 << 20).expect("scratch");
    file.set_len(8 << 20).expect("scratch");
    fs::write(folder.path().join("full"), [1; 200 << 10]).expect("scratch");
    let entries = taken(folder.path(), |snapshot, give| {
        snapshot.walk(folder.path(), &mut |path, entry| give(path, entry)).expect("it is there");
    });
    let holes = entries["/sparse"].holes;
    assert!((7 << 20..8 << 20).contains(&holes), "{holes}");
    assert_eq!(entries["/full"].holes, 0);
}

#[test]
fn a_file_that_was_moved_into_a_tree_was_not_there_before() {
    let folder = tree();
    let entries = taken(folder.path(), |snapshot, give| {
        snapshot.walk(folder.path(), &mut |path, entry| give(path, entry)).expect("it is there");
        fs::rename(folder.path().join("again"), folder.path().join("d/moved")).expect("moved");
        fs::rename(folder.path().join("d/e"), folder.path().join("new")).expect("moved");
        for name in ["d/moved", "new/file"] {
            snapshot.touch(folder.path().join(name).as_os_str().as_bytes(), &mut |path, entry| give(path, entry));
        }
    });
    assert!(entries.contains_key("/again") && entries.contains_key("/d/e/file"));
    assert!(["/d/moved", "/new", "/new/file"].iter().all(|name| !entries.contains_key(*name)), "{entries:?}");
}

#[test]
fn a_tree_beyond_the_longest_path_is_taken() {
    let folder = tempfile::tempdir().expect("scratch");
    let name = "n".repeat(200);
    let mut dir = rustix::fs::open(folder.path(), DIRECTORY, Mode::empty()).expect("opened");
    for _ in 0..30 {
        rustix::fs::mkdirat(&dir, &*name, Mode::RWXU).expect("made");
        dir = rustix::fs::openat(&dir, &*name, DIRECTORY, Mode::empty()).expect("opened");
    }
    let mut snapshot = Snapshot::new(i64::MAX);
    let mut taken = 0;
    snapshot.walk(folder.path(), &mut |path, _| taken += u32::from(path.len() > 4096)).expect("it is there");
    assert!(taken > 5 && snapshot.unreadable.is_empty(), "{taken} long paths");
}

#[test]
fn names_of_a_directory_that_is_read_are_taken_without_data() {
    let folder = tree();
    let at = |name: &str| folder.path().join(name).into_os_string().into_vec();
    let entries = taken(folder.path(), |snapshot, mut give| {
        snapshot.touch(&at("d/e/file"), &mut give);
        snapshot.list(&at(""));
        snapshot.list(&at("d/e"));
        fs::remove_file(folder.path().join("dangling")).expect("removed");
        snapshot.take_listed(&mut give);
    });
    let names: Vec<&str> = entries.keys().map(String::as_str).collect();
    assert_eq!(names, ["", "/again", "/d", "/d/e", "/d/e/file", "/link"], "what is gone is not taken");
    assert_eq!(entries["/d/e/file"].kind, EntryKind::File { size: 5 }, "a file that a call named keeps its size");
    assert_eq!(entries["/again"].kind, EntryKind::File { size: 0 });
}

#[test]
fn a_walked_directory_is_not_listed_again() {
    let folder = tree();
    let mut snapshot = Snapshot::new(i64::MAX);
    snapshot.walk(folder.path(), &mut |_, _| {}).expect("it is there");
    snapshot.list(folder.path().join("d").as_os_str().as_bytes());
    assert!(snapshot.listed.is_empty());
    snapshot.list(b"/usr");
    assert_eq!(snapshot.listed.len(), 1);
}
