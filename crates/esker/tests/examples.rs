//! Each example runs, and says what it should.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a program of a user")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// The examples that cargo built beside this test.
fn folder() -> PathBuf {
    let this = std::env::current_exe().unwrap();
    this.ancestors().find(|folder| folder.join("examples").is_dir()).unwrap().join("examples")
}

/// What an example says.
fn run(name: &str, args: &[&str]) -> String {
    let output = Command::new(folder().join(name)).args(args).output().unwrap_or_else(|e| panic!("{name}: {e}"));
    let (said, complained) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{name}: {}\n{said}{complained}", output.status);
    said.into_owned()
}

const TRACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/linux-mysql.load.gz");

#[test]
fn stacks_open_and_are_served() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().to_str().unwrap();
    assert!(run("open", &[folder]).contains("vol (mirror): "));
    assert!(run("serve", &[folder]).contains("app.sock"));
    assert!(run("metrics", &["127.0.0.1:0"]).contains("1000"));
    assert!(run("async_calls", &[]).contains("the last block is 15"));
}

#[test]
fn volumes_have_snapshots_and_clones() {
    assert_eq!(
        run("snapshots", &[]),
        "db: volume of 67108864 bytes\nmonday: snapshot of 67108864 bytes, made of db\ntest: volume of 67108864 bytes, \
         made of monday\n"
    );
}

#[test]
fn kinds_of_ones_own_are_words_of_the_text() {
    let said = run("own_layer", &[]);
    assert!(said.contains("at 0: ") && said.contains("at 1048576: written"), "{said}");
    assert_eq!(run("own_device", &[]), "block 42 reads as 42\n");
}

#[test]
fn traces_are_read_played_and_predicted() {
    assert!(
        run("trace_source", &[TRACE]).contains("80794 requests") || run("trace_source", &[TRACE]).contains("Write: ")
    );
    assert!(run("replay", &[TRACE]).contains("slowest"));
    assert_eq!(run("sweep", &[TRACE]).lines().count(), 6);
    let said = run("predict", &[]);
    assert!(said.contains("ssd") && said.contains("disk: median"), "{said}");
}

#[test]
fn crash_states_find_a_layer_that_forgets_flushes() {
    let said = run("crash_states", &[]);
    let answers: Vec<&str> = said.lines().filter(|line| line.starts_with("  ")).collect();
    assert!(answers[0].ends_with("nothing is lost") && !answers[1].ends_with("nothing is lost"), "{said}");
}

#[test]
fn examples_are_short_and_each_one_runs_here() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let here = include_str!("examples.rs");
    let mut count = 0;
    for source in std::fs::read_dir(sources).unwrap() {
        let path = source.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let lines = std::fs::read_to_string(&path).unwrap().lines().count();
        assert!(lines <= 60, "{name} has {lines} lines");
        assert!(here.contains(&format!("run(\"{name}\"")), "{name} is not run");
        count += 1;
    }
    assert_eq!(count, 12);
}
