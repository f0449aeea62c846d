//! The one list of all kinds of file systems.
//!
//! Invariant: holds no logic. Front ends get this list; nothing else knows a kind by name. A new kind is one entry.

#![forbid(unsafe_code)]

use esker_vfs::FsKind;

/// Every kind, in the order in which it is shown.
pub const ALL: &[FsKind] = &[
    FsKind {
        name: "ram",
        summary: "files in the memory of the process, gone when it ends",
        needs_device: false,
        options: &["size", "uid", "gid", "mode"],
        make: None,
        open: esker_vfs::ram::open,
    },
    FsKind {
        name: "host",
        summary: "a directory of this machine, which calls are passed through to",
        needs_device: false,
        options: &["dir"],
        make: None,
        open: esker_fs_host::kind::open,
    },
    FsKind {
        name: "lfs",
        summary: "a log-structured file system whose images are those of NILFS2",
        needs_device: true,
        options: esker_fs_lfs::kind::OPTIONS,
        make: Some(esker_fs_lfs::kind::make),
        open: esker_fs_lfs::kind::open,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_words_and_stand_once() {
        for (at, kind) in ALL.iter().enumerate() {
            assert!(kind.name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'), "{kind:?}");
            assert!(ALL[..at].iter().all(|other| other.name != kind.name), "{kind:?} stands twice");
        }
    }
}
