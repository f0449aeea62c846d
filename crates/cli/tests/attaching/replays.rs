//! What a new user does: records a program with threads, replays it on file systems over attached models of devices,
//! and compares what the reports say.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::harness::{ESKER, Place, can_run, check_tool, content};

/// A drive of the catalogue, at its own pace.
const STACK: &str = "vol = ssd-model profile=ssd-sata-2021 content=memory size=512MiB @";
/// Files of the repository.
const FILES: u64 = 150;

const SYSTEMS: [(&str, &str); 3] = [("mkfs.ext4", "ext4"), ("mkfs.xfs", "xfs"), ("mkfs.btrfs", "btrfs")];

/// A repository with files in a few directories.
fn repository(at: &Path) {
    for file in 0..FILES {
        let dir = at.join(format!("dir{}", file % 7));
        fs::create_dir_all(&dir).expect("scratch");
        fs::write(dir.join(format!("file{file}")), content(file, 500 + file as usize * 97)).expect("scratch");
    }
    let git = |words: &[&str]| check_tool("git", &[&["-C", at.to_str().expect("text")], words].concat());
    git(&["init", "-q"]);
    git(&["add", "-A"]);
    git(&["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "one"]);
}

/// Replays on a new file system over the attached model, and returns the report, which is also kept in `json`.
fn replayed(place: &Place, make: &str, trace: &str, json: &str) -> Value {
    let (mount, attachment) = (place.mount_point(), place.attach(STACK, &[]));
    check_tool(make, &["-q", attachment.device()]);
    mount.mount(attachment.device());
    let run = mount.path("run").display().to_string();
    check_tool(
        ESKER,
        &["trace", "replay", trace, "--dir", &run, "--speed", "natural", "--rule", "thread_stage", "--json", json],
    );
    mount.unmount();
    place.detach("vol");
    attachment.ended();
    serde_json::from_str(&fs::read_to_string(json).expect("it was written")).expect("the report is JSON")
}

#[test]
fn a_recorded_clone_is_replayed_on_three_file_systems() {
    if !can_run(&["git", "mkfs.ext4", "mkfs.xfs", "mkfs.btrfs"]) {
        return;
    }
    let place = Place::new();
    let (from, to, trace) = (place.path("from"), place.path("to"), place.path("clone.etrace"));
    repository(Path::new(&from));
    let clone = ["git", "-c", "pack.threads=2", "clone", "-q", "--no-local", &from, &to];
    check_tool(ESKER, &[&["trace", "record", "-o", &trace, "--root", &from, "--"], &clone[..]].concat());
    assert!(Path::new(&to).join("dir1/file1").exists(), "the clone was made");
    let mut reports = Vec::new();
    for (make, system) in SYSTEMS {
        let json = place.path(&format!("{system}.json"));
        let report = replayed(&place, make, &trace, &json);
        let number = |value: &Value| value.as_u64().expect("a number");
        assert_eq!(report["target"]["file_system"], system);
        assert_eq!(number(&report["mismatches"]["count"]), 0, "{system}: {}", report["mismatches"]);
        assert!(number(&report["mismatches"]["compared"]) > 1000, "{system}: most calls were made");
        assert!(report["threads"].as_array().is_some_and(|threads| threads.len() > 2), "{system}: git has threads");
        assert!(number(&report["elapsed_ns"]) > 1_000_000, "{system}: it took time");
        let prediction = &report["prediction"];
        assert_eq!(prediction["elapsed_ns"], report["elapsed_ns"], "{system}");
        assert!(prediction["error"].as_f64().is_some_and(|error| error > 0.0), "{system}: {prediction}");
        assert!(number(&prediction["range_ns"][0]) < number(&prediction["range_ns"][1]), "{system}: {prediction}");
        reports.push(json);
    }
    let page = place.path("if.html");
    let words: Vec<&str> = reports.iter().map(String::as_str).collect();
    let told = check_tool(ESKER, &[&["trace", "compare"], &words[..], &["--html", &page]].concat());
    let columns = ["stated error", "ext4.json", "xfs.json", "btrfs.json"];
    assert!(columns.iter().all(|column| told.contains(column)), "{told}");
}
