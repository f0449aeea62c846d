//! Our own servers, each on a thread of its own beside the experiment.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::{JoinHandle, spawn};

use esker_base::Nanos;
use esker_front_fuse::{Attached, Export, Setup};
use esker_rt::Rt;
use esker_rt::real::{Reactor, RealConfig};

use crate::experiment::LabError;
use crate::{peer, rig};

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

/// The device `vol` of a stack text as a block device of the kernel, and what serves it until it is dropped.
///
/// # Errors
/// What the text or the kernel refuses; this takes root.
pub fn attach(text: &str, setup: Setup, seed: u64) -> Result<(Serving, PathBuf), LabError> {
    let fault = |what: String| peer::fault("our own device", what);
    let (tell, told) = channel();
    let text = text.to_string();
    let serving = Serving::start(seed, move |rt, stop| serve_attached(rt, text, setup, tell, stop));
    let device = told.recv().map_err(|error| fault(error.to_string()))?;
    Ok((serving, device.map_err(fault)?))
}

async fn serve_attached(rt: Rt, text: String, setup: Setup, tell: Sender<Result<PathBuf, String>>, stop: Stop) {
    let stack = match rig::stack(&rt, &rig::spec(&text)) {
        Ok(stack) => stack,
        Err(error) => return drop(tell.send(Err(error.to_string()))),
    };
    let exports = vec![Export { name: "vol".to_string(), device: rig::device(&stack, "vol") }];
    match Attached::start(&rt, stack.pool(), exports, &setup).await {
        Err(error) => drop(tell.send(Err(error.to_string()))),
        Ok(attached) => {
            // A caller that gave up the device has stopped this too.
            let _heard = tell.send(Ok(attached.disks()[0].path.clone()));
            stop.asked(&rt).await;
            attached.stop().await;
        }
    }
    stack.close().await;
}
