//! Descriptors that are sent along with bytes, from one process of this machine to another.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use esker_base::Nanos;

use super::{Kind, Stream, is_not_yet_kind, when_readable};
use crate::Rt;
use crate::mem::Slice;

/// How long is waited before a full socket is tried again.
const PAUSE: Nanos = Nanos::millis(1);

/// No stream of virtual time carries descriptors.
fn unsupported() -> io::Error {
    io::ErrorKind::Unsupported.into()
}

impl Stream {
    /// The socket, where there is one.
    pub fn socket(&self) -> Option<BorrowedFd<'_>> {
        match &self.0 {
            Kind::Socket { fd, .. } => Some(fd.as_fd()),
            Kind::Pipe { .. } => None,
        }
    }

    /// Sends all bytes, of which there is at least one, and the descriptor with the first of them.
    ///
    /// # Errors
    /// The kernel's, and `Unsupported` without a socket.
    pub async fn send_with(&self, rt: &Rt, bytes: Vec<u8>, carried: BorrowedFd<'_>) -> io::Result<()> {
        let Kind::Socket { fd, .. } = &self.0 else { return Err(unsupported()) };
        let sent = loop {
            match crate::real::send_with_now(fd, &bytes, carried) {
                Err(error) if is_not_yet_kind(error.kind()) => rt.sleep(PAUSE).await,
                other => break other?,
            }
        };
        let left = bytes.len() - sent;
        if left > 0 {
            self.write_all(vec![Slice { start: sent, len: left, ..Slice::heap(bytes) }]).await?;
        }
        Ok(())
    }

    /// Receives at least one byte, unless the stream has ended (0 bytes), and the descriptors that come with the bytes.
    ///
    /// # Errors
    /// The kernel's, and `Unsupported` without a socket.
    pub async fn receive_with(&self, into: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
        let Kind::Socket { kernel, fd, .. } = &self.0 else { return Err(unsupported()) };
        when_readable(kernel, fd, || crate::real::receive_with_now(fd, into)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::tests::local_pair;
    use crate::real::{Backend, Reactor, RealConfig};

    #[test]
    fn a_descriptor_comes_with_its_bytes_and_leads_to_the_same_socket() {
        for backend in [Backend::Uring, Backend::Threads] {
            let reactor = Reactor::new(RealConfig { backend, ..RealConfig::seeded(1) }).unwrap();
            let rt = reactor.rt();
            reactor.block_on(async move {
                let (near, far) = local_pair(&rt);
                let (passed, other) = local_pair(&rt);
                near.send_with(&rt, b"take\n".to_vec(), passed.socket().unwrap()).await.unwrap();
                drop(passed);
                let mut bytes = [0; 16];
                let (count, mut carried) = far.receive_with(&mut bytes).await.unwrap();
                assert_eq!((&bytes[..count], carried.len()), (&b"take\n"[..], 1), "{backend:?}");
                let taken = Stream::from_socket(&rt, carried.remove(0)).unwrap();
                taken.write_all(vec![Slice::heap(b"x".to_vec())]).await.unwrap();
                assert_eq!(other.read_exact(vec![Slice::heap(vec![0])]).await.unwrap()[0].bytes(), b"x");
                drop(near);
                assert_eq!(far.receive_with(&mut bytes).await.unwrap().0, 0);
            });
        }
    }
}
