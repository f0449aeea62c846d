//! `--background` and `--pid-file`.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use crate::harness::{check_esker, check_tool, esker, tool};

/// A stack and the arguments with which it is served in the background.
fn args(dir: &Path) -> Vec<String> {
    let at = |name: &str| dir.join(name).display().to_string();
    let stack = format!("vol = memory size=1MiB @ nbd=unix:{}", at("sock"));
    let fixed = ["serve", &stack, "--control", &at("ctl"), "--background", "--pid-file", &at("pid")];
    fixed.map(String::from).to_vec()
}

fn words(args: &[String]) -> Vec<&str> {
    args.iter().map(String::as_str).collect()
}

#[test]
fn a_server_in_the_background_serves_when_its_caller_returns_and_leaves_no_pid_file() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let (args, control) = (args(dir.path()), at("ctl"));
    let started = esker(&words(&args));
    let out = String::from_utf8_lossy(&started.stdout).into_owned();
    assert!(started.status.success(), "{}", String::from_utf8_lossy(&started.stderr));
    assert_eq!(out.lines().count(), 2, "{out}");
    assert!(out.starts_with("export vol: 1048576 bytes at ") && out.contains("control socket: "), "{out}");
    let uri = format!("nbd+unix:///vol?socket={}", at("sock"));
    assert_eq!(check_tool("nbdinfo", &["--size", &uri]).trim(), "1048576");
    let pid = fs::read_to_string(dir.path().join("pid")).unwrap();
    let command = fs::read_to_string(format!("/proc/{}/cmdline", pid.trim())).unwrap();
    assert!(command.contains("--background"), "{command}");
    let session = check_tool("ps", &["-o", "sid=", "-p", pid.trim()]);
    assert_eq!(session.trim(), pid.trim(), "it has a session of its own");
    let error = check_esker(&words(&args), 1);
    assert!(error.contains("serves already") && error.contains("tip: stop it"), "{error}");
    check_esker(&["stop", "--control", &control], 0);
    let (file, process) = (dir.path().join("pid"), format!("/proc/{}", pid.trim()));
    while file.exists() && Path::new(&process).exists() {
        sleep(Duration::from_millis(10));
    }
    assert!(!file.exists(), "it goes with the process");
    assert!(!dir.path().join("sock").exists());
}

#[test]
fn what_a_killed_server_leaves_is_told_and_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let args = args(dir.path());
    let start = || esker(&words(&args));
    assert!(start().status.success());
    let old = fs::read_to_string(dir.path().join("pid")).unwrap();
    check_tool("kill", &["-KILL", old.trim()]);
    while Path::new(&format!("/proc/{}/fd/0", old.trim())).exists() {
        sleep(Duration::from_millis(10));
    }
    let again = start();
    let said = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(again.status.success(), "{said}");
    let told = format!("process {} has left this file", old.trim());
    assert!(said.starts_with("warning: ") && said.contains(&told), "{said}");
    assert_ne!(fs::read_to_string(dir.path().join("pid")).unwrap(), old);
    check_esker(&["stop", "--control", &dir.path().join("ctl").display().to_string()], 0);
}

#[test]
fn a_start_in_the_background_that_fails_has_the_error_and_the_status_of_the_server() {
    let dir = tempfile::tempdir().unwrap();
    let mut args = args(dir.path());
    args[1] = args[1].replace("memory", "memroy");
    let error = check_esker(&words(&args), 1);
    assert!(error.starts_with("error: command line:1: unknown kind \"memroy\""), "{error}");
    assert!(!dir.path().join("pid").exists());
    args[1] = "-".to_string();
    let error = check_esker(&words(&args), 2);
    assert!(error.contains("standard input cannot go to the background"), "{error}");
    fs::write(dir.path().join("pid"), "precious").unwrap();
    args[1] = format!("vol = memory size=1MiB @ nbd=unix:{}", dir.path().join("sock").display());
    let error = check_esker(&words(&args), 1);
    assert!(error.contains("holds no process number"), "{error}");
    assert_eq!(fs::read_to_string(dir.path().join("pid")).unwrap(), "precious");
    assert!(tool("ls", &["-A", &dir.path().display().to_string()]).output().unwrap().stdout == b"pid\n");
}
