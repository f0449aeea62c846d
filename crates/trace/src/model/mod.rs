//! The symbolic file system.

pub mod resource;
