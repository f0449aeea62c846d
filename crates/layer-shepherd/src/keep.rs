//! Work in the background: writing anew what could hardly be read, and reading everything once in a while.

use std::rc::Rc;

use esker_base::Nanos;
use esker_block::{Bio, Buf, LayerHandle, WorkPermit};
use esker_layer_kit::{Io, Then};

use crate::run::{BACKGROUND, Shepherd, add};

/// Bytes that a scrub reads at once.
const CHUNK: u64 = 256 << 10;

/// Least time between two reads of a scrub, however soon everything is to be read. A scrub of a large device, or one
/// that is asked for too soon, leaves the reactor and the device to others.
const PAUSE_MIN: Nanos = Nanos::millis(1);

/// Writes anew what waits for that, until the layer leaves its stack. A table that cannot be written ends it not: most
/// blocks need no spare.
pub(crate) async fn refresh(shepherd: Rc<Shepherd>, handle: LayerHandle) {
    let due = || shepherd.to_refresh.borrow_mut().pop_front().map(|range| (Nanos::ZERO, range));
    let work = async |job: WorkPermit, range| {
        shepherd.refresh(&Io::new(&shepherd.rt, &shepherd.pool, job.below().clone()), range).await;
        Then::Again
    };
    shepherd.refreshes.run((&shepherd.rt, None), &handle, due, work).await;
}

/// Reads everything once in so long, until the layer leaves its stack.
pub(crate) async fn scrub(shepherd: Rc<Shepherd>, handle: LayerHandle) {
    let config = &shepherd.config;
    let chunk = CHUNK.min(u64::from(config.lower.transfer_max)) / config.block * config.block;
    let pause = Nanos((u128::from(config.scrub.0) * u128::from(chunk) / u128::from(config.size)) as u64).max(PAUSE_MIN);
    let due = || (config.scrub > Nanos::ZERO).then_some((pause, ()));
    let mut at = 0;
    let work = async |job: WorkPermit, ()| {
        let io = Io::new(&shepherd.rt, &shepherd.pool, job.below().clone());
        let len = chunk.min(config.size - at);
        let bio = Bio::read(at, Buf::unique(io.pool(), len as usize)).tagged(BACKGROUND);
        // It is counted and logged, and what helps is asked for, where it is read.
        let _seen = shepherd.read(&io, bio).await;
        add(&shepherd.counts.scrubbed, len);
        at = (at + len) % config.size;
        Then::Again
    };
    shepherd.scrubs.run((&shepherd.rt, None), &handle, due, work).await;
}
