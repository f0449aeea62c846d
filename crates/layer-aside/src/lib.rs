//! Copies beside home: what caches, resting disks and reorganised disks have in common.
//!
//! A volume lies on *home*. Some of its units (lines, pages) have a copy on *fast*, a second device, which a durable
//! map names ([`SlotMap`](esker_layer_kit::slots::SlotMap)). A [`Director`] decides which units these are. This crate
//! does the rest: requests, copies, durability.
//!
//! Invariant: the newest bytes of a unit are where the map says, durably before anything else is told; a unit has at
//! most one copy beside home. While a copy may be newer than home, no change reaches home over its valid pages.
//!
//! All copying is optimistic: bytes are copied, then the engine looks whether a change came between. So no request
//! waits for a copy of its own unit, except a change that goes home over a write-back that is under way.
//!
//! Reading order: [`config`], [`director`] (what a kind decides), `units` (what lies aside), `engine` (opening, rest).
//! Then `requests` (hits), `changes` (all other writes), `fills`, `cleaning` (write-back), `reserve` (free slots).
//! [`placing`] and `plans` are for kinds that choose by themselves what is copied, to which slot, and when it is
//! written home. `known` tells whether home is the one of the last stop.

#![forbid(unsafe_code)]
#![warn(clippy::wildcard_enum_match_arm)]
#![cfg_attr(test, allow(clippy::wildcard_enum_match_arm, reason = "a test panics in such an arm"))]

mod changes;
mod cleaning;
pub mod config;
mod counts;
pub mod director;
mod dirty;
mod engine;
mod fills;
mod known;
pub mod placing;
mod plans;
mod requests;
mod reserve;
mod units;

pub use config::{AsideConfig, Cleaning, Room, WriteMode, journal_bytes, volume_limits};
pub use counts::{AsideCounts, STATS};
pub use director::{Access, Director, Fill, Put};
pub use engine::Aside;
pub use placing::{Free, PLACED_MAX};
pub use plans::SlotSpace;

/// The lower device with the volume.
pub const HOME: usize = 0;
/// The lower device with the map and the copies.
pub const FAST: usize = 1;
/// Bytes of a page: the part of a unit that is there or not.
pub const PAGE: u64 = 4096;
