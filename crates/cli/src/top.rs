//! What `esker top` shows, and how: rows and columns for any width, a screen that listens to keys, plain text for
//! scripts.

pub mod app;
pub mod columns;
pub mod screen;
pub mod text;
