//! `dedup`: keeps equal blocks once. Each block of the volume leads to a data block that others may lead to as well.
//!
//! Invariant: never changes or gives out a data block to which anything durable or mapped still leads; so a power cut
//! loses at most what was not flushed, and never mixes blocks up.
//!
//! Reading order: [`layout`] (where everything lies), [`cell`], [`superblock`], [`journal`], [`index`] (the format),
//! [`cache`] and [`space`] (the tables in memory), [`store`] (transitions, commits, checkpoints), [`run`] (requests),
//! [`check`].

#![forbid(unsafe_code)]

pub mod cache;
pub mod cell;
pub mod check;
pub mod index;
pub mod journal;
pub mod layout;
pub mod run;
pub mod space;
pub mod store;
pub mod superblock;
#[cfg(test)]
mod tests;

use std::cell::OnceCell;
use std::rc::Rc;

use esker_base::{ByteRange, Nanos};
use esker_block::locks::Mode;
use esker_block::{
    Below, Bio, BioError, Ctx, Done, Extension, Flow, Kind, KindError, Layer, Limits, Make, Mark, Op, OpKind, OpSet,
    Opening, Param, ParamType, Role, Stat, Step, Support, Trouble,
};
use esker_layer_kit::Io;
use esker_rt::Rt;
use esker_rt::mem::Pool;

use crate::cache::PAGES_MIN;
use crate::cell::{CELL, PAGE};
use crate::layout::Layout;
use crate::run::Dedup;
use crate::store::{Config, Store};

const PARAMS: &[Param] = &[
    Param::with_default("block", ParamType::Size, "4KiB", "Bytes of a block; set when a volume is made."),
    Param::optional(
        "size",
        ParamType::Size,
        "Size of the volume, set when it is made; left out, as much as the lower end has room for without duplicates.",
    ),
    Param::with_default("cache", ParamType::Size, "32MiB", "Bytes of tables in memory."),
    Param::with_default("verify", ParamType::Flag, "false", "Compares bytes before blocks count as equal."),
];

const PASSES: OpSet =
    OpSet::of(&[OpKind::Read, OpKind::Write, OpKind::Flush, OpKind::Zero, OpKind::Discard, OpKind::Extents]);

/// Records that wait for a commit at most: what a power cut can take from a client that never flushes.
const PENDING_MAX: usize = 4096;

/// The manifest.
pub static KIND: Kind = Kind {
    passes: PASSES,
    role: Role::Modifier,
    needs_bytes: true,
    medium: esker_block::Medium::Tables,
    transparent: false,
    cost: Nanos(400),
    check: Some(check::MEDIA),
    ..Kind::layer("dedup", "Keeps equal blocks once.", PARAMS, build)
};

struct Extended {
    config: Config,
    /// Set when it is opened.
    opened: Rc<OnceCell<Opened>>,
}

struct Opened {
    dedup: Rc<Dedup>,
    rt: Rt,
    pool: Pool,
}

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
    Ok(Layer::single(Extended { config, opened: Rc::default() }, limits))
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
            "the lower end needs blocks of at most {PAGE} bytes, {CELL} that are written whole, and requests of up to {block}"
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

impl Extended {
    fn dedup(&self) -> &Rc<Dedup> {
        &self.opened.get().expect("the stack opens a layer before its first request").dedup
    }

    /// Answers what lies in one piece below by leading it there, and everything else later.
    fn read(&self, ctx: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        let dedup = self.dedup().clone();
        let ticket = dedup.locks.enter([bio.range], Mode::Shared);
        if bio.op == Op::Read
            && dedup.locks.is_granted(ticket)
            && let Some(at) = dedup.one_run(bio.range)
        {
            bio.range = ByteRange::new(at, bio.len()).expect("inside the lower end");
            ctx.scratch = ticket;
            return Step::Now(Flow::Down);
        }
        let (io, bio) = (Io::of(ctx), bio.take());
        Step::later(async move { Flow::Done(dedup.serve_claimed(&io, bio, ticket).await) })
    }
}

impl Extension for Extended {
    /// The superblocks record the size, and the tables are laid out for it.
    fn follows(&self, _: usize) -> bool {
        false
    }

    /// The two superblocks.
    fn marks(&self) -> Vec<Mark> {
        vec![Mark { lower: 0, range: ByteRange::new(0, layout::SUPERBLOCKS).expect("it begins at 0") }]
    }

    fn open(&self, opening: Opening) -> Step<Result<(), KindError>> {
        let (config, slot) = (self.config.clone(), self.opened.clone());
        Step::later(async move {
            let Opening { rt, pool, below, .. } = opening;
            let name = config.name.clone();
            let store = Store::open(config, &Io::new(&rt, &pool, below)).await;
            let store = store.map_err(|error| KindError::Outside(format!("{name}: the lower end {error}")))?;
            let is_first = slot.set(Opened { dedup: Rc::new(Dedup::new(store)), rt, pool }).is_ok();
            debug_assert!(is_first, "a layer is opened once");
            Ok(())
        })
    }

    fn issue(&self, ctx: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        if matches!(bio.op, Op::Read | Op::Extents) {
            return self.read(ctx, bio);
        }
        let (dedup, io, bio) = (self.dedup().clone(), Io::of(ctx), bio.take());
        Step::later(async move { Flow::Done(dedup.serve(&io, bio).await) })
    }

    fn complete(&self, ctx: &mut Ctx<'_>, _: &mut Done) {
        self.dedup().locks.complete(ctx);
    }

    fn settle(&self, below: Below) -> Step<Result<(), BioError>> {
        let opened = self.opened.clone();
        Step::later(async move {
            let Some(Opened { dedup, rt, pool }) = opened.get() else { return Ok(()) };
            dedup.store().settle(&Io::new(rt, pool, below)).await
        })
    }

    fn stats(&self) -> Vec<Stat> {
        self.opened.get().map_or_else(Vec::new, |opened| opened.dedup.stats())
    }

    fn trouble(&self) -> Option<Trouble> {
        self.opened.get()?.dedup.store().latch.trouble()
    }
}
