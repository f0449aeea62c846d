//! A device that keeps a log of what it was asked: at the end of a stack (what a crash can leave) and on top of it
//! (what a client was promised).

use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard};

use esker_base::ByteRange;
use esker_block::store::SparseStore;
use esker_block::{Bio, Device, Done, Limits, Op, Step};
use esker_dev::{Defer, Media, MemoryDevice};
use esker_rt::Rt;

use crate::log::Log;

/// The logs of all recorders of one stack, on one clock: the number of events at its ends. A clone is the same journal.
#[derive(Clone, Default)]
pub struct Journal(Arc<Mutex<Pages>>);

#[derive(Default)]
struct Pages {
    clock: u64,
    leaves: Vec<Log>,
    top: Option<Log>,
    /// What the client of a killed process was promised: the next recorder on top goes on with it.
    left: Option<Log>,
}

/// Whose log.
#[derive(Clone, Copy)]
enum LogOwner {
    Leaf(usize),
    Top,
}

impl Journal {
    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.0.lock().unwrap_or_else(|e| panic!("a recorder panicked: {e}"))
    }

    /// Events so far at the ends of the stack: a crash can come before, between and after them.
    pub fn points(&self) -> u64 {
        self.pages().clock
    }

    /// The log of each end so far, in the order in which they were made.
    pub fn leaves(&self) -> Vec<Log> {
        self.pages().leaves.clone()
    }

    /// The events at which an end answered a flush. A crash before one of them leaves the most states: all that the
    /// flush covers is still open.
    pub fn flush_answers(&self) -> BTreeSet<u64> {
        self.pages().leaves.iter().flat_map(Log::flush_answers).collect()
    }

    /// What the client asked so far.
    ///
    /// # Panics
    /// Without a recorder on top.
    pub fn top(&self) -> Log {
        self.pages().top.clone().expect("a recorder on top")
    }

    /// The journal of a process that is killed before an event. It goes on with what the next process does: see
    /// [`Recorder::again`] and [`Recorder::above`].
    pub fn killed(&self, point: u64) -> Journal {
        let pages = self.pages();
        let leaves = pages.leaves.iter().map(|log| log.killed(point)).collect();
        // What was answered above without a further event below happened before the kill.
        let left = pages.top.as_ref().map(|log| log.interrupted(point + 1));
        Journal(Arc::new(Mutex::new(Pages { clock: point, leaves, top: None, left })))
    }

    fn add_leaf(&self, unit: u32) -> usize {
        let mut pages = self.pages();
        pages.leaves.push(Log::new(unit));
        pages.leaves.len() - 1
    }

    fn add_top(&self, unit: u32) -> LogOwner {
        let mut pages = self.pages();
        let log = pages.left.take().unwrap_or_else(|| Log::new(unit));
        let before = pages.top.replace(log);
        assert!(before.is_none(), "a journal has one recorder on top");
        LogOwner::Top
    }

    /// Adds to a log; `add` gets the stamp. What happens at the end of a stack is an event.
    fn note<T>(&self, place: LogOwner, add: impl FnOnce(&mut Log, u64) -> T) -> T {
        let mut pages = self.pages();
        let stamp = pages.clock;
        match place {
            LogOwner::Leaf(number) => {
                pages.clock += 1;
                add(&mut pages.leaves[number], stamp)
            }
            LogOwner::Top => add(pages.top.as_mut().expect("its log"), stamp),
        }
    }
}

/// Passes everything to a device and keeps the log of it.
pub struct Recorder {
    inner: Rc<dyn Device>,
    limits: Limits,
    page: Page,
}

/// Where a recorder writes.
#[derive(Clone)]
struct Page {
    journal: Journal,
    place: LogOwner,
    before: SparseStore,
    /// Whether what is answered is durable.
    stable: bool,
}

impl Recorder {
    /// An end of a stack: a memory device with a volatile cache over `media`, whose power cuts leave blocks of `block`
    /// bytes whole and tear what is larger.
    pub fn leaf(journal: &Journal, rt: &Rt, media: &Rc<Media>, block: u32, defer: Defer) -> Rc<Recorder> {
        Recorder::again(journal, journal.add_leaf(block), rt, media, block, defer)
    }

    /// An end of a stack of which `journal` has a log already, by its number: another process uses it.
    pub fn again(
        journal: &Journal,
        number: usize,
        rt: &Rt,
        media: &Rc<Media>,
        block: u32,
        defer: Defer,
    ) -> Rc<Recorder> {
        let before = media.image();
        let inner = Rc::new(MemoryDevice::over(rt, media.clone(), block, defer));
        let limits = Limits { volatile_cache: true, ..inner.limits().clone() };
        Rc::new(Recorder::new(journal, LogOwner::Leaf(number), inner, limits, before))
    }

    /// On top of a stack whose ends write into `journal`: what its client sees. `before` is what `device` held when the
    /// journal began.
    pub fn above(journal: &Journal, device: Rc<dyn Device>, before: SparseStore) -> Rc<Recorder> {
        let limits = device.limits().clone();
        Rc::new(Recorder::new(journal, journal.add_top(limits.block), device, limits, before))
    }

    fn new(journal: &Journal, place: LogOwner, inner: Rc<dyn Device>, limits: Limits, before: SparseStore) -> Recorder {
        let page = Page { journal: journal.clone(), place, before, stable: !limits.volatile_cache };
        Recorder { inner, limits, page }
    }
}

/// What to note when a request is answered.
enum Pending {
    Nothing,
    Changes(Range<usize>),
    Flush(usize),
}

impl Page {
    fn note<T>(&self, add: impl FnOnce(&mut Log, u64) -> T) -> T {
        self.journal.note(self.place, add)
    }

    fn write(&self, bio: &Bio, bytes: &[u8]) -> Pending {
        let durable = self.stable || bio.flags.fua;
        let number = self.note(|log, stamp| log.write_started(stamp, bio.offset(), bytes, durable));
        Pending::Changes(number..number + 1)
    }

    fn start(&self, bio: &Bio) -> Pending {
        match &bio.op {
            Op::Write => self.write(bio, &bio.buf.to_vec()),
            Op::Zero => self.write(bio, &vec![0; bio.len() as usize]),
            Op::Discard => {
                let number = self.note(|log, stamp| log.discard_started(stamp, bio.range));
                Pending::Changes(number..number + 1)
            }
            Op::Ranges(ops) => {
                let before = |range| bytes_of(&self.before, range);
                Pending::Changes(self.note(|log, stamp| log.vector_started(stamp, ops, &before)))
            }
            Op::Flush => Pending::Flush(self.note(Log::flush_started)),
            Op::Read | Op::Extents => Pending::Nothing,
        }
    }

    fn answer(&self, pending: Pending, done: Done) -> Done {
        match pending {
            _ if done.result.is_err() => {}
            Pending::Nothing => {}
            Pending::Changes(numbers) => {
                self.note(|log, stamp| numbers.for_each(|number| log.answered(stamp, number)));
            }
            Pending::Flush(number) => self.note(|log, stamp| log.flush_answered(stamp, number)),
        }
        done
    }
}

/// The bytes of `range` in `store`.
pub fn bytes_of(store: &SparseStore, range: ByteRange) -> Vec<u8> {
    let mut out = vec![0; range.len() as usize];
    store.read(range.start(), &mut out);
    out
}

impl Device for Recorder {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn submit(&self, bio: Bio) -> Step<Done> {
        let (page, pending) = (self.page.clone(), self.page.start(&bio));
        self.inner.submit(bio).map(move |done| page.answer(pending, done))
    }

    fn depth(&self) -> u32 {
        self.inner.depth()
    }
}
