//! Threads and processes: what children share and inherit, what exec and exit close.

use std::collections::BTreeSet;

use esker_base::Errno;
use esker_trace_calls::action::ThreadId;
use esker_trace_calls::call::{Fd, Object};
use esker_trace_calls::words::CloneFlags;

use crate::compiled::SlotEffect;

use super::World;
use super::resource::{Resource, ResourceKind, Role};
use super::world::{Answer, Task};

impl World {
    /// A further thread of a process that was there when recording began.
    pub(super) fn join(&mut self, thread: ThreadId, leader: ThreadId) {
        let Task { table, context, space, .. } = *self.task(leader);
        let task = &mut self.tasks[thread.0 as usize];
        (task.table, task.context, task.space) = (table, context, space);
    }

    pub(super) fn chdir(&mut self, thread: ThreadId, object: &Object) -> Answer<i64> {
        let id = self.object(thread, object)?;
        if !self.tree.inode(id).is_directory() {
            return Err(Errno::ENOTDIR);
        }
        if !self.dry {
            let context = self.task(thread).context;
            self.contexts[context].cwd = id;
        }
        Ok(0)
    }

    pub(super) fn set_umask(&mut self, thread: ThreadId, mask: u16) -> Answer<i64> {
        let context = self.task(thread).context;
        let old = self.contexts[context].umask;
        if !self.dry {
            self.contexts[context].umask = mask & 0o777;
        }
        Ok(i64::from(old))
    }

    /// A thread or process begins. Threads of the trace have their tasks already: the child's is filled in.
    pub(super) fn spawn(&mut self, thread: ThreadId, flags: CloneFlags, child: Option<ThreadId>) -> Answer<i64> {
        let Some(child) = child.filter(|child| !self.dry && (child.0 as usize) < self.tasks.len()) else {
            return Ok(self.seen.unwrap_or(0));
        };
        let parent = self.task(thread).clone();
        let (at, shares) = (child.0 as usize, |flag| flags.contains(flag) || flags.contains(CloneFlags::CLONE_THREAD));
        if shares(CloneFlags::CLONE_FILES) {
            self.tasks[at].table = parent.table;
        } else {
            let table = self.copy_table(parent.table, self.tasks[at].process);
            self.tasks[at].table = table;
        }
        self.tasks[at].context = parent.context;
        if !shares(CloneFlags::CLONE_FS) {
            self.contexts.push(self.contexts[parent.context]);
            self.tasks[at].context = self.contexts.len() - 1;
        }
        self.tasks[at].space = parent.space;
        if !shares(CloneFlags::CLONE_VM) {
            self.tasks[at].space = self.copy_space(parent.space, self.tasks[at].process);
        }
        let resource = Resource { kind: ResourceKind::Thread, key: u64::from(child.0), generation: 1, previous: None };
        let resource = self.ledger.add(resource);
        self.ledger.touch(resource, Role::Create);
        self.tasks[at].resource = Some(resource);
        Ok(self.seen.unwrap_or(0))
    }

    /// A table of copies of all descriptors.
    fn copy_table(&mut self, table: usize, process: esker_trace_calls::action::ProcessId) -> usize {
        let fds = self.tables[table].fds.clone();
        self.tables.push(super::world::Table { process, fds: Default::default() });
        let copy = self.tables.len() - 1;
        for (number, descriptor) in fds {
            self.ledger.touch(descriptor.resource, Role::Use);
            let to = self.install(copy, number, descriptor.description, descriptor.cloexec);
            self.effects.push(SlotEffect::Copied { from: Fd(descriptor.slot), to });
        }
        copy
    }

    /// The thread has a table of its own from now on.
    pub(super) fn unshare_files(&mut self, thread: ThreadId) {
        let Task { table, process, .. } = *self.task(thread);
        if self.users_of(table) > 1 {
            let copy = self.copy_table(table, process);
            self.tasks[thread.0 as usize].table = copy;
        }
    }

    fn users_of(&self, table: usize) -> usize {
        self.tasks.iter().filter(|task| task.alive && task.table == table).count()
    }

    pub(super) fn unshare(&mut self, thread: ThreadId, flags: CloneFlags) -> Answer<i64> {
        if self.dry {
            return Ok(0);
        }
        if flags.contains(CloneFlags::CLONE_FILES) {
            self.unshare_files(thread);
        }
        if flags.contains(CloneFlags::CLONE_FS) {
            let context = self.task(thread).context;
            self.contexts.push(self.contexts[context]);
            self.tasks[thread.0 as usize].context = self.contexts.len() - 1;
        }
        Ok(0)
    }

    /// Other threads of the process end, and what was marked so is closed.
    pub(super) fn exec(&mut self, thread: ThreadId, file: &Object) -> Answer<i64> {
        let id = self.object(thread, file)?;
        if self.tree.inode(id).is_directory() {
            return Err(Errno::EACCES);
        }
        if self.dry {
            return Ok(0);
        }
        let process = self.task(thread).process;
        for other in self.tasks.iter_mut().enumerate().filter(|(at, _)| *at != thread.0 as usize) {
            other.1.alive &= other.1.process != process;
        }
        self.unshare_files(thread);
        self.renew_space(thread);
        let table = self.task(thread).table;
        let marked: Vec<i32> =
            self.tables[table].fds.iter().filter(|(_, fd)| fd.cloexec).map(|(number, _)| *number).collect();
        marked.into_iter().for_each(|number| self.uninstall(table, number));
        Ok(0)
    }

    pub(super) fn exit(&mut self, thread: ThreadId, group: bool) -> Answer<i64> {
        if !self.dry {
            self.end(thread, group);
        }
        Ok(0)
    }

    /// A thread ends, or its whole process. The last user of a table closes what is in it.
    pub(super) fn end(&mut self, thread: ThreadId, group: bool) {
        let process = self.task(thread).process;
        let (mut tables, mut spaces) = (BTreeSet::new(), BTreeSet::new());
        for (at, task) in self.tasks.iter_mut().enumerate() {
            let ends = at == thread.0 as usize || (group && task.process == process);
            // Threads of the trace that have not begun yet share no table with anybody.
            if ends && task.alive {
                task.alive = false;
                tables.insert(task.table);
                spaces.insert(task.space);
            }
        }
        for table in tables {
            if self.users_of(table) == 0 {
                let numbers: Vec<i32> = self.tables[table].fds.keys().copied().collect();
                numbers.into_iter().for_each(|number| self.uninstall(table, number));
            }
        }
        spaces.into_iter().for_each(|space| self.leave_space(space));
        if let Some(resource) = self.task(thread).resource {
            self.ledger.touch(resource, Role::Use);
        }
    }

    /// A child's end is waited for.
    pub(super) fn wait(&mut self, child: Option<ThreadId>) -> Answer<i64> {
        if let Some(resource) = child.and_then(|child| self.task(child).resource) {
            self.ledger.touch(resource, Role::Delete);
        }
        Ok(self.seen.unwrap_or(0))
    }

    /// The first action of a thread comes after the one that made it.
    pub(super) fn note_start(&mut self, thread: ThreadId) {
        let task = &mut self.tasks[thread.0 as usize];
        if let Some(resource) = task.resource.filter(|_| !task.acted) {
            self.ledger.touch(resource, Role::Use);
            task.acted |= !self.dry;
        }
    }
}
