//! Requests of clients as requests to a device, and the device's answers as replies. No payload is copied here.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context as TaskContext, Poll, ready};

use esker_base::ByteRange;
use esker_block::step::StepFuture;
use esker_block::{Bio, BioError, Buf, Device, Done, ExtentState, OpKind, Reply, Step, Support, Tag};
use esker_rt::mem::{Parts, Pool, Slice};
use esker_rt::sync::join_all;

use crate::proto::wire::{MAX_EXTENTS, state};
use crate::proto::{
    Context, Contexts, Errno, Extent, Failure, Form, Op, ReadChunk as ReadPart, ReplyTo, Request, Statuses, Terms,
};
use crate::server::Shared;

/// Reads from this size on first ask where the holes are; for shorter ones the question costs more than it saves.
const HOLE_READ_BYTES: u64 = 128 << 10;

/// What a client announced to read is read in pieces of this size.
const CACHE_BYTES: u64 = 1 << 20;

/// A read in more parts than this is answered whole: a gathered write has a bounded number of elements.
const READ_PARTS: usize = 16;

/// What a request needs to be carried out.
pub(crate) struct Executor {
    pub server: Rc<Shared>,
    /// The export's number.
    pub export: usize,
    pub terms: Terms,
    /// The connection, for attribution below.
    pub tag: Tag,
}

/// A request that was started.
pub(crate) enum Started {
    /// The device answered at once: the message that says so.
    Answered(Parts),
    /// The message comes later.
    Waits(Waiting),
}

/// A request that waits for the device: the future of the message that answers it.
pub(crate) enum Waiting {
    /// For its one request to the device.
    Single { executor: Executor, request: Request, range: ByteRange, step: StepFuture<Done> },
    /// For several requests to the device.
    Several(Pin<Box<dyn Future<Output = Parts>>>),
}

impl Future for Waiting {
    type Output = Parts;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Parts> {
        match &mut *self {
            Waiting::Single { executor, request, range, step } => {
                let done = ready!(Pin::new(step).poll(cx));
                Poll::Ready(executor.answer(request, outcome(done, *range)))
            }
            Waiting::Several(future) => future.as_mut().poll(cx),
        }
    }
}

impl Executor {
    /// Starts `request`.
    pub(crate) fn start(self, request: Request, mut payload: Option<Slice>) -> Started {
        let Some(bio) = self.single(&request.op, &mut payload) else {
            return Started::Waits(Waiting::Several(Box::pin(async move { self.run(request, payload).await })));
        };
        let range = bio.range;
        match self.device().submit(bio.tagged(self.tag)) {
            Step::Now(done) => Started::Answered(self.answer(&request, outcome(done, range))),
            step => Started::Waits(Waiting::Single { executor: self, request, range, step: step.into_future() }),
        }
    }

    /// The one request to the device that answers `op`, if one is enough. It takes the payload then.
    fn single(&self, op: &Op, payload: &mut Option<Slice>) -> Option<Bio> {
        let fits = |range: &ByteRange| range.len() <= self.transfer_max();
        Some(match op {
            Op::Read { range, whole } if fits(range) && (*whole || !self.may_have_holes(*range)) => {
                self.reading(*range)
            }
            Op::Write { range, fua } if fits(range) => {
                let mut bio = Bio::write(range.start(), Buf::from_parts(payload.take()));
                bio.flags.fua = *fua;
                bio
            }
            Op::Flush => Bio::flush(),
            _ => return None,
        })
    }

    /// The message for a request that was a single one to the device.
    fn answer(&self, request: &Request, outcome: Result<Done, Failure>) -> Parts {
        let to = request.reply_to();
        match (outcome, &request.op) {
            (Err(failure), _) => Slice::heap(self.terms.failed(to, &failure)).into(),
            (Ok(done), Op::Read { range, .. }) => {
                let mut message = Parts::from(Slice::heap(self.terms.data(to, *range)));
                message.append(&mut self.carried(done.buf).into_parts());
                message
            }
            (Ok(_), _) => Slice::heap(self.terms.done(to)).into(),
        }
    }

    /// Carries out a request that takes several ones to the device, and gives the message that answers it.
    async fn run(&self, request: Request, payload: Option<Slice>) -> Parts {
        let to = request.reply_to();
        let answer = match request.op {
            Op::Read { range, whole } => self.read(to, range, whole).await,
            Op::BlockStatus { range, one, contexts } => self.status(to, range, one, contexts).await,
            other => self.change(other, payload).await.map(|()| Slice::heap(self.terms.done(to)).into()),
        };
        answer.unwrap_or_else(|failure| Slice::heap(self.terms.failed(to, &failure)).into())
    }

    fn device(&self) -> &dyn Device {
        &*self.server.devices[self.export]
    }

    fn pool(&self) -> &Pool {
        &self.server.pool
    }

    fn reading(&self, range: ByteRange) -> Bio {
        Bio::read(range.start(), Buf::unique(self.pool(), range.len() as usize))
    }

    /// Requests whose answer is only that they succeeded.
    async fn change(&self, op: Op, payload: Option<Slice>) -> Result<(), Failure> {
        match op {
            Op::Write { range, fua } => {
                let buf = Buf::from_parts(payload);
                return self.write(range, fua, buf).await;
            }
            Op::Cache { range } => return self.cache(range).await,
            Op::Resize { bytes } => return self.resize(bytes).await,
            Op::Trim { range, fua } => {
                let done = self.submit(Bio::discard(range.start(), range.len())).await?;
                // A hint has no durability of its own.
                if fua { self.submit(Bio::flush()).await? } else { done }
            }
            Op::WriteZeroes { range, fua, no_hole, fast } => {
                if fast && self.device().limits().support(OpKind::Zero) != Support::Native {
                    return Err(Failure::new(Errno::NotSup, "zeroing is as slow as writing here"));
                }
                let mut bio = Bio::zero(range.start(), range.len());
                (bio.flags.fua, bio.flags.no_unmap) = (fua, no_hole);
                self.submit(bio).await?
            }
            Op::Read { .. } | Op::BlockStatus { .. } => unreachable!("answered with more than success"),
            Op::Flush => unreachable!("one request to the device"),
        };
        Ok(())
    }

    async fn write(&self, range: ByteRange, fua: bool, mut buf: Buf) -> Result<(), Failure> {
        let bio = |at, buf| {
            let mut bio = Bio::write(at, buf);
            bio.flags.fua = fua;
            bio
        };
        let pieces = range.split_at_multiples(self.transfer_max()).map(|piece| {
            let from = (piece.start() - range.start()) as usize;
            bio(piece.start(), buf.slice(from, piece.len() as usize))
        });
        self.submit_all(pieces.collect()).await.map(drop)
    }

    async fn resize(&self, bytes: u64) -> Result<(), Failure> {
        self.device().resize(bytes).await.map_err(|error| Failure::new(errno(&error), error.to_string()))
    }

    /// Reads into nothing: whatever keeps what was read has it then.
    async fn cache(&self, range: ByteRange) -> Result<(), Failure> {
        for piece in range.split_at_multiples(CACHE_BYTES.min(self.transfer_max())) {
            self.submit(self.reading(piece)).await?;
        }
        Ok(())
    }

    async fn read(&self, to: ReplyTo, range: ByteRange, whole: bool) -> Result<Parts, Failure> {
        let parts = if whole { None } else { self.holes(range).await? };
        let Some(parts) = parts else {
            let head = Slice::heap(self.terms.data(to, range));
            return Ok(std::iter::once(head).chain(self.read_bytes(range).await?).collect());
        };
        let mut message = Parts::new();
        for (head, part) in self.terms.parts(to, &parts).into_iter().zip(&parts) {
            message.push(Slice::heap(head));
            if !part.hole {
                message.extend(self.read_bytes(part.range).await?);
            }
        }
        Ok(message)
    }

    /// The parts of a long read, if some of it need not be read or sent.
    async fn holes(&self, range: ByteRange) -> Result<Option<Vec<ReadPart>>, Failure> {
        if !self.may_have_holes(range) {
            return Ok(None);
        }
        let parts = parts_of(range, &self.allocation(range).await?);
        let worth_it = parts.len() <= READ_PARTS && parts.iter().any(|part| part.hole);
        Ok(worth_it.then_some(parts))
    }

    /// Whether it is worth asking, for a client that can be told.
    fn may_have_holes(&self, range: ByteRange) -> bool {
        let known = self.device().limits().support(OpKind::Extents) == Support::Native;
        known && self.terms.form != Form::Simple && range.len() >= HOLE_READ_BYTES
    }

    async fn read_bytes(&self, range: ByteRange) -> Result<Parts, Failure> {
        if range.len() <= self.transfer_max() {
            return self.submit(self.reading(range)).await.map(|done| self.carried(done.buf).into_parts());
        }
        let bios = range.split_at_multiples(self.transfer_max()).map(|piece| self.reading(piece)).collect();
        let bufs = self.submit_all(bios).await?;
        Ok(bufs.into_iter().flat_map(|buf| self.carried(buf).into_parts()).collect())
    }

    /// Bytes that a simulated device only described are made here, for the first time.
    fn carried(&self, buf: Buf) -> Buf {
        if buf.is_described() { buf.into_unique(self.pool()) } else { buf }
    }

    async fn status(&self, to: ReplyTo, range: ByteRange, one: bool, asked: Contexts) -> Result<Parts, Failure> {
        let mut statuses = Statuses::new();
        for context in asked.iter() {
            let extents = match context {
                Context::Allocation => self.allocation(range).await?,
                Context::Written => self.written(range),
            };
            statuses.push((context, extents));
        }
        Ok(Slice::heap(self.terms.status(to, range, one, &statuses)).into())
    }

    fn written(&self, range: ByteRange) -> Vec<Extent> {
        let runs = self.server.changes[self.export].runs(range, self.device().size());
        let seen = |(len, is_changed)| Extent { len, flags: if is_changed { state::WRITTEN } else { 0 } };
        runs.into_iter().map(seen).collect()
    }

    async fn allocation(&self, range: ByteRange) -> Result<Vec<Extent>, Failure> {
        let done = self.submit(Bio::extents(range.start(), range.len())).await?;
        let Ok(Reply::Extents(list)) = done.result else { return Ok(Vec::new()) };
        let seen = |e: &esker_block::Extent| {
            Extent::allocation(e.len, e.state == ExtentState::Hole, e.state != ExtentState::Data)
        };
        Ok(list.iter().map(seen).collect())
    }

    fn transfer_max(&self) -> u64 {
        u64::from(self.device().limits().transfer_max)
    }

    async fn submit(&self, bio: Bio) -> Result<Done, Failure> {
        let range = bio.range;
        outcome(self.device().submit(bio.tagged(self.tag)).await, range)
    }

    /// Submits all at once; their buffers come back in order.
    async fn submit_all(&self, bios: Vec<Bio>) -> Result<Vec<Buf>, Failure> {
        let all = join_all(bios.into_iter().map(|bio| self.submit(bio))).await;
        all.into_iter().map(|done| done.map(|done| done.buf)).collect()
    }
}

fn outcome(done: Done, range: ByteRange) -> Result<Done, Failure> {
    match &done.result {
        Ok(_) => Ok(done),
        Err(error) => Err(failure(error, range)),
    }
}

/// Bytes of memory that a request holds at most, from its header to the end of its reply: its slabs, which are larger
/// than its payload, and lists of extents. `transfer_max` is the device's.
pub(crate) fn room(op: &Op, transfer_max: u64) -> u64 {
    let slab = |len: u64| Pool::slab_bytes(len as usize) as u64;
    match op {
        Op::Read { range, .. } | Op::Write { range, .. } => {
            let pieces = range.len().div_ceil(transfer_max) * slab(range.len().min(transfer_max));
            pieces.max(slab(range.len()))
        }
        Op::Cache { range } => slab(range.len().min(CACHE_BYTES)),
        Op::BlockStatus { range, contexts, .. } => {
            let extents = (range.len() / EXTENT_MIN + 1).min(MAX_EXTENTS as u64);
            contexts.iter().count() as u64 * extents * EXTENT_BYTES
        }
        Op::Flush | Op::Trim { .. } | Op::WriteZeroes { .. } | Op::Resize { .. } => 0,
    }
}

/// No extent is shorter, in bytes.
const EXTENT_MIN: u64 = 512;
/// An extent as it is known, as it is told, and on the wire.
const EXTENT_BYTES: u64 = 3 * 16;

/// Cuts `range` along its extents; what they do not cover counts as data.
fn parts_of(range: ByteRange, extents: &[Extent]) -> Vec<ReadPart> {
    let mut parts: Vec<ReadPart> = Vec::new();
    let mut at = range.start();
    let rest = Extent::allocation(u64::MAX, false, false);
    for extent in extents.iter().chain([&rest]) {
        let len = extent.len.min(range.end() - at);
        let Some(piece) = ByteRange::new(at, len).filter(|piece| !piece.is_empty()) else { continue };
        at = piece.end();
        match parts.last_mut().filter(|last| last.hole == extent.zero()) {
            Some(last) => last.range = joined(last.range, piece),
            None => parts.push(ReadPart { range: piece, hole: extent.zero() }),
        }
    }
    parts
}

fn joined(first: ByteRange, next: ByteRange) -> ByteRange {
    ByteRange::new(first.start(), first.len() + next.len()).unwrap_or(first)
}

/// The protocol's error for a device's. `ENOTSUP` and `ESHUTDOWN` are kept for what the protocol reserves them for.
fn failure(error: &BioError, range: ByteRange) -> Failure {
    let at = match error {
        BioError::Corrupt(at) if (range.start()..range.end()).contains(at) => Some(*at),
        _ => None,
    };
    Failure { at, ..Failure::new(errno(error), error.to_string()) }
}

fn errno(error: &BioError) -> Errno {
    match error {
        BioError::NoSpace(_) => Errno::NoSpc,
        BioError::ReadOnly(_) => Errno::Perm,
        BioError::Unsupported(_) | BioError::Invalid(_) => Errno::Inval,
        BioError::Io(_) | BioError::Corrupt(_) | BioError::Gone(_) | BioError::Latched(_) => Errno::Io,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn r(start: u64, len: u64) -> ByteRange {
        ByteRange::new(start, len).unwrap()
    }

    #[test]
    fn a_read_is_cut_along_extents_and_the_unknown_is_data() {
        let extent = |len, zero| Extent::allocation(len, zero, zero);
        let part = |start, len, hole| ReadPart { range: r(start, len), hole };
        let list = [extent(512, true), extent(512, true), extent(512, false)];
        assert_eq!(parts_of(r(1024, 4096), &list), [part(1024, 1024, true), part(2048, 3072, false)]);
        assert_eq!(parts_of(r(0, 512), &[extent(1 << 40, true)]), [part(0, 512, true)]);
        assert_eq!(parts_of(r(0, 512), &[]), [part(0, 512, false)]);
    }

    #[test]
    fn requests_are_counted_with_the_memory_that_they_hold() {
        let (mib, read) = (1 << 20, |len| Op::Read { range: r(0, len), whole: false });
        assert_eq!(room(&read(512), mib), 4096);
        assert_eq!(room(&read(mib + 512), 64 * mib), 2 * mib, "a slab holds twice as much");
        assert_eq!(room(&read(32 * mib), 384 << 10), 86 * (512 << 10), "pieces that do not fill their slabs");
        let contexts = Contexts::default().with(Context::Allocation).with(Context::Written);
        let status = |len| room(&Op::BlockStatus { range: r(0, len), one: false, contexts }, mib);
        assert_eq!((status(512), status(1 << 40)), (2 * 2 * 48, 2 * 65_536 * 48));
        assert_eq!(room(&Op::Flush, mib), 0);
    }

    #[test]
    fn device_errors_keep_their_meaning() {
        let range = r(4096, 4096);
        let errno = |error: BioError| failure(&error, range).errno;
        assert_eq!(errno(BioError::NoSpace("v".into())), Errno::NoSpc);
        assert_eq!(errno(BioError::ReadOnly("v".into())), Errno::Perm);
        assert_eq!(errno(BioError::Unsupported(OpKind::Zero)), Errno::Inval);
        assert_eq!(errno(BioError::Gone("v".into())), Errno::Io);
        assert_eq!(errno(BioError::Latched("v is latched: x. Restart.".into())), Errno::Io);
        assert_eq!(failure(&BioError::Corrupt(5000), range).at, Some(5000));
        assert_eq!(failure(&BioError::Corrupt(0), range).at, None);
    }
}
