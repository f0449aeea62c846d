//! Calls on names and attributes, in every cache mode, on a file system that answers at once, on one that does not, and
//! on a directory through which calls pass.

use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, StatxFlags, XattrFlags};
use rustix::io::Errno;

use crate::harness::{MODES, Mount, transports};

fn in_all(check: fn(&Mount)) {
    for transport in transports() {
        for cache in MODES {
            check(&Mount::new(transport, cache));
            check(&Mount::late(transport, cache));
            check(&Mount::host(transport, cache));
        }
    }
}

fn names_of(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn names_come_and_go() {
    in_all(|mount| {
        let path = |name: &str| mount.path(name);
        fs::create_dir(path("d")).unwrap();
        fs::write(path("d/a"), b"a").unwrap();
        symlink("a", path("d/link")).unwrap();
        fs::hard_link(path("d/a"), path("d/b")).unwrap();
        assert_eq!(names_of(&path("d")), ["a", "b", "link"]);
        assert_eq!(fs::read(path("d/link")).unwrap(), b"a");
        assert_eq!(fs::read_link(path("d/link")).unwrap(), Path::new("a"));
        assert_eq!(fs::metadata(path("d/a")).unwrap().nlink(), 2);
        assert_eq!(fs::create_dir(path("d")).unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(fs::remove_dir(path("d")).unwrap_err().kind(), ErrorKind::DirectoryNotEmpty);
        fs::rename(path("d/b"), path("c")).unwrap();
        fs::remove_file(path("d/a")).unwrap();
        assert_eq!(fs::metadata(path("c")).unwrap().nlink(), 1);
        fs::remove_file(path("d/link")).unwrap();
        fs::remove_dir(path("d")).unwrap();
        assert_eq!(names_of(&mount.at), ["c"]);
        assert_eq!(fs::metadata(path(&"n".repeat(256))).unwrap_err().raw_os_error(), Some(36));
    });
}

#[test]
fn renames_replace_refuse_and_exchange() {
    in_all(|mount| {
        let path = |name: &str| mount.path(name);
        fs::write(path("a"), b"a").unwrap();
        fs::write(path("b"), b"b").unwrap();
        let rename = |how| rustix::fs::renameat_with(CWD, path("a"), CWD, path("b"), how);
        assert_eq!(rename(RenameFlags::NOREPLACE), Err(Errno::EXIST));
        rename(RenameFlags::EXCHANGE).unwrap();
        assert_eq!((fs::read(path("a")).unwrap(), fs::read(path("b")).unwrap()), (b"b".to_vec(), b"a".to_vec()));
        assert_eq!(rename(RenameFlags::WHITEOUT), Err(Errno::INVAL));
        fs::rename(path("a"), path("b")).unwrap();
        assert_eq!((names_of(&mount.at), fs::read(path("b")).unwrap()), (vec!["b".to_string()], b"b".to_vec()));
        fs::create_dir_all(path("x/y")).unwrap();
        assert_eq!(fs::rename(path("x"), path("x/y/z")).unwrap_err().raw_os_error(), Some(22));
    });
}

#[test]
fn nodes_of_all_kinds_are_made() {
    in_all(|mount| {
        let make = |name: &str, kind, device| rustix::fs::mknodat(CWD, mount.path(name), kind, Mode::RUSR, device);
        make("fifo", FileType::Fifo, 0).unwrap();
        make("socket", FileType::Socket, 0).unwrap();
        make("char", FileType::CharacterDevice, rustix::fs::makedev(1, 3)).unwrap();
        make("block", FileType::BlockDevice, rustix::fs::makedev(259, 70_000)).unwrap();
        let kind = |name: &str| fs::symlink_metadata(mount.path(name)).unwrap();
        assert!(kind("fifo").file_type().is_fifo() && kind("socket").file_type().is_socket());
        assert!(kind("char").file_type().is_char_device() && kind("block").file_type().is_block_device());
        assert_eq!(kind("block").rdev(), rustix::fs::makedev(259, 70_000));
        assert_eq!(fs::read(mount.path("char")).unwrap(), b"", "the null device");
    });
}

#[test]
fn a_large_directory_is_listed_once_however_it_is_read() {
    in_all(|mount| {
        fs::create_dir(mount.path("d")).unwrap();
        let mut made: Vec<String> = (0..1500).map(|n| format!("{n:05}-{}", "x".repeat(n % 40))).collect();
        for name in &made {
            fs::write(mount.path("d").join(name), b"").unwrap();
        }
        made.sort();
        assert_eq!(names_of(&mount.path("d")), made);
        // With attributes of each, which makes the kernel ask for both at once.
        let sizes = fs::read_dir(mount.path("d")).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len());
        assert_eq!(sizes.sum::<u64>(), 0);
        for name in made.iter().step_by(2) {
            fs::remove_file(mount.path("d").join(name)).unwrap();
        }
        assert_eq!(names_of(&mount.path("d")).len(), 750);
        fs::remove_dir_all(mount.path("d")).unwrap();
    });
}

#[test]
fn attributes_are_kept() {
    in_all(|mount| {
        let path = mount.path("f");
        fs::write(&path, b"bytes").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::chown(&path, Some(7), Some(8)).unwrap();
        let then = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_times(fs::FileTimes::new().set_accessed(then).set_modified(then)).unwrap();
        let meta = fs::metadata(&path).unwrap();
        assert_eq!((meta.mode() & 0o7777, meta.uid(), meta.gid()), (0o640, 7, 8));
        assert_eq!((meta.mtime(), meta.mtime_nsec(), meta.atime_nsec()), (1_000_000_000, 123_456_789, 123_456_789));
        file.set_len(2).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), 2);
        let stat = rustix::fs::statx(CWD, &path, AtFlags::empty(), StatxFlags::BTIME | StatxFlags::SIZE).unwrap();
        assert!(stat.stx_mask & StatxFlags::BTIME.bits() != 0 && stat.stx_btime.tv_sec > 1_600_000_000);
        assert_eq!(rustix::fs::access(&path, rustix::fs::Access::READ_OK), Ok(()));
        // What is no directory loses its privileges with its owner, also by the superuser.
        rustix::fs::mknodat(CWD, mount.path("fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        fs::create_dir(mount.path("d")).unwrap();
        for (name, left) in [("f", 0o755), ("fifo", 0o755), ("d", 0o6755)] {
            fs::set_permissions(mount.path(name), Permissions::from_mode(0o6755)).unwrap();
            std::os::unix::fs::chown(mount.path(name), Some(9), None).unwrap();
            assert_eq!(fs::metadata(mount.path(name)).unwrap().mode() & 0o7777, left, "{name}");
        }
    });
}

#[test]
fn extended_attributes_and_flags_are_kept() {
    in_all(|mount| {
        let path = mount.path("f");
        fs::write(&path, b"").unwrap();
        let set = |value: &[u8], how| rustix::fs::setxattr(&path, "user.note", value, how);
        set(b"one", XattrFlags::CREATE).unwrap();
        assert_eq!(set(b"two", XattrFlags::CREATE), Err(Errno::EXIST));
        set(b"two", XattrFlags::REPLACE).unwrap();
        let mut value = [0; 16];
        assert_eq!(rustix::fs::getxattr(&path, "user.note", &mut value), Ok(3));
        assert_eq!(&value[..3], b"two");
        assert_eq!(rustix::fs::getxattr(&path, "user.note", &mut value[..2]), Err(Errno::RANGE));
        let mut names = [0u8; 64];
        let len = rustix::fs::listxattr(&path, &mut names).unwrap();
        assert_eq!(&names[..len], b"user.note\0");
        rustix::fs::removexattr(&path, "user.note").unwrap();
        assert_eq!(rustix::fs::getxattr(&path, "user.note", &mut value), Err(Errno::NODATA));
        let file = fs::File::open(&path).unwrap();
        let flags = rustix::fs::ioctl_getflags(&file).unwrap();
        rustix::fs::ioctl_setflags(&file, flags | rustix::fs::IFlags::NODUMP).unwrap();
        assert!(rustix::fs::ioctl_getflags(&file).unwrap().contains(rustix::fs::IFlags::NODUMP));
        let fixed = rustix::fs::ioctl_setflags(&file, rustix::fs::IFlags::IMMUTABLE);
        assert_eq!(fixed, Err(Errno::OPNOTSUPP), "this kernel would not hold programs to it");
    });
}

#[test]
fn a_file_without_a_name_gets_one_or_goes() {
    in_all(|mount| {
        let open = || {
            rustix::fs::open(&mount.at, OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR)
                .unwrap()
        };
        let file = open();
        rustix::io::write(&file, b"bytes").unwrap();
        let own = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
        rustix::fs::linkat(CWD, own, CWD, mount.path("named"), AtFlags::SYMLINK_FOLLOW).unwrap();
        drop(file);
        assert_eq!(fs::read(mount.path("named")).unwrap(), b"bytes");
        drop(open());
        assert_eq!(names_of(&mount.at), ["named"]);
        // What is open and unlinked keeps its bytes.
        let open = fs::File::open(mount.path("named")).unwrap();
        fs::remove_file(mount.path("named")).unwrap();
        assert_eq!(std::io::read_to_string(open).unwrap(), "bytes");
    });
}
