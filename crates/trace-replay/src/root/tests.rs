#![allow(clippy::disallowed_methods, reason = "looks at the real tree")]

use std::fs;
use std::os::unix::fs::symlink;

use super::*;

/// A tree `tree` beside a directory `outside` that no path may reach.
fn scene() -> (tempfile::TempDir, Root) {
    let dir = crate::testing::private_dir();
    fs::create_dir_all(dir.path().join("tree/a/b")).unwrap();
    fs::create_dir(dir.path().join("outside")).unwrap();
    fs::write(dir.path().join("outside/secret"), "s").unwrap();
    let root = Root::of(RunDir::open(dir.path()).unwrap()).unwrap();
    (dir, root)
}

fn make(root: &Root, base: Base<'_>, path: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE;
    root.open_at(base, path.as_bytes(), flags, Mode::from_raw_mode(0o644))
}

#[test]
fn climbing_and_absolute_paths_stay_inside() {
    let (dir, root) = scene();
    for path in ["/x1", "/../x2", "/a/b/../../../../../x3", "../x4", "/a/../../outside/../x5"] {
        let made = make(&root, Base::Root, path);
        assert!(made.is_ok() || made.as_ref().err() == Some(&Errno::NOENT), "{path}: {made:?}");
    }
    for name in ["x1", "x2", "x3", "x4"] {
        assert!(dir.path().join("tree").join(name).exists(), "{name}");
    }
    assert_eq!(fs::read_dir(dir.path().join("outside")).unwrap().count(), 1);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
}

#[test]
fn links_that_lead_out_lead_nowhere() {
    let (dir, root) = scene();
    let outside = dir.path().join("outside");
    symlink(&outside, dir.path().join("tree/absolute")).unwrap();
    symlink("../outside", dir.path().join("tree/relative")).unwrap();
    symlink("../../../../outside", dir.path().join("tree/a/b/deep")).unwrap();
    for path in ["/absolute/new", "/relative/new", "/a/b/deep/new", "/absolute/secret"] {
        assert_eq!(make(&root, Base::Root, path).err(), Some(Errno::NOENT), "{path}");
        let place = root.place(&mut Cache::empty(), Base::Root, path.as_bytes());
        assert_eq!(place.err(), Some(Errno::NOENT), "{path}");
    }
    let place = root.place(&mut Cache::empty(), Base::Root, b"/absolute/");
    assert_eq!(place.err(), Some(Errno::NOENT), "a slash follows the link, inside");
    assert_eq!(fs::read_dir(outside).unwrap().count(), 1);
}

#[test]
fn absolute_links_are_relative_to_the_root() {
    let (_dir, root) = scene();
    symlink("/a/b", root.path().join("link")).unwrap();
    make(&root, Base::Root, "/link/new").unwrap();
    assert!(root.path().join("a/b/new").exists());
    assert_eq!(fs::read_link(root.path().join("link")).unwrap(), Path::new("/a/b"));
}

#[test]
fn relative_paths_climb_out_of_their_directory_but_not_of_the_root() {
    let (_dir, root) = scene();
    symlink("/a", root.path().join("a/b/up")).unwrap();
    let dir = root.open_at(Base::Root, b"/a/b", OFlags::PATH, Mode::empty()).unwrap();
    let base = Base::Dir(dir.as_fd(), 7);
    for path in ["here", "../sibling", "../../top", "../../../../../clamped", "up/linked"] {
        make(&root, base, path).unwrap();
    }
    for path in ["a/b/here", "a/sibling", "top", "clamped", "a/linked"] {
        assert!(root.path().join(path).exists(), "{path}");
    }
}

#[test]
fn what_is_kept_is_forgotten_when_something_moves() {
    let (_dir, root) = scene();
    let mut cache = Cache::empty();
    let look = |cache: &mut Cache| {
        let place = root.place(cache, Base::Root, b"/a/b/file").unwrap();
        rustix::fs::statat(&place.dir, &place.leaf, AtFlags::SYMLINK_NOFOLLOW).map(|stat| stat.st_size)
    };
    fs::write(root.path().join("a/b/file"), "old").unwrap();
    assert_eq!(look(&mut cache), Ok(3));
    fs::rename(root.path().join("a/b"), root.path().join("a/c")).unwrap();
    fs::create_dir(root.path().join("a/b")).unwrap();
    fs::write(root.path().join("a/b/file"), "newer").unwrap();
    assert_eq!(look(&mut cache), Ok(3), "kept until a move is reported");
    root.shift();
    assert_eq!(look(&mut cache), Ok(5));
}

#[test]
fn odd_paths_have_a_place() {
    let (_dir, root) = scene();
    fs::write(root.path().join("file"), "").unwrap();
    let leaf = |path: &str| {
        let place = root.place(&mut Cache::empty(), Base::Root, path.as_bytes());
        place.map(|place| place.leaf.into_string().unwrap())
    };
    let check = |path, expected: Result<&str, Errno>| assert_eq!(leaf(path), expected.map(str::to_string), "{path}");
    check("/", Ok("."));
    check("/a/..", Ok("."));
    check("/a/.", Ok("."));
    check("//a///b//", Ok("b"));
    check("/a/new/", Ok("new"));
    check("/file/", Err(Errno::NOTDIR));
    check("/file/x", Err(Errno::NOTDIR));
    check("", Err(Errno::NOENT));
    check("/nowhere/x", Err(Errno::NOENT));
}

#[test]
fn the_type_of_a_mount_is_told_by_its_number() {
    let mounts = "36 35 98:0 /m /mnt rw,noatime master:1 - ext4 /dev/x rw\n37 35 0:22 / /proc rw - proc proc rw\n";
    assert_eq!(file_system_of(36, mounts).as_deref(), Some("ext4"));
    assert_eq!(file_system_of(37, mounts).as_deref(), Some("proc"));
    assert_eq!(file_system_of(35, mounts), None);
}

#[test]
fn a_path_beyond_the_longest_leads_on_and_not_out() {
    let (dir, root) = scene();
    let name = "n".repeat(200);
    let mut path = String::new();
    for _ in 0..50 {
        path.push('/');
        path.push_str(&name);
        let place = root.place(&mut Cache::empty(), Base::Root, path.as_bytes()).unwrap();
        rustix::fs::mkdirat(&place.dir, &place.leaf, Mode::RWXU).unwrap();
    }
    assert!(path.len() > 2 * PATH_MAX);
    make(&root, Base::Root, &format!("{path}/file")).unwrap();
    make(&root, Base::Root, &format!("{path}/../beside")).unwrap();
    let deep = root.handle(Base::Root, path.as_bytes(), true).unwrap();
    assert!(rustix::fs::statat(&deep, "file", AtFlags::empty()).is_ok());
    assert!(rustix::fs::statat(&deep, "../beside", AtFlags::empty()).is_ok());
    symlink("/outside", dir.path().join("tree/out")).unwrap();
    rustix::fs::symlinkat("/../../../../outside/secret", &deep, "out").unwrap();
    assert!(root.open_at(Base::Root, format!("{path}/out").as_bytes(), OFlags::RDONLY, Mode::empty()).is_err());
}
