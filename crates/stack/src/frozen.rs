//! A stack at rest: nothing is in flight, and new requests wait at admission.

use std::rc::Rc;

use esker_base::Nanos;
use esker_block::{Bio, BioError, VolumeId};
use esker_rt::Level;
use esker_rt::sync::{Either, join_all, race};

use crate::live::LiveError;
use crate::run::InFlightRequest;
use crate::stack::Stack;

/// Keeps a stack at rest until it is dropped.
pub struct FrozenStack(Rc<Stack>);

impl Drop for FrozenStack {
    fn drop(&mut self) {
        self.0.shared.admission.open();
    }
}

/// A flush that failed: what was written since the last successful one may be lost.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("\"{device}\" could not be flushed: {error}")]
pub struct FlushError {
    /// The export or device.
    pub device: String,
    /// What it says.
    pub error: BioError,
}

impl Stack {
    /// Holds new requests back and waits until none is in flight.
    ///
    /// # Errors
    /// [`LiveError::Busy`] if it is held already. [`LiveError::TimedOut`] if requests do not end in time; then it runs
    /// on.
    pub async fn hold(self: &Rc<Self>, patience: Nanos) -> Result<FrozenStack, LiveError> {
        self.drain(patience).await?;
        Ok(FrozenStack(self.clone()))
    }

    /// Holds new requests back; none if they are held already.
    pub(crate) fn hold_now(self: &Rc<Self>) -> Option<FrozenStack> {
        self.shared.admission.close().then(|| FrozenStack(self.clone()))
    }

    /// Closes admission and waits until no request is in; opens it again if that takes longer.
    pub(crate) async fn drain(&self, patience: Nanos) -> Result<(), LiveError> {
        let admission = &self.shared.admission;
        if !admission.close() {
            return Err(LiveError::Busy);
        }
        if let Either::Right(()) = race(admission.emptied(), self.rt().sleep(patience)).await {
            let inflight = self.inflight();
            admission.open();
            return Err(LiveError::TimedOut { inflight, waited: patience });
        }
        Ok(())
    }

    /// Flushes the exports and the devices of mounts, whose layers may still hold something back, and then the devices
    /// at the bottom; also while the stack is held. Failures are logged, and all are tried: one that waits does not
    /// keep the others of its kind back.
    ///
    /// # Errors
    /// The first failure.
    pub async fn flush_all(&self) -> Result<(), FlushError> {
        // It passes admission, which holds all others back until then.
        self.opened().await;
        let mut first = Ok(());
        for ends in self.ends() {
            let flushed = join_all(ends.into_iter().map(|(name, volume)| self.flush_end(name, volume))).await;
            first = flushed.into_iter().fold(first, Result::and);
        }
        first
    }

    async fn flush_end(&self, name: String, volume: VolumeId) -> Result<(), FlushError> {
        let flushed = match self.shared.check() {
            Ok(()) => self.flushes.during(&name, self.flush(volume)).await,
            refused => refused,
        };
        flushed.map_err(|error| {
            let error = FlushError { device: name, error };
            self.rt().log_event(Level::Error, "flush_failed", &[("device", &error.device)], format_args!("{error}"));
            error
        })
    }

    async fn flush(&self, volume: VolumeId) -> Result<(), BioError> {
        let snapshot = self.snapshot.borrow().clone();
        InFlightRequest::fresh(snapshot, 0, Some(Bio::flush().to(volume))).into_step().await.result.map(drop)
    }

    /// Exports and devices of mounts, and leaves, with the volumes to which they lead now.
    fn ends(&self) -> [Vec<(String, VolumeId)>; 2] {
        let (spec, parts) = (self.spec(), self.parts.borrow());
        let volume = |(name, device): (&str, &str)| Some((name.to_string(), parts.volume(device)?));
        let outlets = spec.outlets().map(|outlet| (outlet.name, outlet.device));
        let leaves = spec.devices.iter().filter(|device| device.on.is_empty());
        let leaves = leaves.map(|device| (device.name.as_str(), device.name.as_str()));
        [outlets.filter_map(volume).collect(), leaves.filter_map(volume).collect()]
    }
}
