//! Figures as SVG and pages as HTML that need nothing else.
//!
//! Invariant: touches no file, and refers to nothing outside the text that it returns.
//!
//! Reading order: [`figure`] (series in a coordinate system), [`html`] (tables, sections, the page around them).

#![forbid(unsafe_code)]

pub mod figure;
pub mod html;

pub use figure::{Axis, Figure, PlotError, Series, Style};

#[cfg(test)]
mod tests;
