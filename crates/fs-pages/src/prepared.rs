//! Writes: what has to wait comes first, then the change without a wait.

use std::ops::Range;
use std::rc::Rc;

use esker_base::Errno;
use esker_block::Buf;
use esker_vfs::{Call, Ino};

use crate::cache::{Asked, Backing, Look, PageCache};
use crate::config::FrameClass;
use crate::frames::{FrameId, FrameState};

/// A write that no longer waits: it has room, and the frames that it changes in part are there. Dropped, it changes
/// nothing.
#[must_use = "a prepared write that is dropped changes nothing"]
pub struct Prepared {
    cache: PageCache,
    ino: Ino,
    class: FrameClass,
    at: u64,
    len: usize,
    /// Frames that it may still make dirty.
    room: u64,
    held: Vec<FrameId>,
}

impl PageCache {
    /// Most bytes of one write at any offset: a longer one has no room at any time.
    pub fn write_bytes_max(&self) -> usize {
        // A write that does not begin at a frame touches one more.
        (self.inner.dirty_max.saturating_sub(1).max(1) as usize).saturating_mul(self.frame_len())
    }

    /// Waits for room for `len` bytes from `at`, behind earlier writers, then for the frames that they cover in part.
    /// What lies behind `end`, the end of the file before the write, is zeroes and is not fetched.
    ///
    /// The owner writes dirty frames without calls of this, or both wait for ever.
    ///
    /// # Errors
    /// Those of `backing`.
    ///
    /// # Panics
    /// Above [`PageCache::write_bytes_max`].
    pub async fn prepare<B: Backing>(
        &self,
        backing: &Rc<B>,
        call: Call,
        ino: Ino,
        span: (u64, usize),
        end: u64,
    ) -> Result<Prepared, Errno> {
        let room = self.room_of(span);
        assert!(room <= self.inner.dirty_max, "a write of {} bytes has no room at any time", span.1);
        self.inner.credits.take(room).await;
        let mut prepared = self.prepared(backing, ino, span, room);
        for id in self.edges(ino, span, end) {
            self.fetch_held(backing, call, id, &mut prepared).await?;
        }
        Ok(prepared)
    }

    /// The same if nothing has to wait.
    pub fn prepare_now<B: Backing>(&self, backing: &Rc<B>, ino: Ino, span: (u64, usize), end: u64) -> Option<Prepared> {
        let edges = self.edges(ino, span, end);
        if !edges.clone().all(|id| self.inner.state.borrow().frames.has(id)) {
            return None;
        }
        let room = self.room_of(span);
        if !self.inner.credits.try_take(room) {
            return None;
        }
        let mut prepared = self.prepared(backing, ino, span, room);
        edges.for_each(|id| prepared.hold(id));
        Some(prepared)
    }

    fn room_of(&self, span: (u64, usize)) -> u64 {
        let frames = self.frames_of(span.0, span.1 as u64);
        frames.end - frames.start
    }

    fn prepared<B: Backing>(&self, backing: &Rc<B>, ino: Ino, span: (u64, usize), room: u64) -> Prepared {
        let inner = &self.inner;
        if inner.credits.free() < inner.dirty_max.div_ceil(2) {
            inner.pressure.notify_all();
        }
        Prepared {
            cache: self.clone(),
            ino,
            class: backing.class(ino),
            at: span.0,
            len: span.1,
            room,
            held: Vec::new(),
        }
    }

    /// Frames that the write covers in part and that have bytes before `end`: the first, the last, or none.
    fn edges(&self, ino: Ino, span: (u64, usize), end: u64) -> impl Iterator<Item = FrameId> + Clone {
        let (frames, frame) = (self.frames_of(span.0, span.1 as u64), self.frame_len());
        let is_edge = |nr: &u64| {
            let part = self.part_of(*nr, span.0, span.1 as u64);
            let old = self.part_of(*nr, 0, end);
            part.len() < frame && (part.start > 0 || part.end < old.end) && !old.is_empty()
        };
        let first = Some(frames.start).filter(|nr| *nr < frames.end && is_edge(nr));
        let last = frames.end.checked_sub(1).filter(|nr| *nr > frames.start && is_edge(nr));
        first.into_iter().chain(last).map(move |nr| FrameId { ino, nr })
    }

    /// Fetches a frame, unless it is there, and holds it.
    async fn fetch_held<B: Backing>(
        &self,
        backing: &Rc<B>,
        call: Call,
        id: FrameId,
        prepared: &mut Prepared,
    ) -> Result<(), Errno> {
        loop {
            let look = self.inner.state.borrow().look(id);
            match look {
                Look::Present => {
                    prepared.hold(id);
                    return Ok(());
                }
                Look::Fetching(fetch) => fetch.ended().await,
                Look::Absent => {
                    self.inner.state.borrow_mut().stats.misses += 1;
                    self.begin(id.ino, id.nr..id.nr + 1).fetch(backing, call, Asked::Writer).await?;
                }
            }
        }
    }
}

impl Prepared {
    fn hold(&mut self, id: FrameId) {
        let mut state = self.cache.inner.state.borrow_mut();
        if let Some(frame) = state.frames.hit(id) {
            frame.holds += 1;
            self.held.push(id);
            state.stats.hits += 1;
        }
    }

    /// Changes the bytes.
    ///
    /// # Panics
    /// If `data` has another length than was prepared.
    pub fn write(self, data: &mut Buf) {
        assert_eq!(data.len(), self.len, "the bytes that were prepared for");
        self.apply(|from, to| data.slice(from, to.len()).copy_to(to));
    }

    /// Changes the bytes.
    ///
    /// # Panics
    /// If `data` has another length than was prepared.
    pub fn write_bytes(self, data: &[u8]) {
        assert_eq!(data.len(), self.len, "the bytes that were prepared for");
        self.apply(|from, to| to.copy_from_slice(&data[from..from + to.len()]));
    }

    /// Calls `copy` with each place in the data and the memory that it goes to.
    fn apply(mut self, mut copy: impl FnMut(usize, &mut [u8])) {
        let frames = self.cache.frames_of(self.at, self.len as u64);
        self.cache.inner.state.borrow_mut().fetches.outdate(self.ino, &frames);
        let mut done = 0;
        for nr in frames {
            let part = self.cache.part_of(nr, self.at, self.len as u64);
            let len = part.len();
            self.change(FrameId { ino: self.ino, nr }, part, |to| copy(done, to));
            done += len;
        }
    }

    fn change(&mut self, id: FrameId, part: Range<usize>, copy: impl FnOnce(&mut [u8])) {
        let inner = &self.cache.inner;
        let mut state = inner.state.borrow_mut();
        if !state.frames.has(id) {
            // Half of the frames at most are dirty or held, so one can leave.
            let bytes = Buf::zeroed(&inner.pool, inner.frame_len);
            state.frames.insert(id, self.class, bytes, true).expect("a clean frame makes room for a dirty one");
        }
        let frame = state.frames.hit(id).expect("present or just put in");
        if frame.bytes.sole_bytes_mut().is_none() {
            let shared = std::mem::replace(&mut frame.bytes, Buf::empty());
            frame.bytes = shared.into_unique(&inner.pool);
        }
        copy(&mut frame.bytes.sole_bytes_mut().expect("just made unique")[part]);
        let before = state.frames.set_state(id, FrameState::Dirty);
        if before != Some(FrameState::Dirty) {
            self.room -= 1;
        }
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        let inner = &self.cache.inner;
        let mut state = inner.state.borrow_mut();
        for id in &self.held {
            if let Some(frame) = state.frames.get_mut(*id) {
                frame.holds -= 1;
            }
        }
        drop(state);
        inner.credits.give(self.room);
    }
}
