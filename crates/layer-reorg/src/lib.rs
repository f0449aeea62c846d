//! x
#![forbid(unsafe_code)]
mod analyzer;
mod graph;
mod layout;
mod planner;
mod profile;
pub use analyzer::{Analyzer, Bounds};
pub use graph::{AccessGraph, ONE, Vertex};
pub use layout::{Slot, SlotMove, Steps, assign, steps};
pub use planner::{LONG_RUN, PageRun, Plan, plan};
pub use profile::{AccessRecord, CHUNK, Heads, Profiler};
pub const PAGE: u64 = 4096;
#[cfg(test)]
mod tests;
