//! A mounted directory through which calls pass: what is done on the mount is done below it.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use esker_front_fuse::{CacheMode, Transport};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};

use crate::harness::{MODES, Mount, run, transports};

/// Everything below a directory: paths, kinds, modes, owners, links, times of change (if asked for), bytes or targets.
fn tree(at: &Path, with_times: bool) -> Vec<String> {
    let mut lines = Vec::new();
    let mut left = vec![PathBuf::new()];
    while let Some(path) = left.pop() {
        let whole = at.join(&path);
        let meta = fs::symlink_metadata(&whole).unwrap();
        let content = if meta.is_dir() {
            left.extend(fs::read_dir(&whole).unwrap().map(|entry| path.join(entry.unwrap().file_name())));
            Vec::new()
        } else if meta.is_symlink() {
            fs::read_link(&whole).unwrap().into_os_string().into_encoded_bytes()
        } else if meta.is_file() {
            fs::read(&whole).unwrap()
        } else {
            Vec::new()
        };
        let digest = content.iter().fold(0u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
        let (mode, links, size) = (meta.mode(), meta.nlink(), content.len());
        let (owner, time) = ((meta.uid(), meta.gid()), with_times.then(|| (meta.mtime(), meta.mtime_nsec())));
        lines.push(format!("{} {mode:o} {links} {owner:?} {time:?} {size} {digest:x}", path.display()));
    }
    lines.sort();
    lines
}

const WORK: &str = "
set -e
mkdir -p a/b/c d
seq 1 200000 > a/numbers
cp a/numbers a/b/copy
head -c 100000 a/numbers >> a/b/copy
ln a/numbers d/linked
ln -s ../a/numbers d/symbolic
mv a/b/c d/moved
chmod 6755 d/moved
mkfifo a/pipe
for name in $(seq 1 300); do echo $name > d/moved/file$name; done
rm d/moved/file1*
tar -cf all.tar a d
mkdir out && tar -xf all.tar -C out
truncate -s 1M out/sparse
sync out/sparse
";

#[test]
fn work_on_the_mount_is_there_below_it() {
    for (transport, cache) in transports().into_iter().flat_map(|way| MODES.map(|cache| (way, cache))) {
        let mount = Mount::host(transport, cache);
        run("sh", &["-c", WORK], &mount.at);
        chown(mount.path("out/d"), Some(1007), Some(1008)).unwrap();
        symlink("/etc", mount.path("out/etc")).unwrap();
        // A kernel that writes back sends no time that was that of the creation too, and the bytes come later.
        let with_times = cache != CacheMode::WriteBack;
        let (seen, below) = (tree(&mount.at, with_times), mount.below.clone());
        assert!(seen.len() > 300 && seen.iter().any(|line| line.starts_with("d/moved 46755 ")), "{cache:?}");
        // A pipe and a link take no bytes of the directory below.
        run("sync", &["-f", mount.at.to_str().unwrap()], &mount.at);
        let _kept = mount.ended();
        let left = tree(&below, with_times);
        let differing: Vec<_> = seen.iter().zip(&left).filter(|(seen, left)| seen != left).take(9).collect();
        assert!(differing.is_empty() && seen.len() == left.len(), "{cache:?}: {differing:#?}");
    }
}

#[test]
fn a_mount_inside_the_directory_is_not_entered() {
    for (transport, cache) in transports().into_iter().flat_map(|way| MODES.map(|cache| (way, cache))) {
        let mount = Mount::host(transport, cache);
        let inside = mount.below.join("inside");
        fs::create_dir(&inside).unwrap();
        rustix::mount::mount("none", &inside, "tmpfs", MountFlags::empty(), None).unwrap();
        let entered = fs::metadata(mount.path("inside"));
        rustix::mount::unmount(&inside, UnmountFlags::DETACH).unwrap();
        assert_eq!(entered.unwrap_err().raw_os_error(), Some(Errno::XDEV.raw_os_error()), "{cache:?}");
        assert!(fs::metadata(mount.path("inside")).unwrap().is_dir());
    }
}

#[test]
fn a_new_file_belongs_to_its_maker() {
    if transports().is_empty() || std::process::Command::new("runuser").arg("--version").output().is_err() {
        return;
    }
    let mount = Mount::host(Transport::Device, MODES[0]);
    fs::set_permissions(&mount.at, fs::Permissions::from_mode(0o1777)).unwrap();
    let at = mount.at.to_str().unwrap();
    // Every directory on the way is searched by all.
    fs::set_permissions(mount.at.parent().unwrap(), fs::Permissions::from_mode(0o755)).unwrap();
    run(
        "runuser",
        &["-u", "nobody", "--", "sh", "-c", &format!("umask 027; echo x > {at}/f; mkdir {at}/d")],
        &mount.at,
    );
    let [f, d] = ["f", "d"].map(|name| fs::metadata(mount.below.join(name)).unwrap());
    let nobody = fs::metadata(mount.path("f")).unwrap().uid();
    assert!(nobody != 0 && [f.uid(), d.uid()] == [nobody; 2]);
    assert_eq!((f.mode() & 0o7777, d.mode() & 0o7777), (0o640, 0o750));
}
