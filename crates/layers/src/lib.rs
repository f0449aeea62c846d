//! Small layers without a format, one module each: a `KIND` (manifest) and the extension behind it.
//!
//! Invariant: nothing on media, no background work. What a layer holds of a request ends with that request.
//!
//! Reading order: [`pass`] (the smallest), [`offset`], [`split`] (what [`concat`] and [`stripe`] share), [`align`],
//! [`emulate`], [`cipher`] and [`crypt`], [`verify`], then the accessors [`delay`], [`rate`], [`error`], [`stats`] and [`tap`].

#![forbid(unsafe_code)]
#![warn(clippy::wildcard_enum_match_arm)]
#![cfg_attr(test, allow(clippy::wildcard_enum_match_arm, reason = "a test panics in such an arm"))]

pub mod align;
pub mod cipher;
pub mod concat;
pub mod crypt;
pub mod delay;
pub mod emulate;
pub mod error;
pub mod offset;
pub mod pass;
pub mod rate;
mod split;
pub mod stats;
pub mod stripe;
pub mod tap;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
pub mod verify;

use esker_block::{Bio, Extension, Flow, KindError, Layer, Make, Step};

/// A layer whose upper port has the limits of its lower device.
fn transparent(make: &Make<'_>, ext: impl Extension + 'static) -> Result<Layer, KindError> {
    Ok(Layer::single(ext, make.lowers[0].clone()))
}

/// Keeps a request until `wait` is over and passes it down then.
fn resume_after(bio: &mut Bio, wait: impl Future<Output = ()> + 'static) -> Step<Flow> {
    let bio = bio.take();
    Step::later(async move {
        wait.await;
        Flow::Resume(bio)
    })
}
