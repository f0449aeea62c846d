//! `ssd-model`: a solid-state drive with fixed latencies, parallel units and a volatile write buffer. It has no
//! translation layer: no collection, no wear, no write amplification.
//!
//! Reading order: [`spec`] (numbers and profiles), [`model`] (the function), [`device`].

use std::rc::Rc;

use esker_base::Nanos;
use esker_block::{
    Arity, Build, Device, Durability, Kind, KindError, Make, OpKind, OpSet, Param, ParamType, Role, Worlds,
};

use crate::access::{self, Content};

pub mod device;
pub mod model;
pub mod spec;
#[cfg(test)]
mod tests;

pub use device::{Ssd, SsdSetup};
pub use model::SsdModel;
pub use spec::SsdSpec;

/// The manifest.
pub static KIND: Kind = Kind {
    name: "ssd-model",
    summary: "A modelled solid-state drive: fixed latencies, parallel units, write buffer, energy and price; no FTL.",
    params: &[
        Param::with_default("profile", ParamType::Choice(spec::PROFILES), "ssd-nvme-2022", "Which drive."),
        Param::optional("size", ParamType::Size, "Bytes to use; all by default."),
        access::BLOCK,
        access::CACHE,
        access::CONTENT,
        Param::with_default(
            "depth",
            ParamType::Count,
            "1024",
            "Commands that the host may have in flight (1 to 65536).",
        ),
        Param::optional("capacity", ParamType::Size, "Bytes of the whole drive, instead of the profile's."),
        Param::optional("channels", ParamType::Count, "Parallel units, instead of the profile's."),
        Param::optional("page", ParamType::Size, "Bytes of a page, instead of the profile's."),
        Param::optional("read", ParamType::Span, "Time to sense a page, instead of the profile's."),
        Param::optional("program", ParamType::Span, "Time to program a page, instead of the profile's."),
        Param::optional("flush", ParamType::Span, "Time of a flush after the last program, instead of the profile's."),
        Param::optional("unit_rate", ParamType::Size, "Bytes per second of one unit's bus, instead of the profile's."),
        Param::optional("host_rate", ParamType::Size, "Bytes per second of the interface, instead of the profile's."),
        Param::optional("overhead", ParamType::Span, "Controller time per command, instead of the profile's."),
        Param::optional("buffer", ParamType::Size, "Bytes of the write buffer, instead of the profile's."),
        Param::optional("active_w", ParamType::Number, "Watts while active, instead of the profile's."),
        Param::optional("idle_w", ParamType::Number, "Watts while idle, instead of the profile's."),
        Param::optional("price_usd", ParamType::Number, "Price, instead of the profile's."),
    ],
    lowers: Arity::None,
    passes: OpSet::of(&[OpKind::Read, OpKind::Write, OpKind::Flush, OpKind::Zero, OpKind::Discard, OpKind::Extents]),
    role: Role::Modifier,
    durability: Durability::Keeps,
    needs_bytes: false,
    transparent: false,
    worlds: Worlds::Both,
    // A modelled device works beside the CPU.
    cost: Nanos::ZERO,
    build: Build::Device(build),
};

const DEPTH_MAX: u64 = 65_536;

fn build(make: &Make<'_>) -> Result<Rc<dyn Device>, KindError> {
    let args = make.args;
    let spec = SsdSpec::profile(args.text("profile")).expect("the manifest lists the profiles").with(args);
    let depth = args.int("depth");
    if !(1..=DEPTH_MAX).contains(&depth) {
        return Err(KindError::Unfit(format!("ssd-model: depth = {depth}; choose 1 to {DEPTH_MAX}")));
    }
    let block = access::block_of(make, &KIND)?;
    let setup = SsdSetup {
        size: access::size_of(make, &KIND, spec.capacity, block)?,
        block,
        depth: depth as u32,
        cache: args.text("cache") == "on",
        content: Content::of(make, block),
    };
    Ok(Rc::new(Ssd::new(make.rt, SsdModel::new(spec)?, setup)))
}
