//! Requests of an io_uring are seen as the calls that they stand for.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run programs and look at their files")]

use std::fs::File;
use std::path::Path;
use std::process::Command;

use esker_skip::{Ability, skip};
use esker_trace_calls::etrace::{Limits, read};
use esker_trace_calls::words::OpenFlags;
use esker_trace_calls::{Action, Call, Fd, Outcome, Trace, WarningKind};
use esker_trace_order::compiled::LeftOut;
use esker_trace_order::model::compile;
use esker_trace_record::{Gate, Method, RecordError, Settings, Target, record};

/// What was recorded; `None`, loudly, where this machine does not let us.
fn recorded(folder: &Path, words: &[&str]) -> Option<Trace> {
    let path = folder.join("t.etrace");
    let target = Target::Program(words.iter().map(Into::into).collect());
    let (stop, ready) = Default::default();
    let settings = Settings {
        method: Method::Kernel,
        roots: Vec::new(),
        anonymise: None,
        ring_bytes: 64 << 20,
        gate: Gate::Shell,
        stop,
        ready,
    };
    let recorded = match record(&target, &settings, File::create(&path).expect("scratch")) {
        Err(error @ (RecordError::Kernel(_) | RecordError::NameSpace)) => {
            skip(Ability::Bpf, error);
            return None;
        }
        recorded => recorded.expect("the program is recorded"),
    };
    if recorded.status == Some(esker_trace_record::ptrace::Status::Exited(75)) {
        skip(Ability::IoUring, "this kernel has no io_uring for this process");
        return None;
    }
    assert_eq!(recorded.status, Some(esker_trace_record::ptrace::Status::Exited(0)));
    assert_eq!(recorded.lost, esker_trace_record::Lost::default());
    Some(read(File::open(&path).expect("it is there"), Limits::GENEROUS).expect("it is whole"))
}

/// The actions of threads that stand for requests.
fn requests(trace: &Trace) -> Vec<&Action> {
    let is_lane = |action: &&Action| trace.threads[action.thread.0 as usize].name.as_bytes() == b"io_uring";
    trace.actions.iter().filter(is_lane).collect()
}

/// A program in C that was built here; `None`, loudly, without a compiler.
fn built(folder: &Path) -> Option<String> {
    let program = folder.join("requests").to_str().expect("a plain name").to_string();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/requests.c");
    match Command::new("cc").args(["-o", &program, source]).status() {
        Ok(built) => assert!(built.success(), "it is C"),
        Err(error) => {
            skip(Ability::Program, format_args!("cc: {error}; apt-get install gcc"));
            return None;
        }
    }
    Some(program)
}

#[test]
fn requests_are_seen_as_the_calls_that_they_stand_for() {
    let folder = tempfile::tempdir().expect("scratch");
    let Some(program) = built(folder.path()) else { return };
    let place = folder.path().to_str().expect("a plain name");
    let Some(trace) = recorded(folder.path(), &[&program, place]) else { return };
    assert_eq!(trace.warnings.count(WarningKind::UringUnseen), 0, "{:?}", trace.warnings);
    let seen = requests(&trace);
    let named: Vec<(&str, Option<i64>)> = seen.iter().map(|one| (one.call.name(), one.outcome.value())).collect();
    let file = named[1].1;
    let expected = [
        ("mkdir", Some(0)),
        ("open", file),
        ("pwrite", Some(8192)),
        ("fsync", Some(0)),
        ("pread", Some(4096)),
        ("pwrite", Some(300)),
        ("fallocate", Some(0)),
        ("pread", Some(512)),
        ("stat", Some(0)),
        ("rename", Some(0)),
        ("close", Some(0)),
        ("unlink", Some(0)),
        ("pread", None),
    ];
    assert_eq!(named, expected);
    assert!(matches!(&seen[1].call, Call::Open { at, flags, mode: 0o644, .. }
        if at.path.as_bytes() == b"d/f" && flags.contains(OpenFlags::O_CREAT | OpenFlags::READ | OpenFlags::WRITE)));
    let fd = Fd(file.expect("it was opened") as i32);
    assert!(matches!(seen[4].call, Call::Pread { fd: one, offset: 4096, len: 4096, .. } if one == fd));
    assert!(matches!(seen[5].call, Call::Pwrite { offset: 300, len: 300, parts: 2, .. }));
    assert_eq!(seen[12].outcome, Outcome::Failed(esker_trace_calls::Errno::EBADF));
    // Each of a chain begins at the end of the one before it, in one thread.
    let chain = &seen[2..5];
    assert!(chain.windows(2).all(|pair| pair[0].thread == pair[1].thread && pair[0].leave <= pair[1].enter));
    assert!(seen[6].enter >= seen[5].leave, "it waits for all before it");
    // The slot is a descriptor of its own.
    let dup = trace.actions.iter().find_map(|action| match action.call {
        Call::Dup { fd: from, .. } if from == fd => action.outcome.value(),
        _ => None,
    });
    assert!(matches!(seen[7].call, Call::Pread { fd, offset: 1024, len: 512, .. } if Some(i64::from(fd.0)) == dup));
    let program = compile(trace, &mut |_| {}).expect("it is sound");
    assert_eq!(program.about().repairs.contradictions(), 0, "the model believes all of it");
    assert_eq!(LeftOut::of(&program).why_no_time(), None);
}

#[test]
fn a_request_that_no_trace_holds_is_counted_by_its_name() {
    let folder = tempfile::tempdir().expect("scratch");
    let Some(program) = built(folder.path()) else { return };
    let place = folder.path().to_str().expect("a plain name");
    let Some(trace) = recorded(folder.path(), &[&program, place, "more"]) else { return };
    assert_eq!(trace.warnings.count(WarningKind::UringUnseen), 1);
    let (_, tally) =
        trace.warnings.tallies().find(|(kind, _)| *kind == WarningKind::UringUnseen).expect("it was counted");
    assert_eq!(tally.places[0].text, "IORING_OP_FGETXATTR");
    let program = compile(trace, &mut |_| {}).expect("it is sound");
    let why = LeftOut::of(&program).why_no_time();
    assert_eq!(why.as_deref(), Some("1 io_uring submission was not played"));
}

/// All that `fio` moves in a job with these options more is seen.
fn check_fio(more: &[&str]) {
    if Command::new("fio").arg("--version").output().is_err() {
        return skip(Ability::Program, "fio is missing: apt-get install fio");
    }
    let folder = tempfile::tempdir().expect("scratch");
    let place = format!("--directory={}", folder.path().to_str().expect("a plain name"));
    let job = ["fio", "--name=j", "--ioengine=io_uring", "--iodepth=4", "--bs=4k", "--size=1m", "--rw=randrw"];
    let output = format!("--output={}", folder.path().join("out").to_str().expect("a plain name"));
    let mut words = [job.as_slice(), &[&place, &output, "--thread", "--norandommap", "--fsync=32"], more].concat();
    words.push("--fallocate=none");
    let Some(trace) = recorded(folder.path(), &words) else { return };
    assert_eq!(trace.warnings.count(WarningKind::UringUnseen), 0, "{more:?}: {:?}", trace.warnings);
    assert_eq!(trace.warnings.count(WarningKind::UringPolled), 0, "{more:?}");
    let moved = requests(&trace).into_iter().filter(|one| matches!(one.call, Call::Pread { .. } | Call::Pwrite { .. }));
    let bytes: i64 = moved.filter_map(|one| one.outcome.value()).sum();
    assert_eq!(bytes, 1 << 20, "{more:?}");
    let lanes = trace.threads.iter().filter(|thread| thread.name.as_bytes() == b"io_uring").count();
    assert!((1..=5).contains(&lanes), "{more:?}: {lanes} at once");
    let program = compile(trace, &mut |_| {}).expect("it is sound");
    assert_eq!(LeftOut::of(&program).why_no_time(), None, "{more:?}");
}

#[test]
fn requests_of_fio_are_seen() {
    check_fio(&[]);
}

#[test]
fn requests_on_registered_files_and_buffers_are_seen() {
    check_fio(&["--registerfiles=1", "--fixedbufs=1"]);
}

#[test]
fn requests_that_the_kernel_takes_by_itself_are_seen() {
    check_fio(&["--sqthread_poll=1"]);
}
