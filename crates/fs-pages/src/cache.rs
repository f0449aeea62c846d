//! The page cache, and how it is read.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

use esker_base::Errno;
use esker_block::step::LocalFuture;
use esker_block::{Buf, Step};
use esker_rt::Rt;
use esker_rt::mem::Pool;
use esker_rt::sync::{Credits, Notify};
use esker_vfs::{Answer, Call, Ino};

use crate::ahead::Ahead;
use crate::config::{FrameClass, PageCacheConfig, PageCacheError};
use crate::fetch::{Fetch, Fetches};
use crate::frames::{FrameId, FrameState, Frames};
use crate::frozen::Frozen;

/// Where frames come from: what a file system knows of its medium.
pub trait Backing: 'static {
    /// Reads whole frames of a file: zeroes in holes and behind the end.
    fn fetch(&self, call: Call, ino: Ino, frames: Range<u64>) -> LocalFuture<Result<Buf, Errno>>;

    /// The class of a file's frames, asked when a frame comes.
    fn class(&self, _: Ino) -> FrameClass {
        FrameClass::default()
    }
}

/// Counters of a page cache.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PageCacheStats {
    /// Frames that a read or write found.
    pub hits: u64,
    /// Frames that were fetched because a read or write waited for them.
    pub misses: u64,
    /// Frames that were fetched ahead of a reader.
    pub ahead: u64,
    /// Clean frames that made room.
    pub evicted: u64,
    /// Frames that are there.
    pub frames: u64,
    /// Frames that count against the limit of dirty ones: dirty, being written, or reserved by a writer.
    pub dirty: u64,
}

/// A page cache of one file system. Clones are handles on the same one. A future keeps the cache alive.
///
/// The caller orders calls on one file that conflict, with `Claims` of `vfs`: the cache keeps frames whole, not calls.
#[derive(Clone)]
pub struct PageCache {
    pub(crate) inner: Rc<Inner>,
}

pub(crate) struct Inner {
    rt: Rt,
    pub(crate) pool: Pool,
    pub(crate) frame_len: usize,
    /// One for each frame that may be dirty.
    pub(crate) credits: Credits,
    pub(crate) dirty_max: u64,
    pub(crate) pressure: Notify,
    pub(crate) tickets: Cell<u64>,
    pub(crate) state: RefCell<State>,
}

pub(crate) struct State {
    pub(crate) frames: Frames,
    pub(crate) fetches: Fetches,
    ahead: Ahead,
    pub(crate) stats: PageCacheStats,
}

/// What is known of a frame.
pub(crate) enum Look {
    Present,
    Fetching(Rc<Fetch>),
    Absent,
}

impl State {
    pub(crate) fn look(&self, id: FrameId) -> Look {
        match self.fetches.of(id) {
            _ if self.frames.has(id) => Look::Present,
            Some(fetch) => Look::Fetching(fetch),
            None => Look::Absent,
        }
    }

    fn is_absent(&self, id: FrameId) -> bool {
        matches!(self.look(id), Look::Absent)
    }

    /// Absent frames from the first of `nrs` on.
    fn absent(&self, ino: Ino, nrs: Range<u64>) -> Range<u64> {
        let end = nrs.clone().find(|nr| !self.is_absent(FrameId { ino, nr: *nr }));
        nrs.start..end.unwrap_or(nrs.end)
    }
}

impl PageCache {
    /// An empty cache, with memory from `pool`.
    ///
    /// # Errors
    /// A configuration that makes no sense.
    pub fn new(rt: &Rt, pool: &Pool, config: &PageCacheConfig) -> Result<PageCache, PageCacheError> {
        config.check()?;
        let state = State {
            frames: Frames::new(config),
            fetches: Fetches::default(),
            ahead: Ahead::new(config.frame_len(), config.ahead_bytes_max),
            stats: PageCacheStats::default(),
        };
        let inner = Inner {
            rt: rt.clone(),
            pool: pool.clone(),
            frame_len: config.frame_len(),
            credits: Credits::new(config.dirty_frames()),
            dirty_max: config.dirty_frames(),
            pressure: Notify::default(),
            tickets: Cell::new(0),
            state: RefCell::new(state),
        };
        Ok(PageCache { inner: Rc::new(inner) })
    }

    /// Bytes of a frame.
    pub fn frame_len(&self) -> usize {
        self.inner.frame_len
    }

    /// Counters.
    pub fn stats(&self) -> PageCacheStats {
        let state = self.inner.state.borrow();
        PageCacheStats {
            evicted: state.frames.evicted,
            frames: state.frames.len() as u64,
            dirty: self.inner.dirty_max - self.inner.credits.free(),
            ..state.stats
        }
    }

    /// The frames that `len` bytes from `at` touch.
    pub(crate) fn frames_of(&self, at: u64, len: u64) -> Range<u64> {
        let frame = self.inner.frame_len as u64;
        at / frame..(at + len).div_ceil(frame)
    }

    /// The part of frame `nr` that `len` bytes from `at` touch, as a range inside the frame.
    pub(crate) fn part_of(&self, nr: u64, at: u64, len: u64) -> Range<usize> {
        let (frame, start) = (self.inner.frame_len as u64, nr * self.inner.frame_len as u64);
        let clamp = |offset: u64| (offset.saturating_sub(start)).min(frame) as usize;
        clamp(at)..clamp(at + len)
    }

    /// Reads `len` bytes from `at`, all of them before the `end` of the file. Reads ahead of sequential readers, at
    /// most up to `end`.
    ///
    /// # Errors
    /// Those of `backing`.
    pub fn read<B: Backing>(&self, backing: &Rc<B>, call: Call, ino: Ino, span: (u64, usize), end: u64) -> Answer<Buf> {
        let (at, len) = span;
        debug_assert!(at + len as u64 <= end, "{len} bytes at {at} of a file of {end}");
        let wanted = self.frames_of(at, len as u64);
        if self.has_all(ino, &wanted) {
            let parts = wanted.filter_map(|nr| self.take(backing, call, FrameId { ino, nr }, span, end)).collect();
            return Step::Now(Ok(Buf::chain(parts)));
        }
        let (cache, backing) = (self.clone(), backing.clone());
        Step::later(async move { cache.read_late(&backing, call, ino, span, end).await })
    }

    /// Reads into memory of the caller if no frame is missing.
    pub fn read_now<B: Backing>(
        &self,
        backing: &Rc<B>,
        call: Call,
        ino: Ino,
        at: u64,
        out: &mut [u8],
        end: u64,
    ) -> bool {
        let span = (at, out.len());
        let wanted = self.frames_of(at, span.1 as u64);
        if !self.has_all(ino, &wanted) {
            return false;
        }
        let mut rest = out;
        for nr in wanted {
            let copied = self.with_frame(backing, call, FrameId { ino, nr }, span, end, |bytes, part| {
                let (to, behind) = std::mem::take(&mut rest).split_at_mut(part.len());
                to.copy_from_slice(&bytes.bytes().expect("a frame owns its memory")[part]);
                rest = behind;
            });
            debug_assert!(copied.is_some(), "all frames are there");
        }
        true
    }

    fn has_all(&self, ino: Ino, wanted: &Range<u64>) -> bool {
        let state = self.inner.state.borrow();
        wanted.clone().all(|nr| state.frames.has(FrameId { ino, nr }))
    }

    /// The wanted part of a frame, if it is there.
    fn take<B: Backing>(&self, backing: &Rc<B>, call: Call, id: FrameId, span: (u64, usize), end: u64) -> Option<Buf> {
        self.with_frame(backing, call, id, span, end, |bytes, part| bytes.slice(part.start, part.len()))
    }

    /// Something with the wanted part of a frame that a reader uses, if it is there. A mark begins the next fetch.
    fn with_frame<B: Backing, T>(
        &self,
        backing: &Rc<B>,
        call: Call,
        id: FrameId,
        span: (u64, usize),
        end: u64,
        act: impl FnOnce(&mut Buf, Range<usize>) -> T,
    ) -> Option<T> {
        let part = self.part_of(id.nr, span.0, span.1 as u64);
        let mut state = self.inner.state.borrow_mut();
        let frame = state.frames.hit(id)?;
        let done = act(&mut frame.bytes, part);
        let is_mark = std::mem::take(&mut frame.is_mark);
        state.stats.hits += 1;
        drop(state);
        if is_mark {
            self.go_ahead(backing, call, id, end);
        }
        Some(done)
    }

    async fn read_late<B: Backing>(
        self,
        backing: &Rc<B>,
        call: Call,
        ino: Ino,
        span: (u64, usize),
        end: u64,
    ) -> Result<Buf, Errno> {
        let wanted = self.frames_of(span.0, span.1 as u64);
        let (mut parts, mut nr) = (Vec::new(), wanted.start);
        while nr < wanted.end {
            let id = FrameId { ino, nr };
            let look = self.inner.state.borrow().look(id);
            match look {
                Look::Present => {
                    parts.extend(self.take(backing, call, id, span, end));
                    nr += 1;
                }
                Look::Fetching(fetch) => fetch.ended().await,
                Look::Absent => {
                    let run = self.miss(backing, call, ino, nr..wanted.end, end);
                    nr = run.end;
                    let mut bytes = self.begin(ino, run.clone()).fetch(backing, call, Asked::Reader).await?;
                    let first = self.part_of(run.start, span.0, span.1 as u64).start;
                    let last = self.part_of(run.end - 1, span.0, span.1 as u64).end;
                    parts
                        .push(bytes.slice(first, (run.end - run.start - 1) as usize * self.frame_len() + last - first));
                }
            }
        }
        Ok(Buf::chain(parts))
    }

    /// Tells the streams of a miss, and begins to read ahead. Answers which frames the reader fetches itself.
    fn miss<B: Backing>(&self, backing: &Rc<B>, call: Call, ino: Ino, nrs: Range<u64>, end: u64) -> Range<u64> {
        let mut state = self.inner.state.borrow_mut();
        let run = state.absent(ino, nrs);
        state.stats.misses += run.end - run.start;
        let until = state.ahead.missed(ino, &run);
        drop(state);
        self.fetch_ahead(backing, call, ino, run.end..until, end);
        run
    }

    /// A reader came to the mark `id`.
    fn go_ahead<B: Backing>(&self, backing: &Rc<B>, call: Call, id: FrameId, end: u64) {
        let next = self.inner.state.borrow_mut().ahead.reached(id.ino, id.nr);
        if let Some(next) = next {
            self.fetch_ahead(backing, call, id.ino, next, end);
        }
    }

    fn fetch_ahead<B: Backing>(&self, backing: &Rc<B>, call: Call, ino: Ino, nrs: Range<u64>, end: u64) {
        let last = self.frames_of(0, end).end.min(nrs.end);
        let run = self.inner.state.borrow().absent(ino, nrs.start..last.max(nrs.start));
        if run.is_empty() {
            return;
        }
        self.inner.state.borrow_mut().stats.ahead += run.end - run.start;
        // It begins now: a reader that misses one of the frames before the task runs waits for it.
        let (under_way, backing) = (self.begin(ino, run), backing.clone());
        self.inner.rt.spawn_detached("read ahead", async move {
            // A reader that gets there meets the error itself.
            let _ = under_way.fetch(&backing, call, Asked::Ahead).await;
        });
    }

    /// Begins to fetch absent frames.
    pub(crate) fn begin(&self, ino: Ino, nrs: Range<u64>) -> UnderWay {
        let fetch = self.inner.state.borrow_mut().fetches.begin(ino, &nrs);
        UnderWay { cache: self.clone(), ino, nrs, fetch }
    }

    /// A copy of frame `place` of `bytes`.
    fn own(&self, bytes: &mut Buf, place: usize) -> Buf {
        let len = self.inner.frame_len;
        let mut frame = Buf::unique(&self.inner.pool, len);
        let from = bytes.slice(place * len, len);
        if let Some(to) = frame.bytes_mut() {
            from.copy_to(to);
        }
        frame
    }

    /// Drops frames of a file, dirty ones too: a file that is cut or removed, or a hole that is punched. They read as
    /// what `backing` fetches then. What the owner writes of them meanwhile is no loss.
    ///
    /// # Panics
    /// If a prepared write holds one of them.
    pub fn discard(&self, ino: Ino, nrs: Range<u64>) {
        let mut state = self.inner.state.borrow_mut();
        state.fetches.outdate(ino, &nrs);
        if nrs.start == 0 {
            state.ahead.forget(ino);
        }
        let mut back = 0;
        for id in state.frames.present(ino, &nrs) {
            let Some(frame) = state.frames.remove(id) else { continue };
            assert_eq!(frame.holds, 0, "frame {} of inode {} is discarded under a prepared write", id.nr, ino.0);
            back += u64::from(frame.state == FrameState::Dirty);
        }
        drop(state);
        self.inner.credits.give(back);
    }

    /// Files with dirty frames, in the order of their numbers.
    pub fn dirty_inodes(&self) -> Vec<Ino> {
        self.inner.state.borrow().frames.dirty_inodes()
    }

    /// Dirty frames of a file, in their order.
    pub fn dirty_frames(&self, ino: Ino, nrs: Range<u64>) -> Vec<u64> {
        self.inner.state.borrow().frames.dirty(ino, &nrs).collect()
    }

    /// Waits until more than half of the frames that may be dirty are: then the owner begins to write.
    pub async fn pressure(&self) {
        let inner = &self.inner;
        inner.pressure.wait_until(|| inner.credits.free() < inner.dirty_max.div_ceil(2)).await;
    }

    /// Takes a dirty frame to write it. Later writes to the frame copy it first. `None` if it is not dirty.
    pub fn freeze(&self, ino: Ino, nr: u64) -> Option<Frozen> {
        let id = FrameId { ino, nr };
        let mut state = self.inner.state.borrow_mut();
        let frame = state.frames.get_mut(id).filter(|frame| frame.state == FrameState::Dirty)?;
        let bytes = frame.bytes.share();
        let ticket = self.inner.tickets.get();
        self.inner.tickets.set(ticket + 1);
        state.frames.set_state(id, FrameState::Frozen(ticket));
        Some(Frozen::new(self.clone(), id, ticket, bytes))
    }
}

/// What a fetch is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    Reader,
    Ahead,
    /// The frame must find a place, for a write goes into it.
    Writer,
}

/// A fetch that began. It ends also if its future is dropped.
pub(crate) struct UnderWay {
    cache: PageCache,
    ino: Ino,
    nrs: Range<u64>,
    fetch: Rc<Fetch>,
}

impl UnderWay {
    /// Fetches the frames and puts them in.
    pub(crate) async fn fetch<B: Backing>(self, backing: &Rc<B>, call: Call, asked: Asked) -> Result<Buf, Errno> {
        let mut bytes = backing.fetch(call, self.ino, self.nrs.clone()).await?;
        let class = backing.class(self.ino);
        let mut state = self.cache.inner.state.borrow_mut();
        for (place, nr) in self.nrs.clone().enumerate() {
            let id = FrameId { ino: self.ino, nr };
            if !state.fetches.take(id, &self.fetch) {
                continue;
            }
            // A frame owns its memory: a part of a longer read would keep all of it.
            let frame = self.cache.own(&mut bytes, place);
            if let Some(frame) = state.frames.insert(id, class, frame, asked == Asked::Writer) {
                frame.is_mark = asked == Asked::Ahead && nr == self.nrs.start;
            }
        }
        drop(state);
        Ok(bytes)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut state = self.cache.inner.state.borrow_mut();
        for nr in self.nrs.clone() {
            state.fetches.take(FrameId { ino: self.ino, nr }, &self.fetch);
        }
        drop(state);
        self.fetch.end();
    }
}
