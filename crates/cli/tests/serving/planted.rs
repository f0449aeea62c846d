//! A planted key is in no output: not in refusals, dumps, logs, statuses, metrics or files of the kernel about the
//! process.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::process::Command;

use esker_testkit::{Ability, skip};

use crate::harness::{ESKER, Server, check_tool, esker};

/// Digits of keys: one that the stack uses, and one that stands in a text by mistake.
const USED: &str = "ad54c95c827c47f8e59af10a68d538c46b5abccf7174ab4fcbbd93a584313e28";
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

/// Mappings of a process that hold a needle: whether no dump would hold the mapping, its first line, and the needle's
/// number.
fn found(id: u32, needles: &[Vec<u8>]) -> Option<Vec<(bool, String, usize)>> {
    let memory = File::open(format!("/proc/{id}/mem")).ok()?;
    let smaps = fs::read_to_string(format!("/proc/{id}/smaps")).ok()?;
    let (mut found, mut mapping) = (Vec::new(), "");
    for line in smaps.lines() {
        let range = line.split(' ').next().and_then(|range| range.split_once('-'));
        if range.is_some_and(|(start, _)| u64::from_str_radix(start, 16).is_ok()) {
            mapping = line;
        }
        let Some(flags) = line.strip_prefix("VmFlags:") else { continue };
        let (start, end) = mapping.split(' ').next()?.split_once('-')?;
        let (start, end) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
        let mut bytes = vec![0; (end - start) as usize];
        // What cannot be read, such as memory that is only reserved, holds nothing.
        if flags.contains(" rd ") && memory.read_exact_at(&mut bytes, start).is_ok() {
            let holds = |needle: &Vec<u8>| bytes.windows(needle.len()).any(|window| window == needle);
            let held = needles.iter().enumerate().filter(|(_, needle)| holds(needle));
            found.extend(held.map(|(number, _)| (flags.contains(" dd"), mapping.to_string(), number)));
        }
    }
    Some(found)
}

/// The key that `USED` stands for, as bytes and as digits, each in part: a schedule begins with the bytes.
fn needles() -> [Vec<u8>; 2] {
    let byte = |at: usize| u8::from_str_radix(&USED[at..at + 2], 16).unwrap();
    [(0..32).step_by(2).map(byte).collect(), USED.as_bytes()[..32].to_vec()]
}

#[test]
fn a_core_of_a_server_would_hold_no_key() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("key");
    fs::write(&file, USED).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    for key in ["env:PLANTED", "file:DIR/key"] {
        let stack = format!("d = memory size=1MiB | crypt key={key} @ nbd=unix:DIR/sock");
        let server =
            Server::start_with(dir.path(), &stack, &[], &[("PLANTED", USED)][..usize::from(key.starts_with("env"))]);
        check_tool("qemu-io", &["-f", "raw", "-c", "write -P 7 0 64k", "-c", "read -P 7 0 64k", &server.uris[0]]);
        let Some(found) = found(server.id(), &needles()) else {
            return skip(Ability::Root, "only root reads the memory of a process that forbids dumps");
        };
        let dumped: Vec<_> = found.iter().filter(|(is_hidden, ..)| !is_hidden).collect();
        assert!(dumped.is_empty(), "{key}: {dumped:?}");
        assert!(
            found.iter().any(|(_, _, number)| *number == 0),
            "the search finds what is in memory for keys: {found:?}"
        );
        server.stop();
    }
}
