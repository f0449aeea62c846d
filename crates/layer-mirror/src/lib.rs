//! `mirror`: the same data on several members (RAID-1).
//!
//! Invariant: never reads a stale member; acknowledges a write that a member missed only after the other superblocks
//! mark that member stale.
//!
//! Reading order: [`superblock`] (the format), [`assemble`] (from superblocks to members), [`intent`] (regions
//! in which members may differ), [`members`] (their states), `run` (requests), `resync` (work in the background),
//! `copy` and `pace` (members that catch up), `scrub`, [`orders`], [`check`].

#![forbid(unsafe_code)]
#![warn(clippy::wildcard_enum_match_arm)]
#![cfg_attr(test, allow(clippy::wildcard_enum_match_arm, reason = "a test panics in such an arm"))]

pub mod assemble;
pub mod check;
mod copy;
mod counts;
pub mod intent;
pub mod members;
pub mod orders;
mod pace;
mod resync;
mod run;
mod scrub;
mod statistics;
pub mod superblock;
#[cfg(test)]
mod tests;

use std::rc::Rc;

use esker_base::{ByteRange, Nanos};
use esker_block::{
    Arity, Bio, BioError, Ctx, Ends, Flow, Kind, KindError, Layer, LayerHandle, Limits, Make, Mark, Op, OpKind, OpSet,
    Orders, Param, ParamType, Routes, Stat, Step, Support, Trouble,
};
use esker_layer_kit::{Io, Stateful, StatefulLayer, Task};

pub use crate::run::Mirror;
use crate::superblock::{DATA_START, MEMBERS_MAX, PAGE, REGIONS_MAX};

const PARAMS: &[Param] = &[
    Param::with_default(
        "region",
        ParamType::Size,
        "1MiB",
        "Bytes per bit of the write-intent bitmap; set when a mirror is made.",
    ),
    Param::with_default(
        "initial",
        ParamType::Choice(&["resync", "assume-clean"]),
        "resync",
        "How blank members of a new mirror become equal: `resync` copies the first to the others, `assume-clean` copies nothing.",
    ),
    Param::with_default("degraded", ParamType::Flag, "false", "Starts without members that may hold newer data."),
    Param::with_default("retries", ParamType::Count, "3", "Retries of a failed write of one member."),
    Param::with_default(
        "clean_after",
        ParamType::Span,
        "1s",
        "Time without writes after which a region counts as equal.",
    ),
    Param::with_default("rescan", ParamType::Span, "1s", "Time between looks for an offline member."),
    Param::with_default("window", ParamType::Count, "8", "Pieces of 256 KiB that a resync copies at once, 1 to 64."),
    Param::with_default(
        "busy",
        ParamType::Count,
        "1",
        "Pieces that a resync copies at once while clients have requests under way.",
    ),
];

/// The manifest.
pub static KIND: Kind = Kind {
    lowers: Arity::AtLeast(1),
    passes: OpSet::WITHOUT_REMAP,
    routes: Routes { forward: Ends::All, generate: Ends::All, spontaneous: true },
    cost: Nanos(200),
    check: Some(check::MEDIA),
    stats: statistics::ALL,
    orders: orders::ALL,
    ..Kind::stateful("mirror", "Holds the same data on several members (RAID-1).", PARAMS, build)
};

/// How a mirror is to behave.
#[derive(Clone, Debug)]
pub struct Config {
    /// Name in the stack text.
    pub name: String,
    /// Lower devices.
    pub lowers: usize,
    /// Bytes of data.
    pub data: u64,
    /// Bytes of a region, if the mirror is new.
    pub region: u64,
    /// Whether blank members of a new mirror are taken as equal.
    pub equal: bool,
    /// Whether to go on without members that may be newer.
    pub degraded: bool,
    /// How often a failed write of one member is tried again.
    pub tries: u32,
    /// Quiet time before a region counts as equal again.
    pub settle: Nanos,
    /// Time between looks for a member that is out.
    pub probe: Nanos,
    /// Bytes of a piece that is copied.
    pub chunk: u64,
    /// Pieces that are copied at once while clients rest.
    pub window: usize,
    /// Pieces that are copied at once beside requests of clients.
    pub busy: usize,
    /// Whether all lower devices can zero.
    pub zeroes: bool,
    /// Whether all lower devices tell where data is.
    pub tells_extents: bool,
    /// Takes orders of operators.
    pub orderly: orders::Orderly,
}

/// Bytes of a piece that is copied to a member that catches up; changes of them wait meanwhile.
const CHUNK: u64 = 256 << 10;
/// Pieces under way at once, at most: 16 MiB of memory.
const WINDOW_MAX: u64 = 64;

/// The layer.
pub type MirrorLayer = StatefulLayer<Mirror>;

fn build(make: &Make<'_>) -> Result<Layer, KindError> {
    let unfit = |what: String| KindError::Unfit(format!("{}: {what}", make.name));
    let (first, rest) = make.lowers.split_first().expect("the manifest demands a lower device");
    let both = rest.iter().fold(first.clone(), |all, next| all.strictest(next));
    let smallest = make.lowers.iter().map(|lower| lower.size).min().unwrap_or(0);
    let block = u64::from(both.block);
    let data = smallest.saturating_sub(DATA_START) / block * block;
    if make.lowers.len() > MEMBERS_MAX {
        return Err(unfit(format!("{} members; at most {MEMBERS_MAX} are possible", make.lowers.len())));
    }
    if data == 0 || block > PAGE as u64 || u64::from(both.transfer_max) < DATA_START {
        return Err(unfit(format!(
            "each member needs more than {DATA_START} bytes, blocks of at most {PAGE} and requests of up to {DATA_START} bytes"
        )));
    }
    let pieces = |name| match make.args.int(name) {
        count @ 1..=WINDOW_MAX => Ok(count as usize),
        count => Err(unfit(format!("{name} = {count}; 1 to {WINDOW_MAX} pieces can be copied at once"))),
    };
    let zeroes = make.lowers.iter().all(|lower| lower.support(OpKind::Zero) == Support::Native);
    let config = Config {
        name: make.name.to_string(),
        lowers: make.lowers.len(),
        data,
        region: region(make.args.int("region"), data, block).ok_or_else(|| unfit("region is too large".to_string()))?,
        equal: make.args.text("initial") == "assume-clean",
        degraded: make.args.flag("degraded"),
        tries: u32::try_from(make.args.int("retries")).unwrap_or(u32::MAX),
        settle: make.args.span("clean_after").max(Nanos::micros(1)),
        probe: make.args.span("rescan").max(Nanos::micros(1)),
        chunk: CHUNK.min(u64::from(both.transfer_max)) / block * block,
        window: pieces("window")?,
        busy: pieces("busy")?,
        zeroes,
        tells_extents: make.lowers.iter().all(|lower| lower.support(OpKind::Extents) != Support::No),
        orderly: orders::Orderly::default(),
    };
    let discard = if zeroes { Support::Native } else { Support::No };
    let limits = Limits { size: data, ranges_max: 0, ..both }.with(OpKind::Discard, discard);
    Ok(Layer::single(MirrorLayer::new(config), limits))
}

/// Bytes of a region: a power of two, at least what was asked for and so large that the superblock has a bit for each.
fn region(asked: u64, data: u64, block: u64) -> Option<u64> {
    data.div_ceil(REGIONS_MAX).max(asked).max(block).checked_next_power_of_two()
}

impl Stateful for Mirror {
    type Config = Config;

    /// The superblocks at the head of each member.
    fn marks(config: &Config) -> Vec<Mark> {
        let range = ByteRange::new(0, DATA_START).expect("it begins at 0");
        let lowers = config.orderly.0.get().map_or(config.lowers, |mirror| mirror.members.total());
        (0..lowers).map(|lower| Mark { lower, range }).collect()
    }

    async fn open(config: Config, io: Io) -> Result<Rc<Mirror>, KindError> {
        let orderly = config.orderly.clone();
        let mirror = Rc::new(Mirror::restore(config, &io).await?);
        let is_first = orderly.0.set(mirror.clone()).is_ok();
        debug_assert!(is_first, "a layer is opened once");
        Ok(mirror)
    }

    fn tasks(self: &Rc<Self>, handle: &LayerHandle) -> Vec<Task> {
        vec![("mirror", Box::pin(resync::run(self.clone(), handle.clone())))]
    }

    fn issue(self: &Rc<Self>, ctx: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        match bio.op {
            Op::Read | Op::Extents => self.read(ctx.below(), bio.take()).map(Flow::Done),
            Op::Write | Op::Zero | Op::Discard => {
                let (mirror, below, bio) = (self.clone(), ctx.below(), bio.take());
                Step::later(async move { Flow::Done(mirror.change(&below, bio).await) })
            }
            Op::Flush => {
                let (mirror, below, bio) = (self.clone(), ctx.below(), bio.take());
                Step::later(async move { Flow::Done(mirror.flush(&below, bio).await) })
            }
            Op::Ranges(_) => Step::Now(Flow::Done(bio.take().fail(BioError::Unsupported(OpKind::Clone)))),
        }
    }

    async fn quiesce(self: &Rc<Self>, io: &Io) -> Result<(), BioError> {
        self.rest(io.below()).await
    }

    fn close(&self) {
        self.background.close();
    }

    fn orders(config: &Config) -> Option<&dyn Orders> {
        Some(&config.orderly)
    }

    fn spares(&self, lower: usize) -> bool {
        self.members.state(lower) == members::State::Out
    }

    fn grows(&self) -> Result<(), String> {
        match self.members.total() {
            MEMBERS_MAX.. => Err(format!("has {MEMBERS_MAX} members, and takes no more")),
            _ if self.latch.is_set() => Err("takes no changes, because it is latched".to_string()),
            _ => Ok(()),
        }
    }

    fn releases(&self, lower: usize) -> bool {
        self.is_detached(lower) && self.is_at_rest()
    }

    fn relowered(&self, gone: Option<usize>) {
        match gone {
            None => self.members.join(),
            Some(lower) => self.members.leave(lower),
        }
        self.look_now.set(true);
        self.background.wake();
    }

    fn stats(&self) -> Vec<Stat> {
        Mirror::stats(self)
    }

    fn trouble(&self) -> Option<Trouble> {
        Mirror::trouble(self)
    }
}
