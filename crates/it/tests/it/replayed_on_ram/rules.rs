//! Differences that are known, each with its reason. Whatever else differs is a mistake.

use esker_trace_replay::report::{Mismatch, TreeDifference};

/// A difference.
struct Rule {
    /// Name and reason.
    why: &'static str,
    /// The recorded programs that have it; of none, all traces.
    programs: &'static [&'static str],
    is: fn(&Mismatch) -> bool,
}

const RULES: [Rule; 4] = [
    Rule {
        why: "access-lists: a file system without access lists says so, one with them says that a file has none",
        programs: &[],
        is: |seen| seen.call.contains("system.posix_acl_") && seen.actual == "EOPNOTSUPP",
    },
    Rule {
        why: "late-names: a name that is made while a directory is read may be listed or not",
        programs: &["chromium-page", "rsync-tree"],
        is: |seen| seen.call.starts_with("getdents(") && seen.expected == "0",
    },
    Rule {
        why: "unseen-maps: bytes that reached a file through a map of which the recorder saw nothing; on the kernel too",
        programs: &["chromium-page"],
        is: |seen| seen.call.starts_with("stat(") && seen.actual == "S_IFREG of 0 bytes",
    },
    Rule {
        why: "unseen-names: sockets and processes that others made meanwhile; on the kernel too",
        programs: &["chromium-page", "redis-aof"],
        is: |seen| {
            let is_of_sockets = seen.expected.starts_with("S_IFSOCK") || seen.call.starts_with("unlink(");
            is_of_sockets && seen.actual == "ENOENT" || seen.call.starts_with("open(at=\"/proc/")
        },
    },
];

/// Why a call of a trace came out otherwise, if that is in the list.
pub fn explain(trace: &str, seen: &Mismatch) -> Option<&'static str> {
    let is_of = |rule: &&Rule| rule.programs.is_empty() || rule.programs.contains(&trace);
    RULES.iter().filter(is_of).find(|rule| (rule.is)(seen)).map(|rule| rule.why)
}

/// A difference of the tree, for people: none is in the list.
pub fn told(seen: &TreeDifference) -> String {
    format!("{}: the program left {}, ram has {}", seen.path, seen.expected, seen.actual)
}
