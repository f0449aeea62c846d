//! Huge pages, decided well: which regions of which processes deserve one, by use, by fairness and by free contiguity
//! (Kwon et al., *Coordinated and efficient huge page management with Ingens*, OSDI 2016).
//!
//! Invariant: reaches memory, clock and processes through `ProcView` alone; promotes only what it has just seen to
//! deserve it. So what manages real processes is what was simulated.
//!
//! Reading order: [`utilisation`] (which pages of a region are in use), [`access`] (how often), [`contiguity`] (how
//! fragmented memory is), [`fairness`] (which process deserves the next huge page), [`policy`] (all parameters, and
//! what to do with one region),
//! [`merge_policy`] (same pages or huge pages), [`view`] (what a policy sees and may do), [`urgent`] (requests of faults),
//! [`process`], [`manager`] (everything together), [`sim`] (a machine's memory in virtual time).

#![forbid(unsafe_code)]
#![warn(clippy::wildcard_enum_match_arm)]
#![cfg_attr(test, allow(clippy::wildcard_enum_match_arm, reason = "a test panics in such an arm"))]

pub mod access;
pub mod contiguity;
pub mod fairness;
pub mod manager;
pub mod merge_policy;
pub mod policy;
pub mod process;
pub mod sim;
pub mod starvation;
pub mod urgent;
pub mod utilisation;
pub mod view;

pub use manager::Manager;
pub use policy::Policy;
pub use utilisation::{Threshold, Util};
pub use view::{Backing, ChangeError, Pid, ProcView, Region, RegionAddress, RegionView, Skip};

/// Bytes of a base page.
pub const PAGE_BYTES: u64 = 4 << 10;
/// Bytes of a huge page, and of the region that one can back.
pub const REGION_BYTES: u64 = 2 << 20;
/// Base pages of a region.
pub const REGION_PAGES: u32 = (REGION_BYTES / PAGE_BYTES) as u32;
