//! The profiler: what was asked for, request by request, in chunks that can go to another thread.

use esker_base::{ByteRange, Time};

use crate::PAGE;

/// Records of a full chunk.
pub const CHUNK: usize = 64 << 10;

/// Pages that one record tells of at most; longer requests are cut there.
const PAGES_MAX: u64 = u16::MAX as u64;

/// A request. Source: the specification of extensions, section 3.2.4.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AccessRecord {
    /// When it came.
    pub at: Time,
    /// Its first page.
    pub page: u64,
    /// The process, or what stands for it.
    pub who: u32,
    /// How many pages it touches.
    pub pages: u16,
    /// Whether it is a change.
    pub changes: bool,
}

const _: () = assert!(size_of::<AccessRecord>() == 24);

impl AccessRecord {
    /// The record of a request; a request without bytes has none.
    pub fn of(at: Time, who: u32, range: ByteRange, changes: bool) -> Option<AccessRecord> {
        if range.is_empty() {
            return None;
        }
        let page = range.start() / PAGE;
        let pages = (range.end().div_ceil(PAGE) - page).min(PAGES_MAX) as u16;
        Some(AccessRecord { at, page, who, pages, changes })
    }

    /// The page behind its last one.
    pub fn end(&self) -> u64 {
        self.page + u64::from(self.pages)
    }
}

/// Stands for processes where requests do not name any: a request that begins where another one ended belongs to the
/// same stream, and one that jumps follows the last request of all.
#[derive(Debug)]
pub struct Heads {
    /// Where each stream goes on, and when it went on last.
    heads: Vec<(u64, u64)>,
    newest: usize,
    now: u64,
}

impl Heads {
    /// So many streams are known at once; at least one.
    pub fn new(count: usize) -> Heads {
        Heads { heads: vec![(u64::MAX, 0); count.max(1)], newest: 0, now: 0 }
    }

    /// The number of the stream of a request, from 1 on.
    pub fn of(&mut self, range: ByteRange) -> u32 {
        self.now += 1;
        let at = match self.heads.iter().position(|(end, _)| *end == range.start()) {
            Some(at) => at,
            None => {
                self.leave_behind();
                self.newest
            }
        };
        self.heads[at] = (range.end(), self.now);
        self.newest = at;
        at as u32 + 1
    }

    /// The place at which the newest stream was stays known, instead of the one that is idle for longest.
    fn leave_behind(&mut self) {
        let place = self.heads[self.newest];
        let others = self.heads.iter().enumerate().filter(|(at, _)| *at != self.newest);
        let oldest = others.min_by_key(|(_, (_, used))| *used).map(|(at, _)| at);
        if let Some(oldest) = oldest.filter(|_| place.1 > 0) {
            self.heads[oldest] = place;
        }
    }
}

/// Gathers records. It is called inside requests, and never waits.
#[derive(Debug)]
pub struct Profiler {
    chunk: Vec<AccessRecord>,
    heads: Heads,
    /// Records that did not fit.
    pub dropped: u64,
}

impl Profiler {
    /// With so many heads for requests without a process.
    pub fn new(heads: usize) -> Profiler {
        Profiler { chunk: Vec::new(), heads: Heads::new(heads), dropped: 0 }
    }

    /// Notes a request. `who` 0: no process is named. Whether the chunk is full now.
    pub fn note(&mut self, at: Time, who: u32, range: ByteRange, changes: bool) -> bool {
        let who = if who == 0 { STREAMS | self.heads.of(range) } else { who & !STREAMS };
        if self.chunk.len() >= 2 * CHUNK {
            self.dropped += 1;
        } else if let Some(record) = AccessRecord::of(at, who, range, changes) {
            self.chunk.push(record);
        }
        self.chunk.len() >= CHUNK
    }

    /// What was gathered so far.
    pub fn take(&mut self) -> Vec<AccessRecord> {
        std::mem::take(&mut self.chunk)
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.chunk.capacity() * size_of::<AccessRecord>()
    }
}

/// Numbers of streams have this bit; those of processes lose it.
const STREAMS: u32 = 1 << 31;
