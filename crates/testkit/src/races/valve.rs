//! A lower device that does what a script says.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use esker_base::Nanos;
use esker_block::{Bio, BioError, Class, Device, Done, Limits, Op, OpKind, Step};
use esker_rt::Rt;
use esker_rt::sync::Notify;

/// Some of the requests to a lower device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Which(OpKind, Class);

/// Reads of clients.
pub const CLIENT_READS: Which = Which(OpKind::Read, Class::Foreground);
/// Writes of clients.
pub const CLIENT_WRITES: Which = Which(OpKind::Write, Class::Foreground);
/// Reads of a mover.
pub const COPY_READS: Which = Which(OpKind::Read, Class::Background);
/// Writes of a mover.
pub const COPY_WRITES: Which = Which(OpKind::Write, Class::Background);
/// Flushes of a mover.
pub const COPY_FLUSHES: Which = Which(OpKind::Flush, Class::Background);
/// Writes of records.
pub const RECORDS: Which = Which(OpKind::Write, Class::Metadata);

/// What happens to requests.
#[derive(Clone, Copy, Debug)]
enum What {
    /// They wait, after so many more have passed.
    Stop { after: u64 },
    /// The n-th from now on fails, from 1. With `late`, it has done its work before.
    Fail { nth: u64, late: bool },
    /// They take longer.
    Slow(Nanos),
}

/// What happens to one.
#[derive(Clone, Copy, Default)]
struct Fate {
    waits: bool,
    fails: bool,
    fails_late: bool,
    slow: Nanos,
}

/// The script's hand on one lower device.
pub struct Valve {
    rt: Rt,
    rules: RefCell<Vec<(Which, What)>>,
    seen: RefCell<Vec<Which>>,
    is_lost: Cell<bool>,
    /// Changes that were answered, and how many of them are surely durable.
    changes: Cell<u64>,
    durable: Cell<u64>,
    changed: Notify,
}

impl Valve {
    /// Everything passes.
    pub fn new(rt: &Rt) -> Rc<Valve> {
        let (rules, seen, is_lost, changes, durable) = Default::default();
        Rc::new(Valve { rt: rt.clone(), rules, seen, is_lost, changes, durable, changed: Notify::default() })
    }

    /// From now on, such requests wait.
    pub fn stop(&self, which: Which) {
        self.stop_after(which, 0);
    }

    /// The same, but `after` more of them pass.
    pub fn stop_after(&self, which: Which, after: u64) {
        self.rules.borrow_mut().push((which, What::Stop { after }));
    }

    /// They wait no more.
    pub fn let_go(&self, which: Which) {
        self.rules.borrow_mut().retain(|(of, what)| !(*of == which && matches!(what, What::Stop { .. })));
        self.changed.notify_all();
    }

    /// The n-th from now on fails, from 1, and does nothing.
    pub fn fail_at(&self, which: Which, nth: u64) {
        self.rules.borrow_mut().push((which, What::Fail { nth, late: false }));
    }

    /// The n-th from now on fails, from 1, although it has done its work.
    pub fn fail_late_at(&self, which: Which, nth: u64) {
        self.rules.borrow_mut().push((which, What::Fail { nth, late: true }));
    }

    /// Each takes so much longer.
    pub fn slow(&self, which: Which, span: Nanos) {
        self.rules.borrow_mut().push((which, What::Slow(span)));
    }

    /// The device is gone: everything that has not reached it fails.
    pub fn lose(&self) {
        self.is_lost.set(true);
    }

    /// The device is there again.
    pub fn find(&self) {
        self.is_lost.set(false);
    }

    /// Counts requests from now on.
    pub fn forget(&self) {
        self.seen.borrow_mut().clear();
    }

    /// How many requests have come.
    pub fn all(&self) -> usize {
        self.seen.borrow().len()
    }

    /// Whether changes were answered that a power cut may take back.
    pub fn is_dirty(&self) -> bool {
        self.durable.get() < self.changes.get()
    }

    /// How many such requests have come.
    pub fn seen(&self, which: Which) -> usize {
        self.seen.borrow().iter().filter(|of| **of == which).count()
    }

    /// Waits until so many have come.
    ///
    /// # Panics
    /// If they do not within a second.
    pub async fn reached(&self, which: Which, count: usize) {
        for _ in 0..100_000 {
            if self.seen(which) >= count {
                return;
            }
            self.rt.sleep(Nanos::micros(10)).await;
        }
        panic!("{} of {count} requests came: {which:?}", self.seen(which));
    }

    /// A request comes.
    fn arrive(&self, which: Which) -> Fate {
        self.seen.borrow_mut().push(which);
        let mut fate = Fate::default();
        for (_, what) in self.rules.borrow_mut().iter_mut().filter(|(of, _)| *of == which) {
            match what {
                What::Stop { after: 0 } => fate.waits = true,
                What::Stop { after } => *after -= 1,
                What::Fail { nth, late } => {
                    *nth = nth.saturating_sub(1);
                    (fate.fails, fate.fails_late) = (fate.fails || *nth == 0, *late);
                }
                What::Slow(span) => fate.slow += *span,
            }
        }
        // A fault strikes once.
        self.rules.borrow_mut().retain(|(_, what)| !matches!(what, What::Fail { nth: 0, .. }));
        fate
    }

    fn is_stopped(&self, which: Which) -> bool {
        self.rules.borrow().iter().any(|(of, what)| *of == which && matches!(what, What::Stop { .. }))
    }
}

/// A device behind a valve.
pub struct Valved {
    inner: Rc<dyn Device>,
    valve: Rc<Valve>,
}

impl Valved {
    /// `inner` behind `valve`.
    pub fn over(inner: Rc<dyn Device>, valve: &Rc<Valve>) -> Rc<Valved> {
        Rc::new(Valved { inner, valve: valve.clone() })
    }
}

impl Device for Valved {
    fn limits(&self) -> &Limits {
        self.inner.limits()
    }

    fn submit(&self, bio: Bio) -> Step<Done> {
        let which = Which(kind_of(&bio.op), bio.tag.class);
        let fate = self.valve.arrive(which);
        let (inner, valve) = (self.inner.clone(), self.valve.clone());
        Step::later(async move {
            if fate.waits {
                valve.changed.wait_until(|| !valve.is_stopped(which)).await;
            }
            if fate.slow > Nanos::ZERO {
                valve.rt.sleep(fate.slow).await;
            }
            if valve.is_lost.get() {
                return bio.fail(BioError::Gone("the lower device".into()));
            }
            let failure = || Err(BioError::io("the script says so".to_string()));
            if fate.fails && !fate.fails_late {
                return Done { result: failure(), buf: bio.buf };
            }
            let (changes, needs_flush, is_flush) =
                (valve.changes.get(), bio.changes_data() && !bio.flags.fua, bio.op == Op::Flush);
            let mut done = inner.submit(bio).await;
            match done.result {
                Ok(_) if needs_flush => valve.changes.set(valve.changes.get() + 1),
                Ok(_) if is_flush => valve.durable.set(changes.max(valve.durable.get())),
                Ok(_) | Err(_) => {}
            }
            if fate.fails {
                done.result = failure();
            }
            done
        })
    }
}

fn kind_of(op: &Op) -> OpKind {
    match op {
        Op::Read => OpKind::Read,
        Op::Write => OpKind::Write,
        Op::Flush => OpKind::Flush,
        Op::Zero => OpKind::Zero,
        Op::Discard => OpKind::Discard,
        Op::Extents => OpKind::Extents,
        Op::Ranges(_) => OpKind::Clone,
    }
}
