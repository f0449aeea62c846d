//! `tier`: one volume over several devices of different speed and price. Each extent lies on one of them, and moves to
//! where it weighs least.
//!
//! The design is that of EDT, extent-based dynamic tiering (the thesis on extending storage, section 3.4); which extent
//! lies where is planned by `tiering`. The page `docs/reference/kinds/tier.md` says how to use it.
//!
//! Invariant: an extent is in one place, which a restart finds; no request is answered from another place, and a place
//! is used anew only after the map says durably that it was left.
//!
//! Reading order: `devices` and `config` say what a stack text means, `label` and `opening` are about media. `placing`
//! tells where extents lie, `requests` goes there, `transfers` with `queue` and `pacing` moves them. `seen` and `plans`
//! decide what is moved and when. `engine` has the parts together. Then `orders` and this file (parameters, limits).

#![forbid(unsafe_code)]
#![warn(clippy::wildcard_enum_match_arm)]
#![cfg_attr(test, allow(clippy::wildcard_enum_match_arm, reason = "a test panics in such an arm"))]

mod check;
mod config;
mod devices;
mod engine;
pub mod label;
mod opening;
mod orders;
mod pacing;
mod placing;
mod plans;
mod queue;
mod requests;
mod seen;
mod statistics;
#[cfg(test)]
mod tests;
mod transfers;

use std::rc::Rc;

use esker_base::{ByteRange, Nanos};
use esker_block::{
    Arity, BioError, Ctx, Done, Ends, Flow, Follows, Kind, KindError, Layer, LayerHandle, Make, Mark, OpKind, OpSet,
    Orders, Param, ParamType, Routes, Stat, Step, Trouble,
};
use esker_layer_kit::{Io, Stateful, StatefulLayer, Task, media};

pub use config::TierConfig;
pub use engine::Tier;

const PARAMS: &[Param] = &[
    Param::required(
        "devices",
        ParamType::Text,
        "A sheet for each device of `on`, in their order: NAME, NAME xCOUNT or NAME(KEY=VALUE, ...), parted by `;`.",
    ),
    Param::with_default(
        "extent",
        ParamType::Size,
        "1MiB",
        "Bytes that move together, 1 MiB to 64 MiB; set when the tier is made.",
    ),
    Param::optional(
        "size",
        ParamType::Size,
        "Bytes of the volume; by default all that fits. Set when the tier is made.",
    ),
    Param::with_default(
        "plan",
        ParamType::Choice(&["edt", "est", "idt", "greedy", "none"]),
        "edt",
        "Which planner places extents; none: they stay.",
    ),
    Param::with_default(
        "objective",
        ParamType::Choice(&["cost", "power", "cost-then-power", "resources", "time"]),
        "time",
        "What the planners `edt` and `est` make small.",
    ),
    Param::with_default("epoch", ParamType::Span, "30min", "Time between two plans."),
    Param::with_default("look", ParamType::Span, "1min", "Time between two looks at counters and response times."),
    Param::with_default("alpha", ParamType::Ratio, "0.25", "Weight of the newest look in the demand of an extent."),
    Param::with_default(
        "heads",
        ParamType::Count,
        "32",
        "Streams that are told apart, 1 to 32: a request within 512 KiB of the last one of a stream is sequential.",
    ),
    Param::with_default(
        "share",
        ParamType::Ratio,
        "0.1",
        "Share of a device's time that moves take while clients use it; they have all of it otherwise.",
    ),
    Param::with_default("throttle", ParamType::Flag, "true", "Relieves a device whose queue is too long at once."),
    Param::with_default(
        "theta",
        ParamType::Number,
        "9",
        "A queue is too long if the mean response is above so many times the service of the requests.",
    ),
    Param::with_default(
        "consolidate",
        ParamType::Flag,
        "true",
        "Plans leave devices empty where this costs nothing, so that they may rest. Otherwise equal devices share the load.",
    ),
    Param::with_default("backoff", ParamType::Flag, "true", "Lets a plan move less when the load is unstable."),
];

/// The manifest.
pub static KIND: Kind = Kind {
    lowers: Arity::AtLeast(2),
    passes: OpSet::of(&[OpKind::Read, OpKind::Write, OpKind::Flush, OpKind::Zero, OpKind::Discard]),
    routes: Routes { forward: Ends::All, generate: Ends::All, spontaneous: true },
    needs_bytes: false,
    cost: Nanos(150),
    check: Some(check::MEDIA),
    stats: statistics::ALL,
    orders: orders::ORDERS,
    follows: Follows::None,
    ..Kind::stateful("tier", "Places extents on devices of different speed and price.", PARAMS, build)
};

/// The layer.
pub type TierLayer = StatefulLayer<Tier>;

fn build(make: &Make<'_>) -> Result<Layer, KindError> {
    let (config, limits) = TierConfig::of(make, &config::SCALE)?;
    Ok(Layer::single(TierLayer::new(config), limits))
}

impl Stateful for Tier {
    type Config = TierConfig;

    const COMPLETES: bool = true;

    /// The heads of the map, and the labels of the other ends.
    fn marks(config: &TierConfig) -> Vec<Mark> {
        let range = ByteRange::new(0, media::HEAD).expect("it begins at 0");
        (0..config.ends.len()).map(|lower| Mark { lower, range }).collect()
    }

    async fn open(config: TierConfig, io: Io) -> Result<Rc<Tier>, KindError> {
        let opened = config.opened.clone();
        let tier = Tier::open(config, &io).await?;
        let is_first = opened.0.set(tier.clone()).is_ok();
        debug_assert!(is_first, "a layer is opened once");
        Ok(tier)
    }

    fn tasks(self: &Rc<Self>, handle: &LayerHandle) -> Vec<Task> {
        Tier::tasks(self, handle)
    }

    fn issue(self: &Rc<Self>, ctx: &mut Ctx<'_>, bio: &mut esker_block::Bio) -> Step<Flow> {
        Tier::issue(self, ctx, bio)
    }

    fn complete(&self, ctx: &mut Ctx<'_>, done: &mut Done) {
        Tier::complete(self, ctx, done);
    }

    async fn quiesce(self: &Rc<Self>, io: &Io) -> Result<(), BioError> {
        Tier::quiesce(self, io).await
    }

    fn close(&self) {
        Tier::close(self);
    }

    fn orders(config: &TierConfig) -> Option<&dyn Orders> {
        Some(&config.opened)
    }

    fn stats(&self) -> Vec<Stat> {
        Tier::stats(self)
    }

    fn trouble(&self) -> Option<Trouble> {
        Tier::trouble(self)
    }
}
