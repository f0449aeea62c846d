//! Differences that are known, each with its reason. Whatever else differs is a mistake.

use esker_trace_replay::report::{Mismatch, TreeDifference};

/// A difference.
struct Rule {
    /// Name and reason.
    why: &'static str,
    is: fn(&Mismatch) -> bool,
}

const RULES: [Rule; 1] = [Rule {
    why: "access-lists: a file system without access lists says so, one with them says that a file has none",
    is: |seen| seen.call.contains("system.posix_acl_") && seen.actual == "EOPNOTSUPP",
}];

/// Why a call came out otherwise, if that is in the list.
pub fn explain(seen: &Mismatch) -> Option<&'static str> {
    RULES.iter().find(|rule| (rule.is)(seen)).map(|rule| rule.why)
}

/// Whether a difference of the tree is none that matters.
pub fn is_one_tree(_: &TreeDifference) -> bool {
    false
}
