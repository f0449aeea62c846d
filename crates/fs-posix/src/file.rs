//! Open descriptions, and the table of a process that gives them numbers.

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;

use esker_base::Errno;
use esker_rt::sync::Notify;
use esker_vfs::{Cred, FileType, Ino};

use crate::flags::OpenFlags;
use crate::paths::Node;
use crate::world::{Pin, World};

/// Number of a descriptor in its process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fd(pub u32);

impl fmt::Debug for Fd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fd {}", self.0)
    }
}

/// Closed files that a world keeps for later ones.
const SPARES_MAX: usize = 64;

/// An open description: what `open` makes, and what `dup` and `fork` share.
pub(crate) struct File {
    /// `None` between a close and the next open: a spare file keeps nothing alive.
    world: Option<World>,
    pin: Rc<Pin>,
    /// Number that no other description of the world has or had: the owner of its locks.
    pub(crate) id: u64,
    pub(crate) kind: FileType,
    /// Rights that it was opened with.
    pub(crate) opener: Rc<Cred>,
    /// Whether a file without a name may get one.
    pub(crate) linkable: bool,
    flags: Cell<OpenFlags>,
    /// Bytes from the beginning; of a directory a cookie.
    pub(crate) offset: Cell<u64>,
    busy: Cell<bool>,
    turns: Notify,
}

impl File {
    /// A new open description, in the memory of a closed one if there is one: an open of what is known then allocates
    /// nothing.
    pub(crate) fn open(world: &World, opener: Rc<Cred>, node: Node, kind: FileType, flags: OpenFlags) -> Rc<File> {
        let spare = world.0.spares.borrow_mut().pop();
        let (mut file, pin) = match (spare, node) {
            (Some(mut file), Node::Own(pin)) => {
                let inner = Rc::get_mut(&mut file).expect("a spare file belongs to nothing");
                *Rc::get_mut(&mut inner.pin).expect("nor does its pin") = pin;
                (file, None)
            }
            (Some(file), node @ (Node::Shared(_) | Node::Open(_))) => (file, Some(node.shared())),
            (None, node) => return Rc::new(File::new(world, opener, node.shared(), kind, flags)),
        };
        let inner = Rc::get_mut(&mut file).expect("a spare file belongs to nothing");
        let pin = pin.unwrap_or_else(|| inner.pin.clone());
        *inner = File::new(world, opener, pin, kind, flags);
        file
    }

    fn new(world: &World, opener: Rc<Cred>, pin: Rc<Pin>, kind: FileType, flags: OpenFlags) -> File {
        let kept = if flags.contains(OpenFlags::PATH) {
            OpenFlags::PATH
        } else {
            OpenFlags::STATUS | OpenFlags::SYNC | OpenFlags::ACCESS
        };
        File {
            world: Some(world.clone()),
            pin,
            id: world.next_file(),
            kind,
            opener,
            linkable: !flags.contains(OpenFlags::TMPFILE | OpenFlags::EXCL),
            flags: Cell::new(flags & kept),
            offset: Cell::new(0),
            busy: Cell::new(false),
            turns: Notify::default(),
        }
    }

    /// Lets go of a description. If this was its last user, its memory is kept for the next one.
    pub(crate) fn retire(mut file: Rc<File>) {
        let Some(inner) = Rc::get_mut(&mut file) else { return };
        let Some(world) = inner.end() else { return };
        let Some(pin) = Rc::get_mut(&mut inner.pin) else { return };
        pin.end();
        let mut spares = world.0.spares.borrow_mut();
        if spares.len() < SPARES_MAX {
            spares.push(file);
        }
    }

    /// Ends its locks; gives the world that it belonged to.
    fn end(&mut self) -> Option<World> {
        let world = self.world.take()?;
        let locks = &world.0.locks;
        locks.drop_whole(self.ino(), self.id);
        locks.release(self.ino(), description(self.id));
        Some(world)
    }

    pub(crate) fn ino(&self) -> Ino {
        self.pin.ino()
    }

    pub(crate) fn pin(&self) -> &Rc<Pin> {
        &self.pin
    }

    /// Access mode and status flags.
    pub(crate) fn flags(&self) -> OpenFlags {
        self.flags.get()
    }

    /// Sets the status flags, of which access mode and synchrony are none.
    pub(crate) fn set_status(&self, flags: OpenFlags) {
        let fixed = self.flags.get() & !OpenFlags::STATUS;
        self.flags.set(fixed | (flags & OpenFlags::STATUS));
    }

    pub(crate) fn is_path(&self) -> bool {
        self.flags().contains(OpenFlags::PATH)
    }

    /// # Errors
    /// `EBADF` if it was not opened for reading.
    pub(crate) fn readable(&self) -> Result<(), Errno> {
        if self.flags().reads() { Ok(()) } else { Err(Errno::EBADF) }
    }

    /// # Errors
    /// `EBADF` if it was not opened for writing.
    pub(crate) fn writable(&self) -> Result<(), Errno> {
        if self.flags().writes() { Ok(()) } else { Err(Errno::EBADF) }
    }

    /// The offset, for one call at a time: another call that moves it waits.
    pub(crate) async fn turn(&self) -> Turn<'_> {
        self.turns.wait_until(|| !self.busy.get()).await;
        self.busy.set(true);
        Turn(self)
    }

    /// The offset, if no other call moves it.
    pub(crate) fn turn_now(&self) -> Option<Turn<'_>> {
        // Made only for the call that has the turn: the end of one gives the turn back.
        (!self.busy.replace(true)).then(|| Turn(self))
    }
}

impl Drop for File {
    fn drop(&mut self) {
        drop(self.end());
    }
}

/// The owner of an open file description's locks. Those of processes have the top bit clear.
pub(crate) fn description(id: u64) -> u64 {
    id | 1 << 63
}

/// The right to move an offset.
pub(crate) struct Turn<'a>(&'a File);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.busy.set(false);
        self.0.turns.notify_all();
    }
}

/// Descriptors of a process.
#[derive(Clone)]
pub(crate) struct Table {
    slots: Vec<Option<Slot>>,
    /// All numbers below it are taken, so that an open does not look at them.
    free_from: u32,
    max: u32,
}

/// What a descriptor leads to.
#[derive(Clone)]
struct Slot {
    file: Rc<File>,
    close_on_exec: bool,
}

impl Table {
    pub(crate) fn new(max: u32) -> Table {
        Table { slots: Vec::new(), free_from: 0, max }
    }

    /// # Errors
    /// `EBADF`.
    pub(crate) fn get(&self, fd: Fd) -> Result<&Rc<File>, Errno> {
        self.slot(fd).map(|slot| &slot.file)
    }

    /// # Errors
    /// `EBADF`.
    pub(crate) fn closes_on_exec(&self, fd: Fd) -> Result<bool, Errno> {
        self.slot(fd).map(|slot| slot.close_on_exec)
    }

    /// # Errors
    /// `EBADF`.
    pub(crate) fn set_close_on_exec(&mut self, fd: Fd, on: bool) -> Result<(), Errno> {
        let slot = self.slots.get_mut(fd.0 as usize).and_then(Option::as_mut).ok_or(Errno::EBADF)?;
        slot.close_on_exec = on;
        Ok(())
    }

    fn slot(&self, fd: Fd) -> Result<&Slot, Errno> {
        self.slots.get(fd.0 as usize).and_then(Option::as_ref).ok_or(Errno::EBADF)
    }

    /// The lowest free number that is not below `from`.
    ///
    /// # Errors
    /// `EMFILE`.
    pub(crate) fn free(&self, from: Fd) -> Result<Fd, Errno> {
        let from = from.0.max(self.free_from);
        let taken = self.slots.iter().skip(from as usize).take_while(|slot| slot.is_some()).count();
        let free = u64::from(from) + taken as u64;
        u32::try_from(free).ok().filter(|free| *free < self.max).map(Fd).ok_or(Errno::EMFILE)
    }

    /// Gives a file the lowest free number that is not below `from`.
    ///
    /// # Errors
    /// `EMFILE`.
    pub(crate) fn add(&mut self, from: Fd, file: Rc<File>, close_on_exec: bool) -> Result<Fd, Errno> {
        let fd = self.free(from)?;
        self.put(fd, file, close_on_exec)?;
        if from.0 <= self.free_from {
            self.free_from = fd.0 + 1;
        }
        Ok(fd)
    }

    /// Gives a file this number. Answers what had it.
    ///
    /// # Errors
    /// `EBADF` for a number above the limit.
    pub(crate) fn put(&mut self, fd: Fd, file: Rc<File>, close_on_exec: bool) -> Result<Option<Rc<File>>, Errno> {
        if fd.0 >= self.max {
            return Err(Errno::EBADF);
        }
        let at = fd.0 as usize;
        if self.slots.len() <= at {
            self.slots.resize_with(at + 1, || None);
        }
        Ok(self.slots[at].replace(Slot { file, close_on_exec }).map(|slot| slot.file))
    }

    /// Frees a number.
    ///
    /// # Errors
    /// `EBADF`.
    pub(crate) fn take(&mut self, fd: Fd) -> Result<Rc<File>, Errno> {
        let slot = self.slots.get_mut(fd.0 as usize).and_then(Option::take).ok_or(Errno::EBADF)?;
        self.free_from = self.free_from.min(fd.0);
        Ok(slot.file)
    }

    /// Numbers that are taken, in order.
    pub(crate) fn taken(&self) -> Vec<Fd> {
        let numbered = self.slots.iter().zip(0u32..);
        numbered.filter(|(slot, _)| slot.is_some()).map(|(_, fd)| Fd(fd)).collect()
    }
}
