//! What this machine's kernel tells about loop devices: their files, and their users.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "what this machine's kernel tells in its files"
)]

use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::busy;

/// The users of the block device `device` or one of its partitions, in words; empty if there are none.
pub fn users_of(device: &Path) -> Vec<String> {
    let real = fs::canonicalize(device).unwrap_or_else(|_| device.to_path_buf());
    Machine::look().users(&real)
}

/// What the kernel tells at one instant.
pub(crate) struct Machine {
    loops: Vec<Loop>,
    /// Device and where it is mounted.
    mounts: Vec<(String, String)>,
    swaps: Vec<String>,
}

struct Loop {
    name: String,
    file: PathBuf,
}

impl Machine {
    pub(crate) fn look() -> Machine {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Machine {
            loops: loops(Path::new("/sys/block")),
            mounts: mounts(&text("/proc/self/mountinfo")),
            swaps: text("/proc/swaps").lines().skip(1).filter_map(first_word).collect(),
        }
    }

    /// The loop devices over files in `dir`.
    pub(crate) fn over(&self, dir: &Path) -> Vec<PathBuf> {
        let over = self.loops.iter().filter(|device| device.file.starts_with(dir));
        over.map(|device| Path::new("/dev").join(&device.name)).collect()
    }

    /// The users of a device or one of its partitions, in words.
    pub(crate) fn users(&self, device: &Path) -> Vec<String> {
        let name = device.to_string_lossy();
        // Where a name ends with a number, that of a partition is told apart by a letter.
        let mark = if name.ends_with(|last: char| last.is_ascii_digit()) { "p" } else { "" };
        let part_of = |other: &str| {
            let rest = other.strip_prefix(&*name);
            rest.is_some_and(|rest| rest.is_empty() || rest.strip_prefix(mark).is_some_and(is_number))
        };
        let mounted = self.mounts.iter().filter(|(source, _)| part_of(source));
        let mut users: Vec<String> = mounted.map(|(source, at)| format!("{source} is mounted at {at}")).collect();
        users.extend(self.swaps.iter().filter(|swap| part_of(swap)).map(|swap| format!("{swap} is used as swap")));
        if users.is_empty() && is_claimed(device) {
            users.push(format!("{name} is held by another block device, such as a volume group or RAID"));
        }
        users
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether the device is held exclusively: by a mount, swap, or a device on top of it.
fn is_claimed(device: &Path) -> bool {
    let exclusive = OpenOptions::new().read(true).custom_flags(OFlags::EXCL.bits() as i32).open(device);
    exclusive.is_err_and(|error| error.raw_os_error() == Some(Errno::BUSY.raw_os_error()))
}

fn loops(block: &Path) -> Vec<Loop> {
    let names = fs::read_dir(block).into_iter().flatten().flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok()).filter(|name| name.starts_with("loop"));
    let mut loops: Vec<Loop> = names
        .filter_map(|name| {
            let file = fs::read_to_string(block.join(&name).join("loop/backing_file")).ok()?;
            Some(Loop { name, file: PathBuf::from(file.trim_end_matches('\n')) })
        })
        .collect();
    loops.sort_by(|a, b| (a.name.len(), &a.name).cmp(&(b.name.len(), &b.name)));
    loops
}

/// Source and place of each mount in a `mountinfo`.
fn mounts(text: &str) -> Vec<(String, String)> {
    busy::parsed(text).into_iter().map(|mount| (mount.source, mount.at.display().to_string())).collect()
}

fn first_word(line: &str) -> Option<String> {
    line.split_whitespace().next().map(str::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_of_a_device_and_its_partitions_are_its_users() {
        let text = "36 25 7:1 / /mnt/a\\040b rw,relatime shared:1 - ext4 /dev/loop1 rw\n\
                    37 25 259:3 / /mnt/p rw - xfs /dev/loop1p2 rw\n\
                    38 25 7:11 / /mnt/other rw - ext4 /dev/loop11 rw\n\
                    39 25 8:17 / /mnt/disk rw - ext4 /dev/sdb1 rw\n\
                    40 25 8:81 / /mnt/more rw - ext4 /dev/sdba rw\n";
        let machine = Machine { loops: Vec::new(), mounts: mounts(text), swaps: vec!["/dev/loop11".to_string()] };
        assert_eq!(
            machine.users(Path::new("/dev/loop1")),
            ["/dev/loop1 is mounted at /mnt/a b", "/dev/loop1p2 is mounted at /mnt/p"]
        );
        let other = machine.users(Path::new("/dev/loop11"));
        assert_eq!(other, ["/dev/loop11 is mounted at /mnt/other", "/dev/loop11 is used as swap"]);
        assert_eq!(machine.users(Path::new("/dev/sdb")), ["/dev/sdb1 is mounted at /mnt/disk"]);
    }

    #[test]
    fn devices_are_found_by_the_directory_of_their_files() {
        let dir = tempfile::tempdir().unwrap();
        for (name, file) in
            [("loop2", "/run/x/files/vol"), ("loop10", "/run/x/files/b"), ("loop3", "/run/xy/files/vol")]
        {
            let place = dir.path().join(name).join("loop");
            fs::create_dir_all(&place).unwrap();
            fs::write(place.join("backing_file"), format!("{file}\n")).unwrap();
        }
        fs::create_dir_all(dir.path().join("loop4")).unwrap();
        let machine = Machine { loops: loops(dir.path()), mounts: Vec::new(), swaps: Vec::new() };
        let found: Vec<_> = machine.over(Path::new("/run/x")).into_iter().collect();
        assert_eq!(found, [PathBuf::from("/dev/loop2"), PathBuf::from("/dev/loop10")]);
    }
}
