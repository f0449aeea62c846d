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
        // SAFETY: the descriptor is open; the kernel writes at most `len` bytes to `words`, which has as many, and the length
        // that it wrote to `len`.
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
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;
    use std::process::{Command, Stdio};

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

    /// Plays its own child in a pid namespace, whose standard input was connected by the parent.
    #[test]
    fn a_peer_outside_of_the_namespace_has_a_user_and_no_process() {
        const CHILD: &str = "ESKER_TEST_CHILD_OF_NAMESPACE";
        if std::env::var_os(CHILD).is_some() {
            let known = Credentials::of_peer(&std::io::stdin()).unwrap();
            assert_eq!((known.pid, known.uid), (None, 0));
            assert_eq!(super::super::peer_name(&std::io::stdin()), "pid 0 uid 0");
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
        let name = "real::credentials::tests::a_peer_outside_of_the_namespace_has_a_user_and_no_process";
        let this = std::env::current_exe().unwrap();
        let done = unshare(Stdio::from(OwnedFd::from(stdin)), &this, &["--exact", name]).unwrap();
        let told = String::from_utf8_lossy(&done.stdout);
        assert!(done.status.success() && told.contains("1 passed"), "{told}");
    }
}
