//! Devices that plan each request as it comes, and answer it when the plan ends.

use std::cell::RefCell;
use std::rc::Rc;

use esker_base::{ByteRange, Time};
use esker_block::{Bio, BioError, Device, Done, Limits, Op, OpKind, Stat, Step, Usage};
use esker_rt::Rt;

use crate::meter::{Bill, Meter};
use crate::setup::Setup;
use crate::unsettled::Unsettled;

/// How one request is served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AccessPlan {
    /// When it is answered.
    pub finish: Time,
    /// When the medium holds what it wrote; `None` while that waits for a later request, such as a flush.
    pub stable: Option<Time>,
    /// When the medium holds what earlier requests left waiting, if this request ends that.
    pub closed: Option<Time>,
}

/// What a request may rely on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Demand {
    /// The device has a volatile cache.
    pub cache: bool,
    /// A write is answered when the medium holds it.
    pub stable: bool,
}

/// A device without time of its own: a function from (state, request, instant) to a plan.
pub trait Model: 'static {
    /// Where everything is, and when its parts are free.
    type State: 'static;

    /// Whether zeroing writes bytes.
    const ZEROING_WRITES: bool;

    /// Plans a request that is no range operation and no query.
    fn plan(&self, state: &mut Self::State, bio: &Bio, demand: Demand, now: Time) -> AccessPlan;

    /// What it draws and costs.
    fn bill(&self) -> &Bill;

    /// Joules beside those of the bill.
    fn extra_energy(&self, _: &Self::State) -> f64 {
        0.0
    }

    /// Counters.
    fn stats(&self, _: &Self::State) -> Vec<Stat> {
        Vec::new()
    }
}

/// A modelled device.
pub struct Planned<M: Model> {
    core: Rc<Core<M>>,
    limits: Limits,
}

struct Core<M: Model> {
    rt: Rt,
    model: M,
    setup: Setup,
    /// What is written survives in the cache.
    protected: bool,
    state: RefCell<State<M::State>>,
}

struct State<S> {
    parts: S,
    unsettled: Unsettled,
    meter: Meter,
}

/// What is left to do when a request's time has come.
#[derive(Clone, Copy)]
enum Then {
    Nothing,
    /// The write with this number is stable.
    Settle(u64),
    /// All writes that the medium holds by now are stable.
    SettleEnded,
}

impl<M: Model> Planned<M> {
    /// A device whose world is `rt`, in a state. What is written to a `protected` one survives in its cache.
    pub(crate) fn over(rt: &Rt, model: M, parts: M::State, setup: Setup, protected: bool) -> Planned<M> {
        let limits = setup.limits();
        let state = RefCell::new(State { parts, unsettled: Unsettled::default(), meter: Meter::default() });
        Planned { core: Rc::new(Core { rt: rt.clone(), model, setup, protected, state }), limits }
    }
}

impl<M: Model> Device for Planned<M> {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn submit(&self, bio: Bio) -> Step<Done> {
        let core = &self.core;
        match bio.op {
            Op::Extents => return Step::Now(core.setup.content.extents(bio)),
            Op::Ranges(_) => return Step::Now(bio.fail(BioError::Unsupported(OpKind::Clone))),
            Op::Read | Op::Write | Op::Flush | Op::Zero | Op::Discard => {}
        }
        let (finish, then) = core.start(&bio, core.rt.now());
        if let Then::Nothing = then {
            return Step::After(core.rt.sleep_until(finish), core.setup.content.answer(bio));
        }
        let core = core.clone();
        Step::later(async move {
            core.rt.sleep_until(finish).await;
            core.end(bio.range, then);
            core.setup.content.answer(bio)
        })
    }

    fn depth(&self) -> u32 {
        self.core.setup.depth
    }

    fn stats(&self) -> Vec<Stat> {
        self.core.model.stats(&self.core.state.borrow().parts)
    }

    fn usage(&self) -> Option<Usage> {
        let (core, state) = (&self.core, self.core.state.borrow());
        let mut usage = state.meter.usage(core.model.bill(), core.rt.now());
        usage.energy_j += core.model.extra_energy(&state.parts);
        Some(usage)
    }
}

impl<M: Model> Core<M> {
    /// Plans a request and says when it ends.
    #[inline]
    fn start(&self, bio: &Bio, now: Time) -> (Time, Then) {
        let state = &mut *self.state.borrow_mut();
        state.unsettled.settle_ended(now, &self.setup.content);
        match bio.op {
            Op::Read => state.meter.read += bio.range.len(),
            Op::Write => state.meter.written += bio.range.len(),
            Op::Zero if M::ZEROING_WRITES => state.meter.written += bio.range.len(),
            Op::Flush | Op::Zero | Op::Discard | Op::Ranges(_) | Op::Extents => {}
        }
        let number = if bio.changes_data() { self.setup.content.apply(bio) } else { 0 };
        let durable = !self.setup.cache || bio.flags.fua;
        let demand = Demand { cache: self.setup.cache, stable: durable && !self.protected };
        let plan = self.model.plan(&mut state.parts, bio, demand, now);
        state.meter.work(now, plan.finish.max(plan.stable.or(plan.closed).unwrap_or(now)));
        (plan.finish, self.then(state, bio, &plan, number, durable))
    }

    /// Arranges that what was written is settled when the medium holds it, at the request's end or after it.
    #[inline]
    fn then(&self, state: &mut State<M::State>, bio: &Bio, plan: &AccessPlan, number: u64, durable: bool) -> Then {
        if self.setup.content.is_described() {
            return Then::Nothing;
        }
        if let Some(closed) = plan.closed {
            state.unsettled.close(closed);
        }
        match bio.op {
            Op::Read => Then::Nothing,
            Op::Write | Op::Zero | Op::Discard if durable || self.protected => Then::Settle(number),
            Op::Write | Op::Zero | Op::Discard => {
                state.unsettled.add(plan.stable, (bio.range, number));
                Then::Nothing
            }
            Op::Flush | Op::Ranges(_) | Op::Extents => Then::SettleEnded,
        }
    }

    fn end(&self, range: ByteRange, then: Then) {
        let content = &self.setup.content;
        match then {
            Then::Nothing => {}
            Then::Settle(number) => content.mark_stable(range, number),
            Then::SettleEnded => self.state.borrow_mut().unsettled.settle_ended(self.rt.now(), content),
        }
    }
}
