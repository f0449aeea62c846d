//! The drive as a device: it plans each request when it comes and answers when the plan ends.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;

use esker_base::{ByteRange, Time};
use esker_block::{Bio, BioError, Device, Done, Limits, Op, OpKind, Stat, Step, Usage};
use esker_rt::Rt;

use super::model::{AccessPlan, Ack, FtlSetup, SsdModel, SsdState};
use crate::access;
use crate::meter::Meter;
use crate::setup::Setup;

/// A modelled solid-state drive.
pub struct Ssd {
    core: Rc<Core>,
    limits: Limits,
}

struct Core {
    rt: Rt,
    model: SsdModel,
    setup: Setup,
    protected: bool,
    state: RefCell<State>,
}

struct State {
    parts: SsdState,
    unsettled: Unsettled,
    meter: Meter,
}

/// Answered writes that the media do not hold as settled.
#[derive(Default)]
struct Unsettled {
    /// Those that a page which is not full holds a part of, or that only changed the map.
    open: Vec<(u64, ByteRange)>,
    /// The others, by the instant at which flash holds them.
    ends: BinaryHeap<Reverse<(Time, u64, u64, u64)>>,
}

/// What is left to do when a request's time has come.
#[derive(Clone, Copy)]
enum Then {
    Nothing,
    /// The write with this number is stable.
    Settle(u64),
    /// All writes that flash holds by now are stable.
    SettleEnded,
}

impl Ssd {
    /// A drive whose world is `rt`, at rest. A `protected` one has power-loss protection: what is in its buffer survives.
    pub fn new(rt: &Rt, model: SsdModel, ftl: &FtlSetup, setup: Setup, protected: bool) -> Ssd {
        let limits = setup.limits();
        let state = State { parts: model.at_rest(ftl), unsettled: Unsettled::default(), meter: Meter::default() };
        Ssd { core: Rc::new(Core { rt: rt.clone(), model, setup, protected, state: RefCell::new(state) }), limits }
    }
}

impl Device for Ssd {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn submit(&self, bio: Bio) -> Step<Done> {
        let core = &self.core;
        match bio.op {
            Op::Extents => return Step::Now(core.setup.content.extents(bio)),
            Op::Ranges(_) => return Step::Now(bio.fail(BioError::Unsupported(OpKind::Clone))),
            _ => {}
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
        let state = self.core.state.borrow();
        let (ftl, counts) = (state.parts.ftl(), state.parts.ftl().counts());
        let erases = || ftl.wear().iter().map(|n| f64::from(*n));
        access::stats([
            ("write_amplification", counts.write_amplification()),
            ("host_units", counts.host as f64),
            ("moved_units", counts.moved as f64),
            ("padded_units", counts.padded as f64),
            ("erased_blocks", counts.erased as f64),
            ("erases_mean", erases().sum::<f64>() / ftl.wear().len() as f64),
            ("erases_max", erases().fold(0.0, f64::max)),
            ("dies_busy_s", state.parts.dies_busy().as_secs_f64()),
            ("buffer_stalls", state.parts.stalls() as f64),
            ("buffered_bytes", state.parts.buffered_bytes() as f64),
        ])
    }

    fn usage(&self) -> Option<Usage> {
        let (core, state) = (&self.core, self.core.state.borrow());
        let spec = core.model.spec();
        let mut usage = state.meter.usage(&spec.bill, core.rt.now());
        usage.energy_j += spec.die_w * state.parts.dies_busy().as_secs_f64();
        Some(usage)
    }
}

impl Core {
    /// Plans a request and says when it ends.
    #[inline]
    fn start(&self, bio: &Bio, now: Time) -> (Time, Then) {
        let state = &mut *self.state.borrow_mut();
        if !state.unsettled.ends.is_empty() {
            self.settle_ended(&mut state.unsettled, now);
        }
        let durable = !self.setup.cache || bio.flags.fua;
        let (plan, number) = match bio.op {
            Op::Read => {
                state.meter.read += bio.range.len();
                (self.model.read(&mut state.parts, bio.range, now), 0)
            }
            Op::Write => {
                state.meter.written += bio.range.len();
                let number = self.setup.content.apply(bio);
                let ack = if durable && !self.protected { Ack::Stable } else { Ack::Buffered };
                (self.model.write(&mut state.parts, bio.range, ack, now), number)
            }
            Op::Zero | Op::Discard => {
                let number = self.setup.content.apply(bio);
                (self.model.trim(&mut state.parts, bio.range, now), number)
            }
            _ if self.setup.cache => (self.model.flush(&mut state.parts, now), 0),
            _ => (self.model.command(now), 0),
        };
        state.meter.work(now, plan.finish.max(plan.stable.or(plan.closed).unwrap_or(now)));
        (plan.finish, self.then(state, bio, &plan, number, durable))
    }

    /// Arranges that what was written is settled when flash holds it, at the request's end or after it.
    #[inline]
    fn then(&self, state: &mut State, bio: &Bio, plan: &AccessPlan, number: u64, durable: bool) -> Then {
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
                state.unsettled.add(plan.stable, number, bio.range);
                Then::Nothing
            }
            _ => Then::SettleEnded,
        }
    }

    fn end(&self, range: ByteRange, then: Then) {
        match then {
            Then::Nothing => {}
            Then::Settle(number) => self.setup.content.mark_stable(range, number),
            Then::SettleEnded => self.settle_ended(&mut self.state.borrow_mut().unsettled, self.rt.now()),
        }
    }

    /// Settles the writes that flash holds by `now`.
    fn settle_ended(&self, unsettled: &mut Unsettled, now: Time) {
        while let Some(Reverse((end, number, start, len))) = unsettled.ends.peek().copied()
            && end <= now
        {
            unsettled.ends.pop();
            if let Some(range) = ByteRange::new(start, len) {
                self.setup.content.mark_stable(range, number);
            }
        }
    }
}

impl Unsettled {
    fn add(&mut self, stable: Option<Time>, number: u64, range: ByteRange) {
        match stable {
            Some(end) => self.ends.push(Reverse((end, number, range.start(), range.len()))),
            None => self.open.push((number, range)),
        }
    }

    /// Says that flash holds at `end` what was in pages that were not full.
    fn close(&mut self, end: Time) {
        let closed = self.open.drain(..).map(|(number, range)| Reverse((end, number, range.start(), range.len())));
        self.ends.extend(closed);
    }
}
