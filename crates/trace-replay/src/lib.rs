//! Replays compiled traces of programs: makes the initial tree, plays every thread's calls in an order that the program
//! itself could have had, and tells how long that took and what came out otherwise.
//!
//! Invariant: writes nothing outside the run directory, whatever a trace says; leaves nothing that grants rights; ends,
//! also when a call would not. A user can vouch for a trace; then what is left may grant rights.
//!
//! Reading order: [`rundir`] and [`root`] (how paths are confined), `privilege` (what a trace may not leave), [`init`]
//! (the initial tree). Then [`script`] (what each thread plays), [`target`] (what a replay is played on), [`player`]
//! (one thread), [`kernel`] (the kernel as target), [`replay`] (all threads on it), `watchdog`. Then [`check`] (what
//! counts as otherwise), `settled` (how the tree differs), [`outcome`] and [`report`]. At the end [`run`] (whole runs,
//! repeated), [`mod@predict`] (runs whose time is a prediction), [`files`] (a file system of ours as target, in virtual
//! time), [`audit`] (what tests look for afterwards).

#![deny(unsafe_code)]

mod answer;
pub mod audit;
mod buffers;
pub mod check;
mod clock;
mod content;
pub mod files;
pub mod init;
pub mod kernel;
pub mod outcome;
pub mod player;
pub mod predict;
mod privilege;
pub mod progress;
pub mod replay;
pub mod report;
pub mod root;
pub mod run;
pub mod rundir;
pub mod script;
mod settled;
mod special;
mod tally;
pub mod target;
#[cfg(test)]
mod testing;
mod watchdog;
mod xattrs;

pub use init::{InitError, InitMode, InitOptions, initialise, overlay};
pub use kernel::{ExchangeBy, FsyncMeans, KernelOptions};
pub use outcome::{Heading, report};
pub use predict::{PredictOptions, predict};
pub use replay::{Finished, ReplayError, ReplayOptions, replay};
pub use report::Report;
pub use run::{ReplayInput, RunError, RunOptions, run};
pub use script::{Script, Speed};
pub use watchdog::Stuck;
