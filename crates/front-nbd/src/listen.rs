//! Listening: what stands in the way is named, and only the socket of a dead server is replaced.

use std::fs::Permissions;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use esker_rt::Rt;
use esker_rt::net::{Address, Listener};

/// Why a server cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// A server answers there.
    #[error("{0:?} is in use by a running server; stop it or choose another path")]
    Alive(String),
    /// Something else has that name.
    #[error("{0:?} exists and is not a socket; remove it or choose another path")]
    NotSocket(String),
    /// A port in use.
    #[error("{0} is in use by another program; choose another port, or port 0 for a free one")]
    PortInUse(String),
    /// No permission.
    #[error("no permission to listen at {place}; {advice}")]
    Permission {
        /// The address.
        place: String,
        /// What to change.
        advice: &'static str,
    },
    /// The directory of a socket is not there.
    #[error("the directory of socket {0:?} does not exist; create it")]
    NoDirectory(String),
    /// A path that does not fit in a socket address.
    #[error("socket path {0:?} is too long for the kernel (at most 107 bytes); choose a shorter one")]
    LongPath(String),
    /// Permissions that could not be set.
    #[error("cannot set owner or mode of socket {place:?}: {source}; a foreign owner needs root")]
    Access {
        /// The socket.
        place: String,
        /// The kernel's reason.
        source: io::Error,
    },
    /// Anything else that the kernel says.
    #[error("cannot listen at {place}: {source}")]
    Other {
        /// The address.
        place: String,
        /// The kernel's reason.
        source: io::Error,
    },
}

/// Listens at `address`. The socket of a server that has died (nothing accepts there) is replaced.
///
/// # Errors
/// [`ListenError`] says what stands in the way and what to do.
pub fn listen(rt: &Rt, address: &Address) -> Result<Listener, ListenError> {
    listen_as(rt, address, Access::default())
}

/// The same; `access` says which users may connect to a Unix socket, which is never open to others before.
///
/// # Errors
/// As for [`listen`], and for an owner that only root may set.
pub fn listen_as(rt: &Rt, address: &Address, access: Access) -> Result<Listener, ListenError> {
    let bind = |address: &Address| match access.mode {
        Some(_) => Listener::bind_closed(rt, address),
        None => Listener::bind(rt, address),
    };
    let listener = bind_where_nobody_lives(address, &bind)?;
    grant(listener.address(), access).map(|()| listener)
}

fn bind_where_nobody_lives(
    address: &Address,
    bind: &dyn Fn(&Address) -> io::Result<Listener>,
) -> Result<Listener, ListenError> {
    let error = match bind(address) {
        Ok(listener) => return Ok(listener),
        Err(error) => error,
    };
    match (address, error.kind()) {
        (Address::Unix(path), ErrorKind::AddrInUse) => {
            remove_dead(address, path)?;
            bind(address).map_err(|e| explain(address, e))
        }
        (Address::Tcp(_), ErrorKind::AddrInUse) => bind_after_the_dying(address, bind).map_err(|e| explain(address, e)),
        _ => Err(explain(address, error)),
    }
}

/// Users that may connect to a Unix socket, beyond what its directory and the process's mask say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Access {
    /// Permission bits; connecting needs the one for writing.
    pub mode: Option<u32>,
    /// User, and group if it shall change too, by number.
    pub owner: Option<(u32, Option<u32>)>,
}

/// Sets which users may connect to a Unix socket; TCP has no such thing.
///
/// # Errors
/// [`ListenError`], mostly for an owner that only root may set.
#[allow(clippy::disallowed_methods, reason = "a front end owns its socket's path")]
fn grant(address: &Address, access: Access) -> Result<(), ListenError> {
    let Address::Unix(path) = address else { return Ok(()) };
    let other = |source| ListenError::Access { place: path.display().to_string(), source };
    if let Some((user, group)) = access.owner {
        std::os::unix::fs::chown(path, Some(user), group).map_err(other)?;
    }
    // After the owner: a change of owner may take bits away.
    match access.mode {
        Some(mode) => std::fs::set_permissions(path, Permissions::from_mode(mode)).map_err(other),
        None => Ok(()),
    }
}

/// A killed server's ring keeps its sockets for a moment, because the kernel takes rings down in the background.
const DYING_MAX: Duration = Duration::from_secs(1);

/// Tries again while a server that was killed may still hold the port.
#[allow(clippy::disallowed_methods, reason = "a front end starts in the real world, before anything runs")]
fn bind_after_the_dying(address: &Address, bind: &dyn Fn(&Address) -> io::Result<Listener>) -> io::Result<Listener> {
    let step = DYING_MAX / 20;
    for _ in 1..20 {
        std::thread::sleep(step);
        match bind(address) {
            Err(e) if e.kind() == ErrorKind::AddrInUse => {}
            other => return other,
        }
    }
    bind(address)
}

/// Removes the socket if no server listens on it.
#[allow(clippy::disallowed_methods, reason = "a front end owns its socket's path")]
fn remove_dead(address: &Address, path: &Path) -> Result<(), ListenError> {
    let place = path.display().to_string();
    let found = std::fs::symlink_metadata(path).map_err(|e| explain(address, e))?;
    if !found.file_type().is_socket() {
        return Err(ListenError::NotSocket(place));
    }
    match is_alive(path) {
        Ok(false) => std::fs::remove_file(path).map_err(|e| explain(address, e)),
        Err(e) if e.kind() == ErrorKind::PermissionDenied => Err(explain(address, e)),
        _ => Err(ListenError::Alive(place)),
    }
}

/// A dead server refuses a connection, a dying one ends it, a living one greets or waits.
#[allow(clippy::disallowed_types, reason = "a front end asks which process has its socket")]
fn is_alive(path: &Path) -> io::Result<bool> {
    let mut stream = match std::os::unix::net::UnixStream::connect(path) {
        Err(e) if e.kind() == ErrorKind::ConnectionRefused => return Ok(false),
        other => other?,
    };
    stream.set_read_timeout(Some(DYING_MAX))?;
    Ok(match stream.read(&mut [0]) {
        Ok(0) => false,
        Err(e) => e.kind() != ErrorKind::ConnectionReset,
        Ok(_) => true,
    })
}

fn explain(address: &Address, source: io::Error) -> ListenError {
    let (place, unix) = match address {
        Address::Unix(path) => (path.display().to_string(), true),
        Address::Tcp(host) => (host.clone(), false),
    };
    match source.kind() {
        ErrorKind::AddrInUse if unix => ListenError::Alive(place),
        ErrorKind::AddrInUse => ListenError::PortInUse(place),
        ErrorKind::NotFound if unix => ListenError::NoDirectory(place),
        ErrorKind::InvalidInput if unix => ListenError::LongPath(place),
        ErrorKind::PermissionDenied => {
            let advice = if unix {
                "its directory must be writable, and an old socket there must be yours"
            } else {
                "choose a port from 1024 on"
            };
            ListenError::Permission { place, advice }
        }
        _ => ListenError::Other { place, source },
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests put things in the way and look at them")]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use esker_rt::net::Stream;
    use esker_rt::real::{Reactor, RealConfig};

    /// A directory that vanishes, and a path for a socket in it.
    fn place() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("nbd.sock");
        (dir, path)
    }

    fn in_world<T: 'static, Fut: Future<Output = T> + 'static>(scenario: impl FnOnce(Rt) -> Fut) -> T {
        let reactor = Reactor::new(RealConfig::seeded(3)).unwrap();
        reactor.block_on(scenario(reactor.rt()))
    }

    #[test]
    fn the_socket_is_removed_with_its_listener() {
        let (_dir, path) = place();
        let address = Address::Unix(path.clone());
        in_world(|rt| async move { listen(&rt, &address).unwrap() });
        assert!(!path.exists());
    }

    #[test]
    fn a_socket_has_its_mode_whatever_the_mask_says_and_is_closed_before() {
        let (_dir, path) = place();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        in_world(|rt| async move {
            let address = Address::Unix(path.clone());
            let closed = Listener::bind_closed(&rt, &address).unwrap();
            assert_eq!(mode(&path), 0o600);
            drop(closed);
            for bits in [0o600, 0o666] {
                let _listener = listen_as(&rt, &address, Access { mode: Some(bits), owner: None }).unwrap();
                assert_eq!(mode(&path), bits);
            }
        });
    }

    #[test]
    fn the_socket_of_a_dead_server_is_replaced() {
        let (_dir, path) = place();
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "std leaves the socket behind");
        in_world(|rt| async move {
            let listener = listen(&rt, &Address::Unix(path)).unwrap();
            Stream::connect(&rt, listener.address()).unwrap();
        });
    }

    #[test]
    fn the_socket_of_a_living_server_is_not_replaced() {
        let (_dir, path) = place();
        in_world(|rt| async move {
            let address = Address::Unix(path);
            let _first = listen(&rt, &address).unwrap();
            let error = listen(&rt, &address).err().unwrap();
            assert!(matches!(error, ListenError::Alive(_)), "{error}");
            Stream::connect(&rt, &address).expect("the first server still listens there");
        });
    }

    #[test]
    fn what_stands_in_the_way_is_named_and_kept() {
        let (dir, path) = place();
        std::fs::write(&path, b"precious").unwrap();
        let missing = dir.path().join("missing/nbd.sock");
        let kept = path.clone();
        in_world(|rt| async move {
            let error = |address| listen(&rt, &address).err().unwrap();
            assert!(matches!(error(Address::Unix(path)), ListenError::NotSocket(_)));
            let missing = error(Address::Unix(missing));
            assert!(matches!(missing, ListenError::NoDirectory(_)), "{missing}");
            let long = error(Address::Unix(PathBuf::from("/").join("d".repeat(120))));
            assert!(matches!(long, ListenError::LongPath(_)), "{long}");
            let taken = listen(&rt, &Address::Tcp("127.0.0.1:0".into())).unwrap();
            let error = error(taken.address().clone());
            assert!(matches!(error, ListenError::PortInUse(_)), "{error}");
        });
        assert_eq!(std::fs::read(kept).unwrap(), b"precious");
    }
}
