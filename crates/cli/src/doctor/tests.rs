//! All checks together.

use std::collections::BTreeSet;
use std::time::Instant;

use super::finding::State;
use super::machine::testing::Made;
use super::*;

/// Machines on which each thing works, or is absent.
fn bare() -> Vec<Finding> {
    let mut machine = Made::of(&[("proc/sys/kernel/osrelease", "4.4.0\n")]).for_contained_root();
    machine.probes.ring = || Err(std::io::ErrorKind::PermissionDenied.into());
    machine.probes.recorder = || Err("refused".to_string());
    examine(&machine, &[])
}

#[test]
fn a_bare_machine_is_told_of_each_thing_what_to_do() {
    let found = bare();
    let state = |check: &str| found.iter().find(|found| found.check == check).map(|found| found.state);
    for check in ["kernel", "FUSE", "loop devices"] {
        assert_eq!(state(check), Some(State::Missing), "{check}");
    }
    for check in ["io_uring", "BPF", "tracepoints", "clock", "stolen CPU time", "CPUs", "foreign programs"] {
        assert_eq!(state(check), Some(State::Note), "{check}");
    }
    for one in &found {
        assert_eq!(one.advice.is_none(), one.state == State::Ok, "{one:?}");
        assert!(!one.found.is_empty() && one.advice.as_ref().is_none_or(|advice| !advice.is_empty()), "{one:?}");
    }
    assert!(text::missing(&found).is_some_and(|text| text.contains("FUSE (for mount, attach, serve)")));
}

#[test]
fn checks_have_names_of_their_own_and_name_verbs_that_exist() {
    let found = bare();
    let names: BTreeSet<&str> = found.iter().map(|found| found.check).collect();
    assert_eq!(names.len(), found.len());
    assert!(found.iter().all(|found| found.check.len() < 20), "names fit their column: {names:?}");
    let verbs: BTreeSet<String> = crate::verbs::ALL.iter().map(|verb| verb.words.join(" ")).collect();
    let place = Place::of(&std::env::temp_dir()).unwrap();
    for one in found.into_iter().chain(place.check(&Made::of(&[]))) {
        assert!(one.verbs.iter().all(|verb| verbs.contains(*verb)), "{one:?}");
    }
}

#[test]
fn this_machine_is_examined_and_all_is_well_formed() {
    let begun = Instant::now();
    let place = Place::of(&std::env::temp_dir()).unwrap();
    let found = examine(&Machine::here(), &[place]);
    eprintln!("examined in {:?}", begun.elapsed());
    assert!(found.len() >= 24, "{found:?}");
    assert!(found.iter().all(|one| one.advice.is_none() == (one.state == State::Ok)), "{found:?}");
    assert!(found.iter().all(|one| one.json()["check"].is_string()), "{found:?}");
}
