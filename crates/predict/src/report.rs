//! A comparison for people: a page of text for the terminal, and one HTML file with figures.

mod answers;
mod charts;
mod html;
mod text;
mod words;

pub use html::{Origin, page};
pub use text::text;
