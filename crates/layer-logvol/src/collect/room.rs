//! When the collector works: in the background at its pace, and at once on behalf of a writer that finds no segment.

use std::future::ready;
use std::rc::Rc;

use esker_base::Nanos;
use esker_block::step::LocalFuture;
use esker_block::{BioError, Enter, LayerHandle, WorkPermit};
use esker_layer_kit::Then;
use esker_rt::sync::{Either, race};

use super::settings::FULL;
use crate::number::SegmentNo;
use crate::segments::Stage;
use crate::store::Store;
use crate::volume::{ReserveClass, Volume};

/// Segments ready to be cleaned at which no further pass is begun.
const READY_ENOUGH: usize = 4;
/// How full victims may be where cleaning begins. The fuller the volume, the fuller they may be; from [`FULL`] on any.
const LIMIT_LEAST: f64 = 0.5;
/// References that must have gone since a pass in vain for another one: this part of a segment.
const WORTH_A_PASS: u64 = 8;

/// The collector's place in the stack.
struct Place {
    volume: Rc<Volume>,
    handle: LayerHandle,
}

impl Enter for Place {
    fn enter(self: Rc<Self>) -> LocalFuture<Option<WorkPermit>> {
        Box::pin(async move { self.volume.let_in(&self.handle).await })
    }
}

impl Place {
    fn of(volume: &Rc<Volume>, handle: LayerHandle) -> LayerHandle {
        LayerHandle::new(Rc::new(Place { volume: volume.clone(), handle }))
    }
}

/// Makes passes in the background, until the volume leaves its stack.
pub(crate) async fn scan_on(volume: Rc<Volume>, handle: LayerHandle) {
    let due = || volume.wants_pass().then_some((Nanos::ZERO, ()));
    let work = async |_job: WorkPermit, ()| {
        volume.wanted_pass().await;
        Then::Again
    };
    let place = Place::of(&volume, handle);
    volume.collector.tasks.run((volume.rt(), Some(&volume.latch)), &place, due, work).await;
}

/// Cleans segments in the background, until the volume leaves its stack.
pub(crate) async fn clean_on(volume: Rc<Volume>, handle: LayerHandle) {
    volume.collector.pace.attend();
    let is_due = || volume.collector.ready() > 0 && volume.collector.pace.share() > 0.0;
    let due = || is_due().then_some((Nanos::ZERO, ()));
    let work = async |job: WorkPermit, ()| {
        // Without room nothing can be done until something changes.
        if volume.clean_one(&volume.store(job.below().clone())).await { Then::Again } else { Then::Woken }
    };
    let place = Place::of(&volume, handle);
    volume.collector.tasks.run((volume.rt(), Some(&volume.latch)), &place, due, work).await;
}

impl Volume {
    /// Begins a piece of work in the stack. A change of the stack waits for writers, so while one keeps the collector
    /// out, no writer waits for it.
    async fn let_in(self: &Rc<Self>, handle: &LayerHandle) -> Option<WorkPermit> {
        if let Either::Left(job) = race(handle.enter(), ready(())).await {
            return job;
        }
        self.collector.pace.leave();
        self.start_batches();
        let job = handle.enter().await;
        self.collector.pace.enter();
        job
    }

    /// Whether a pass is worth its time: something was chosen, or something may be.
    fn wants_pass(&self) -> bool {
        let is_urgent = self.is_urgent();
        if !is_urgent && self.collector.pace.share() == 0.0 {
            return false;
        }
        let segments = self.segments.borrow();
        let state = self.collector.state.borrow();
        if state.ready.len() >= READY_ENOUGH {
            return false;
        }
        let waits = |segment: &SegmentNo| matches!(segments.get(*segment).stage, Stage::Candidate | Stage::Forwarding);
        let step = if is_urgent { 0 } else { self.geometry.segment / WORTH_A_PASS };
        state.victims.keys().any(waits)
            || state.vain.is_none_or(|vain| {
                segments.released() > vain.released + step || self.live_limit() > vain.limit + 1.0 / 64.0
            })
    }

    /// Whether a request waits for space, so that pace and worth do not matter.
    pub(super) fn is_urgent(&self) -> bool {
        self.seeks_room.get() || self.collector.forced.get() > 0
    }

    /// How full a victim may be: the less space there is, the more.
    pub(super) fn live_limit(&self) -> f64 {
        if self.is_urgent() {
            return 1.0;
        }
        let from = self.collector.settings.from;
        let urgency = ((self.collector.pace.used() - from) / (FULL - from)).clamp(0.0, 1.0);
        LIMIT_LEAST + (1.0 - LIMIT_LEAST) * urgency
    }

    /// Makes a pass if one is still worth it when the scanners are free. False if none was.
    async fn wanted_pass(self: &Rc<Self>) -> bool {
        let turn = self.collector.scanning.take().await;
        let is_wanted = self.wants_pass();
        if is_wanted {
            self.pass().await;
        }
        // Held writers look at once whether they still have to wait: the pass must have ended for them.
        drop(turn);
        if is_wanted {
            self.after_pass();
        }
        is_wanted
    }

    fn after_pass(self: &Rc<Self>) {
        self.note_space();
        self.collector.wake();
        self.start_batches();
    }

    /// Makes a pass and cleans what is ready, however much space there is.
    pub async fn collect_now(self: &Rc<Self>, store: &Store) {
        let forced = &self.collector.forced;
        forced.set(forced.get() + 1);
        let turn = self.collector.scanning.take().await;
        self.pass().await;
        drop(turn);
        self.after_pass();
        while self.collector.ready() > 0 && self.clean_one(store).await {}
        forced.set(forced.get() - 1);
    }

    /// Cleans one segment, or makes a checkpoint if that is what is missing. False if nothing could be done.
    async fn clean_one(self: &Rc<Self>, store: &Store) -> bool {
        let turn = self.collector.cleaning.take().await;
        let is_cleaned = self.clean_next(store).await;
        drop(turn);
        self.note_space();
        if is_cleaned && self.is_checkpoint_worth_it() {
            // It is made beside further cleaning, for which held writers wait.
            self.checkpoints.wake();
        }
        let is_freed = !is_cleaned && self.is_checkpoint_worth_it() && self.checkpoint(store).await.is_ok();
        let is_of_use = is_cleaned || is_freed;
        self.collector.pace.set_stuck(!is_of_use);
        self.after_pass();
        is_of_use
    }

    /// Whether so much is dead that a checkpoint should free it: as much as is free. So checkpoints wait until half of
    /// the spare space is dead.
    pub(crate) fn is_checkpoint_worth_it(&self) -> bool {
        let spare = self.segments.borrow().free().saturating_sub(self.kept_back(ReserveClass::Writers));
        let dead = self.dead_now();
        dead > 0 && dead >= spare
    }

    /// Segments that a checkpoint would free now.
    pub(crate) fn dead_now(&self) -> u64 {
        let (installed, _) = self.log.borrow().installed();
        self.segments.borrow().dead_count(installed)
    }

    /// Does what can be done at once so that `taker` finds a segment beside what a map with `growth` more nodes needs:
    /// true if one may be taken now.
    ///
    /// # Errors
    /// What a checkpoint says.
    pub(crate) async fn make_room(
        self: &Rc<Self>,
        store: &Store,
        taker: ReserveClass,
        growth: u64,
    ) -> Result<bool, BioError> {
        loop {
            self.erasing.idle().await;
            self.give_back_all().await;
            if self.segments.borrow().free() > self.kept_for(growth, taker) {
                return Ok(true);
            }
            if self.dead_now() > 0 {
                let before = self.segments.borrow().free();
                self.checkpoint(store).await?;
                if self.segments.borrow().free() > before {
                    continue;
                }
            }
            if !self.step(store).await {
                return Ok(false);
            }
        }
    }

    /// Cleans a segment, or makes a pass to find some. False if neither is of use.
    async fn step(self: &Rc<Self>, store: &Store) -> bool {
        if self.collector.ready() > 0 {
            return self.clean_one(store).await;
        }
        // Another task may be cleaning already.
        drop(self.collector.cleaning.take().await);
        drop(self.collector.scanning.take().await);
        self.collector.ready() > 0 || self.wanted_pass().await
    }
}
