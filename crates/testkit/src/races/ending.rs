//! Moves that end early: M7 to M12, and M19.

use std::rc::Rc;

use esker_block::step::LocalFuture;
use esker_layer_kit::mover::{Cause, Outcome};

use super::Race;
use super::stage::Stage;
use super::valve::{COPY_READS, COPY_WRITES};

pub(super) static RACES: &[Race] = &[
    Race { name: "M7", rule: "a move whose source cannot be read ends, and clients go on", script: unreadable },
    Race { name: "M8", rule: "a place that cannot be written is not tried again", script: unwritable },
    Race { name: "M9", rule: "the loss of the destination costs only what lies there", script: lost },
    Race { name: "M10", rule: "an extent moves once at a time", script: twice },
    Race { name: "M11", rule: "moves that are cancelled leave every extent whole", script: cancelled },
    Race { name: "M12", rule: "a move that is cancelled begins no further unit", script: corrected },
    Race { name: "M19", rule: "after a stop nothing moves any more", script: stopped },
];

/// Ends a move for `why` after two units, and checks where they are.
async fn check_ended(on: &Rc<Stage>, why: Cause) {
    let outcome = on.ended("the move", on.start(0)).await;
    let (expected, switched) = match on.switches_units() {
        true => (Outcome::Part { units: 2, why }, 2),
        false => (Outcome::Abandoned(why), 0),
    };
    assert_eq!((outcome, on.switched(0)), (expected, switched));
    on.reads_meanwhile(0, on.size()).await;
    on.done_meanwhile("a write", on.write(512, on.extent(), 0xC7)).await;
}

fn unreadable(on: Rc<Stage>) -> LocalFuture<()> {
    Box::pin(async move {
        on.lowers[0].fail_at(COPY_READS, 3);
        check_ended(&on, Cause::Read).await;
        // The rest moves later.
        on.moved(0, 1, on.start(0)).await;
        assert_eq!(on.mobile.free(), on.free_at_first());
    })
}

fn unwritable(on: Rc<Stage>) -> LocalFuture<()> {
    Box::pin(async move {
        on.lowers[1].fail_at(COPY_WRITES, 3);
        check_ended(&on, Cause::Write).await;
        assert_eq!(on.mobile.free(), on.free_at_first() - 1, "the bad place is not free");
    })
}

fn lost(on: Rc<Stage>) -> LocalFuture<()> {
    Box::pin(async move {
        on.lowers[1].stop_after(COPY_WRITES, 2);
        let moving = on.start(0);
        on.lowers[1].reached(COPY_WRITES, 3).await;
        let there = on.switched(0) as u64 * on.unit();
        on.lowers[1].lose();
        on.lowers[1].let_go(COPY_WRITES);
        let outcome = on.ended("the move", moving).await;
        assert!(matches!(outcome, Outcome::Abandoned(Cause::Write) | Outcome::Part { why: Cause::Write, .. }));
        on.done_meanwhile("a write", on.write(there, on.unit(), 0xC9)).await;
        on.reads_meanwhile(there, on.size() - there).await;
        if there > 0 {
            assert!(on.ended("a read", on.read(0, 512)).await.result.is_err(), "it lies on the lost device");
        }
        on.lowers[1].find();
    })
}

fn twice(on: Rc<Stage>) -> LocalFuture<()> {
    Box::pin(async move {
        on.lowers[1].stop(COPY_WRITES);
        let moving = on.start(0);
        on.lowers[1].reached(COPY_WRITES, 1).await;
        let free = on.mobile.free();
        let second = on.ended("the second move", on.start(0)).await;
        assert_eq!((second, on.mobile.free()), (Outcome::Abandoned(Cause::Cancelled), free));
        on.lowers[1].let_go(COPY_WRITES);
        on.moved(0, 1, moving).await;
        on.moved(0, 0, on.start(0)).await;
    })
}

fn cancelled(on: Rc<Stage>) -> LocalFuture<()> {
    Box::pin(async move {
        on.lowers[1].stop(COPY_WRITES);
        let moves = [0, 1].map(|extent| on.start(extent));
        on.lowers[1].reached(COPY_WRITES, 1).await;
        on.mobile.cancel();
        on.lowers[1].let_go(COPY_WRITES);
        for moving in moves {
            let outcome = on.ended("a move", moving).await;
            let why = Cause::Cancelled;
            assert!(
                matches!(outcome, Outcome::Moved { .. } | Outcome::Part { .. }) || outcome == Outcome::Abandoned(why)
            );
        }
        on.reads_meanwhile(0, on.size()).await;
        on.moved(1, 1, on.start(1)).await;
        on.moved(0, 1, on.start(0)).await;
    })
}

fn corrected(on: Rc<Stage>) -> LocalFuture<()> {
    Box::pin(async move {
        on.lowers[1].stop(COPY_WRITES);
        let moving = on.start(0);
        on.lowers[1].reached(COPY_WRITES, 1).await;
        let reads = on.lowers[0].seen(COPY_READS);
        on.mobile.cancel();
        on.lowers[1].let_go(COPY_WRITES);
        let outcome = on.ended("the move", moving).await;
        let why = Cause::Cancelled;
        let expected = if on.switches_units() { Outcome::Part { units: 1, why } } else { Outcome::Abandoned(why) };
        assert_eq!((outcome, on.lowers[0].seen(COPY_READS)), (expected, reads));
    })
}

fn stopped(on: Rc<Stage>) -> LocalFuture<()> {
    Box::pin(async move {
        on.lowers[1].stop(COPY_WRITES);
        let moves = [0, 1].map(|extent| on.start(extent));
        on.lowers[1].reached(COPY_WRITES, 1).await;
        on.done_meanwhile("a write", on.write(0, on.unit(), 0xD9)).await;
        let settling = on.settle();
        on.pause().await;
        assert!(!settling.is_done(), "copies are under way");
        on.lowers[1].let_go(COPY_WRITES);
        assert_eq!(on.ended("the stop", settling).await, Ok(()));
        let seen = on.lowers.each_ref().map(|lower| lower.all());
        on.pause().await;
        assert_eq!(on.lowers.each_ref().map(|lower| lower.all()), seen, "requests come after the stop");
        assert!(moves.iter().all(|moving| moving.is_done()), "moves go on after the stop");
        assert!(on.lowers.iter().all(|lower| !lower.is_dirty()), "something is not durable after the stop");
    })
}
