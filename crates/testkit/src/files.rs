//! The harness of file systems: one for all, and judged itself by mutants.
//!
//! A script is played on a file system and on [`Ram`](esker_vfs::Ram), its oracle, side by side. Each answer is
//! compared, and the whole tree. The device below records. Every state that a power cut could have left is opened in a
//! new world; the tree that it shows must be one that the promise of the file system allows. Then the state is used,
//! synced and opened again.
//!
//! Reading order: [`subject`] (what is judged), [`breach`] (a broken promise in words), [`stage`] (both sides and the
//! recording device), [`search`] (crashes), [`killed`] (crashes behind a killed process). Then [`faults`] (requests
//! that fail, changed bits, full devices), [`space`] (filling and emptying, listings under change), [`weak`] (what file
//! systems of kernels promise). Last [`suite`] (all of it), [`listing`] (a tree as text), and [`whole`] (a file system
//! to try the harness on, with its flaws).

pub mod breach;
pub mod faults;
pub mod killed;
pub mod listing;
pub mod search;
pub mod space;
pub mod stage;
pub mod subject;
pub mod suite;
pub mod weak;
pub mod whole;

pub use breach::Breach;
pub use search::{Reach, Searched};
pub use stage::Stage;
pub use subject::{RamSubject, Subject, WholeSubject};
pub use suite::{Scale, figures, judge};
pub use whole::{Flaw, Whole, WholeConfig};

#[cfg(test)]
mod tests;
