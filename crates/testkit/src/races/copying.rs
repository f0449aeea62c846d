//! Requests of clients while a move copies and switches: M1 to M6, and M18.

use std::cell::Cell;
use std::rc::Rc;

use esker_base::Nanos;
use esker_block::step::LocalFuture;
use esker_layer_kit::mover::{Cause, Outcome};
use esker_rt::Rt;

use super::Race;
use super::stage::Stage;
use super::valve::{CLIENT_READS, CLIENT_WRITES, COPY_READS, COPY_WRITES};

pub(super) static RACES: &[Race] = &[
    Race { name: "M1", rule: "a write that is in flight when the copy begins is not lost", script: write_in_flight },
    Race { name: "M2", rule: "a place that a read in flight uses is not free", script: read_in_flight },
    Race { name: "M3", rule: "a write during the copy does not wait and is not lost", script: write_during_copy },
    Race { name: "M4", rule: "a read during the copy is answered by the source", script: read_during_copy },
    Race { name: "M5", rule: "a request over several states is answered once and whole", script: over_states },
    Race { name: "M6", rule: "no change waits longer than a hold may last", script: hot },
    Race { name: "M18", rule: "what is discarded or zeroed under the copy does not come back", script: discarded },
];

fn write_in_flight(on: Rc<Stage>) -> LocalFuture<()> {
    Box::pin(async move {
        on.lowers[0].stop(CLIENT_WRITES);
        let write = on.write(on.unit(), on.unit(), 0xA1);
        on.pause().await;
        let moving = on.start(0);
        on.lowers[0].reached(COPY_READS, 1).await;
        on.pause().await;
        assert!(!moving.is_done() && !write.is_done(), "a write is under way at the source");
        on.lowers[0].let_go(CLIENT_WRITES);
        on.done("the write", write).await;
        on.moved(0, 1, moving).await;
    })
}

fn read_in_flight(on: Rc<Stage>) -> LocalFuture<()> {
    Box::pin(async move {
        on.lowers[0].stop(CLIENT_READS);
        let read = on.read(0, on.extent());
        on.pause().await;
        let moving = on.start(0);
        on.until_switched(0, 4).await;
        on.pause().await;
        assert!(!moving.is_done() && on.mobile.free() < on.free_at_first(), "a read is under way at the source");
        on.lowers[0].let_go(CLIENT_READS);
        assert!(on.done("the read", read).await == on.expected(0, on.extent()), "the read is stale");
        on.moved(0, 1, moving).await;
    })
}

fn write_during_copy(on: Rc<Stage>) -> LocalFuture<()> {
    Box::pin(async move {
        on.lowers[1].stop(COPY_WRITES);
        let moving = on.start(0);
        on.lowers[1].reached(COPY_WRITES, 1).await;
        for (at, len) in [(0, on.unit()), (on.unit() + 512, 512), (on.extent() - 512, 512)] {
            on.done_meanwhile("a write", on.write(at, len, 0xA3)).await;
            on.reads_meanwhile(at, len).await;
        }
        on.lowers[1].let_go(COPY_WRITES);
        on.moved(0, 1, moving).await;
    })
}

fn read_during_copy(on: Rc<Stage>) -> LocalFuture<()> {
    Box::pin(async move {
        on.lowers[1].stop(COPY_WRITES);
        let moving = on.start(0);
        on.lowers[1].reached(COPY_WRITES, 1).await;
        on.reads_meanwhile(0, on.extent()).await;
        on.reads_meanwhile(0, on.size()).await;
        assert_eq!(on.lowers[1].seen(CLIENT_READS), 0, "the source serves");
        on.lowers[1].let_go(COPY_WRITES);
        on.moved(0, 1, moving).await;
    })
}

/// Where a record switches a unit, the extent lies on both devices while requests go over all of it.
fn over_states(on: Rc<Stage>) -> LocalFuture<()> {
    Box::pin(async move {
        on.lowers[1].stop_after(COPY_WRITES, 1);
        let moving = on.start(0);
        on.lowers[1].reached(COPY_WRITES, 2).await;
        assert_eq!(on.switched(0), usize::from(on.switches_units()));
        on.reads_meanwhile(0, on.size()).await;
        on.done_meanwhile("a write over all", on.write(512, on.extent(), 0xA5)).await;
        on.reads_meanwhile(0, on.size()).await;
        on.lowers[1].let_go(COPY_WRITES);
        on.moved(0, 1, moving).await;
    })
}

const SLOW: Nanos = Nanos::millis(20);

/// Two clients keep an extent busy.
fn hot(on: Rc<Stage>) -> LocalFuture<()> {
    Box::pin(async move {
        on.lowers.iter().for_each(|lower| lower.slow(CLIENT_WRITES, SLOW));
        let is_over = Rc::new(Cell::new(false));
        let half = on.extent() / 2;
        let clients: Vec<_> =
            [0, half].map(|at| on.rt().spawn("client", busy(on.clone(), at, half, is_over.clone()))).into();
        let outcome = on.ended("the move", on.start(0)).await;
        is_over.set(true);
        for client in clients {
            let longest: Nanos = client.await;
            let most = SLOW + on.mobile.hold_max() + Nanos::millis(1);
            assert!(longest <= most, "a write took {longest:?} instead of {most:?}");
        }
        let ends_well = match outcome {
            Outcome::Moved { held, .. } => held <= on.mobile.hold_max() + Nanos::millis(1),
            Outcome::Part { why, .. } | Outcome::Abandoned(why) => why == Cause::Hot,
        };
        assert!(ends_well, "{outcome:?}");
    })
}

/// Writes again and again; gives the longest time that a write took.
async fn busy(on: Rc<Stage>, at: u64, len: u64, is_over: Rc<Cell<bool>>) -> Nanos {
    let rt: Rt = on.rt().clone();
    // Not in step with the other one.
    rt.sleep(Nanos::micros(at)).await;
    let mut longest = Nanos::ZERO;
    for round in 0.. {
        let begin = rt.now();
        on.done("a write", on.write(at, len, round as u8)).await;
        longest = longest.max(rt.now().since(begin));
        if is_over.get() {
            break;
        }
    }
    longest
}

fn discarded(on: Rc<Stage>) -> LocalFuture<()> {
    Box::pin(async move {
        let unit = on.unit();
        on.lowers[1].stop(COPY_WRITES);
        let moving = on.start(0);
        on.lowers[1].reached(COPY_WRITES, 1).await;
        on.done_meanwhile("a zero", on.zero(0, unit)).await;
        on.done_meanwhile("a discard", on.discard(unit, unit)).await;
        on.done_meanwhile("a write", on.write(unit, 512, 0xB2)).await;
        on.done_meanwhile("a write", on.write(unit + 512, unit - 512, 0xB3)).await;
        on.done_meanwhile("a zero", on.zero(3 * unit, 512)).await;
        on.lowers[1].let_go(COPY_WRITES);
        on.moved(0, 1, moving).await;
    })
}
