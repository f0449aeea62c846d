//! Limits of this process: locked memory and open files.

use esker_base::units::size_human;

use super::finding::{Finding, Subject};
use super::machine::{Capability, Machine};

const LOCKED: Subject = Subject { check: "locked memory", verbs: &["serve", "attach"] };
const FILES: Subject = Subject { check: "open files", verbs: &["mount", "serve"] };
const LIMITS: &str = "proc/self/limits";

/// Locked memory below which keys of encrypted volumes may not find room, in bytes.
const LOCKED_MIN: u64 = 1 << 20;
/// Open files of the unit of systemd.
const FILES_MIN: u64 = 65536;

/// A limit that the process has, and the one up to which it may raise it. `u64::MAX`: none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Limit {
    soft: u64,
    hard: u64,
}

pub fn check(machine: &Machine) -> Vec<Finding> {
    let text = machine.text(LIMITS).unwrap_or_default();
    let locked = match limit(&text, "Max locked memory") {
        _ if machine.holds(Capability::IpcLock) => LOCKED.ok("no limit for this process (CAP_IPC_LOCK)"),
        limit => limit.map_or_else(|| LOCKED.unread(LIMITS), locked),
    };
    vec![locked, limit(&text, "Max open files").map_or_else(|| FILES.unread(LIMITS), files)]
}

/// A limit of the text of `/proc/PID/limits`.
fn limit(text: &str, name: &str) -> Option<Limit> {
    let mut words = text.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace();
    let number = |word: &str| if word == "unlimited" { Some(u64::MAX) } else { word.parse().ok() };
    Some(Limit { soft: number(words.next()?)?, hard: number(words.next()?)? })
}

fn locked(limit: Limit) -> Finding {
    match limit.soft {
        u64::MAX => LOCKED.ok("no limit"),
        bytes if bytes >= LOCKED_MIN => LOCKED.ok(format!("{} (RLIMIT_MEMLOCK)", size_human(bytes))),
        bytes => LOCKED.note(
            format!("{} (RLIMIT_MEMLOCK): keys of `crypt` may be swapped out", size_human(bytes)),
            "ulimit -l 8192, or LimitMEMLOCK=infinity in the unit",
        ),
    }
}

fn files(limit: Limit) -> Finding {
    let shown = |number| if number == u64::MAX { "unlimited".to_string() } else { format!("{number}") };
    let found = format!("{}, which may be raised to {} (RLIMIT_NOFILE)", shown(limit.soft), shown(limit.hard));
    match limit.hard >= FILES_MIN {
        true => FILES.ok(found),
        false => FILES.note(
            format!("{found}: `mount host` takes one for each inode that the kernel remembers"),
            format!("ulimit -Hn {FILES_MIN} as root, or LimitNOFILE={FILES_MIN} in the unit"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::State;
    use super::super::machine::testing::Made;
    use super::*;

    fn states(locked: &str, files: &str) -> Vec<State> {
        let text = format!(
            "Limit                     Soft Limit           Hard Limit           Units\n\
             Max open files            {files}                files\n\
             Max locked memory         {locked}              bytes\n"
        );
        check(&Made::of(&[(LIMITS, &text)]).for_user()).iter().map(|found| found.state).collect()
    }

    #[test]
    fn small_limits_are_notes() {
        assert_eq!(states("8388608 8388608", "1024 1048576"), [State::Ok, State::Ok]);
        assert_eq!(states("unlimited unlimited", "unlimited unlimited"), [State::Ok, State::Ok]);
        assert_eq!(states("65536 65536", "1024 4096"), [State::Note, State::Note]);
        assert_eq!(states("what", "1024"), [State::Note, State::Note]);
    }

    #[test]
    fn root_locks_without_a_limit_and_a_hidden_file_is_told() {
        let found = check(&Made::of(&[]));
        assert!(found[0].found.contains("CAP_IPC_LOCK"), "{found:?}");
        assert!(found[1].found.contains("/proc/self/limits cannot be read"), "{found:?}");
    }
}
