//! Frames that the owner writes.

use esker_block::Buf;
use esker_vfs::Ino;

use crate::cache::PageCache;
use crate::frames::{FrameId, FrameState};

/// A dirty frame as it was when the owner took it. It counts against the limit of dirty frames until it is written.
/// Dropped without [`Frozen::written`], its write failed: the frame is dirty again.
#[must_use = "a frame that is dropped is dirty again"]
pub struct Frozen {
    cache: PageCache,
    id: FrameId,
    ticket: u64,
    bytes: Buf,
    is_written: bool,
}

impl Frozen {
    pub(crate) fn new(cache: PageCache, id: FrameId, ticket: u64, bytes: Buf) -> Frozen {
        Frozen { cache, id, ticket, bytes, is_written: false }
    }

    /// Its file.
    pub fn ino(&self) -> Ino {
        self.id.ino
    }

    /// Its number in the file.
    pub fn nr(&self) -> u64 {
        self.id.nr
    }

    /// Its bytes: a handle, not a copy.
    pub fn bytes(&mut self) -> Buf {
        self.bytes.share()
    }

    /// The medium has it. The frame is clean unless it was written again.
    pub fn written(mut self) {
        self.is_written = true;
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        let inner = &self.cache.inner;
        let mut state = inner.state.borrow_mut();
        let is_current =
            state.frames.get_mut(self.id).is_some_and(|frame| frame.state == FrameState::Frozen(self.ticket));
        if is_current {
            let then = if self.is_written { FrameState::Clean } else { FrameState::Dirty };
            state.frames.set_state(self.id, then);
        }
        drop(state);
        // What is dirty again still counts. What was written again counts by itself, and what is gone counts no more.
        if self.is_written || !is_current {
            inner.credits.give(1);
        }
    }
}
