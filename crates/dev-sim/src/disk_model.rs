//! `disk-model`: a rotating disk with an arm, zones, a command queue that it orders by itself, a track buffer, a
//! volatile write cache and standby. It is built from a data sheet's numbers or from measured files in DiskSim's
//! formats.
//!
//! Reading order: [`spec`] (a data sheet), [`disksim`] (measured files), [`parts`] (what both become), [`seek`],
//! [`zone`],
//! [`geometry`], [`segments`] (the track buffer), [`model`] (the function), `dirty` (the write cache's table), [`device`].

use std::rc::Rc;

use esker_base::Nanos;
use esker_block::{Args, Device, Kind, KindError, Make, OpKind, Param, ParamType, StatInfo};

use crate::Setup;
use crate::catalogue::{self, Numbers};
use crate::meter::{Bill, Rest};
use crate::setup::{self, ACTIVE_W, BLOCK, CACHE, CONTENT, IDLE_W, PRICE_USD, SIZE, count, number, size, span};

pub mod device;
mod dirty;
pub mod disksim;
pub mod geometry;
pub mod model;
pub mod parts;
pub mod seek;
pub mod segments;
pub mod spec;
#[cfg(test)]
mod tests;
pub mod zone;

pub use device::{Disk, DiskSetup};
pub use disksim::{DiskSimError, DiskSimSpec, File};
pub use model::DiskModel;
pub use parts::DiskParts;
pub use spec::DiskSpec;

const STATS: &[StatInfo] = &[
    StatInfo::of("seeks", "Seeks."),
    StatInfo::of("travel_cylinders", "Cylinders over which the arm went."),
    StatInfo::of("write_travel_cylinders", "Those of them on the way to writes."),
    StatInfo::of("positioning_mean_us", "Mean time from a command's start to its first byte, in µs."),
    StatInfo::of("queue_depth_max", "Most commands in the queue."),
    StatInfo::of("cache_hits", "Commands that a buffer answered."),
    StatInfo::of("destages", "Writes from the cache to the medium."),
    StatInfo::of("dirty_bytes", "Bytes in the write cache."),
    StatInfo::of("spin_ups", "Times that the disk left standby."),
];

/// The manifest.
pub static KIND: Kind = setup::kind(
    "disk-model",
    "A modelled rotating disk: seek, rotation, zones, command queue, caches, standby, energy and price.",
    &[
        setup::profile(catalogue::DISKS, "hdd-7200-2021"),
        Param::optional(
            "measured",
            ParamType::Text,
            "Texts of a measured disk's DiskSim files, each after a line \"== NAME\": replaces all but power and price.",
        ),
        SIZE,
        BLOCK,
        CACHE,
        CONTENT,
        setup::depth("32", "Commands that the disk orders by itself (1 to 1024)."),
        Param::with_default("age_max", ParamType::Span, "500ms", "Wait after which a command in the queue goes first."),
        size("capacity", "Bytes of the whole medium, instead of the profile's."),
        count("rpm", "Revolutions per minute, instead of the profile's."),
        count("heads", "Tracks per cylinder, instead of the profile's."),
        span("seek_single", "Seek over one cylinder, instead of the profile's."),
        span("seek_average", "Average seek, instead of the profile's."),
        span("seek_full", "Seek over all cylinders, instead of the profile's."),
        span("head_switch", "Change of heads, instead of the profile's; seek_single if it has none."),
        span("write_settle", "Extra time of a seek before a write, instead of the profile's."),
        size("rate_outer", "Bytes per second at the outer edge, instead of the profile's."),
        size("rate_inner", "Bytes per second at the inner edge, instead of the profile's."),
        size("host_rate", "Bytes per second of the interface, instead of the profile's."),
        span("overhead", "Controller time per command, instead of the profile's."),
        size("buffer", "Bytes of the write cache, instead of the profile's."),
        count("segments", "Runs of bytes that the read buffer holds, instead of the profile's."),
        size("read_ahead", "Bytes read on after a read, instead of the profile's."),
        ACTIVE_W,
        IDLE_W,
        number("standby_w", "Watts in standby, instead of the profile's."),
        span("standby_after", "Idle time before the disk spins down; by default never."),
        span("spin_up", "Time from standby to ready, instead of the profile's."),
        number("spin_up_w", "Watts while it spins up, instead of the profile's."),
        PRICE_USD,
    ],
    &[OpKind::Read, OpKind::Write, OpKind::Flush, OpKind::Zero, OpKind::Extents],
    STATS,
    build,
);

const DEPTH_MAX: u64 = 1024;

fn build(make: &Make<'_>) -> Result<Rc<dyn Device>, KindError> {
    make.rt.use_precise_timers();
    let parts = parts(make.args)?;
    let common = Setup::of(make, &KIND, parts.capacity, DEPTH_MAX)?;
    let setup = DiskSetup { common, age_max: make.args.span("age_max") };
    Ok(Rc::new(Disk::new(make.rt, DiskModel::new(parts), setup)))
}

/// What the disk is made of that `args` describe.
///
/// # Errors
/// Numbers and files that make no disk.
pub fn parts(args: &Args) -> Result<DiskParts, KindError> {
    let numbers = Numbers::of_args(&KIND, args)?;
    match args.get("measured") {
        None => DiskSpec::of(&numbers)?.parts(),
        Some(_) => {
            let files = disksim::split(args.text("measured"));
            let disk = disksim::load(&files).map_err(|error| KindError::Unfit(format!("disk-model: {error}")))?;
            Ok(disk.parts(Bill::of(&numbers)?, rest(&numbers)?))
        }
    }
}

/// The standby that the numbers describe, if the disk is to spin down by itself.
fn rest(numbers: &Numbers) -> Result<Option<Rest>, KindError> {
    let Some(after) = numbers.int_opt("standby_after") else { return Ok(None) };
    Ok(Some(Rest {
        after: Nanos(after),
        rest_w: numbers.float("standby_w")?,
        wake: numbers.span("spin_up")?,
        wake_w: numbers.float("spin_up_w")?,
    }))
}
