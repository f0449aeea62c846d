//! `esker nfs` and `esker hotcold`: traces that are generated, packed and replayed in directories of this machine.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run the program and look at its files")]

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use esker_testkit::Ability;
use rustix::process::{Pid, Signal, kill_process};

const ESKER: &str = env!("CARGO_BIN_EXE_esker");

/// Time after which a program counts as hanging.
const TIME_MAX: Duration = Duration::from_secs(100);

/// Ends a program that hangs, unless what is answered is dropped before.
fn watch(child: &Child) -> mpsc::Sender<()> {
    let pid = Pid::from_child(child);
    let (sender, ended) = mpsc::channel::<()>();
    std::thread::spawn(move || {
        if ended.recv_timeout(TIME_MAX) == Err(RecvTimeoutError::Timeout) {
            kill_process(pid, Signal::KILL).expect("it runs");
        }
    });
    sender
}

fn esker(args: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(ESKER)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let _watch = watch(&child);
    let mut stdin = child.stdin.take().expect("it is piped");
    let input = input.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().expect("the program ends");
    let _closed_early = writer.join();
    output
}

fn generated(seed: &str) -> Vec<u8> {
    let args = ["nfs", "generate", "--seed", seed, "--operations", "3000", "--users", "9", "--scale", "0.1"];
    let output = esker(&args, b"");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

#[test]
fn a_trace_without_a_length_is_refused() {
    let output = esker(&["nfs", "generate", "--seed", "1"], b"");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("--hours") && output.stdout.is_empty(), "{told}");
}

/// Replays a trace; answers the counts.
fn replayed(trace: &str, dir: &Path, input: &[u8], more: &[&str]) -> serde_json::Value {
    let dir = dir.to_str().expect("a path that is text");
    let output = esker(&[&["nfs", "replay", trace, dir, "--json"], more].concat(), input);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("a report")
}

/// Paths, kinds and bytes of all that lies in a directory.
fn picture(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut open = vec![dir.to_path_buf()];
    while let Some(at) = open.pop() {
        for entry in fs::read_dir(&at).expect("it can be listed") {
            let path = entry.expect("it can be listed").path();
            let kind = fs::symlink_metadata(&path).expect("it is there");
            let content = match () {
                () if kind.is_dir() => {
                    open.push(path.clone());
                    b"directory".to_vec()
                }
                () if kind.is_symlink() => fs::read_link(&path).expect("a link").into_os_string().into_encoded_bytes(),
                () => fs::read(&path).expect("a file"),
            };
            found.push((path.strip_prefix(dir).expect("below it").display().to_string(), content));
        }
    }
    found.sort();
    found
}

#[test]
fn a_packed_trace_and_standard_input_give_the_same_counts_and_tree() {
    let folder = tempfile::tempdir().unwrap();
    let text = generated("4");
    assert_eq!(text, generated("4"), "a seed decides the text");
    let mut seen = Vec::new();
    for packer in ["cat", "gzip", "xz", "bzip2", "zstd"] {
        let packed = folder.path().join(packer);
        let mut child =
            match Command::new(packer).stdin(Stdio::piped()).stdout(fs::File::create(&packed).unwrap()).spawn() {
                Ok(child) => child,
                Err(_) => continue,
            };
        child.stdin.take().unwrap().write_all(&text).unwrap();
        assert!(child.wait().unwrap().success());
        let dir = folder.path().join(format!("{packer}-dir"));
        fs::create_dir(&dir).unwrap();
        seen.push((replayed(packed.to_str().unwrap(), &dir, b"", &["--no-sync"]), picture(&dir)));
    }
    let dir = folder.path().join("stdin-dir");
    fs::create_dir(&dir).unwrap();
    seen.push((replayed("-", &dir, &text, &["--no-sync"]), picture(&dir)));
    assert!(seen.len() > 2 && seen[0].1.len() > 20 && seen[0].0["failed"] == 0, "{:?}", seen[0].0);
    assert!(seen.windows(2).all(|pair| pair[0] == pair[1]), "all ways give the same");
    let lines = text.iter().filter(|byte| **byte == b'\n').count();
    assert_eq!(seen[0].0["lines"], lines);
}

#[test]
fn no_trace_leaves_its_directory() {
    let folder = tempfile::tempdir().unwrap();
    let (dir, outside) = (folder.path().join("dir"), folder.path().join("outside"));
    fs::create_dir_all(dir.join("0000000000000002")).unwrap();
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("kept"), "kept").unwrap();
    // Links that lie there already, in the place of a directory and of a file.
    symlink(&outside, dir.join("0000000000000005")).unwrap();
    symlink(outside.join("kept"), dir.join("0000000000000006")).unwrap();
    let mut text = String::new();
    for (xid, (operation, call, reply)) in [
        ("create", "fh 1 name \"../outside/new\"", "OK fh 9 ftype 1"),
        ("create", "fh 1 name \"..\"", "OK fh 9 ftype 1"),
        ("mkdir", "fh 1 name \"/tmp/x\"", "OK fh 9 ftype 2"),
        ("rename", "fh 1 name \"a\" fh2 1 name2 \"../../a\"", "OK"),
        ("symlink", "fh 2 name \"out\" sdata \"../../outside\"", "OK fh 3 ftype 5"),
        ("lookup", "fh 2 name \"out\"", "OK fh 4 ftype 2"),
        ("create", "fh 4 name \"new\"", "OK fh 7 ftype 1"),
        ("write", "fh 7 off 0 count 5", "OK"),
        ("create", "fh 5 name \"new\"", "OK fh 8 ftype 1"),
        ("remove", "fh 5 name \"kept\"", "OK"),
        ("write", "fh 6 off 0 count 5", "OK"),
        ("setattr", "fh 6 mode 1ff", "OK"),
    ]
    .into_iter()
    .enumerate()
    {
        text += &format!("1.0 a b U C3 {xid:x} 0 {operation} {call}\n1.0 b a U R3 {xid:x} 0 {operation} {reply}\n");
    }
    let report = replayed("-", &dir, text.as_bytes(), &["--no-sync"]);
    assert_eq!(picture(&outside), [("kept".to_string(), b"kept".to_vec())]);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing lies beside");
    assert_eq!(report["malformed"], 4);
    assert!(report["failed"].as_u64().unwrap() >= 2, "{report}");
    assert_eq!(fs::read(dir.join("0000000000000002/out/new")).unwrap().len(), 5, "a directory takes the link's place");
}

#[test]
fn a_report_goes_to_a_file_and_a_cut_trace_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.json");
    let args = ["--report", report.to_str().unwrap()];
    let dir = folder.path().join("dir");
    fs::create_dir(&dir).unwrap();
    let printed = replayed("-", &dir, &generated("1"), &args);
    let written: serde_json::Value = serde_json::from_slice(&fs::read(&report).unwrap()).unwrap();
    assert_eq!(printed, written);
    assert_eq!(printed["syncs"], printed["trace_seconds"].as_u64().unwrap() / 600 + 1);
    let mut packed = zstd::encode_all(&generated("1")[..], 1).unwrap();
    packed.truncate(packed.len() / 2);
    let output = esker(&["nfs", "replay", "-", dir.to_str().unwrap()], &packed);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1));
    assert!(told.contains("cannot be read on behind line"), "{told}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("lookup"), "the counts come all the same");
}

/// Bytes of memory that a process had at most.
fn peak(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the kernel tells it");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}

#[test]
fn many_handles_stay_within_the_memory_that_was_given() {
    let folder = tempfile::tempdir().unwrap();
    let args = ["nfs", "replay", "-", folder.path().to_str().unwrap(), "--no-sync", "--memory", "64MiB"];
    let mut child = Command::new(ESKER).args(args).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let _watch = watch(&child);
    let mut stdin = std::io::BufWriter::new(child.stdin.take().unwrap());
    // Each lookup teaches a new handle, in a directory of 1,000. Full size: 10^8.
    for number in 0..400_000u64 {
        let (seconds, dir, file) = (number / 1_000, 0x1_0000_0000 + number / 1_000, 0x2_0000_0000 + number);
        writeln!(stdin, "{seconds}.0 a b U C3 {number:x} 3 lookup fh {dir:x} name \"file of number {number}\"")
            .unwrap();
        writeln!(stdin, "{seconds}.0 b a U R3 {number:x} 3 lookup OK fh {file:x} ftype 1").unwrap();
    }
    stdin.flush().unwrap();
    let peak = peak(child.id());
    drop(stdin);
    assert!(child.wait().unwrap().success());
    assert!(peak < 64 << 20, "{peak} bytes");
}

#[test]
fn hotcold_makes_rounds_and_runs_a_program_between_them() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    if !rustix::process::geteuid().is_root() {
        return esker_testkit::skip(Ability::Root, "only root mounts a file system of a few MiB");
    }
    // One page more than a number of files after which the room is looked at: files fill the file system.
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=4100k", "tmpfs", dir]).status().unwrap();
    assert!(mounted.success());
    let log = tempfile::NamedTempFile::new().unwrap();
    let between = format!("echo $ESKER_ROUND >> {}", log.path().display());
    let bounded = ["hotcold", dir, "--utilisation", "50", "--writes", "20000", "--between", &between, "--json"];
    let bounded = esker(&bounded, b"");
    let in_place = esker(&["hotcold", dir, "--utilisation", "50"], b"");
    let full = esker(&["hotcold", dir, "--utilisation", "100"], b"");
    let failing = esker(&["hotcold", dir, "--utilisation", "50", "--writes", "1", "--between", "false"], b"");
    let unmounted = Command::new("umount").arg(dir).status().unwrap();
    assert!(unmounted.success());
    let report: serde_json::Value = serde_json::from_slice(&bounded.stdout).unwrap();
    let rounds = report["rounds"].as_array().unwrap();
    assert_eq!((rounds.len(), fs::read_to_string(log.path()).unwrap().lines().count()), (24, 23));
    let sum = |name: &str| rounds.iter().map(|round| round[name].as_u64().unwrap()).sum::<u64>();
    let share = sum("hot") as f64 / sum("overwritten") as f64;
    assert!((0.895..=0.905).contains(&share), "{share}");
    let told = String::from_utf8_lossy(&in_place.stdout).into_owned();
    assert!(in_place.status.success() && told.contains(" 1025 overwritten") && !told.contains("full"), "{told}");
    let told = String::from_utf8_lossy(&full.stdout).into_owned();
    assert!(full.status.success() && told.contains("the file system is full"), "{told}");
    assert_eq!(failing.status.code(), Some(1), "a program that fails ends the run");
}
