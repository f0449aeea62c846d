//! The world in which a candidate is played: virtual time, or the real one, where models are paced and files are files.

use std::future::Future;

use esker_rt::real::{Reactor, RealConfig};
use esker_rt::{Rt, Sim, SimConfig};

use crate::error::PredictError;

/// A world that ends with one run.
pub(crate) enum World {
    Virtual(Sim),
    Real(Reactor),
}

impl World {
    pub(crate) fn in_virtual_time(seed: u64) -> World {
        World::Virtual(Sim::new(SimConfig::seeded(seed)))
    }

    /// # Errors
    /// What the kernel refuses.
    pub(crate) fn real(seed: u64) -> Result<World, PredictError> {
        Ok(World::Real(Reactor::new(RealConfig::seeded(seed))?))
    }

    pub(crate) fn rt(&self) -> Rt {
        match self {
            World::Virtual(sim) => sim.rt(),
            World::Real(reactor) => reactor.rt(),
        }
    }

    /// Runs `future` to its end.
    ///
    /// # Errors
    /// A virtual world in which nothing can run any more, for `who`.
    pub(crate) fn run<T: 'static>(
        &self,
        who: &str,
        future: impl Future<Output = T> + 'static,
    ) -> Result<T, PredictError> {
        let stuck =
            |halt: esker_rt::sim::Halt| PredictError::Stuck { candidate: who.to_string(), halt: halt.to_string() };
        match self {
            World::Virtual(sim) => sim.try_block_on(future).map_err(stuck),
            World::Real(reactor) => Ok(reactor.block_on(future)),
        }
    }

    /// Fingerprint and count of all events; the real world has none.
    pub(crate) fn digest(&self) -> Option<(String, u64)> {
        match self {
            World::Virtual(sim) => Some((format!("{:016x}", sim.digest()), sim.events())),
            World::Real(_) => None,
        }
    }
}
