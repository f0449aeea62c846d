//! Differences that are known, each with its reason. Whatever else differs is a mistake.

use esker_fs_posix::script::{Room, ScriptOp, XattrOp};
use esker_fs_posix::{OpenFlags, Whence};
use esker_it::kernel::System;

/// A difference.
pub struct Rule {
    /// Name and reason.
    pub why: &'static str,
    /// What both sides do then, to be alike again.
    pub then: Then,
    /// The file systems that have it.
    systems: &'static [System],
    /// Whether it is this one.
    is: fn(&Seen) -> bool,
}

/// What happens behind a difference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Then {
    /// The script goes on.
    GoesOn,
    /// The offset of the held file is set to the beginning.
    Rewinds,
    /// Both trees may differ: the script ends.
    Ends,
}

/// A call whose answers differ.
pub struct Seen<'a> {
    pub op: &'a ScriptOp,
    /// The calls before it.
    pub before: &'a [ScriptOp],
    /// Whether it is about a held directory.
    pub is_directory: bool,
    /// Whether the working directory was removed.
    pub is_lost: bool,
    pub our: &'a str,
    pub their: &'a str,
}

const RULES: [Rule; 7] = [
    Rule {
        why: "directory-positions: whether a directory has data, holes and an end is the file system's own business",
        then: Then::Rewinds,
        systems: &System::ALL,
        is: |seen| {
            let moves = matches!(seen.op, ScriptOp::Seek(..));
            // A read of a directory fails, but for another reason if its position is very far behind.
            let reads = matches!(seen.op, ScriptOp::Read(..)) && seen.our == "EISDIR" && seen.their == "EINVAL";
            seen.is_directory && (moves || reads)
        },
    },
    Rule {
        why: "holes: reserved ranges are data where the kernel's cache has pages of them, and copies of holes are zeroes",
        then: Then::Rewinds,
        systems: &System::ALL,
        is: |seen| {
            let looks = matches!(seen.op, ScriptOp::Seek(_, Whence::Data | Whence::Hole, _));
            looks && seen.before.iter().any(|op| matches!(op, ScriptOp::Allocate(..) | ScriptOp::Copy(..)))
        },
    },
    Rule {
        why: "removed-parent: the kernel's cache still knows the directory above a removed working directory",
        then: Then::Ends,
        systems: &System::ALL,
        is: |seen| seen.is_lost && seen.our == "ENOENT",
    },
    Rule {
        why: "trusted-names: btrfs lists names of the superuser to every user",
        then: Then::GoesOn,
        systems: &[System::Btrfs],
        is: |seen| matches!(seen.op, ScriptOp::Xattr(_, XattrOp::List, _)) && shows_trusted(seen.our, seen.their),
    },
    Rule {
        why: "not-empty: XFS says that a directory which is not empty exists",
        then: Then::GoesOn,
        systems: &[System::Xfs],
        is: |seen| matches!(seen.op, ScriptOp::Rename(..)) && seen.our == "ENOTEMPTY" && seen.their == "EEXIST",
    },
    Rule {
        why: "btrfs-facts: btrfs does not count subdirectories as names of their directory, and does not read what it \
              copies by sharing",
        then: Then::GoesOn,
        systems: &[System::Btrfs],
        is: |seen| is_one_tree(System::Btrfs, seen.our, seen.their),
    },
    Rule {
        why: "xfs-facts: XFS says that a directory changes if an exchange moves it elsewhere, and does not read what it \
              copies by sharing",
        then: Then::GoesOn,
        systems: &[System::Xfs],
        is: |seen| is_one_tree(System::Xfs, seen.our, seen.their),
    },
];

/// The rule that explains a difference.
pub fn explain(system: System, seen: &Seen<'_>) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.systems.contains(&system) && (rule.is)(seen))
}

/// Facts that may differ: the kind of the inode, the fact, and the side that then tells a time of the clock.
enum Clock {
    Ours,
    Theirs,
    Neither,
}

const BTRFS_FACTS: [(&str, &str, Clock); 2] =
    [("dir ", " links=", Clock::Neither), ("file ", " accessed=", Clock::Ours)];
const XFS_FACTS: [(&str, &str, Clock); 2] =
    [("dir ", " modified=", Clock::Theirs), ("file ", " accessed=", Clock::Ours)];

/// Whether two lines of facts, or of an audit, tell the same but for differences that are known.
pub fn is_one_tree(system: System, our: &str, their: &str) -> bool {
    let facts = match system {
        System::Btrfs => &BTRFS_FACTS[..],
        System::Xfs => &XFS_FACTS,
        System::Ext4 | System::Tmpfs => return false,
    };
    let (mut our, mut their) = (our.to_string(), their.to_string());
    for (kind, fact, clock) in facts {
        let told = |line: &str| line.contains(&format!("{fact}clock"));
        let applies = match clock {
            Clock::Ours => told(&our),
            Clock::Theirs => told(&their),
            Clock::Neither => true,
        };
        if applies {
            (our, their) = (without(&our, kind, fact), without(&their, kind, fact));
        }
    }
    our == their
}

/// Facts of an inode of this kind without one of them.
fn without(line: &str, kind: &str, fact: &str) -> String {
    let parts = || {
        let (before, facts) = line.split_once(kind)?;
        let (left, rest) = facts.split_once(fact)?;
        let end = rest.find([' ', ';']).unwrap_or(rest.len());
        Some(format!("{before}{kind}{left}{}", &rest[end..]))
    };
    parts().unwrap_or_else(|| line.to_string())
}

/// Whether a list of names is the other with names of the superuser.
fn shows_trusted(our: &str, their: &str) -> bool {
    let names = |text: &str| -> Vec<String> { text.split(' ').skip(2).map(str::to_string).collect() };
    let shown: Vec<_> = names(their).into_iter().filter(|name| !name.starts_with("trusted.")).collect();
    their.contains(" names") && shown == names(our)
}

/// Whether a call is made on this file system at all. What one of both lacks would make the trees differ.
pub fn is_played(system: System, op: &ScriptOp) -> bool {
    match op {
        // ext4 and tmpfs share no bytes between files.
        ScriptOp::Clone(..) => matches!(system, System::Xfs | System::Btrfs),
        // tmpfs has no FALLOC_FL_ZERO_RANGE.
        ScriptOp::Allocate(_, Room::Zero | Room::ZeroKeep, ..) => system != System::Tmpfs,
        // btrfs changes no times and no mode if a hole is made behind the end.
        ScriptOp::Allocate(_, Room::Punch, ..) => system != System::Btrfs,
        // Reads of the trait do not carry that they leave times of access alone.
        ScriptOp::Open(_, _, flags, _) => !flags.contains(OpenFlags::NOATIME),
        // A read of no bytes is an access to tmpfs alone.
        ScriptOp::Read(_, 0, _) => system != System::Tmpfs,
        _ => true,
    }
}
