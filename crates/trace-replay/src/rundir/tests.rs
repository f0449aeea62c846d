#![allow(clippy::disallowed_methods, reason = "looks at the real directory")]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use super::*;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_new_run_directory_is_private() {
    let dir = crate::testing::private_dir();
    RunDir::make(&dir.path().join("run")).unwrap();
    assert_eq!(mode(&dir.path().join("run")), 0o700);
}

#[test]
fn a_link_is_refused_with_and_without_a_slash() {
    let dir = crate::testing::private_dir();
    symlink(dir.path(), dir.path().join("link")).unwrap();
    for name in ["link", "link/", "link/."] {
        let refused = RunDir::make(&dir.path().join(name)).err();
        assert!(matches!(refused, Some(Unfit::Link)), "{name}: {refused:?}");
    }
}

#[test]
fn a_directory_that_others_may_write_is_refused() {
    let dir = crate::testing::private_dir();
    for bits in [0o777, 0o770, 0o702, 0o1777] {
        set_mode(dir.path(), bits);
        let refused = RunDir::open(dir.path()).err();
        assert!(matches!(refused, Some(Unfit::Writable { mode }) if mode == bits), "{bits:o}: {refused:?}");
    }
    set_mode(dir.path(), 0o755);
    assert!(RunDir::open(dir.path()).is_ok());
}

#[test]
fn a_directory_of_another_user_is_refused() {
    let dir = crate::testing::private_dir();
    // Only root can give a directory away; for all others the root directory is another user's.
    let of_another = match std::os::unix::fs::chown(dir.path(), Some(65_534), None) {
        Ok(()) => dir.path(),
        Err(_) => Path::new("/"),
    };
    let refused = RunDir::open(of_another).err();
    assert!(matches!(refused, Some(Unfit::Owner { .. })), "{refused:?}");
}

#[test]
fn names_in_it_lead_nowhere_else() {
    let dir = crate::testing::private_dir();
    let run_path = dir.path().join("run");
    let run = RunDir::make(&run_path).unwrap();
    fs::create_dir(dir.path().join("outside")).unwrap();
    fs::write(dir.path().join("outside/file"), "kept").unwrap();
    symlink("../outside", run_path.join("tree")).unwrap();
    symlink("../outside/file", run_path.join("manifest.json")).unwrap();
    symlink("../outside/file", run_path.join("manifest.json.new")).unwrap();
    assert_eq!(run.directory("tree").err(), Some(Errno::LOOP));
    assert_eq!(run.make_directory("tree").err(), Some(Errno::LOOP));
    assert!(!run.is_free("tree").unwrap());
    assert_eq!(run.directory("../outside").err(), Some(Errno::XDEV));
    assert_eq!(run.read("manifest.json").err(), Some(Errno::LOOP));
    run.replace("manifest.json", "manifest.json.new", b"new").unwrap();
    assert_eq!(fs::read(dir.path().join("outside/file")).unwrap(), b"kept");
    assert_eq!(run.read("manifest.json").unwrap(), b"new");
    assert_eq!(mode(&run_path.join("manifest.json")), 0o600);
}

#[test]
fn a_pipe_is_no_manifest() {
    let dir = crate::testing::private_dir();
    let run = RunDir::open(dir.path()).unwrap();
    let fifo = dir.path().join("manifest.json");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, FileType::Fifo, Mode::RUSR, 0).unwrap();
    assert_eq!(run.read("manifest.json").err(), Some(Errno::PERM));
}

#[test]
fn what_lies_in_it_has_no_set_id_bit_of_the_directory() {
    let dir = crate::testing::private_dir();
    set_mode(dir.path(), 0o2755);
    let run = RunDir::open(dir.path()).unwrap();
    run.make_directory("tree").unwrap();
    assert_eq!(mode(&dir.path().join("tree")), 0o755);
    run.close_to_others().unwrap();
    assert_eq!(mode(dir.path()), 0o700);
}
