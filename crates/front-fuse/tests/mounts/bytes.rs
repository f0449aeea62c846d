//! Calls on bytes and locks, in every cache mode, on a file system that answers at once, on one that does not, and on a
//! directory through which calls pass.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::FileExt;

use esker_front_fuse::CacheMode;
use rustix::fs::{FallocateFlags, FlockOperation, OFlags, SeekFrom};
use rustix::io::Errno;

use crate::harness::{BYTES, MODES, Mount, run, transports};

fn in_all(check: fn(&Mount, CacheMode)) {
    in_memory(check);
    for transport in transports() {
        MODES.into_iter().for_each(|cache| check(&Mount::host(transport, cache), cache));
    }
}

/// On file systems whose room is known.
fn in_memory(check: fn(&Mount, CacheMode)) {
    for transport in transports() {
        for cache in MODES {
            check(&Mount::new(transport, cache), cache);
            check(&Mount::late(transport, cache), cache);
        }
    }
}

fn file(mount: &Mount, name: &str) -> File {
    File::options().read(true).write(true).create(true).truncate(false).open(mount.path(name)).unwrap()
}

#[test]
fn bytes_are_where_they_were_written() {
    in_all(|mount, cache| {
        let f = file(mount, "f");
        f.write_all_at(b"middle", 100_000).unwrap();
        f.write_all_at(b"start", 0).unwrap();
        let mut bytes = [0; 6];
        f.read_exact_at(&mut bytes, 100_000).unwrap();
        assert_eq!(&bytes, b"middle");
        let mut append = File::options().append(true).open(mount.path("f")).unwrap();
        append.write_all(b"!").unwrap();
        let all = fs::read(mount.path("f")).unwrap();
        assert_eq!((all.len(), &all[..6], &all[100_000..]), (100_007, &b"start\0"[..], &b"middle!"[..]), "{cache:?}");
        f.set_len(3).unwrap();
        f.set_len(8).unwrap();
        assert_eq!(fs::read(mount.path("f")).unwrap(), b"sta\0\0\0\0\0");
        // An open that cuts.
        fs::write(mount.path("f"), b"x").unwrap();
        assert_eq!(fs::read(mount.path("f")).unwrap(), b"x");
    });
}

#[test]
fn direct_and_synchronous_files_work() {
    in_all(|mount, cache| {
        for flags in [OFlags::DIRECT, OFlags::SYNC, OFlags::DSYNC] {
            let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
            let open = rustix::fs::open(mount.path("f"), OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | flags, mode)
                .unwrap();
            let f = File::from(open);
            // A page of its own, as O_DIRECT wants it.
            let mut pool = esker_rt::mem::Pool::default().slab(4096);
            pool.fill(9);
            f.write_all_at(&pool, 4096).unwrap();
            pool.fill(0);
            f.read_exact_at(&mut pool, 4096).unwrap();
            assert!(pool.iter().all(|byte| *byte == 9), "{cache:?} {flags:?}");
        }
    });
}

#[test]
fn room_is_reserved_punched_and_zeroed() {
    in_all(|mount, cache| {
        let f = file(mount, "f");
        f.write_all_at(&[7; 32768], 0).unwrap();
        let allocate = |how, at, len| rustix::fs::fallocate(&f, how, at, len);
        allocate(FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 4096, 4096).unwrap();
        allocate(FallocateFlags::ZERO_RANGE, 12288, 4096).unwrap();
        allocate(FallocateFlags::KEEP_SIZE, 0, 65536).unwrap();
        assert_eq!(f.metadata().unwrap().len(), 32768);
        allocate(FallocateFlags::empty(), 0, 40960).unwrap();
        assert_eq!(f.metadata().unwrap().len(), 40960);
        let bytes = fs::read(mount.path("f")).unwrap();
        let firsts: Vec<u8> = bytes.chunks(4096).map(|block| block[0]).collect();
        assert_eq!(firsts, [7, 0, 7, 0, 7, 7, 7, 7, 0, 0], "{cache:?}");
        let collapse = allocate(FallocateFlags::COLLAPSE_RANGE, 0, 4096);
        assert_eq!(collapse, Err(Errno::OPNOTSUPP));
    });
}

#[test]
fn more_room_than_there_is_is_not_reserved() {
    in_memory(|mount, _| {
        let much = rustix::fs::fallocate(file(mount, "f"), FallocateFlags::empty(), 0, 2 * BYTES);
        assert_eq!(much, Err(Errno::NOSPC));
    });
}

#[test]
fn holes_are_told_where_they_are_known() {
    in_all(|mount, cache| {
        let f = file(mount, "f");
        f.write_all_at(&[7; 4096], 65536).unwrap();
        f.sync_all().unwrap();
        let [data, hole] = [SeekFrom::Data(0), SeekFrom::Hole(65536)].map(|to| rustix::fs::seek(&f, to).unwrap());
        // Pages that wait to be written are data, which only the kernel knows.
        let expected = if cache == CacheMode::WriteBack { (0, 69632) } else { (65536, 69632) };
        assert_eq!((data, hole), expected, "{cache:?}");
        assert_eq!(rustix::fs::seek(&f, SeekFrom::Data(1 << 20)), Err(Errno::NXIO));
    });
}

#[test]
fn ranges_are_copied_inside_the_file_system() {
    in_all(|mount, cache| {
        let (from, to) = (file(mount, "from"), file(mount, "to"));
        from.write_all_at(&[5; 20_000], 0).unwrap();
        let (mut at, mut into) = (100, 5000);
        let mut left = 15_000;
        let asked = mount.requests_of(|| {
            while left > 0 {
                left -= rustix::fs::copy_file_range(&from, Some(&mut at), &to, Some(&mut into), left).unwrap();
            }
        });
        assert!(asked.keys().any(|name| name.starts_with("COPY_FILE_RANGE")), "{cache:?}: {asked:?}");
        let bytes = fs::read(mount.path("to")).unwrap();
        assert_eq!(bytes.len(), 20_000);
        assert!(bytes[..5000].iter().all(|byte| *byte == 0) && bytes[5000..].iter().all(|byte| *byte == 5));
    });
}

#[test]
fn room_ends_with_an_error_and_is_told() {
    in_memory(|mount, cache| {
        let space = rustix::fs::statvfs(&mount.at).unwrap();
        assert_eq!(space.f_blocks * space.f_frsize, BYTES);
        let mut f = file(mount, "f");
        let piece = vec![1; 1 << 20];
        let mut result = Ok(());
        for _ in 0..BYTES / (1 << 20) + 1 {
            result = f.write_all(&piece);
            if result.is_err() {
                break;
            }
        }
        // With write-back the error comes at the latest with the synchronisation.
        let error = result.and_then(|()| f.sync_all()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StorageFull, "{cache:?}: {error}");
        drop(f);
        fs::remove_file(mount.path("f")).unwrap();
        // The kernel tells that it forgets an inode when it likes.
        let is_free = || {
            let space = rustix::fs::statvfs(&mount.at).unwrap();
            space.f_bfree * space.f_frsize > BYTES / 2
        };
        let soon = (0..1000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(5));
            is_free()
        });
        assert!(soon, "{cache:?}");
    });
}

#[test]
fn locks_hold_between_programs() {
    in_all(|mount, _| {
        let (one, other) = (file(mount, "f"), file(mount, "f"));
        rustix::fs::flock(&one, FlockOperation::LockExclusive).unwrap();
        assert_eq!(rustix::fs::flock(&other, FlockOperation::NonBlockingLockShared), Err(Errno::WOULDBLOCK));
        rustix::fs::flock(&one, FlockOperation::Unlock).unwrap();
        rustix::fs::fcntl_lock(&one, FlockOperation::NonBlockingLockExclusive).unwrap();
        let asks = "import fcntl,sys\nf=open('f','r+')\ntry:\n fcntl.lockf(f,fcntl.LOCK_EX|fcntl.LOCK_NB)\n print('got')\nexcept BlockingIOError:\n print('held')";
        if std::process::Command::new("python3").arg("--version").output().is_ok() {
            assert_eq!(run("python3", &["-c", asks], &mount.at).trim(), "held");
        }
    });
}

#[test]
fn a_program_in_it_runs_and_loses_its_privileges_when_it_is_written() {
    in_all(|mount, cache| {
        use std::os::unix::fs::{MetadataExt, PermissionsExt};
        fs::copy("/bin/true", mount.path("true")).unwrap();
        run(mount.path("true").to_str().unwrap(), &[], &mount.at);
        fs::set_permissions(mount.path("true"), fs::Permissions::from_mode(0o4777)).unwrap();
        assert_eq!(fs::metadata(mount.path("true")).unwrap().mode() & 0o7777, 0o4777);
        // By a caller that may not keep them.
        let append = "import os\nos.setuid(65534)\nf=open('true','ab')\nf.write(b'x')\nf.close()";
        fs::set_permissions(&mount.at, fs::Permissions::from_mode(0o777)).unwrap();
        if std::process::Command::new("python3").arg("--version").output().is_ok() {
            run("python3", &["-c", append], &mount.at);
            assert_eq!(fs::metadata(mount.path("true")).unwrap().mode() & 0o7777, 0o777, "{cache:?}");
        }
        let mut bytes = Vec::new();
        File::open(mount.path("true")).unwrap().read_to_end(&mut bytes).unwrap();
        assert_eq!(&bytes[1..4], b"ELF");
    });
}
