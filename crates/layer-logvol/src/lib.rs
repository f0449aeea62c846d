//! `volume`: a log-structured volume whose map from logical to physical blocks can be changed from outside: cloning, moving
//! and deleting ranges costs no data, is atomic and durable (ANViL).
//!
//! Invariant: never acknowledges a write before those with lower numbers are written too, never shows or keeps a part of a
//! vector, and never uses a segment anew that a reader, the newest durable checkpoint or the log behind it needs.
//!
//! Reading order: [`format`](mod@format) (what lies on the medium), [`map`], [`apply`] (what records do to it), [`segments`], [`pages`],
//! [`store`], [`volume`] (requests), `log` (batches), `shortage` (a device below without space), `read`, `part` (of blocks), [`compare`], [`checkpoint`], [`load`] and [`recover`],
//! [`collect`], [`check`]; then what stands on it: [`manager`] (named volumes) and [`space`] (what they take). The design, with what it
//! owes to the thesis: `docs/design/logvol.md`.

#![forbid(unsafe_code)]

pub mod apply;
pub mod check;
pub mod checkpoint;
pub mod collect;
pub mod compare;
mod erase;
pub mod format;
pub mod load;
mod log;
pub mod manager;
pub mod map;
pub mod open;
pub mod pages;
mod part;
mod read;
pub mod recover;
pub mod segments;
mod shortage;
pub mod space;
pub mod store;
#[cfg(test)]
mod tests;
pub mod volume;

use std::cell::OnceCell;
use std::rc::Rc;

use esker_base::{ByteRange, Nanos};
use esker_block::{
    Below, Bio, BioError, Ctx, Done, Ends, Extension, Flow, Kind, KindError, Layer, Make, Mark, Op, OpSet, Opening,
    Param, ParamType, Role, Routes, Stat, Step, Trouble,
};

pub use compare::Compared;
/// The kind of that name.
pub use manager as volumes;
use manager::Named;
pub use volume::{Config, Volume};

const PARAMS: &[Param] = &[
    Param::optional("size", ParamType::Size, "Bytes of logical space that are exported; 2^48 blocks if not given."),
    Param::with_default(
        "block",
        ParamType::Size,
        "4KiB",
        "Unit of mapping, 512 or 4096 bytes; set when a volume is made.",
    ),
    Param::with_default(
        "segment",
        ParamType::Size,
        "128MiB",
        "Unit of log space, a power of two up to 1GiB; set when a volume is made.",
    ),
    Param::with_default(
        "page",
        ParamType::Size,
        "4KiB",
        "Bytes of a page of the stored map, a power of two up to 64KiB; set when a volume is made.",
    ),
    Param::with_default("checkpoint", ParamType::Size, "1GiB", "Bytes of log after which the map is stored."),
    Param::with_default(
        "victims",
        ParamType::Choice(&["timestamp", "greedy", "cost-benefit", "cost-benefit-2u", "adaptive"]),
        "adaptive",
        "Which segments are cleaned first.",
    ),
    Param::optional(
        "choices",
        ParamType::Count,
        "Each victim is the best of so many segments drawn at random; of all if not given.",
    ),
    Param::with_default(
        "separation",
        ParamType::Choice(&["origin", "lifetime"]),
        "lifetime",
        "Which moved blocks share segments: all, or those that will probably live equally long.",
    ),
    Param::with_default("clean_from", ParamType::Ratio, "0.5", "Share of used space at which cleaning begins."),
    Param::with_default(
        "clean_share",
        ParamType::Ratio,
        "0.9",
        "Share of the device that cleaning has at 95 % of used space.",
    ),
    Param::with_default("clean_memory", ParamType::Size, "64MiB", "Memory for lists of mappings into what is cleaned."),
    Param::with_default("scanners", ParamType::Count, "2", "Workers that walk the map together."),
];

/// The manifest.
pub static KIND: Kind = Kind {
    passes: OpSet::ALL,
    role: Role::Modifier,
    routes: Routes { forward: Ends::All, generate: Ends::All, spontaneous: true },
    needs_bytes: true,
    medium: esker_block::Medium::Tables,
    transparent: false,
    cost: Nanos(600),
    check: Some(check::MEDIA),
    ..Kind::layer("volume", "A log-structured volume: clones, moves and deletes ranges without copying.", PARAMS, build)
};

/// A volume as it stands in a stack: one that is used as a whole, or one that holds named volumes.
struct Extended {
    config: Config,
    volume: Rc<OnceCell<Rc<Volume>>>,
    named: Option<Named>,
}

fn build(make: &Make<'_>) -> Result<Layer, KindError> {
    let (config, limits) = open::configure(make, u32::MAX)?;
    Ok(Layer::single(Extended { config, volume: Rc::default(), named: None }, limits))
}

impl Extended {
    fn volume(&self) -> &Rc<Volume> {
        self.volume.get().expect("the stack opens a layer before its first request")
    }
}

impl Extension for Extended {
    fn open(&self, opening: Opening) -> Step<Result<(), KindError>> {
        let (config, opened, named) = (self.config.clone(), self.volume.clone(), self.named.clone());
        Step::later(async move {
            let Opening { rt, pool, below, station } = opening;
            let name = config.name.clone();
            let outside = |error: &dyn std::fmt::Display| KindError::Outside(format!("{name}: {error}"));
            let volume = Volume::open(config, &rt, &pool, below.clone()).await.map_err(|e| outside(&e))?;
            let usable = match named {
                Some(named) => named.open(&volume, &below).await,
                None => manager::demand_none(&volume, &below).await,
            };
            usable.map_err(|e| outside(&e))?;
            rt.spawn("volume", checkpoint::keep(volume.clone(), station.clone())).detach();
            rt.spawn("scanner", collect::scan_on(volume.clone(), station.clone())).detach();
            rt.spawn("cleaner", collect::clean_on(volume.clone(), station.clone())).detach();
            rt.spawn("eraser", erase::erase_on(volume.clone(), station)).detach();
            let is_first = opened.set(volume).is_ok();
            debug_assert!(is_first, "a layer is opened once");
            Ok(())
        })
    }

    fn issue(&self, ctx: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        let volume = self.volume();
        if let Some(named) = &self.named
            && let Err(error) = named.lead(ctx.port, bio)
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
        self.volume().end_read(ctx.scratch);
    }

    fn settle(&self, below: Below) -> Step<Result<(), BioError>> {
        let Some(volume) = self.volume.get().cloned() else { return Step::Now(Ok(())) };
        Step::later(async move {
            let store = volume.store(below);
            volume.checkpoint(&store).await?;
            volume.erase_all(&store).await;
            Ok(())
        })
    }

    fn close(&self) {
        self.volume.get().inspect(|volume| volume.close());
    }

    fn ask(&self, below: Below, words: &[String]) -> Step<Result<String, KindError>> {
        match &self.named {
            Some(named) => named.ask(below, words),
            None => Step::Now(Err(KindError::Unfit("it has no named volumes; kind `volumes` does".into()))),
        }
    }

    /// The slots of its superblock.
    fn marks(&self) -> Vec<Mark> {
        let slots = format::slots_of(0, self.config.medium).into_iter();
        let mark = |at| Mark { lower: 0, range: ByteRange::new(at, format::SLOTS_BYTES).expect("inside the device") };
        slots.map(mark).collect()
    }

    fn kept(&self, port: u16, by: Option<&str>) {
        self.named.as_ref().inspect(|named| named.keep(port, by));
    }

    fn size(&self, port: u16) -> Option<u64> {
        self.named.as_ref().map(|named| named.size(port))
    }

    fn is_read_only(&self, port: u16) -> bool {
        self.named.as_ref().is_some_and(|named| named.is_read_only(port))
    }

    fn resize(&self, below: Below, port: u16, bytes: u64) -> Step<Result<(), BioError>> {
        match &self.named {
            Some(named) => named.resize(below, port, bytes),
            None => Step::Now(Err(BioError::invalid("a volume without a name keeps the size of the stack text"))),
        }
    }

    fn stats(&self) -> Vec<Stat> {
        let stats = self.volume.get().map_or_else(Vec::new, |volume| volume.stats());
        stats.into_iter().chain(self.named.as_ref().map(Named::stat)).collect()
    }

    fn trouble(&self) -> Option<Trouble> {
        let volume = self.volume.get()?;
        volume.latch.trouble().or_else(|| volume.shortage_trouble())
    }
}
