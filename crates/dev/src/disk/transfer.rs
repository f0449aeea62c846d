//! Reads and writes of a file or block device. A plain one waits in a table; only one that the kernel cuts short costs
//! a future of its own.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use esker_base::ByteRange;
use esker_block::step::{LocalFuture, Table, Ticket};
use esker_block::{Bio, BioError, Buf, Done, Reply, Step};
use esker_rt::mem::{Mem, Parts, Slice, advance_parts};
use esker_rt::real::{InFlight, Op as KernelOp, Outcome};

use super::{Failure, Shared};

/// Windows in one vectored operation: the kernel's IOV_MAX.
const PARTS_MAX: usize = 1024;
/// Bytes that one write of zeroes carries where the kernel cannot zero a range.
const ZEROES: usize = 1 << 20;

/// Which way bytes move.
#[derive(Clone, Copy)]
pub(super) enum Direction {
    Read,
    Write,
    /// A write that makes its bytes durable.
    ForcedWrite,
}

impl Direction {
    fn verb(self) -> &'static str {
        match self {
            Direction::Read => "read",
            Direction::Write | Direction::ForcedWrite => "write",
        }
    }

    /// Why no byte was moved.
    fn ended(self, at: u64) -> io::Error {
        let (kind, text) = match self {
            Direction::Read => (io::ErrorKind::UnexpectedEof, "it ends there; another program has cut it"),
            Direction::Write | Direction::ForcedWrite => (io::ErrorKind::WriteZero, "it takes no more bytes there"),
        };
        io::Error::new(kind, format!("nothing moved at byte {at}: {text}"))
    }
}

/// A read or write.
pub(super) enum Flight {
    /// Its first operation, which mostly moves all of it.
    First { direction: Direction, range: ByteRange, operation: InFlight },
    /// What follows a short one.
    Rest(LocalFuture<Done>),
}

impl Table<Done> for Shared {
    fn poll(&self, key: u32, cx: &mut Context<'_>) -> Poll<Done> {
        self.flights.poll(key, |flight| self.go_on(flight, cx)).map(|(_, done)| done)
    }

    fn abandon(&self, key: u32) {
        drop(self.flights.remove(key));
    }
}

impl Shared {
    /// Starts a read or write.
    pub(super) fn start(self: Rc<Self>, direction: Direction, bio: Bio) -> Step<Done> {
        let Bio { buf, range, .. } = bio;
        let parts = buf.into_parts();
        if parts.is_empty() || parts.len() > PARTS_MAX {
            return Step::later(async move { self.rest(direction, range, parts, 0).await });
        }
        let operation = self.begin(direction, range.start(), parts);
        let key = self.flights.insert(Flight::First { direction, range, operation });
        Step::Ticket(Ticket::new(self, key))
    }

    fn begin(&self, direction: Direction, at: u64, parts: Parts) -> InFlight {
        match direction {
            Direction::Read => self.opened.file.read(at, parts),
            Direction::Write => self.opened.file.write(at, parts),
            Direction::ForcedWrite => self.opened.file.write_durably(at, parts),
        }
    }

    fn go_on(&self, flight: &mut Flight, cx: &mut Context<'_>) -> Poll<Done> {
        if let Flight::First { direction, range, operation } = flight {
            let outcome = ready!(Pin::new(operation).poll(cx));
            match self.first_ended(*direction, *range, outcome) {
                Step::Now(done) => return Poll::Ready(done),
                step @ (Step::After(..) | Step::Ticket(_) | Step::Later(_)) => {
                    *flight = Flight::Rest(Box::pin(step.into_future()))
                }
            }
        }
        match flight {
            Flight::Rest(rest) => rest.as_mut().poll(cx),
            Flight::First { .. } => unreachable!("it has ended"),
        }
    }

    /// The first operation has ended.
    fn first_ended(&self, direction: Direction, range: ByteRange, outcome: io::Result<Outcome>) -> Step<Done> {
        let Outcome { result, op } = match outcome {
            Ok(outcome) => outcome,
            Err(error) => return Step::Now(self.done(direction, range, self.in_its_place(range), Err(error))),
        };
        let parts = KernelOp::into_parts(op);
        match moved(direction, range.start(), result) {
            Ok(moved) if moved as u64 != range.len() => {
                let shared = self.me.upgrade().expect("a ticket holds its table");
                Step::later(async move { shared.rest(direction, range, parts, moved).await })
            }
            result => Step::Now(self.done(direction, range, Buf::from_parts(parts), result.map(drop))),
        }
    }

    /// Moves what follows the first `moved` bytes.
    async fn rest(&self, direction: Direction, range: ByteRange, parts: Parts, moved: usize) -> Done {
        let (buf, result) = self.transfer(direction, range, parts, moved).await;
        self.done(direction, range, buf, result)
    }

    /// The answer to a plain read or write.
    fn done(&self, direction: Direction, range: ByteRange, buf: Buf, result: io::Result<()>) -> Done {
        let result = result.map_err(|error| Failure::at(direction.verb(), range, error));
        let result: Result<Reply, BioError> = match direction {
            Direction::Read => result.map(|()| Reply::Empty).map_err(|failure| self.describe(&failure)),
            // A flush of a block device needs no space: without space it is the write that failed.
            Direction::Write | Direction::ForcedWrite => self.judge(result, true),
        };
        Done { result, buf }
    }

    /// As much memory as the ring has kept: the ring itself failed.
    fn in_its_place(&self, range: ByteRange) -> Buf {
        Buf::zeroed(&self.pool, range.len() as usize)
    }

    /// Moves the bytes of `range` behind the first `moved` between the file and `parts`, and gives all of them back as
    /// they were.
    pub(super) async fn transfer(
        &self,
        direction: Direction,
        range: ByteRange,
        parts: Parts,
        moved: usize,
    ) -> (Buf, io::Result<()>) {
        let windows: Vec<_> = parts.iter().map(|part| (part.start, part.len)).collect();
        let (mut left, mut done) = (parts, Parts::new());
        advance_parts(&mut left, moved, &mut done);
        let at = range.start() + moved as u64;
        let (mut parts, result) = self.transfer_parts(direction, at, left, done).await;
        if parts.len() != windows.len() {
            return (self.in_its_place(range), result);
        }
        for (part, (start, len)) in parts.iter_mut().zip(windows) {
            (part.start, part.len) = (start, len);
        }
        (Buf::from_parts(parts), result)
    }

    /// Goes on after short transfers. The parts come back in their order behind `done`, their windows advanced.
    async fn transfer_parts(
        &self,
        direction: Direction,
        mut at: u64,
        mut left: Parts,
        mut done: Parts,
    ) -> (Parts, io::Result<()>) {
        while !left.is_empty() {
            let later: Parts = left.drain(left.len().min(PARTS_MAX)..).collect();
            let outcome = match self.begin(direction, at, left).await {
                Ok(outcome) => outcome,
                Err(e) => return (done, Err(e)),
            };
            left = KernelOp::into_parts(outcome.op);
            let moved = moved(direction, at, outcome.result);
            if let Ok(moved) = moved {
                at += moved as u64;
                advance_parts(&mut left, moved, &mut done);
            }
            left.extend(later);
            if let Err(e) = moved {
                done.append(&mut left);
                return (done, Err(e));
            }
        }
        (done, Ok(()))
    }

    /// Writes zeroes out, where the kernel cannot zero a range.
    pub(crate) async fn write_zeroes(&self, range: ByteRange) -> io::Result<()> {
        let mut slab = self.pool.slab(ZEROES);
        slab.fill(0);
        let zeroes = Arc::new(slab);
        for piece in range.split_at_multiples(ZEROES as u64) {
            let mem = Mem::Shared(zeroes.clone());
            let part = Slice { mem, start: 0, len: piece.len() as usize };
            let (_, result) = self.transfer_parts(Direction::Write, piece.start(), part.into(), Parts::new()).await;
            result?;
        }
        Ok(())
    }
}

/// Bytes that an operation at `at` has moved. One that was interrupted has moved none, and another one may follow.
fn moved(direction: Direction, at: u64, result: io::Result<u32>) -> io::Result<usize> {
    match result {
        Ok(0) => Err(direction.ended(at)),
        Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(0),
        other => other.map(|bytes| bytes as usize),
    }
}
