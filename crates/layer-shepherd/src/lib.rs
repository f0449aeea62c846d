//! `shepherd`: what a device cannot read or write at once is tried again, written anew, and in the end moved to spare
//! blocks (I/O shepherding).
//!
//! Invariant: redirects a request only to a durable spare; never retries a failed flush.
//!
//! Reading order: [`table`] (which blocks lie where), `run` (requests), `keep` (work in the background).

#![forbid(unsafe_code)]
#![warn(clippy::wildcard_enum_match_arm)]
#![cfg_attr(test, allow(clippy::wildcard_enum_match_arm, reason = "a test panics in such an arm"))]

mod keep;
mod run;
mod statistics;
pub mod table;
#[cfg(test)]
mod tests;

use std::rc::Rc;

use esker_base::Nanos;
use esker_block::{
    Bio, BioError, Ctx, Ends, Flow, Kind, KindError, Layer, LayerHandle, Limits, Make, Mark, Op, OpKind, OpSet, Param,
    ParamType, Routes, Stat, Step, Trouble,
};
use esker_layer_kit::{Io, Stateful, StatefulLayer, Task};

use crate::run::Shepherd;

const PARAMS: &[Param] = &[
    Param::with_default("retries", ParamType::Count, "3", "Retries of a failed read or write."),
    Param::with_default("retry_delay", ParamType::Span, "10ms", "Time between retries."),
    Param::with_default("spares", ParamType::Count, "256", "Spare blocks at the end of the device, 1 to 4096."),
    Param::with_default(
        "scrub_interval",
        ParamType::Span,
        "0s",
        "Time in which a scrub reads the whole device once, at most 256 KiB in each millisecond; 0s: never.",
    ),
];

/// The manifest.
pub static KIND: Kind = Kind {
    passes: OpSet::WITHOUT_REMAP,
    routes: Routes { forward: Ends::All, generate: Ends::All, spontaneous: true },
    needs_bytes: true,
    cost: Nanos(150),
    stats: statistics::ALL,
    ..Kind::stateful("shepherd", "Retries failed requests and moves bad blocks to spare blocks.", PARAMS, build)
};

/// Bytes at the end of the device in which the table is kept.
const AREA: u64 = 128 << 10;
/// Largest number of spares whose table fits there.
const SPARES_MAX: u64 = 4096;
/// What begins on the device at multiples of this.
const GRAIN: u64 = 4096;

/// What is where on the device, and how to behave.
#[derive(Clone, Debug)]
pub struct Config {
    name: String,
    /// Bytes of the volume; the spares follow.
    size: u64,
    block: u64,
    spares: u64,
    /// First byte of the area.
    area: u64,
    /// The device.
    lower: Limits,
    tries: u64,
    pause: Nanos,
    scrub: Nanos,
}

/// The layer.
pub type ShepherdLayer = StatefulLayer<Shepherd>;

fn build(make: &Make<'_>) -> Result<Layer, KindError> {
    let unfit = |what: String| KindError::Unfit(format!("{}: {what}", make.name));
    let lower = &make.lowers[0];
    let (block, spares) = (u64::from(lower.block), make.args.int("spares"));
    if !(1..=SPARES_MAX).contains(&spares) {
        return Err(unfit(format!("{spares} spare blocks cannot be; use 1 to {SPARES_MAX}")));
    }
    if block > GRAIN {
        return Err(unfit(format!("blocks of {block} bytes are too large; put `align block=4KiB` on the device")));
    }
    let taken = AREA + spares * block;
    let area = lower.size.saturating_sub(AREA) / GRAIN * GRAIN;
    let size = area.saturating_sub(spares * block) / GRAIN * GRAIN;
    if size == 0 {
        return Err(unfit(format!("{spares} spare blocks need {taken} bytes and more; the device has {}", lower.size)));
    }
    let config = Config {
        name: make.name.to_string(),
        size,
        block,
        spares,
        area,
        lower: lower.clone(),
        tries: make.args.int("retries"),
        pause: make.args.span("retry_delay"),
        scrub: make.args.span("scrub_interval"),
    };
    // A write over a moved block goes to two places.
    let limits = Limits { size, atomic: lower.block, ranges_max: 0, described: false, ..lower.clone() };
    Ok(Layer::single(ShepherdLayer::new(config), limits))
}

impl Stateful for Shepherd {
    type Config = Config;

    /// The area with its table.
    fn marks(config: &Config) -> Vec<Mark> {
        vec![Mark { lower: 0, range: esker_base::span(config.area, AREA) }]
    }

    async fn open(config: Config, io: Io) -> Result<Rc<Shepherd>, KindError> {
        Ok(Rc::new(Shepherd::restore(config, &io).await?))
    }

    fn tasks(self: &Rc<Self>, handle: &LayerHandle) -> Vec<Task> {
        let refresh = keep::refresh(self.clone(), handle.clone());
        let scrub = keep::scrub(self.clone(), handle.clone());
        vec![("shepherd", Box::pin(refresh)), ("scrub", Box::pin(scrub))]
    }

    fn issue(self: &Rc<Self>, ctx: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        match bio.op {
            Op::Flush => Step::Now(Flow::Down),
            Op::Read | Op::Extents => self.read(&Io::of(ctx), bio.take()).map(Flow::Done),
            Op::Write | Op::Zero | Op::Discard => self.change(&Io::of(ctx), bio.take()).map(Flow::Done),
            Op::Ranges(_) => Step::Now(Flow::Done(bio.take().fail(BioError::Unsupported(OpKind::Clone)))),
        }
    }

    fn close(&self) {
        self.refreshes.close();
        self.scrubs.close();
    }

    fn stats(&self) -> Vec<Stat> {
        Shepherd::stats(self)
    }

    fn trouble(&self) -> Option<Trouble> {
        Shepherd::trouble(self)
    }
}
