//! `dedup`: keeps equal blocks once. Each block of the volume leads to a data block that others may lead to as well.
//!
//! Invariant: never changes or frees a data block to which durable or mapped state refers. So a power cut loses at most
//! what was not flushed, and never mixes blocks up.
//!
//! Reading order: [`layout`] (where everything lies), [`superblock`], [`journal`], [`index`] (the format),
//! [`cache`] and [`space`] (the tables in memory), [`store`] (transitions, commits, checkpoints), [`run`] (requests),
//! [`check`].

#![forbid(unsafe_code)]
#![warn(clippy::wildcard_enum_match_arm)]
#![cfg_attr(test, allow(clippy::wildcard_enum_match_arm, reason = "a test panics in such an arm"))]

pub mod cache;
pub mod check;
pub mod index;
pub mod journal;
pub mod layout;
pub mod run;
pub mod space;
mod statistics;
pub mod store;
pub mod superblock;
#[cfg(test)]
mod tests;

use std::rc::Rc;

use esker_base::{ByteRange, Nanos};
use esker_block::{
    Bio, BioError, Ctx, Done, Flow, Kind, KindError, Layer, Limits, Make, Mark, Op, OpKind, OpSet, Param, ParamType,
    Stat, Step, Support, Trouble,
};
use esker_framing::cell::{CELL, PAGE};
use esker_layer_kit::{Io, Stateful, StatefulLayer};

use crate::cache::PAGES_MIN;
use crate::layout::Layout;
use crate::run::Dedup;
use crate::store::{Config, OpenError, Store};

const PARAMS: &[Param] = &[
    Param::with_default(
        "block",
        ParamType::Size,
        "4KiB",
        "Bytes of a block, at least the block below; set when a volume is made.",
    ),
    Param::optional(
        "size",
        ParamType::Size,
        "Size of the volume, set when it is made, possibly above that of the lower device; by default all that fits without \
         duplicates.",
    ),
    Param::with_default("cache", ParamType::Size, "32MiB", "Bytes of tables in memory."),
    Param::with_default("verify", ParamType::Flag, "false", "Compares bytes before two blocks share one data block."),
];

/// Records that wait for a commit at most: what a power cut can take from a client that never flushes.
const PENDING_MAX: usize = 4096;

/// The manifest.
pub static KIND: Kind = Kind {
    passes: OpSet::WITHOUT_REMAP,
    needs_bytes: true,
    cost: Nanos(400),
    check: Some(check::MEDIA),
    stats: statistics::ALL,
    ..Kind::stateful("dedup", "Stores equal blocks once.", PARAMS, build)
};

/// The layer.
pub type DedupLayer = StatefulLayer<Dedup>;

fn build(make: &Make<'_>) -> Result<Layer, KindError> {
    let (config, lower) = (config(make)?, &make.lowers[0]);
    let block = config.layout.block as u32;
    let limits = Limits {
        size: config.layout.size(),
        block,
        atomic: block,
        preferred: lower.preferred.max(block),
        transfer_max: lower.transfer_max / block * block,
        volatile_cache: true,
        discard: block,
        ranges_max: 0,
        remap: block,
        described: false,
        ops: lower.ops,
    };
    let limits = [OpKind::Zero, OpKind::Discard, OpKind::Extents]
        .into_iter()
        .fold(limits, |limits, kind| limits.with(kind, Support::Native));
    Ok(Layer::single(DedupLayer::new(config), limits))
}

fn config(make: &Make<'_>) -> Result<Config, KindError> {
    let unfit = |what: String| KindError::Unfit(format!("{}: {what}", make.name));
    let (lower, block) = (&make.lowers[0], make.args.int("block"));
    if !block.is_power_of_two() || !(CELL as u64..=1 << 20).contains(&block) || block < u64::from(lower.block) {
        let least = lower.block.max(CELL as u32);
        return Err(unfit(format!("block={block} is not a power of two from {least} (what is below) to 1MiB")));
    }
    if lower.block as usize > PAGE || (lower.atomic as usize) < CELL || u64::from(lower.transfer_max) < block {
        return Err(unfit(format!(
            "the lower device needs blocks of at most {PAGE} bytes, an atomic unit of {CELL} bytes, and requests of up to \
             {block} bytes"
        )));
    }
    let size = make.args.int_opt("size");
    if size.is_some_and(|size| !size.is_multiple_of(block)) {
        return Err(unfit(format!("size is no multiple of block={block}")));
    }
    let layout = Layout::plan(lower.size, block, size).map_err(|error| unfit(error.to_string()))?;
    Ok(Config {
        name: make.name.to_string(),
        layout,
        device: lower.size,
        unit: u64::from(lower.block).max(CELL as u64) / CELL as u64,
        transfer_max: u64::from(lower.transfer_max),
        zeroes: lower.support(OpKind::Zero) != Support::No,
        pages_max: (make.args.int("cache") as usize / PAGE).max(PAGES_MIN),
        pending_max: PENDING_MAX,
        refs_max: u32::MAX,
        verify: make.args.flag("verify"),
    })
}

impl Stateful for Dedup {
    type Config = Config;

    const COMPLETES: bool = true;

    /// The two superblocks.
    fn marks(_: &Config) -> Vec<Mark> {
        vec![Mark { lower: 0, range: ByteRange::new(0, layout::SUPERBLOCKS).expect("it begins at 0") }]
    }

    async fn open(config: Config, io: Io) -> Result<Rc<Dedup>, KindError> {
        let name = config.name.clone();
        let store = Store::open(config, &io).await;
        let refused =
            |error: OpenError| KindError::of_medium(error.is_damage(), format!("{name}: the lower device {error}"));
        let store = store.map_err(refused)?;
        Ok(Rc::new(Dedup::new(store)))
    }

    fn issue(self: &Rc<Self>, ctx: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        if matches!(bio.op, Op::Read | Op::Extents) {
            return self.lead(ctx, bio);
        }
        let (dedup, io, bio) = (self.clone(), Io::of(ctx), bio.take());
        Step::later(async move { Flow::Done(dedup.serve(&io, bio).await) })
    }

    fn complete(&self, ctx: &mut Ctx<'_>, _: &mut Done) {
        self.locks.complete(ctx);
    }

    async fn quiesce(self: &Rc<Self>, io: &Io) -> Result<(), BioError> {
        self.store().quiesce(io).await
    }

    fn stats(&self) -> Vec<Stat> {
        Dedup::stats(self)
    }

    fn trouble(&self) -> Option<Trouble> {
        self.store().latch.trouble()
    }
}
