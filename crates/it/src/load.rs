//! Loads that can be verified afterwards by another process, or by the same one after a reboot: what they write follows
//! from a seed alone.

pub mod raw;
pub mod tree;

/// What went wrong, with the place.
pub type Outcome<T> = Result<T, String>;

/// Adds the place to a system's error.
pub(crate) fn at(place: impl std::fmt::Display) -> impl Fn(std::io::Error) -> String {
    move |error| format!("{place}: {error}")
}
