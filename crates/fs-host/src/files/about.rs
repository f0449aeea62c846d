//! What the file system of a directory is and can, as far as the kernel tells.

use std::os::fd::OwnedFd;

use esker_base::Nanos;
use esker_vfs::{Abilities, About, Promise, Space, Stamp};
use rustix::fs::{fstatfs, fstatvfs};
use rustix::io;

/// Numbers of file systems, as `statfs` tells them.
const EXT: u64 = 0xef53;
const XFS: u64 = 0x5846_5342;
const BTRFS: u64 = 0x9123_683e;
const TMPFS: u64 = 0x0102_1994;

/// Most names of a file where the kernel's limit is not known here.
const LINKS_USUAL: u32 = i32::MAX.cast_unsigned();

/// Times before it, in seconds, are clamped by some file systems: it is what 32 bits hold.
const FIRST_SECOND: i64 = -(1 << 31);

pub(super) struct Found {
    pub(super) about: About,
    /// Whether it lies in memory.
    pub(super) is_memory: bool,
}

pub(super) fn about(whole: &OwnedFd) -> io::Result<Found> {
    let (magic, room) = (fstatfs(whole)?.f_type as u64, fstatvfs(whole)?);
    let is_memory = magic == TMPFS;
    let about = About {
        kind: "host",
        id: u128::from(room.f_fsid),
        block: u32::try_from(room.f_frsize).unwrap_or(4096).max(512),
        grain: Nanos(1),
        times: Stamp(FIRST_SECOND * 1_000_000_000)..=Stamp(i64::MAX),
        links_max: match magic {
            EXT => 65_000,
            BTRFS => 65_535,
            _ => LINKS_USUAL,
        },
        size_max: i64::MAX as u64,
        promise: if is_memory { Promise::None } else { Promise::Weak },
        can: Abilities {
            xattrs: true,
            hard_links: true,
            symlinks: true,
            nodes: true,
            access_times: true,
            exchange: true,
            reserve: true,
            punch: true,
            holes: true,
            share: matches!(magic, XFS | BTRFS),
            locks: false,
            flags: true,
        },
    };
    Ok(Found { about, is_memory })
}

pub(super) fn space(whole: &OwnedFd) -> io::Result<Space> {
    let room = fstatvfs(whole)?;
    Ok(Space {
        bytes: room.f_blocks.saturating_mul(room.f_frsize),
        bytes_free: room.f_bavail.saturating_mul(room.f_frsize),
        inodes: room.f_files,
        inodes_free: room.f_favail,
    })
}
