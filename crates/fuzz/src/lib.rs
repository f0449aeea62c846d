//! All fuzzers: hostile bytes for everything that reads what others wrote.
//!
//! Two drivers share the targets. The program `esker-fuzz` mutates inputs blindly, so that a seed names a run; the
//! crate in the folder `fuzz` lets libFuzzer follow the coverage. What the second finds interesting is kept in the
//! corpus of the first.
//!
//! Invariant: a seed and a count decide everything it does. They are the name of the fuzzer, the seed, the number of
//! events and the kept corpus.
//!
//! Reading order: [`run`] (the loop), [`mutate`] (how inputs come about), [`target`] (the list), [`kept`] (inputs in
//! files), [`world`] (what media lie in), then one file per target: [`blktrace`], [`disksim`], [`nbd`], [`stack`],
//! [`compose`], [`framing`], [`fuse`], [`mirror`], [`dedup`], [`offload`], [`shepherd`], [`slots`], [`tier`],
//! [`control`], [`http`], [`hugepage`], [`key_slots`], [`vhost`], [`regions`], [`trace`], [`etrace`], [`replay`],
//! [`volume`], [`volume_stream`], [`whole`], [`lfs`], [`lfs_control`], [`nfs`].

#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "a developer's tool reads files and looks at the clock")]

mod blktrace;
mod compiled;
mod compose;
mod control;
mod dedup;
mod disksim;
mod etrace;
mod fio;
mod framing;
mod fuse;
mod http;
mod hugepage;
pub mod kept;
mod key_slots;
mod lfs;
mod lfs_control;
mod mirror;
mod mutate;
mod nbd;
mod nfs;
mod offload;
mod regions;
mod replay;
pub mod run;
mod shepherd;
mod slots;
mod stack;
pub mod target;
mod tier;
mod trace;
mod vhost;
mod volume;
mod volume_stream;
mod whole;
mod world;
