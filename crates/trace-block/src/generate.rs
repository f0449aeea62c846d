//! Seeded generators: block traces made from numbers, as endless and as small as wanted.
//!
//! A [`Profile`] (a TOML text) says which flows of requests reach which volumes: how many, of what size, and which
//! places they choose. A [`Generator`] is a [`Source`](crate::Source) like any trace that is read, so sinks, statistics
//! and replay do not know the difference. One profile, seed and length give the same records on every machine whose
//! mathematical functions agree; every use of randomness has a named stream of its own, so that one flow's draws never
//! shift another's.
//!
//! Records carry no label: nothing tells a policy which flow or class of places a request comes from, and hot places
//! are scattered over the volume by a permutation that depends on the seed.
//!
//! Reading order: [`profile`], [`places`] (how each flow chooses offsets), [`generator`], [`calibration`] (what the
//! statistics of the result are, against what they should be), [`fio`] (traces from fio's job files).

pub mod calibration;
mod clock;
pub mod fio;
mod flaw;
mod generator;
mod permutation;
mod places;
pub mod profile;
mod zipf;

pub use calibration::{Calibration, calibrate};
pub use fio::{FioPlan, FioTrace, JobError, JobFlaw};
pub use flaw::ProfileFlaw;
pub use generator::Generator;
pub use profile::{Profile, ProfileError};

#[cfg(test)]
mod tests;
