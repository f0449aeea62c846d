//! Arguments of the world in which a server runs: how the kernel is reached, what is logged and measured.

use std::path::PathBuf;

use esker_base::Nanos;
use esker_rt::Level;
use esker_rt::net::Address;
use esker_rt::real::{Backend, Reactor, RealConfig};
use esker_serve::Config;
use esker_stack::Measure;
use esker_stack::text::address;

use crate::failure::Failure;
use crate::log::{LogLevel, Logging};
use crate::meters::What;

/// The world of a server.
#[derive(clap::Args)]
pub struct World {
    /// How files and sockets are reached
    #[arg(long, value_enum, default_value = "auto")]
    io: Io,
    #[command(flatten)]
    logging: Logging,
    /// What is counted and timed beside exports; more of it costs a little for each request
    #[arg(long, value_enum, default_value = "devices")]
    meters: What,
    /// Hand out metrics for Prometheus over HTTP at unix:PATH or tcp:127.0.0.1:PORT
    #[arg(long, value_name = "ADDRESS", value_parser = parse_address)]
    metrics: Option<Address>,
    /// Milliseconds that a stop may take: clients, the last flush, layers; then the process ends with status 1
    #[arg(long, value_name = "MS", default_value_t = 60_000)]
    stop_patience: u64,
    /// Seed of the layers that act at random
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Longest time of a stop: ten minutes.
const STOP_PATIENCE_MS_MAX: u64 = 600_000;

/// Backends by name.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Io {
    /// io_uring where it is permitted, else threads
    Auto,
    /// io_uring or an error
    Uring,
    /// Blocking calls on threads
    Threads,
}

fn parse_address(text: &str) -> Result<Address, String> {
    address::parse(text).map_err(|why| format!("{why}; write unix:PATH or tcp:127.0.0.1:PORT"))
}

impl World {
    /// Makes the world, with its log and its secrets.
    ///
    /// # Errors
    /// What the kernel refuses, and a log that cannot be written.
    pub fn start(&self) -> Result<Reactor, Failure> {
        self.start_at(LogLevel::Info)
    }

    /// The same; unless the command line says so, no line is logged below `level`.
    ///
    /// # Errors
    /// As [`World::start`].
    pub fn start_at(&self, level: LogLevel) -> Result<Reactor, Failure> {
        let backend = match self.io {
            Io::Auto => Backend::Auto,
            Io::Uring => Backend::Uring,
            Io::Threads => Backend::Threads,
        };
        let reactor = Reactor::new(RealConfig { backend, ..RealConfig::seeded(self.seed) })?;
        let rt = reactor.rt();
        self.logging.start_at(&rt, level)?;
        rt.set_secrets(crate::secrets::source());
        if let Some(reason) = reactor.fallback() {
            rt.log(Level::Warn, format_args!("{reason}"));
        }
        Ok(reactor)
    }

    /// How a server of this world is configured, as far as its world tells.
    pub fn config(&self, control: PathBuf, reactor: &Reactor) -> Config {
        Config {
            pid: Some(std::process::id()),
            measure: self.measure(),
            metrics: self.metrics.clone(),
            stop_patience: self.stop_patience(),
            ..Config::at(Address::Unix(control), io_of(reactor))
        }
    }

    /// What is measured from the start.
    pub fn measure(&self) -> Measure {
        self.meters.measured().measure()
    }

    /// How long a stop may take.
    pub fn stop_patience(&self) -> Nanos {
        Nanos::millis(self.stop_patience.min(STOP_PATIENCE_MS_MAX))
    }
}

/// How a world reaches the kernel, in a word.
pub fn io_of(reactor: &Reactor) -> &'static str {
    match reactor.backend() {
        Backend::Threads => "threads",
        Backend::Uring | Backend::Auto => "io_uring",
    }
}
