//! Descriptors that go along with bytes over a local socket.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
};

/// Descriptors that one message carries at most: here they go one by one, but the kernel takes so many.
const CARRIED_MAX: usize = 16;

/// Sends as many of the bytes as the socket takes without waiting, and the descriptor with the first of them.
///
/// # Errors
/// `WouldBlock` if it takes nothing, and the kernel's.
pub(crate) fn send_with_now(socket: &OwnedFd, bytes: &[u8], carried: BorrowedFd<'_>) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut message = SendAncillaryBuffer::new(&mut space);
    let carried = [carried];
    let fits = message.push(SendAncillaryMessage::ScmRights(&carried));
    debug_assert!(fits, "there is room for one descriptor");
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    Ok(rustix::net::sendmsg(socket, &[IoSlice::new(bytes)], &mut message, flags)?)
}

/// Receives what is there without waiting: bytes, and the descriptors that came with them. 0 bytes at the end.
///
/// # Errors
/// `WouldBlock` if nothing is there, and the kernel's.
pub(crate) fn receive_with_now(socket: &OwnedFd, into: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(CARRIED_MAX))];
    let mut message = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let received = rustix::net::recvmsg(socket, &mut [IoSliceMut::new(into)], &mut message, flags)?;
    let rights = message.drain().filter_map(|part| {
        let RecvAncillaryMessage::ScmRights(carried) = part else { return None };
        Some(carried)
    });
    Ok((received.bytes, rights.flatten().collect()))
}
