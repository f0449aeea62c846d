//! `esker try` and `esker advise` as a user runs them: what they write, what they refuse, and that a
//! refusal leaves everything as it was.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run the program and look at its files")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// Runs `esker` in `folder`.
fn esker(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_esker")).current_dir(folder).args(args).output().expect("the program starts")
}

fn succeeds(folder: &Path, args: &[&str]) -> String {
    let output = esker(folder, args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("results are text")
}

/// Runs it, checks that it fails with status 1, and returns the message.
fn fails(folder: &Path, args: &[&str]) -> String {
    let output = esker(folder, args);
    let message = String::from_utf8(output.stderr).expect("messages are text");
    assert_eq!(output.status.code(), Some(1), "{args:?}: {message}");
    message
}

#[test]
fn the_built_in_traces_are_played_from_any_folder_and_the_stack_passes_the_check() {
    let folder = tempfile::tempdir().unwrap();
    let told = succeeds(folder.path(), &["try", "--limit", "400"]);
    for expected in ["simulated (virtual time), seed 1", "ssd-nvme", "Verdict: ", "esker serve esker-try/stack.toml"] {
        assert!(told.contains(expected), "{expected} is missing in\n{told}");
    }
    let checked = succeeds(folder.path(), &["stack", "check", "esker-try/stack.toml"]);
    assert!(checked.contains("sound") && checked.contains("exports: 2"), "{checked}");
    let page = fs::read_to_string(folder.path().join("esker-try/report.html")).unwrap();
    assert!(page.contains("<pre>esker try --limit 400</pre>"));
}

#[test]
fn one_seed_gives_the_same_json_however_often_and_wherever_it_runs() {
    let run = |folder: &Path| {
        succeeds(folder, &["try", "--limit", "400", "--speed", "4", "--seed", "9", "--verify", "--json"])
    };
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let first = run(one.path());
    assert_eq!(first, run(one.path()), "files of the first run are replaced by the second");
    assert_eq!(first, run(other.path()));
    let written = fs::read_to_string(one.path().join("esker-try/result.json")).unwrap();
    assert_eq!(first.trim_end(), written.trim_end());
    let object: serde_json::Value = serde_json::from_str(&first).unwrap();
    assert_eq!((&object["simulated"], &object["seed"]), (&true.into(), &9.into()));
}

#[test]
fn files_of_others_are_never_replaced_without_force() {
    let folder = tempfile::tempdir().unwrap();
    let mine = folder.path().join("esker-try/stack.toml");
    fs::create_dir(mine.parent().unwrap()).unwrap();
    fs::write(&mine, "mine = true\n").unwrap();
    let quick = ["try", "--limit", "50", "--speed", "1"];
    let message = fails(folder.path(), &quick);
    assert!(message.contains("esker-try/stack.toml: is there already") && message.contains("--force"), "{message}");
    assert_eq!(fs::read_to_string(&mine).unwrap(), "mine = true\n");
    assert_eq!(fs::read_dir(mine.parent().unwrap()).unwrap().count(), 1);
    succeeds(folder.path(), &[&quick[..], &["--force"]].concat());
    assert!(fs::read_to_string(&mine).unwrap().starts_with("# Written by esker try"));
}

#[test]
fn refusals_say_what_is_wrong_and_write_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::write(at.join("words.txt"), "no trace\n").unwrap();
    fs::write(
        at.join("one.toml"),
        "[device.m]\nkind = \"memory\"\nsize = \"1MiB\"\n[[export]]\nname = \"m\"\ndevice = \"m\"\n",
    )
    .unwrap();
    fs::write(at.join("two.log"), TWO_VOLUMES).unwrap();
    fs::write(at.join("far.csv"), "419,W,4503599627366400,4096,1577808001000000\n").unwrap();
    fs::write(at.join("keys.csv"), "op_time,key,key_size,op,op_count,size,cache_hits,ttl,usecase,sub_usecase\n")
        .unwrap();
    fs::write(at.join("result.json"), "{\n  \"fio version\" : \"fio-3.33\",\n").unwrap();
    let before = fs::read_dir(at).unwrap().count();
    let cases: &[(&[&str], &str)] = &[
        (&["try", "nowhere.gz"], "nowhere.gz: cannot be opened: No such file"),
        (&["try", "words.txt"], "words.txt: "),
        (
            &["try", "--stack", "one.toml"],
            "one: exports 1, but the traces have 2 volumes (linux-mysql, linux-webserver-2)",
        ),
        (&["try", "--stack", "none.toml"], "none.toml: cannot be read"),
        (&["try", "--speed", "0"], "speed 0 is out of range"),
        (&["try", "--duration", "0"], "holds no request to play"),
        (&["try", "--fill", "2"], "fill 2 is out of range"),
        (&["try", "two.log", "--volume", "c"], "no volume"),
        (&["try", "two.log", "--rate", "0"], "rate 0 is out of range"),
        (&["try", "far.csv"], "which is more than 64 drives hold"),
        (
            &["try", "two.log", "--stack", "m = memory size=1MiB @"],
            "m: exports 1, but the traces have 2 volumes (two-a, two-b)",
        ),
        (&["try", "two.log", "--volume", "b", "--stack", "m = memory size=4KiB @"], "m: export m has 4.0 KiB"),
        (&["try", "keys.csv"], "key"),
        (&["try", "result.json"], "--write_iolog"),
    ];
    for (args, expected) in cases {
        let message = fails(at, args);
        assert!(message.contains(expected), "{args:?}: {message}");
    }
    assert_eq!(fs::read_dir(at).unwrap().count(), before, "nothing is left behind");
    let message = fails(at, &["try", "--limit", "50", "--speed", "1", "--out", "words.txt/below"]);
    assert!(message.contains("words.txt/below/stack.toml: cannot be written"), "{message}");
    assert_eq!(fs::read_to_string(at.join("words.txt")).unwrap(), "no trace\n");
}

/// An I/O log of fio with two files.
const TWO_VOLUMES: &str =
    "fio version 3 iolog\n0 a add\n0 b add\n5 a read 0 4096\n9 b write 8192 4096\n12 b datasync\n";

/// `requests` reads of 4 KiB all over 8 GiB, one every `gap_us`, as a trace in the format `alibaba`.
fn random_reads(requests: u64, gap_us: u64) -> String {
    let offset = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (2 << 20) * 4096;
    (0..requests).map(|i| format!("0,R,{},4096,{}\n", offset(i), 1_577_808_000_000_000 + i * gap_us)).collect()
}

#[test]
fn a_trace_is_judged_at_its_own_load_and_the_verdict_says_how_much_more_is_borne() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let verdict = |name: &str, trace: &str, more: &[&str]| {
        fs::write(at.join(name), trace).unwrap();
        let told = succeeds(at, &[&["try", name, "--json"], more].concat());
        serde_json::from_str::<serde_json::Value>(&told).unwrap()
    };
    let light = verdict("light.csv", &random_reads(600, 160_000), &[]);
    assert_eq!(
        (&light["speed"]["factor"], &light["verdict"]["name"]),
        (&1.0.into(), &"disk-1tb".into()),
        "six a second"
    );
    assert!(light["runs"][0]["headroom"]["factor"].as_f64().unwrap() > 1.0);
    let heavy = verdict("heavy.csv", &random_reads(120_000, 7), &["--plain"]);
    assert_eq!(heavy["verdict"]["name"], "ssd-nvme", "the other drives saturate at 140,000 a second");
    let saturated = |run: &serde_json::Value| (run["name"].as_str().unwrap().to_string(), run["saturated"].is_string());
    let runs: Vec<_> = heavy["runs"].as_array().unwrap().iter().map(saturated).collect();
    assert_eq!(runs.iter().filter(|(_, saturated)| *saturated).count(), 4, "{runs:?}");
    let faster = verdict("light.csv", &random_reads(600, 160_000), &["--busy", "0.5"]);
    let headline = faster["verdict"]["headline"].as_str().unwrap();
    assert!(headline.contains("times the recorded load"), "{headline}");
}

#[test]
fn try_weighs_stacks_that_learn_and_says_why_plain_devices_win() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("busy.csv"), random_reads(3000, 10_000)).unwrap();
    let told = succeeds(folder.path(), &["try", "busy.csv", "--target-p99", "8ms", "--no-headroom", "--json"]);
    let result: serde_json::Value = serde_json::from_str(&told).unwrap();
    let names: Vec<&str> = result["runs"].as_array().unwrap().iter().map(|run| run["name"].as_str().unwrap()).collect();
    assert_eq!(names[5..], ["cached", "tiered", "reorganised", "resting"]);
    assert_eq!(result["verdict"]["name"], "ssd-sata", "{}", result["verdict"]["headline"]);
    let reasons = result["verdict"]["reasons"].to_string();
    assert!(reasons.contains("whose devices suffice without hdd-7200-2021"), "{reasons}");
    let refused = esker(folder.path(), &["try", "busy.csv", "--plain", "--stack", "m = memory size=8GiB @"]);
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn advice_is_given_refused_and_served() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::write(at.join("load.csv"), random_reads(3000, 20_000)).unwrap();
    let shop = "[[device]]\nname = \"hdd-7200-2021\"\n[[device]]\nname = \"ssd-sata-2021\"\nrole = \"fast\"\n";
    fs::write(at.join("shop.toml"), shop).unwrap();
    let ask = |more: &[&str]| esker(at, &[&["advise", "load.csv", "--catalogue", "shop.toml"], more].concat());
    let told = |output: &Output| String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned();

    let given = ask(&["--target", "p95=40ms"]);
    assert!(given.status.success() && told(&given).starts_with("Buy hdd-7200-2021 alone: $150"), "{}", told(&given));
    let page = fs::read_to_string(at.join("esker-advise/advice.html")).unwrap();
    assert!(page.contains("What would change it") && page.contains("p95=40ms"));
    let checked = succeeds(at, &["stack", "check", "esker-advise/stack.toml"]);
    assert!(checked.contains("sound"), "{checked}");
    let [once, again] = [["--threads", "1"], ["--threads", "2"]]
        .map(|threads| told(&ask(&[&["--budget", "300", "--json"][..], &threads].concat())));
    assert_eq!(once, again);

    let missing = ask(&["--target", "p95=1us"]);
    assert_eq!(missing.status.code(), Some(4));
    assert!(told(&missing).contains("Missing: time: the nearest"), "{}", told(&missing));
    fs::write(at.join("shop.toml"), shop.replace("hdd-7200-2021", "hdd-7200-2012")).unwrap();
    let unknown = ask(&["--budget", "300"]);
    assert!(unknown.status.code() == Some(1) && told(&unknown).contains("did you mean"), "{}", told(&unknown));
    assert_eq!(esker(at, &["advise", "load.csv"]).status.code(), Some(2), "there is no question");
}

#[test]
fn volumes_are_played_together_or_one_alone_and_flushes_are_told() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("two.log"), TWO_VOLUMES).unwrap();
    let told = succeeds(folder.path(), &["try", "two.log"]);
    for words in
        ["two.log (two-a): 1 requests (1 reads)", "two.log (two-b): 2 requests (1 writes, 1 flushes)", "flush p50"]
    {
        assert!(told.contains(words), "{words} is missing in\n{told}");
    }
    let stack = "mine = disk-model size=1GiB @";
    let told = succeeds(folder.path(), &["try", "two.log", "--volume", "b", "--stack", stack, "--no-headroom"]);
    assert!(told.contains("Verdict: mine (given as text)") && !told.contains("headroom"), "{told}");
}

#[test]
fn a_trace_without_times_is_played_closed_or_at_a_rate_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let pages: String = (0..500).map(|i| format!("{} 1 0 {i}\n", i * 7 % 1000)).collect();
    fs::write(folder.path().join("pages.lis"), pages).unwrap();
    let closed = succeeds(folder.path(), &["try", "pages.lis", "--from", "arc"]);
    assert!(closed.contains("closed loop: each request is sent after") && closed.contains("without times"), "{closed}");
    let steady = succeeds(folder.path(), &["try", "pages.lis", "--from", "arc", "--rate", "50"]);
    assert!(steady.contains("50 requests of each trace a second") && steady.contains("bursts"), "{steady}");
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let run = |threads: &str| {
        let closed = ["--closed", "4", "--think", "1ms"];
        succeeds(folder.path(), &[&["try", "--limit", "300", "--threads", threads, "--json"], &closed[..]].concat())
    };
    let one = run("1");
    assert_eq!(one, run("3"));
    let object: serde_json::Value = serde_json::from_str(&one).unwrap();
    assert_eq!(object["load"], serde_json::json!({ "mode": "closed", "depth": 4, "think_ns": 1_000_000 }));
    assert!(object["runs"].as_array().unwrap().iter().all(|run| run["inflight_max"] == 8));
}

#[test]
fn an_older_result_is_compared_with_and_anything_else_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let quick = ["try", "--limit", "200", "--speed", "1"];
    succeeds(at, &[&quick[..], &["--out", "old"]].concat());
    let told = succeeds(at, &[&quick[..], &["--against", "old/result.json"]].concat());
    assert!(told.contains("Against old/result.json") && told.contains("1.000 times"), "{told}");
    assert!(!told.contains("warning:"), "{told}");
    fs::write(at.join("words.json"), "{}").unwrap();
    let refused = |path: &str| fails(at, &[&quick[..], &["--against", path]].concat());
    assert!(refused("words.json").contains("words.json: is no result of `esker try`"));
    assert!(refused("none.json").contains("none.json: cannot be read"));
}

#[test]
fn what_was_calibrated_is_found_and_lets_a_file_be_predicted() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let file = "vol = file path=data.img size=64MiB | stats @";
    fs::write(at.join("t.load"), "0.0 ; 0 ; 8 ; R ; 0 ; 0\n0.001 ; 64 ; 8 ; R ; 0 ; 0\n").unwrap();
    let quick = ["try", "t.load", "--from", "load", "--speed", "1", "--stack", file];
    assert!(fails(at, &quick).contains("only in the real world"));
    let told = succeeds(at, &["calibrate", "--rounds", "1", "--scratch", "."]);
    assert!(told.contains("stats") && told.contains("esker-calibration.toml"), "{told}");
    let is_scratch = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with("esker-calibrate-");
    assert!(!fs::read_dir(at).unwrap().any(|entry| is_scratch(&entry.unwrap())), "the scratch file is gone");
    let told = succeeds(at, &quick);
    assert!(told.contains("costs    esker-calibration.toml, measured on") && told.contains("file: "), "{told}");
    assert!(!at.join("data.img").exists(), "predicting opens no file");
    fs::write(at.join("esker-calibration.toml"), "version = 1\nnonsense = true\n").unwrap();
    let damaged = fails(at, &quick);
    assert!(damaged.contains("esker-calibration.toml: ") && damaged.contains("line "), "{damaged}");
    assert!(fails(at, &["calibrate", "--rounds", "1"]).contains("--force"), "a file that is not ours stays");
}
