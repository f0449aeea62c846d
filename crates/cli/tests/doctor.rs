//! `esker doctor` as a program.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run the program")]

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;

fn doctor(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_esker")).arg("doctor").args(args).current_dir(folder).output().unwrap()
}

#[test]
fn findings_are_json_that_agrees_with_the_exit_status() {
    let folder = tempfile::tempdir().unwrap();
    let begun = Instant::now();
    let output = doctor(folder.path(), &["--json"]);
    // Ten times what it takes on a quiet machine at most: tests run beside others.
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    let findings: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert!(findings.len() >= 24, "{findings:?}");
    for one in &findings {
        let is_ok = one["state"] == "ok";
        assert!(is_ok || ["note", "missing"].iter().any(|state| one["state"] == *state), "{one}");
        assert_eq!(one["do"].is_null(), is_ok, "{one}");
        assert!(one["check"].is_string() && one["found"].is_string() && one["verbs"].is_array(), "{one}");
    }
    let is_missing = findings.iter().any(|one| one["state"] == "missing");
    assert_eq!(output.status.code(), Some(i32::from(is_missing)), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr).starts_with("error: missing on this machine:"), is_missing);
    let real = folder.path().canonicalize().unwrap();
    let of_folder = |one: &Value| one["check"] == "reflink" && one["path"].as_str() == real.to_str();
    assert!(findings.iter().any(of_folder), "{findings:?}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left behind");
}

#[test]
fn a_table_has_a_row_for_each_path() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("a")).unwrap();
    std::fs::write(folder.path().join("b"), "").unwrap();
    let output = doctor(folder.path(), &["a", "b"]);
    let text = String::from_utf8(output.stdout).unwrap();
    for path in ["a: ", "b: "] {
        assert_eq!(
            text.lines().filter(|line| line.get(29..).is_some_and(|said| said.starts_with(path))).count(),
            if path == "b: " { 5 } else { 4 },
            "{text}"
        );
    }
    assert!(text.starts_with("state    check               found\n"), "{text}");
    assert!(text.trim_end().lines().last().unwrap().contains(" checks: "), "{text}");
}

#[test]
fn a_path_that_is_not_there_is_wrong_usage() {
    let output = doctor(Path::new("/"), &["/nonexistent"]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.starts_with("error: /nonexistent: No such file or directory"), "{said}");
}
