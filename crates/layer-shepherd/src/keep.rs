//! Work in the background: writing anew what could hardly be read, and reading everything once in a while.

use std::rc::Rc;

use esker_base::Nanos;
use esker_block::{Bio, Buf, LayerHandle};
use esker_layer_kit::Io;
use esker_rt::mem::Pool;
use esker_rt::sync::{Either, race};

use crate::run::{BACKGROUND, Shepherd, add};

/// Bytes that a scrub reads at once.
const CHUNK: u64 = 256 << 10;

/// Between two reads of a scrub at least, however soon everything is to be read: a scrub of a large device, or one that is
/// asked for too soon, leaves the reactor and the device to others.
const PAUSE_MIN: Nanos = Nanos::millis(1);

/// Runs until the layer leaves its stack.
pub(crate) async fn run(shepherd: Rc<Shepherd>, pool: Pool, station: LayerHandle) {
    let config = &shepherd.config;
    let chunk = CHUNK.min(u64::from(config.lower.transfer_max)) / config.block * config.block;
    let pause = Nanos((u128::from(config.scrub.0) * u128::from(chunk) / u128::from(config.size)) as u64).max(PAUSE_MIN);
    let mut at = 0;
    loop {
        let has_work = || shepherd.closing.get() || !shepherd.to_refresh.borrow().is_empty();
        let is_time = match config.scrub > Nanos::ZERO {
            true => {
                matches!(race(shepherd.rt.sleep(pause), shepherd.wake.wait_until(has_work)).await, Either::Left(()))
            }
            false => {
                shepherd.wake.wait_until(has_work).await;
                false
            }
        };
        if shepherd.closing.get() {
            return;
        }
        let Some(job) = station.enter().await else { return };
        let io = Io::new(&shepherd.rt, &pool, job.below().clone());
        let refresh = shepherd.to_refresh.borrow_mut().pop_front();
        if let Some(range) = refresh {
            shepherd.refresh(&io, range).await;
        }
        if is_time {
            let len = chunk.min(config.size - at);
            let bio = Bio::read(at, Buf::unique(&pool, len as usize)).tagged(BACKGROUND);
            // It is counted and logged, and what helps is asked for, where it is read.
            let _seen = shepherd.read(&io, bio).await;
            add(&shepherd.counts.scrubbed, len);
            at = (at + len) % config.size;
        }
    }
}
