//! Pipes: numbers of bytes, their two ends, and named ones.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use esker_base::Errno;
use esker_rt::sync::Notify;
use esker_vfs::Ino;

/// Bytes that a pipe holds unless told otherwise.
const ROOM: u64 = 64 << 10;
/// Times as much room as a pipe of the trace had. How many bytes it holds depends on how writes and reads fell on its
/// pages, which differs from run to run; a writer that waits where it did not may wait for ever.
const ROOM_FACTOR: u64 = 2;

/// A pipe.
#[derive(Default)]
pub(super) struct Flow {
    bytes: Cell<u64>,
    room: Cell<u64>,
    /// Open ends that read and that write, and how many there ever were.
    readers: Cell<u32>,
    writers: Cell<u32>,
    readers_ever: Cell<u64>,
    writers_ever: Cell<u64>,
    changed: Notify,
}

/// An open end, or both of a named pipe.
pub(super) struct PipeEnd {
    flow: Rc<Flow>,
    reads: bool,
    writes: bool,
}

/// Named pipes by their inodes.
#[derive(Default)]
pub(super) struct Fifos(RefCell<BTreeMap<Ino, Rc<Flow>>>);

impl Flow {
    /// A pipe with as much room as one has at first, and `early` bytes that are written before there was room for them.
    pub(super) fn new(early: u64) -> Rc<Flow> {
        let flow = Rc::new(Flow::default());
        flow.set_room(ROOM, early);
        flow
    }

    fn set_room(&self, size: u64, early: u64) -> u64 {
        self.room.set(ROOM_FACTOR * size + early);
        self.changed.notify_all();
        self.room.get()
    }

    fn open(self: &Rc<Flow>, reads: bool, writes: bool) -> Rc<PipeEnd> {
        let count = |now: &Cell<u32>, ever: &Cell<u64>, opens: bool| {
            now.set(now.get() + u32::from(opens));
            ever.set(ever.get() + u64::from(opens));
        };
        count(&self.readers, &self.readers_ever, reads);
        count(&self.writers, &self.writers_ever, writes);
        self.changed.notify_all();
        Rc::new(PipeEnd { flow: self.clone(), reads, writes })
    }

    /// The end that is read and the one that is written.
    pub(super) fn ends(self: &Rc<Flow>) -> [Rc<PipeEnd>; 2] {
        [self.open(true, false), self.open(false, true)]
    }
}

impl Fifos {
    /// Opens an end of a named pipe, when the other end is opened too.
    ///
    /// # Errors
    /// `ENXIO` to write without waiting where nothing reads.
    pub(super) async fn open(
        &self,
        ino: Ino,
        [reads, writes]: [bool; 2],
        waits: bool,
        early: u64,
    ) -> Result<Rc<PipeEnd>, Errno> {
        let flow = self.0.borrow_mut().entry(ino).or_insert_with(|| Flow::new(early)).clone();
        if writes && !reads && !waits && flow.readers.get() == 0 {
            return Err(Errno::ENXIO);
        }
        let end = flow.open(reads, writes);
        if waits && reads != writes {
            let (now, ever) =
                if reads { (&flow.writers, &flow.writers_ever) } else { (&flow.readers, &flow.readers_ever) };
            let before = ever.get();
            flow.changed.wait_until(|| now.get() > 0 || ever.get() > before).await;
        }
        Ok(end)
    }
}

impl PipeEnd {
    /// Takes as many bytes as were traced, in however many pieces they come; of none, what comes first.
    ///
    /// # Errors
    /// `EBADF` for an end that is written.
    pub(super) async fn read(&self, len: u64, expected: u64) -> Result<u64, Errno> {
        if !self.reads {
            return Err(Errno::EBADF);
        }
        let flow = &self.flow;
        let mut sum = 0;
        loop {
            let wanted = if expected > 0 { expected - sum } else { len };
            flow.changed.wait_until(|| flow.bytes.get() > 0 || flow.writers.get() == 0).await;
            let taken = flow.bytes.get().min(wanted);
            flow.bytes.set(flow.bytes.get() - taken);
            flow.changed.notify_all();
            sum += taken;
            if taken == 0 || sum >= expected {
                return Ok(sum);
            }
        }
    }

    /// Waits until there is something, and leaves it: how much, up to `len`.
    pub(super) async fn look(&self, len: u64) -> u64 {
        let flow = &self.flow;
        flow.changed.wait_until(|| flow.bytes.get() > 0 || flow.writers.get() == 0).await;
        flow.bytes.get().min(len)
    }

    /// Puts all bytes in, as there is room.
    ///
    /// # Errors
    /// `EPIPE` if nothing reads any more, `EBADF` for an end that is read.
    pub(super) async fn write(&self, len: u64) -> Result<u64, Errno> {
        if !self.writes {
            return Err(Errno::EBADF);
        }
        let flow = &self.flow;
        let mut left = len;
        loop {
            if flow.readers.get() == 0 {
                return Err(Errno::EPIPE);
            }
            let put = left.min(flow.room.get().saturating_sub(flow.bytes.get()));
            flow.bytes.set(flow.bytes.get() + put);
            flow.changed.notify_all();
            left -= put;
            if left == 0 {
                return Ok(len);
            }
            flow.changed.wait_until(|| flow.readers.get() == 0 || flow.bytes.get() < flow.room.get()).await;
        }
    }

    /// Waits until nothing reads any more.
    pub(super) async fn until_no_reader(&self) {
        self.flow.changed.wait_until(|| self.flow.readers.get() == 0).await;
    }

    /// An end of the same pipe, as a name of the descriptor opens it.
    pub(super) fn reopen(&self, reads: bool, writes: bool) -> Rc<PipeEnd> {
        self.flow.open(reads, writes)
    }

    /// Bytes that it holds at most.
    pub(super) fn room(&self) -> u64 {
        self.flow.room.get()
    }

    /// Makes room for all that may be in a pipe of `size` bytes.
    pub(super) fn make_room(&self, size: u64, early: u64) -> u64 {
        self.flow.set_room(size, early)
    }
}

impl Drop for PipeEnd {
    fn drop(&mut self) {
        let Flow { readers, writers, changed, .. } = &*self.flow;
        readers.set(readers.get() - u32::from(self.reads));
        writers.set(writers.get() - u32::from(self.writes));
        changed.notify_all();
    }
}
