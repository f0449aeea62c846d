//! Lines where there is no terminal.

use super::*;

/// A watcher of a verb, and what it said.
fn heard(lines: Lines) -> (Watcher, Arc<Mutex<Vec<String>>>) {
    let said: Arc<Mutex<Vec<String>>> = Arc::default();
    let own = said.clone();
    let say = move |line: &str| own.lock().unwrap().push(line.to_string());
    let watcher = Watcher::on(ProgressDrawTarget::hidden(), lines, Box::new(say));
    watcher.begin(&["blktrace", "check"]);
    (watcher, said)
}

/// The lines, without the times, which differ from run to run.
fn timeless(said: &Mutex<Vec<String>>) -> Vec<String> {
    let cut = |line: &String| line.split(", about").next().unwrap_or_default().to_string();
    said.lock().unwrap().iter().map(cut).collect()
}

#[test]
fn a_line_says_what_how_much_and_of_how_much() {
    let (watcher, said) = heard(Lines::Each);
    watcher.tell(Progress::bytes("a.csv", 1 << 20, 4 << 20));
    watcher.tell(Progress::of("candidates", "requests", 1_200, 36_000));
    let part = watcher.part("standard input", Unit::Of("lines"), None);
    part.more(3);
    part.at("more of it");
    part.done(5);
    let expected = [
        "esker blktrace check: a.csv, 1.0 MiB of 4.0 MiB",
        "esker blktrace check: candidates, 1,200 of 36,000 requests",
        "esker blktrace check: standard input, 0 lines so far",
        "esker blktrace check: standard input, 3 lines so far",
        "esker blktrace check: more of it, 3 lines so far",
        "esker blktrace check: more of it, 5 lines so far",
    ];
    assert_eq!(timeless(&said), expected);
}

#[test]
fn a_part_ends_when_all_is_done_or_it_is_dropped_and_others_go_on() {
    let (watcher, said) = heard(Lines::Each);
    watcher.tell(Progress::of("a", "steps", 1, 2));
    watcher.tell(Progress::of("b", "steps", 1, 3));
    watcher.tell(Progress::of("a", "steps", 2, 2));
    watcher.0.line();
    drop(watcher.part("c", Unit::Bytes, Some(7)));
    watcher.0.line();
    let told = timeless(&said);
    let told: Vec<&str> = told.iter().map(|line| line.trim_start_matches("esker blktrace check: ")).collect();
    let expected = [
        "a, 1 of 2 steps",
        "b, 1 of 3 steps",
        "a, 2 of 2 steps",
        "b, 1 of 3 steps",
        "c, 0 B of 7 B",
        "b, 1 of 3 steps",
    ];
    assert_eq!(told, expected);
    watcher.end();
    watcher.0.line();
    assert_eq!(said.lock().unwrap().len(), expected.len(), "nothing is under way");
}

#[test]
fn more_than_all_is_all() {
    let (watcher, said) = heard(Lines::Each);
    let part = watcher.part("trace", Unit::Bytes, Some(10));
    io::copy(&mut part.reading(&[0; 15][..]), &mut io::sink()).unwrap();
    let told = timeless(&said);
    assert!(told[0].ends_with("trace, 0 B of 10 B"), "{told:?}");
    assert!(told[1..].iter().all(|line| line.ends_with("trace, 10 B of 10 B")), "{told:?}");
}

#[test]
fn work_that_ends_within_the_interval_says_nothing() {
    let (watcher, said) = heard(Lines::of(None));
    watcher.tell(Progress::of("a", "steps", 1, 2));
    drop(watcher.part("b", Unit::Bytes, Some(7)));
    watcher.end();
    assert!(said.lock().unwrap().is_empty());
}

#[test]
fn a_variable_sets_the_interval_or_turns_progress_off() {
    for (text, lines) in [
        (None, Lines::Every(INTERVAL)),
        (Some("off"), Lines::Off),
        (Some("0s"), Lines::Each),
        (Some("1min"), Lines::Every(Duration::from_secs(60))),
        (Some("often"), Lines::Every(INTERVAL)),
    ] {
        assert_eq!(Lines::of(text), lines, "{text:?}");
    }
}

#[test]
fn the_rest_is_told_in_seconds_minutes_or_hours() {
    for (s, text) in [
        (0, ""),
        (12, ", about 12 s to go"),
        (119, ", about 119 s to go"),
        (120, ", about 2 min to go"),
        (7199, ", about 119 min to go"),
        (7200, ", about 2 h to go"),
    ] {
        assert_eq!(to_go(Duration::from_secs(s)), text);
    }
}
