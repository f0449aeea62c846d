//! Figures as SVG and pages as HTML that need nothing else, and what reports say of their errors.
//!
//! Invariant: touches no file, and refers to nothing outside the text that it returns.
//!
//! Reading order: [`number`] prints values, [`table()`] puts them into columns for people. [`figure`] draws series,
//! [`bars`] values of categories, and [`dots`] values beside those of a source. [`html`] makes tables, sections and
//! pages. [`known_error`] comes last.

#![forbid(unsafe_code)]

pub mod bars;
pub mod dots;
pub mod figure;
pub mod html;
mod ink;
pub mod known_error;
mod labels;
pub mod number;
mod picture;
mod scale;
mod table;

pub use bars::{Bar, BarChart, Category};
pub use dots::DotChart;
pub use figure::{Axis, Figure, Series, Style};
pub use known_error::KnownError;
pub use number::{rounded, wrapped};
pub use picture::{Drawn, PlotError};
pub use table::{table, table_of_numbers};

#[cfg(test)]
mod tests;
