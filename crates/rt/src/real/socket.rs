//! Making sockets. Blocking, for start-up and tools.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use crate::net::Address;

/// A listening socket and its address with the port that the kernel chose.
pub(crate) fn listen(address: &Address) -> io::Result<(OwnedFd, Address)> {
    match address {
        Address::Unix(path) => Ok((UnixListener::bind(path)?.into(), address.clone())),
        Address::Tcp(host) => {
            let listener = TcpListener::bind(host)?;
            // Linux hands this on to accepted connections: small replies must not wait for acknowledgements.
            rustix::net::sockopt::set_tcp_nodelay(&listener, true)?;
            let bound = Address::Tcp(listener.local_addr()?.to_string());
            Ok((listener.into(), bound))
        }
    }
}

/// A connected socket.
pub(crate) fn connect(address: &Address) -> io::Result<OwnedFd> {
    match address {
        Address::Unix(path) => Ok(UnixStream::connect(path)?.into()),
        Address::Tcp(host) => {
            let stream = TcpStream::connect(host)?;
            stream.set_nodelay(true)?;
            Ok(stream.into())
        }
    }
}

/// Who is at the other end of a connected socket; empty if the kernel cannot tell.
pub(crate) fn peer(fd: &OwnedFd) -> String {
    let address = rustix::net::getpeername(fd).ok().flatten();
    if let Some(address) = address.and_then(|address| std::net::SocketAddr::try_from(address).ok()) {
        return address.to_string();
    }
    // A program on this machine: its socket has no name, but the kernel knows who connected it.
    let peer = rustix::net::sockopt::socket_peercred(fd);
    peer.map_or_else(|_| String::new(), |peer| format!("pid {} uid {}", peer.pid, peer.uid.as_raw()))
}

/// Removes the path of a socket that we made; gone already is fine.
pub(crate) fn remove_socket(path: &Path) {
    let _gone = std::fs::remove_file(path);
}
