//! Descriptors of a replay. A slot stands for one *generation* of a traced descriptor, so equal numbers coexist.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use esker_base::Errno;
use esker_fs_posix::{Fd as Number, Process};
use esker_rt::Rt;
use esker_trace_calls::Fd;

use super::pipes::PipeEnd;

/// What is behind a descriptor.
pub(super) enum What {
    /// A file or directory of a file system of ours.
    File(OpenFile),
    /// An end of a pipe.
    Pipe(Rc<PipeEnd>),
    /// A device, which has no file system.
    Device(Harmless),
    /// Something outside: a socket, a terminal, a timer. No traced call is made on it.
    Outside,
}

/// An open descriptor.
pub(super) struct OpenSlot {
    pub(super) what: What,
    /// The part of the file that is mapped, in the slot of a map.
    pub(super) map: Option<MappedPart>,
}

/// The part of a file that is mapped.
#[derive(Clone, Copy)]
pub(super) struct MappedPart {
    /// First byte in the file.
    pub(super) offset: u64,
    /// Bytes.
    pub(super) len: u64,
    /// Whether writes reach the file.
    pub(super) is_written: bool,
}

/// What a device does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Harmless {
    /// Has nothing, and takes everything: `/dev/null`, and all devices that are none of the others.
    Null,
    /// Has bytes without end, and takes everything: `/dev/zero`, `/dev/urandom`.
    Endless,
    /// Has bytes without end, and takes none: `/dev/full`.
    Full,
}

/// A descriptor of the process that makes all calls. It is closed when it is dropped.
pub(super) struct OpenFile {
    rt: Rt,
    process: Process,
    fd: Number,
    is_closed: Cell<bool>,
}

impl OpenFile {
    pub(super) fn new(rt: &Rt, process: &Process, fd: Number) -> OpenFile {
        OpenFile { rt: rt.clone(), process: process.clone(), fd, is_closed: Cell::new(false) }
    }

    pub(super) fn fd(&self) -> Number {
        self.fd
    }

    pub(super) fn process(&self) -> &Process {
        &self.process
    }

    /// The same open description under one more number.
    ///
    /// # Errors
    /// `EMFILE`.
    pub(super) fn dup(&self) -> Result<OpenFile, Errno> {
        let fd = self.process.dup(self.fd, Number(0), false)?;
        Ok(OpenFile::new(&self.rt, &self.process, fd))
    }

    /// Whether it lies on the file system of a process.
    pub(super) fn is_on(&self, process: &Process) -> bool {
        std::ptr::eq(self.process.world().files().as_ref(), process.world().files().as_ref())
    }

    /// Closes it, and tells errors.
    ///
    /// # Errors
    /// The file system's.
    pub(super) async fn close(self) -> Result<(), Errno> {
        self.is_closed.set(true);
        self.process.close(self.fd).await
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        if !self.is_closed.get() {
            let (process, fd) = (self.process.clone(), self.fd);
            self.rt.spawn_detached("close", async move {
                // The call that had it open until now has ended: nothing takes an error.
                process.close(fd).await.unwrap_or(());
            });
        }
    }
}

impl OpenSlot {
    pub(super) fn of(what: What) -> OpenSlot {
        OpenSlot { what, map: None }
    }

    pub(super) fn outside() -> OpenSlot {
        OpenSlot::of(What::Outside)
    }

    /// The file.
    ///
    /// # Errors
    /// `EINVAL` for what is none.
    pub(super) fn file(&self) -> Result<&OpenFile, Errno> {
        match &self.what {
            What::File(file) => Ok(file),
            What::Pipe(_) | What::Device(_) | What::Outside => Err(Errno::EINVAL),
        }
    }

    /// One more descriptor of the same.
    ///
    /// # Errors
    /// `EMFILE`.
    pub(super) fn dup(&self) -> Result<OpenSlot, Errno> {
        Ok(OpenSlot::of(match &self.what {
            What::File(file) => What::File(file.dup()?),
            What::Pipe(end) => What::Pipe(end.clone()),
            What::Device(device) => What::Device(*device),
            What::Outside => What::Outside,
        }))
    }
}

/// All slots, by the number of their resource.
pub(super) struct SlotTable(RefCell<Vec<Option<Rc<OpenSlot>>>>);

impl SlotTable {
    /// So many empty slots.
    pub(super) fn new(count: usize) -> SlotTable {
        SlotTable(RefCell::new(vec![None; count]))
    }

    /// What is open there.
    ///
    /// # Errors
    /// `EBADF` if nothing is.
    pub(super) fn get(&self, slot: Fd) -> Result<Rc<OpenSlot>, Errno> {
        let at = usize::try_from(slot.0).map_err(|_| Errno::EBADF)?;
        self.0.borrow().get(at).cloned().flatten().ok_or(Errno::EBADF)
    }

    /// Opens it. A number that is no slot closes what is opened.
    pub(super) fn put(&self, slot: Fd, open: Rc<OpenSlot>) {
        let place = usize::try_from(slot.0).ok();
        let old = place.and_then(|at| self.0.borrow_mut().get_mut(at)?.replace(open));
        // Dropped only here, where the table is free: that may close it.
        drop(old);
    }

    /// Closes it; the descriptor itself is closed after its last use, and its errors are told then.
    ///
    /// # Errors
    /// `EBADF` if nothing is open there; the file system's.
    pub(super) async fn close(&self, slot: Fd) -> Result<(), Errno> {
        let at = usize::try_from(slot.0).map_err(|_| Errno::EBADF)?;
        let taken = self.0.borrow_mut().get_mut(at).and_then(Option::take).ok_or(Errno::EBADF)?;
        match Rc::into_inner(taken).map(|slot| slot.what) {
            Some(What::File(file)) => file.close().await,
            Some(What::Pipe(_) | What::Device(_) | What::Outside) | None => Ok(()),
        }
    }
}
