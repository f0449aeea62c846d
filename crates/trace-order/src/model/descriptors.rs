//! Descriptors and the open file descriptions behind them.

use esker_base::Errno;
use esker_trace_calls::action::{ProcessId, ThreadId};
use esker_trace_calls::call::Fd;
use esker_trace_calls::words::{CloseRangeFlags, FileKind, OpenFlags};

use crate::compiled::{Slot, SlotEffect};

use super::World;
use super::resource::{Resource, ResourceKind, Role};
use super::tree::{Inode, InodeId};
use super::world::{Answer, Description, Descriptor};

/// Largest number of a descriptor that any process may have.
const FD_MAX: i32 = 1 << 20;

impl World {
    /// A descriptor that is open; it and what is behind it are used.
    pub(super) fn fd(&mut self, thread: ThreadId, fd: Fd) -> Answer<Descriptor> {
        let descriptor = self.peek(thread, fd.0).ok_or(Errno::EBADF)?;
        self.ledger.touch(descriptor.resource, Role::Use);
        self.touch_inode(self.descriptions[descriptor.description].inode, Role::Use);
        Ok(descriptor)
    }

    /// A descriptor through which one can do more than name a file.
    pub(super) fn fd_for_io(&mut self, thread: ThreadId, fd: Fd) -> Answer<Description> {
        let descriptor = self.fd(thread, fd)?;
        let description = self.descriptions[descriptor.description];
        if description.flags.contains(OpenFlags::O_PATH) { Err(Errno::EBADF) } else { Ok(description) }
    }

    /// What is behind a descriptor, or the working directory.
    pub(super) fn fd_inode(&mut self, thread: ThreadId, fd: Fd) -> Answer<InodeId> {
        if fd == Fd::CWD {
            return Ok(self.cwd(thread));
        }
        let descriptor = self.fd(thread, fd)?;
        Ok(self.descriptions[descriptor.description].inode)
    }

    /// The lowest free number from `min` on.
    pub(super) fn free_number(&self, thread: ThreadId, min: i32) -> i32 {
        let fds = &self.tables[self.task(thread).table].fds;
        let mut free = min;
        for number in fds.range(min..).map(|(number, _)| *number) {
            if number > free {
                break;
            }
            free = number + 1;
        }
        free
    }

    /// The number that the trace tells, or the lowest free one.
    fn next_number(&self, thread: ThreadId, min: i32) -> i32 {
        let told = self.seen.and_then(|value| i32::try_from(value).ok()).filter(|number| (0..FD_MAX).contains(number));
        told.unwrap_or_else(|| self.free_number(thread, min))
    }

    /// A new descriptor of a new description. `number` is what the trace tells elsewhere than in the result.
    pub(super) fn new_descriptor(
        &mut self,
        thread: ThreadId,
        inode: InodeId,
        flags: OpenFlags,
        number: Option<i32>,
    ) -> Fd {
        self.descriptions.push(Description { inode, flags, offset: 0, users: 0 });
        self.count_open(inode, flags);
        let number = number.unwrap_or_else(|| self.next_number(thread, 0));
        let cloexec = flags.contains(OpenFlags::O_CLOEXEC);
        let slot = self.install(self.task(thread).table, number, self.descriptions.len() - 1, cloexec);
        self.effects.push(SlotEffect::Made(slot));
        Fd(number)
    }

    /// A number begins to stand for a description. What it stood for before is closed: its `close` was lost.
    pub(super) fn install(&mut self, table: usize, number: i32, description: usize, cloexec: bool) -> Fd {
        self.uninstall(table, number);
        let process = self.tables[table].process;
        let slot = self.new_slot(process, number);
        let generation = self.slots[slot.0 as usize].generation;
        let resource = Resource { kind: ResourceKind::Descriptor, key: number as u64, generation, previous: None };
        let resource = self.ledger.add(resource);
        self.slot_resources.push(resource);
        self.ledger.touch(resource, Role::Create);
        self.touch_inode(self.descriptions[description].inode, Role::Use);
        self.descriptions[description].users += 1;
        let descriptor = Descriptor { slot: slot.0, resource, description, cloexec };
        self.tables[table].fds.insert(number, descriptor);
        slot
    }

    pub(super) fn new_slot(&mut self, process: ProcessId, number: i32) -> Fd {
        let generation = self.generations.entry((process, number)).or_default();
        *generation += 1;
        self.slots.push(Slot { number, generation: *generation, process });
        Fd(i32::try_from(self.slots.len() - 1).expect("fewer descriptors than 2^31"))
    }

    /// A number ceases to stand for anything.
    pub(super) fn uninstall(&mut self, table: usize, number: i32) {
        let Some(descriptor) = self.tables[table].fds.remove(&number) else { return };
        self.ledger.touch(descriptor.resource, Role::Delete);
        self.effects.push(SlotEffect::Closed(Fd(descriptor.slot)));
        let description = &mut self.descriptions[descriptor.description];
        description.users -= 1;
        let (id, flags, ended) = (description.inode, description.flags, description.users == 0);
        if ended {
            let inode = self.tree.inode_mut(id);
            inode.opens -= 1;
            // The flags may have been widened since.
            inode.readers = inode.readers.saturating_sub(u32::from(flags.contains(OpenFlags::READ)));
            self.end_lock(id, descriptor.description);
        }
        self.release(id);
    }

    /// One more description is open on an inode.
    pub(super) fn count_open(&mut self, inode: InodeId, flags: OpenFlags) {
        let inode = self.tree.inode_mut(inode);
        inode.opens += 1;
        inode.readers += u32::from(flags.contains(OpenFlags::READ));
    }

    /// What a descriptor's number is open on, and how.
    pub fn descriptor(&self, thread: ThreadId, fd: Fd) -> Option<(FileKind, OpenFlags)> {
        let description = self.descriptions[self.peek(thread, fd.0)?.description];
        Some((self.tree.inode(description.inode).kind, description.flags))
    }

    pub(super) fn close(&mut self, thread: ThreadId, fd: Fd) -> Answer<i64> {
        self.fd(thread, fd)?;
        if !self.dry {
            self.uninstall(self.task(thread).table, fd.0);
        }
        Ok(0)
    }

    pub(super) fn close_range(&mut self, thread: ThreadId, first: u32, last: u32, how: CloseRangeFlags) -> Answer<i64> {
        if first > last {
            return Err(Errno::EINVAL);
        }
        if self.dry {
            return Ok(0);
        }
        if how.contains(CloseRangeFlags::CLOSE_RANGE_UNSHARE) {
            self.unshare_files(thread);
        }
        let table = self.task(thread).table;
        let bound = |n: u32| i32::try_from(n).unwrap_or(i32::MAX);
        let numbers: Vec<i32> =
            self.tables[table].fds.range(bound(first)..=bound(last)).map(|(number, _)| *number).collect();
        for number in numbers {
            if !how.contains(CloseRangeFlags::CLOSE_RANGE_CLOEXEC) {
                self.uninstall(table, number);
            } else if let Some(descriptor) = self.tables[table].fds.get_mut(&number) {
                descriptor.cloexec = true;
            }
        }
        Ok(0)
    }

    pub(super) fn dup(&mut self, thread: ThreadId, fd: Fd, min: i32, cloexec: bool) -> Answer<i64> {
        let descriptor = self.fd(thread, fd)?;
        if !(0..FD_MAX).contains(&min) {
            return Err(Errno::EINVAL);
        }
        let number = self.next_number(thread, min);
        if !self.dry {
            let slot = self.install(self.task(thread).table, number, descriptor.description, cloexec);
            self.effects.push(SlotEffect::Made(slot));
        }
        Ok(i64::from(number))
    }

    pub(super) fn dup_to(&mut self, thread: ThreadId, fd: Fd, to: Fd, cloexec: bool, strict: bool) -> Answer<i64> {
        if strict && fd == to {
            return Err(Errno::EINVAL);
        }
        if !(0..FD_MAX).contains(&to.0) {
            return Err(Errno::EBADF);
        }
        let descriptor = self.fd(thread, fd)?;
        if fd != to && !self.dry {
            let slot = self.install(self.task(thread).table, to.0, descriptor.description, cloexec);
            self.effects.push(SlotEffect::Made(slot));
        }
        Ok(i64::from(to.0))
    }

    pub(super) fn set_cloexec(&mut self, thread: ThreadId, fd: Fd, on: bool) -> Answer<i64> {
        self.fd(thread, fd)?;
        let table = self.task(thread).table;
        if let Some(descriptor) = self.tables[table].fds.get_mut(&fd.0).filter(|_| !self.dry) {
            descriptor.cloexec = on;
        }
        Ok(0)
    }

    /// `F_SETFL`: of what the model knows, only appending can change.
    pub(super) fn set_flags(&mut self, thread: ThreadId, fd: Fd, flags: OpenFlags) -> Answer<i64> {
        self.fd_for_io(thread, fd)?;
        let descriptor = self.peek(thread, fd.0).ok_or(Errno::EBADF)?;
        if !self.dry {
            let known = &mut self.descriptions[descriptor.description].flags;
            known.set(OpenFlags::O_APPEND, flags.contains(OpenFlags::O_APPEND));
            known.set(OpenFlags::O_NONBLOCK, flags.contains(OpenFlags::O_NONBLOCK));
        }
        Ok(0)
    }

    /// Two ends of something new: a pipe's for reading and writing, a pair of sockets' for both.
    pub(super) fn pair(&mut self, thread: ThreadId, kind: FileKind, ends: [(Fd, OpenFlags); 2]) -> Answer<i64> {
        if self.dry {
            return Ok(0);
        }
        let inode = self.tree.add(Inode::new(kind));
        self.touch_inode(inode, Role::Create);
        for (fd, flags) in ends {
            let told = Some(fd.0).filter(|number| self.seen.is_some() && (0..FD_MAX).contains(number));
            let number = told.unwrap_or_else(|| self.free_number(thread, 0));
            self.new_descriptor(thread, inode, flags, Some(number));
        }
        Ok(0)
    }

    /// A descriptor of something that is no file of the tree.
    pub(super) fn make_fd(&mut self, thread: ThreadId, kind: FileKind, cloexec: bool) -> Answer<i64> {
        if self.dry {
            return Ok(i64::from(self.free_number(thread, 0)));
        }
        let inode = self.tree.add(Inode::new(kind));
        let mut flags = OpenFlags::READ | OpenFlags::WRITE;
        flags.set(OpenFlags::O_CLOEXEC, cloexec);
        Ok(i64::from(self.new_descriptor(thread, inode, flags, None).0))
    }

    /// A descriptor of something unknown: its making succeeded, but nothing explains how.
    pub fn make_unknown_fd(&mut self, thread: ThreadId, fd: Fd, cloexec: bool) {
        let inode = self.tree.add(Inode::new(FileKind::Other));
        let mut flags = OpenFlags::READ | OpenFlags::WRITE;
        flags.set(OpenFlags::O_CLOEXEC, cloexec);
        self.new_descriptor(thread, inode, flags, Some(fd.0));
    }
}
