//! Figures as SVG and pages as HTML that need nothing else, and what reports say of their errors.
//!
//! Invariant: touches no file, and refers to nothing outside the text that it returns.
//!
//! Reading order: [`figure`] (series in a coordinate system), [`html`] (tables, sections, the page around them),
//! [`known_error`].

#![forbid(unsafe_code)]

pub mod figure;
pub mod html;
pub mod known_error;

pub use figure::{Axis, Figure, PlotError, Series, Style};
pub use known_error::KnownError;

#[cfg(test)]
mod tests;
