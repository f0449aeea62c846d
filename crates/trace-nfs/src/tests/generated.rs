//! Generated traces, and replays of them.

use std::collections::BTreeMap;
use std::io::Read;

use esker_fs_posix::script::at_once;

use super::Scene;
use crate::generate::{NfsGenerator, NfsShape};
use crate::report::NfsReport;

fn text(shape: NfsShape) -> String {
    let mut text = String::new();
    NfsGenerator::new(shape).read_to_string(&mut text).expect("it is made in memory");
    text
}

fn replayed(text: &str) -> (NfsReport, Vec<String>, u64) {
    let mut scene = Scene::with(1 << 40, super::options());
    for line in text.lines() {
        at_once(scene.run.line(line.as_bytes(), false));
    }
    scene.run.player().tree().check();
    (scene.report(), scene.tree(), scene.digest())
}

/// Counts pairs by the words of the lines alone.
fn counted(text: &str) -> BTreeMap<String, u64> {
    let (mut asked, mut counts) = (BTreeMap::new(), BTreeMap::new());
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        *counts.entry(words[4][..1].to_string()).or_default() += 1;
        let time: f64 = words[0].parse().expect("a time");
        match (words[4].as_bytes()[0], asked.remove(words[5])) {
            (b'C', _) => drop(asked.insert(words[5], time)),
            (_, Some(before)) if time - before <= 300.0 && words[8] == "OK" => {
                *counts.entry(words[7].to_string()).or_default() += 1;
            }
            _ => {}
        }
    }
    counts
}

#[test]
fn a_seed_decides_the_trace_and_the_tree() {
    let shape = NfsShape::tiny(4);
    assert_eq!(text(shape), text(shape));
    assert_ne!(text(shape), text(NfsShape::tiny(5)));
    let (once, again) = (replayed(&text(shape)), replayed(&text(shape)));
    assert_eq!(once, again);
    assert!(once.1.len() > 20, "{:?}", once.1);
}

#[test]
fn counts_are_those_of_an_independent_count() {
    for seed in 0..4 {
        let text = text(NfsShape { loss: 0.05, ..NfsShape::tiny(seed) });
        let (report, ..) = replayed(&text);
        let counted = counted(&text);
        let count = |words: &[&str]| words.iter().filter_map(|word| counted.get(*word)).sum::<u64>();
        assert_eq!(report.lines, text.lines().count() as u64);
        assert_eq!((report.requests, report.responses), (count(&["C"]), count(&["R"])));
        assert_eq!((report.lookup, report.write), (count(&["lookup"]), count(&["write"])), "seed {seed}");
        assert_eq!((report.create, report.remove), (count(&["create", "mkdir"]), count(&["remove"])));
        assert_eq!((report.rename, report.link), (count(&["rename"]), count(&["link"])));
        assert_eq!((report.setattr, report.look), (count(&["setattr"]), count(&["getattr", "access"])));
        assert!(report.orphans > 0 && report.refused > 0 && report.malformed == 0, "{report:?}");
    }
}

#[test]
fn replays_of_lossy_traces_fail_no_call() {
    for seed in 0..8 {
        let shape = NfsShape { loss: 0.1, reuse: 0.8, ..NfsShape::tiny(seed) };
        let (report, ..) = replayed(&text(shape));
        assert_eq!((report.failed, report.first_failure), (0, None), "seed {seed}");
    }
}

#[test]
fn without_losses_the_target_has_what_the_server_has() {
    let shape = NfsShape { loss: 0.0, ..NfsShape::tiny(9) };
    let (report, tree, _) = replayed(&text(shape));
    assert_eq!((report.orphans, report.dropped, report.timed_out), (0, 0, 0), "{report:?}");
    assert!(tree.iter().any(|path| path.contains("/user")), "{tree:?}");
}

#[test]
fn operations_have_the_ratios_of_lair62() {
    let shape = NfsShape { users: 40, scale: 0.1, operations: Some(100_000), ..NfsShape::lair62(2) };
    let counted = counted(&text(NfsShape { loss: 0.0, ..shape }));
    let total: u64 = ["lookup", "write", "remove", "create", "mkdir", "rename", "link"]
        .iter()
        .filter_map(|word| counted.get(*word))
        .sum();
    for (words, share) in [
        (&["lookup"][..], 0.6047),
        (&["write"], 0.3492),
        (&["remove"], 0.0222),
        (&["create", "mkdir"], 0.0194),
        (&["rename"], 0.00197),
        (&["link"], 0.00197),
    ] {
        let count: u64 = words.iter().filter_map(|word| counted.get(*word)).sum();
        let found = count as f64 / total as f64;
        // Three standard deviations, and 3 %.
        let noise = 3.0 * (share / total as f64).sqrt() + 0.03 * share;
        assert!((found - share).abs() < noise, "{words:?}: {found} instead of {share}");
    }
}

/// Seconds that written blocks of 8 KiB lived, of those that were written again. The end of a file is not seen.
fn lifetimes(text: &str) -> (u64, Vec<f64>) {
    let (mut born, mut lived, mut births) = (BTreeMap::new(), Vec::new(), 0);
    for line in text.lines().filter(|line| line.contains(" write fh ") && line.contains(" off ")) {
        let words: Vec<&str> = line.split(' ').collect();
        let time: f64 = words[0].parse().expect("a time");
        let number = |word: &str| u64::from_str_radix(word, 16).expect("a number");
        let (offset, count) = (number(words[11]), number(words[13]));
        for block in offset / 8192..(offset + count).div_ceil(8192) {
            births += 1;
            lived.extend(born.insert((words[9].to_string(), block), time).map(|before| time - before));
        }
    }
    (births, lived)
}

#[test]
fn half_of_the_blocks_die_within_a_second() {
    let shape = NfsShape { users: 40, scale: 0.1, operations: Some(100_000), reuse: 0.0, ..NfsShape::lair62(2) };
    let (births, lived) = lifetimes(&text(NfsShape { loss: 0.0, ..shape }));
    let young = lived.iter().filter(|seconds| **seconds <= 1.0).count() as f64 / births as f64;
    assert!((0.42..0.55).contains(&young), "{young}");
}

#[test]
fn files_pass_within_a_day_and_those_that_stay_grow_to_the_end() {
    let shape =
        NfsShape { users: 20, scale: 0.01, operations_per_hour: 100.0, reuse: 0.0, loss: 0.0, ..NfsShape::lair62(3) };
    let files = |operations| {
        let (_, tree, _) = replayed(&text(NfsShape { operations: Some(operations), ..shape }));
        tree.iter().filter(|path| !path.ends_with('/') && !path.ends_with(" 0")).count() as f64
    };
    // Some 2,200 files are made, of which 96 stay. Up to 30 take the place of files that were there before.
    let (half, whole) = (files(60_000), files(120_000));
    assert!((80.0..150.0).contains(&whole) && (0.35..0.8).contains(&(half / whole)), "{half} of {whole}");
}
