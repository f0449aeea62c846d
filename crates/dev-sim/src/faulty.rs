//! A device that follows a plan of faults.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use esker_base::ByteRange;
use esker_block::{Bio, BioError, Buf, Device, Done, Limits, Op, OpKind, Step};
use esker_rt::Rt;
use esker_rt::mem::Pool;

use crate::fault::{Fault, FaultPlan};

/// Counts requests against a plan; outlives the device, so that a test can ask whether a fault struck.
#[derive(Debug)]
pub struct Injector {
    plan: FaultPlan,
    /// Requests so far, by kind.
    seen: RefCell<[u64; OpKind::ALL.len()]>,
    fired: Cell<u64>,
    /// Ranges that are still latent or corrupt.
    latent: RefCell<Vec<ByteRange>>,
    corrupt: RefCell<Vec<ByteRange>>,
}

impl Injector {
    /// Follows `plan` from its start.
    pub fn new(plan: FaultPlan) -> Rc<Injector> {
        let ranges = |pick: fn(&Fault) -> Option<ByteRange>| RefCell::new(plan.0.iter().filter_map(pick).collect());
        Rc::new(Injector {
            latent: ranges(|f| if let Fault::Latent(range) = f { Some(*range) } else { None }),
            corrupt: ranges(|f| if let Fault::Corrupt(range) = f { Some(*range) } else { None }),
            plan,
            seen: RefCell::default(),
            fired: Cell::default(),
        })
    }

    /// The plan.
    pub fn plan(&self) -> &FaultPlan {
        &self.plan
    }

    /// How often a request failed or brought wrong bytes because of the plan.
    pub fn fired(&self) -> u64 {
        self.fired.get()
    }

    /// The error that is due for `bio`, if any. Counts the request.
    fn strike(&self, bio: &Bio) -> Option<BioError> {
        let kind = kind_of(bio);
        let mut seen = self.seen.borrow_mut();
        seen[kind as usize] += 1;
        let (all, same) = (seen.iter().sum::<u64>(), seen[kind as usize]);
        let due = self.plan.0.iter().find_map(|fault| match *fault {
            Fault::Error(None, n) if n == all => Some(BioError::io(format!("injected: {fault}"))),
            Fault::Error(Some(of), n) if of == kind && n == same => Some(BioError::io(format!("injected: {fault}"))),
            Fault::Full(n) if kind == OpKind::Write && n == same => Some(BioError::NoSpace("the faulty device".into())),
            Fault::Gone(n) if all >= n => Some(BioError::Gone("the faulty device".into())),
            Fault::Error(..)
            | Fault::Full(_)
            | Fault::Latent(_)
            | Fault::Corrupt(_)
            | Fault::Slow(_)
            | Fault::Gone(_) => None,
        });
        let due = due.or_else(|| self.latent_error(bio));
        self.fired.set(self.fired.get() + u64::from(due.is_some()));
        due
    }

    fn latent_error(&self, bio: &Bio) -> Option<BioError> {
        let hit = self.latent.borrow().iter().find(|bad| bio.op == Op::Read && bad.overlaps(bio.range)).copied();
        hit.map(|bad| BioError::io(format!("injected: the sectors {bad} cannot be read")))
    }

    /// Written ranges are good again.
    fn heal(&self, range: ByteRange) {
        for bad in [&self.latent, &self.corrupt] {
            let mut bad = bad.borrow_mut();
            let left = bad.iter().flat_map(|one| without(*one, range)).collect();
            *bad = left;
        }
    }

    /// Flips one bit per corrupt byte of a successful read. Counted once per read.
    fn spoil(&self, pool: &Pool, range: ByteRange, done: &mut Done) {
        let hits: Vec<ByteRange> = self.corrupt.borrow().iter().filter_map(|bad| bad.intersect(range)).collect();
        if hits.is_empty() || done.result.is_err() || done.buf.is_described() {
            return;
        }
        let mut bytes = done.buf.to_vec();
        for hit in hits {
            let at = (hit.start() - range.start()) as usize;
            bytes[at..at + hit.len() as usize].iter_mut().for_each(|byte| *byte ^= 0x10);
        }
        done.buf = Buf::from_bytes(pool, &bytes);
        self.fired.set(self.fired.get() + 1);
    }
}

/// What of `one` lies outside `cut`.
fn without(one: ByteRange, cut: ByteRange) -> Vec<ByteRange> {
    if !one.overlaps(cut) {
        return vec![one];
    }
    let head = ByteRange::new(one.start(), cut.start().saturating_sub(one.start()));
    let tail = ByteRange::new(cut.end(), one.end().saturating_sub(cut.end()));
    [head, tail].into_iter().flatten().filter(|range| !range.is_empty()).collect()
}

fn kind_of(bio: &Bio) -> OpKind {
    match &bio.op {
        Op::Read => OpKind::Read,
        Op::Write => OpKind::Write,
        Op::Flush => OpKind::Flush,
        Op::Zero => OpKind::Zero,
        Op::Discard => OpKind::Discard,
        Op::Extents => OpKind::Extents,
        Op::Ranges(ops) => ops.first().map_or(OpKind::Clone, |op| op.kind()),
    }
}

/// Any device, with faults.
pub struct Faulty {
    rt: Rt,
    inner: Rc<dyn Device>,
    injector: Rc<Injector>,
    pool: Pool,
}

impl Faulty {
    /// `inner` with the faults of `injector`.
    pub fn over(rt: &Rt, inner: Rc<dyn Device>, injector: &Rc<Injector>) -> Rc<Faulty> {
        Rc::new(Faulty { rt: rt.clone(), inner, injector: injector.clone(), pool: Pool::default() })
    }

    fn perform(&self, bio: Bio) -> Step<Done> {
        if let Some(error) = self.injector.strike(&bio) {
            return Step::Now(bio.fail(error));
        }
        let (injector, pool, range) = (self.injector.clone(), self.pool.clone(), bio.range);
        let (reads, writes) = (bio.op == Op::Read, matches!(bio.op, Op::Write | Op::Zero));
        self.inner.submit(bio).map(move |mut done| {
            if writes && done.result.is_ok() {
                injector.heal(range);
            } else if reads {
                injector.spoil(&pool, range, &mut done);
            }
            done
        })
    }
}

impl Device for Faulty {
    fn limits(&self) -> &Limits {
        self.inner.limits()
    }

    fn submit(&self, bio: Bio) -> Step<Done> {
        let slow =
            self.injector.plan.0.iter().filter_map(|f| if let Fault::Slow(span) = f { Some(*span) } else { None });
        let extra: esker_base::Nanos = slow.sum();
        let step = self.perform(bio);
        if extra == esker_base::Nanos::ZERO {
            return step;
        }
        let rt = self.rt.clone();
        Step::later(async move {
            let done = step.await;
            rt.sleep(extra).await;
            done
        })
    }

    fn depth(&self) -> u32 {
        self.inner.depth()
    }
}
