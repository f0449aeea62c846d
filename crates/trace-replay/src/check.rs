//! Whether a call came out as it did in the trace.
//!
//! It did not if one succeeded and the other failed; if both failed for different reasons; if a count of bytes or an
//! offset differs; if a call of the `stat` family sees another type, or another size of a file. Numbers of descriptors,
//! processes and addresses are names: they differ in every run. Entries of directories come in every file system's own
//! order and form, so only their end is compared.

use esker_trace_calls::call::Compared;
use esker_trace_calls::words::FileKind;
use esker_trace_calls::{Call, Errno, Outcome, Platform, Status};
use esker_trace_order::compiled::{Notes, Step};

use crate::kernel::Answer;

/// What a comparison says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As in the trace, or nothing to compare.
    Same,
    /// Otherwise, and expected between these platforms.
    Tolerated(&'static str),
    /// Otherwise.
    Differs,
}

/// What a call returned, or why it failed.
type Ended = Result<i64, Errno>;

/// A difference between platforms, or machines, that says nothing about the order of calls.
struct Quirk {
    platform: Platform,
    why: &'static str,
    applies: fn(&Call, Ended, Ended) -> bool,
}

/// The table of quirks: traced result first, then the one here.
const QUIRKS: &[Quirk] = &[
    Quirk {
        platform: Platform::Linux,
        why: "links of /proc lead elsewhere for each process, and there is one of each here",
        applies: |call, then, now| {
            let in_proc = matches!(call, Call::ReadLink { at, .. } if at.path.starts_with(b"/proc/"));
            in_proc && then.is_ok() && now.is_ok()
        },
    },
    Quirk {
        platform: Platform::Linux,
        why: "links of /proc that are none: other processes are not here",
        applies: |call, then, now| {
            let in_proc = matches!(call, Call::ReadLink { at, .. } if at.path.starts_with(b"/proc/"));
            in_proc && then == Err(Errno::EINVAL) && now == Err(Errno::ENOENT)
        },
    },
    Quirk {
        platform: Platform::Linux,
        why: "rename over a directory with entries: ENOTEMPTY on most file systems, EEXIST on XFS",
        applies: |call, then, now| {
            let is_either = |ended| ended == Err(Errno::ENOTEMPTY) || ended == Err(Errno::EEXIST);
            matches!(call, Call::Rename { .. }) && is_either(then) && is_either(now)
        },
    },
    Quirk {
        platform: Platform::Mac,
        why: "close of shared memory: a Mac reports EINVAL though it closes",
        applies: |call, then, now| matches!(call, Call::Close { .. }) && then == Err(Errno::EINVAL) && now.is_ok(),
    },
    Quirk {
        platform: Platform::Mac,
        why: "unlink of a directory: EPERM on a Mac, EISDIR here",
        applies: |call, then, now| {
            matches!(call, Call::Unlink { .. }) && then == Err(Errno::EPERM) && now == Err(Errno::EISDIR)
        },
    },
    Quirk {
        platform: Platform::Mac,
        why: "mkdir of the root: EISDIR on a Mac, EEXIST here",
        applies: |call, then, now| {
            matches!(call, Call::Mkdir { .. }) && then == Err(Errno::EISDIR) && now == Err(Errno::EEXIST)
        },
    },
];

/// Compares.
pub fn compare(step: &Step, platform: Platform, answer: &Answer) -> Verdict {
    let then = match step.outcome {
        Outcome::Done(value) => Ok(value),
        Outcome::Failed(errno) => Err(errno),
        Outcome::Unknown => return Verdict::Same,
    };
    let is_not_compared = answer.skipped.is_some() || step.notes.contains(Notes::MADE_UP);
    if is_not_compared || same(&step.call, then, answer) {
        return Verdict::Same;
    }
    let quirk =
        QUIRKS.iter().find(|quirk| quirk.platform == platform && (quirk.applies)(&step.call, then, answer.result));
    quirk.map_or(Verdict::Differs, |quirk| Verdict::Tolerated(quirk.why))
}

fn same(call: &Call, then: Result<i64, Errno>, answer: &Answer) -> bool {
    match (then, answer.result) {
        (Err(then), Err(now)) => then == now,
        (Ok(then), Ok(now)) => same_value(call, then, now) && same_status(call, answer.seen),
        _ => false,
    }
}

fn same_value(call: &Call, then: i64, now: i64) -> bool {
    match call.compared() {
        Compared::Exactly => then == now,
        Compared::AtEnd => (then == 0) == (now == 0),
        Compared::Never => true,
    }
}

fn same_status(call: &Call, now: Option<(FileKind, u64)>) -> bool {
    let (Call::Stat { seen: Some(then), .. }, Some((kind, size))) = (call, now) else { return true };
    let Status { kind: kind_then, size: size_then, .. } = **then;
    // The size of a directory is the file system's business.
    kind_then == kind && (kind != FileKind::Regular || size_then == size)
}

/// A result for people: of a `stat`, what it saw.
pub fn told(result: Result<i64, Errno>, seen: Option<(FileKind, u64)>) -> String {
    match (result, seen) {
        (Err(errno), _) => errno.to_string(),
        (Ok(_), Some((kind, size))) => format!("{} of {size} bytes", kind.name()),
        (Ok(value), None) => value.to_string(),
    }
}

/// What was expected, for people.
pub fn expected(step: &Step) -> String {
    match (&step.call, step.outcome) {
        (Call::Stat { seen: Some(seen), .. }, Outcome::Done(_)) => told(Ok(0), Some((seen.kind, seen.size))),
        (_, Outcome::Done(value)) => told(Ok(value), None),
        (_, Outcome::Failed(errno)) => told(Err(errno), None),
        (_, Outcome::Unknown) => "?".to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_trace_calls::Fd;

    fn step(call: Call, outcome: Outcome) -> Step {
        Step { call, outcome, notes: Default::default(), slots: Vec::new() }
    }

    fn answer(result: Result<i64, Errno>) -> Answer {
        Answer { result, seen: None, skipped: None, call_ns: None }
    }

    fn check(call: Call, then: Outcome, now: Result<i64, Errno>, says: Verdict) {
        assert_eq!(compare(&step(call, then), Platform::Linux, &answer(now)), says);
    }

    fn read() -> Call {
        Call::Read { fd: Fd(0), len: 10, parts: 0 }
    }

    #[test]
    fn success_and_failure_differ() {
        check(read(), Outcome::Done(10), Err(Errno::EBADF), Verdict::Differs);
        check(read(), Outcome::Failed(Errno::EBADF), Ok(10), Verdict::Differs);
    }

    #[test]
    fn reasons_of_failure_are_compared() {
        check(read(), Outcome::Failed(Errno::EBADF), Err(Errno::EBADF), Verdict::Same);
        check(read(), Outcome::Failed(Errno::EBADF), Err(Errno::EISDIR), Verdict::Differs);
    }

    #[test]
    fn counts_of_bytes_are_compared_and_numbers_of_descriptors_are_not() {
        check(read(), Outcome::Done(10), Ok(9), Verdict::Differs);
        check(Call::Dup { fd: Fd(0), min: 0, cloexec: false }, Outcome::Done(7), Ok(0), Verdict::Same);
    }

    #[test]
    fn a_stat_compares_type_and_size_of_files() {
        let seen = |kind, size| Box::new(Status { kind, mode: 0, size, links: 1, device: 0, inode: 0 });
        let stat = |kind, size| Call::Stat { file: esker_trace_calls::Object::Fd(Fd(0)), seen: Some(seen(kind, size)) };
        let now = |kind, size| Answer { result: Ok(0), seen: Some((kind, size)), skipped: None, call_ns: None };
        let verdict = |call, now| compare(&step(call, Outcome::Done(0)), Platform::Linux, &now);
        let (file, directory) = (FileKind::Regular, FileKind::Directory);
        assert_eq!(verdict(stat(file, 5), now(file, 5)), Verdict::Same);
        assert_eq!(verdict(stat(file, 5), now(file, 6)), Verdict::Differs);
        assert_eq!(verdict(stat(file, 5), now(directory, 5)), Verdict::Differs);
        assert_eq!(verdict(stat(directory, 5), now(directory, 4096)), Verdict::Same);
    }

    #[test]
    fn where_a_link_of_proc_leads_is_tolerated_and_that_of_another_is_compared() {
        let link = |path: &str| Call::ReadLink { at: esker_trace_calls::At::cwd(path), len: 99, seen_target: None };
        let verdict = |path, now| compare(&step(link(path), Outcome::Done(23)), Platform::Linux, &answer(now));
        assert!(matches!(verdict("/proc/self/exe", Ok(12)), Verdict::Tolerated(_)));
        assert_eq!(verdict("/proc/self/exe", Err(Errno::ENOENT)), Verdict::Differs);
        assert_eq!(verdict("/bin", Ok(12)), Verdict::Differs);
    }

    #[test]
    fn either_refusal_of_a_rename_over_entries_is_tolerated() {
        let at = || esker_trace_calls::At::cwd("x");
        let rename = || Call::Rename { from: at(), to: at(), flags: Default::default() };
        let verdict = |then, now| compare(&step(rename(), Outcome::Failed(then)), Platform::Linux, &answer(now));
        assert!(matches!(verdict(Errno::ENOTEMPTY, Err(Errno::EEXIST)), Verdict::Tolerated(_)));
        assert!(matches!(verdict(Errno::EEXIST, Err(Errno::ENOTEMPTY)), Verdict::Tolerated(_)));
        assert_eq!(verdict(Errno::EEXIST, Err(Errno::ENOENT)), Verdict::Differs);
        assert_eq!(verdict(Errno::EEXIST, Ok(0)), Verdict::Differs);
    }

    #[test]
    fn a_quirk_of_a_mac_is_tolerated_only_there() {
        let close = step(Call::Close { fd: Fd(0) }, Outcome::Failed(Errno::EINVAL));
        assert!(matches!(compare(&close, Platform::Mac, &answer(Ok(0))), Verdict::Tolerated(_)));
        assert_eq!(compare(&close, Platform::Linux, &answer(Ok(0))), Verdict::Differs);
        assert_eq!(compare(&close, Platform::Mac, &answer(Err(Errno::EIO))), Verdict::Differs);
    }
}
