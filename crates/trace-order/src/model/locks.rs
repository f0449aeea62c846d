//! Whole-file locks (`flock`): which open file descriptions hold them, and whose end let the next one have its lock.
//!
//! Each hold is a resource of its own. The call that takes a lock comes after the end of those that kept it waiting: an
//! unlock, the last close, the end of a process.

use esker_trace_calls::action::{Action, Outcome, ThreadId};
use esker_trace_calls::call::{Call, Fd};
use esker_trace_calls::words::LockKind;

use super::World;
use super::resource::{Resource, ResourceId, ResourceKind, Role};
use super::tree::InodeId;
use super::world::Answer;

/// The locks of one file.
#[derive(Debug, Clone, Default)]
pub(super) struct Locks {
    held: Vec<Hold>,
    /// Those that ended since the last exclusive one, of each thread that ended any the last of either kind.
    ended: Vec<Ended>,
    generations: u32,
}

#[derive(Debug, Clone, Copy)]
struct Hold {
    description: usize,
    kind: LockKind,
    resource: ResourceId,
}

#[derive(Debug, Clone, Copy)]
struct Ended {
    thread: Option<ThreadId>,
    kind: LockKind,
    resource: ResourceId,
}

/// Whether an action gets a lock. It may have waited for it since its entry, so it takes effect when it returns.
pub(super) fn gets_lock(action: &Action) -> bool {
    let asks = matches!(action.call, Call::Flock { kind, .. } if kind != LockKind::Unlock);
    asks && matches!(action.outcome, Outcome::Done(_))
}

/// Whether two locks of one file cannot be held at a time.
fn excludes(one: LockKind, other: LockKind) -> bool {
    one == LockKind::Exclusive || other == LockKind::Exclusive
}

impl World {
    pub(super) fn flock(&mut self, thread: ThreadId, fd: Fd, kind: LockKind) -> Answer<i64> {
        let inode = self.fd_for_io(thread, fd)?.inode;
        let description = self.fd(thread, fd)?.description;
        if self.dry || self.lock_of(inode, description) == Some(kind) {
            return Ok(0);
        }
        // A lock of the other kind is given up first.
        self.end_lock(inode, description);
        if kind != LockKind::Unlock {
            self.begin_lock(inode, description, kind);
        }
        Ok(0)
    }

    fn lock_of(&self, inode: InodeId, description: usize) -> Option<LockKind> {
        let held = &self.locks.get(&inode)?.held;
        held.iter().find(|hold| hold.description == description).map(|hold| hold.kind)
    }

    fn begin_lock(&mut self, inode: InodeId, description: usize, kind: LockKind) {
        let locks = self.locks.entry(inode).or_default();
        for ended in locks.ended.iter().filter(|ended| excludes(ended.kind, kind)) {
            self.ledger.touch(ended.resource, Role::Use);
        }
        if kind == LockKind::Exclusive {
            locks.ended.clear();
        }
        // What is in the way was let go unseen.
        locks.held.retain(|hold| !excludes(hold.kind, kind));
        locks.generations += 1;
        let (key, generation) = (u64::from(inode), locks.generations);
        let resource = self.ledger.add(Resource { kind: ResourceKind::Sync, key, generation, previous: None });
        self.ledger.touch(resource, Role::Create);
        locks.held.push(Hold { description, kind, resource });
    }

    /// An open file description lets its lock go, if it has one.
    pub(super) fn end_lock(&mut self, inode: InodeId, description: usize) {
        let Some(locks) = self.locks.get_mut(&inode) else { return };
        let Some(at) = locks.held.iter().position(|hold| hold.description == description) else { return };
        let Hold { kind, resource, .. } = locks.held.swap_remove(at);
        self.ledger.touch(resource, Role::Delete);
        let thread = self.actor;
        locks.ended.retain(|ended| (ended.thread, ended.kind) != (thread, kind));
        locks.ended.push(Ended { thread, kind, resource });
    }
}
