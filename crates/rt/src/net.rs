//! Byte streams in both worlds: sockets in the real one, in-memory pipes in either.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;

use crate::handle::Rt;
use crate::mem::{Part, advance_parts};
use crate::real::{Kernel, Op};
use crate::sync::Notify;

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
    Socket { kernel: Kernel, fd: Arc<OwnedFd> },
    Pipe { reads: Rc<Pipe>, writes: Rc<Pipe> },
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

    async fn read(&self, parts: &mut [Part]) -> usize {
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

    async fn write(&self, parts: &[Part]) -> io::Result<usize> {
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
        Ok(Stream(Kind::Socket { kernel: rt.kernel()?, fd: Arc::new(fd) }))
    }

    /// Connects to a server. Blocking: for start-up and tools.
    ///
    /// # Errors
    /// The kernel's, or `Unsupported` in virtual time.
    pub fn connect(rt: &Rt, address: &Address) -> io::Result<Stream> {
        Stream::from_socket(rt, crate::real::connect(address)?)
    }

    /// Who is at the other end: a network address, or user and process of a local program. Empty if nobody can tell.
    pub fn peer(&self) -> String {
        match &self.0 {
            Kind::Pipe { .. } => String::new(),
            Kind::Socket { fd, .. } => crate::real::peer(fd),
        }
    }

    /// Reads at least one byte into the parts, in order, unless the stream has ended (0 bytes).
    pub async fn read(&self, mut parts: Vec<Part>) -> (Vec<Part>, io::Result<usize>) {
        match &self.0 {
            Kind::Pipe { reads, .. } => {
                let n = reads.read(&mut parts).await;
                (parts, Ok(n))
            }
            Kind::Socket { kernel, fd } => run(kernel, Op::Read { fd: fd.clone(), at: None, parts }).await,
        }
    }

    /// Fills all parts.
    ///
    /// # Errors
    /// `UnexpectedEof` when the stream ends first, and the kernel's errors. The parts are lost with an error.
    pub async fn read_exact(&self, parts: Vec<Part>) -> io::Result<Vec<Part>> {
        let windows = Windows::of(&parts);
        let (mut left, mut done) = (parts, Vec::new());
        advance_parts(&mut left, 0, &mut done);
        while !left.is_empty() {
            let (parts, result) = self.read(left).await;
            left = parts;
            match result? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => advance_parts(&mut left, n, &mut done),
            }
        }
        Ok(windows.restored(done))
    }

    /// Writes all parts, gathered, and gives them back as they were.
    ///
    /// # Errors
    /// The kernel's; `BrokenPipe` when the peer went away.
    pub async fn write_all(&self, parts: Vec<Part>) -> io::Result<Vec<Part>> {
        let windows = Windows::of(&parts);
        let (mut left, mut done) = (parts, Vec::new());
        advance_parts(&mut left, 0, &mut done);
        while !left.is_empty() {
            let (parts, result) = self.write(left).await;
            left = parts;
            match result? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                n => advance_parts(&mut left, n, &mut done),
            }
        }
        Ok(windows.restored(done))
    }

    async fn write(&self, parts: Vec<Part>) -> (Vec<Part>, io::Result<usize>) {
        match &self.0 {
            Kind::Pipe { writes, .. } => {
                let result = writes.write(&parts).await;
                (parts, result)
            }
            Kind::Socket { kernel, fd } => run(kernel, Op::Write { fd: fd.clone(), at: None, parts }).await,
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
struct Windows(Vec<(usize, usize)>);

impl Windows {
    fn of(parts: &[Part]) -> Windows {
        Windows(parts.iter().map(|part| (part.start, part.len)).collect())
    }

    fn restored(self, mut parts: Vec<Part>) -> Vec<Part> {
        parts.iter_mut().zip(self.0).for_each(|(part, (start, len))| (part.start, part.len) = (start, len));
        parts
    }
}

async fn run(kernel: &Kernel, op: Op) -> (Vec<Part>, io::Result<usize>) {
    match kernel.start(op).await {
        Ok(outcome) => (outcome.op.into_parts(), outcome.result.map(|n| n as usize)),
        Err(e) => (Vec::new(), Err(e)),
    }
}

/// A listening socket. A Unix socket's path is removed when the listener is dropped.
pub struct Listener {
    kernel: Kernel,
    fd: Arc<OwnedFd>,
    address: Address,
}

impl Listener {
    /// Binds and listens.
    ///
    /// # Errors
    /// The kernel's; for a Unix path that exists, `AddrInUse`: nothing is removed here.
    pub fn bind(rt: &Rt, address: &Address) -> io::Result<Listener> {
        let kernel = rt.kernel()?;
        let (fd, address) = crate::real::listen(address)?;
        Ok(Listener { kernel, fd: Arc::new(fd), address })
    }

    /// The address, with the port that the kernel chose if 0 was asked for.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Waits for a client.
    ///
    /// # Errors
    /// The kernel's.
    pub async fn accept(&self) -> io::Result<Stream> {
        let fd = self.accept_fd().await?;
        Ok(Stream(Kind::Socket { kernel: self.kernel.clone(), fd: Arc::new(fd) }))
    }

    /// The same, for protocols that need the socket itself: those that hand over descriptors.
    ///
    /// # Errors
    /// The kernel's.
    pub async fn accept_fd(&self) -> io::Result<OwnedFd> {
        let outcome = self.kernel.start(Op::Accept { fd: self.fd.clone() }).await?;
        let raw = outcome.result?;
        // SAFETY: the kernel just made this descriptor for this call, and nobody else knows it.
        Ok(unsafe { OwnedFd::from_raw_fd(raw as i32) })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Address::Unix(path) = &self.address {
            crate::real::remove_socket(path);
        }
    }
}

#[cfg(test)]
mod tests;
