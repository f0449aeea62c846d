//! `disk-model`: a rotating disk with an arm, a command queue that it orders by itself, a track buffer and a volatile
//! write cache.
//!
//! Reading order: [`spec`] (numbers and profiles), [`seek`], [`geometry`], [`model`] (the pure function), `dirty` (the
//! write cache's table), [`device`].

use std::rc::Rc;

use esker_base::Nanos;
use esker_block::{
    Arity, Build, Device, Durability, Kind, KindError, Make, OpKind, OpSet, Param, ParamType, Role, Worlds,
};

use crate::access::{self, Content};

pub mod device;
mod dirty;
pub mod geometry;
pub mod model;
pub mod seek;
pub mod spec;
#[cfg(test)]
mod tests;

pub use device::{Disk, DiskSetup};
pub use model::DiskModel;
pub use spec::DiskSpec;

/// The manifest.
pub static KIND: Kind = Kind {
    name: "disk-model",
    summary: "A modelled rotating disk: seek, rotation, transfer, command queue, caches, energy and price.",
    params: &[
        Param::with_default("profile", ParamType::Choice(spec::PROFILES), "hdd-7200-2021", "Which disk."),
        Param::optional("size", ParamType::Size, "Bytes to use, from the outer edge on; all by default."),
        access::BLOCK,
        access::CACHE,
        access::CONTENT,
        Param::with_default("depth", ParamType::Count, "32", "Commands that the disk orders by itself (1 to 1024)."),
        Param::with_default("age_max", ParamType::Span, "500ms", "A command that waited this long goes first."),
        Param::optional("capacity", ParamType::Size, "Bytes of the whole medium, instead of the profile's."),
        Param::optional("rpm", ParamType::Count, "Revolutions per minute, instead of the profile's."),
        Param::optional("heads", ParamType::Count, "Tracks per cylinder, instead of the profile's."),
        Param::optional("seek_single", ParamType::Span, "Seek over one cylinder, instead of the profile's."),
        Param::optional("seek_average", ParamType::Span, "Average seek, instead of the profile's."),
        Param::optional("seek_full", ParamType::Span, "Seek over all cylinders, instead of the profile's."),
        Param::optional(
            "write_settle",
            ParamType::Span,
            "Extra time of a seek before a write, instead of the profile's.",
        ),
        Param::optional("rate_outer", ParamType::Size, "Bytes per second at the outer edge, instead of the profile's."),
        Param::optional("rate_inner", ParamType::Size, "Bytes per second at the inner edge, instead of the profile's."),
        Param::optional("host_rate", ParamType::Size, "Bytes per second of the interface, instead of the profile's."),
        Param::optional("overhead", ParamType::Span, "Controller time per command, instead of the profile's."),
        Param::optional("buffer", ParamType::Size, "Bytes of the write cache, instead of the profile's."),
        Param::optional("read_ahead", ParamType::Size, "Bytes read on after a read, instead of the profile's."),
        Param::optional("active_w", ParamType::Number, "Watts while active, instead of the profile's."),
        Param::optional("idle_w", ParamType::Number, "Watts while idle, instead of the profile's."),
        Param::optional("price_usd", ParamType::Number, "Price, instead of the profile's."),
    ],
    lowers: Arity::None,
    passes: OpSet::of(&[OpKind::Read, OpKind::Write, OpKind::Flush, OpKind::Zero, OpKind::Extents]),
    role: Role::Modifier,
    durability: Durability::Keeps,
    needs_bytes: false,
    transparent: false,
    worlds: Worlds::Both,
    // A modelled device works beside the CPU.
    cost: Nanos::ZERO,
    build: Build::Device(build),
};

const DEPTH_MAX: u64 = 1024;

fn build(make: &Make<'_>) -> Result<Rc<dyn Device>, KindError> {
    let args = make.args;
    let spec = DiskSpec::profile(args.text("profile")).expect("the manifest lists the profiles").with(args);
    let depth = args.int("depth");
    if !(1..=DEPTH_MAX).contains(&depth) {
        return Err(KindError::Unfit(format!("disk-model: depth = {depth}; choose 1 to {DEPTH_MAX}")));
    }
    let block = access::block_of(make, &KIND)?;
    let setup = DiskSetup {
        size: access::size_of(make, &KIND, spec.capacity, block)?,
        block,
        depth: depth as u32,
        age_max: args.span("age_max"),
        cache: args.text("cache") == "on",
        content: Content::of(make, block),
    };
    Ok(Rc::new(Disk::new(make.rt, DiskModel::new(spec)?, setup)))
}
