//! `esker trace record`: exit statuses, signals, a recorder that is killed, hidden names.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run the program and look at its files")]

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use esker_testkit::{Ability, skip};
use esker_trace_calls::etrace::{Limits, read};
use esker_trace_calls::{Call, Trace, WarningKind};

const METHODS: [&str; 2] = ["bpf", "ptrace"];

fn command(method: &str, output: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_esker"));
    command.args(["trace", "record", "--method", method, "-o"]).arg(output).args(more);
    command
}

/// Runs it; `None`, loudly, where this machine permits no such recording.
fn run(method: &str, output: &Path, more: &[&str]) -> Option<Output> {
    let run = command(method, output, more).output().expect("the program starts");
    let err = String::from_utf8_lossy(&run.stderr);
    if err.contains("cannot be seen") || err.contains("may not be traced") {
        let lacks = if err.contains("may not be traced") { Ability::Ptrace } else { Ability::Bpf };
        skip(lacks, err);
        return None;
    }
    Some(run)
}

fn trace(path: &Path) -> Trace {
    read(File::open(path).expect("the recording is there"), Limits::GENEROUS).expect("the recording is read")
}

fn scratch() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("scratch");
    let path = folder.path().join("t.etrace");
    (folder, path)
}

#[test]
fn the_exit_status_is_the_programs() {
    for method in METHODS {
        let (_folder, path) = scratch();
        for (script, status) in [("true", 0), ("exit 7", 7), ("kill -TERM $$", 143)] {
            let Some(run) = run(method, &path, &["--", "sh", "-c", script]) else { continue };
            assert_eq!(run.status.code(), Some(status), "{method}: {script}");
        }
        let Some(run) = run(method, &path, &["--", "echo", "heard"]) else { continue };
        assert_eq!(String::from_utf8_lossy(&run.stdout), "heard\n", "{method}");
    }
    let (_folder, path) = scratch();
    let absent = command("ptrace", &path, &["--", "no-such-program"]).output().expect("the program starts");
    assert_eq!(absent.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&absent.stderr).contains("no-such-program: is no program here"));
}

#[test]
fn under_ptrace_only_recorded_calls_stop() {
    let (_folder, path) = scratch();
    let Some(run) = run("ptrace", &path, &["--", "cat", "/dev/null"]) else { return };
    let err = String::from_utf8_lossy(&run.stderr);
    assert!(err.contains("seen by ptrace, recorded calls only"), "{err}");
    let trace = trace(&path);
    let opened = |call: &Call| matches!(call, Call::Open { at, .. } if at.path.as_bytes() == b"/dev/null");
    assert_eq!(trace.actions.iter().filter(|action| opened(&action.call)).count(), 1);
    assert!(matches!(trace.actions[0].call, Call::Exec { .. }), "it begins with the program");
}

/// A recorded program that works until it is stopped.
fn endless(method: &str, output: &Path) -> Child {
    let script = "while :; do test -e /absent; done";
    let mut command = command(method, output, &["--", "sh", "-c", script]);
    command.stderr(Stdio::null()).spawn().expect("the program starts")
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(30), "{what}: waited in vain");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn signals_reach_the_program() {
    for method in METHODS {
        let (_folder, path) = scratch();
        if run(method, &path, &["--", "true"]).is_none() {
            continue;
        }
        let mut recorder = endless(method, &path);
        std::thread::sleep(Duration::from_millis(800));
        let pid = recorder.id().to_string();
        Command::new("kill").args(["-TERM", &pid]).status().expect("there is kill");
        wait_until(method, || recorder.try_wait().expect("it is ours").is_some());
        assert_eq!(recorder.wait().expect("it is ours").code(), Some(143), "{method}");
        assert_eq!(trace(&path).warnings.count(WarningKind::CutTail), 0, "{method}");
    }
}

#[test]
fn a_recorder_that_is_killed_leaves_what_it_had_written() {
    for method in METHODS {
        let (_folder, path) = scratch();
        if run(method, &path, &["--", "true"]).is_none() {
            continue;
        }
        let short = std::fs::metadata(&path).expect("it is there").len();
        let mut recorder = endless(method, &path);
        wait_until(method, || std::fs::metadata(&path).is_ok_and(|file| file.len() > short * 2));
        let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", recorder.id()));
        recorder.kill().expect("it is ours");
        recorder.wait().expect("it is ours");
        for child in children.unwrap_or_default().split_whitespace() {
            // Under ptrace it is gone with its recorder.
            Command::new("kill").args(["-KILL", child]).stderr(Stdio::null()).status().expect("there is kill");
        }
        let trace = trace(&path);
        assert_eq!(trace.warnings.count(WarningKind::CutTail), 1, "{method}");
        assert!(trace.actions.len() > 100, "{method}: {} calls", trace.actions.len());
    }
}

#[test]
fn names_are_hidden_and_structure_is_not() {
    let (folder, path) = scratch();
    let secret = folder.path().join("secret-place/letter.txt");
    std::fs::create_dir(secret.parent().expect("it has one")).expect("scratch");
    std::fs::write(&secret, "dear").expect("scratch");
    let secret = secret.to_str().expect("a plain name");
    let root = folder.path().to_str().expect("a plain name");
    let Some(_) = run("any", &path, &["--anonymise", "7", "--root", root, "--", "cat", secret, secret]) else { return };
    let trace = trace(&path);
    let text = format!("{trace:?}");
    assert!(!text.contains("secret") && !text.contains("letter"), "a name is left");
    let opens = trace.actions.iter().filter_map(|action| match &action.call {
        Call::Open { at, .. } if at.path.ends_with(b".txt") => Some(at.path.clone()),
        _ => None,
    });
    let opens: Vec<_> = opens.collect();
    assert_eq!(opens.len(), 2);
    assert_eq!(opens[0], opens[1], "one name stays one name");
    assert!(trace.snapshot.entries.contains_key(&opens[0]), "the tree has the same names");
}

/// Works on a file in a way that no call shows: by requests on a ring of its own or of the kernel's thread, or through
/// a map.
const HIDDEN: &str = "
import ctypes, mmap, os, struct, sys
how, path = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)
file = os.open(path, os.O_RDWR)
if how == 'mapped':
    memory = mmap.mmap(file, 65536)
    memory[0] = 1
    memory.flush()
    sys.exit(0)
params = (ctypes.c_uint32 * 30)()
params[2] = 2 if how == 'polled' else 0
ring = libc.syscall(425, 4, params)
if ring < 0: sys.exit(75)
if how == 'used':
    queue, entries = mmap.mmap(ring, 4096), mmap.mmap(ring, 4096, offset=0x10000000)
    buffer = ctypes.create_string_buffer(4096)
    entry = struct.pack('<BBHiQQI', 22, 0, 0, file, 0, ctypes.addressof(buffer), 4096)
    entries[:64] = entry.ljust(64, b'\\0')
    struct.pack_into('<I', queue, params[16], 0)
    struct.pack_into('<I', queue, params[11], 1)
    if libc.syscall(426, ring, 1, 1, 1, None, 0) != 1: sys.exit(75)
";

/// What a recording of such a program warns of, and what its replay says of a prediction; `None`, loudly, where the
/// kernel has no rings for us.
fn hidden(method: &str, how: &str) -> Option<(String, serde_json::Value)> {
    const PYTHON: &str = "/usr/bin/python3";
    if !Path::new(PYTHON).is_file() {
        skip(Ability::Program, format_args!("{PYTHON} is missing: apt-get install python3"));
        return None;
    }
    let (folder, path) = scratch();
    let file = folder.path().join("f");
    std::fs::write(&file, [7; 65536]).expect("scratch");
    // A write through a map is seen where its page is clean.
    std::fs::File::open(&file).and_then(|file| file.sync_all()).expect("scratch");
    let file = file.to_str().expect("a plain name");
    let recorded = run(method, &path, &["--", PYTHON, "-ISB", "-c", HIDDEN, how, file])?;
    if recorded.status.code() == Some(75) {
        skip(Ability::IoUring, "this kernel has no io_uring for this process");
        return None;
    }
    assert_eq!(recorded.status.code(), Some(0), "{method} {how}: {recorded:?}");
    let esker = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_esker"));
        command.current_dir(folder.path()).args(args).output().expect("the program starts")
    };
    let inspected = String::from_utf8_lossy(&esker(&["trace", "deps", "t.etrace"]).stderr).into_owned();
    let replayed = esker(&["trace", "replay", "t.etrace", "--dir", "run", "--speed", "natural", "--json", "r.json"]);
    assert_eq!(replayed.status.code(), Some(0), "{method} {how}: {replayed:?}");
    let report = std::fs::read_to_string(folder.path().join("r.json")).expect("it was written");
    let report: serde_json::Value = serde_json::from_str(&report).expect("it is JSON");
    let told = String::from_utf8_lossy(&recorded.stderr).into_owned();
    assert_eq!(
        inspected.contains("a replay predicts no time"),
        report["prediction"].is_null(),
        "{method} {how}: {inspected}"
    );
    Some((told, report))
}

#[test]
fn a_program_that_works_where_no_call_shows_it_is_told_of_and_predicted_no_time() {
    let cases = [
        ("used", "warning: uring-unseen: 1 times", "1 io_uring submission was not played"),
        ("polled", "warning: uring-polled: 1 times", "requests of 1 io_uring that the kernel polls"),
        ("mapped", "warning: mapped-writes: 1 times", "writes through 1 shared map of files were not played"),
    ];
    for method in METHODS {
        for (how, warning, why) in cases {
            let Some((told, report)) = hidden(method, how) else { continue };
            if method == "bpf" {
                let is_hidden = told.contains("uring-") || told.contains("mapped-writes");
                assert!(!is_hidden, "{how}: its requests and writes are seen: {told}");
                assert!(report["prediction"].is_object(), "{how}: {report}");
                continue;
            }
            assert!(told.contains(warning), "{method} {how}: {told}");
            assert!(report["prediction"].is_null(), "{method} {how}");
            assert!(
                report["no_prediction"].as_str().is_some_and(|told| told.contains(why)),
                "{method} {how}: {report}"
            );
        }
        let Some((told, report)) = hidden(method, "unused") else { continue };
        assert!(!told.contains("uring-") && !told.contains("mapped-writes"), "{method}: {told}");
        assert!(report["prediction"].is_object(), "{method}: an unused ring hides nothing");
    }
}
