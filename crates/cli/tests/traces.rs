//! Block traces as users have them: what fio and strace write, and files in archives.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run programs and look at their files")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use esker_testkit::{Ability, skip};

/// Requests of the job, besides flushes.
const REQUESTS: u64 = 64;

fn run(program: &str, folder: &Path, args: &[&str]) -> Output {
    Command::new(program).args(args).current_dir(folder).output().expect("the program starts")
}

/// Runs esker in a folder, checks the exit status, and returns standard output and error.
fn check(folder: &Path, args: &[&str], status: i32) -> (String, String) {
    let output = run(env!("CARGO_BIN_EXE_esker"), folder, args);
    let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).expect("messages are text"));
    assert_eq!(output.status.code(), Some(status), "{args:?}: {err}");
    (out, err)
}

/// Whether a program can be started; says so if not.
fn has(program: &str) -> bool {
    let is_there = Command::new(program).arg("--version").output().is_ok();
    if !is_there {
        skip(Ability::Program, format_args!("{program} is missing: run `cargo xtask peers`"));
    }
    is_there
}

/// Runs a job of fio with every log that it has.
fn fio(folder: &Path) {
    let job = "--name=j --filename=data --size=1M --rw=randrw --bs=4k --number_ios=64 --fsync=8 --ioengine=psync --randseed=7 \
               --write_iolog=j.iolog --write_lat_log=j --write_bw_log=j --write_iops_log=j --output-format=json --output=j.json";
    let output = run("fio", folder, &job.split_whitespace().collect::<Vec<_>>());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Reads, writes and flushes of a trace in `format`.
fn counts(folder: &Path, trace: &str, format: &str) -> [u64; 3] {
    let (out, _) = check(folder, &["blktrace", "stat", "--json", trace], 0);
    let described: serde_json::Value = serde_json::from_str(&out).expect("an object");
    assert_eq!(described["format"], format);
    assert_eq!(described["report"]["clean"], true, "{out}");
    ["reads", "writes", "flushes"].map(|op| described["summary"][op]["requests"].as_u64().expect("a count"))
}

#[test]
fn logs_of_requests_by_fio_are_read_and_what_is_written_as_version_2_is_replayed_by_fio() {
    if !has("fio") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fio(folder);
    let [reads, writes, flushes] = counts(folder, "j.iolog", "fio3");
    assert_eq!((reads + writes, flushes > 0), (REQUESTS, true));
    // Older versions of fio write the same lines without their times.
    let third = fs::read_to_string(folder.join("j.iolog")).unwrap();
    let lines = third.lines().skip(1).map(|line| line.split_once(' ').expect("a time first").1);
    let second =
        std::iter::once("fio version 2 iolog").chain(lines).map(|line| format!("{line}\n")).collect::<String>();
    fs::write(folder.join("old.iolog"), second).unwrap();
    assert_eq!(counts(folder, "old.iolog", "fio2"), [reads, writes, flushes]);
    check(folder, &["blktrace", "convert", "j.iolog", "mine.fio2"], 0);
    let replay = ["--name=r", "--read_iolog=mine.fio2", "--ioengine=psync", "--output-format=json", "--output=r.json"];
    let output = run("fio", folder, &replay);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let result: serde_json::Value = serde_json::from_str(&fs::read_to_string(folder.join("r.json")).unwrap()).unwrap();
    let replayed = ["read", "write"].map(|op| result["jobs"][0][op]["total_ios"].as_u64());
    assert_eq!(replayed, [Some(reads), Some(writes)]);
}

/// The requests of a log of fio in the order of places, as operation, offset and length.
fn places(log: &Path) -> Vec<(String, u64, u64)> {
    let text = fs::read_to_string(log).expect("it is there");
    let request = |line: &str| {
        let mut columns = line.split(' ').skip(2);
        let operation = columns.next().filter(|word| ["read", "write"].contains(word))?;
        Some((operation.to_string(), columns.next()?.parse().ok()?, columns.next()?.parse().ok()?))
    };
    let mut places: Vec<_> = text.lines().filter_map(request).collect();
    places.sort();
    places
}

#[test]
fn a_job_file_becomes_a_log_of_what_fio_does_and_fio_plays_it() {
    if !has("fio") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let fio = |args: &[&str]| {
        let output = run("fio", folder, args);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    let jobs = ["rw=write\nbs=8k\nsize=100k\noffset=64k\nio_size=200k\n", "rw=randwrite\nbs=4k\nsize=1m\n"];
    for (number, job) in jobs.iter().enumerate() {
        let name = format!("{number}.fio");
        fs::write(folder.join(&name), format!("[j]\nioengine=psync\nfilename=data\n{job}")).unwrap();
        let made = ["blktrace", "from-fio", &name, "-o", "j.ebt", "--iolog", "j.iolog", "--force"];
        check(folder, &made, 0);
        fio(&[&name, "--write_iolog=own.iolog"]);
        assert_eq!(places(&folder.join("j.iolog")), places(&folder.join("own.iolog")), "{job}");
        fs::remove_file(folder.join("own.iolog")).unwrap();
    }
    let job = "[j]\nioengine=psync\nfilename=data\nsize=1m\nrw=randrw\nbsrange=4k-16k\nrate_iops=900,600\nfsync=4\n";
    fs::write(folder.join("j.fio"), job).unwrap();
    check(folder, &["blktrace", "from-fio", "j.fio", "-o", "j.iolog", "--force"], 0);
    let [reads, writes, flushes] = counts(folder, "j.iolog", "fio3");
    fio(&["--name=r", "--ioengine=psync", "--read_iolog=j.iolog", "--output-format=json", "--output=r.json"]);
    let result: serde_json::Value = serde_json::from_str(&fs::read_to_string(folder.join("r.json")).unwrap()).unwrap();
    let played = ["read", "write", "sync"].map(|op| result["jobs"][0][op]["total_ios"].as_u64().expect("a count"));
    assert_eq!(played, [reads, writes, flushes]);
    fs::write(folder.join("replay.fio"), "[r]\nioengine=psync\nread_iolog=j.iolog\n").unwrap();
    let (_, err) = check(folder, &["blktrace", "from-fio", "replay.fio", "-o", "x"], 1);
    assert!(err.contains("replay.fio: line 3: `read_iolog` is not supported"), "{err}");
}

#[test]
fn what_else_fio_writes_is_told_from_its_log_of_requests() {
    if !has("fio") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fio(folder);
    let text = ["--name=t", "--filename=data", "--size=64k", "--rw=read", "--ioengine=psync", "--output=t.txt"];
    assert!(run("fio", folder, &text).status.success());
    fs::write(folder.join("j.fio"), "# mine\n[global]\nbs=4k\n[j]\nreadwrite = randread\n").unwrap();
    let cases = [
        ("j.json", "fio's result"),
        ("t.txt", "fio's result"),
        ("j.fio", "a job of fio"),
        ("j_lat.1.log", "a log of fio's"),
        ("j_bw.1.log", "a log of fio's"),
        ("j_iops.1.log", "a log of fio's"),
    ];
    for (file, what) in cases {
        let (_, err) = check(folder, &["blktrace", "stat", file], 1);
        assert!(err.contains(&format!("{file}: is {what}")) && err.contains("--write_iolog=FILE"), "{err}");
    }
}

#[test]
fn the_text_of_strace_is_told_with_what_replays_it() {
    if !has("strace") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for options in [&["-o", "s.txt"][..], &["-f", "-tt", "-T", "-o", "s.txt"]] {
        let words: Vec<&str> = options.iter().copied().chain(["sh", "-c", "ls; true"]).collect();
        if !run("strace", folder.path(), &words).status.success() {
            return skip(Ability::Ptrace, "strace may not trace here");
        }
        let (_, err) = check(folder.path(), &["blktrace", "stat", "s.txt"], 1);
        assert!(err.contains("is the text of strace") && err.contains("`esker trace replay`"), "{err}");
    }
}

#[test]
fn a_conversion_takes_the_format_from_the_name_of_its_target() {
    let folder = tempfile::tempdir().unwrap();
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/../trace-block/fixtures/synthetic-msr.csv");
    let convert = |target: &str, status| check(folder.path(), &["blktrace", "convert", trace, target], status).1;
    convert("t.iolog", 0);
    convert("t.ebt", 0);
    assert!(fs::read_to_string(folder.path().join("t.iolog")).unwrap().starts_with("fio version 3 iolog\n"));
    assert_eq!(counts(folder.path(), "t.ebt", "ebt"), [2, 3, 0]);
    assert_eq!(convert("t.csv", 2), "error: t.csv: the name may mean msr or alibaba or tencent; say which with --to\n");
    assert!(
        convert("t", 2).starts_with("error: t: the name does not tell the format; name it with --to, one of: load")
    );
    assert!(convert("-", 2).contains("name it with --to"));
    assert!(!folder.path().join("t.csv").exists());
}

#[test]
fn one_file_of_an_archive_is_read_by_its_name_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../trace-block/fixtures");
    let archive = fs::File::create(folder.path().join("two.tar")).unwrap();
    let mut builder = tar::Builder::new(archive);
    for name in ["synthetic-msr.csv", "golden-v1.ebt"] {
        builder.append_path_with_name(fixtures.join(name), format!("d/{name}")).unwrap();
    }
    builder.finish().unwrap();
    let (_, err) = check(folder.path(), &["blktrace", "check", "two.tar"], 1);
    let expected = "two.tar: cannot be opened: holds several files, d/synthetic-msr.csv, d/golden-v1.ebt; unpack it and name one \
                    or several, or one as two.tar:FILE";
    assert!(err.contains(expected), "{err}");
    let (out, _) = check(folder.path(), &["blktrace", "check", "two.tar:d/golden-v1.ebt"], 0);
    assert_eq!(out, "two.tar:d/golden-v1.ebt: ebt: 5000 records, sound\n");
    let (out, _) = check(folder.path(), &["blktrace", "stat", "two.tar:d/synthetic-msr.csv"], 0);
    assert!(out.contains("requests           5\n"), "{out}");
}
