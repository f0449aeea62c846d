//! Exports as block devices of this machine.

use std::rc::Rc;

use esker_base::{ByteRange, Nanos};
use esker_block::step::LocalFuture;
use esker_front_fuse::{AttachError, Attached, Disk, Export, Setup};

use crate::front::{Front, Offer};
use crate::server::Served;

/// Why exports cannot be devices.
#[derive(Debug, thiserror::Error)]
pub enum AttachFrontError {
    /// No such export.
    #[error("no export is named \"{0}\", so it cannot be attached; the stack's text names the exports")]
    Unknown(String),
    /// What the machine says.
    #[error(transparent)]
    Attach(#[from] AttachError),
}

/// Exports that are devices of this machine, until the server stops.
pub struct AttachFront(Rc<Attached>);

impl AttachFront {
    /// Attaches these exports. Requests are answered from then on, as far as the world turns.
    ///
    /// # Errors
    /// [`AttachFrontError`].
    pub async fn open(served: &Served, names: &[String], setup: &Setup) -> Result<Rc<AttachFront>, AttachFrontError> {
        let export = |name: &String| {
            let device = served.export(name).ok_or_else(|| AttachFrontError::Unknown(name.clone()))?;
            Ok::<_, AttachFrontError>(Export { name: name.clone(), device: Rc::new(device) })
        };
        let exports = names.iter().map(export).collect::<Result<Vec<_>, _>>()?;
        let stack = served.stack();
        // Volumes tell their size when they are open.
        stack.opened().await;
        Ok(Rc::new(AttachFront(Attached::start(stack.rt(), stack.pool(), exports, setup).await?)))
    }

    /// The devices.
    pub fn disks(&self) -> Vec<Disk> {
        self.0.disks()
    }

    /// Waits until the devices are gone, whatever removed them.
    pub async fn ended(&self) {
        self.0.ended().await;
    }
}

impl Front for AttachFront {
    fn offers(&self) -> Vec<Offer> {
        let offer = |disk: Disk| {
            let Disk { export, path, size, read_only, .. } = disk;
            Offer { export, at: path.display().to_string(), size, read_only }
        };
        self.0.disks().into_iter().map(offer).collect()
    }

    fn clients(&self) -> usize {
        self.0.opens() as usize
    }

    fn before_change(&self, export: &str, _: &[ByteRange]) -> LocalFuture<()> {
        let (attached, export) = (self.0.clone(), export.to_string());
        Box::pin(async move { attached.write_back(&export).await })
    }

    fn after_change(&self, export: &str, ranges: &[ByteRange]) -> LocalFuture<()> {
        let (attached, export, ranges) = (self.0.clone(), export.to_string(), ranges.to_vec());
        Box::pin(async move { attached.forget(&export, &ranges).await })
    }

    fn resized(&self, export: &str) -> LocalFuture<()> {
        let (attached, export) = (self.0.clone(), export.to_string());
        Box::pin(async move { attached.resized(&export).await })
    }

    fn stop(&self, _: Nanos) -> LocalFuture<()> {
        let attached = self.0.clone();
        Box::pin(async move { attached.stop().await })
    }
}
