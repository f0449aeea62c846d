//! `logvol`: a log-structured volume whose map from logical to physical blocks can be changed from outside: cloning,
//! moving and deleting ranges costs no data, is atomic and durable (ANViL).
//!
//! Invariant: acknowledges a write after those with lower numbers; never shows or keeps a part of a vector; never
//! reuses a segment that a reader, the newest durable checkpoint or the log behind it needs.
//!
//! Reading order: [`number`], [`format`](mod@format) (what lies on the medium), [`map`], [`apply`] (what records do to
//! it), [`segments`], [`pages`], [`store`]. Then [`volume`] (requests), `log` (batches), `shortage` (a device below
//! without space), `read`, `part` (of blocks), [`compare`]. Then [`checkpoint`], [`map_load`], [`recover`],
//! [`collect`] and [`check`]. On these stand [`thin`] (named thin volumes, by `esker-layer-thin`) and [`space`] (what
//! they take). The design, with what it owes to the thesis: `docs/design/logvol.md`.

#![forbid(unsafe_code)]
#![warn(clippy::wildcard_enum_match_arm)]
#![cfg_attr(test, allow(clippy::wildcard_enum_match_arm, reason = "a test panics in such an arm"))]

mod amplification;
pub mod apply;
pub mod check;
pub mod checkpoint;
pub mod collect;
pub mod compare;
mod discard;
pub mod format;
mod log;
pub mod map;
pub mod map_load;
pub mod number;
pub mod open;
pub mod pages;
mod part;
mod read;
pub mod recover;
mod remap;
mod returns;
pub mod segments;
mod shortage;
pub mod space;
mod statistics;
pub mod store;
#[cfg(test)]
mod tests;
pub mod thin;
pub mod volume;

use std::rc::Rc;

use esker_base::{ByteRange, Nanos};
use esker_block::{
    Bio, BioError, Ctx, Done, Ends, Flow, Follows, Kind, KindError, Layer, LayerHandle, Make, Mark, Op, Orders, Param,
    ParamType, Routes, Sizing, Stat, Step, Trouble,
};
use esker_layer_kit::{Io, Stateful, StatefulLayer, Task};

use thin::Named;
pub use volume::{Config, Volume};

const PARAMS: &[Param] = &[
    Param::optional("size", ParamType::Size, "Bytes of exported logical space; by default 2^48 blocks."),
    Param::with_default(
        "block",
        ParamType::Size,
        "4KiB",
        "Unit of mapping, 512 or 4096 bytes; set when a volume is made.",
    ),
    Param::optional(
        "segment",
        ParamType::Size,
        "Unit of log space, a power of two up to 1GiB; set when a volume is made. By default about a thousandth of the device, 4MiB to 128MiB.",
    ),
    Param::with_default(
        "page",
        ParamType::Size,
        "4KiB",
        "Bytes of a page of the stored map, a power of two up to 64KiB; set when a volume is made.",
    ),
    Param::with_default("checkpoint_interval", ParamType::Size, "1GiB", "Bytes of log after which the map is stored."),
    Param::with_default(
        "gc_policy",
        ParamType::Choice(&["timestamp", "greedy", "cost-benefit", "cost-benefit-2u", "adaptive"]),
        "adaptive",
        "Choice of victims of the garbage collection.",
    ),
    Param::optional(
        "gc_sample",
        ParamType::Count,
        "Segments drawn at random of which the best is the victim, 1 to 1024; by default all.",
    ),
    Param::with_default(
        "gc_separation",
        ParamType::Choice(&["none", "lifetime"]),
        "lifetime",
        "Blocks that share segments: all new and all moved ones (`none`), or those that will probably live equally long (`lifetime`).",
    ),
    Param::with_default("gc_start", ParamType::Ratio, "0.9", "Share of used space at which garbage collection begins."),
    Param::with_default(
        "gc_bandwidth",
        ParamType::Ratio,
        "0.9",
        "Share of the device that garbage collection has at 99.3 % of used space.",
    ),
    Param::with_default(
        "gc_memory",
        ParamType::Size,
        "64MiB",
        "Memory for lists of mappings into victims, at least 64KiB.",
    ),
    Param::with_default("gc_threads", ParamType::Count, "2", "Workers that walk the map together, 1 to 64."),
];

/// The manifest.
pub static KIND: Kind = Kind {
    routes: Routes { forward: Ends::All, generate: Ends::All, spontaneous: true },
    needs_bytes: true,
    cost: Nanos(600),
    check: Some(check::MEDIA),
    stats: statistics::ALL,
    follows: Follows::All,
    ..Kind::stateful(
        "logvol",
        "A log-structured volume: clones, moves and deletes ranges without copying.",
        PARAMS,
        build,
    )
};

/// The layer of both kinds.
pub type LogvolLayer = StatefulLayer<Served>;

/// What a volume in a stack is to be: used as a whole, or holding named volumes.
#[derive(Clone)]
pub struct Setup {
    config: Config,
    named: Option<Named>,
}

/// A volume as it stands in a stack.
pub struct Served {
    volume: Rc<Volume>,
    named: Option<Named>,
}

fn build(make: &Make<'_>) -> Result<Layer, KindError> {
    let (config, limits) = open::configure(make, u32::MAX)?;
    Ok(Layer::single(LogvolLayer::new(Setup { config, named: None }), limits))
}

impl Stateful for Served {
    type Config = Setup;

    const COMPLETES: bool = true;

    /// The slots of its superblock.
    fn marks(setup: &Setup) -> Vec<Mark> {
        let slots = format::slots_of(0, setup.config.medium).into_iter();
        let mark = |at| Mark { lower: 0, range: ByteRange::new(at, format::SLOTS_BYTES).expect("inside the device") };
        slots.map(mark).collect()
    }

    async fn open(setup: Setup, io: Io) -> Result<Rc<Served>, KindError> {
        let Setup { config, named } = setup;
        let name = config.name.clone();
        let outside = |error: &dyn std::fmt::Display| KindError::Outside(format!("{name}: {error}"));
        let refused = |error: open::OpenError| {
            let is_damage = matches!(&error, open::OpenError::Recover(error) if error.is_damage());
            KindError::of_medium(is_damage, format!("{name}: {error}"))
        };
        let volume = Volume::open(config, io.rt(), io.pool(), io.below().clone()).await.map_err(refused)?;
        let usable = match &named {
            Some(named) => named.open(&volume, io.below()).await,
            None => esker_layer_thin::demand_none(&volume, io.below()).await,
        };
        usable.map_err(|e| outside(&e))?;
        Ok(Rc::new(Served { volume, named }))
    }

    fn tasks(self: &Rc<Self>, handle: &LayerHandle) -> Vec<Task> {
        let (volume, place) = (|| self.volume.clone(), || handle.clone());
        vec![
            ("volume", Box::pin(checkpoint::run(volume(), place()))),
            ("scanner", Box::pin(collect::scan_on(volume(), place()))),
            ("cleaner", Box::pin(collect::clean_on(volume(), place()))),
            ("eraser", Box::pin(discard::erase_on(volume(), place()))),
            ("returner", Box::pin(returns::run(volume(), place()))),
        ]
    }

    fn issue(self: &Rc<Self>, ctx: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        let volume = &self.volume;
        if let Some(named) = &self.named
            && let Err(error) = named.redirect(ctx.port, bio)
        {
            return Step::Now(Flow::Done(bio.take().fail(error)));
        }
        match bio.op {
            Op::Read => return volume.read(ctx, bio),
            Op::Extents => {
                let reply = volume.extents(bio);
                return Step::Now(Flow::Done(Done { result: Ok(reply), buf: bio.take().buf }));
            }
            Op::Write | Op::Zero | Op::Discard | Op::Ranges(_) | Op::Flush => {}
        }
        let (volume, below, bio) = (volume.clone(), ctx.below(), bio.take());
        if volume.is_partial(&bio) {
            return Step::later(async move { Flow::Done(volume.change_part(below, bio).await) });
        }
        Step::later(async move { Flow::Done(volume.change(below, bio).await) })
    }

    fn complete(&self, ctx: &mut Ctx<'_>, _: &mut Done) {
        self.volume.end_read(ctx.scratch);
    }

    async fn quiesce(self: &Rc<Self>, io: &Io) -> Result<(), BioError> {
        let store = self.volume.store(io.below().clone());
        self.volume.checkpoint(&store).await?;
        self.volume.erase_all(&store).await;
        Ok(())
    }

    fn close(&self) {
        self.volume.close();
    }

    fn sizing(setup: &Setup) -> Option<&dyn Sizing> {
        setup.named.as_ref().map(|named| named as &dyn Sizing)
    }

    fn orders(setup: &Setup) -> Option<&dyn Orders> {
        setup.named.as_ref().map(|named| named as &dyn Orders)
    }

    fn stats(&self) -> Vec<Stat> {
        self.volume.stats().into_iter().chain(self.named.as_ref().map(Named::stat)).collect()
    }

    fn trouble(&self) -> Option<Trouble> {
        self.volume.latch.trouble().or_else(|| self.volume.shortage_trouble())
    }
}
