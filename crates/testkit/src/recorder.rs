//! A device that keeps a log of what it was asked: at the end of a stack (what a crash can leave) and on top of it (what a
//! client was promised).

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use esker_block::store::SparseStore;
use esker_block::{Bio, Device, Done, Limits, Op, OpKind, Step, Support};
use esker_dev::{Defer, Media, MemoryDevice};
use esker_rt::Rt;

use crate::log::Log;

/// Passes everything to a device and keeps the log of it. Range vectors are not modelled, so it supports none.
pub struct Recorder {
    inner: Rc<dyn Device>,
    limits: Limits,
    state: Rc<State>,
}

struct State {
    log: RefCell<Log>,
    /// Events of the recorder at the end of the stack; shared with those above it.
    clock: Rc<Cell<u64>>,
    is_leaf: bool,
    before: SparseStore,
}

impl State {
    /// Adds an entry; `add` gets its stamp.
    fn note<T>(&self, add: impl FnOnce(&mut Log, u64) -> T) -> T {
        let stamp = self.clock.get();
        if self.is_leaf {
            self.clock.set(stamp + 1);
        }
        add(&mut self.log.borrow_mut(), stamp)
    }
}

impl Recorder {
    /// The end of a stack: a memory device with a volatile cache over `media`, whose power cuts leave blocks of `block`
    /// bytes whole and tear what is larger.
    pub fn leaf(rt: &Rt, media: &Rc<Media>, block: u32, defer: Defer) -> Rc<Recorder> {
        let before = media.image();
        let inner = Rc::new(MemoryDevice::over(rt, media.clone(), block, defer));
        let limits = Limits { volatile_cache: true, ..inner.limits().clone() };
        Rc::new(Recorder::new(inner, limits, Rc::default(), true, before))
    }

    /// On top of a stack that ends in `leaf`: what its client sees. `before` is what `device` held at that time.
    pub fn above(device: Rc<dyn Device>, leaf: &Recorder, before: SparseStore) -> Rc<Recorder> {
        let limits = device.limits().clone();
        Rc::new(Recorder::new(device, limits, leaf.state.clock.clone(), false, before))
    }

    fn new(
        inner: Rc<dyn Device>,
        limits: Limits,
        clock: Rc<Cell<u64>>,
        is_leaf: bool,
        before: SparseStore,
    ) -> Recorder {
        let ranges = [OpKind::Clone, OpKind::Move, OpKind::Delete];
        let limits = ranges.into_iter().fold(limits, |limits, kind| limits.with(kind, Support::No));
        let state = Rc::new(State { log: RefCell::new(Log::new(limits.block)), clock, is_leaf, before });
        Recorder { inner, limits, state }
    }

    /// Events so far at the end of the stack: a crash can come before, between and after them.
    pub fn points(&self) -> u64 {
        self.state.clock.get()
    }

    /// The log so far.
    pub fn log(&self) -> Log {
        self.state.log.borrow().clone()
    }

    /// What the device held before the first request.
    pub fn before(&self) -> SparseStore {
        self.state.before.clone()
    }
}

/// What to note when a request is answered.
enum Pending {
    Nothing,
    Change(usize),
    Flush(usize),
}

fn note_start(state: &State, bio: &Bio) -> Pending {
    match bio.op {
        Op::Write => {
            let bytes = bio.buf.to_vec();
            let add = |log: &mut Log, stamp| log.write_started(stamp, bio.offset(), &bytes, bio.flags.fua);
            Pending::Change(state.note(add))
        }
        Op::Zero => {
            let zeroes = vec![0; bio.len() as usize];
            let add = |log: &mut Log, stamp| log.write_started(stamp, bio.offset(), &zeroes, bio.flags.fua);
            Pending::Change(state.note(add))
        }
        Op::Discard => Pending::Change(state.note(|log, stamp| log.discard_started(stamp, bio.range))),
        Op::Flush => Pending::Flush(state.note(Log::flush_started)),
        Op::Read | Op::Extents | Op::Ranges(_) => Pending::Nothing,
    }
}

fn note_answer(state: &State, pending: Pending, done: Done) -> Done {
    match pending {
        Pending::Change(number) if done.result.is_ok() => state.note(|log, stamp| log.answered(stamp, number)),
        Pending::Flush(number) if done.result.is_ok() => state.note(|log, stamp| log.flush_answered(stamp, number)),
        _ => {}
    }
    done
}

impl Device for Recorder {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn submit(&self, bio: Bio) -> Step<Done> {
        let pending = note_start(&self.state, &bio);
        let state = self.state.clone();
        self.inner.submit(bio).map(move |done| note_answer(&state, pending, done))
    }

    fn depth(&self) -> u32 {
        self.inner.depth()
    }
}
