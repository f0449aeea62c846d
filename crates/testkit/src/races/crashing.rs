//! Records and crashes: M13 to M17. What crashes leave is judged after each schedule; here is what must happen before.

use std::rc::Rc;

use esker_block::step::LocalFuture;
use esker_layer_kit::mover::{Cause, Outcome};

use super::Race;
use super::stage::Stage;
use super::valve::{COPY_FLUSHES, COPY_WRITES, RECORDS};

pub(super) static RACES: &[Race] = &[
    Race { name: "M13", rule: "until its record is durable, a move has not happened", script: unrecorded },
    Race { name: "M14", rule: "once its record is durable, a move has happened", script: recorded },
    Race { name: "M15", rule: "no change is answered between the hold and the record", script: answered_late },
    Race { name: "M16", rule: "a place that was left is free once the record is durable", script: reused },
    Race { name: "M17", rule: "the record follows copies that are durable", script: stable },
];

/// Whether a record that fails is durable, nothing says. So a layer takes no change that only one of both places has.
fn unrecorded(on: Rc<Stage>) -> LocalFuture<()> {
    Box::pin(async move {
        on.done("a write", on.write_durably(0, on.unit(), 0xE1)).await;
        on.lowers[0].fail_late_at(RECORDS, 1);
        let outcome = on.ended("the move", on.start(0)).await;
        assert_eq!((outcome, on.switched(0)), (Outcome::Abandoned(Cause::Write), 0));
        for at in [0, on.unit(), on.extent()] {
            let taken = on.write_if_taken(at, on.unit(), 0xE2).await;
            println!("a write at {at} after a record that failed: {taken:?}");
        }
        on.reads_meanwhile(0, on.size()).await;
    })
}

fn recorded(on: Rc<Stage>) -> LocalFuture<()> {
    Box::pin(async move {
        on.done("a write", on.write_durably(0, on.unit(), 0xE1)).await;
        on.moved(0, 1, on.start(0)).await;
        on.done("a write", on.write_durably(512, on.extent() - 512, 0xE2)).await;
        on.moved(0, 0, on.start(0)).await;
        on.done("a write", on.write_durably(0, 512, 0xE3)).await;
    })
}

fn answered_late(on: Rc<Stage>) -> LocalFuture<()> {
    Box::pin(async move {
        on.lowers[0].stop(RECORDS);
        let moving = on.start(0);
        on.lowers[0].reached(RECORDS, 1).await;
        let write = on.write_durably(0, on.unit(), 0xF1);
        on.pause().await;
        assert!(!write.is_done(), "a write is answered before the record is durable");
        let before = on.done_meanwhile("a read", on.read(on.unit(), on.size() - on.unit())).await;
        assert!(before == on.expected(on.unit(), on.size() - on.unit()), "reads go on");
        on.lowers[0].let_go(RECORDS);
        on.done("the write", write).await;
        on.moved(0, 1, moving).await;
    })
}

fn reused(on: Rc<Stage>) -> LocalFuture<()> {
    Box::pin(async move {
        on.lowers[0].stop(RECORDS);
        let moving = on.start(0);
        on.lowers[0].reached(RECORDS, 1).await;
        on.pause().await;
        assert_eq!(on.mobile.free(), on.free_at_first() - 1, "source and destination are in use");
        on.lowers[0].let_go(RECORDS);
        on.moved(0, 1, moving).await;
        // Each takes the place that another one left.
        for (extent, to) in [(1, 1), (2, 1), (1, 0), (0, 0), (1, 1)] {
            on.done("a write", on.write_durably(extent * on.extent(), 512, 0xF0 + extent as u8)).await;
            on.moved(extent, to, on.start(extent)).await;
        }
    })
}

/// Changes come when the copies are made durable, so that the hold copies what they left.
fn stable(on: Rc<Stage>) -> LocalFuture<()> {
    Box::pin(async move {
        on.lowers[1].stop(COPY_FLUSHES);
        let moving = on.start(0);
        on.lowers[1].reached(COPY_FLUSHES, 1).await;
        let writes = on.lowers[1].seen(COPY_WRITES);
        for at in [0, 2 * on.unit()] {
            on.done_meanwhile("a write", on.write_durably(at, 512, 0xF7)).await;
        }
        on.lowers[1].let_go(COPY_FLUSHES);
        on.moved(0, 1, moving).await;
        assert!(on.lowers[1].seen(COPY_WRITES) > writes, "what changed is copied again");
    })
}
