//! A process: rights, places and descriptors, and the calls that change them.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use esker_base::{ByteRange, Errno};
use esker_vfs::{Call, Cookie, Cred, FileType, Ino, Listing, Lock, LockCall, LockKind};

use crate::file::{Fd, File, Table, description};
use crate::flags::{Access, OpenFlags};
use crate::paths::{Follow, Where};
use crate::world::{Pin, World};

/// Bits of permissions that a new process takes from new files.
const UMASK: u16 = 0o022;

/// A process. A value is a handle: its clones are the threads of the process.
///
/// Calls that find everything in memory answer when they are first polled, and allocate nothing.
#[derive(Clone)]
pub struct Process(pub(crate) Rc<Inner>);

/// The inner state of a [`Process`].
pub(crate) struct Inner {
    pub(crate) world: World,
    pub(crate) pid: u32,
    pub(crate) cred: RefCell<Rc<Cred>>,
    pub(crate) umask: Cell<u16>,
    pub(crate) cwd: RefCell<Rc<Pin>>,
    pub(crate) root: RefCell<Rc<Pin>>,
    pub(crate) table: RefCell<Table>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        for fd in self.table.get_mut().taken() {
            if let Ok(file) = self.table.get_mut().take(fd) {
                self.world.0.locks.release(file.ino(), u64::from(self.pid));
            }
        }
    }
}

/// Life and rights.
impl Process {
    pub(crate) fn first(world: World, cred: Cred) -> Process {
        let root = Rc::new(world.root());
        Process(Rc::new(Inner {
            pid: world.next_pid(),
            cred: RefCell::new(Rc::new(cred)),
            umask: Cell::new(UMASK),
            cwd: RefCell::new(root.clone()),
            root: RefCell::new(root),
            table: RefCell::new(Table::new(world.0.settings.descriptors_max)),
            world,
        }))
    }

    /// A child with the same rights, places and descriptors. Both share the open descriptions; locks of the process
    /// stay with the parent.
    pub fn fork(&self) -> Process {
        let Inner { world, pid: _, cred, umask, cwd, root, table } = &*self.0;
        Process(Rc::new(Inner {
            world: world.clone(),
            pid: world.next_pid(),
            cred: RefCell::new(cred.borrow().clone()),
            umask: Cell::new(umask.get()),
            cwd: RefCell::new(cwd.borrow().clone()),
            root: RefCell::new(root.borrow().clone()),
            table: RefCell::new(table.borrow().clone()),
        }))
    }

    /// What `exec` does to descriptors: those marked so close.
    ///
    /// # Errors
    /// The file system's, for its locks.
    pub async fn exec(&self) -> Result<(), Errno> {
        let taken = self.0.table.borrow().taken();
        for fd in taken {
            if self.0.table.borrow().closes_on_exec(fd) == Ok(true) {
                self.close(fd).await?;
            }
        }
        Ok(())
    }

    /// Closes everything. A process that is dropped instead leaves the locks that the file system keeps to that file
    /// system.
    ///
    /// # Errors
    /// The file system's, for its locks.
    pub async fn exit(&self) -> Result<(), Errno> {
        let taken = self.0.table.borrow().taken();
        for fd in taken {
            self.close(fd).await?;
        }
        Ok(())
    }

    /// Number of the process.
    pub fn pid(&self) -> u32 {
        self.0.pid
    }

    /// Its world.
    pub fn world(&self) -> &World {
        &self.0.world
    }

    /// Its rights.
    pub fn cred(&self) -> Rc<Cred> {
        self.0.cred.borrow().clone()
    }

    /// Gives it other rights. Descriptors keep theirs.
    pub fn set_cred(&self, cred: Cred) {
        self.0.cred.replace(Rc::new(cred));
    }

    /// Sets the permissions that new files lack, and answers the old ones.
    pub fn umask(&self, mask: u16) -> u16 {
        self.0.umask.replace(mask & 0o777)
    }

    pub(crate) fn call(&self) -> Call {
        self.0.world.call(self.0.pid)
    }

    pub(crate) fn root(&self) -> Rc<Pin> {
        self.0.root.borrow().clone()
    }

    pub(crate) fn cwd(&self) -> Rc<Pin> {
        self.0.cwd.borrow().clone()
    }

    /// An open file, which may be a mere place (`O_PATH`).
    ///
    /// # Errors
    /// `EBADF`.
    pub(crate) fn place(&self, fd: Fd) -> Result<Rc<File>, Errno> {
        self.0.table.borrow().get(fd).cloned()
    }

    /// An open file that is more than a place.
    ///
    /// # Errors
    /// `EBADF`.
    pub(crate) fn file(&self, fd: Fd) -> Result<Rc<File>, Errno> {
        self.place(fd).and_then(|file| if file.is_path() { Err(Errno::EBADF) } else { Ok(file) })
    }
}

/// Descriptors.
impl Process {
    /// Frees a descriptor. The process's locks of the file end, whichever descriptor they came by (`fcntl(2)`).
    ///
    /// # Errors
    /// `EBADF`; the file system's, for its locks: then too the descriptor is free.
    pub async fn close(&self, fd: Fd) -> Result<(), Errno> {
        let file = self.0.table.borrow_mut().take(fd)?;
        self.let_go(file).await
    }

    async fn let_go(&self, file: Rc<File>) -> Result<(), Errno> {
        let Inner { world, pid, .. } = &*self.0;
        if !world.0.files.about().can.locks {
            world.0.locks.release(file.ino(), u64::from(*pid));
            File::retire(file);
            return Ok(());
        }
        self.unlock(&file, u64::from(*pid)).await?;
        match Rc::strong_count(&file) {
            1 => self.unlock(&file, description(file.id)).await,
            _ => Ok(()),
        }
    }

    async fn unlock(&self, file: &File, owner: u64) -> Result<(), Errno> {
        let range = ByteRange::new(0, 1 << 63).expect("all offsets of files");
        let lock = Lock { call: LockCall::Try, kind: LockKind::Unlock, range, owner, pid: self.0.pid };
        self.0.world.0.files.lock(self.call(), file.ino(), lock).await.map(drop)
    }

    /// `dup`, and `F_DUPFD` with the lowest number that will do.
    ///
    /// # Errors
    /// `EBADF`, `EMFILE`; `EINVAL` if `from` is above the limit.
    pub fn dup(&self, fd: Fd, from: Fd, close_on_exec: bool) -> Result<Fd, Errno> {
        let file = self.place(fd)?;
        if from.0 >= self.0.world.0.settings.descriptors_max {
            return Err(Errno::EINVAL);
        }
        self.0.table.borrow_mut().add(from, file, close_on_exec)
    }

    /// `dup2`: `to` leads where `fd` leads; what it led to is closed.
    ///
    /// # Errors
    /// `EBADF`, for a number above the limit too.
    pub async fn dup2(&self, fd: Fd, to: Fd) -> Result<Fd, Errno> {
        let file = self.place(fd)?;
        if fd == to {
            return Ok(to);
        }
        self.put(to, file, false).await
    }

    /// `dup3`, which refuses two equal numbers.
    ///
    /// # Errors
    /// As [`Process::dup2`]; `EINVAL`.
    pub async fn dup3(&self, fd: Fd, to: Fd, close_on_exec: bool) -> Result<Fd, Errno> {
        if fd == to {
            return Err(Errno::EINVAL);
        }
        let file = self.place(fd)?;
        self.put(to, file, close_on_exec).await
    }

    async fn put(&self, to: Fd, file: Rc<File>, close_on_exec: bool) -> Result<Fd, Errno> {
        let old = self.0.table.borrow_mut().put(to, file, close_on_exec)?;
        if let Some(old) = old {
            // As the kernel has it, no error of the old file hides the new one.
            self.let_go(old).await.unwrap_or(());
        }
        Ok(to)
    }

    /// `F_GETFD`: whether exec closes the descriptor.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn closes_on_exec(&self, fd: Fd) -> Result<bool, Errno> {
        self.0.table.borrow().closes_on_exec(fd)
    }

    /// `F_SETFD`.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn set_close_on_exec(&self, fd: Fd, on: bool) -> Result<(), Errno> {
        self.0.table.borrow_mut().set_close_on_exec(fd, on)
    }

    /// `F_GETFL`: access mode and status flags.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn status_flags(&self, fd: Fd) -> Result<OpenFlags, Errno> {
        self.place(fd).map(|file| file.flags())
    }

    /// `F_SETFL`: sets those of [`OpenFlags::STATUS`], and leaves the others.
    ///
    /// # Errors
    /// `EBADF`; `EPERM` for `NOATIME` if the caller does not own the file, and where the file is only appended to.
    pub async fn set_status_flags(&self, fd: Fd, flags: OpenFlags) -> Result<(), Errno> {
        let file = self.file(fd)?;
        let attr = self.0.world.0.files.attr(self.call(), file.ino()).await?;
        self.may_set_status(&attr, file.flags(), flags)?;
        file.set_status(flags);
        Ok(())
    }
}

/// Places.
impl Process {
    /// `chdir` and `fchdir`.
    ///
    /// # Errors
    /// Those of a walk; `ENOTDIR`, `EACCES`.
    pub async fn chdir(&self, to: impl Into<Where<'_>>) -> Result<(), Errno> {
        let pin = self.directory(to.into()).await?;
        self.0.cwd.replace(pin);
        Ok(())
    }

    /// `chroot`. The working directory stays where it is.
    ///
    /// # Errors
    /// As [`Process::chdir`]; `EPERM` for an unprivileged caller.
    pub async fn chroot(&self, to: impl Into<Where<'_>>) -> Result<(), Errno> {
        let pin = self.directory(to.into()).await?;
        if !self.cred().privileged {
            return Err(Errno::EPERM);
        }
        self.0.root.replace(pin);
        Ok(())
    }

    async fn directory(&self, at: Where<'_>) -> Result<Rc<Pin>, Errno> {
        let reached = self.reach(at.of_places(), Follow::Links).await?;
        if reached.attr.kind != FileType::Directory {
            return Err(Errno::ENOTDIR);
        }
        self.may(&reached.attr, Access::EXECUTE)?;
        Ok(reached.node.shared())
    }

    /// `getcwd`: the path of the working directory. It reads the directories above, so their times of access may
    /// change.
    ///
    /// # Errors
    /// `ENOENT` if it was removed, or lies outside the root directory.
    pub async fn getcwd(&self) -> Result<Vec<u8>, Errno> {
        let files = &self.0.world.0.files;
        let (root, mut at) = (self.root().ino(), self.cwd().ino());
        let (mut names, mut held) = (Vec::new(), None);
        while at != root {
            let entry = files.parent(self.call(), at).await?;
            let above = self.0.world.pinned(entry.ino);
            if above.ino() == at {
                return Err(Errno::ENOENT);
            }
            names.push(self.name_of(above.ino(), at).await?);
            at = above.ino();
            held = Some(above);
        }
        drop(held);
        let steps = names.iter().rev().flat_map(|name| [b"/", &name[..]].concat());
        let path: Vec<u8> = steps.collect();
        Ok(if path.is_empty() { b"/".to_vec() } else { path })
    }

    async fn name_of(&self, dir: Ino, of: Ino) -> Result<Vec<u8>, Errno> {
        const ROOM: usize = 32 << 10;
        let (mut from, mut listing) = (Cookie::BEGINNING, Listing::new(ROOM, 24, 8));
        loop {
            listing.clear();
            listing = self.0.world.0.files.list(self.call(), dir, from, listing).await?;
            if let Some(row) = listing.rows().find(|row| row.ino == of) {
                return Ok(row.name.bytes().to_vec());
            }
            from = listing.rows().last().ok_or(Errno::ENOENT)?.next;
        }
    }
}
