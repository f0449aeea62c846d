//! Tests of several crates together, one module for each thing they show.

#![allow(unreachable_pub, reason = "a program has no public interface: `pub` shows what its modules share")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests read the documents and make files")]

mod calibrated;
mod children;
mod conformance;
mod differential;
mod docs;
mod file_system_cuts;
mod guests;
mod init_cuts;
mod kill_nine;
mod kills;
mod lfs_guest;
mod model_kernel;
mod movers;
mod paced;
mod power_cuts;
mod promised;
mod replayed_on_ram;
mod tier_file_systems;
mod unusable;
mod weak_cuts;
