//! A planted key is in no output: not in refusals, dumps, logs, statuses, metrics or files of the kernel about the process.

use std::fs;
use std::process::Command;

use crate::harness::{ESKER, Server, check_tool, esker};

/// Digits of keys: one that the stack uses, and one that stands in a text by mistake.
const USED: &str = "00112233445566778899aabbccddeeff0f1e2d3c4b5a69788796a5b4c3d2e1f0";
const WRITTEN: &str = "a0b1c2d3e4f5061728394a5b6c7d8e9ffedcba98765432100123456789abcdef";

fn check_hidden(what: &str, output: &[u8]) {
    let text = String::from_utf8_lossy(output).to_lowercase();
    for key in [USED, WRITTEN] {
        assert!(!text.contains(&key[..16]), "{what} shows a key: {text}");
    }
}

#[test]
fn no_output_shows_a_key_that_stands_in_a_text() {
    let texts = ["key=KEY", "key=env:KEY", "key=file:KEY", "key= KEY", "kye=KEY", "KEY"];
    for param in texts.map(|text| text.replace("KEY", WRITTEN)) {
        let text = format!("d = memory size=1MiB | crypt {param} @ nbd=unix:/nowhere/sock");
        for verb in [
            &["stack", "check"][..],
            &["stack", "dump"],
            &["stack", "dump", "--json"],
            &["stack", "explain"],
            &["serve"],
        ] {
            let output = esker(&[verb, &[&text]].concat());
            assert_eq!(output.status.code(), Some(1), "{verb:?} {param}");
            assert!(!output.stderr.is_empty(), "{verb:?} says why");
            check_hidden(&format!("{verb:?} of {param}"), &[output.stdout, output.stderr].concat());
        }
    }
}

#[test]
fn no_output_of_a_server_shows_its_key_and_its_environment_holds_none() {
    let dir = tempfile::tempdir().unwrap();
    let metrics = dir.path().join("metrics").display().to_string();
    let stack = "d = memory size=1MiB | crypt key=env:PLANTED @ nbd=unix:DIR/sock";
    let args = ["--log", "debug", "--metrics", &format!("unix:{metrics}")];
    let server = Server::start_with(dir.path(), stack, &args, &[("PLANTED", USED)]);
    let control = ["--control", &server.control];
    let insert = format!("x = crypt key={WRITTEN}");
    let asked: [(&[&str], i32); 6] = [
        (&["status"], 0),
        (&["status", "--json"], 0),
        (&["stack", "dump"], 0),
        (&["top", "--once"], 0),
        (&["stack", "insert", &insert, "--above", "d"], 1),
        (&["stack", "insert", &format!("x = crypt {WRITTEN}"), "--above", "d"], 1),
    ];
    for (verb, status) in asked {
        let output = esker(&[verb, &control].concat());
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(status), "{verb:?}: {told}");
        check_hidden(&format!("{verb:?}"), &[output.stdout, output.stderr].concat());
    }
    let page = check_tool("curl", &["-s", "--unix-socket", &metrics, "http://x/metrics"]);
    assert!(page.contains("esker_export_up"), "{page}");
    check_hidden("metrics", page.as_bytes());
    for file in ["environ", "cmdline", "limits"] {
        let held = fs::read(format!("/proc/{}/{file}", server.id())).unwrap();
        check_hidden(file, &held);
        match file {
            "environ" => {
                assert!(String::from_utf8_lossy(&held).contains("PLANTED="), "the variable is wiped, not gone")
            }
            "limits" => {
                assert!(String::from_utf8_lossy(&held).contains("Max core file size        0"), "no core is written")
            }
            _ => {}
        }
    }
    let log = server.log();
    assert!(log.contains("control: not done") && log.contains("(not shown)"), "{log}");
    server.stop();
    check_hidden("the log", &fs::read(dir.path().join("server.log")).unwrap());
}

#[test]
fn a_key_that_is_a_named_pipe_is_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe").display().to_string();
    check_tool("mkfifo", &["-m", "600", &pipe]);
    let stack = format!("d = memory size=1MiB | crypt key=file:{pipe} @ nbd=unix:{}/sock", dir.path().display());
    let output = Command::new(ESKER).args(["serve", &stack]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("is no regular file"), "{told}");
}
