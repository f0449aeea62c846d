//! What each device and each stack of layers must pass: random requests against a model, on whatever world.
//!
//! The suite works on windows at both ends of the device. It adopts what it finds there, so it runs on used media too,
//! and leaves them overwritten. A batch of requests is in flight at once; those that change data overlap no other
//! request of the batch, so that one model decides what each read must bring. With [`Options::power_cuts`],
//! `esker-testkit` runs it over recorded media and judges every state that a power cut could have left.
//!
//! Reading order: this page, `plan` (what is asked), `model` (what must come back), `run`, `refusals`.

mod model;
mod plan;
mod refusals;
mod run;

use std::rc::Rc;

use esker_base::ByteRange;
use esker_rt::real::{Backend, Reactor, RealConfig};
use esker_rt::{Rt, SimConfig, sim};

use crate::bio::OpKind;
use crate::device::Device;
use crate::limits::Limits;

/// What to demand of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Seed of everything random.
    pub seed: u64,
    /// Batches of random requests.
    pub batches: u32,
    /// Largest number of requests in one batch.
    pub inflight: u32,
    /// Bytes of the window at each end of the device that are read and written.
    pub window: u64,
    /// Bytes of the largest read or write that is asked, if the device does not set a smaller limit.
    pub request_max: u32,
    /// Whether it gives back what was written to it; false for null devices and models that store no bytes.
    pub keeps_data: bool,
    /// Whether it is a facade, which refuses what breaks its limits. A leaf may rely on the loop for that.
    pub refuses: bool,
}

impl Options {
    /// For a leaf that keeps data: 200 batches of up to 8 requests in windows of 256 KiB.
    pub fn leaf(seed: u64) -> Options {
        let (window, request_max) = (256 << 10, u32::MAX);
        Options { seed, batches: 200, inflight: 8, window, request_max, keeps_data: true, refuses: false }
    }

    /// For a run after which every crash state is opened: short, with small requests in windows of 16 KiB.
    pub fn power_cuts(seed: u64) -> Options {
        Options { batches: 24, window: 16 << 10, request_max: 8 << 10, ..Options::leaf(seed) }
    }

    /// The same for a facade, such as the export of a stack.
    pub fn facade(seed: u64) -> Options {
        Options { refuses: true, ..Options::leaf(seed) }
    }
}

/// How much was asked.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Report {
    /// Requests that were answered as they must be, by [`OpKind`]; of a range vector, its elements.
    pub answered: [u64; OpKind::ALL.len()],
    /// Wrong requests that were refused as they must be.
    pub refused: u64,
}

impl Report {
    /// Requests of `kind` that were answered.
    pub fn answered(&self, kind: OpKind) -> u64 {
        self.answered[kind as usize]
    }
}

/// What a device did wrong.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("seed {seed}, {step}: {what}")]
pub struct Violation {
    /// Seed of the run.
    pub seed: u64,
    /// Where in the run.
    pub step: String,
    /// The request and what is wrong with its answer.
    pub what: String,
}

/// The parts of a device that the suite reads and writes: `bytes` at each end; one part in all where they would meet.
pub fn windows(limits: &Limits, bytes: u64) -> Vec<ByteRange> {
    // Whole blocks, and as many of them as can be cloned.
    let unit = u64::from(limits.remap.max(limits.block));
    let bytes = (bytes / unit).max(1) * unit;
    let spans = match limits.size <= 2 * bytes {
        true => vec![(0, limits.size)],
        false => vec![(0, bytes), (limits.size - bytes, bytes)],
    };
    spans.into_iter().map(|(start, len)| ByteRange::new(start, len).expect("inside the device")).collect()
}

/// Runs the suite in `rt`'s world, with the device to itself.
///
/// # Errors
/// The first [`Violation`].
pub async fn run(rt: Rt, device: Rc<dyn Device>, options: Options) -> Result<Report, Violation> {
    run::Run::new(rt, device, options).all().await
}

/// Runs the suite twice in virtual time; the two runs must agree on every event.
///
/// # Errors
/// The first [`Violation`].
///
/// # Panics
/// If the two runs differ.
pub fn in_virtual_time(factory: impl Fn(&Rt) -> Rc<dyn Device>, options: Options) -> Result<Report, Violation> {
    sim::twice(SimConfig::seeded(options.seed), |rt| {
        let device = factory(&rt);
        run(rt, device, options)
    })
}

/// Runs the suite on a real reactor.
///
/// # Errors
/// The first [`Violation`].
///
/// # Panics
/// If the kernel refuses the backend.
pub fn on_reactor(
    backend: Backend,
    factory: impl Fn(&Rt) -> Rc<dyn Device>,
    options: Options,
) -> Result<Report, Violation> {
    let reactor = Reactor::new(RealConfig { backend, ..RealConfig::seeded(options.seed) });
    let reactor = reactor.unwrap_or_else(|e| panic!("{e}"));
    let rt = reactor.rt();
    let device = factory(&rt);
    reactor.block_on(run(rt, device, options))
}

/// [`in_virtual_time`] for tests: a violation fails the test.
///
/// # Panics
/// With the first [`Violation`].
pub fn check(factory: impl Fn(&Rt) -> Rc<dyn Device>, options: Options) -> Report {
    in_virtual_time(factory, options).unwrap_or_else(|violation| panic!("{violation}"))
}

/// [`on_reactor`] for tests: a violation fails the test.
///
/// # Panics
/// With the first [`Violation`].
pub fn check_real(backend: Backend, factory: impl Fn(&Rt) -> Rc<dyn Device>, options: Options) -> Report {
    on_reactor(backend, factory, options).unwrap_or_else(|violation| panic!("{violation}"))
}

#[cfg(test)]
mod tests;
