//! The closed list of calls. Calls that differ only in how they name their object are one here: `open`, `openat` and
//! `creat` are [`Call::Open`]; `stat`, `lstat`, `fstatat`, `statx` and `fstat` are [`Call::Stat`]. What is
//! platform-specific is a *pseudo-call*, which the replayer turns into calls of the target.
//!
//! Fields named `seen…` are what the call told the program; all others are its arguments. Buffers and their contents
//! are not kept. Offsets and lengths are in bytes.

mod alias;
mod fds;
mod kinds;
mod parts;
mod roles;

pub use kinds::Call;
pub use parts::{AsyncOp, AsyncQueue, At, Fd, Object, Status};
pub use roles::{Category, Compared, Effect, Family};
