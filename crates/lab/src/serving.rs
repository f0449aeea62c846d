//! Our own servers, each on a thread of its own beside the experiment.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, spawn};

use esker_base::Nanos;
use esker_rt::Rt;
use esker_rt::real::{Reactor, RealConfig};

/// Asks a server to stop.
#[derive(Clone)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Returns soon after the server is asked to stop, which is looked for now and then.
    pub async fn asked(&self, rt: &Rt) {
        while !self.0.load(Ordering::Relaxed) {
            rt.sleep(Nanos::millis(100)).await;
        }
    }
}

/// A server; asked to stop and waited for when dropped.
pub struct Serving {
    stop: Stop,
    thread: Option<JoinHandle<()>>,
}

impl Serving {
    /// Runs `serve` on a reactor of its own.
    pub fn start<F>(seed: u64, serve: impl FnOnce(Rt, Stop) -> F + Send + 'static) -> Serving
    where
        F: Future<Output = ()> + 'static,
    {
        let stop = Stop(Arc::default());
        let asked = stop.clone();
        let thread = spawn(move || {
            let reactor = Reactor::new(RealConfig::seeded(seed)).unwrap_or_else(|e| panic!("{e}"));
            reactor.block_on(serve(reactor.rt(), asked));
        });
        Serving { stop, thread: Some(thread) }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.stop.0.store(true, Ordering::Relaxed);
        // A panic there has been printed, and the client has reported a failure.
        let _ended = self.thread.take().map(JoinHandle::join);
    }
}
