//! Giving what freed segments held back to the device below, once no client writes.
//!
//! Not at once, for two reasons. Under load a freed segment is soon written again. And a discard holds up writes beside
//! it (ext4 blocks writes to a file while it frees a part of it). What was not given back before a crash stays with the
//! device until its segment is used again: discards are hints.

use std::rc::Rc;

use esker_base::Nanos;
use esker_block::{LayerHandle, WorkPermit};
use esker_layer_kit::Then;

use crate::store::Store;
use crate::volume::{ReserveClass, Volume, add};

/// No client has written for so long.
const QUIET: Nanos = Nanos::millis(100);
/// Bytes that are given back at once: a write that comes meanwhile waits no longer than this takes.
const AT_ONCE: u64 = 64 << 20;

/// Gives back what is free whenever no client writes, until the volume leaves its stack.
pub(crate) async fn erase_on(volume: Rc<Volume>, handle: LayerHandle) {
    let due = || (volume.may_erase() > 0).then(|| (Nanos(QUIET.0.saturating_sub(volume.quiet_for().0)), ()));
    let work = async |job: WorkPermit, ()| {
        // A request may have written during the pause.
        if volume.quiet_for() >= QUIET {
            volume.erase_some(&volume.store(job.below().clone())).await;
        }
        Then::Again
    };
    volume.erasures.run((volume.rt(), Some(&volume.latch)), &handle, due, work).await;
}

impl Volume {
    /// Segments that may be given back now without taking what writers may still need; none if the device below takes
    /// no discards.
    fn may_erase(&self) -> u64 {
        if !self.config.discards {
            return 0;
        }
        let segments = self.segments.borrow();
        let spare = segments.free().saturating_sub(self.kept_back(ReserveClass::Writers));
        spare.min((AT_ONCE / self.geometry.segment_bytes()).max(1)).min(segments.unerased())
    }

    /// Gives back freed segments that lie side by side. They are not free meanwhile: what would be written to them
    /// would be discarded too.
    pub(crate) async fn erase_some(&self, store: &Store) {
        self.erase_run(store, || self.may_erase()).await;
        self.shortage.relieve();
    }

    /// Gives back all that is free, whatever writers may need: the device below has no space.
    pub(crate) async fn erase_free(&self, store: &Store) {
        self.erasing.idle().await;
        self.segments.borrow_mut().forget_erased();
        while self.config.discards && self.segments.borrow().unerased() > 0 {
            self.erase_run(store, || self.geometry.segments).await;
        }
    }

    async fn erase_run(&self, store: &Store, most: impl Fn() -> u64) {
        let erase = async {
            let most = most();
            let Some(run) = self.segments.borrow_mut().take_unerased(most) else { return };
            // Whether the hint was taken does not matter.
            let _ = store.erase(run.clone()).await;
            add(&self.counts.segments_erased, run.end.number() - run.start.number());
            self.segments.borrow_mut().give_erased(run);
        };
        self.erasing.alone(erase).await;
        self.note_space();
    }

    /// Gives back all that it can: the volume is about to leave its stack.
    pub(crate) async fn erase_all(&self, store: &Store) {
        while self.may_erase() > 0 {
            self.erase_some(store).await;
        }
    }
}
