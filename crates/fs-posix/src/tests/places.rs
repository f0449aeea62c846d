//! Working and root directories, paths from descriptors, and listings.

use super::*;
use crate::{Access, Follow, Whence, Where};

fn tree() -> Process {
    let process = process();
    for path in ["A", "A/B", "A/B/C"] {
        at_once(process.mkdir(path, 0o755)).unwrap();
    }
    process
}

#[test]
fn the_path_of_the_working_directory_follows_its_renames() {
    let process = tree();
    assert_eq!(at_once(process.getcwd()).unwrap(), b"/");
    at_once(process.chdir("A/B/C")).unwrap();
    assert_eq!(at_once(process.getcwd()).unwrap(), b"/A/B/C");
    at_once(process.rename("/A/B", "/D", esker_vfs::Rename::Replace)).unwrap();
    assert_eq!(at_once(process.getcwd()).unwrap(), b"/D/C");
    at_once(process.rmdir("/D/C")).unwrap();
    assert_eq!(at_once(process.getcwd()), Err(Errno::ENOENT));
    assert_eq!(at_once(process.mkdir("E", 0o755)), Err(Errno::ENOENT), "nothing is made in what was removed");
}

#[test]
fn a_process_never_leaves_its_root_directory() {
    let process = tree();
    at_once(process.symlink(b"/B", "A/link")).unwrap();
    at_once(process.chroot("A")).unwrap();
    at_once(process.chdir("/")).unwrap();
    for path in ["/B", "../B", "../../B/C/../..//B", "link", "link/../B"] {
        let kind = at_once(process.stat(path, Follow::Links)).unwrap().attr.kind;
        assert_eq!(kind, esker_vfs::FileType::Directory, "{path}");
    }
    assert_eq!(at_once(process.stat("/A", Follow::Links)).map(|_| ()), Err(Errno::ENOENT));
    at_once(process.chdir("link/C")).unwrap();
    assert_eq!(at_once(process.getcwd()).unwrap(), b"/B/C");
    process.set_cred(Cred::user(1000, 1000, vec![]));
    assert_eq!(at_once(process.chroot("/")), Err(Errno::EPERM));
}

#[test]
fn paths_begin_at_the_directory_of_a_descriptor() {
    let process = tree();
    let dir = open(&process, "A", OpenFlags::PATH).unwrap();
    let file = at_once(process.open(Where::At(dir, b"B/foo"), OpenFlags::RDWR | OpenFlags::CREAT, 0o600)).unwrap();
    assert_eq!(at_once(process.mkdir(Where::At(file, b"x"), 0o755)), Err(Errno::ENOTDIR));
    assert_eq!(at_once(process.mkdir(Where::At(file, b"/x"), 0o755)), Ok(()), "an absolute path needs no directory");
    assert_eq!(at_once(process.stat(Where::At(dir, b""), Follow::Links)).map(|_| ()), Err(Errno::ENOENT));
    assert_eq!(at_once(process.chmod(dir, 0o700, Follow::Links)), Err(Errno::EBADF), "a mere place");
    assert_eq!(at_once(process.chmod(Where::Itself(dir), 0o700, Follow::Links)), Ok(()));
    assert_eq!(at_once(process.stat("A", Follow::Links)).unwrap().attr.mode, 0o700);
    assert_eq!(at_once(process.read(dir, &mut [0])), Err(Errno::EBADF));
    assert_eq!(at_once(process.chdir(dir)), Ok(()));
    assert_eq!(at_once(process.getcwd()).unwrap(), b"/A");
}

#[test]
fn a_link_that_leads_nowhere_is_where_the_file_is_made() {
    let process = tree();
    at_once(process.symlink(b"../D", "A/one")).unwrap();
    at_once(process.symlink(b"A/one", "two")).unwrap();
    at_once(process.symlink(b"loop", "loop")).unwrap();
    let flags = OpenFlags::RDWR | OpenFlags::CREAT;
    assert_eq!(open(&process, "two", flags | OpenFlags::EXCL), Err(Errno::EEXIST));
    assert_eq!(open(&process, "two", flags | OpenFlags::NOFOLLOW), Err(Errno::ELOOP));
    assert_eq!(open(&process, "loop", flags), Err(Errno::ELOOP));
    assert!(open(&process, "two", flags).is_ok());
    assert_eq!(at_once(process.access("D", Access::READ, Follow::Nothing)), Ok(()));
}

#[test]
fn a_listing_goes_on_at_its_position_whatever_was_removed() {
    let process = process();
    for number in 0..40 {
        let fd = made(&process, &format!("file{number}"));
        at_once(process.close(fd)).unwrap();
    }
    let dir = open(&process, "/", OpenFlags::DIRECTORY).unwrap();
    let mut names = Vec::new();
    loop {
        let entries = at_once(process.list(dir, 100)).unwrap();
        let Some(last) = entries.last() else { break };
        assert_eq!(at_once(process.seek(dir, 0, Whence::Current)), Ok(last.next));
        names.extend(entries.iter().map(|entry| String::from_utf8(entry.name.to_vec()).unwrap()));
        if let Some(file) = names.last().filter(|name| name.starts_with("file")) {
            at_once(process.unlink(&file[..])).unwrap();
        }
    }
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 42, "40 files, \".\" and \"..\", each once");
    at_once(process.seek(dir, 1, Whence::Set)).unwrap();
    assert_eq!(&*at_once(process.list(dir, 24)).unwrap()[0].name, b"..");
    assert_eq!(at_once(process.list(dir, 20)), Err(Errno::EINVAL), "not one entry fits");
}

#[test]
fn rights_decide_what_a_user_may() {
    let process = tree();
    let fd = made(&process, "A/secret");
    at_once(process.chmod(fd, 0o600, Follow::Links)).unwrap();
    process.set_cred(Cred::user(1000, 1000, vec![]));
    assert_eq!(open(&process, "A/secret", OpenFlags::RDONLY), Err(Errno::EACCES));
    assert_eq!(at_once(process.write(fd, b"x")), Ok(1), "a descriptor keeps the rights it was opened with");
    assert_eq!(at_once(process.link("A/secret", "mine", Follow::Links)), Err(Errno::EPERM));
    assert_eq!(at_once(process.unlink("A/secret")), Err(Errno::EACCES));
    assert_eq!(at_once(process.chown("A", Some(1000), None, Follow::Links)), Err(Errno::EPERM));
    assert_eq!(open(&process, "A/new", OpenFlags::RDWR | OpenFlags::CREAT), Err(Errno::EACCES));
}

#[test]
fn flags_of_inodes_hold_back_the_superuser_too() {
    use esker_vfs::FileFlags;
    let process = process();
    let fd = made(&process, "log");
    at_once(process.write(fd, b"one")).unwrap();
    at_once(process.set_flags(fd, FileFlags::APPEND)).unwrap();
    assert_eq!(open(&process, "log", OpenFlags::WRONLY), Err(Errno::EPERM));
    assert_eq!(open(&process, "log", OpenFlags::WRONLY | OpenFlags::APPEND | OpenFlags::TRUNC), Err(Errno::EPERM));
    let append = open(&process, "log", OpenFlags::WRONLY | OpenFlags::APPEND).unwrap();
    assert_eq!(at_once(process.write(append, b"two")), Ok(3));
    assert_eq!(at_once(process.set_status_flags(append, OpenFlags::empty())), Err(Errno::EPERM));
    assert_eq!(at_once(process.truncate("log", 0)), Err(Errno::EPERM));
    assert_eq!(at_once(process.unlink("log")), Err(Errno::EPERM));
    at_once(process.set_flags(fd, FileFlags::IMMUTABLE)).unwrap();
    assert_eq!(open(&process, "log", OpenFlags::WRONLY | OpenFlags::APPEND), Err(Errno::EPERM));
    assert_eq!(at_once(process.chmod("log", 0o600, Follow::Links)), Err(Errno::EPERM));
    process.set_cred(Cred::user(1000, 1000, vec![]));
    assert_eq!(at_once(process.set_flags("log", FileFlags::NONE)), Err(Errno::EPERM));
    process.set_cred(Cred::root());
    at_once(process.set_flags("log", FileFlags::NONE)).unwrap();
    assert_eq!(at_once(process.unlink("log")), Ok(()));
}
