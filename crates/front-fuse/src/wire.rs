//! Bytes from and to the kernel: requests in, answers out.
//!
//! Both are tried at once, where they come up: the kernel gives a request that is there and takes an answer without a
//! wait. Only a wait for the next request, and an answer that waited itself, go through the reactor. [`ring`] is the
//! other way, by memory that the kernel shares.

pub(crate) mod ring;

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use esker_rt::mem::{Mem, Parts, Pool, Slice};
use esker_rt::real::{Kernel, Op as KernelOp};
use esker_rt::{Level, Rt};
use rustix::io::Errno;
use smallvec::SmallVec;

use crate::proto::Request;
use crate::proto::abi::{WRITE_HEAD, opcode};

/// A payload of at most so many bytes takes no larger slab than that.
pub(crate) const SMALL: usize = 64 << 10;

/// Requests in a row before other tasks run.
const TURN: u32 = 64;
/// While requests come one at a time, so many of them are waited for before one is looked for.
const ALONE: u32 = 8;

/// An open `/dev/fuse`. Cheap to clone; clones are one channel.
#[derive(Clone)]
pub(crate) struct Channel {
    rt: Rt,
    kernel: Kernel,
    fd: Arc<OwnedFd>,
}

/// A request as it came.
#[derive(Default)]
pub(crate) struct Message {
    /// All bytes, or of a write those in front of its payload.
    pub bytes: Vec<u8>,
    /// Bytes of the whole request.
    pub total: usize,
    /// The payload of a write.
    pub payload: Parts,
}

/// Reads requests into memory that is kept for the next one where a request does not take it away.
pub(crate) struct Reader {
    channel: Channel,
    pool: Pool,
    write_max: usize,
    /// The head, the small slab, and the large one if writes can be that large.
    parts: Parts,
    in_a_row: u32,
    /// Requests behind each of which there was no other.
    alone: u32,
}

impl Channel {
    /// # Errors
    /// In virtual time, where there is no kernel.
    pub(crate) fn new(rt: &Rt, fd: OwnedFd) -> io::Result<Channel> {
        Ok(Channel { rt: rt.clone(), kernel: rt.kernel()?, fd: Arc::new(fd) })
    }

    /// The descriptor, for notices.
    pub(crate) fn fd(&self) -> Arc<OwnedFd> {
        self.fd.clone()
    }

    /// Sends one answer at once. An answer without a waiting caller is no failure.
    pub(crate) fn answer_now(&self, parts: Parts) {
        let slices: SmallVec<[IoSlice<'_>; 4]> = parts.iter().map(|part| IoSlice::new(part.bytes())).collect();
        let sent = rustix::io::writev(&*self.fd, &slices);
        drop(slices);
        match sent {
            Ok(_) => {}
            Err(Errno::AGAIN | Errno::INTR) => {
                let channel = self.clone();
                self.rt.spawn_detached("fuse-answer", async move { channel.answer(parts).await });
            }
            Err(error) => self.note(&error.into()),
        }
    }

    /// Sends one answer that waited, together with what else the reactor is about to ask of the kernel.
    pub(crate) async fn answer(&self, parts: Parts) {
        let sent = self.kernel.start(KernelOp::Write { fd: self.fd.clone(), at: None, parts, durable: false }).await;
        if let Err(error) = sent.and_then(|outcome| outcome.result) {
            self.note(&error);
        }
    }

    fn note(&self, error: &io::Error) {
        if !gone(error) && !is(error, Errno::NOENT) {
            self.rt.log(Level::Error, format_args!("fuse: an answer was not taken: {error}"));
        }
    }
}

impl Reader {
    /// `write_max`: the largest payload, in bytes.
    pub(crate) fn new(channel: Channel, pool: &Pool, write_max: usize) -> Reader {
        Reader { channel, pool: pool.clone(), write_max, parts: Parts::new(), in_a_row: 0, alone: 0 }
    }

    /// Reads the next request into `message`. False: the file system was unmounted, or the kernel ended it.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) async fn next(&mut self, message: &mut Message) -> io::Result<bool> {
        if self.in_a_row >= TURN {
            self.in_a_row = 0;
            self.channel.rt.yield_now().await;
        }
        loop {
            self.refill();
            // A caller that waits for each answer cannot have sent the next request: a look for it would be in vain.
            let is_alone = self.in_a_row == 1 && !self.alone.is_multiple_of(ALONE);
            match if is_alone { Err(Errno::AGAIN) } else { self.read_now() } {
                Ok(0) => return Ok(false),
                Ok(len) => {
                    self.in_a_row += 1;
                    if self.in_a_row > 1 {
                        self.alone = 0;
                    }
                    self.hand_over(len, message);
                    return Ok(true);
                }
                Err(Errno::AGAIN) => {
                    if self.in_a_row == 1 {
                        self.alone = self.alone.wrapping_add(1);
                    }
                    self.in_a_row = 0;
                    self.channel.kernel.readable(self.channel.fd.clone()).await?.result?;
                }
                // The caller went away before this read its request.
                Err(Errno::NOENT | Errno::INTR) => {}
                Err(error) if gone(&error.into()) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn read_now(&mut self) -> Result<usize, Errno> {
        let slice = |part| IoSliceMut::new(Slice::bytes_mut(part).expect("memory for requests has one owner"));
        let mut slices: SmallVec<[IoSliceMut<'_>; 3]> = self.parts.iter_mut().map(slice).collect();
        rustix::io::readv(&*self.channel.fd, &mut slices)
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

    fn hand_over(&mut self, len: usize, message: &mut Message) {
        let head = &self.parts[0].bytes()[..len.min(WRITE_HEAD)];
        message.bytes.clear();
        message.total = len;
        message.payload.clear();
        if len >= WRITE_HEAD && Request::opcode_of(head) == Some(opcode::WRITE) {
            message.bytes.extend_from_slice(head);
            message.payload = self.take_payload(len - WRITE_HEAD);
        } else {
            let mut left = len;
            for part in &self.parts {
                let taken = part.len.min(left);
                message.bytes.extend_from_slice(&part.bytes()[..taken]);
                left -= taken;
            }
        }
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
