//! Verbs that write files, and outputs whose reader closes them early.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run the program and look at its files")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const TRACE: &str = "../trace-block/fixtures/synthetic-msr.csv";

fn esker(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_esker")).args(args).output().expect("the program starts")
}

/// Runs it, checks the exit status, and returns standard error.
fn check(args: &[&str], status: i32) -> String {
    let output = esker(args);
    let err = String::from_utf8(output.stderr).expect("messages are text");
    assert_eq!(output.status.code(), Some(status), "{args:?}: {err}");
    err
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("the folder is there");
    let mut names: Vec<_> =
        entries.map(|e| e.expect("it can be listed").file_name().into_string().expect("names are text")).collect();
    names.sort();
    names
}

#[test]
fn a_conversion_never_replaces_or_leaves_half_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("out.iolog");
    let convert = ["blktrace", "convert", TRACE, target.to_str().unwrap(), "--to", "fio3"];
    let with = |more: &[&'static str]| [&convert[..], more].concat();

    let err = check(&with(&["--volume", "none"]), 1);
    assert!(err.contains("has no volume \"none\""), "{err}");
    assert_eq!(names(folder.path()), [""; 0]);

    check(&convert, 0);
    let first = fs::read_to_string(&target).unwrap();
    assert!(first.starts_with("fio version 3 iolog\n"));
    assert!(check(&convert, 1).contains("add --force"));
    assert!(check(&with(&["--force", "--volume", "none"]), 1).contains("has no volume"));
    assert_eq!(fs::read_to_string(&target).unwrap(), first);

    check(&with(&["--force", "--speed", "1000"]), 0);
    assert_ne!(fs::read_to_string(&target).unwrap(), first);
    assert_eq!(names(folder.path()), ["out.iolog"]);
}

#[test]
fn the_outcome_of_a_conversion_is_json_on_demand() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("out.bin");
    let output = esker(&["blktrace", "convert", TRACE, target.to_str().unwrap(), "--to", "oracle-general", "--json"]);
    let object: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(object["written"].as_u64().unwrap() + object["dropped"].as_u64().unwrap(), 5);
    assert_eq!(fs::metadata(&target).unwrap().len(), 24 * object["written"].as_u64().unwrap());
}

#[test]
fn a_cut_trace_is_used_up_to_the_cut_and_the_command_fails() {
    let folder = tempfile::tempdir().unwrap();
    let (cut, target) = (folder.path().join("cut.load.gz"), folder.path().join("out.iolog"));
    let whole = fs::read("../../data/linux-mysql.load.gz").unwrap();
    fs::write(&cut, &whole[..whole.len() / 2]).unwrap();
    let (cut, target) = (cut.to_str().unwrap(), target.to_str().unwrap());

    let output = esker(&["blktrace", "stat", "--json", cut, TRACE]);
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8(output.stdout).unwrap();
    let objects: Vec<serde_json::Value> = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let records = objects[0]["report"]["records"].as_u64().unwrap();
    assert!((1_000..80_000).contains(&records) && objects[0]["report"]["cut"].is_string(), "{told}");
    assert_eq!(objects.len(), 2, "a cut trace does not keep the next one from being described");
    assert!(objects[1]["report"]["cut"].is_null());

    let err = check(&["blktrace", "convert", cut, target, "--to", "fio3"], 1);
    assert!(err.contains(&format!("{target}: {records} records written")), "{err}");
    assert!(
        err.contains(&format!("only the {records} records before byte")) && err.contains("were converted"),
        "{err}"
    );
    let requests = fs::read_to_string(target).unwrap().lines().filter(|line| line.split(' ').count() == 5).count();
    assert_eq!(requests as u64, records);
}

#[test]
fn every_verb_has_a_manual_page() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man/man1");
    check(&["man", pages.to_str().unwrap()], 0);
    let names = names(&pages);
    for page in ["esker.1", "esker-stack.1", "esker-stack-check.1", "esker-blktrace-convert.1", "esker-man.1"] {
        assert!(names.iter().any(|name| name == page), "{names:?}");
        assert!(fs::read_to_string(pages.join(page)).unwrap().contains(".SH SYNOPSIS"), "{page}");
    }
    let main = String::from_utf8(esker(&["man"]).stdout).unwrap();
    assert_eq!(fs::read_to_string(pages.join("esker.1")).unwrap(), main);
}

#[test]
fn a_folder_that_cannot_be_made_is_an_error() {
    let err = check(&["man", "Cargo.toml/man1"], 1);
    assert!(err.starts_with("error: Cargo.toml/man1: cannot be filled: "), "{err}");
}

#[test]
fn every_shell_completes_every_verb() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        // As the files of the shells ask.
        let mut command = Command::new(env!("CARGO_BIN_EXE_esker"));
        command.env("ESKER_COMPLETE", shell).env("_CLAP_COMPLETE_INDEX", "1").args(["--", "esker", ""]);
        let text = String::from_utf8(command.output().unwrap().stdout).unwrap();
        for word in ["stack", "status", "blktrace", "volume", "serve", "lab", "kinds", "man"] {
            assert!(text.contains(word), "{shell} does not know {word}");
        }
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    for args in [&["completions", "bash"][..], &["blktrace", "convert", TRACE, "-", "--to", "fio3"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output =
            Command::new(env!("CARGO_BIN_EXE_esker")).args(args).stdout(writer).stderr(Stdio::piped()).output();
        let output = output.unwrap();
        assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]), "{args:?}");
    }
}

#[test]
fn stack_texts_come_from_standard_input_too() {
    let text = fs::File::open("tests/stacks/slow.toml").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_esker")).args(["stack", "dump", "-"]).stdin(text).output().unwrap();
    let written = String::from_utf8(output.stdout).unwrap();
    let original = fs::read_to_string("tests/stacks/slow.toml").unwrap();
    assert_eq!(Some(written.as_str()), original.strip_prefix("# A slow disk in memory.\n"));
}
