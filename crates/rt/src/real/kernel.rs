//! What devices and front ends call: files and operations on this world's reactor.

use std::fs;
use std::future::Future;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use esker_sys::lock;

use super::op::{FallocateMode, Op, Outcome};
use crate::handle::Rt;
use crate::mem::Parts;

/// Starts operations on one real world.
#[derive(Clone, Debug)]
pub struct Kernel {
    rt: Rt,
}

impl Kernel {
    pub(crate) fn new(rt: Rt) -> Kernel {
        Kernel { rt }
    }

    /// Starts `op` now; the future gives its outcome. Dropping the future does not free what the kernel uses.
    pub fn start(&self, op: Op) -> InFlight {
        let real = self.rt.real().expect("a Kernel belongs to a real world");
        InFlight { rt: self.rt.clone(), key: Some(real.start(op)) }
    }

    /// Waits until `fd` has something to read, or for a shorter time: look whether there is. Dropping the future ends
    /// the wait.
    pub fn readable(&self, fd: Arc<OwnedFd>) -> InFlight {
        self.start(Op::Readable { fd })
    }

    /// Whether the reactor hands commands to files, which [`Op::Fetch`] is.
    pub fn takes_commands(&self) -> bool {
        self.rt.real().is_some_and(crate::real::RealState::takes_commands)
    }

    /// Whether operations under way can be ended: [`InFlight::cancel`].
    pub(crate) fn cancels(&self) -> bool {
        self.rt.real().is_some_and(crate::real::RealState::cancels)
    }

    /// Makes a file that is only ever appended to, such as a trace. Its writes block: call them on a worker.
    ///
    /// # Errors
    /// The kernel's; `AlreadyExists` where there is something, so that nothing is overwritten.
    pub fn create_log(&self, path: &Path) -> io::Result<Box<dyn io::Write + Send>> {
        Ok(Box::new(fs::OpenOptions::new().append(true).create_new(true).open(path)?))
    }

    /// Removes such a file again.
    ///
    /// # Errors
    /// The kernel's.
    pub fn remove_log(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }
}

/// An operation in flight.
#[must_use = "await it for its outcome"]
#[derive(Debug)]
pub struct InFlight {
    rt: Rt,
    key: Option<io::Result<usize>>,
}

impl Future for InFlight {
    type Output = io::Result<Outcome>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let key = match self.key.take().expect("an operation is awaited once") {
            Ok(key) => key,
            Err(e) => return Poll::Ready(Err(e)),
        };
        let outcome = self.rt.real().and_then(|real| real.take(key, cx.waker()));
        if let Some(outcome) = outcome {
            return Poll::Ready(Ok(outcome));
        }
        self.key = Some(Ok(key));
        Poll::Pending
    }
}

impl InFlight {
    /// Asks the kernel to end it. It is awaited all the same: it has failed with `ECANCELED` and done nothing, or it
    /// was done before.
    pub(crate) fn cancel(&self) {
        if let (Some(Ok(key)), Some(real)) = (&self.key, self.rt.real()) {
            real.cancel(*key);
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if let (Some(Ok(key)), Some(real)) = (&self.key, self.rt.real()) {
            real.abandon(*key);
        }
    }
}

/// Pauses while a lock may still belong to a process that was killed.
const LOCK_TRIES: u32 = 40;
const LOCK_PAUSE: Duration = Duration::from_millis(25);

/// Tries again while a lock is held.
fn patiently(take: impl Fn() -> io::Result<()>) -> io::Result<()> {
    for _ in 0..LOCK_TRIES {
        match take() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::sleep(LOCK_PAUSE),
            other => return other,
        }
    }
    take()
}

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenMode {
    /// Refuse writes.
    pub read_only: bool,
    /// Bypass the page cache (O_DIRECT).
    pub direct: bool,
    /// Make the file; fails if it exists, so that nothing is overwritten.
    pub create_new: bool,
    /// Refuse a block device that is mounted or that another program holds so too.
    pub exclusive: bool,
}

/// An open file or block device.
#[derive(Clone, Debug)]
pub struct File {
    kernel: Kernel,
    fd: Arc<OwnedFd>,
}

impl File {
    /// Opens `path`. Blocking: for start-up, not for the data path.
    ///
    /// # Errors
    /// The kernel's.
    pub fn open(kernel: &Kernel, path: &Path, mode: OpenMode) -> io::Result<File> {
        let mut options = fs::OpenOptions::new();
        options.read(true).write(!mode.read_only).create_new(mode.create_new);
        let direct = if mode.direct { libc::O_DIRECT } else { 0 };
        // Without O_CREAT, O_EXCL is defined for block devices alone.
        let exclusive = if mode.exclusive { libc::O_EXCL } else { 0 };
        // What is stored is for its owner and group.
        options.mode(0o640).custom_flags(direct | exclusive);
        let file = options.open(path)?;
        Ok(File { kernel: kernel.clone(), fd: Arc::new(OwnedFd::from(file)) })
    }

    /// Its size in bytes; a block device's by seeking to its end.
    pub fn size(&self) -> io::Result<u64> {
        Ok(rustix::fs::seek(&*self.fd, rustix::fs::SeekFrom::End(0))?)
    }

    /// What direct I/O needs its offsets, lengths and memory to be multiples of, in bytes. `None` where the kernel or
    /// the file system does not tell, or does no direct I/O on this file.
    pub fn direct_alignment(&self) -> io::Result<Option<u32>> {
        use rustix::fs::{AtFlags, StatxFlags};
        let stat = rustix::fs::statx(&*self.fd, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN)?;
        let told = StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::DIOALIGN);
        let alignment = stat.stx_dio_offset_align.max(stat.stx_dio_mem_align);
        Ok((told && alignment > 0).then_some(alignment))
    }

    /// The logical block of a block device, in bytes.
    pub fn logical_block(&self) -> io::Result<u32> {
        Ok(rustix::fs::ioctl_blksszget(&*self.fd)?)
    }

    /// Sets the size of a regular file.
    pub fn set_size(&self, bytes: u64) -> io::Result<()> {
        Ok(rustix::fs::ftruncate(&*self.fd, bytes)?)
    }

    /// Reserves space for the first `bytes` bytes of a regular file, whose content stays. Blocking: for start-up.
    ///
    /// # Errors
    /// The kernel's; `Unsupported` where the file system cannot.
    pub fn allocate(&self, bytes: u64) -> io::Result<()> {
        Ok(rustix::fs::fallocate(&*self.fd, rustix::fs::FallocateFlags::KEEP_SIZE, 0, bytes)?)
    }

    /// The next offset at or after `at` that holds data, and where that data ends, as the file system reports it.
    /// `None`: only holes follow. Blocking, but answered from the file's metadata.
    pub fn data_after(&self, at: u64) -> io::Result<Option<(u64, u64)>> {
        let start = match rustix::fs::seek(&*self.fd, rustix::fs::SeekFrom::Data(at)) {
            Ok(start) => start,
            Err(rustix::io::Errno::NXIO) => return Ok(None),
            Err(e) => return Err(e.into()),
        };
        let end = rustix::fs::seek(&*self.fd, rustix::fs::SeekFrom::Hole(start))?;
        Ok(Some((start, end)))
    }

    /// Takes advisory locks for this process, so that no second server, no qemu and no tool of qemu writes the same
    /// file; if `exclusive`, none reads it either. Blocking: a process that was killed lets go only when the kernel has
    /// taken its ring down, which is waited for up to a second.
    ///
    /// # Errors
    /// `WouldBlock` with [`LockHolder`](lock::LockHolder) if another program holds one, or the kernel's.
    pub fn lock(&self, exclusive: bool) -> io::Result<()> {
        patiently(|| {
            lock::lock_whole(self.fd.as_fd(), exclusive)?;
            lock::lock_bytes(self.fd.as_fd(), exclusive)
        })
    }

    /// The same for a block device, on which flock(2) is udev's.
    ///
    /// # Errors
    /// As [`File::lock`].
    pub fn lock_device(&self, exclusive: bool) -> io::Result<()> {
        patiently(|| lock::lock_bytes(self.fd.as_fd(), exclusive))
    }

    /// Reads into `parts`, one after the other, from offset `at`. May read less than asked.
    pub fn read(&self, at: u64, parts: impl Into<Parts>) -> InFlight {
        self.kernel.start(Op::Read { fd: self.fd.clone(), at: Some(at), parts: parts.into() })
    }

    /// Writes `parts`, one after the other, at offset `at`. May write less than asked.
    pub fn write(&self, at: u64, parts: impl Into<Parts>) -> InFlight {
        self.kernel.start(Op::Write { fd: self.fd.clone(), at: Some(at), parts: parts.into(), durable: false })
    }

    /// The same, and makes these bytes durable. Earlier writes need [`File::sync`].
    pub fn write_durably(&self, at: u64, parts: impl Into<Parts>) -> InFlight {
        self.kernel.start(Op::Write { fd: self.fd.clone(), at: Some(at), parts: parts.into(), durable: true })
    }

    /// Makes completed writes durable.
    pub fn sync(&self) -> InFlight {
        self.kernel.start(Op::Sync { fd: self.fd.clone() })
    }

    /// Changes the space of a range.
    pub fn fallocate(&self, mode: FallocateMode, at: u64, len: u64) -> InFlight {
        self.kernel.start(Op::Fallocate { fd: self.fd.clone(), mode, at, len })
    }
}

#[cfg(test)]
mod tests;
