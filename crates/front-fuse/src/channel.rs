//! Bytes from and to the kernel: requests in, answers out, through the reactor.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use esker_rt::mem::{Mem, Parts, Pool, Slice};
use esker_rt::real::{Kernel, Op as KernelOp};
use esker_rt::{Level, Rt};
use rustix::io::Errno;

use crate::proto::abi::WRITE_HEAD;
use crate::proto::{Malformed, Op, Request};

/// A payload of at most so many bytes takes no larger slab than that.
pub(crate) const SMALL: usize = 64 << 10;

/// An open `/dev/fuse`. Cheap to clone; clones are one channel.
#[derive(Clone)]
pub(crate) struct Channel {
    rt: Rt,
    kernel: Kernel,
    fd: Arc<OwnedFd>,
}

/// A request, and the payload of a write.
pub(crate) struct Message {
    pub request: Request,
    pub payload: Parts,
}

/// Reads requests into memory that is kept for the next one where a request does not take it away.
pub(crate) struct Reader {
    channel: Channel,
    pool: Pool,
    write_max: usize,
    /// The head, the small slab, and the large one if writes can be that large.
    parts: Parts,
}

impl Channel {
    /// # Errors
    /// In virtual time, where there is no kernel.
    pub(crate) fn new(rt: &Rt, fd: OwnedFd) -> io::Result<Channel> {
        Ok(Channel { rt: rt.clone(), kernel: rt.kernel()?, fd: Arc::new(fd) })
    }

    /// Sends one answer. An answer without a waiting caller is no failure.
    pub(crate) async fn answer(&self, parts: Parts) {
        let sent = self.kernel.start(KernelOp::Write { fd: self.fd.clone(), at: None, parts }).await;
        match sent.and_then(|outcome| outcome.result) {
            Ok(_) => {}
            Err(error) if gone(&error) || is(&error, Errno::NOENT) => {}
            Err(error) => self.rt.log(Level::Error, format_args!("fuse: an answer was not taken: {error}")),
        }
    }
}

impl Reader {
    /// `write_max`: the largest payload, in bytes.
    pub(crate) fn new(channel: Channel, pool: &Pool, write_max: usize) -> Reader {
        Reader { channel, pool: pool.clone(), write_max, parts: Parts::new() }
    }

    /// The next request. None: the file system was unmounted, or the kernel ended it.
    ///
    /// # Errors
    /// The kernel's, or a message that is no request.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Message>> {
        loop {
            self.refill();
            let parts = std::mem::take(&mut self.parts);
            let read = KernelOp::Read { fd: self.channel.fd.clone(), at: None, parts };
            let outcome = self.channel.kernel.start(read).await?;
            self.parts = outcome.op.into_parts();
            match outcome.result {
                Ok(len) => return self.understand(len as usize).map(Some).map_err(io::Error::other),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.channel.kernel.readable(self.channel.fd.clone()).await?.result?;
                }
                Err(error) if gone(&error) => return Ok(None),
                // The caller went away before this read its request.
                Err(error) if is(&error, Errno::NOENT) || error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Replaces what the last request took away.
    fn refill(&mut self) {
        if self.parts.is_empty() {
            self.parts.push(Slice::heap(vec![0; WRITE_HEAD]));
        }
        let large = self.write_max.saturating_sub(SMALL);
        let sizes = [SMALL, large];
        for size in sizes.into_iter().filter(|size| *size > 0).skip(self.parts.len() - 1) {
            self.parts.push(Slice { mem: Mem::Unique(self.pool.slab(size)), start: 0, len: size });
        }
    }

    fn understand(&mut self, len: usize) -> Result<Message, Malformed> {
        let head = self.parts[0].bytes();
        let begun = Request::parse(&head[..len.min(WRITE_HEAD)], len);
        if let Ok(request @ Request { op: Op::Write { size, .. }, .. }) = begun {
            return Ok(Message { request, payload: self.take_payload(size as usize) });
        }
        let all: Vec<u8> = self.parts.iter().flat_map(|part| part.bytes()).take(len).copied().collect();
        Ok(Message { request: Request::parse(&all, len)?, payload: Parts::new() })
    }

    /// The slabs that hold the payload; those that it does not reach stay for the next request.
    fn take_payload(&mut self, size: usize) -> Parts {
        let count = if size > SMALL { 2 } else { 1 };
        let mut payload: Parts = self.parts.drain(1..=count).collect();
        let mut left = size;
        for part in &mut payload {
            part.len = part.len.min(left);
            left -= part.len;
        }
        // The large slab stays behind the small one that is to come.
        if count == 1 && self.parts.len() > 1 {
            let small = Slice { mem: Mem::Unique(self.pool.slab(SMALL)), start: 0, len: SMALL };
            self.parts.insert(1, small);
        }
        payload
    }
}

fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}

/// Whether the file system is not there any more.
fn gone(error: &io::Error) -> bool {
    is(error, Errno::NODEV) || is(error, Errno::CONNABORTED) || is(error, Errno::NOTCONN)
}
