//! How a stack is served.

use esker_base::Nanos;
use esker_front_nbd::listen::Access;
use esker_front_nbd::server as nbd;
use esker_front_nbd::tls::ServerTls;
use esker_rt::net::Address;
use esker_stack::Measure;

use crate::inherited::Inherited;
use crate::mounts::FileSystems;

/// How a stack is served.
#[derive(Clone)]
pub struct Config {
    /// Where commands are taken.
    pub control: Address,
    /// Permission bits of the control socket; connecting needs the one for writing.
    pub control_mode: u32,
    /// Bounds of each NBD server.
    pub nbd: nbd::Config,
    /// TLS of all exports.
    pub tls: Option<ServerTls>,
    /// The users that may connect to the Unix sockets of exports.
    pub access: Access,
    /// How the kernel is reached, for the status.
    pub io: String,
    /// Number of this process, for those that ask over the control socket.
    pub pid: Option<u32>,
    /// Which parts are measured from the start.
    pub measure: Measure,
    /// Where metrics are handed out over HTTP. Any program that can connect may read them.
    pub metrics: Option<Address>,
    /// How long a stop may take, from clients to the last flush.
    pub stop_patience: Nanos,
    /// What mounts of the text are opened with.
    pub file_systems: FileSystems,
    /// Sockets that are open already.
    pub inherited: Inherited,
}

impl Config {
    /// Commands are taken at `control`, and the kernel is reached through `io`. Bounds are those of production, and
    /// sockets are open to users that the umask of the process allows. Nothing is encrypted, measured, mounted, or
    /// handed out over HTTP.
    pub fn at(control: Address, io: &str) -> Config {
        Config {
            control,
            control_mode: CONTROL_MODE,
            nbd: nbd::Config::production(),
            tls: None,
            access: Access::default(),
            io: io.to_string(),
            pid: None,
            measure: Measure::Off,
            metrics: None,
            stop_patience: STOP_PATIENCE,
            file_systems: FileSystems::NONE,
            inherited: Inherited::default(),
        }
    }
}

/// A control socket is for its owner, whatever the process' mask says: it is stronger than any export.
pub(crate) const CONTROL_MODE: u32 = 0o600;
/// Long enough for the flush of a slow disk behind a full page cache; a service manager waits longer.
const STOP_PATIENCE: Nanos = Nanos::secs(60);
