//! `esker run`: a stack that lives as long as one program.

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

const ESKER: &str = env!("CARGO_BIN_EXE_esker");

fn run(dir: &Path, args: &[&str]) -> Output {
    Command::new(ESKER).arg("run").args(args).current_dir(dir).env("TMPDIR", dir).output().unwrap()
}

fn said(output: &Output) -> (String, String) {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).into()
}

#[test]
fn a_program_gets_addresses_and_gives_its_status() {
    let dir = tempfile::tempdir().unwrap();
    let text = "a = memory size=1MiB @; b = memory size=2MiB @";
    let show = "echo \"$ESKER_URI\"; echo \"$ESKER_URI_B\"; test -S \"$ESKER_CONTROL\" && exit 7";
    let output = run(dir.path(), &[text, "--", "sh", "-c", &format!("echo {{uri:b}}; {show}")]);
    let (lines, errors) = said(&output);
    let lines: Vec<&str> = lines.lines().collect();
    assert_eq!(output.status.code(), Some(7), "{errors}");
    assert!(lines[0].starts_with("nbd+unix:///b?socket=") && lines[2] == lines[0], "{lines:?}");
    assert!(lines[1].starts_with("nbd+unix:///a?socket="), "{lines:?}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "sockets and their folder are gone");
}

#[test]
fn clients_of_the_program_reach_the_stack_and_their_writes_stay() {
    let dir = tempfile::tempdir().unwrap();
    let content: Vec<u8> = (0..1 << 20).map(|at: u32| (at / 7) as u8).collect();
    std::fs::write(dir.path().join("source"), &content).unwrap();
    let copy = run(dir.path(), &["vol = file path=vol.img size=4MiB @", "--", "nbdcopy", "source", "{uri}"]);
    assert!(copy.status.success(), "{:?}", said(&copy));
    let image = std::fs::read(dir.path().join("vol.img")).unwrap();
    assert!(image.starts_with(&content), "what was copied is in the file");
}

#[test]
fn a_program_that_cannot_run_undoes_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let output = run(dir.path(), &["vol = file path=vol.img size=1MiB @", "--", "./missing"]);
    let (_, errors) = said(&output);
    assert_eq!(output.status.code(), Some(1));
    assert!(errors.contains("./missing: cannot be run: "), "{errors}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "the file that was made is gone too");
    assert_eq!(run(dir.path(), &["vol = memory size=1MiB @"]).status.code(), Some(2), "a program is needed");
}

#[test]
fn a_signal_ends_the_program_and_then_the_stack() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(ESKER);
    let script = "trap 'echo ended; exit 3' TERM; touch ready; while :; do sleep 0.05; done";
    command.args(["run", "vol = memory size=1MiB @", "--", "sh", "-c", script]);
    let child = command.current_dir(dir.path()).env("TMPDIR", dir.path()).stdout(std::process::Stdio::piped()).spawn();
    let child = child.unwrap();
    while !dir.path().join("ready").exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), said(&output).0.as_str()), (Some(3), "ended\n"));
}
