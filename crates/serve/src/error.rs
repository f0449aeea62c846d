//! Why a stack, or a part of it, could not be served.

use esker_front_nbd::listen::ListenError;
use esker_front_nbd::proto::ExportError;
use esker_stack::{BuildError, Location, Unusable};

/// Why a stack could not be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The stack could not be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// An export's address.
    #[error("{at}: export \"{export}\": {source}")]
    Listen {
        /// The export's place.
        at: Location,
        /// Its name.
        export: String,
        /// What stands in the way.
        source: ListenError,
    },
    /// An export that NBD cannot offer.
    #[error("{at}: {source}")]
    Export {
        /// The place of the first export at that address.
        at: Location,
        /// What cannot be offered.
        source: ExportError,
    },
    /// An address that is none.
    #[error("{at}: export \"{export}\": {why}; write unix:PATH or tcp:HOST:PORT")]
    Address {
        /// The export's place.
        at: Location,
        /// Its name.
        export: String,
        /// What is wrong.
        why: &'static str,
    },
    /// The control socket.
    #[error("control socket: {0}; --control PATH names another one")]
    Control(ListenError),
    /// The address of the metrics.
    #[error("metrics: {0}; --metrics ADDRESS names another one")]
    Metrics(ListenError),
    /// An address of the metrics that more than this machine could reach.
    #[error("metrics: {0} is not on this machine alone, and metrics have no lock; use unix:PATH or tcp:127.0.0.1:PORT")]
    MetricsOpen(String),
    /// No export has an address, and there is no mount.
    #[error(
        "no export has an nbd address, so no client could reach this server; add nbd = \"unix:PATH\" to an export, or a \
         mount"
    )]
    Nothing,
}

/// An export or a mount that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} \"{name}\" cannot be used: {unusable}")]
pub struct UnusableOutlet {
    /// `export` or `mount`.
    pub what: &'static str,
    /// Its name.
    pub name: String,
    /// Why.
    pub unusable: Unusable,
}
