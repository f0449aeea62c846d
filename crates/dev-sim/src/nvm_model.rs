//! `nvm-model`: byte-addressable non-volatile memory on DIMMs, with latencies and rates that differ for reads and
//! writes.
//!
//! Reading order: [`model`] (numbers and the function), and here what a [`Planned`] device asks of it.

use std::rc::Rc;

use esker_base::Time;
use esker_block::{Bio, Device, Kind, KindError, Make, Op, OpKind, Param, ParamType};
use esker_rt::Rt;

use crate::Content;
use crate::catalogue::{self, Numbers};
use crate::meter::Bill;
use crate::planned::{AccessPlan, Demand, Model, Planned};
use crate::setup::{self, Setup};

pub mod model;
#[cfg(test)]
mod tests;

use model::NvmState;
pub use model::{NvmModel, NvmSpec};

/// The manifest.
pub static KIND: Kind = setup::kind(
    "nvm-model",
    "Modelled non-volatile memory: DIMMs with asymmetric latency and bandwidth, access in lines, energy and price.",
    &[
        setup::profile(catalogue::NVM, "nvm-optane-2019"),
        setup::SIZE,
        Param::with_default(
            "block",
            ParamType::Size,
            "256",
            "Logical block, a power of two from 64 to 64KiB; a power cut tears writes at it.",
        ),
        Param::with_default(
            "cache",
            ParamType::Choice(&["off", "on"]),
            "off",
            "`off`: writes are durable on completion (ADR); `on`: after a flush, as in CPU caches that a power cut empties.",
        ),
        setup::CONTENT,
        setup::depth("256", "Requests that the host may have in flight (1 to 4096)."),
        setup::size("capacity", "Bytes of all DIMMs, instead of the profile's."),
        setup::count("dimms", "DIMMs that share the addresses, instead of the profile's."),
        setup::size("interleave", "Consecutive bytes on one DIMM, instead of the profile's."),
        setup::size("line", "Bytes that a DIMM reads or writes at once, instead of the profile's."),
        setup::span("read", "Latency of a read, instead of the profile's."),
        setup::span("buffered", "Latency of a read of the line that was used last, instead of the profile's."),
        setup::span("write", "Latency of a write, instead of the profile's."),
        setup::size("read_rate", "Bytes per second that one DIMM reads, instead of the profile's."),
        setup::size("write_rate", "Bytes per second that one DIMM writes, instead of the profile's."),
        setup::ACTIVE_W,
        setup::IDLE_W,
        setup::PRICE_USD,
    ],
    &[OpKind::Read, OpKind::Write, OpKind::Flush, OpKind::Zero, OpKind::Discard, OpKind::Extents],
    &[],
    build,
);

const DEPTH_MAX: u64 = 4096;

fn build(make: &Make<'_>) -> Result<Rc<dyn Device>, KindError> {
    make.rt.use_precise_timers();
    let args = make.args;
    let spec = NvmSpec::of(&Numbers::of_args(&KIND, args)?)?;
    let (depth, block) = (args.int("depth"), args.int("block"));
    if !(1..=DEPTH_MAX).contains(&depth) {
        return Err(KindError::Unfit(format!("nvm-model: depth = {depth}; choose 1 to {DEPTH_MAX}")));
    }
    if !block.is_power_of_two() || !(64..=65_536).contains(&block) {
        return Err(KindError::Unfit(format!("nvm-model: block = {block} is no power of two from 64 to 65536")));
    }
    let block = block as u32;
    let setup = Setup {
        size: setup::size_of(make, &KIND, spec.capacity, block)?,
        block,
        depth: depth as u32,
        cache: args.text("cache") == "on",
        content: Content::of(make, block),
    };
    Ok(Rc::new(Nvm::new(make.rt, NvmModel::new(spec)?, setup)))
}

/// Modelled non-volatile memory.
pub type Nvm = Planned<NvmModel>;

impl Planned<NvmModel> {
    /// Memory whose world is `rt`, at rest.
    pub fn new(rt: &Rt, model: NvmModel, setup: Setup) -> Nvm {
        let state = model.at_rest();
        Planned::over(rt, model, state, setup, false)
    }
}

impl Model for NvmModel {
    type State = NvmState;

    const ZEROING_WRITES: bool = true;

    fn plan(&self, state: &mut NvmState, bio: &Bio, _: Demand, now: Time) -> AccessPlan {
        let at = |finish| AccessPlan { finish, stable: None, closed: None };
        match bio.op {
            Op::Read => at(self.read(state, bio.range, now)),
            Op::Write | Op::Zero => at(self.write(state, bio.range, now)),
            // A hint that costs nothing here.
            Op::Discard => at(now),
            Op::Flush | Op::Ranges(_) | Op::Extents => {
                let finish = state.idle_from().max(now);
                AccessPlan { closed: Some(finish), ..at(finish) }
            }
        }
    }

    fn bill(&self) -> &Bill {
        &self.spec().bill
    }
}
