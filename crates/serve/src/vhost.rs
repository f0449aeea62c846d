//! Exports as disks of virtual machines, through vhost-user sockets.

use std::path::PathBuf;
use std::rc::Rc;

use esker_base::{ByteRange, Nanos};
use esker_block::Device;
use esker_block::step::LocalFuture;
use esker_front_nbd::listen::{Access, ListenError, listen_as};
use esker_front_vhost::{Config, Server};
use esker_rt::net::{Address, Listener};
use esker_stack::{Export, Stack};

use crate::front::{Front, Offer};
use crate::server::Served;

/// An export that virtual machines can use as a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VhostDoor {
    /// Its name.
    pub export: String,
    /// The Unix socket at which a machine's monitor finds it.
    pub socket: PathBuf,
}

/// Why an export cannot be a disk.
#[derive(Debug, thiserror::Error)]
pub enum VhostError {
    /// No such export.
    #[error("no export is named \"{0}\", so no virtual machine can use it; the stack's text names the exports")]
    Unknown(String),
    /// The socket.
    #[error("vhost-user socket of export \"{export}\": {source}")]
    Listen {
        /// The export.
        export: String,
        /// What stands in the way.
        source: ListenError,
    },
}

/// One export at one socket, for one virtual machine at a time.
pub struct VhostFront {
    offer: Offer,
    export: Rc<Export>,
    server: Server,
}

impl VhostFront {
    /// Listens at the socket and serves from then on.
    ///
    /// # Errors
    /// [`VhostError`].
    pub fn open(served: &Served, door: &VhostDoor, access: Access) -> Result<Rc<VhostFront>, VhostError> {
        let VhostDoor { export: name, socket } = door;
        let stack = served.stack();
        let export = served.export(name).ok_or_else(|| VhostError::Unknown(name.clone()))?;
        let export = Rc::new(export);
        let listener = listener(stack, socket, access);
        let listener = listener.map_err(|source| VhostError::Listen { export: name.clone(), source })?;
        let at = format!("vhost-user:{}", socket.display());
        let offer = Offer { export: name.clone(), at, size: export.size(), read_only: export.is_read_only() };
        let server = Server::new(stack.rt(), stack.pool(), name, export.clone(), Config::production());
        let (serving, opening) = (server.clone(), stack.clone());
        let serve = async move {
            // Volumes tell their size when they are open.
            opening.opened().await;
            serving.serve(&listener).await;
        };
        stack.rt().spawn("vhost-accept", serve).detach();
        Ok(Rc::new(VhostFront { offer, export, server }))
    }
}

fn listener(stack: &Rc<Stack>, socket: &std::path::Path, access: Access) -> Result<Listener, ListenError> {
    listen_as(stack.rt(), &Address::Unix(socket.to_path_buf()), access)
}

impl Front for VhostFront {
    fn offers(&self) -> Vec<Offer> {
        vec![Offer { size: self.export.size(), ..self.offer.clone() }]
    }

    fn clients(&self) -> usize {
        usize::from(self.server.is_connected())
    }

    fn before_change(&self, _: &str, _: &[ByteRange]) -> LocalFuture<()> {
        // Nothing is held back here: what the guest was told is with the device.
        Box::pin(async {})
    }

    fn after_change(&self, _: &str, _: &[ByteRange]) -> LocalFuture<()> {
        Box::pin(async {})
    }

    fn resized(&self, _: &str) -> LocalFuture<()> {
        // The monitor is told when it asks: the library that speaks to it has no message for that.
        Box::pin(async {})
    }

    fn stop(&self, patience: Nanos) -> LocalFuture<()> {
        let server = self.server.clone();
        Box::pin(async move { server.stop_within(patience).await })
    }
}
