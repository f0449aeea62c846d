//! The block device beneath a path: its write cache, and its blocks.

use std::fs;
use std::path::{Path, PathBuf};

use esker_front_fuse::busy::{Mount, parsed};

use super::super::finding::{Finding, Subject};
use super::super::machine::Machine;

const CACHE: Subject = Subject { check: "write cache", verbs: &["serve", "attach", "mount", "calibrate"] };
const BLOCKS: Subject = Subject { check: "direct I/O", verbs: &["serve", "attach", "init", "calibrate"] };
const MOUNTS: &str = "proc/self/mountinfo";
/// File systems whose files end with the machine's run.
const VOLATILE: [&str; 2] = ["tmpfs", "ramfs"];

/// The write cache beneath a folder, which is an absolute path without links.
pub fn of_folder(machine: &Machine, folder: &Path) -> Finding {
    let mounts = parsed(&machine.text(MOUNTS).unwrap_or_default());
    let Some(mount) = mount_of(&mounts, folder) else { return CACHE.unread(MOUNTS) };
    match queue_of_mount(machine, mount) {
        Some(queue) => cache(&queue, &format!("esker calibrate --scratch {}", folder.display())),
        None if VOLATILE.contains(&mount.kind.as_str()) => CACHE.note(
            format!("{} is memory: what is stored there ends with this boot", mount.kind),
            "name a directory on a disk for data that must last",
        ),
        None => CACHE.note(
            format!("unknown: no block device is seen beneath {} of type {}", mount.at.display(), mount.kind),
            format!("esker calibrate --scratch {}", folder.display()),
        ),
    }
}

/// Blocks and write cache of the device that the user named so, by its numbers.
pub fn of_device(machine: &Machine, numbers: &str, named: &str) -> Vec<Finding> {
    let folder = format!("sys/dev/block/{numbers}");
    let Some(queue) = queue_in(&machine.path(&folder)) else {
        return vec![BLOCKS.unread(&folder), CACHE.unread(&folder)];
    };
    let blocks = read(&queue, "logical_block_size").map_or_else(
        || BLOCKS.unread(&format!("{folder}/queue/logical_block_size")),
        |bytes| BLOCKS.ok(format!("in blocks of {bytes} bytes")),
    );
    vec![blocks, cache(&queue, &format!("esker calibrate --device {named}"))]
}

/// The mount that holds a path: of the deepest ones the last, which hides the others.
fn mount_of<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    mounts.iter().filter(|mount| path.starts_with(&mount.at)).max_by_key(|mount| mount.at.components().count())
}

/// By the numbers of the mount, or by its source, where a file system such as btrfs has numbers of its own.
fn queue_of_mount(machine: &Machine, mount: &Mount) -> Option<PathBuf> {
    let by_numbers = queue_in(&machine.path(&format!("sys/dev/block/{}", mount.device)));
    by_numbers.or_else(|| {
        let source = machine.path(mount.source.strip_prefix('/')?);
        let real = fs::canonicalize(&source).unwrap_or(source);
        queue_in(&machine.path("sys/class/block").join(real.file_name()?))
    })
}

/// The folder of settings of a device; a partition has those of its disk.
fn queue_in(device: &Path) -> Option<PathBuf> {
    [device.join("queue"), device.join("../queue")].into_iter().find(|queue| queue.is_dir())
}

fn read(queue: &Path, name: &str) -> Option<String> {
    Some(fs::read_to_string(queue.join(name)).ok()?.trim().to_string())
}

/// `measure` is the command that measures what a flush costs there.
fn cache(queue: &Path, measure: &str) -> Finding {
    match (read(queue, "write_cache").as_deref(), read(queue, "fua").as_deref()) {
        (Some("write back"), Some("1")) => CACHE.ok("volatile, and a forced write (FUA) passes it"),
        (Some("write back"), _) => CACHE.note(
            "volatile, without FUA: a forced write flushes all of it",
            format!("{measure} measures what a flush costs"),
        ),
        (Some(_), _) => CACHE.ok("none that is volatile"),
        (None, _) => CACHE.note("unknown: the kernel does not tell", measure),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::finding::State;
    use super::super::super::machine::testing::Made;
    use super::*;

    const TEXT: &str = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n\
                        2 1 0:30 / /mnt rw - btrfs /dev/mapper/pool rw\n\
                        3 1 0:40 / /run rw - tmpfs tmpfs rw\n\
                        4 1 0:50 / /net rw - nfs4 host:/x rw\n\
                        5 1 8:9 / /mnt/deep rw - ext4 /dev/gone rw\n";

    /// A disk with a partition, below which ext4 lies, and a mapped device, below which btrfs lies.
    fn made(cache: &str, fua: &str) -> Made {
        let made = Made::of(&[
            (MOUNTS, TEXT),
            ("sys/devices/sda/queue/write_cache", cache),
            ("sys/devices/sda/queue/fua", fua),
            ("sys/devices/sda/queue/logical_block_size", "4096\n"),
            ("sys/devices/sda/sda1/partition", "1\n"),
            ("sys/devices/dm-0/queue/write_cache", "write through\n"),
            ("dev/dm-0", ""),
        ]);
        made.link("sys/dev/block/8:1", "../../devices/sda/sda1");
        made.link("sys/class/block/dm-0", "../../devices/dm-0");
        made.link("dev/mapper/pool", "../dm-0");
        made
    }

    #[test]
    fn the_disk_of_a_partition_says_what_its_cache_is() {
        let found = |cache, fua| of_folder(&made(cache, fua), Path::new("/srv/data"));
        assert_eq!(found("write back\n", "1\n").state, State::Ok);
        assert_eq!(found("write through\n", "0\n").found, "none that is volatile");
        let flushed = found("write back\n", "0\n");
        assert_eq!(flushed.state, State::Note);
        assert!(flushed.advice.unwrap().starts_with("esker calibrate --scratch /srv/data"));
    }

    #[test]
    fn file_systems_with_numbers_of_their_own_are_found_by_their_source() {
        let made = made("write back\n", "0\n");
        assert_eq!(of_folder(&made, Path::new("/mnt/x")).found, "none that is volatile");
        let unseen = of_folder(&made, Path::new("/mnt/deep/x"));
        assert_eq!(unseen.found, "unknown: no block device is seen beneath /mnt/deep of type ext4");
    }

    #[test]
    fn paths_without_a_block_device_are_notes() {
        let machine = made("", "");
        assert!(of_folder(&machine, Path::new("/run/x")).found.starts_with("tmpfs is memory"));
        assert!(of_folder(&machine, Path::new("/net")).found.contains("of type nfs4"));
        assert_eq!(of_folder(&Made::of(&[]), Path::new("/")).state, State::Note);
    }

    #[test]
    fn a_device_tells_its_blocks() {
        let found = of_device(&made("write back\n", "0\n"), "8:1", "/dev/sda1");
        assert_eq!(found[0].found, "in blocks of 4096 bytes");
        assert!(
            found[1].advice.as_ref().is_some_and(|advice| advice.starts_with("esker calibrate --device /dev/sda1"))
        );
        assert!(of_device(&Made::of(&[]), "8:1", "x").iter().all(|found| found.state == State::Note));
    }
}
