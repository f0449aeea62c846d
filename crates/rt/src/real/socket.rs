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

/// Removes the path of a socket that we made; gone already is fine.
pub(crate) fn remove_socket(path: &Path) {
    let _gone = std::fs::remove_file(path);
}
