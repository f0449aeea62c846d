//! `offload`: while a device should rest, what is written to it goes into a log on another one, and home again later.
//!
//! Invariant: a byte whose newest content is not in the log has no record in it; answers no write before a restart
//! would find it as the medium promises. So replaying the log never brings back what was overwritten.
//!
//! Reading order: [`superblock`] (where the log begins), [`format`] (records), [`log_scan`] (from bytes to records),
//! [`map`] (where the newest bytes are), [`log`] (the log in memory), `open`, `run` (requests), `append` (into the
//! log), `write_back` (home again), [`check`].

#![forbid(unsafe_code)]
#![warn(clippy::wildcard_enum_match_arm)]
#![cfg_attr(test, allow(clippy::wildcard_enum_match_arm, reason = "a test panics in such an arm"))]

mod append;
pub mod check;
pub mod format;
pub mod log;
pub mod log_scan;
pub mod map;
mod open;
mod run;
mod statistics;
pub mod superblock;
#[cfg(test)]
mod tests;
mod write_back;

use std::rc::Rc;

use esker_base::{ByteRange, Nanos};
use esker_block::{
    Arity, Bio, BioError, Ctx, Done, Ends, Flow, Follows, Kind, KindError, Layer, LayerHandle, Limits, Make, Mark, Op,
    OpKind, OpSet, Param, ParamType, Routes, Stat, Step, Support, Trouble,
};
use esker_layer_kit::{Io, Stateful, StatefulLayer, Task};

use crate::format::AREA_START;
use crate::run::Offload;
use crate::superblock::AREA_MAX;

const PARAMS: &[Param] = &[
    Param::with_default(
        "idle_after",
        ParamType::Span,
        "30s",
        "Time without reads after which home may stay idle; 0s: at once.",
    ),
    Param::with_default(
        "high_watermark",
        ParamType::Ratio,
        "0.75",
        "Share of the log in use at which home is woken for write-back.",
    ),
    Param::with_default("write_back", ParamType::Flag, "false", "Writes everything back and off-loads nothing."),
    Param::with_default("index_max", ParamType::Count, "1000000", "Most records and ranges in memory."),
];

/// The manifest.
pub static KIND: Kind = Kind {
    lowers: Arity::AtLeast(2),
    passes: OpSet::WITHOUT_REMAP,
    routes: Routes { forward: Ends::All, generate: Ends::All, spontaneous: true },
    // A record has a checksum of its payload.
    needs_bytes: true,
    cost: Nanos(300),
    check: Some(check::MEDIA),
    stats: statistics::ALL,
    follows: Follows::All,
    ..Kind::stateful("offload", "Lets a device stay idle: writes go into a log on another device.", PARAMS, build)
};

/// The lower device that should rest.
const HOME: usize = 0;
/// The one with the log.
const AWAY: usize = 1;

/// Bytes that are read of the log, or go home, at once at most.
const BATCH: u64 = 1 << 20;

/// How off-loading is to behave.
#[derive(Clone, Debug)]
pub struct Config {
    /// Name in the stack text.
    name: String,
    /// Bytes of the volume, and of its logical block.
    size: u64,
    block: u32,
    /// Bytes of the area of records.
    area: u64,
    rest: Nanos,
    full: f64,
    drain: bool,
    entries: usize,
    /// Bytes that are read of the log, or go home, at once: a multiple of the block.
    batch: u64,
}

/// The layer.
pub type OffloadLayer = StatefulLayer<Offload>;

fn build(make: &Make<'_>) -> Result<Layer, KindError> {
    let unfit = |what: String| KindError::Unfit(format!("{}: {what}", make.name));
    let [home, away] = make.lowers else {
        return Err(unfit("off-loading needs a home and a device for the log: `on home, log`".to_string()));
    };
    let both = home.strictest(away);
    let block = u64::from(both.block);
    if block > format::SLOT || home.atomic < both.block {
        let what = "blocks are at most 4096 bytes, and home must write those of the log whole; put `align` on the log";
        return Err(unfit(what.to_string()));
    }
    let (size, area) = (home.size / block * block, away.size.saturating_sub(AREA_START).min(AREA_MAX) / block * block);
    if size == 0 || area < 2 * block || u64::from(both.transfer_max) < AREA_START {
        let least = AREA_START + 2 * block;
        return Err(unfit(format!("the log needs at least {least} bytes, and requests of up to {AREA_START}")));
    }
    let zero = home.support(OpKind::Zero);
    let discard = if zero == Support::No { Support::No } else { home.support(OpKind::Discard) };
    let config = Config {
        name: make.name.to_string(),
        size,
        block: both.block,
        area,
        rest: make.args.span("idle_after"),
        full: make.args.float("high_watermark"),
        drain: make.args.flag("write_back"),
        entries: usize::try_from(make.args.int("index_max")).unwrap_or(usize::MAX),
        batch: BATCH.min(u64::from(both.transfer_max)) / block * block,
    };
    let limits = Limits {
        size,
        atomic: home.atomic.max(both.block),
        // A record's header is written with its payload.
        transfer_max: both.transfer_max - both.block,
        ranges_max: 0,
        described: false,
        ..both
    };
    let extents = home.support(OpKind::Extents);
    let limits = limits.with(OpKind::Zero, zero).with(OpKind::Discard, discard).with(OpKind::Extents, extents);
    Ok(Layer::single(OffloadLayer::new(config), limits))
}

impl Stateful for Offload {
    type Config = Config;

    const COMPLETES: bool = true;

    /// The superblocks of the log. Home keeps its data where it was.
    fn marks(_: &Config) -> Vec<Mark> {
        vec![Mark { lower: AWAY, range: ByteRange::new(0, AREA_START).expect("it begins at 0") }]
    }

    async fn open(config: Config, io: Io) -> Result<Rc<Offload>, KindError> {
        Ok(Rc::new(Offload::restore(config, &io).await?))
    }

    fn tasks(self: &Rc<Self>, handle: &LayerHandle) -> Vec<Task> {
        vec![("offload", Box::pin(write_back::run(self.clone(), handle.clone())))]
    }

    fn issue(self: &Rc<Self>, ctx: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        match bio.op {
            Op::Read | Op::Extents => self.read(ctx, bio),
            Op::Write | Op::Zero | Op::Discard => self.change(ctx, bio),
            Op::Flush => {
                let (offload, io, bio) = (self.clone(), Io::of(ctx), bio.take());
                Step::later(async move { Flow::Done(offload.flush(&io, bio).await) })
            }
            Op::Ranges(_) => Step::Now(Flow::Done(bio.take().fail(BioError::Unsupported(OpKind::Clone)))),
        }
    }

    fn complete(&self, ctx: &mut Ctx<'_>, _: &mut Done) {
        self.on_complete(std::mem::take(&mut ctx.scratch));
    }

    async fn quiesce(self: &Rc<Self>, io: &Io) -> Result<(), BioError> {
        self.rest(io).await
    }

    fn close(&self) {
        self.background.close();
    }

    fn stats(&self) -> Vec<Stat> {
        Offload::stats(self)
    }

    fn trouble(&self) -> Option<Trouble> {
        Offload::trouble(self)
    }
}
