//! File systems of this machine's kernel, as beds of scripts and as subjects of crashes.

mod bed;
pub mod weak;

pub use bed::{Bed, System, hard_links_are_protected};
