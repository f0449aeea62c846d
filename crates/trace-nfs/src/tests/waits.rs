//! Requests and replies that lack the other, and targets without room.

use esker_base::Nanos;

use super::{BEGIN, Scene, orphan};
use crate::request::NfsRequest;
use crate::transactions::Transactions;

#[test]
fn replies_without_requests_are_dropped() {
    let mut scene = Scene::new();
    scene.reply("create", "OK fh 2 ftype 1");
    scene.create(1, "a", 2);
    // The server answers the last one again.
    scene.xid -= 1;
    scene.reply("create", "OK fh 2 ftype 1");
    let report = scene.report();
    assert_eq!((report.responses, report.orphans, report.create), (3, 2, 1));
}

#[test]
fn a_newer_request_replaces_one_with_its_id() {
    let mut scene = Scene::new();
    scene.call("write", "fh 2 off 0 count 5");
    scene.pair("write", "fh 3 off 0 count 7", "OK");
    let report = scene.report();
    assert_eq!((report.requests, report.write, report.dropped), (2, 1, 1));
    assert_eq!(scene.tree(), [format!("{} 7", orphan(3))]);
}

#[test]
fn a_request_waits_300_seconds_of_the_trace_for_its_reply() {
    // The reply comes a microsecond later in its second than the call.
    for (age, written) in [(299, 1), (300, 0)] {
        let mut scene = Scene::new();
        scene.call("write", "fh 2 off 0 count 5");
        scene.seconds = BEGIN + age;
        scene.reply("write", "OK");
        let report = scene.report();
        assert_eq!((report.write, report.timed_out, report.orphans), (written, 1 - written, 1 - written), "{age} s");
    }
}

#[test]
fn replies_with_errors_do_nothing() {
    let mut scene = Scene::new();
    scene.pair("create", "fh 1 name \"a\"", "13");
    assert_eq!((scene.report().refused, scene.report().pairs(), scene.tree().len()), (1, 0, 0));
}

#[test]
fn requests_without_replies_take_bounded_memory() {
    let mut table = Transactions::new(64 << 10);
    for xid in 0..1_000_000 {
        table.ask(Nanos(xid), xid, NfsRequest::Other);
    }
    assert!(table.waiting() <= 256);
    assert_eq!(table.counts().evicted + table.waiting(), 1_000_000);
    assert_eq!(table.answer(Nanos(1_000_000), 999_999), Some(NfsRequest::Other), "the newest stay");
    // One id for all: nothing waits, yet each arrival has a row.
    let mut table = Transactions::new(64 << 10);
    for time in 0..1_000_000 {
        table.ask(Nanos(time), 7, NfsRequest::Other);
    }
    assert_eq!((table.waiting(), table.counts().replaced, table.counts().evicted), (1, 999_999, 0));
}

#[test]
fn a_write_without_room_waits_three_times_and_is_given_up() {
    let mut scene = Scene::with(64 << 10, super::options());
    scene.create(1, "large", 2);
    scene.write(2, 1 << 20);
    let report = scene.report();
    assert_eq!((scene.waited.get(), report.waits, report.no_room, report.failed), (30, 3, 1, 0));
    // The replay goes on, also with what was written in part.
    scene.remove(1, "large");
    scene.write(3, 100);
    assert_eq!(scene.tree(), [format!("{} 100", orphan(3))]);
}

#[test]
fn a_target_that_stays_full_is_waited_for_once() {
    let mut scene = Scene::with(1 << 20, super::options());
    scene.create(1, "large", 2);
    scene.write(2, 1 << 19);
    for handle in 3..30 {
        scene.write(handle, 1 << 20);
    }
    let report = scene.report();
    assert_eq!((scene.waited.get(), report.waits, report.no_room), (30, 3, 27));
    // Much became free and was written, so a wait may help again.
    scene.remove(1, "large");
    scene.write(40, 1 << 18);
    scene.write(41, 1 << 20);
    assert_eq!((scene.waited.get(), scene.report().no_room), (60, 28));
}

#[test]
fn the_target_is_synced_by_time_of_the_trace() {
    let mut options = super::options();
    options.sync_every = Some(Nanos::secs(600));
    let mut scene = Scene::with(super::ROOM, options);
    for seconds in [0, 599, 600, 1_100, 1_300, 1_301] {
        scene.seconds = BEGIN + seconds;
        scene.write(2, 1);
    }
    assert_eq!(scene.report().syncs, 2);
    // A line with a damaged time does not end the syncs.
    scene.seconds = 9_999_999_999;
    scene.write(2, 1);
    scene.seconds = BEGIN + 1_302;
    scene.write(2, 1);
    scene.seconds = BEGIN + 1_902;
    scene.write(2, 1);
    assert_eq!(scene.report().syncs, 4);
}
