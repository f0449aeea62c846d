//! Making sockets, blocking, for start-up and tools; and what a connected one has or takes at once.

use std::ffi::OsStr;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use esker_sys::Credentials;
use rustix::net::{RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendFlags};
use smallvec::SmallVec;

use crate::mem::Slice;
use crate::net::{Address, KeepAlive};

/// A listening socket and its address with the port that the kernel chose.
pub(crate) fn listen(address: &Address, keep_alive: KeepAlive) -> io::Result<(OwnedFd, Address)> {
    match address {
        Address::Unix(path) => Ok((patient(UnixListener::bind(path)?.into())?, address.clone())),
        Address::Tcp(host) => {
            let listener = TcpListener::bind(host)?;
            // Linux hands this on to accepted connections: small replies must not wait for acknowledgements.
            rustix::net::sockopt::set_tcp_nodelay(&listener, true)?;
            end_the_vanished(&listener, keep_alive)?;
            let bound = Address::Tcp(listener.local_addr()?.to_string());
            Ok((patient(listener.into())?, bound))
        }
    }
}

/// A listening Unix socket for its owner alone. The kernel gives the path the mode of the socket, which is set before.
pub(crate) fn listen_closed(path: &Path) -> io::Result<OwnedFd> {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
    let address = SocketAddrUnix::new(path).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    rustix::fs::fchmod(&socket, rustix::fs::Mode::from_raw_mode(0o600))?;
    rustix::net::bind(&socket, &address)?;
    rustix::net::listen(&socket, WAITING_MAX)?;
    patient(socket)
}

/// The listening socket, whose [`accept_now`] never blocks.
pub(crate) fn patient(listener: OwnedFd) -> io::Result<OwnedFd> {
    rustix::io::ioctl_fionbio(&listener, true)?;
    Ok(listener)
}

/// Takes a connection that waits.
///
/// # Errors
/// `WouldBlock` if none does, and the kernel's.
pub(crate) fn accept_now(listener: &OwnedFd) -> io::Result<OwnedFd> {
    Ok(rustix::net::accept_with(listener, rustix::net::SocketFlags::CLOEXEC)?)
}

/// The address of a listening socket that another process has made. From now on its [`accept_now`] never blocks, and
/// vanished peers end as those of [`listen`] do.
///
/// # Errors
/// The kernel's, and a descriptor that is no listening socket with an address.
pub(crate) fn adopt(fd: &OwnedFd, keep_alive: KeepAlive) -> io::Result<Address> {
    let unfit = |why: &str| io::Error::new(io::ErrorKind::InvalidInput, why.to_string());
    if !rustix::net::sockopt::socket_acceptconn(fd)? {
        return Err(unfit("it does not listen"));
    }
    rustix::io::ioctl_fionbio(fd, true)?;
    let address = rustix::net::getsockname(fd)?;
    if let Ok(address) = std::net::SocketAddr::try_from(address.clone()) {
        rustix::net::sockopt::set_tcp_nodelay(fd, true)?;
        end_the_vanished(fd, keep_alive)?;
        return Ok(Address::Tcp(address.to_string()));
    }
    let address = rustix::net::SocketAddrUnix::try_from(address)?;
    let path = address.path_bytes().ok_or_else(|| unfit("its socket has no path"))?;
    Ok(Address::Unix(OsStr::from_bytes(path).into()))
}

/// Connections that wait to be accepted.
const WAITING_MAX: i32 = 4096;

/// Makes the kernel end connections whose peer has vanished without a word. Accepted connections inherit it.
fn end_the_vanished(listener: &impl AsFd, keep_alive: KeepAlive) -> io::Result<()> {
    use rustix::net::sockopt;
    let seconds = |seconds: u32| Duration::from_secs(seconds.into());
    sockopt::set_socket_keepalive(listener, true)?;
    sockopt::set_tcp_keepidle(listener, seconds(keep_alive.idle_s))?;
    sockopt::set_tcp_keepintvl(listener, seconds(keep_alive.interval_s))?;
    sockopt::set_tcp_keepcnt(listener, keep_alive.probes)?;
    // Bytes that a peer does not acknowledge end its connection after as long as the questions take together.
    sockopt::set_tcp_user_timeout(listener, 1000 * (keep_alive.idle_s + keep_alive.interval_s * keep_alive.probes))?;
    Ok(())
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

/// The peer of a connected socket; empty if the kernel cannot tell.
pub(crate) fn peer(fd: &OwnedFd) -> String {
    let address = rustix::net::getpeername(fd).ok().flatten();
    if let Some(address) = address.and_then(|address| std::net::SocketAddr::try_from(address).ok()) {
        return address.to_string();
    }
    // A program on this machine: its socket has no name, but the kernel knows the process that connected it.
    peer_name(fd)
}

/// The process and user of a local peer; process 0 is one outside of this pid namespace, as the kernel has it.
fn peer_name(fd: &impl AsFd) -> String {
    let name = |peer: Credentials| format!("pid {} uid {}", peer.pid.unwrap_or(0), peer.uid);
    Credentials::of_peer(fd).map_or_else(|_| String::new(), name)
}

/// So many windows need no memory for their vector: those of a batch of few messages.
const FEW: usize = 8;

/// Receives what is there, without waiting; 0 bytes at the end of the stream.
///
/// # Errors
/// `WouldBlock` if nothing is there, and the kernel's.
pub(crate) fn receive_now(fd: &OwnedFd, parts: &mut [Slice]) -> io::Result<usize> {
    let slice = |part| IoSliceMut::new(Slice::bytes_mut(part).expect("a read needs memory with one owner"));
    let mut slices: SmallVec<[IoSliceMut<'_>; FEW]> = parts.iter_mut().map(slice).collect();
    let mut nothing = RecvAncillaryBuffer::default();
    Ok(rustix::net::recvmsg(fd, &mut slices, &mut nothing, RecvFlags::DONTWAIT)?.bytes)
}

/// Sends as much as the socket takes without waiting.
///
/// # Errors
/// `WouldBlock` if it takes nothing, and the kernel's.
pub(crate) fn send_now(fd: &OwnedFd, parts: &[Slice]) -> io::Result<usize> {
    let slices: SmallVec<[IoSlice<'_>; FEW]> = parts.iter().map(|part| IoSlice::new(part.bytes())).collect();
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    Ok(rustix::net::sendmsg(fd, &slices, &mut SendAncillaryBuffer::default(), flags)?)
}

/// Memory of what was sent and the program at the other end of a local socket has not taken yet, in bytes.
///
/// # Errors
/// The kernel's.
pub(crate) fn untaken(fd: &OwnedFd) -> io::Result<usize> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the descriptor is open, and this request writes one int, which `bytes` is.
    let told = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if told < 0 { Err(io::Error::last_os_error()) } else { Ok(bytes as usize) }
}

/// Removes the path of a socket that we made; gone already is fine.
pub(crate) fn remove_socket(path: &Path) {
    let _gone = std::fs::remove_file(path);
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use esker_base::Nanos;

    use super::*;
    use crate::net::{Listener, Stream};
    use crate::real::{Backend, Reactor, RealConfig};

    #[test]
    fn an_adopted_socket_waits_for_clients_and_keeps_its_path() {
        for backend in [Backend::Uring, Backend::Threads] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("sock");
            // It blocks, as a manager may leave it: an accept without a client would hang.
            let made = UnixListener::bind(&path).unwrap();
            let own = OwnedFd::from(made.try_clone().unwrap());
            let connected = UnixStream::connect(&path).unwrap();
            let reactor = Reactor::new(RealConfig { backend, ..RealConfig::seeded(1) }).unwrap();
            let rt = reactor.rt();
            assert!(Listener::adopt(&rt, connected.into()).is_err(), "it does not listen");
            let listener = Listener::adopt(&rt, made.into()).unwrap();
            assert_eq!(listener.address(), &Address::Unix(path.clone()));
            reactor.block_on(async move {
                // The connection that is gone waits first.
                listener.accept().await.unwrap();
                assert_eq!(accept_now(&own).unwrap_err().kind(), io::ErrorKind::WouldBlock);
                let waiting = rt.spawn("accept", async move { listener.accept().await.map(drop) });
                rt.sleep(Nanos::millis(1)).await;
                let _client = Stream::connect(&rt, &Address::Unix(path.clone())).unwrap();
                waiting.await.unwrap();
                assert!(path.exists());
            });
        }
    }

    /// Plays its own child in a pid namespace, whose standard input was connected by the parent.
    #[test]
    fn a_peer_outside_of_the_namespace_has_a_user_and_no_process() {
        const CHILD: &str = "ESKER_TEST_CHILD_OF_NAMESPACE";
        if std::env::var_os(CHILD).is_some() {
            let known = Credentials::of_peer(&std::io::stdin()).unwrap();
            assert_eq!((known.pid, known.uid), (None, 0));
            assert_eq!(peer_name(&std::io::stdin()), "pid 0 uid 0");
            return;
        }
        let (stdin, _ours) = UnixStream::pair().unwrap();
        let unshare = |input: Stdio, program: &std::path::Path, args: &[&str]| {
            let mut command = Command::new("unshare");
            command.args(["--pid", "--fork"]).arg(program).args(args).env(CHILD, "1").stdin(input).output()
        };
        let usable = unshare(Stdio::null(), std::path::Path::new("/bin/true"), &[]);
        if !rustix::process::geteuid().is_root() || !usable.is_ok_and(|done| done.status.success()) {
            return esker_skip::skip(esker_skip::Ability::Attach, format_args!("no pid namespace can be made"));
        }
        let name = "real::socket::tests::a_peer_outside_of_the_namespace_has_a_user_and_no_process";
        let this = std::env::current_exe().unwrap();
        let done = unshare(Stdio::from(OwnedFd::from(stdin)), &this, &["--exact", name]).unwrap();
        let told = String::from_utf8_lossy(&done.stdout);
        assert!(done.status.success() && told.contains("1 passed"), "{told}");
    }
}
