//! Files that programs map.

use std::fs;

use crate::harness::{MODES, Mount, run, transports};

/// Maps a file for sharing, changes bytes in it, looks at them through a read, changes others by a write, looks at them
/// through the map, and synchronises.
const PROGRAM: &str = r"
import mmap, os
fd = os.open('mapped', os.O_RDWR | os.O_CREAT, 0o600)
os.write(fd, b'a' * 20000)
m = mmap.mmap(fd, 20000, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
assert m[:4] == b'aaaa' and m[19996:] == b'aaaa'
m[5000:5004] = b'MAP!'
m.flush()
assert os.pread(fd, 4, 5000) == b'MAP!', os.pread(fd, 4, 5000)
os.pwrite(fd, b'WRIT', 12000)
assert m[12000:12004] == b'WRIT', m[12000:12004]
m[0:1] = b'Z'
m.close()
os.fsync(fd)
os.close(fd)
p = os.open('mapped', os.O_RDONLY)
m = mmap.mmap(p, 20000, mmap.MAP_PRIVATE, mmap.PROT_READ)
assert m[0:1] == b'Z' and m[12000:12004] == b'WRIT'
m.close()
os.close(p)
";

#[test]
fn a_shared_map_and_the_file_are_one() {
    for transport in transports() {
        if std::process::Command::new("python3").arg("--version").output().is_err() {
            return esker_skip::skip(esker_skip::Ability::Program, format_args!("python3 maps files"));
        }
        for cache in MODES {
            for mount in [Mount::new(transport, cache), Mount::late(transport, cache), Mount::host(transport, cache)] {
                run("python3", &["-c", PROGRAM], &mount.at);
                let bytes = fs::read(mount.path("mapped")).unwrap();
                assert_eq!((bytes.len(), bytes[0]), (20_000, b'Z'), "{cache:?}");
                assert_eq!((&bytes[5000..5004], &bytes[12000..12004]), (&b"MAP!"[..], &b"WRIT"[..]), "{cache:?}");
                assert!(mount.requests().contains_key("FSYNC"));
            }
        }
    }
}
