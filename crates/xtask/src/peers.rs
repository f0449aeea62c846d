//! Rival programs and tools that comparisons and end-to-end tests need, and the Debian packages that bring them.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::program::is_installed;

/// A program that Esker is compared with or driven by.
struct Peer {
    program: &'static str,
    package: &'static str,
    /// What stands still without it.
    used_by: &'static str,
}

/// Where the kernel takes mounts of FUSE.
const FUSE: &str = "/dev/fuse";

const PEERS: &[Peer] = &[
    Peer { program: "nbdinfo", package: "libnbd-bin", used_by: "it: what a foreign NBD client sees of an export" },
    Peer { program: "nbdcopy", package: "libnbd-bin", used_by: "it, lab: copying through a foreign NBD client" },
    Peer { program: "qemu-img", package: "qemu-utils", used_by: "it: images converted and compared over NBD" },
    Peer { program: "qemu-io", package: "qemu-utils", used_by: "it: reads, writes, zeroes and discards over NBD" },
    Peer { program: "nbdkit", package: "nbdkit", used_by: "lab: a rival server of memory" },
    Peer { program: "qemu-nbd", package: "qemu-utils", used_by: "cli: images of volumes; lab: a rival server" },
    Peer { program: "cryptsetup", package: "cryptsetup-bin", used_by: "cli: LUKS2 devices whose key is taken" },
    Peer { program: "qemu-system-x86_64", package: "qemu-system-x86", used_by: "it: guests on served exports" },
    Peer { program: "mkfs.ext4", package: "e2fsprogs", used_by: "cli: a file system on an attached device" },
    Peer { program: "mkfs.xfs", package: "xfsprogs", used_by: "cli: a file system on an attached device" },
    Peer { program: "mkfs.btrfs", package: "btrfs-progs", used_by: "cli: a file system on an attached device" },
    Peer { program: "chromium", package: "chromium", used_by: "tests: pages on wide and narrow screens" },
    Peer { program: "promtool", package: "prometheus", used_by: "serve: alert rules and queries of the dashboard" },
    Peer { program: "rsvg-convert", package: "librsvg2-bin", used_by: "cli: plots of experiments as PNG" },
    Peer { program: "strace", package: "strace", used_by: "record, lab: recordings and their cost, compared" },
    Peer {
        program: "/usr/lib/python3/dist-packages/plyvel/__init__.py",
        package: "python3-plyvel",
        used_by: "lab: LevelDB, which is recorded and replayed",
    },
    Peer { program: "redis-server", package: "redis-server", used_by: "lab: a real store on huge pages" },
    Peer { program: "memcached", package: "memcached", used_by: "lab: a second store on huge pages" },
    Peer {
        program: "valgrind",
        package: "valgrind",
        used_by: "lab: instructions and allocations of requests, counted",
    },
    Peer { program: "fio", package: "fio", used_by: "lab: load on a served stack and on its rivals" },
    Peer { program: "fusermount3", package: "fuse3", used_by: "tests: mounts of ordinary users" },
    Peer { program: "mergerfs", package: "mergerfs", used_by: "lab: requests to a FUSE server" },
    Peer { program: "sqlite3", package: "sqlite3", used_by: "lab: recorded and replayed, data/behaviour" },
    Peer { program: "zstd", package: "zstd", used_by: "lab: recorded and replayed, data/behaviour" },
    Peer { program: "rsync", package: "rsync", used_by: "lab: recorded and replayed, data/behaviour" },
    Peer { program: "/usr/bin/convert", package: "imagemagick", used_by: "lab: recorded and replayed, data/behaviour" },
    Peer { program: "mariadbd", package: "mariadb-server", used_by: "lab: recorded and replayed, data/behaviour" },
    Peer { program: "rpmbuild", package: "rpm", used_by: "xtask: the RPM package" },
    Peer { program: "db_bench", package: "rocksdb-tools", used_by: "lab: recorded and replayed, data/behaviour" },
];

/// The names of all programs in the table.
pub fn programs() -> impl Iterator<Item = &'static str> {
    PEERS.iter().map(|peer| peer.program)
}

/// `cargo xtask peers [--check]`.
pub fn main(args: &[String]) -> Result<bool, String> {
    let missing: Vec<&Peer> = PEERS.iter().filter(|peer| !is_installed(peer.program)).collect();
    match args {
        [] if missing.is_empty() => {
            println!("peers: all {} are installed", PEERS.len());
            open_fuse()
        }
        [] => Ok(install(&missing)? && open_fuse()?),
        [flag] if flag == "--check" => {
            print_table();
            Ok(missing.is_empty())
        }
        _ => Err("usage: cargo xtask peers [--check]".into()),
    }
}

fn print_table() {
    println!("{:<18} {:<15} {:<9} used by", "program", "package", "state");
    for peer in PEERS {
        let state = if is_installed(peer.program) { "present" } else { "missing" };
        println!("{:<18} {:<15} {state:<9} {}", peer.program, peer.package, peer.used_by);
    }
}

fn install(missing: &[&Peer]) -> Result<bool, String> {
    let packages = packages_of(missing);
    let by_hand = format!("as root: apt-get install {}", packages.join(" "));
    if !is_installed("apt-get") {
        return Err(format!("there is no apt-get here; on Debian, {by_hand}; elsewhere install the same programs"));
    }
    if !is_root()? {
        return Err(format!("installing needs root; {by_hand}"));
    }
    for args in [vec!["update"], [vec!["install", "--yes", "--no-install-recommends"], packages].concat()] {
        let status = Command::new("apt-get").args(&args).env("DEBIAN_FRONTEND", "noninteractive").status();
        let status = status.map_err(|error| format!("cannot run apt-get: {error}"))?;
        if !status.success() {
            return Err(format!("apt-get {} ended with {status}; its message is above", args[0]));
        }
    }
    let still: Vec<&str> = missing.iter().map(|peer| peer.program).filter(|program| !is_installed(program)).collect();
    still.iter().for_each(|program| eprintln!("peers: {program} is still missing"));
    Ok(still.is_empty())
}

/// Lets users mount, as the package's rule for udev does; a machine without udev does not run it.
fn open_fuse() -> Result<bool, String> {
    let device = Path::new(FUSE);
    let mode = std::fs::metadata(device).map(|about| about.permissions().mode() & 0o777);
    if matches!(mode, Ok(mode) if mode & 0o6 != 0o6) && is_root()? {
        let opened = std::fs::set_permissions(device, Permissions::from_mode(0o666));
        opened.map_err(|error| format!("{FUSE} cannot get mode 666: {error}"))?;
        println!("peers: {FUSE} has mode 666 now, so that users may mount");
    }
    Ok(true)
}

fn packages_of<'a>(missing: &[&Peer]) -> Vec<&'a str> {
    let mut packages: Vec<&str> = missing.iter().map(|peer| peer.package).collect();
    packages.sort_unstable();
    packages.dedup();
    packages
}

fn is_root() -> Result<bool, String> {
    let output = Command::new("id").arg("-u").output().map_err(|error| format!("cannot run id: {error}"))?;
    Ok(output.stdout.trim_ascii() == b"0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_asked_for_once() {
        let all: Vec<&Peer> = PEERS.iter().filter(|peer| peer.package == "qemu-utils").collect();
        assert_eq!((all.len(), packages_of(&all)), (3, vec!["qemu-utils"]));
    }

    #[test]
    fn each_program_is_listed_once() {
        for (at, peer) in PEERS.iter().enumerate() {
            assert!(!PEERS[..at].iter().any(|other| other.program == peer.program), "{}", peer.program);
        }
    }

    #[test]
    fn unknown_words_are_refused() {
        assert!(main(&["--force".into()]).unwrap_err().contains("--check"));
    }
}
