//! Which process and which user connected a local socket.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd};

/// The program at the other end of a local socket, as it was when it connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Credentials {
    /// Its process; none if it is outside of this process's pid namespace, as that of a client outside of a container.
    pub pid: Option<u32>,
    /// Its effective user.
    pub uid: u32,
    /// Its effective group.
    pub gid: u32,
}

/// The user of a socket that has no peer.
const NO_USER: u32 = u32::MAX;

impl Credentials {
    /// Of the peer of a connected local socket.
    ///
    /// # Errors
    /// The kernel's; `NotConnected` if there is no peer.
    pub fn of_peer(socket: &impl AsFd) -> io::Result<Credentials> {
        // The kernel's `struct ucred`: process, user and group, each of 32 bits. Every value is one of a `u32`.
        let mut words = [0u32; 3];
        let mut len = size_of::<[u32; 3]>() as libc::socklen_t;
        // SAFETY: the descriptor is open; the kernel writes at most `len` bytes to `words`, which has as many, and the
        // length that it wrote to `len`.
        let told = unsafe {
            libc::getsockopt(
                socket.as_fd().as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                words.as_mut_ptr().cast(),
                &raw mut len,
            )
        };
        if told < 0 {
            return Err(io::Error::last_os_error());
        }
        let [pid, uid, gid] = words;
        if len as usize != size_of::<[u32; 3]>() || uid == NO_USER {
            return Err(io::ErrorKind::NotConnected.into());
        }
        Ok(Credentials { pid: (pid != 0).then_some(pid), uid, gid })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_peer_on_this_machine_is_known() {
        let (one, _other) = UnixStream::pair().unwrap();
        let known = Credentials::of_peer(&one).unwrap();
        assert_eq!(known.pid, Some(std::process::id()));
        assert_eq!((known.uid, known.gid), (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw()));
    }

    #[test]
    fn a_socket_without_a_local_peer_has_none() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(Credentials::of_peer(&stream).unwrap_err().kind(), io::ErrorKind::NotConnected);
    }
}
