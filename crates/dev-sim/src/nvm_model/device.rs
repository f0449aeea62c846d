//! The DIMMs as a device.

use std::cell::RefCell;
use std::rc::Rc;

use esker_base::{ByteRange, Time};
use esker_block::{Bio, BioError, Device, Done, Limits, Op, OpKind, Step, Usage};
use esker_rt::Rt;

use super::model::{NvmModel, NvmState};
use crate::meter::Meter;
use crate::setup::Setup;

/// Modelled non-volatile memory.
pub struct Nvm {
    core: Rc<Core>,
    limits: Limits,
}

struct Core {
    rt: Rt,
    model: NvmModel,
    setup: Setup,
    state: RefCell<State>,
}

struct State {
    dimms: NvmState,
    meter: Meter,
    /// Writes that a flush settles.
    cached: Vec<Written>,
}

/// A write's range and its number on the media.
type Written = (ByteRange, u64);

impl Nvm {
    /// Memory whose world is `rt`, at rest.
    pub fn new(rt: &Rt, model: NvmModel, setup: Setup) -> Nvm {
        let limits = setup.limits();
        let state = RefCell::new(State { dimms: model.at_rest(), meter: Meter::default(), cached: Vec::new() });
        Nvm { core: Rc::new(Core { rt: rt.clone(), model, setup, state }), limits }
    }
}

impl Device for Nvm {
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
        let (finish, settled) = core.start(&bio, core.rt.now());
        if settled.is_empty() {
            return Step::After(core.rt.sleep_until(finish), core.setup.content.answer(bio));
        }
        let core = core.clone();
        Step::later(async move {
            core.rt.sleep_until(finish).await;
            settled.into_iter().for_each(|(range, write)| core.setup.content.mark_stable(range, write));
            core.setup.content.answer(bio)
        })
    }

    fn depth(&self) -> u32 {
        self.core.setup.depth
    }

    fn usage(&self) -> Option<Usage> {
        let core = &self.core;
        Some(core.state.borrow().meter.usage(&core.model.spec().bill, core.rt.now()))
    }
}

impl Core {
    /// Starts a request: when it ends, and what is settled then.
    fn start(&self, bio: &Bio, now: Time) -> (Time, Vec<Written>) {
        let state = &mut *self.state.borrow_mut();
        let finish = match bio.op {
            Op::Read => {
                state.meter.read += bio.range.len();
                self.model.read(&mut state.dimms, bio.range, now)
            }
            Op::Write | Op::Zero => {
                state.meter.written += bio.range.len();
                self.model.write(&mut state.dimms, bio.range, now)
            }
            // A hint that costs nothing here.
            Op::Discard => now,
            _ => state.dimms.idle_from().max(now),
        };
        state.meter.work(now, finish);
        (finish, self.apply(state, bio))
    }

    /// Applies a change to the content and says what is settled at the request's end.
    fn apply(&self, state: &mut State, bio: &Bio) -> Vec<Written> {
        if self.setup.content.is_described() {
            return Vec::new();
        }
        match bio.op {
            Op::Write | Op::Zero | Op::Discard => {
                let written = (bio.range, self.setup.content.apply(bio));
                if self.setup.cache && !bio.flags.fua {
                    state.cached.push(written);
                    return Vec::new();
                }
                vec![written]
            }
            Op::Flush => std::mem::take(&mut state.cached),
            _ => Vec::new(),
        }
    }
}
