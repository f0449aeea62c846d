//! The drive as a device: it plans each request when it comes and waits for the plan's end.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use esker_base::{ByteRange, Time};
use esker_block::{Bio, BioError, Device, Done, Limits, Op, OpKind, Stat, Step, Usage};
use esker_rt::Rt;

use super::model::{Ack, SsdModel, SsdState};
use crate::access::{self, Content};
use crate::meter::Meter;

/// How a drive is set up, beside its numbers.
#[derive(Clone)]
pub struct SsdSetup {
    /// Bytes that are used.
    pub size: u64,
    /// Logical block in bytes.
    pub block: u32,
    /// Commands that the host may have in flight.
    pub depth: u32,
    /// Whether writes are acknowledged before they reach the medium.
    pub cache: bool,
    /// What is kept of the data.
    pub content: Content,
}

/// A modelled solid-state drive.
pub struct Ssd {
    core: Rc<Core>,
    limits: Limits,
}

struct Core {
    rt: Rt,
    model: SsdModel,
    setup: SsdSetup,
    state: RefCell<State>,
}

struct State {
    parts: SsdState,
    /// Buffered writes that the media do not hold as settled: end of the program, bytes, number on the media.
    unsettled: VecDeque<(Time, ByteRange, u64)>,
    meter: Meter,
    in_flight: u64,
    in_flight_max: u64,
    stalls: u64,
}

/// What is left to do when a request's time has come.
#[derive(Clone, Copy)]
enum Then {
    Nothing,
    /// The write with this number is stable.
    Settle(u64),
    /// All writes whose programs have ended are stable.
    SettleEnded,
}

impl Ssd {
    /// A drive whose world is `rt`, at rest.
    pub fn new(rt: &Rt, model: SsdModel, setup: SsdSetup) -> Ssd {
        let limits = access::limits(setup.size, setup.block, setup.cache, &setup.content);
        let state = State {
            parts: model.at_rest(),
            unsettled: VecDeque::new(),
            meter: Meter::default(),
            in_flight: 0,
            in_flight_max: 0,
            stalls: 0,
        };
        Ssd { core: Rc::new(Core { rt: rt.clone(), model, setup, state: RefCell::new(state) }), limits }
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
        let now = core.rt.now();
        let (finish, then) = core.start(&bio, now);
        let core = core.clone();
        Step::later(async move {
            core.rt.sleep_until(finish).await;
            core.end(&bio, then);
            core.setup.content.answer(bio)
        })
    }

    fn depth(&self) -> u32 {
        self.core.setup.depth
    }

    fn stats(&self) -> Vec<Stat> {
        let state = self.core.state.borrow();
        [
            ("queue_depth_max", state.in_flight_max as f64),
            ("buffer_stalls", state.stalls as f64),
            ("buffered_bytes", state.parts.buffered_bytes() as f64),
        ]
        .map(|(name, value)| Stat { name, value })
        .into()
    }

    fn usage(&self) -> Option<Usage> {
        let core = &self.core;
        Some(core.state.borrow().meter.usage(&core.model.spec().bill, core.rt.now()))
    }
}

impl Core {
    /// Plans a request and says when it ends.
    fn start(&self, bio: &Bio, now: Time) -> (Time, Then) {
        let state = &mut *self.state.borrow_mut();
        self.settle_ended(state, now);
        let (finish, busy, then) = match bio.op {
            Op::Read => {
                let plan = self.model.read(&mut state.parts, bio.range, now);
                state.meter.read += bio.range.len();
                (plan.finish, plan.finish, Then::Nothing)
            }
            Op::Write => {
                let number = self.setup.content.apply(bio);
                let ack = if self.setup.cache && !bio.flags.fua { Ack::Buffered } else { Ack::Stable };
                let plan = self.model.write(&mut state.parts, bio.range, ack, now);
                state.meter.written += bio.range.len();
                state.stalls += u64::from(plan.stalled);
                let then = self.settle_later(state, bio.range, number, plan.finish, plan.stable);
                (plan.finish, plan.stable, then)
            }
            Op::Flush if self.setup.cache => {
                let finish = self.model.flush(&state.parts, now);
                (finish, finish, Then::SettleEnded)
            }
            _ => {
                let number = if bio.changes_data() { self.setup.content.apply(bio) } else { 0 };
                let finish = self.model.command(now);
                let stable =
                    if self.setup.cache && !bio.flags.fua { finish + self.model.spec().program } else { finish };
                (finish, finish, self.settle_later(state, bio.range, number, finish, stable))
            }
        };
        state.meter.work(now, busy);
        state.in_flight += 1;
        state.in_flight_max = state.in_flight_max.max(state.in_flight);
        (finish, then)
    }

    /// Arranges that a write is settled when it is stable, at its end or after it.
    fn settle_later(&self, state: &mut State, range: ByteRange, number: u64, finish: Time, stable: Time) -> Then {
        if self.setup.content.is_described() || range.is_empty() {
            return Then::Nothing;
        }
        if stable <= finish {
            return Then::Settle(number);
        }
        state.unsettled.push_back((stable, range, number));
        Then::Nothing
    }

    fn end(&self, bio: &Bio, then: Then) {
        let state = &mut *self.state.borrow_mut();
        state.in_flight -= 1;
        match then {
            Then::Nothing => {}
            Then::Settle(number) => self.setup.content.settle(bio.range, number),
            Then::SettleEnded => self.settle_ended(state, self.rt.now()),
        }
    }

    /// Settles the buffered writes whose programs have ended by `now`.
    fn settle_ended(&self, state: &mut State, now: Time) {
        state.unsettled.retain(|(stable, range, number)| {
            if *stable <= now {
                self.setup.content.settle(*range, *number);
            }
            *stable > now
        });
    }
}
