//! A device below that has no space, as a sparse file on a full file system has none.
//!
//! A write that finds no space below fails alone, and nothing is latched: what was durable is as it was. What goes on
//! then:
//!
//! | what found no space | what becomes of it |
//! |---|---|
//! | a batch of the log | its requests, and those of batches behind it, fail; the log is *broken off* |
//! | a page of the map, a slot of the superblock | the checkpoint failed; the next one writes what is missing, too |
//! | a copy of the collector | it goes to waste; the segment is cleaned later |
//!
//! A log that is broken off must not go on as it is: recovery would end where a batch is missing. So the next request
//! first has a checkpoint made, from which the log goes on in a new segment, behind the numbers of the failed records.
//! These are never read again, whole on the medium or not. If the checkpoint finds no space either, the request fails,
//! and the next one tries again. For a deletion, free segments are given back to the device below first: a new volume
//! lays a little space by, and one that was used holds some. A volume that finds no space for the first checkpoint of
//! an opening is open, with a log that is broken off.
//!
//! A flush that finds no space latches: it lost bytes that were answered.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use esker_block::{BioError, Trouble};
use esker_rt::Level;

use crate::checkpoint::Unwritten;
use crate::log::Log;
use crate::number::SegmentNo;
use crate::segments::Segments;
use crate::store::Store;
use crate::volume::Volume;

/// Bytes that a new volume reserves below for deletions.
const LAID_BY: u64 = 1 << 20;

/// Whether the device below has space, and what waits for it.
#[derive(Default)]
pub(crate) struct Shortage {
    broken_off: Cell<bool>,
    mending: Cell<bool>,
    /// Whether free segments were given back since the last batch that found space.
    gave_back: Cell<bool>,
    /// Whether they are to be given back before the next checkpoint.
    asks_back: Cell<bool>,
    /// Whether space that is freed should be given back soon: none was there, and none was given back since.
    urges: Cell<bool>,
    pub unwritten: RefCell<Unwritten>,
}

/// Whether an error says that there is no space below.
pub(crate) fn is_short(error: &BioError) -> bool {
    matches!(error, BioError::NoSpace(_))
}

impl Shortage {
    /// Whether no batch may be written before the next checkpoint.
    pub(crate) fn is_broken_off(&self) -> bool {
        self.broken_off.get()
    }

    /// A deletion found no space: whether it is tried again with the space of free segments.
    pub(crate) fn may_give_back(&self) -> bool {
        let may = !self.gave_back.get();
        self.asks_back.set(self.asks_back.get() || may);
        may
    }

    /// A batch found space.
    pub(crate) fn relent(&self) {
        self.gave_back.set(false);
    }

    /// What was freed is given back.
    pub(crate) fn relieve(&self) {
        self.urges.set(false);
    }

    /// A checkpoint is durable from which the log goes on.
    pub(crate) fn end(&self, volume: &Volume) {
        self.broken_off.set(false);
        let name = &volume.config.name;
        volume.rt().log_event(Level::Info, "space", &[], format_args!("{name}: there is space below again"));
    }
}

impl Volume {
    pub(crate) fn no_space(&self) -> BioError {
        BioError::NoSpace(self.config.name.as_str().into())
    }

    /// No batch is written before a checkpoint has found space.
    pub(crate) fn break_off(&self, error: &BioError) {
        self.shortage.urges.set(true);
        if !self.shortage.broken_off.replace(true) {
            let name = &self.config.name;
            let advice = "Writes fail until there is some; reads go on.";
            self.rt().log_event(Level::Warn, "no_space", &[], format_args!("{name}: {error}. {advice}"));
        }
    }

    /// Whether a checkpoint would free space that is needed below.
    pub(crate) fn is_space_dead(&self) -> bool {
        self.shortage.urges.get() && !self.shortage.is_broken_off() && self.dead_now() > 0
    }

    /// The heads of a log that is broken off take no more.
    pub(crate) fn leave_heads(&self, log: &mut Log, segments: &mut Segments) {
        log.heads.iter_mut().for_each(|head| head.leave(segments));
    }

    /// Makes the checkpoint from which a log that is broken off goes on, for the requests that wait; or tells them that
    /// there is no space.
    pub(crate) fn mend(self: &Rc<Self>) {
        let log = self.log.borrow();
        let Some(below) = log.next_below().filter(|_| log.is_settled()) else { return };
        drop(log);
        if self.shortage.mending.replace(true) {
            return;
        }
        let volume = self.clone();
        let mend = async move {
            let mended = volume.checkpoint_for_who_waits(&volume.store(below)).await;
            volume.shortage.mending.set(false);
            if let Err(error) = mended {
                volume.fail_queue(|| error.clone(), |_| true);
            }
            volume.start_batches();
        };
        self.rt().spawn("mend", mend).detach();
    }

    /// Makes a checkpoint. For a deletion, if need be, with the space of what is free: a write would use that space up.
    async fn checkpoint_for_who_waits(&self, store: &Store) -> Result<(), BioError> {
        if self.shortage.asks_back.take() {
            self.give_back(store).await;
        }
        let error = match self.checkpoint(store).await {
            Err(error) if is_short(&error) => error,
            other => return other,
        };
        self.fail_queue(|| error.clone(), |only_frees| !only_frees);
        let nobody_waits = self.log.borrow().next_below().is_none();
        if nobody_waits || self.shortage.gave_back.get() {
            return Err(error);
        }
        self.give_back(store).await;
        self.checkpoint(store).await
    }

    async fn give_back(&self, store: &Store) {
        self.shortage.gave_back.set(true);
        self.erase_free(store).await;
    }

    /// Reserves a little space below in the segment that is used last, so that deletions find some on a device that has
    /// become full. What was used once is not given back as far as it is kept for them, so that only a new volume needs
    /// it.
    pub(crate) async fn lay_by(&self, store: &Store) {
        let bytes = LAID_BY.min(self.geometry.segment_bytes());
        let last = SegmentNo::all(self.geometry.segments).next_back();
        if let Some(last) = last.filter(|_| self.config.zeroes && self.config.discards) {
            // A device that cannot is none that becomes full, or its deletions wait for space as writes do.
            let _hint = store.reserve(last, bytes).await;
        }
    }

    pub(crate) fn shortage_trouble(&self) -> Option<Trouble> {
        let name = &self.config.name;
        let text = || {
            format!("{name} takes no changes: the device below has no space. It goes on by itself when there is some.")
        };
        self.shortage.is_broken_off().then(|| Trouble::Degraded(text()))
    }
}
