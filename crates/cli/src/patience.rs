//! The argument --patience of live changes.

/// How long a live change waits for requests in flight.
#[derive(clap::Args)]
pub struct Patience {
    /// Milliseconds to wait for requests in flight, and for a flush, before giving up; at most 600000
    #[arg(long = "patience", value_name = "MS", default_value_t = 10_000)]
    pub ms: u64,
}
