//! The io_uring backend: a table of operations in flight around one ring.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::task::Waker;
use std::time::{Duration, Instant};

use esker_base::Nanos;
use io_uring::{opcode, types};

use super::any_ring::{AnyEntry, AnyRing};
use super::op::{FallocateMode, Op, Outcome};

/// Marks the completion of the poll on the wake-up descriptor.
const BELL: u64 = u64::MAX;
/// Operations that are handed to the kernel together at most. Completions come in bursts: a device that got its next
/// requests only after the whole burst was handled would stand idle meanwhile.
const BATCH: usize = 4;

/// How long a completion is looked for before this thread is put to sleep. Waking a sleeping virtual CPU takes longer
/// than a fast device.
const SPIN: Duration = Duration::from_micros(50);
/// Looks in vain make the next waits sleep at once: at most this many.
const SLEEPS_MAX: u32 = 64;

/// Marks the completion of a cancellation.
const CANCEL: u64 = u64::MAX - 1;

enum State {
    /// No operation is here.
    Free,
    Waiting(Option<Waker>),
    Done(i32),
    /// The result is not wanted; the buffers still belong to the kernel.
    Abandoned,
}

/// Room for one operation in flight, used again for others. Boxed: the kernel may read `iovecs` after the table has
/// grown.
struct Inflight {
    op: Option<Op>,
    iovecs: Vec<libc::iovec>,
    state: State,
}

/// Buffers of an operation for whose vector room is kept after it.
const IOVECS_KEPT: usize = 16;

impl Inflight {
    fn free() -> Box<Inflight> {
        Box::new(Inflight { op: None, iovecs: Vec::new(), state: State::Free })
    }

    /// Ends the operation and gives it back.
    fn end(&mut self) -> Option<Op> {
        self.iovecs.clear();
        self.iovecs.shrink_to(IOVECS_KEPT);
        self.state = State::Free;
        self.op.take()
    }
}

pub(crate) struct Uring {
    ring: AnyRing,
    bell: RawFd,
    #[expect(
        clippy::vec_box,
        reason = "the kernel holds pointers into each of them, and the vector moves when it grows"
    )]
    inflight: Vec<Box<Inflight>>,
    free: Vec<usize>,
    in_kernel: usize,
    /// Waits that will sleep at once, and how many there were after the last look in vain.
    sleeps: u32,
    sleeps_last: u32,
}

impl Uring {
    /// # Errors
    /// The kernel's refusal: io_uring missing, disabled by sysctl, or forbidden by a seccomp filter.
    pub(super) fn new(entries: u32, bell: RawFd, commands: bool) -> io::Result<Uring> {
        let ring = AnyRing::new(entries, commands)?;
        if !ring.can_wait_with_time_out() {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "this kernel's io_uring cannot wait with a time-out",
            ));
        }
        let mut uring =
            Uring { ring, bell, inflight: Vec::new(), free: Vec::new(), in_kernel: 0, sleeps: 0, sleeps_last: 0 };
        uring.listen_to_bell()?;
        Ok(uring)
    }

    pub(super) fn takes_commands(&self) -> bool {
        self.ring.takes_commands()
    }

    fn listen_to_bell(&mut self) -> io::Result<()> {
        let entry = opcode::PollAdd::new(types::Fd(self.bell), libc::POLLIN as u32).build().user_data(BELL);
        self.push(&entry.into())
    }

    fn push(&mut self, entry: &AnyEntry) -> io::Result<()> {
        loop {
            // SAFETY: every pointer in `entry` leads into an `Inflight` box (its iovecs and the memory that its op
            // owns), which stays in `self.inflight` until the kernel has answered; `drop` below waits for the answers.
            if unsafe { self.ring.push(entry) } {
                return Ok(());
            }
            self.ring.submitter().submit()?;
        }
    }

    /// Hands `op` to the ring; the key names it until [`Uring::take`].
    pub(super) fn start(&mut self, op: Op) -> io::Result<usize> {
        if matches!(op, Op::Fetch { .. }) && !self.takes_commands() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let key = self.free.pop().unwrap_or_else(|| {
            self.inflight.push(Inflight::free());
            self.inflight.len() - 1
        });
        let Inflight { op: place, iovecs, state } = &mut *self.inflight[key];
        *state = State::Waiting(None);
        let entry = describe(place.insert(op), iovecs).user_data(key as u64);
        if let Err(error) = self.push(&entry) {
            // The kernel never saw it.
            self.release(key);
            return Err(error);
        }
        self.in_kernel += 1;
        if self.ring.pushed() >= BATCH
            && let Err(error) = self.submit()
        {
            // It is in the ring, so its buffers stay until the kernel answers. No task waits for it.
            self.abandon(key);
            return Err(error);
        }
        Ok(key)
    }

    /// The outcome, once; until then `waker` is remembered.
    pub(super) fn take(&mut self, key: usize, waker: &Waker) -> Option<Outcome> {
        let inflight = &mut *self.inflight[key];
        match &mut inflight.state {
            State::Done(result) => {
                let result = from_raw(*result);
                self.free.push(key);
                let mut op = inflight.end().expect("an operation is taken once");
                if let (Ok(_), Op::Fetch { entry }) = (&result, &mut op) {
                    entry.arrived();
                }
                Some(Outcome { result, op })
            }
            State::Waiting(Some(known)) => {
                known.clone_from(waker);
                None
            }
            State::Waiting(known) => {
                *known = Some(waker.clone());
                None
            }
            State::Free | State::Abandoned => unreachable!("an operation is taken once"),
        }
    }

    /// The waiter of the operation has gone. Its buffers live until the kernel has answered.
    pub(super) fn abandon(&mut self, key: usize) {
        let inflight = &mut *self.inflight[key];
        match inflight.state {
            State::Free => {}
            State::Done(_) => self.release(key),
            State::Waiting(_) | State::Abandoned => {
                inflight.state = State::Abandoned;
                // It might wait for ever.
                if matches!(inflight.op, Some(Op::Readable { .. })) {
                    let cancel = cancellation(key);
                    // What cannot be cancelled now is cancelled with the ring.
                    let _later = self.push(&cancel);
                }
            }
        }
    }

    fn release(&mut self, key: usize) {
        drop(self.inflight[key].end());
        self.free.push(key);
    }

    /// Asks the kernel to end the operation, whose waiter stays and learns what became of it.
    pub(super) fn cancel(&mut self, key: usize) {
        // Without room in the ring the operation goes on, as it may in any case.
        let _goes_on = self.push(&cancellation(key));
    }

    /// Submits what was started, and waits for at least one completion if `wait` says for how long at most.
    pub(super) fn enter(&mut self, wait: Option<Option<Nanos>>) -> io::Result<()> {
        let wait = match wait {
            Some(_) if self.arrives_soon()? => return Ok(()),
            other => other,
        };
        match wait {
            None if self.ring.pushed() == 0 && !self.ring.has_finished_work() => Ok(()),
            None => self.submit(),
            Some(None) => tolerate(self.ring.submitter().submit_and_wait(1)),
            Some(Some(span)) => {
                let spec = types::Timespec::new().sec(span.0 / 1_000_000_000).nsec((span.0 % 1_000_000_000) as u32);
                tolerate(self.ring.submitter().submit_with_args(1, &types::SubmitArgs::new().timespec(&spec)))
            }
        }
    }

    fn submit(&mut self) -> io::Result<()> {
        tolerate(self.ring.submitter().submit())
    }

    /// Submits, and looks a short while for a completion. Only worth it for devices that answer within that while: each
    /// look in vain doubles the number of waits that sleep at once.
    fn arrives_soon(&mut self) -> io::Result<bool> {
        if self.in_kernel == 0 || self.sleeps > 0 {
            self.sleeps = self.sleeps.saturating_sub(1);
            return Ok(false);
        }
        let start = Instant::now();
        while start.elapsed() < SPIN {
            for _ in 0..32 {
                // Finished operations become completions when their thread next enters the kernel.
                if self.ring.pushed() > 0 || self.ring.has_finished_work() {
                    self.submit()?;
                }
                if !self.ring.completion().is_empty() {
                    self.sleeps_last = 0;
                    return Ok(true);
                }
                std::hint::spin_loop();
            }
        }
        self.sleeps_last = (self.sleeps_last * 2 + 1).min(SLEEPS_MAX);
        self.sleeps = self.sleeps_last;
        Ok(false)
    }

    /// Takes in all completions. True if the wake-up descriptor rang.
    pub(super) fn reap(&mut self) -> io::Result<bool> {
        let mut rang = false;
        loop {
            let Some(entry) = self.ring.completion().next() else { break };
            match entry.user_data() {
                BELL => rang = true,
                CANCEL => {}
                key => self.complete(key as usize, entry.result()),
            }
        }
        if rang {
            self.listen_to_bell()?;
        }
        Ok(rang)
    }

    fn complete(&mut self, key: usize, result: i32) {
        self.in_kernel -= 1;
        let inflight = &mut *self.inflight[key];
        match std::mem::replace(&mut inflight.state, State::Done(result)) {
            State::Waiting(waker) => waker.into_iter().for_each(Waker::wake),
            State::Abandoned => self.release(key),
            State::Free | State::Done(_) => unreachable!("the kernel answers each operation once"),
        }
    }

    /// Entries of FUSE rings that the kernel has. It gives them back when their connection or this ring ends.
    fn fetching(&self) -> usize {
        let is_in_kernel = |state: &State| matches!(state, State::Waiting(_) | State::Abandoned);
        let is_fetch = |op: &Option<Op>| matches!(op, Some(Op::Fetch { .. }));
        self.inflight.iter().filter(|inflight| is_in_kernel(&inflight.state) && is_fetch(&inflight.op)).count()
    }

    /// Cancels what the kernel still holds and waits for its answers.
    fn drain(&mut self) -> io::Result<()> {
        let keys = (0..self.inflight.len()).filter(|k| !matches!(self.inflight[*k].state, State::Free));
        for key in keys.collect::<Vec<_>>() {
            self.push(&cancellation(key))?;
        }
        // Five seconds: a disk answers sooner; what does not answer is leaked below.
        for _ in 0..50 {
            if self.in_kernel <= self.fetching() {
                break;
            }
            self.enter(Some(Some(Nanos::millis(100))))?;
            self.reap()?;
        }
        Ok(())
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        let drained = self.drain();
        if drained.is_err() || self.in_kernel > 0 {
            // A buffer that the kernel uses is never freed, not even now.
            for mut inflight in std::mem::take(&mut self.inflight) {
                match inflight.op.take() {
                    // Its descriptor is closed, so that the connection ends.
                    Some(Op::Fetch { entry }) => entry.leave_memory(),
                    op => inflight.op = op,
                }
                std::mem::forget(inflight);
            }
        }
    }
}

fn cancellation(key: usize) -> AnyEntry {
    opcode::AsyncCancel::new(key as u64).build().user_data(CANCEL).into()
}

/// A wait that ended early, and a kernel that wants completions taken in first, are no failures.
fn tolerate(entered: io::Result<usize>) -> io::Result<()> {
    match entered {
        Err(e) if !matches!(e.raw_os_error(), Some(libc::ETIME | libc::EINTR | libc::EBUSY)) => Err(e),
        _ => Ok(()),
    }
}

fn from_raw(result: i32) -> io::Result<u32> {
    u32::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result))
}

/// Writes the ring entry of an operation, with its vector of buffers beside it.
fn describe(op: &mut Op, iovecs: &mut Vec<libc::iovec>) -> AnyEntry {
    let entry = match op {
        Op::Read { fd, at, parts } => {
            let at = at.unwrap_or(u64::MAX);
            iovecs.extend(parts.iter_mut().map(|p| {
                let bytes = p.bytes_mut().expect("a read needs memory with one owner");
                libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() }
            }));
            match iovecs.as_slice() {
                [one] => opcode::Read::new(types::Fd(fd.as_raw_fd()), one.iov_base.cast(), one.iov_len as u32)
                    .offset(at)
                    .build(),
                many => {
                    opcode::Readv::new(types::Fd(fd.as_raw_fd()), many.as_ptr(), many.len() as u32).offset(at).build()
                }
            }
        }
        Op::Write { fd, at, parts, durable } => {
            let at = at.unwrap_or(u64::MAX);
            // One request in place of two, and no thread of the kernel's that waits for a flush.
            let flags = if *durable { libc::RWF_DSYNC } else { 0 };
            iovecs.extend(parts.iter().map(|p| {
                let bytes = p.bytes();
                libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() }
            }));
            match iovecs.as_slice() {
                [one] => opcode::Write::new(types::Fd(fd.as_raw_fd()), one.iov_base.cast(), one.iov_len as u32)
                    .offset(at)
                    .rw_flags(flags)
                    .build(),
                many => opcode::Writev::new(types::Fd(fd.as_raw_fd()), many.as_ptr(), many.len() as u32)
                    .offset(at)
                    .rw_flags(flags)
                    .build(),
            }
        }
        Op::Sync { fd } => opcode::Fsync::new(types::Fd(fd.as_raw_fd())).flags(types::FsyncFlags::DATASYNC).build(),
        Op::Fallocate { fd, mode, at, len } => {
            opcode::Fallocate::new(types::Fd(fd.as_raw_fd()), *len).offset(*at).mode(fallocate_flags(*mode)).build()
        }
        Op::Readable { fd } => opcode::PollAdd::new(types::Fd(fd.as_raw_fd()), libc::POLLIN as u32).build(),
        Op::Fetch { entry } => return entry.describe(iovecs),
    };
    entry.into()
}

fn fallocate_flags(mode: FallocateMode) -> i32 {
    match mode {
        FallocateMode::PunchHole => libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE,
        FallocateMode::ZeroRange => libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE,
        FallocateMode::Allocate => 0,
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_failed_push_leaves_nothing_behind() {
        let bell = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
        let file = Arc::new(OwnedFd::from(std::fs::File::open("/dev/zero").unwrap()));
        let read = || Op::Readable { fd: file.clone() };
        let mut uring = match Uring::new(4, bell.as_raw_fd(), false) {
            Ok(uring) => uring,
            Err(e) => return esker_skip::skip(esker_skip::Ability::IoUring, format_args!("no io_uring: {e}")),
        };
        // The bell has one entry. From here on the kernel refuses the ring.
        // SAFETY: both descriptors are open; the ring's is replaced and stays the ring's own.
        assert!(unsafe { libc::dup2(file.as_raw_fd(), uring.ring.as_raw_fd()) } >= 0);
        for _ in 0..2 {
            uring.start(read()).unwrap();
        }
        // The fourth entry makes a batch, which is refused: it is in the ring, but no task waits for it.
        assert!(uring.start(read()).is_err());
        assert_eq!((uring.in_kernel, uring.free.len(), uring.inflight.len()), (3, 0, 3));
        assert!(matches!(uring.inflight[2].state, State::Abandoned) && uring.inflight[2].op.is_some());
        // The ring is full, so that nothing can be pushed: operation and count are gone at once.
        assert!(uring.start(read()).is_err());
        assert_eq!((uring.in_kernel, uring.free.clone(), uring.inflight.len()), (3, vec![3], 4));
        assert!(matches!(uring.inflight[3].state, State::Free) && uring.inflight[3].op.is_none());
    }
}
