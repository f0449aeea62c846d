//! How often traces are decoded and candidates are played.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;

/// Bytes of a record in memory.
const RECORD: u64 = size_of::<esker_trace_block::Record>() as u64;

/// A trace, and how often it was opened.
fn counted(trace: &str, requests: u64) -> (Trace, Arc<AtomicU64>) {
    let opened = Arc::new(AtomicU64::new(0));
    let (count, line) = (opened.clone(), |i: u64| format!("0.{:06} ; {} ; 8 ; R ; 0.0 ; 0.0\n", i * 10, i * 8));
    let text: String = (0..requests).map(line).collect();
    let (bytes, part) = (format!("start ; sector ; length ; op\n{text}"), trace.to_string());
    let open = move || {
        count.fetch_add(1, Ordering::Relaxed);
        Ok(vec![(part.clone(), Box::new(std::io::Cursor::new(bytes.clone())) as crate::input::Bytes)])
    };
    (Trace::new(trace, Some(Format::Load), Arc::new(open)), opened)
}

/// What two candidates give within so many bytes of memory, and how often two traces of 300 requests were opened.
fn within(memory: u64) -> (String, [u64; 2]) {
    let [(a, opened_a), (b, opened_b)] = ["a", "b"].map(|name| counted(name, 300));
    let stack = |name| candidate(name, "x = memory size=1GiB @\ny = memory size=1GiB @");
    let plan = ComparisonPlan { memory, ..plan(vec![a, b], vec![stack("one"), stack("two")]) };
    (compared(plan).to_json(), [opened_a, opened_b].map(|opened| opened.load(Ordering::Relaxed)))
}

#[test]
fn traces_that_fit_in_memory_are_decoded_once_and_others_give_the_same_result() {
    let (held, opened) = within(600 * RECORD);
    assert_eq!(opened, [1, 1]);
    // One for the facts, one for each candidate.
    for (memory, expected) in [(600 * RECORD - 1, [1, 3]), (300 * RECORD - 1, [3, 3]), (0, [3, 3])] {
        let (streamed, opened) = within(memory);
        assert_eq!((opened, streamed == held), (expected, true), "{memory} bytes");
    }
}

/// Requests that are done and all of them, by part.
type Told = BTreeMap<String, (u64, Option<u64>)>;

/// A plan that searches its speed, prepared, and the requests that were played of its candidate 0 so far and from then
/// on.
fn played(verify: bool) -> (Comparison, u64, u64) {
    let told: Arc<Mutex<Told>> = Arc::default();
    let counter = told.clone();
    let watch: Watch = Arc::new(move |told| {
        counter.lock().unwrap().insert(told.part.to_string(), (told.done, told.total));
    });
    let searched = ComparisonPlan { speed: SpeedChoice::Busy(0.7), verify, ..plan(vec![busy("a", 6000)], Vec::new()) };
    let prepared = searched.prepare(&watch).unwrap();
    let planned = prepared.requests();
    let probes = std::mem::take(&mut *told.lock().unwrap());
    assert!(!probes.is_empty() && probes.iter().all(|(part, _)| part.starts_with("probe ")), "{probes:?}");
    assert!(probes.values().all(|(done, total)| Some(*done) == *total), "{probes:?}");
    let runs = (0..prepared.candidates().len()).map(|at| prepared.run(at, &watch).unwrap()).collect();
    let told = told.lock().unwrap();
    assert!(told.values().all(|(done, total)| Some(*done) == *total), "{told:?}");
    (prepared.conclude(runs), planned, told.values().map(|(done, _)| done).sum())
}

#[test]
fn the_run_at_the_speed_that_was_found_is_the_first_candidate_s() {
    let (once, planned, told) = played(false);
    assert_eq!((planned, told), (6000 * (once.runs.len() as u64 - 1), planned));
    let (twice, planned, told) = played(true);
    assert_eq!((planned, told), (6000 * (2 * twice.runs.len() as u64 - 1), planned), "it is played once more");
    assert_eq!(once.runs, twice.runs);
    // The same speed without a search plays all of them.
    let factor = once.speed.as_ref().map_or(f64::NAN, |speed| speed.factor);
    let given =
        compared(ComparisonPlan { speed: SpeedChoice::Factor(factor), ..plan(vec![busy("a", 6000)], Vec::new()) });
    assert_eq!(once.runs, given.runs);
}
