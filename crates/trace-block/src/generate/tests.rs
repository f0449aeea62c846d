//! Generators: equal seeds, independent flows, and calibration of every profile.

use super::calibration::Verdict;
use super::profile::BUILTIN;
use super::*;
use crate::record::{Op, Record};
use crate::source::Source;
use esker_base::{Digest, Nanos};

fn records(name: &str, profile: &Profile, seed: u64, hours: f64) -> Vec<Record> {
    let mut generator = Generator::new(name, profile, seed, hours).unwrap();
    std::iter::from_fn(|| generator.next_record().unwrap()).collect()
}

fn digest(records: &[Record]) -> u64 {
    let mut digest = Digest::new();
    for r in records {
        [r.at.0, u64::from(r.volume), r.op.index() as u64, r.offset, r.len, u64::from(r.who)]
            .into_iter()
            .for_each(|word| digest.word(word));
    }
    digest.value()
}

/// A profile with so few requests that a test can hold them. Those of laptops have few.
fn small(name: &str) -> Profile {
    let profile = Profile::builtin(name).unwrap();
    let rate: f64 = profile.flow.iter().map(|flow| flow.rate).sum();
    if rate < 50.0 { profile } else { profile.scaled(0.02) }
}

/// The machines of BORG have so few requests that only a week of them is enough.
fn length(name: &str) -> f64 {
    if name.starts_with("borg-") { 840.0 } else { 1.0 }
}

#[test]
fn every_profile_is_read_and_yields_requests_that_fit_on_its_volumes() {
    for builtin in BUILTIN {
        let profile = small(builtin.name);
        let sizes: Vec<u64> = profile.volumes().iter().map(|(_, bytes)| *bytes).collect();
        let records = records(builtin.name, &profile, 1, 0.4 * length(builtin.name));
        assert!(records.len() > 1_000, "{}: {} requests", builtin.name, records.len());
        assert!(records.windows(2).all(|pair| pair[0].at <= pair[1].at), "{}: times run backwards", builtin.name);
        for r in &records {
            let fits = r.offset + r.len <= sizes[r.volume as usize] && r.offset.is_multiple_of(4096) && r.len > 0;
            assert!(fits && r.op.is_transfer(), "{}: {r:?}", builtin.name);
        }
    }
}

#[test]
fn one_seed_gives_one_trace_and_another_seed_another() {
    for builtin in BUILTIN {
        let profile = small(builtin.name);
        let of = |seed| digest(&records(builtin.name, &profile, seed, 0.05 * length(builtin.name)));
        assert_eq!(of(7), of(7), "{}", builtin.name);
        assert_ne!(of(7), of(8), "{}", builtin.name);
    }
}

#[test]
fn a_shorter_trace_is_the_beginning_of_a_longer_one() {
    for builtin in BUILTIN {
        let profile = small(builtin.name);
        let hours = 0.02 * length(builtin.name);
        let (short, long) =
            (records(builtin.name, &profile, 3, hours), records(builtin.name, &profile, 3, hours * 2.0));
        assert!(short.len() < long.len() && short[..] == long[..short.len()], "{}", builtin.name);
    }
}

#[test]
fn what_one_flow_draws_does_not_shift_another() {
    let text = |sizes: &str| {
        format!(
            "summary = ''\nhours = 1.0\nvolume = [{{ name = 'a', bytes = 1073741824 }}, {{ name = 'b', bytes = 1073741824 }}]\n\
             [[flow]]\nvolume = 'a'\nrate = 10.0\nreads = 0.5\nsizes = {sizes}\nplaces = {{ kind = 'uniform' }}\n\
             [[flow]]\nvolume = 'b'\nrate = 10.0\nreads = 0.5\nsizes = [[4096, 1], [8192, 1]]\n\
             places = {{ kind = 'zipf', exponent = 1.0, grain = 65536 }}\n"
        )
    };
    let second_flow = |sizes: &str| -> Vec<Record> {
        let profile = Profile::parse("test", &text(sizes)).unwrap();
        records("test", &profile, 5, 1.0).into_iter().filter(|r| r.volume == 1).collect()
    };
    let one = second_flow("[[4096, 1]]");
    assert!(one.len() > 30_000);
    assert!(one == second_flow("[[8192, 3], [16384, 1], [65536, 2]]"), "the first flow's sizes shift the second flow");
}

/// The ten grains of volume 20 with most requests in some hours of a day.
fn hottest(name: &str, seed: u64, hours: std::ops::Range<u64>) -> Vec<u64> {
    let mut counts = std::collections::BTreeMap::new();
    for r in records(name, &small(name), seed, 24.0) {
        if hours.contains(&(r.at.0 / 3_600_000_000_000)) && r.volume == 20 {
            *counts.entry(r.offset >> 20).or_insert(0u32) += 1;
        }
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(grain, count)| (std::cmp::Reverse(*count), *grain));
    counts.into_iter().take(10).map(|(grain, _)| grain).collect()
}

fn common(a: &[u64], b: &[u64]) -> usize {
    a.iter().filter(|grain| b.contains(grain)).count()
}

#[test]
fn flows_of_one_volume_share_its_hot_places_and_seeds_move_them() {
    let hottest = |seed, hours| hottest("msr-like", seed, hours);
    let (busy, quiet, other) = (hottest(1, 0..12), hottest(1, 12..24), hottest(2, 0..12));
    assert!(common(&busy, &quiet) >= 3, "{busy:?} {quiet:?}");
    assert_eq!(common(&busy, &other), 0, "{busy:?} {other:?}");
}

/// Generates and measures a smaller copy, over the length for which the profile's figures hold.
fn assert_calibrated(name: &str, scale: f64, hours: f64, judged: usize) {
    let profile = Profile::builtin(name).unwrap().scaled(scale);
    let calibration = calibrate(name, &profile, 7, hours, |_| {}).unwrap();
    assert!(calibration.is_right(), "{name}\n{calibration}");
    let count = calibration.rows.iter().filter(|row| row.verdict == Verdict::Right).count();
    assert_eq!(count, judged, "{name}\n{calibration}");
}

#[test]
fn plain_profiles_are_what_they_say() {
    assert_calibrated("uniform", 0.2, 1.0, 4);
    assert_calibrated("zipf", 0.2, 1.0, 3);
    assert_calibrated("hot-cold", 0.2, 1.0, 4);
    assert_calibrated("streams", 0.5, 1.0, 3);
}

#[test]
fn adversarial_profiles_are_what_they_say() {
    assert_calibrated("adversarial-uniform", 0.2, 2.0, 2);
    assert_calibrated("adversarial-hot-set", 1.0, 2.0, 2);
}

#[test]
fn spc1_like_is_within_5_percent_of_the_printed_shares() {
    assert_calibrated("spc1-like", 0.2, 0.5, 6);
}

#[test]
fn msr_like_is_within_5_percent_of_the_printed_week() {
    assert_calibrated("msr-like", 0.01, 168.0, 9);
}

#[test]
fn msr_shift_is_what_it_says() {
    assert_calibrated("msr-shift", 0.01, 24.0, 8);
}

/// The hottest places of six hours are not those of the next six, and flows of one volume move together.
#[test]
fn msr_shift_renews_its_hot_places() {
    let hottest = |hours| hottest("msr-shift", 1, hours);
    let [early, late, noon, evening] = [0..3, 3..6, 12..15, 18..24].map(hottest);
    assert!(common(&early, &late) >= 4, "{early:?} {late:?}");
    assert!(common(&early, &noon) == 0 && common(&noon, &evening) < 4, "{early:?} {noon:?} {evening:?}");
}

#[test]
fn fiu_like_is_within_5_percent_of_the_printed_week() {
    assert_calibrated("fiu-like", 0.002, 168.0, 8);
}

#[test]
fn borg_profiles_are_near_the_printed_weeks() {
    assert_calibrated("borg-office", 0.1, 168.0, 7);
    assert_calibrated("borg-developer", 0.05, 168.0, 7);
    assert_calibrated("borg-svn", 1.0, 168.0, 7);
    assert_calibrated("borg-web", 0.1, 168.0, 7);
}

/// A run that begins while another one of its flow is under way waits for its end.
#[test]
fn a_process_goes_through_one_script_at_a_time_and_through_popular_ones_again() {
    let records = records("borg-office", &small("borg-office").scaled(5.0), 1, 24.0);
    let who: std::collections::BTreeSet<u32> = records.iter().map(|r| r.who).collect();
    assert_eq!(who.into_iter().collect::<Vec<_>>(), [1, 2, 3, 4]);
    let of_one: Vec<&Record> = records.iter().filter(|r| r.who == 1).collect();
    let mut pairs = std::collections::BTreeMap::new();
    for pair in of_one.windows(2) {
        *pairs.entry((pair[0].offset, pair[0].len, pair[1].offset, pair[1].len, pair[1].op.index())).or_insert(0u32) +=
            1;
    }
    let again: u32 = pairs.values().filter(|count| **count > 1).sum();
    assert!(again as usize > of_one.len() / 5, "{again} of {}", of_one.len());
}

#[test]
fn profiles_of_laptops_are_what_they_say() {
    assert_calibrated("bltk-like", 1.0, 96.0, 3);
    assert_calibrated("postmark-like", 1.0, 2.0, 3);
}

#[test]
fn bursts_are_evenly_spaced_in_order_and_end_with_the_trace() {
    let text = BUILTIN[0].text.replace("reads = ", "burst = { requests = 5, within_s = 2.0 } # \nreads = ");
    let mut profile = Profile::parse("uniform", &text).unwrap();
    profile.flow[0].rate = 0.05;
    let records = records("uniform", &profile, 1, 10.0);
    assert!(records.is_sorted_by_key(|record| record.at) && records.last().unwrap().at < Nanos::secs(36_000));
    let gaps = records.windows(2).map(|pair| pair[1].at - pair[0].at);
    let within = gaps.filter(|gap| *gap == Nanos::millis(500)).count();
    assert!((1500..=2100).contains(&records.len()), "{}", records.len());
    assert!(within * 10 > records.len() * 7, "{within} of {}", records.len());
}

#[test]
fn figures_of_another_length_are_not_judged() {
    let profile = small("msr-like");
    let calibration = calibrate("msr-like", &profile, 7, 24.0, |_| {}).unwrap();
    let not_judged = calibration.rows.iter().filter(|row| row.verdict == Verdict::NotJudged).count();
    assert_eq!((not_judged, calibration.rows.len()), (3, 9));
    assert!(calibration.to_string().contains("another length: not judged"));
}

#[test]
fn a_wrong_figure_is_found() {
    let text = BUILTIN[0].text.replace("reads = 0.7", "reads = 0.6");
    let profile = Profile::parse("uniform", &text).unwrap().scaled(0.1);
    let calibration = calibrate("uniform", &profile, 7, 0.5, |_| {}).unwrap();
    assert!(!calibration.is_right());
    assert!(calibration.to_string().contains("WRONG"), "{calibration}");
}

#[test]
fn each_number_of_a_profile_has_a_source_beside_it() {
    for builtin in BUILTIN {
        for (number, line) in builtin.text.lines().enumerate() {
            let code = line.split('#').next().unwrap_or("");
            let has_number = code.split_once('=').is_some_and(|(_, value)| value.chars().any(|c| c.is_ascii_digit()));
            let is_name = code.trim_start().starts_with("figure") || code.trim_start().starts_with("volume");
            let is_name = is_name || ["name", "summary"].iter().any(|key| code.trim_start().starts_with(key));
            assert!(!has_number || is_name || line.contains('#'), "{}:{}: {line}", builtin.name, number + 1);
        }
    }
}

#[test]
fn bad_profiles_are_refused_with_the_place() {
    let good = BUILTIN[0].text;
    let cases = [
        ("rate = 500.0", "rate = -1.0", "flow 1 (to volume): rate is -1"),
        ("reads = 0.7", "reads = 7", "reads is 7"),
        ("[[4096, 1.0]]", "[[4095, 1.0]]", "size 4095"),
        ("[[4096, 1.0]]", "[]", "sizes is empty"),
        ("hours = 1.0", "hours = 0.0", "hours"),
        ("reads = 0.7", "day = [1, 2]\nreads = 0.7", "day has 2 rates"),
        ("volume = \"volume\"", "volume = \"none\"", "no such volume"),
        ("rate = 500.0", "speed = 500.0", "unknown field `speed`"),
        ("kind = \"uniform\"", "kind = \"even\"", "unknown variant `even`"),
    ];
    for (from, to, expected) in cases {
        let error = Profile::parse("mine", &good.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(error.starts_with("profile mine: ") && error.contains(expected), "{from}: {error}");
    }
    let tiny = Profile::parse("mine", &good.replace("68_719_476_736", "100")).unwrap();
    let error = Generator::new("mine", &tiny, 1, 1.0).err().unwrap().to_string();
    assert!(error.contains("do not fit on a volume of 0"), "{error}");
    let error = Profile::builtin("fiu").unwrap_err().to_string();
    assert!(error.contains("fiu-like"), "{error}");
}

#[test]
fn reads_and_writes_of_a_visit_stay_together() {
    let records = records("fiu-like", &small("fiu-like"), 1, 2.0);
    let on = |volume| records.iter().filter(move |r| r.volume == volume).collect::<Vec<_>>();
    let (mut near, mut alike) = (0u32, 0u32);
    for pair in on(0).windows(2).filter(|pair| pair[0].offset >> 20 == pair[1].offset >> 20) {
        near += 1;
        alike += u32::from(pair[0].op == pair[1].op);
    }
    assert!(near > 1_000 && f64::from(alike) > f64::from(near) * 0.99, "{alike} of {near}");
    assert!(records.iter().any(|r| r.op == Op::Write));
}
