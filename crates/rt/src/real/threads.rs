//! The fallback where io_uring is not permitted: each operation is a blocking call on a thread of a bounded pool.
//!
//! Same results, more cost: about two context switches per operation. Waiting sockets each hold a thread.

use std::collections::BTreeMap;
use std::io::{self, IoSlice, IoSliceMut};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;

use esker_base::Nanos;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::FallocateFlags;

use super::op::{FallocateMode, Op, Outcome};
use super::reactor::Bell;
use super::workers::Workers;

/// Threads at most; operations beyond that wait.
const THREADS_MAX: usize = 256;

/// A dropped wait holds its thread for so long.
const READABLE_MAX: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

type Finished = Arc<Mutex<Vec<(usize, Outcome)>>>;

enum State {
    Waiting(Option<Waker>),
    Done(Outcome),
    Abandoned,
}

pub(crate) struct Threads {
    workers: Workers,
    bell: Arc<Bell>,
    finished: Finished,
    inflight: BTreeMap<usize, State>,
    next: usize,
}

impl Threads {
    pub(super) fn new(bell: Arc<Bell>) -> Threads {
        Threads {
            workers: Workers::new("esker-io", THREADS_MAX),
            bell,
            finished: Finished::default(),
            inflight: BTreeMap::new(),
            next: 0,
        }
    }

    pub(super) fn start(&mut self, op: Op) -> usize {
        let key = self.next;
        self.next += 1;
        self.inflight.insert(key, State::Waiting(None));
        let (finished, bell) = (self.finished.clone(), self.bell.clone());
        self.workers.run(Box::new(move || {
            let outcome = perform(op);
            finished.lock().unwrap_or_else(PoisonError::into_inner).push((key, outcome));
            bell.ring();
        }));
        key
    }

    pub(super) fn take(&mut self, key: usize, waker: &Waker) -> Option<Outcome> {
        match self.inflight.remove(&key).expect("an operation is taken once") {
            State::Done(outcome) => Some(outcome),
            State::Waiting(_) | State::Abandoned => {
                self.inflight.insert(key, State::Waiting(Some(waker.clone())));
                None
            }
        }
    }

    pub(super) fn abandon(&mut self, key: usize) {
        if let Some(State::Waiting(_)) = self.inflight.remove(&key) {
            self.inflight.insert(key, State::Abandoned);
        }
    }

    /// Waits until the bell rings or the time is over.
    pub(super) fn wait(&self, span: Option<Nanos>) -> io::Result<()> {
        let spec =
            span.map(|s| Timespec { tv_sec: (s.0 / 1_000_000_000) as i64, tv_nsec: (s.0 % 1_000_000_000) as i64 });
        let mut fds = [PollFd::new(self.bell.fd(), PollFlags::IN)];
        match rustix::event::poll(&mut fds, spec.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    pub(super) fn reap(&mut self) {
        let finished = std::mem::take(&mut *self.finished.lock().unwrap_or_else(PoisonError::into_inner));
        for (key, outcome) in finished {
            match self.inflight.insert(key, State::Done(outcome)) {
                Some(State::Waiting(waker)) => waker.into_iter().for_each(Waker::wake),
                _ => drop(self.inflight.remove(&key)),
            }
        }
    }
}

/// Does one operation, blocking.
fn perform(mut op: Op) -> Outcome {
    let result = match &mut op {
        Op::Read { fd, at, parts } => {
            let mut slices: Vec<IoSliceMut<'_>> =
                parts.iter_mut().map(|p| IoSliceMut::new(p.bytes_mut().expect("a read needs one owner"))).collect();
            match at {
                Some(at) => rustix::io::preadv(&**fd, &mut slices, *at),
                None => rustix::io::readv(&**fd, &mut slices),
            }
            .map(|n| n as u32)
        }
        Op::Write { fd, at, parts, durable } => {
            let slices: Vec<IoSlice<'_>> = parts.iter().map(|p| IoSlice::new(p.bytes())).collect();
            let written = match at {
                Some(at) => rustix::io::pwritev(&**fd, &slices, *at),
                None => rustix::io::writev(&**fd, &slices),
            };
            // A blocking RWF_DSYNC flushes a block device twice.
            let synced = written.and_then(|n| if *durable { rustix::fs::fdatasync(&**fd).map(|()| n) } else { Ok(n) });
            synced.map(|n| n as u32)
        }
        Op::Sync { fd } => rustix::fs::fdatasync(&**fd).map(|()| 0),
        Op::Fallocate { fd, mode, at, len } => {
            rustix::fs::fallocate(&**fd, fallocate_flags(*mode), *at, *len).map(|()| 0)
        }
        Op::Readable { fd } => {
            let mut fds = [PollFd::new(&**fd, PollFlags::IN)];
            rustix::event::poll(&mut fds, Some(&READABLE_MAX)).map(|ready| ready as u32)
        }
        Op::Fetch { .. } => Err(rustix::io::Errno::OPNOTSUPP),
    };
    Outcome { result: result.map_err(io::Error::from), op }
}

fn fallocate_flags(mode: FallocateMode) -> FallocateFlags {
    match mode {
        FallocateMode::PunchHole => FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
        FallocateMode::ZeroRange => FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE,
        FallocateMode::Allocate => FallocateFlags::empty(),
    }
}
