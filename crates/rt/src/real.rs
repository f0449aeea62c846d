//! The real world: a reactor that one thread at a time enters.
//!
//! Reading order: [`reactor`] (the loop), [`op`] (what the kernel can be asked), [`uring`] and [`threads`] (the two backends).
//! Then [`kernel`] (what devices and front ends call), [`cell`] (a stack that any thread may enter), [`apart`] (calls that this
//! process may have to answer itself).
//!
//! Calls without a safe form elsewhere: [`credentials`] (of a peer), [`descriptor`], [`fault_guard`] (mapped files that others
//! shorten), [`file_map`], [`lock`] (media against other programs), [`loop_device`], [`process`] (memory of other processes).
//! Keys: [`secrecy`] (keeps them out of dumps and of the environment), [`key_memory`] (their pages).

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the real world is where clocks, files, sockets and threads are reached"
)]

pub mod apart;
pub mod cell;
pub mod credentials;
pub mod cross;
pub mod descriptor;
pub mod fault_guard;
pub mod file_map;
pub mod kernel;
pub mod key_memory;
pub mod lock;
pub mod loop_device;
pub mod op;
pub mod process;
pub mod reactor;
pub mod secrecy;
mod socket;
mod threads;
mod uring;
#[cfg(test)]
mod vanished;
mod workers;

pub use apart::{IsolatedCall, NoDescriptors, run_isolated, work_apart};
pub use cell::StackCell;
pub use credentials::Credentials;
pub use descriptor::{WriteBack, close, write_back};
pub use fault_guard::FaultGuard;
pub use file_map::FileMap;
pub use kernel::{File, InFlight, Kernel, OpenMode};
pub use op::{FallocateMode, Op, Outcome};
pub use reactor::{Backend, Reactor, RealConfig, StartError};

pub(crate) use reactor::{RealState, run_agent};
#[cfg(test)]
pub(crate) use socket::peer_name;
pub(crate) use socket::{connect, listen, listen_closed, peer, receive_now, remove_socket, send_now, untaken};

/// Sixteen unique bytes from the kernel.
pub(crate) fn unique() -> u128 {
    let mut bytes = [0; 16];
    let mut filled = 0;
    while filled < bytes.len() {
        let got = rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty());
        match got {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("the kernel gives no random bytes: {error}"),
        }
    }
    u128::from_le_bytes(bytes)
}
