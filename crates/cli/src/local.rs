//! Connections to servers of this machine: only to those of root and of the caller, and for a bounded time.

use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use esker_sys::Credentials;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

/// No answer has more bytes: the status of a stack with 65,535 parts has less.
pub const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum LocalError {
    /// The kernel's words.
    #[error(transparent)]
    Unreached(#[from] io::Error),
    /// A program of another user listens. Its answers may be false, and it may misuse what a verb sends.
    #[error(
        "user {0} listens there, which is neither root nor the user of this command; if that is your server, run this \
         command as that user: sudo -u '#{0}' esker ..."
    )]
    Foreign(u32),
}

/// A connection that ends at an instant, however the server spreads its bytes until then.
#[derive(Debug)]
pub struct Local {
    stream: UnixStream,
    end: Instant,
}

impl Local {
    /// Connects to the server at `path`. What is sent and received may take `patience` from now on, all together.
    ///
    /// # Errors
    /// A server that is not there, that takes no connection in time, or that runs as another user than root and the
    /// caller.
    pub fn connect(path: &Path, patience: Duration) -> Result<Local, LocalError> {
        let address = SocketAddrUnix::new(path).map_err(io::Error::from)?;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None);
        let socket = socket.map_err(io::Error::from)?;
        // It also bounds how long a connection waits for a server that takes none.
        set_socket_timeout(&socket, Timeout::Send, Some(patience)).map_err(io::Error::from)?;
        let end = Instant::now() + patience;
        match connect(&socket, &address) {
            Err(rustix::io::Errno::AGAIN) => return Err(too_late().into()),
            result => result.map_err(io::Error::from)?,
        }
        let owner = Credentials::of_peer(&socket)?.uid;
        if !is_trusted(owner, rustix::process::geteuid().as_raw()) {
            return Err(LocalError::Foreign(owner));
        }
        Ok(Local { stream: UnixStream::from(socket), end })
    }

    /// Lets it go on for `patience` from now on.
    pub fn go_on_for(&mut self, patience: Duration) {
        self.end = Instant::now() + patience;
    }

    /// The connected socket, without a time limit.
    ///
    /// # Errors
    /// The kernel's.
    pub fn into_socket(self) -> io::Result<OwnedFd> {
        self.stream.set_read_timeout(None)?;
        self.stream.set_write_timeout(None)?;
        Ok(self.stream.into())
    }

    fn left(&self) -> io::Result<Option<Duration>> {
        match self.end.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(too_late()),
            left => Ok(Some(left)),
        }
    }
}

fn is_trusted(owner: u32, caller: u32) -> bool {
    owner == 0 || owner == caller
}

fn too_late() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "it gives no answer in time; it hangs, or is another program")
}

/// A socket tells the end of its time limit as if it did not want to wait.
fn in_time(done: io::Result<usize>) -> io::Result<usize> {
    done.map_err(|error| if error.kind() == io::ErrorKind::WouldBlock { too_late() } else { error })
}

impl Read for Local {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        in_time(self.stream.read(bytes))
    }
}

impl Write for Local {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        in_time(self.stream.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixListener;
    use std::path::PathBuf;
    use std::thread::{sleep, spawn};

    use esker_testkit::{Ability, skip};
    use rustix::process::Uid;

    use super::*;

    const LONG: Duration = Duration::from_secs(600);
    const SHORT: Duration = Duration::from_millis(200);
    /// The user `nobody`, whose sockets root does not trust.
    const OTHER: u32 = 65534;

    fn folder() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
        let path = folder.path().join("ctl");
        (folder, path)
    }

    #[test]
    fn root_and_the_caller_are_trusted_and_no_other_user() {
        let trusted = [(0, 0), (0, 1000), (1000, 1000)];
        assert!(trusted.iter().all(|(owner, caller)| is_trusted(*owner, *caller)));
        assert!(!is_trusted(1000, 0) && !is_trusted(1000, 1001));
    }

    #[test]
    fn a_server_of_the_caller_is_asked_and_one_of_another_user_is_not() {
        let (_folder, path) = folder();
        let _own = UnixListener::bind(&path).unwrap();
        assert!(Local::connect(&path, LONG).is_ok());
        if !rustix::process::geteuid().is_root() {
            return skip(Ability::Root, format_args!("sockets of another user are made by root"));
        }
        let (_folder, path) = folder();
        let place = path.clone();
        let foreign = spawn(move || {
            let other = Some(Uid::from_raw(OTHER));
            // Of this thread only.
            rustix::thread::set_thread_res_uid(other, other, other).unwrap();
            UnixListener::bind(place).unwrap()
        });
        let _foreign = foreign.join().unwrap();
        let error = Local::connect(&path, LONG).unwrap_err();
        assert!(matches!(error, LocalError::Foreign(OTHER)), "{error}");
    }

    #[test]
    fn a_server_that_says_a_byte_now_and_then_is_too_late() {
        let (_folder, path) = folder();
        let listener = UnixListener::bind(&path).unwrap();
        let server = spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            while stream.write_all(b"x").is_ok() {
                sleep(SHORT / 10);
            }
        });
        let mut local = Local::connect(&path, SHORT).unwrap();
        let error = local.read_to_end(&mut Vec::new()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(local.write(b"x").unwrap_err().kind(), io::ErrorKind::TimedOut);
        drop(local);
        server.join().unwrap();
    }

    #[test]
    fn a_server_that_takes_no_connection_or_no_bytes_is_too_late() {
        let (_folder, path) = folder();
        let listener = UnixListener::bind(&path).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let mut first = Local::connect(&path, SHORT).unwrap();
        let error = Local::connect(&path, SHORT).unwrap_err();
        let LocalError::Unreached(error) = error else { panic!("{error}") };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        let error = first.write_all(&vec![0; 64 << 20]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
