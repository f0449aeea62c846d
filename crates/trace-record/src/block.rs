//! Records the requests to a block device: when each is queued, issued and completed, and by which process.
//!
//! Programs in the kernel ([`programs`]) see them at its block tracepoints, for the one device whose numbers they know,
//! and put them into a ring ([`wire`]). [`recorder`] takes them out, has [`pairing`] find what belongs together, and
//! writes blktrace's binary form. [`device`] finds out what is recorded.

mod device;
mod pairing;
mod programs;
mod recorder;
mod wire;

pub use device::{BlockDevice, DeviceError, Part};
pub use pairing::{Counts, Tally};
pub use recorder::{BlockError, BlockRecorded, BlockSettings, Far, record_block};
