mod model;
mod reads;
mod writes;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use esker_base::units::KIB;
use esker_base::{Errno, Nanos};
use esker_block::step::LocalFuture;
use esker_block::{Buf, Class, Step, Tag};
use esker_rt::Rt;
use esker_rt::mem::Pool;
use esker_vfs::{Call, Hint, Ino, Lifetime, Stamp};

use crate::config::PAGE;
use crate::*;

const CALL: Call = Call { now: Stamp(0), tag: Tag::of(Class::Foreground), hint: HINT };
const HINT: Hint = Hint { storage: 0, lifetime: Lifetime::Unknown };
const FILE: Ino = Ino(7);

/// Files on a medium that takes its time.
struct Medium {
    rt: Rt,
    pool: Pool,
    frame_len: usize,
    files: RefCell<BTreeMap<Ino, Vec<u8>>>,
    /// Fetches so far: file, first frame, how many.
    fetched: RefCell<Vec<(Ino, u64, u64)>>,
    delay: Cell<Nanos>,
    fails: Cell<bool>,
}

impl Medium {
    fn new(rt: &Rt, frame_len: usize) -> Rc<Medium> {
        Rc::new(Medium {
            rt: rt.clone(),
            pool: Pool::new(0),
            frame_len,
            files: RefCell::default(),
            fetched: RefCell::default(),
            delay: Cell::new(Nanos(10)),
            fails: Cell::new(false),
        })
    }

    /// Writes a frame at once.
    fn store(&self, ino: Ino, nr: u64, frame: &[u8]) {
        let mut files = self.files.borrow_mut();
        let (file, at) = (files.entry(ino).or_default(), nr as usize * self.frame_len);
        file.resize(file.len().max(at + self.frame_len), 0);
        file[at..at + self.frame_len].copy_from_slice(frame);
    }

    fn bytes(&self, ino: Ino, frames: &Range<u64>) -> Vec<u8> {
        let files = self.files.borrow();
        let at = frames.start as usize * self.frame_len..frames.end as usize * self.frame_len;
        let file = files.get(&ino).map_or(&[][..], |file| &file[at.start.min(file.len())..at.end.min(file.len())]);
        let mut bytes = file.to_vec();
        bytes.resize(at.len(), 0);
        bytes
    }

    fn fetches(&self) -> usize {
        self.fetched.borrow().len()
    }
}

impl Backing for Medium {
    fn fetch(&self, _: Call, ino: Ino, frames: Range<u64>) -> LocalFuture<Result<Buf, Errno>> {
        self.fetched.borrow_mut().push((ino, frames.start, frames.end - frames.start));
        // What a device answers is from some instant while it reads: here, the first.
        let (bytes, delay, fails) = (self.bytes(ino, &frames), self.delay.get(), self.fails.get());
        let (rt, pool) = (self.rt.clone(), self.pool.clone());
        Box::pin(async move {
            rt.sleep(delay).await;
            if fails { Err(Errno::EIO) } else { Ok(Buf::from_bytes(&pool, &bytes)) }
        })
    }

    /// The class of a file is its number above 100.
    fn class(&self, ino: Ino) -> FrameClass {
        FrameClass(ino.0.saturating_sub(100) as u8)
    }
}

fn config(frames: u64, dirty: u64) -> PageCacheConfig {
    let page = PAGE as u64;
    PageCacheConfig { dirty_bytes_max: dirty * page, ..PageCacheConfig::of(frames * page) }
}

fn made(rt: &Rt, config: &PageCacheConfig) -> (PageCache, Rc<Medium>) {
    let cache = PageCache::new(rt, &Pool::new(0), config).unwrap();
    (cache, Medium::new(rt, config.frame_len()))
}

async fn read(cache: &PageCache, medium: &Rc<Medium>, ino: Ino, at: u64, len: usize, end: u64) -> Vec<u8> {
    cache.read(medium, CALL, ino, (at, len), end).await.unwrap().to_vec()
}

async fn write(cache: &PageCache, medium: &Rc<Medium>, ino: Ino, at: u64, data: &[u8], end: u64) {
    cache.prepare(medium, CALL, ino, (at, data.len()), end).await.unwrap().write_bytes(data);
}

/// What an owner does: it writes all dirty frames, in the order of their files.
fn flush(cache: &PageCache, medium: &Medium) {
    for ino in cache.dirty_inodes() {
        for nr in cache.dirty_frames(ino, 0..u64::MAX) {
            let mut frozen = cache.freeze(ino, nr).unwrap();
            medium.store(frozen.ino(), frozen.nr(), &frozen.bytes().to_vec());
            frozen.written();
        }
    }
}

#[test]
fn configurations_that_make_no_sense_are_refused() {
    let refused = |config: PageCacheConfig| {
        let sim = esker_rt::Sim::new(esker_rt::sim::SimConfig::seeded(0));
        PageCache::new(&sim.rt(), &Pool::new(0), &config).err()
    };
    assert_eq!(refused(config(8, 4)), None);
    assert_eq!(refused(config(8, 5)), Some(PageCacheError::Dirty { dirty: 5, all: 8 }));
    assert_eq!(refused(config(8, 0)), Some(PageCacheError::Dirty { dirty: 0, all: 8 }));
    assert_eq!(refused(config(3, 1)), Some(PageCacheError::Frames(3)));
    assert_eq!(refused(PageCacheConfig { frame_pages: 3, ..config(64, 4) }), Some(PageCacheError::FramePages(3)));
    assert_eq!(refused(PageCacheConfig { frame_pages: 32, ..config(640, 64) }), Some(PageCacheError::FramePages(32)));
    assert_eq!(refused(PageCacheConfig { between: Between::Strict(0), ..config(8, 4) }), Some(PageCacheError::Classes));
    assert_eq!(refused(PageCacheConfig::of(256 * KIB)), None);
}

/// Whether a step has its answer.
fn is_now<T>(step: &Step<T>) -> bool {
    matches!(step, Step::Now(_))
}
