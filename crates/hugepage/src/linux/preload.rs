//! The manager's end of the preloaded library (crate `hugepage-preload`), which says in a process' own name which of its
//! memory may be shared.
//!
//! A socket of whole messages (`SOCK_SEQPACKET`) that everybody may connect to: who it is, the kernel tells
//! (`SO_PEERCRED`), and only processes that are managed are kept. The library sends [`HELLO`]; then the manager sends
//! requests of three words (`MADV_MERGEABLE` or `MADV_UNMERGEABLE`, address, length) and each is answered by one word, 0 or the
//! kernel's error. All words are 64 bits in the machine's order.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use esker_rt::real::Credentials;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen,
    recv, send, socket_with,
};

use crate::view::Pid;

/// Who speaks, and which form of the words.
pub const HELLO: u64 = u64::from_ne_bytes(*b"eskerhp1");
/// `MADV_*` of `asm-generic/mman-common.h`.
const MERGEABLE: u64 = 12;
const UNMERGEABLE: u64 = 13;
/// Making 64 MiB private again takes 15 ms; who needs longer for one request is stopped, or does not play by the rules.
const PATIENCE: Duration = Duration::from_millis(200);
/// Connections that wait, and that are taken at once.
const WAITING_MAX: i32 = 64;

/// The socket, and who is connected.
#[derive(Debug)]
pub struct Door {
    path: PathBuf,
    listener: OwnedFd,
    open: BTreeMap<Pid, OwnedFd>,
    /// Connections of processes that are not managed.
    pub refused: u64,
}

impl Door {
    /// Opens the socket, in the place of one whose manager is gone.
    ///
    /// # Errors
    /// The kernel's; `AddrInUse` if another manager listens there.
    pub fn open(path: &Path) -> io::Result<Door> {
        let address = SocketAddrUnix::new(path)?;
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let new = || socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
        match connect(&new()?, &address) {
            Ok(()) | Err(rustix::io::Errno::AGAIN) => return Err(io::ErrorKind::AddrInUse.into()),
            Err(rustix::io::Errno::CONNREFUSED) => fs::remove_file(path)?,
            // Whatever is there, if anything: binding says what is wrong with it.
            Err(_) => {}
        }
        let listener = new()?;
        bind(&listener, &address)?;
        listen(&listener, WAITING_MAX)?;
        // Programs of all users may be managed. Who is not is turned away.
        fs::set_permissions(path, Permissions::from_mode(0o666))?;
        Ok(Door { path: path.to_path_buf(), listener, open: BTreeMap::new(), refused: 0 })
    }

    /// Takes connections that wait: those of managed processes. Returns whose.
    pub fn admit(&mut self, is_managed: impl Fn(Pid) -> bool) -> Vec<Pid> {
        let mut admitted = Vec::new();
        for _ in 0..WAITING_MAX {
            let Ok(connection) = accept_with(&self.listener, SocketFlags::CLOEXEC) else { break };
            let peer = Credentials::of_peer(&connection).ok().and_then(|peer| peer.pid).map(Pid);
            match peer.filter(|pid| is_managed(*pid)) {
                Some(pid) if greets(&connection) => {
                    self.open.insert(pid, connection);
                    admitted.push(pid);
                }
                _ => self.refused += 1,
            }
        }
        admitted
    }

    /// Whether a process has the library.
    pub fn has(&self, pid: Pid) -> bool {
        self.open.contains_key(&pid)
    }

    /// Forgets a process.
    pub fn forget(&mut self, pid: Pid) {
        self.open.remove(&pid);
    }

    /// Has a process say that `len` bytes from `start` may be shared, or may no longer. That a part of them is not
    /// mapped is no error.
    ///
    /// # Errors
    /// The kernel's, or that of a connection that is then forgotten.
    pub fn advise(&mut self, pid: Pid, (start, len): (u64, u64), mergeable: bool) -> io::Result<()> {
        let connection = self.open.get(&pid).ok_or(io::ErrorKind::NotConnected)?;
        let advice = if mergeable { MERGEABLE } else { UNMERGEABLE };
        match ask(connection, [advice, start, len]) {
            Ok(answer) => match i32::try_from(answer).unwrap_or(i32::MAX) {
                0 => Ok(()),
                error if error == rustix::io::Errno::NOMEM.raw_os_error() => Ok(()),
                error => Err(io::Error::from_raw_os_error(error)),
            },
            Err(error) => {
                self.forget(pid);
                Err(error)
            }
        }
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        // Who starts next replaces one that stays behind.
        drop(fs::remove_file(&self.path));
    }
}

/// Makes the connection one that does not keep the manager waiting, and hears who it is.
fn greets(connection: &OwnedFd) -> bool {
    let is_patient =
        [Timeout::Recv, Timeout::Send].iter().all(|way| set_socket_timeout(connection, *way, Some(PATIENCE)).is_ok());
    is_patient && read_word(connection).is_ok_and(|word| word == HELLO)
}

fn ask(connection: &OwnedFd, request: [u64; 3]) -> io::Result<u64> {
    let bytes: Vec<u8> = request.iter().flat_map(|word| word.to_ne_bytes()).collect();
    send(connection, &bytes, SendFlags::NOSIGNAL)?;
    read_word(connection)
}

/// A message of one word.
fn read_word(connection: &OwnedFd) -> io::Result<u64> {
    let mut word = [0; 8];
    let (_, len) = recv(connection, &mut word, RecvFlags::TRUNC)?;
    match len {
        8 => Ok(u64::from_ne_bytes(word)),
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run/share.sock");
        (folder, path)
    }

    /// A connection of this process.
    fn knock(path: &Path) -> OwnedFd {
        let own = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        connect(&own, &SocketAddrUnix::new(path).unwrap()).unwrap();
        own
    }

    fn say(own: &OwnedFd, word: u64) {
        assert_eq!(send(own, &word.to_ne_bytes(), SendFlags::NOSIGNAL).unwrap(), 8);
    }

    fn me() -> Pid {
        Pid(std::process::id())
    }

    #[test]
    fn who_is_not_managed_is_turned_away() {
        let (_folder, path) = folder();
        let mut door = Door::open(&path).unwrap();
        let own = knock(&path);
        say(&own, HELLO);
        assert_eq!((door.admit(|_| false), door.refused, door.has(me())), (Vec::new(), 1, false));
        assert_eq!(recv(&own, &mut [0u8; 8], RecvFlags::empty()).map_or(0, |got| got.1), 0, "the connection is closed");
        assert!(door.advise(me(), (0, 4096), true).is_err());
    }

    #[test]
    fn who_does_not_say_the_word_is_turned_away() {
        let (_folder, path) = folder();
        let mut door = Door::open(&path).unwrap();
        let (wrong, silent) = (knock(&path), knock(&path));
        say(&wrong, HELLO + 1);
        assert_eq!((door.admit(|_| true), door.refused), (Vec::new(), 2));
        drop(silent);
    }

    #[test]
    fn a_request_is_answered_and_who_goes_or_does_not_answer_is_forgotten() {
        let (_folder, path) = folder();
        let mut door = Door::open(&path).unwrap();
        let own = knock(&path);
        say(&own, HELLO);
        assert_eq!(door.admit(|pid| pid == me()), [me()]);
        let nomem = rustix::io::Errno::NOMEM.raw_os_error() as u64;
        for (answer, is_done) in [(0, true), (nomem, true), (22, false)] {
            // The answer may be there before the question.
            say(&own, answer);
            assert_eq!(door.advise(me(), (1 << 21, 4096), false).is_ok(), is_done, "{answer}");
            let mut asked = [0; 64];
            let (_, len) = recv(&own, &mut asked, RecvFlags::empty()).unwrap();
            let words = [UNMERGEABLE, 1 << 21, 4096].map(u64::to_ne_bytes).concat();
            assert_eq!(asked[..len], words[..]);
        }
        assert!(door.has(me()) && door.advise(me(), (0, 4096), true).is_err(), "nobody answers");
        assert!(!door.has(me()));
    }

    #[test]
    fn a_socket_that_is_left_is_replaced_and_one_in_use_is_not() {
        let (_folder, path) = folder();
        let door = Door::open(&path).unwrap();
        assert_eq!(Door::open(&path).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(door);
        assert!(!path.exists());
        // As a manager leaves it that is killed.
        let left = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        bind(&left, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        drop(left);
        assert!(path.exists() && Door::open(&path).is_ok());
    }
}
