//! Byte streams in both worlds: sockets in the real one, in-memory pipes in either. [`interrupt`] ends a wait for bytes
//! and loses none, [`passing`] sends descriptors along.

pub mod interrupt;
pub mod passing;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;

use crate::handle::Rt;
use crate::mem::{Parts, Slice, advance_parts};
use crate::real::{Kernel, Op};
use crate::sync::Notify;
use smallvec::SmallVec;

/// Where a server listens or a client connects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A Unix socket.
    Unix(std::path::PathBuf),
    /// `host:port`.
    Tcp(String),
}

/// A connected byte stream. Cheap to clone; clones are one stream, so that one task can read while another writes.
#[derive(Clone)]
pub struct Stream(Kind);

#[derive(Clone)]
enum Kind {
    Socket { kernel: Kernel, fd: Arc<OwnedFd>, eager: Rc<Eager> },
    Pipe { reads: Rc<Pipe>, writes: Rc<Pipe> },
}

/// Reads of one socket that are tried at once in a row before one goes through the kernel's queue, which lets other
/// tasks run.
const EAGER_MAX: u32 = 16;
/// After tries in vain the next reads go through the kernel's queue at once: at most this many.
const PAUSE_MAX: u32 = 15;

/// Whether a socket's next read is tried at once. That saves a busy stream the way through the kernel's queue and back.
/// It costs a quiet one a call in vain, so each such call doubles the number of reads without one.
#[derive(Default)]
struct Eager {
    in_a_row: Cell<u32>,
    pause: Cell<u32>,
    pause_last: Cell<u32>,
}

impl Eager {
    fn tries(&self) -> bool {
        if self.pause.get() > 0 {
            self.pause.set(self.pause.get() - 1);
            return false;
        }
        let tries = self.in_a_row.get() < EAGER_MAX;
        if !tries {
            self.in_a_row.set(0);
        }
        tries
    }

    fn note(&self, was_there: bool) {
        if was_there {
            self.in_a_row.set(self.in_a_row.get() + 1);
            self.pause_last.set(0);
        } else {
            self.in_a_row.set(0);
            self.pause_last.set((self.pause_last.get() * 2 + 1).min(PAUSE_MAX));
            self.pause.set(self.pause_last.get());
        }
    }
}

/// One direction of an in-memory connection.
struct Pipe {
    bytes: RefCell<VecDeque<u8>>,
    capacity: usize,
    closed: Cell<bool>,
    changed: Notify,
}

impl Pipe {
    fn new(capacity: usize) -> Rc<Pipe> {
        Rc::new(Pipe { bytes: RefCell::default(), capacity, closed: Cell::new(false), changed: Notify::default() })
    }

    fn close(&self) {
        self.closed.set(true);
        self.changed.notify_all();
    }

    async fn read(&self, parts: &mut [Slice]) -> usize {
        self.changed.wait_until(|| !self.bytes.borrow().is_empty() || self.closed.get()).await;
        let mut bytes = self.bytes.borrow_mut();
        let mut total = 0;
        for part in parts.iter_mut() {
            let n = part.len.min(bytes.len());
            let out = part.bytes_mut().expect("a read needs memory with one owner");
            bytes.drain(..n).zip(out).for_each(|(byte, slot)| *slot = byte);
            total += n;
        }
        self.changed.notify_all();
        total
    }

    async fn write(&self, parts: &[Slice]) -> io::Result<usize> {
        self.changed.wait_until(|| self.bytes.borrow().len() < self.capacity || self.closed.get()).await;
        if self.closed.get() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let mut bytes = self.bytes.borrow_mut();
        let room = self.capacity - bytes.len();
        let before = bytes.len();
        bytes.extend(parts.iter().flat_map(|p| p.bytes()).take(room));
        self.changed.notify_all();
        Ok(bytes.len() - before)
    }
}

/// Both ends of an in-memory connection that holds at most `capacity` bytes per direction.
pub fn pipe(capacity: usize) -> (Stream, Stream) {
    let (there, back) = (Pipe::new(capacity), Pipe::new(capacity));
    let near = Stream(Kind::Pipe { reads: back.clone(), writes: there.clone() });
    let far = Stream(Kind::Pipe { reads: there, writes: back });
    (near, far)
}

impl Stream {
    /// Wraps a connected socket.
    ///
    /// # Errors
    /// In virtual time, where there are no sockets.
    pub fn from_socket(rt: &Rt, fd: OwnedFd) -> io::Result<Stream> {
        Ok(Stream(Kind::Socket { kernel: rt.kernel()?, fd: Arc::new(fd), eager: Rc::default() }))
    }

    /// Connects to a server. Blocking: for start-up and tools.
    ///
    /// # Errors
    /// The kernel's, or `Unsupported` in virtual time.
    pub fn connect(rt: &Rt, address: &Address) -> io::Result<Stream> {
        Stream::from_socket(rt, crate::real::connect(address)?)
    }

    /// The peer: a network address, or user and process of a local program. Empty if unknown.
    pub fn peer(&self) -> String {
        match &self.0 {
            Kind::Pipe { .. } => String::new(),
            Kind::Socket { fd, .. } => crate::real::peer(fd),
        }
    }

    /// Reads at least one byte into the parts, in order, unless the stream has ended (0 bytes).
    pub fn read(&self, parts: impl Into<Parts>) -> impl Future<Output = (Parts, io::Result<usize>)> {
        self.read_into(parts.into())
    }

    async fn read_into(&self, mut parts: Parts) -> (Parts, io::Result<usize>) {
        match &self.0 {
            Kind::Pipe { reads, .. } => {
                let n = reads.read(&mut parts).await;
                (parts, Ok(n))
            }
            Kind::Socket { kernel, fd, eager } => {
                if eager.tries() {
                    let received = crate::real::receive_now(fd, &mut parts);
                    let was_there = !is_not_yet(&received);
                    eager.note(was_there);
                    if was_there {
                        return (parts, received);
                    }
                }
                run(kernel, Op::Read { fd: fd.clone(), at: None, parts }).await
            }
        }
    }

    /// Fills all parts.
    ///
    /// # Errors
    /// `UnexpectedEof` when the stream ends first, and the kernel's errors. The parts are lost with an error.
    pub async fn read_exact(&self, parts: impl Into<Parts>) -> io::Result<Parts> {
        let parts = parts.into();
        let all = parts.iter().map(|part| part.len).sum();
        self.read_at_least(parts, all).await.map(|(parts, _)| parts)
    }

    /// Fills the first `bytes_min` bytes of the parts, and as much of the rest as is there. Also says how many bytes
    /// those are.
    ///
    /// # Errors
    /// As for [`Stream::read_exact`].
    pub async fn read_at_least(&self, parts: impl Into<Parts>, bytes_min: usize) -> io::Result<(Parts, usize)> {
        self.read_at_least_noting(parts, bytes_min, &|| {}).await
    }

    /// The same; `moved` is called each time when bytes have come.
    ///
    /// # Errors
    /// As for [`Stream::read_exact`].
    pub fn read_at_least_noting(
        &self,
        parts: impl Into<Parts>,
        bytes_min: usize,
        moved: &dyn Fn(),
    ) -> impl Future<Output = io::Result<(Parts, usize)>> {
        self.fill(parts.into(), bytes_min, moved)
    }

    async fn fill(&self, parts: Parts, bytes_min: usize, moved: &dyn Fn()) -> io::Result<(Parts, usize)> {
        if bytes_min == 0 {
            return Ok((parts, 0));
        }
        // Mostly all of it is there at once.
        let (parts, mut bytes) = self.read_noting(parts, moved).await?;
        if bytes >= bytes_min {
            return Ok((parts, bytes));
        }
        let windows = Windows::of(&parts);
        let (mut left, mut done) = (parts, Parts::new());
        advance_parts(&mut left, bytes, &mut done);
        while bytes < bytes_min {
            let (parts, count) = self.read_noting(left, moved).await?;
            left = parts;
            bytes += count;
            advance_parts(&mut left, count, &mut done);
        }
        done.append(&mut left);
        Ok((windows.restored(done), bytes))
    }

    /// Reads at least one byte.
    async fn read_noting(&self, parts: Parts, moved: &dyn Fn()) -> io::Result<(Parts, usize)> {
        let (parts, result) = self.read_into(parts).await;
        match result? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            bytes => {
                moved();
                Ok((parts, bytes))
            }
        }
    }

    /// Writes all parts, gathered, and gives them back as they were.
    ///
    /// # Errors
    /// The kernel's; `BrokenPipe` when the peer went away.
    pub async fn write_all(&self, parts: impl Into<Parts>) -> io::Result<Parts> {
        self.write_all_noting(parts, &|| {}).await
    }

    /// The same; `moved` is called each time when the socket has taken bytes.
    ///
    /// # Errors
    /// As for [`Stream::write_all`].
    pub fn write_all_noting(
        &self,
        parts: impl Into<Parts>,
        moved: &dyn Fn(),
    ) -> impl Future<Output = io::Result<Parts>> {
        self.send_all(parts.into(), moved)
    }

    async fn send_all(&self, parts: Parts, moved: &dyn Fn()) -> io::Result<Parts> {
        let sent = self.send_now(&parts)?;
        if sent > 0 {
            moved();
        }
        if sent == parts.iter().map(|part| part.len).sum() {
            return Ok(parts);
        }
        let windows = Windows::of(&parts);
        let (mut left, mut done) = (parts, Parts::new());
        advance_parts(&mut left, sent, &mut done);
        while !left.is_empty() {
            let (parts, result) = self.write(left).await;
            left = parts;
            match result? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                n => {
                    moved();
                    advance_parts(&mut left, n, &mut done);
                }
            }
        }
        Ok(windows.restored(done))
    }

    /// What a socket takes without waiting: mostly everything, which spares it the way through the kernel's queue.
    fn send_now(&self, parts: &[Slice]) -> io::Result<usize> {
        let Kind::Socket { fd, .. } = &self.0 else { return Ok(0) };
        let sent = crate::real::send_now(fd, parts);
        if is_not_yet(&sent) { Ok(0) } else { sent }
    }

    /// Memory of what was sent over a socket and the other end has not taken yet, in bytes; 0 if unknown. For a
    /// local program that is how far it is behind.
    pub fn untaken(&self) -> usize {
        match &self.0 {
            Kind::Pipe { .. } => 0,
            Kind::Socket { fd, .. } => crate::real::untaken(fd).unwrap_or_default(),
        }
    }

    async fn write(&self, parts: Parts) -> (Parts, io::Result<usize>) {
        match &self.0 {
            Kind::Pipe { writes, .. } => {
                let result = writes.write(&parts).await;
                (parts, result)
            }
            Kind::Socket { kernel, fd, .. } => {
                run(kernel, Op::Write { fd: fd.clone(), at: None, parts, durable: false }).await
            }
        }
    }

    /// Ends the stream in both directions; pending reads return 0 bytes.
    pub fn shutdown(&self) {
        match &self.0 {
            Kind::Pipe { reads, writes } => {
                reads.close();
                writes.close();
            }
            Kind::Socket { fd, .. } => {
                // Not connected any more is as good as shut down.
                let _gone = rustix::net::shutdown(&**fd, rustix::net::Shutdown::Both);
            }
        }
    }
}

/// Where the windows of some parts lay before bytes moved through them.
struct Windows(SmallVec<[(usize, usize); 2]>);

impl Windows {
    fn of(parts: &[Slice]) -> Windows {
        Windows(parts.iter().map(|part| (part.start, part.len)).collect())
    }

    fn restored(self, mut parts: Parts) -> Parts {
        parts.iter_mut().zip(self.0).for_each(|(part, (start, len))| (part.start, part.len) = (start, len));
        parts
    }
}

/// Does `now` as soon as there is something to read, and it need not wait. Dropped before, it has taken nothing.
async fn when_readable<T>(kernel: &Kernel, fd: &Arc<OwnedFd>, mut now: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        kernel.readable(fd.clone()).await?.result?;
        match now() {
            Err(error) if is_not_yet_kind(error.kind()) => {}
            other => return other,
        }
    }
}

/// A call that would have had to wait, or was interrupted before it began.
fn is_not_yet(result: &io::Result<usize>) -> bool {
    result.as_ref().is_err_and(|e| is_not_yet_kind(e.kind()))
}

fn is_not_yet_kind(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

async fn run(kernel: &Kernel, op: Op) -> (Parts, io::Result<usize>) {
    match kernel.start(op).await {
        Ok(outcome) => (outcome.op.into_parts(), outcome.result.map(|n| n as usize)),
        Err(e) => (Parts::new(), Err(e)),
    }
}

/// After what time the kernel ends accepted TCP connections whose peer has vanished without a word: a quiet peer is
/// asked after `idle_s` seconds whether it is there, and then `probes` times, `interval_s` seconds apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeepAlive {
    /// Seconds until the first question.
    pub idle_s: u32,
    /// Seconds from one question to the next.
    pub interval_s: u32,
    /// Questions without an answer.
    pub probes: u32,
}

impl KeepAlive {
    /// For service: vanished peers are gone after 90 s.
    pub const fn production() -> KeepAlive {
        KeepAlive { idle_s: 60, interval_s: 10, probes: 3 }
    }

    /// For tests: after 2 s.
    pub const fn tiny() -> KeepAlive {
        KeepAlive { idle_s: 1, interval_s: 1, probes: 1 }
    }
}

/// A listening socket. A Unix socket's path is removed when the listener is dropped, unless it is another process's.
pub struct Listener {
    kernel: Kernel,
    fd: Arc<OwnedFd>,
    address: Address,
    owns_path: Cell<bool>,
    /// A service manager made the socket, and its path stays.
    is_managers: bool,
}

impl Listener {
    /// Binds and listens.
    ///
    /// # Errors
    /// The kernel's; for a Unix path that exists, `AddrInUse`: nothing is removed here.
    pub fn bind(rt: &Rt, address: &Address) -> io::Result<Listener> {
        Listener::bind_with(rt, address, KeepAlive::production())
    }

    /// The same with other times after which vanished TCP peers are gone.
    ///
    /// # Errors
    /// As for [`Listener::bind`].
    pub fn bind_with(rt: &Rt, address: &Address, keep_alive: KeepAlive) -> io::Result<Listener> {
        let kernel = rt.kernel()?;
        let (fd, address) = crate::real::listen(address, keep_alive)?;
        Ok(Listener { kernel, fd: Arc::new(fd), address, owns_path: Cell::new(true), is_managers: false })
    }

    /// The same; a Unix socket can be connected to by its owner alone, whatever the process' mask says, from the
    /// instant at which its path appears.
    ///
    /// # Errors
    /// As for [`Listener::bind`].
    pub fn bind_closed(rt: &Rt, address: &Address) -> io::Result<Listener> {
        let Address::Unix(path) = address else { return Listener::bind(rt, address) };
        let kernel = rt.kernel()?;
        let fd = crate::real::listen_closed(path)?;
        Ok(Listener {
            kernel,
            fd: Arc::new(fd),
            address: address.clone(),
            owns_path: Cell::new(true),
            is_managers: false,
        })
    }

    /// A socket that a service manager has made. Its path stays when the listener is dropped.
    ///
    /// # Errors
    /// The kernel's, and `InvalidInput` for a descriptor that is no listening socket with an address.
    pub fn adopt(rt: &Rt, fd: OwnedFd) -> io::Result<Listener> {
        let kernel = rt.kernel()?;
        let address = crate::real::adopt(&fd, KeepAlive::production())?;
        Ok(Listener { kernel, fd: Arc::new(fd), address, owns_path: Cell::new(false), is_managers: true })
    }

    /// A socket that listens at `address` already. Its path is that of another process until
    /// [`Listener::own_path`]; if a service manager has made it, the path stays that manager's.
    ///
    /// # Errors
    /// The kernel's, or `Unsupported` in virtual time.
    pub fn from_socket(rt: &Rt, fd: OwnedFd, address: Address, is_managers: bool) -> io::Result<Listener> {
        let kernel = rt.kernel()?;
        let fd = Arc::new(crate::real::patient(fd)?);
        Ok(Listener { kernel, fd, address, owns_path: Cell::new(false), is_managers })
    }

    /// From now on the path is removed with the listener (`true`), or stays for another process. That of a service
    /// manager stays in any case.
    pub fn own_path(&self, owns: bool) {
        self.owns_path.set(owns && !self.is_managers);
    }

    /// Whether a service manager made the socket.
    pub fn is_managers(&self) -> bool {
        self.is_managers
    }

    /// The address, with the port that the kernel chose if 0 was asked for.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Waits for a client. Dropping the future loses none.
    ///
    /// # Errors
    /// The kernel's.
    pub async fn accept(&self) -> io::Result<Stream> {
        let fd = self.accept_fd().await?;
        Ok(Stream(Kind::Socket { kernel: self.kernel.clone(), fd: Arc::new(fd), eager: Rc::default() }))
    }

    /// The same, for protocols that need the socket itself: those that hand over descriptors.
    ///
    /// # Errors
    /// The kernel's.
    pub async fn accept_fd(&self) -> io::Result<OwnedFd> {
        when_readable(&self.kernel, &self.fd, || crate::real::accept_now(&self.fd)).await
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Address::Unix(path) = &self.address
            && self.owns_path.get()
        {
            crate::real::remove_socket(path);
        }
    }
}

#[cfg(test)]
mod tests;
