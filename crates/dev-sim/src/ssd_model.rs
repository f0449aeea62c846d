//! `ssd-model`: a solid-state drive with a page-mapped translation layer, dies on channels, a collector, a volatile
//! write buffer, energy and price.
//!
//! Reading order: [`spec`] (numbers), [`ftl`] (what happens on flash), `nand` (how long it takes), [`model`] (both as
//! one function), and here what a [`Planned`] device asks of it.

use std::rc::Rc;

use esker_base::Time;
use esker_block::{Bio, Device, Kind, KindError, Make, Op, OpKind, Param, ParamType, Stat, StatInfo};
use esker_rt::Rt;

use crate::access;
use crate::catalogue::{self, Numbers};
use crate::meter::Bill;
use crate::planned::{AccessPlan, Demand, Model, Planned};
use crate::setup::{self, Setup};

pub mod ftl;
pub mod model;
mod nand;
pub mod spec;
#[cfg(test)]
mod tests;

pub use model::{FtlSetup, SsdModel};
pub use spec::SsdSpec;

use ftl::{Cleaner, Moved};
use model::{Ack, SsdState};

const STATS: &[StatInfo] = &[
    StatInfo::of("write_amplification", "Units programmed for each unit written."),
    StatInfo::of("host_units", "Units that the host wrote."),
    StatInfo::of("moved_units", "Live units that the collector moved."),
    StatInfo::of("padded_units", "Units that were programmed empty to fill a page."),
    StatInfo::of("erased_blocks", "Blocks that were erased."),
    StatInfo::of("erases_mean", "Mean erasures of a block."),
    StatInfo::of("erases_max", "Most erasures of a block."),
    StatInfo::of("dies_busy_s", "Time that dies worked, all together, in seconds."),
    StatInfo::of("buffer_stalls", "Writes that waited for room in the buffer."),
    StatInfo::of("buffered_bytes", "Bytes in the write buffer."),
];

/// The manifest.
pub static KIND: Kind = setup::kind(
    "ssd-model",
    "A modelled solid-state drive: page-mapped FTL, dies on channels, write buffer, TRIM, energy and price.",
    &[
        setup::profile(catalogue::SSDS, "ssd-nvme-2022"),
        setup::SIZE,
        setup::BLOCK,
        Param::with_default(
            "cache",
            ParamType::Choice(&["on", "off", "protected"]),
            "on",
            "`on`: a buffer that a power cut empties acknowledges writes; `off`: flash; `protected`: a buffer that survives.",
        ),
        setup::CONTENT,
        setup::depth("1024", "Commands that the host may have in flight (1 to 65536)."),
        Param::with_default(
            "fill",
            ParamType::Ratio,
            "0",
            "Share of the capacity that holds data when the world begins, written at random until steady; 0 is a new drive.",
        ),
        Param::with_default(
            "cleaner",
            ParamType::Choice(&["greedy", "fifo", "choices"]),
            "greedy",
            "Block that the collector takes: the emptiest, the oldest (`fifo`), or the emptiest of ten drawn at random (`choices`).",
        ),
        Param::with_default(
            "moved",
            ParamType::Choice(&["apart", "mixed"]),
            "apart",
            "`apart`: the collector writes into blocks of its own; `mixed`: behind the last writes of the host.",
        ),
        setup::size("capacity", "Bytes of the whole drive, instead of the profile's."),
        setup::number("spare", "Flash beyond the capacity as a share of it, instead of the profile's."),
        setup::count("channels", "Channels, instead of the profile's."),
        setup::count("dies", "Dies on each channel, instead of the profile's."),
        setup::size("page", "Bytes that a die programs at once, instead of the profile's."),
        setup::size("erase_block", "Bytes that a die erases at once, instead of the profile's."),
        setup::span("read", "Time to sense a page, instead of the profile's."),
        setup::span("program", "Time to program a page, instead of the profile's."),
        setup::span("erase", "Time to erase a block, instead of the profile's."),
        setup::span("suspend", "Longest wait of a read for a program or erasure, instead of the profile's."),
        setup::span("flush", "Time of a flush after the last program, instead of the profile's."),
        setup::size("unit_rate", "Bytes per second of one channel, instead of the profile's."),
        setup::size("host_rate", "Bytes per second of the interface, instead of the profile's."),
        setup::span("overhead", "Controller time in a command's latency, instead of the profile's."),
        setup::span("serial", "Part of the overhead that commands take one by one, instead of the profile's."),
        setup::size("buffer", "Bytes of the write buffer, instead of the profile's."),
        setup::number("die_w", "Watts of a busy die beside the active power, instead of the profile's."),
        setup::ACTIVE_W,
        setup::IDLE_W,
        setup::PRICE_USD,
    ],
    &[OpKind::Read, OpKind::Write, OpKind::Flush, OpKind::Zero, OpKind::Discard, OpKind::Extents],
    STATS,
    build,
);

const DEPTH_MAX: u64 = 65_536;
/// Blocks among which `cleaner=choices` chooses: more gain next to nothing.
const CHOICES: u32 = 10;

fn build(make: &Make<'_>) -> Result<Rc<dyn Device>, KindError> {
    make.rt.use_precise_timers();
    let args = make.args;
    let spec = SsdSpec::of(&Numbers::of_args(&KIND, args)?)?;
    let setup = Setup::of(make, &KIND, spec.capacity, DEPTH_MAX)?;
    let stream = |what: &str| make.rt.rng(&format!("{} {what}", make.name));
    let ftl = FtlSetup {
        cleaner: match args.text("cleaner") {
            "fifo" => Cleaner::Fifo,
            "choices" => Cleaner::Choices(CHOICES, stream("cleaner")),
            _ => Cleaner::Greedy,
        },
        moved: if args.text("moved") == "mixed" { Moved::Mixed } else { Moved::Apart },
        fill: args.float("fill"),
        rng: stream("fill"),
    };
    let protected = args.text("cache") == "protected";
    Ok(Rc::new(Ssd::new(make.rt, SsdModel::new(spec)?, &ftl, setup, protected)))
}

/// A modelled solid-state drive.
pub type Ssd = Planned<SsdModel>;

impl Planned<SsdModel> {
    /// A drive whose world is `rt`, at rest. A `protected` one has power-loss protection: what is in its buffer
    /// survives.
    pub fn new(rt: &Rt, model: SsdModel, ftl: &FtlSetup, setup: Setup, protected: bool) -> Ssd {
        let state = model.at_rest(ftl);
        Planned::over(rt, model, state, setup, protected)
    }
}

impl Model for SsdModel {
    type State = SsdState;

    const ZEROING_WRITES: bool = false;

    #[inline]
    fn plan(&self, state: &mut SsdState, bio: &Bio, demand: Demand, now: Time) -> AccessPlan {
        match bio.op {
            Op::Read => self.read(state, bio.range, now),
            Op::Write => self.write(state, bio.range, if demand.stable { Ack::Stable } else { Ack::Buffered }, now),
            Op::Zero | Op::Discard => self.trim(state, bio.range, now),
            _ if demand.cache => self.flush(state, now),
            Op::Flush | Op::Ranges(_) | Op::Extents => self.command(now),
        }
    }

    fn bill(&self) -> &Bill {
        &self.spec().bill
    }

    fn extra_energy(&self, state: &SsdState) -> f64 {
        self.spec().die_w * state.dies_busy().as_secs_f64()
    }

    fn stats(&self, state: &SsdState) -> Vec<Stat> {
        let (ftl, counts) = (state.ftl(), state.ftl().counts());
        let erases = || ftl.wear().iter().map(|n| f64::from(*n));
        access::stats([
            ("write_amplification", counts.write_amplification()),
            ("host_units", counts.host as f64),
            ("moved_units", counts.moved as f64),
            ("padded_units", counts.padded as f64),
            ("erased_blocks", counts.erased as f64),
            ("erases_mean", erases().sum::<f64>() / ftl.wear().len() as f64),
            ("erases_max", erases().fold(0.0, f64::max)),
            ("dies_busy_s", state.dies_busy().as_secs_f64()),
            ("buffer_stalls", state.stalls() as f64),
            ("buffered_bytes", state.buffered_bytes() as f64),
        ])
    }
}
