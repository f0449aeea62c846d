//! This machine: its processes, page tables, free memory and settings.
//!
//! Needs Linux 6.7 or later (`PAGEMAP_SCAN`; `MADV_COLLAPSE` is older), and the capabilities of root: other processes'
//! page tables and advice about them. [`doctor`] says what is missing.
//!
//! Reading order: [`maps`] (mappings), [`tracked`] (one process), [`select`] (which processes), [`knobs`] (settings
//! that are put back), [`groups`] (control groups), [`damon`], [`young`] and [`source`] (access bits), [`preload`] and
//! [`merging`] (page sharing), [`faults`] (the signal of a fault), [`rights`] (what this program may do), [`system`] (all of it as a [`esker_hugepage::ProcView`]), [`doctor`].

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the one place of this crate where processes and the kernel are reached"
)]

pub mod damon;
pub mod doctor;
pub mod faults;
pub mod groups;
pub mod knobs;
pub mod maps;
pub mod merging;
pub mod preload;
pub mod rights;
pub mod select;
pub mod source;
pub mod system;
pub mod tracked;
pub mod young;

pub use source::Source;
pub use system::{Settings, System};

#[cfg(test)]
mod tests;
