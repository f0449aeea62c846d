//! Differences that are known, each with its reason. Whatever else differs is a mistake.

use esker_fs_posix::script::{Op, Room};

use super::bed::System;

/// A difference.
pub struct Rule {
    /// Name and reason.
    pub why: &'static str,
    /// Whether both trees may differ from there on.
    pub ends: bool,
    /// The file systems that have it.
    systems: &'static [System],
    /// Whether it is this one: the call, our answer and the kernel's.
    is: fn(&Op, &str, &str) -> bool,
}

const RULES: [Rule; 1] = [
    Rule {
        why: "directory-links: btrfs does not count subdirectories as names of their directory",
        ends: false,
        systems: &[System::Btrfs],
        is: |_, our, their| without_links(our) == without_links(their),
    },
];

/// The rule that explains a difference.
pub fn explain(system: System, op: &Op, our: &str, their: &str) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.systems.contains(&system) && (rule.is)(op, our, their))
}

/// Whether two lines of an audit tell the same tree.
pub fn is_one_tree(system: System, our: &str, their: &str) -> bool {
    system == System::Btrfs && without_links(our) == without_links(their)
}

/// Facts of a directory without its number of names.
fn without_links(text: &str) -> Option<String> {
    let (before, rest) = text.split_once("dir ")?;
    let (mode, rest) = rest.split_once(" links=")?;
    let (_, behind) = rest.split_once(' ')?;
    Some(format!("{before}{mode} {behind}"))
}

/// Whether a call is made on this file system at all. What one of both lacks would make the trees differ.
pub fn is_played(system: System, op: &Op) -> bool {
    match op {
        // ext4 and tmpfs share no bytes between files.
        Op::Clone(..) => matches!(system, System::Xfs | System::Btrfs),
        // tmpfs has no FALLOC_FL_ZERO_RANGE.
        Op::Allocate(_, Room::Zero | Room::ZeroKeep, ..) => system != System::Tmpfs,
        _ => true,
    }
}
