//! The harness passes what is sound, and finds each flaw.

use esker_fs_posix::script::Bounded;

use super::suite::{caught, linear, ram, whole};
use super::*;
use crate::SoakLength;

const SEED: u64 = 7;

fn check(subject: &std::rc::Rc<dyn Subject>) -> suite::Judged {
    let judged = judge(subject, Scale::quick(SEED)).unwrap_or_else(|breach| panic!("{breach}"));
    println!("{}, seed {SEED}: {judged:?}", subject.name());
    assert!(judged.cycled.refused > 50 && judged.searched.scripts > 600, "{judged:?}");
    judged
}

#[test]
fn a_sound_file_system_keeps_the_promise_of_a_prefix() {
    let judged = check(&whole(None));
    assert!(judged.searched.states > 10_000 && judged.searched.used > 300, "{judged:?}");
    assert!(judged.faults > 50 && judged.noticed > 50, "{judged:?}");
}

#[test]
fn a_file_system_that_writes_each_change_keeps_every_call() {
    let judged = check(&linear());
    assert!(judged.searched.states > 10_000, "{judged:?}");
}

#[test]
fn ram_answers_as_itself_and_gives_all_room_back() {
    assert_eq!(check(&ram()).searched.states, 0, "nothing of it survives a crash");
}

/// What finds each flaw: words of the report.
fn finder(flaw: Flaw) -> &'static str {
    match flaw {
        Flaw::UnstableCookie => "listing a directory that changes",
        Flaw::StaleHole => "call 4: read",
        Flaw::SumUnchecked => "of the medium is changed, and the tree with it",
        Flaw::ErrorSwallowed => "with the fault error",
        Flaw::SpaceLeaks => "cycle 1",
        Flaw::OldSlot => "call",
        Flaw::NoFlushWhenOpened => "killed before event",
        Flaw::NoFlushBeforeHead
        | Flaw::HeadBeforeBody
        | Flaw::SyncDoesNothing
        | Flaw::TornRename
        | Flaw::LostWrite
        | Flaw::TruncateNotDurable
        | Flaw::OrphanReappears => "crash before event",
    }
}

#[test]
fn every_flaw_is_found_by_what_looks_for_it() {
    let scale = Scale::tiny(SEED);
    judge(&whole(None), scale).unwrap_or_else(|breach| panic!("the sound one passes the same: {breach}"));
    let caught = caught(scale);
    for (flaw, breach) in &caught {
        println!("{flaw:?}\n{breach}");
        assert!(breach.when.contains(finder(*flaw)) && !breach.what.is_empty(), "{flaw:?} is found by accident");
    }
    let missed: Vec<Flaw> =
        Flaw::ALL.into_iter().filter(|flaw| caught.iter().all(|(found, _)| found != flaw)).collect();
    assert!(missed.is_empty(), "{missed:?} pass");
}

#[test]
#[ignore = "a million states: cargo xtask soak fs-crash"]
fn sound_file_systems_keep_their_promises_for_a_long_time() {
    let SoakLength { times: states, seed } = SoakLength::told(1_000_000);
    for subject in [whole(None), linear()] {
        let judged = judge(&subject, Scale::long(seed)).unwrap_or_else(|breach| panic!("{breach}"));
        println!("{}, seed {seed}: {judged:?}", subject.name());
        assert_eq!(judged.cycled.cycles, 1000);
        let stage = Stage::new(subject.clone(), &Bounded::before()).unwrap_or_else(|breach| panic!("{breach}"));
        let say = |searched: &Searched| println!("{}: {searched:?}", subject.name());
        let searched = stage.search_long(states, Reach::long(seed), say).unwrap_or_else(|breach| panic!("{breach}"));
        assert!(searched.states >= states);
    }
}
