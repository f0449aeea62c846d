//! The symbolic file system: what every name, descriptor and process of a traced system was, action by action.
//!
//! A trace does not say which file a path led to, nor which names a rename took with it. The model does: it plays all
//! calls on inodes without data, predicts what each returns as Linux would, and notes which resources each touches and
//! how. What a trace claims against it is repaired and counted.
//!
//! Not modelled: permissions, quotas and full disks, mounts, contents. A call that fails for such a reason is believed.
//!
//! Reading order: [`resource`] (what is touched), [`tree`] (inodes and names), [`walk`] (paths), [`world`] (state and
//! how it changes), [`act`] (from a call to its answer), then the calls: `names`, `open`, `descriptors`, `transfer`,
//! `process`, `jail`, `queues`, `rings`, `memory`, `locks`, `wakes`; `looks` (which of them change nothing), `made_up`
//! (files without a size of their own); [`compile()`] plays a whole trace.

mod act;
mod ahead;
pub mod compile;
mod descriptors;
mod jail;
mod killed;
mod locks;
mod looks;
mod made_up;
mod memory;
mod names;
mod open;
mod process;
mod prune;
mod queues;
mod refused;
mod repair;
pub mod resource;
mod rewrite;
mod rings;
mod transfer;
pub mod tree;
mod wakes;
mod walk;
pub mod world;

#[cfg(test)]
mod tests;

pub use act::Intent;
pub use compile::{CompileError, compile};
pub use world::World;
