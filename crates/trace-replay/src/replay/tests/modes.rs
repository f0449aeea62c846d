//! What each mode keeps and lets go.

use super::*;

/// When each action was issued and done.
fn stamps(finished: &Finished) -> BTreeMap<u32, (u64, u64)> {
    let all = finished.played.iter().flat_map(|played| &played.stamps);
    all.map(|stamp| (stamp.action, (stamp.issue_ns, stamp.done_ns))).collect()
}

/// Every edge of the order is kept, also those that others imply.
pub(super) fn assert_kept(program: &Program, order: Order, finished: &Finished) {
    let stamps = stamps(finished);
    assert_eq!(stamps.len(), program.len());
    let mut edges = 0;
    esker_trace_order::rules::schedule::for_each(program.outline(), order, |action, candidates| {
        for candidate in candidates {
            let (first, then) = (stamps[&candidate.edge.from], stamps[&action]);
            let since = if candidate.edge.rules == Rules::TRACE_ORDER { first.0 } else { first.1 };
            assert!(since <= then.0, "action {action} was issued before {:?}", candidate.edge);
            edges += 1;
        }
    });
    assert!(edges > 0);
}

#[test]
fn no_dependency_is_violated_and_no_result_differs() {
    let program = busy(16, 12_000, 1);
    assert_eq!(program.about().repairs.contradictions(), 0);
    for _ in 0..3 {
        let (finished, report) = play_as(&program, ROOT(), Speed::Afap);
        assert_eq!(report.mismatches.count, 0, "{:#?}", report.mismatches.listed.first());
        assert_kept(&program, ROOT(), &finished);
    }
}

#[test]
fn random_delays_do_not_break_the_order() {
    let mut random = Stream::seeded(2);
    let mut draft = Draft::of(8);
    draft.file("/f0", 0);
    for round in 0..300u32 {
        for _ in 0..3 {
            // Thinking by random spans shuffles the threads.
            draft.now += random.below(60_000);
            let thread = random.below(8) as u32;
            let file = Object::Path { at: At::cwd(&format!("/f{}", round % 3)), follow: true };
            draft.call(thread, Call::Stat { file, seen: None }, Outcome::Done(0));
        }
        let (from, to) = (format!("/f{}", round % 3), format!("/f{}", (round + 1) % 3));
        let call = Call::Rename { from: At::cwd(&from), to: At::cwd(&to), flags: RenameFlags::empty() };
        draft.call(random.below(8) as u32, call, Outcome::Done(0));
    }
    let program = draft.program();
    let (finished, report) = play_as(&program, ROOT(), Speed::Scaled(1.0));
    assert_eq!(report.mismatches.count, 0, "{:#?}", report.mismatches.listed.first());
    assert_kept(&program, ROOT(), &finished);
}

#[test]
fn all_modes_come_from_one_compiled_file() {
    let bytes = busy(6, 3000, 3).encode();
    let program = Program::decode(&bytes).unwrap();
    let failures = |order| play_as(&program, order, Speed::Afap).1.mismatches.count;
    assert_eq!([failures(ROOT()), failures(Order::Temporal), failures(Order::Single)], [0, 0, 0]);
    assert!(failures(Order::Unconstrained) > 30, "nothing keeps the order there");
}

#[test]
fn temporal_replays_issue_in_the_order_of_the_trace() {
    let program = busy(6, 3000, 4);
    let (finished, report) = play_as(&program, Order::Temporal, Speed::Afap);
    assert_eq!(report.mismatches.count, 0);
    let issues: Vec<u64> = stamps(&finished).values().map(|stamp| stamp.0).collect();
    assert!(issues.is_sorted());
    assert_kept(&program, Order::Temporal, &finished);
}

#[test]
fn single_replays_have_one_call_at_a_time() {
    let program = busy(6, 3000, 5);
    let (finished, report) = play_as(&program, Order::Single, Speed::Afap);
    assert_eq!((report.mismatches.count, report.threads.len()), (0, 1));
    let mut last = 0;
    for (issue, done) in stamps(&finished).into_values() {
        assert!(last <= issue && issue <= done);
        last = done;
    }
}

#[test]
fn equal_numbers_of_descriptors_coexist() {
    // One thread after the other has number 3 for a file of its own; nothing orders them but the number.
    let mut draft = Draft::of(8);
    for thread in 0..8u32 {
        draft.file(&format!("/f{thread}"), 1000 * (u64::from(thread) + 1));
    }
    for thread in 0..8u32 {
        draft.open(thread, &format!("/f{thread}"), OpenFlags::READ, 3);
        for _ in 0..50 {
            let none = ReadWriteFlags::empty();
            let call = Call::Pread { fd: Fd(3), offset: 0, len: 1 << 20, parts: 0, flags: none };
            draft.call(thread, call, Outcome::Done(1000 * (i64::from(thread) + 1)));
        }
        draft.call(thread, Call::Close { fd: Fd(3) }, Outcome::Done(0));
    }
    let program = draft.program();
    assert_eq!(program.schedule(ROOT()).cost().waits, 0, "nothing orders them");
    assert_eq!(play_as(&program, ROOT(), Speed::Afap).1.mismatches.count, 0);
}

#[test]
fn many_descriptors_are_open_at_once() {
    let mut draft = Draft::of(2);
    draft.file("/f", 10);
    for fd in 0..3000 {
        draft.open(fd % 2, "/f", OpenFlags::READ, i64::from(fd) + 3);
    }
    for fd in 0..3000 {
        draft.call(fd % 2, Call::Read { fd: Fd(fd as i32 + 3), len: 100, parts: 0 }, Outcome::Done(10));
    }
    let (_, report) = play_as(&draft.program(), ROOT(), Speed::Afap);
    assert_eq!(report.mismatches.count, 0, "{:?}", report.mismatches.listed.first());
}

/// Descriptors for which the table of this process has room.
fn room() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("FDSize:")).unwrap();
    line.trim().parse().unwrap()
}

#[test]
fn there_is_room_for_all_descriptors_before_threads_share_their_table() {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum.unwrap_or(u64::MAX);
    let wanted = (2 * room()).min(limit);
    let mut draft = Draft::of(2);
    draft.file("/f", 10);
    for _ in 0..wanted {
        draft.open(0, "/f", OpenFlags::READ, 3);
        draft.call(0, Call::Close { fd: Fd(3) }, Outcome::Done(0));
    }
    let (_, report) = play_as(&draft.program(), ROOT(), Speed::Afap);
    assert_eq!(report.mismatches.count, 0);
    assert!(room() >= wanted, "{} of {wanted}, though never two were open at once", room());
}

#[test]
fn mismatches_are_told_with_what_was_expected_and_what_came() {
    let mut draft = Draft::of(1);
    draft.file("/f", 10);
    draft.open(0, "/f", OpenFlags::READ, 3);
    draft.call(0, Call::Read { fd: Fd(3), len: 5, parts: 0 }, Outcome::Done(5));
    draft.call(0, Call::Seek { fd: Fd(3), offset: 5, whence: Whence::Set }, Outcome::Done(5));
    let lost = |root: &Root| std::fs::remove_file(root.path().join("f")).unwrap();
    let (_, report) = play_after(&draft.program(), ROOT(), Speed::Afap, options(), lost);
    let told = report.mismatches.listed.iter().map(|one| (one.action, one.expected.as_str(), one.actual.as_str()));
    let told: Vec<_> = told.collect();
    assert_eq!(told, [(0, "3", "ENOENT"), (1, "5", "EBADF"), (2, "5", "EBADF")]);
    assert_eq!((report.mismatches.count, report.mismatches.compared), (3, 3));
    let read = Report::from_json(&serde_json::to_string(&report).unwrap()).unwrap();
    assert_eq!((&read.mismatches, &read.threads, &read.calls), (&report.mismatches, &report.threads, &report.calls));
    let newer = serde_json::to_string(&Report { version: 2, ..read }).unwrap();
    assert!(Report::from_json(&newer).unwrap_err().to_string().contains("version 2"));
    assert!(crate::report::text::text(&report).contains("expected 3, got ENOENT"));
    assert!(crate::report::html::page(std::slice::from_ref(&report), "test").unwrap().contains("ENOENT"));
}
