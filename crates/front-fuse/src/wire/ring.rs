//! Requests and answers in memory that the kernel shares, handed over by commands of the reactor's ring.
//!
//! The kernel writes a request into an entry of the queue of the CPU that asks, and reads its answer there. So one call
//! answers and waits. Payload is copied once each way: an entry has the same memory for its whole life, and a file
//! system may keep what was written. What gives inodes back, interrupts and notices stay on `/dev/fuse`.

use std::io;
use std::iter;

use esker_base::{Errno, Nanos};
use esker_rt::Level;
use esker_rt::mem::{Mem, Parts, Pool, Slice};
use esker_rt::real::{FuseEntry, Op as KernelOp};
use rustix::io::Errno as Refusal;
use zerocopy::FromBytes;

use super::{Channel, Message, gone, is};
use crate::proto::abi::{InHeader, OutHeader, opcode};
use crate::proto::{Request, reply};

/// Most bytes of a ring's payloads, on machines of up to 512 CPUs.
const BYTES_MAX: usize = 32 << 20;
/// Most entries of a queue. Requests beyond them wait in the kernel.
const DEPTH_MAX: usize = 8;
/// Payloads become smaller before a queue has fewer entries.
const DEPTH_FULL: usize = 4;
/// The smallest payload in bytes. A value of an extended attribute has as many.
const TRANSFER_MIN: usize = 64 << 10;

/// A kernel that is not ready for its entries is asked again after this time.
const PAUSE: Nanos = Nanos::millis(1);

/// How much memory a ring has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RingShape {
    /// As many as the machine can have CPUs.
    pub queues: u16,
    /// Entries of each queue.
    pub depth: u16,
    /// Bytes of the payload of each entry, and so of the largest request.
    pub transfer_max: u32,
}

impl RingShape {
    /// The shape for so many CPUs, with requests of at most `transfer_max` bytes.
    pub(crate) fn of(cpus: u16, transfer_max: u32) -> RingShape {
        let (queues, mut transfer) = (usize::from(cpus.max(1)), transfer_max as usize);
        while transfer > TRANSFER_MIN && queues * DEPTH_FULL * transfer > BYTES_MAX {
            transfer /= 2;
        }
        let depth = (BYTES_MAX / (queues * transfer)).clamp(1, DEPTH_MAX);
        RingShape { queues: queues as u16, depth: depth as u16, transfer_max: transfer as u32 }
    }
}

/// The entries of a ring. The kernel uses it when each queue has one.
pub(crate) fn entries(channel: &Channel, pool: &Pool, shape: RingShape) -> impl Iterator<Item = FuseEntry> {
    let queues = (0..shape.queues).flat_map(move |queue| iter::repeat_n(queue, shape.depth.into()));
    queues.map(move |queue| FuseEntry::new(channel.fd(), queue, pool.slab(shape.transfer_max as usize)))
}

impl Channel {
    /// Hands an entry over, with the answer in it if there is one, and waits for a request. None: the kernel has no
    /// more.
    pub(crate) async fn fetch(&self, mut entry: FuseEntry) -> Option<FuseEntry> {
        loop {
            let error = match self.handed_over(entry).await {
                Ok((Ok(_), back)) => return Some(back),
                Ok((Err(error), back)) if is(&error, Refusal::AGAIN) || is(&error, Refusal::INTR) => {
                    entry = back;
                    self.rt.sleep(PAUSE).await;
                    continue;
                }
                Ok((Err(error), _)) | Err(error) => error,
            };
            if !gone(&error) && !is(&error, Refusal::CANCELED) {
                let what = format_args!("fuse: the kernel refuses an entry of its ring: {error}");
                self.rt.log(Level::Error, what);
            }
            return None;
        }
    }

    async fn handed_over(&self, entry: FuseEntry) -> io::Result<(io::Result<u32>, FuseEntry)> {
        let outcome = self.kernel.start(KernelOp::Fetch { entry }).await?;
        match outcome.op {
            KernelOp::Fetch { entry } => Ok((outcome.result, entry)),
            other => unreachable!("an operation comes back as it was: {other:?}"),
        }
    }
}

/// Reads the request in an entry, as if it had come in one piece.
pub(crate) fn read(entry: &FuseEntry, pool: &Pool, message: &mut Message) {
    let (header, _) = InHeader::read_from_prefix(entry.head()).expect("a head is longer than that");
    let payload = entry.payload();
    message.bytes.clear();
    message.payload.clear();
    message.bytes.extend_from_slice(&entry.head()[..size_of::<InHeader>()]);
    let rest = (header.len as usize).checked_sub(size_of::<InHeader>() + payload.len());
    // Lengths that contradict each other leave a message without arguments, which is refused.
    let arguments = rest.and_then(|len| entry.arguments().get(..len)).unwrap_or_default();
    message.bytes.extend_from_slice(arguments);
    if header.opcode == opcode::WRITE {
        let mut slab = pool.slab(payload.len());
        slab[..payload.len()].copy_from_slice(payload);
        pool.note_bounce(payload.len());
        message.payload = Slice { mem: Mem::Unique(slab), start: 0, len: payload.len() }.into();
    } else {
        message.bytes.extend_from_slice(payload);
    }
    message.total = size_of::<InHeader>() + arguments.len() + payload.len();
}

/// Writes an answer into the entry of its request.
pub(crate) fn answer(entry: &mut FuseEntry, parts: &Parts, pool: &Pool) {
    let (head, first) = parts[0].bytes().split_at(size_of::<OutHeader>());
    let payload: usize = parts[1..].iter().map(|part| part.len).sum();
    if first.len() + payload > entry.payload_max() {
        // More than the kernel asked for: no file system answers so.
        let unique = Request::unique_of(entry.head()).unwrap_or_default();
        return entry.answer(&reply::failed(unique, Errno::EIO), iter::empty());
    }
    pool.note_bounce(payload);
    entry.answer(head, iter::once(first).chain(parts[1..].iter().map(Slice::bytes)));
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustix::fs::{Mode, OFlags};
    use zerocopy::IntoBytes;

    use super::*;
    use crate::proto::abi::{WRITE_HEAD, WriteIn};

    #[test]
    fn memory_is_bounded_and_large_requests_become_smaller_before_queues_become_short() {
        let shapes = [(1, 8, 1 << 20), (2, 8, 1 << 20), (8, 4, 1 << 20), (16, 4, 512 << 10), (64, 4, 128 << 10)];
        for (cpus, depth, transfer_max) in shapes {
            assert_eq!(RingShape::of(cpus, 1 << 20), RingShape { queues: cpus, depth, transfer_max });
        }
        for cpus in 0..=512 {
            let shape = RingShape::of(cpus, 1 << 20);
            let bytes = usize::from(shape.queues) * usize::from(shape.depth) * shape.transfer_max as usize;
            assert!(bytes <= BYTES_MAX && shape.depth >= 1 && shape.transfer_max as usize >= TRANSFER_MIN, "{shape:?}");
        }
        assert_eq!(RingShape::of(4096, 1 << 20).depth, 1, "each queue has an entry");
    }

    /// An entry as the kernel fills it. Its own fields are set by an answer, whose layout is the same.
    fn filled(header: InHeader, payload: &[u8]) -> FuseEntry {
        let file = rustix::fs::open("/dev/null", OFlags::RDONLY, Mode::empty()).unwrap();
        let mut entry = FuseEntry::new(Arc::new(file), 0, Pool::default().slab(TRANSFER_MIN));
        entry.answer(header.as_bytes(), iter::once(payload));
        entry
    }

    #[test]
    fn the_payload_of_a_write_is_apart_and_others_come_in_one_piece() {
        let (pool, mut message) = (Pool::default(), Message::default());
        let write = InHeader { len: (WRITE_HEAD + 3) as u32, opcode: opcode::WRITE, unique: 9, ..InHeader::zero() };
        read(&filled(write, b"abc"), &pool, &mut message);
        assert_eq!((message.bytes.len(), message.total), (WRITE_HEAD, WRITE_HEAD + 3));
        assert_eq!((message.payload[0].bytes(), pool.bounced()), (&b"abc"[..], 3));
        assert_eq!(message.bytes[size_of::<InHeader>()..], *WriteIn::zero().as_bytes());
        let lookup = InHeader { len: 40 + 5, opcode: opcode::LOOKUP, unique: 9, ..InHeader::zero() };
        read(&filled(lookup, b"name\0"), &pool, &mut message);
        assert_eq!((&message.bytes[40..], message.total, message.payload.len()), (&b"name\0"[..], 45, 0));
    }

    #[test]
    fn lengths_that_contradict_each_other_make_no_request() {
        let (pool, mut message) = (Pool::default(), Message::default());
        for len in [0, 39, 44, 45 + 129, u32::MAX] {
            let header = InHeader { len, opcode: opcode::LOOKUP, unique: 9, ..InHeader::zero() };
            read(&filled(header, b"name\0"), &pool, &mut message);
            assert!(Request::parse(&message.bytes, message.total).is_err(), "{len}");
            assert_eq!(Request::unique_of(&message.bytes), Some(9));
        }
    }

    #[test]
    fn an_answer_that_is_too_long_is_an_error() {
        let (pool, mut entry) = (Pool::default(), filled(InHeader { unique: 9, ..InHeader::zero() }, b""));
        answer(&mut entry, &Slice::heap(reply::with(9, &[1u8, 2])).into(), &pool);
        assert_eq!((entry.payload(), pool.bounced()), (&[1, 2][..], 0));
        let file = [Slice::heap(reply::head(9, TRANSFER_MIN)), Slice::heap(vec![7; TRANSFER_MIN])];
        answer(&mut entry, &Parts::from(file), &pool);
        assert_eq!((entry.payload().len(), pool.bounced()), (TRANSFER_MIN, TRANSFER_MIN as u64));
        let mut entry = filled(InHeader { unique: 9, ..InHeader::zero() }, b"");
        let long = [Slice::heap(reply::head(9, TRANSFER_MIN + 1)), Slice::heap(vec![7; TRANSFER_MIN + 1])];
        answer(&mut entry, &Parts::from(long), &pool);
        let (told, _) = OutHeader::read_from_prefix(entry.head()).unwrap();
        assert_eq!((told.error, told.unique, entry.payload().len()), (-5, 9, 0));
    }
}
