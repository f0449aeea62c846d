//! System calls that need unsafe code and no reactor: each in a safe form, and each blocking.
//!
//! Memory: [`process`] (advice about other processes, their page tables), [`file_map`], [`key_memory`] (pages of keys).
//! Descriptors: [`apart`] (calls without those of this process), [`credentials`] (of a peer), [`descriptor`],
//! [`file_handle`] (an inode without one), [`lock`]
//! (media against other programs), [`loop_device`].
//! Threads: [`futex`], [`idle`]. [`secrecy`] keeps keys out of dumps and of the environment.
//!
//! Invariant: decides nothing; keeps no state between calls.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "this is where the system calls are made that no library has in a safe form"
)]

pub mod credentials;
pub mod descriptor;
pub mod file_handle;
pub mod file_map;
pub mod futex;
pub mod idle;
pub mod isolated;
pub mod key_memory;
pub mod lock;
pub mod loop_device;
pub mod process;
pub mod secrecy;

pub use credentials::Credentials;
pub use descriptor::{WriteBack, close, write_back};
pub use file_map::FileMap;
pub use isolated::{IsolatedCall, NoDescriptors, error_number, run_isolated, work_isolated};
