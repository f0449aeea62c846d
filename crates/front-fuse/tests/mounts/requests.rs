//! How many requests calls cost.

use std::fs::{self, File};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{FileExt, MetadataExt};

use esker_front_fuse::CacheMode;
use esker_rt::mem::Pool;

use crate::harness::{MODES, Mount, Requests, transports};

fn warmed(mount: &Mount) {
    fs::create_dir(mount.path("d")).unwrap();
    fs::write(mount.path("d/file"), [7; 10_000]).unwrap();
    use_all(mount);
}

/// A stat, a look for what is not there, an open, reads, a close, and a list.
fn use_all(mount: &Mount) {
    assert_eq!(fs::metadata(mount.path("d/file")).unwrap().len(), 10_000);
    fs::metadata(mount.path("d/nothing")).unwrap_err();
    let mut bytes = Vec::new();
    File::open(mount.path("d/file")).unwrap().read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes, [7; 10_000]);
    assert_eq!(fs::read_dir(mount.path("d")).unwrap().count(), 1);
}

#[test]
fn what_is_warm_asks_nothing() {
    for transport in transports() {
        for cache in [CacheMode::Through, CacheMode::WriteBack] {
            let mount = Mount::new(transport, cache);
            warmed(&mount);
            use_all(&mount);
            let asked = mount.requests_of(|| (0..100).for_each(|_| use_all(&mount)));
            // With write-back the kernel forgets at each close how many blocks a file has.
            let looks = if cache == CacheMode::WriteBack { Some(("STATX", 100)) } else { None };
            assert_eq!(asked, looks.into_iter().collect::<Requests>(), "{cache:?}");
        }
    }
}

#[test]
fn a_write_is_one_request_and_with_write_back_none() {
    for transport in transports() {
        for (cache, writes) in [(CacheMode::Through, 10), (CacheMode::WriteBack, 0), (CacheMode::None, 10)] {
            let mount = Mount::new(transport, cache);
            warmed(&mount);
            let mut file = File::options().write(true).open(mount.path("d/file")).unwrap();
            file.write_all(&[1; 512]).unwrap();
            let asked = mount.requests_of(|| (0..10).for_each(|_| file.write_all(&[2; 512]).unwrap()));
            let expected: Requests = [("WRITE", writes)].into_iter().filter(|(_, count)| *count > 0).collect();
            assert_eq!(asked, expected, "{cache:?}");
        }
    }
}

#[test]
fn large_reads_and_writes_come_a_mebibyte_at_a_time() {
    for transport in transports() {
        let mount = Mount::new(transport, CacheMode::None);
        let mut file = File::options().read(true).write(true).create_new(true).open(mount.path("f")).unwrap();
        // Whole pages: else one more is touched than a request holds.
        let [mut bytes, mut again] = [(); 2].map(|()| Pool::default().slab(4 << 20));
        (0..).zip(bytes.iter_mut()).for_each(|(n, byte): (u32, &mut u8)| *byte = ((n * 7) >> 8) as u8);
        let asked = mount.requests_of(|| {
            file.write_all(&bytes).unwrap();
            file.rewind().unwrap();
            file.read_exact(&mut again).unwrap();
        });
        assert_eq!(asked, Requests::from([("READ", 4), ("WRITE", 4)]));
        assert_eq!(bytes[..], again[..]);
    }
}

#[test]
fn a_synchronised_file_has_reached_the_file_system() {
    for transport in transports() {
        for cache in MODES {
            let mount = Mount::new(transport, cache);
            // As a database does: a journal, the file, the directory.
            let journal = File::create(mount.path("db-journal")).unwrap();
            let db = File::create(mount.path("db")).unwrap();
            let dir = File::open(&mount.at).unwrap();
            let asked = mount.requests_of(|| {
                journal.write_all_at(&[1; 4096], 0).unwrap();
                journal.sync_data().unwrap();
                db.write_all_at(&[2; 4096], 8192).unwrap();
                db.sync_all().unwrap();
                dir.sync_all().unwrap();
            });
            let counts = [asked.get("WRITE"), asked.get("FSYNC"), asked.get("FSYNCDIR")];
            assert_eq!(counts, [Some(&2), Some(&2), Some(&1)], "{cache:?}: {asked:?}");
            fs::remove_file(mount.path("db-journal")).unwrap();
            assert_eq!(fs::metadata(mount.path("db")).unwrap().len(), 12288);
        }
    }
}

#[test]
fn a_write_is_seen_by_the_next_look_at_attributes() {
    for transport in transports() {
        for cache in MODES {
            let mount = Mount::new(transport, cache);
            warmed(&mount);
            let before = fs::metadata(mount.path("d/file")).unwrap();
            let file = File::options().append(true).open(mount.path("d/file")).unwrap();
            // With write-back the time is that of the kernel, whose clock is coarser.
            std::thread::sleep(std::time::Duration::from_millis(20));
            (&file).write_all(b"more").unwrap();
            let after = fs::metadata(mount.path("d/file")).unwrap();
            assert_eq!(after.len(), before.len() + 4, "{cache:?}");
            assert!((after.mtime(), after.mtime_nsec()) > (before.mtime(), before.mtime_nsec()), "{cache:?}");
            assert_eq!(after.ino(), before.ino());
        }
    }
}
