//! Kind `measured`: a device whose answers take the times that a real one was measured to take. Only twins contain it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use esker_base::{Nanos, Stream};
use esker_block::store::SparseStore;
use esker_block::{
    Bio, BioError, Buf, Device, Done, Kind, KindError, Limits, Make, Op, OpKind, Param, ParamType, Reply, Step, Support,
};
use esker_rt::Rt;

use super::times::{DeviceTimes, Mix, OpName, group_of};

const PARAMS: &[Param] = &[
    Param::required("size", ParamType::Size, "Size of the device."),
    Param::required("times", ParamType::Text, "The times, as JSON."),
];

/// The manifest.
pub(super) static KIND: Kind =
    Kind::device("measured", "Answers after times that were measured on a real device.", PARAMS, build);

fn build(make: &Make<'_>) -> Result<Rc<dyn Device>, KindError> {
    let times: DeviceTimes =
        serde_json::from_str(make.args.text("times")).map_err(|e| KindError::Unfit(format!("times: {e}")))?;
    let limits = Limits { described: true, ..Limits::plain(make.args.int("size"), times.block) };
    // Nothing is known of its writes: they are told as left out, not predicted as something else.
    let unknown = [OpKind::Write, OpKind::Zero, OpKind::Discard].into_iter().filter(|_| times.is_only_read());
    let limits = unknown.fold(limits, |limits, kind| limits.with(kind, Support::No));
    let state = State {
        rng: make.rt.rng(make.name),
        mix: Mix::default(),
        flight: BTreeMap::new(),
        store: SparseStore::default(),
    };
    Ok(Rc::new(Measured { core: Rc::new(Core { rt: make.rt.clone(), times, state: RefCell::new(state) }), limits }))
}

struct Measured {
    core: Rc<Core>,
    limits: Limits,
}

struct Core {
    rt: Rt,
    times: DeviceTimes,
    state: RefCell<State>,
}

struct State {
    rng: Stream,
    mix: Mix,
    /// Requests in flight by operation and length.
    flight: BTreeMap<(OpName, u64), u32>,
    /// Bytes of payload that layers above made real; described payload is not kept.
    store: SparseStore,
}

impl Device for Measured {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn submit(&self, bio: Bio) -> Step<Done> {
        let core = &self.core;
        let own = match bio.op {
            Op::Read => (OpName::Read, bio.len()),
            Op::Write => (OpName::Write, bio.len()),
            Op::Flush | Op::Zero | Op::Discard => (OpName::Flush, 0),
            Op::Extents => return Step::Now(core.state.borrow_mut().answer(bio)),
            Op::Ranges(_) => return Step::Now(bio.fail(BioError::Unsupported(OpKind::Clone))),
        };
        let span = core.draw(own);
        if core.times.on_cpu {
            core.rt.charge(span);
            return Step::Now(core.state.borrow_mut().answer(bio));
        }
        let core = core.clone();
        *core.state.borrow_mut().flight.entry(own).or_default() += 1;
        let sleep = core.rt.sleep(span);
        Step::later(async move {
            sleep.await;
            let mut state = core.state.borrow_mut();
            state.left(own);
            state.answer(bio)
        })
    }
}

impl Core {
    /// How long a request takes that comes now.
    fn draw(&self, own: (OpName, u64)) -> Nanos {
        let state = &mut *self.state.borrow_mut();
        let others: Vec<_> = state.flight.iter().map(|((op, len), count)| (*op, *len, *count)).collect();
        let group = group_of(state.rng.unit());
        let mixed = state.rng.chance(state.mix.of(own.0));
        Nanos(self.times.service(own, mixed, &others, group).round() as u64)
    }
}

impl State {
    fn left(&mut self, own: (OpName, u64)) {
        if let Some(count) = self.flight.get_mut(&own) {
            *count -= 1;
            if *count == 0 {
                self.flight.remove(&own);
            }
        }
    }

    fn answer(&mut self, mut bio: Bio) -> Done {
        match bio.op {
            Op::Write if !bio.buf.is_described() => self.store.write_buf(bio.range.start(), &bio.buf),
            Op::Zero | Op::Discard => self.store.zero(bio.range),
            Op::Read if bio.buf.is_described() => bio.buf = Buf::described(bio.buf.len(), 0),
            Op::Read => self.store.read_buf(bio.range.start(), &mut bio.buf),
            Op::Extents => {
                let extents = self.store.extents(bio.range);
                return Done { result: Ok(Reply::Extents(extents.into())), buf: bio.buf };
            }
            Op::Write | Op::Flush | Op::Ranges(_) => {}
        }
        bio.ok()
    }
}
