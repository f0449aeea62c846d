//! The real world: a reactor that one thread at a time enters.
//!
//! Reading order: [`reactor`] (the loop), [`op`] (what the kernel can be asked), [`uring`] and [`threads`] (the two
//! backends). Then [`kernel`] (what devices and front ends call), [`cell`] (a stack that any thread may enter),
//! [`fault_guard`] (mapped files that others shorten), `fuse_entry` (requests in memory that the kernel shares). Other
//! system calls without a safe form stand in `esker-sys`.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the real world is where clocks, files, sockets and threads are reached"
)]

mod answer;
mod any_ring;
pub mod cell;
pub mod cross;
pub mod fault_guard;
mod fuse_entry;
pub mod kernel;
pub mod op;
mod passing;
pub mod reactor;
mod socket;
mod threads;
mod uring;
#[cfg(test)]
mod vanished;
mod workers;

pub use answer::Answer;
pub use cell::StackCell;
pub use fault_guard::FaultGuard;
pub use fuse_entry::{FUSE_HEAD_BYTES, FuseEntry};
pub use kernel::{File, InFlight, Kernel, OpenMode};
pub use op::{FallocateMode, Op, Outcome};
pub use reactor::{Backend, Reactor, RealConfig, StartError};

pub(crate) use passing::{receive_with_now, send_with_now};
pub(crate) use reactor::{RealState, run_agent};
pub(crate) use socket::{
    accept_now, adopt, connect, listen, listen_closed, patient, peer, receive_now, remove_socket, send_now, untaken,
};

/// Fills `bytes` with random ones from the kernel.
///
/// # Panics
/// If the kernel has none.
pub fn fill_random(bytes: &mut [u8]) {
    let mut filled = 0;
    while filled < bytes.len() {
        let got = rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty());
        match got {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("the kernel gives no random bytes: {error}"),
        }
    }
}

/// Sixteen unique bytes from the kernel.
pub(crate) fn unique() -> u128 {
    let mut bytes = [0; 16];
    fill_random(&mut bytes);
    u128::from_le_bytes(bytes)
}
