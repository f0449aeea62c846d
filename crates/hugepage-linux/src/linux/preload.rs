//! The manager's end of the preloaded library (crate `hugepage-preload`), which says in a process' own name which of
//! its memory may be shared.
//!
//! A socket of whole messages (`SOCK_SEQPACKET`) that every program may connect to: which process it is, the kernel
//! tells (`SO_PEERCRED`), and only processes that are managed are kept. The library sends [`HELLO`]; then the manager
//! sends requests of three words (`MADV_MERGEABLE` or `MADV_UNMERGEABLE`, address, length) and each is answered by one
//! word, 0 or the kernel's error. All words are 64 bits in the machine's order.
//!
//! No process is trusted to be quick. A greeting is read when it is there. The manager waits for answers only, and each
//! process has an [`Account`] of that.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use esker_sys::Credentials;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen,
    recv, send, socket_with,
};

use esker_hugepage::view::Pid;

/// The speaker, and the form of the words.
pub const HELLO: u64 = u64::from_ne_bytes(*b"eskerhp1");
/// `MADV_*` of `asm-generic/mman-common.h`.
const MERGEABLE: u64 = 12;
const UNMERGEABLE: u64 = 13;
/// Making 64 MiB private again takes 15 ms; a process that needs longer for one request is stopped, or breaks the
/// rules.
const PATIENCE: Duration = Duration::from_millis(200);
/// Connections that the kernel holds, and that are taken in one go.
const WAITING_MAX: i32 = 64;
/// A process may take so long to greet.
const GREETING_MAX: Duration = Duration::from_secs(1);
/// What a process may have the manager wait for at once. That is as long as making 8 GiB private takes.
const ACCOUNT_MAX: Duration = Duration::from_secs(2);
/// Of so many seconds a process may have the manager wait for one.
const ACCOUNT_SHARE: u32 = 20;

/// The socket, and the processes that are connected.
#[derive(Debug)]
pub struct RequestSocket {
    path: PathBuf,
    listener: OwnedFd,
    /// Those that have not greeted yet, and since when they could have.
    silent: BTreeMap<Pid, (OwnedFd, Instant)>,
    open: BTreeMap<Pid, OwnedFd>,
    /// Of processes that have had the manager wait. They outlive connections, or else a process would get a new one by
    /// coming again.
    accounts: BTreeMap<Pid, Account>,
    /// Connections of processes that are not managed, that do not greet, or that have one already.
    pub refused: u64,
}

/// How long a process has had the manager wait, less what time has forgiven.
#[derive(Clone, Copy, Debug)]
struct Account {
    owed: Duration,
    at: Instant,
}

impl Account {
    fn new(now: Instant) -> Account {
        Account { owed: Duration::ZERO, at: now }
    }

    fn owed(self, now: Instant) -> Duration {
        self.owed.saturating_sub(now.saturating_duration_since(self.at) / ACCOUNT_SHARE)
    }

    fn charge(&mut self, waited: Duration, now: Instant) {
        *self = Account { owed: self.owed(now) + waited, at: now };
    }
}

impl RequestSocket {
    /// Opens the socket, in the place of one whose manager is gone.
    ///
    /// # Errors
    /// The kernel's; `AddrInUse` if another manager listens there.
    pub fn open(path: &Path) -> io::Result<RequestSocket> {
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
        // Programs of all users may be managed. Other processes are turned away.
        fs::set_permissions(path, Permissions::from_mode(0o666))?;
        let (silent, open, accounts) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Ok(RequestSocket { path: path.to_path_buf(), listener, silent, open, accounts, refused: 0 })
    }

    /// Takes connections that wait, one of each managed process, without waiting for any. Returns the processes that
    /// have greeted since the last time.
    pub fn admit(&mut self, now: Instant, is_managed: impl Fn(Pid) -> bool) -> BTreeSet<Pid> {
        self.accounts.retain(|_, account| !account.owed(now).is_zero());
        let mut admitted = BTreeSet::new();
        for (pid, (connection, since)) in std::mem::take(&mut self.silent) {
            self.hear((pid, connection, since), now, &mut admitted);
        }
        for _ in 0..WAITING_MAX {
            let Ok(connection) = accept_with(&self.listener, SocketFlags::CLOEXEC) else { break };
            let peer = Credentials::of_peer(&connection).ok().and_then(|peer| peer.pid).map(Pid);
            match peer.filter(|pid| is_managed(*pid) && self.has_room(*pid) && self.is_in_credit(*pid, now)) {
                Some(pid) if has_limits(&connection) => self.hear((pid, connection, now), now, &mut admitted),
                _ => self.refused += 1,
            }
        }
        admitted
    }

    /// Reads the greeting of a connection that has been there `since` an instant, if there is one.
    fn hear(&mut self, (pid, connection, since): (Pid, OwnedFd, Instant), now: Instant, admitted: &mut BTreeSet<Pid>) {
        match read_word(&connection, RecvFlags::DONTWAIT) {
            Ok(HELLO) => {
                self.open.insert(pid, connection);
                admitted.insert(pid);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && now < since + GREETING_MAX => {
                self.silent.insert(pid, (connection, since));
            }
            _ => self.refused += 1,
        }
    }

    /// Whether a process has no connection that its other end still holds.
    fn has_room(&self, pid: Pid) -> bool {
        let silent = self.silent.get(&pid).map(|(connection, _)| connection);
        silent.into_iter().chain(self.open.get(&pid)).all(has_gone)
    }

    /// Whether a process may be waited for again: it owes less than half of what it may.
    fn is_in_credit(&self, pid: Pid, now: Instant) -> bool {
        self.accounts.get(&pid).is_none_or(|account| account.owed(now) < ACCOUNT_MAX / 2)
    }

    /// Whether a process has the library.
    pub fn has(&self, pid: Pid) -> bool {
        self.open.contains_key(&pid)
    }

    /// Forgets a process.
    pub fn forget(&mut self, pid: Pid) {
        self.open.remove(&pid);
        self.silent.remove(&pid);
    }

    /// Has a process say that `len` bytes from `start` may be shared, or may no longer. That a part of them is not
    /// mapped is no error.
    ///
    /// # Errors
    /// The kernel's, or that of a connection that is then forgotten: it is broken, or has had the manager wait for too
    /// long.
    pub fn advise(&mut self, pid: Pid, (start, len): (u64, u64), mergeable: bool) -> io::Result<()> {
        let connection = self.open.get(&pid).ok_or(io::ErrorKind::NotConnected)?;
        let advice = if mergeable { MERGEABLE } else { UNMERGEABLE };
        let begun = Instant::now();
        let answer = ask(connection, [advice, start, len]);
        let owes_too_much = self.charge(pid, begun, Instant::now());
        if answer.is_err() || owes_too_much {
            self.forget(pid);
        }
        match i32::try_from(answer?).unwrap_or(i32::MAX) {
            0 => Ok(()),
            error if error == rustix::io::Errno::NOMEM.raw_os_error() => Ok(()),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }

    /// Notes that a process was waited for. Whether it owes more than it may.
    fn charge(&mut self, pid: Pid, begun: Instant, now: Instant) -> bool {
        let account = self.accounts.entry(pid).or_insert(Account::new(begun));
        account.charge(now.saturating_duration_since(begun), now);
        account.owed > ACCOUNT_MAX
    }
}

impl Drop for RequestSocket {
    fn drop(&mut self) {
        // The next start replaces one that stays behind.
        drop(fs::remove_file(&self.path));
    }
}

/// Makes the connection one for which the manager waits no longer than [`PATIENCE`].
fn has_limits(connection: &OwnedFd) -> bool {
    [Timeout::Recv, Timeout::Send].iter().all(|way| set_socket_timeout(connection, *way, Some(PATIENCE)).is_ok())
}

/// Whether the other end is closed.
fn has_gone(connection: &OwnedFd) -> bool {
    let look = recv(connection, &mut [0u8; 8], RecvFlags::PEEK | RecvFlags::DONTWAIT);
    !matches!(look, Ok((_, 1..)) | Err(rustix::io::Errno::AGAIN))
}

fn ask(connection: &OwnedFd, request: [u64; 3]) -> io::Result<u64> {
    let bytes: Vec<u8> = request.iter().flat_map(|word| word.to_ne_bytes()).collect();
    send(connection, &bytes, SendFlags::NOSIGNAL)?;
    read_word(connection, RecvFlags::empty())
}

/// A message of one word.
fn read_word(connection: &OwnedFd, flags: RecvFlags) -> io::Result<u64> {
    let mut word = [0; 8];
    let (_, len) = recv(connection, &mut word, RecvFlags::TRUNC | flags)?;
    match len {
        8 => Ok(u64::from_ne_bytes(word)),
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

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

    /// A door with a connection of this process that has greeted.
    fn met(path: &Path) -> (RequestSocket, OwnedFd) {
        let mut door = RequestSocket::open(path).unwrap();
        let own = knock(path);
        say(&own, HELLO);
        assert_eq!(door.admit(Instant::now(), |pid| pid == me()), BTreeSet::from([me()]));
        (door, own)
    }

    fn is_closed(own: &OwnedFd) -> bool {
        recv(own, &mut [0u8; 8], RecvFlags::DONTWAIT)
            .map_or_else(|error| error != rustix::io::Errno::AGAIN, |got| got.1 == 0)
    }

    #[test]
    fn a_process_that_is_not_managed_is_rejected() {
        let (_folder, path) = folder();
        let mut door = RequestSocket::open(&path).unwrap();
        let own = knock(&path);
        say(&own, HELLO);
        let admitted = door.admit(Instant::now(), |_| false);
        assert_eq!((admitted.len(), door.refused, door.has(me())), (0, 1, false));
        assert!(is_closed(&own));
        assert!(door.advise(me(), (0, 4096), true).is_err());
    }

    #[test]
    fn another_greeting_is_rejected_and_a_late_one_is_heard_within_its_time() {
        let (_folder, path) = folder();
        let mut door = RequestSocket::open(&path).unwrap();
        let start = Instant::now();
        let wrong = knock(&path);
        say(&wrong, HELLO + 1);
        assert_eq!((door.admit(start, |_| true).len(), door.refused), (0, 1));
        let never = knock(&path);
        assert_eq!((door.admit(start, |_| true).len(), door.refused), (0, 1), "it may still greet");
        assert!(!is_closed(&never));
        assert_eq!((door.admit(start + GREETING_MAX, |_| true).len(), door.refused), (0, 2));
        assert!(is_closed(&never));
        let late = knock(&path);
        assert!(door.admit(start, |_| true).is_empty());
        say(&late, HELLO);
        assert_eq!(door.admit(start + GREETING_MAX / 2, |_| true), BTreeSet::from([me()]));
    }

    #[test]
    fn a_process_has_one_connection() {
        let (_folder, path) = folder();
        let mut door = RequestSocket::open(&path).unwrap();
        let now = Instant::now();
        let silent: Vec<_> = (0..WAITING_MAX).map(|_| knock(&path)).collect();
        assert!(door.admit(now, |_| true).is_empty());
        assert_eq!(door.refused, silent.len() as u64 - 1);
        assert!(!is_closed(&silent[0]) && silent[1..].iter().all(is_closed));
        say(&silent[0], HELLO);
        let second = knock(&path);
        say(&second, HELLO);
        assert_eq!(door.admit(now, |_| true).len(), 1);
        assert!(!is_closed(&silent[0]) && is_closed(&second), "the first stays");
        // As the library does in a program that the process executes.
        drop(silent);
        let third = knock(&path);
        say(&third, HELLO);
        assert_eq!(door.admit(now, |_| true).len(), 1);
        say(&third, 0);
        assert!(door.advise(me(), (0, 4096), true).is_ok());
    }

    /// Plays each of the silent processes, and ends when the door does.
    #[test]
    fn silent_processes_keep_no_other_out() {
        const CHILD: &str = "ESKER_TEST_SILENT_PROCESS";
        if let Some(path) = std::env::var_os(CHILD) {
            let own = knock(Path::new(&path));
            assert_eq!(recv(&own, &mut [0u8; 8], RecvFlags::empty()).map_or(0, |got| got.1), 0);
            return;
        }
        let (_folder, path) = folder();
        let mut door = RequestSocket::open(&path).unwrap();
        let name = "linux::preload::tests::silent_processes_keep_no_other_out";
        let this = std::env::current_exe().unwrap();
        let child = |_| Command::new(&this).args(["--exact", name]).env(CHILD, &path).stdout(Stdio::null()).spawn();
        let mut children: Vec<_> = (0..8).map(|number| child(number).unwrap()).collect();
        let start = Instant::now();
        while door.silent.len() < children.len() {
            assert_eq!(door.admit(start, |_| true).len(), 0);
            std::thread::sleep(Duration::from_millis(1));
        }
        let own = knock(&path);
        say(&own, HELLO);
        assert_eq!(door.admit(start, |_| true), BTreeSet::from([me()]));
        assert_eq!((door.silent.len(), door.refused), (children.len(), 0));
        door.admit(start + GREETING_MAX, |_| true);
        assert_eq!((door.silent.len(), door.refused), (0, children.len() as u64));
        assert!(children.iter_mut().all(|child| child.wait().unwrap().success()));
    }

    #[test]
    fn a_request_is_answered_and_a_process_that_goes_or_does_not_answer_is_forgotten() {
        let (_folder, path) = folder();
        let (mut door, own) = met(&path);
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
        assert!(door.has(me()) && door.advise(me(), (0, 4096), true).is_err(), "there is no answer");
        assert!(!door.has(me()));
    }

    #[test]
    fn a_process_that_always_answers_late_is_dropped_and_stays_away_until_it_has_paid() {
        let (_folder, path) = folder();
        let (mut door, own) = met(&path);
        let server = std::thread::spawn(move || {
            while recv(&own, &mut [0u8; 64], RecvFlags::empty()).is_ok_and(|got| got.1 > 0) {
                std::thread::sleep(PATIENCE / 2);
                say(&own, 0);
            }
        });
        let asked = (0..100).take_while(|_| door.advise(me(), (0, 4096), true).is_ok()).count();
        assert!(!door.has(me()), "it was asked {asked} times");
        server.join().unwrap();
        let (now, own) = (Instant::now(), knock(&path));
        say(&own, HELLO);
        assert!(door.admit(now, |_| true).is_empty() && is_closed(&own));
        let own = knock(&path);
        say(&own, HELLO);
        assert_eq!(door.admit(now + ACCOUNT_MAX * ACCOUNT_SHARE, |_| true).len(), 1);
    }

    #[test]
    fn time_forgives_what_a_process_owes() {
        let start = Instant::now();
        let mut account = Account::new(start);
        account.charge(ACCOUNT_MAX, start);
        assert_eq!(account.owed(start + ACCOUNT_MAX), ACCOUNT_MAX - ACCOUNT_MAX / ACCOUNT_SHARE);
        account.charge(ACCOUNT_MAX, start + ACCOUNT_MAX * ACCOUNT_SHARE);
        assert_eq!(account.owed, ACCOUNT_MAX, "the first is forgiven");
    }

    #[test]
    fn a_socket_that_is_left_is_replaced_and_one_in_use_is_not() {
        let (_folder, path) = folder();
        let door = RequestSocket::open(&path).unwrap();
        assert_eq!(RequestSocket::open(&path).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(door);
        assert!(!path.exists());
        // As a manager leaves it that is killed.
        let left = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        bind(&left, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        drop(left);
        assert!(path.exists() && RequestSocket::open(&path).is_ok());
    }
}
