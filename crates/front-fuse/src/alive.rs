//! Whether the server of a mount still lives, and when it ends.
//!
//! A server listens on an abstract socket that bears the number of its mount's device, until all is flushed. A program
//! that connects learns the process from the kernel, and sees the end of the stream when the process has ended, however
//! it did. Nothing is left behind, and nothing is accepted.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the socket by which a program waits for the end of a server"
)]

use std::io::{self, Read};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

use esker_sys::Credentials;

use crate::busy::Mount;

fn address(mount: &Mount) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("esker/mount/{}", mount.device))
}

/// Says that a server lives, until it is dropped.
#[derive(Debug)]
pub struct Alive(#[allow(dead_code, reason = "it is held, and says so")] UnixListener);

impl Alive {
    /// The server of this mount lives from now on.
    ///
    /// # Errors
    /// The kernel's.
    pub fn say(mount: &Mount) -> io::Result<Alive> {
        Ok(Alive(UnixListener::bind_addr(&address(mount)?)?))
    }
}

/// Waits for the end of a server.
#[derive(Debug)]
pub struct Watch {
    stream: UnixStream,
    /// Its process, where this one can see it.
    pub pid: Option<u32>,
}

impl Watch {
    /// The server of a mount; none if it does not say that it lives.
    pub fn of(mount: &Mount) -> Option<Watch> {
        let stream = UnixStream::connect_addr(&address(mount).ok()?).ok()?;
        let peer = Credentials::of_peer(&stream).ok()?;
        // Any user may take a name that is free: the server has the user of its mount.
        let is_servers = mount.user.is_none_or(|user| user == peer.uid);
        is_servers.then_some(Watch { stream, pid: peer.pid })
    }

    /// Whether the server has ended. Waits for that, but no longer than this.
    pub fn has_ended(&mut self, patience: Duration) -> bool {
        let waited = self.stream.set_read_timeout(Some(patience)).and_then(|()| self.stream.read(&mut [0]));
        !matches!(waited, Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_alive_until_it_ends_and_its_number_is_free_again() {
        let device = format!("test:{}", std::process::id());
        let mount = Mount { at: "/".into(), kind: String::new(), source: String::new(), device, user: None };
        assert!(Watch::of(&mount).is_none());
        let alive = Alive::say(&mount).unwrap();
        let mut watch = Watch::of(&mount).unwrap();
        assert_eq!(watch.pid, Some(std::process::id()));
        assert!(!watch.has_ended(Duration::from_millis(20)));
        let strangers = Mount { user: Some(u32::MAX), ..mount.clone() };
        assert!(Watch::of(&strangers).is_none(), "another user's server is none of the mount");
        drop(alive);
        assert!(watch.has_ended(Duration::from_secs(10)));
        drop(Alive::say(&mount).unwrap());
    }
}
