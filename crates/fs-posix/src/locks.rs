//! Locks of bytes and of whole files, for file systems that keep none: the rules of `fcntl(2)` and `flock(2)`.
//!
//! A wait looks again after every change of any lock. Waiters are woken in the order in which they came.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use esker_base::{ByteRange, Errno};
use esker_rt::sync::Notify;
use esker_vfs::{Ino, Lock, LockCall, LockKind};

/// All locks of a world.
#[derive(Default)]
pub(crate) struct Locks {
    files: RefCell<BTreeMap<Ino, Held>>,
    waits: RefCell<BTreeMap<u64, Wait>>,
    next_wait: Cell<u64>,
    changed: Notify,
}

/// Locks of one inode.
#[derive(Default)]
struct Held {
    ranges: Vec<Holding>,
    /// Of whole files: the holding description, and whether others may hold it too.
    whole: Vec<(u64, LockKind)>,
}

/// Bytes that one owner holds. Those of one owner do not overlap, and equal neighbours are one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Holding {
    owner: u64,
    pid: u32,
    kind: LockKind,
    range: ByteRange,
}

#[derive(Clone, Copy)]
struct Wait {
    ino: Ino,
    lock: Lock,
}

/// An entry among the waits, until it is dropped.
struct Waiting<'a>(&'a Locks, u64);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waits.borrow_mut().remove(&self.1);
    }
}

impl Locks {
    /// Takes, tests or ends a lock of bytes. A test answers the lock that is in the way. With `circles`, a wait that
    /// could never end fails.
    ///
    /// # Errors
    /// `EAGAIN` for a lock that another owner holds; `EDEADLK`.
    pub(crate) async fn lock(&self, ino: Ino, lock: Lock, circles: bool) -> Result<Option<Lock>, Errno> {
        loop {
            let Some(blocker) = self.blocker(ino, lock) else {
                if lock.call != LockCall::Test {
                    self.set(ino, lock);
                }
                return Ok(None);
            };
            match lock.call {
                LockCall::Test => {
                    let Holding { owner, pid, kind, range } = blocker;
                    return Ok(Some(Lock { call: LockCall::Test, kind, range, owner, pid }));
                }
                LockCall::Try => return Err(Errno::EAGAIN),
                LockCall::Wait if circles && self.is_circle(ino, lock) => return Err(Errno::EDEADLK),
                LockCall::Wait => self.wait(ino, lock).await,
            }
        }
    }

    async fn wait(&self, ino: Ino, lock: Lock) {
        let number = self.next_wait.replace(self.next_wait.get() + 1);
        self.waits.borrow_mut().insert(number, Wait { ino, lock });
        let _waiting = Waiting(self, number);
        self.changed.wait().await;
    }

    /// Takes or ends a lock of a whole file. A lock that the description holds ends first, as `flock(2)` warns.
    ///
    /// # Errors
    /// `EAGAIN` if another description holds it.
    pub(crate) async fn flock(&self, ino: Ino, id: u64, kind: LockKind, call: LockCall) -> Result<(), Errno> {
        if self.files.borrow().get(&ino).is_some_and(|held| held.whole.contains(&(id, kind))) {
            return Ok(());
        }
        self.drop_whole(ino, id);
        if kind == LockKind::Unlock {
            return Ok(());
        }
        while !self.takes_whole(ino, id, kind) {
            if call != LockCall::Wait {
                return Err(Errno::EAGAIN);
            }
            self.changed.wait().await;
        }
        Ok(())
    }

    /// Whether no other lock of the whole file is in the way: then this one is taken.
    fn takes_whole(&self, ino: Ino, id: u64, kind: LockKind) -> bool {
        let mut files = self.files.borrow_mut();
        let held = files.entry(ino).or_default();
        let is_free = held.whole.iter().all(|(_, other)| is_shared(kind, *other));
        if is_free {
            held.whole.push((id, kind));
        }
        is_free
    }

    /// Ends all locks of bytes that an owner holds on an inode.
    pub(crate) fn release(&self, ino: Ino, owner: u64) {
        self.change(ino, |held| held.ranges.retain(|holding| holding.owner != owner));
    }

    /// Ends the lock of a whole file that a description holds.
    pub(crate) fn drop_whole(&self, ino: Ino, id: u64) {
        self.change(ino, |held| held.whole.retain(|(holder, _)| *holder != id));
    }

    fn change(&self, ino: Ino, change: impl FnOnce(&mut Held)) {
        let mut files = self.files.borrow_mut();
        let Some(held) = files.get_mut(&ino) else { return };
        change(held);
        if held.ranges.is_empty() && held.whole.is_empty() {
            files.remove(&ino);
        }
        drop(files);
        self.changed.notify_all();
    }

    /// The first lock in the way.
    fn blocker(&self, ino: Ino, lock: Lock) -> Option<Holding> {
        let files = self.files.borrow();
        files.get(&ino)?.ranges.iter().copied().find(|holding| is_in_the_way(holding, lock))
    }

    /// Whether an owner of what is in the way waits, through others, for the owner of `lock`. All owners in the way
    /// count, not only the first, as the kernel has it.
    fn is_circle(&self, ino: Ino, lock: Lock) -> bool {
        let waits = self.waits.borrow();
        let (mut seen, mut next) = (Vec::new(), self.owners_in_the_way(ino, lock));
        while let Some(owner) = next.pop() {
            if owner == lock.owner {
                return true;
            }
            if seen.contains(&owner) {
                continue;
            }
            seen.push(owner);
            let others = waits.values().filter(|wait| wait.lock.owner == owner);
            next.extend(others.flat_map(|wait| self.owners_in_the_way(wait.ino, wait.lock)));
        }
        false
    }

    fn owners_in_the_way(&self, ino: Ino, lock: Lock) -> Vec<u64> {
        let files = self.files.borrow();
        let held = files.get(&ino).map_or(&[][..], |held| &held.ranges);
        held.iter().filter(|holding| is_in_the_way(holding, lock)).map(|holding| holding.owner).collect()
    }

    /// Gives the owner these bytes, and takes from it what it held of them.
    fn set(&self, ino: Ino, lock: Lock) {
        let mut files = self.files.borrow_mut();
        let held = files.entry(ino).or_default();
        let (own, mut rest): (Vec<_>, Vec<_>) = held.ranges.drain(..).partition(|holding| holding.owner == lock.owner);
        rest.extend(own.into_iter().flat_map(|holding| outside(holding, lock.range)));
        if lock.kind != LockKind::Unlock {
            let new = Holding { owner: lock.owner, pid: lock.pid, kind: lock.kind, range: lock.range };
            let new = joined(&mut rest, new);
            rest.push(new);
        }
        held.ranges = rest;
        held.ranges.sort_unstable_by_key(|holding| (holding.range.start(), holding.owner));
        drop(files);
        self.change(ino, |_| {});
    }
}

/// Whether both kinds of locks may be held by two owners at once.
fn is_shared(one: LockKind, other: LockKind) -> bool {
    one == LockKind::Shared && other == LockKind::Shared
}

fn is_in_the_way(holding: &Holding, lock: Lock) -> bool {
    lock.kind != LockKind::Unlock
        && holding.owner != lock.owner
        && holding.range.overlaps(lock.range)
        && !is_shared(holding.kind, lock.kind)
}

/// The parts of a holding that are not in `range`.
fn outside(holding: Holding, range: ByteRange) -> impl Iterator<Item = Holding> {
    let whole = holding.range;
    let before = between(whole.start(), whole.end().min(range.start()));
    let behind = between(whole.start().max(range.end()), whole.end());
    [before, behind].into_iter().flatten().map(move |range| Holding { range, ..holding })
}

/// The range from one offset to another, if it has a byte.
fn between(start: u64, end: u64) -> Option<ByteRange> {
    ByteRange::new(start, end.checked_sub(start)?).filter(|range| !range.is_empty())
}

/// `new` together with the equal neighbours of its owner, which leave `rest`.
fn joined(rest: &mut Vec<Holding>, mut new: Holding) -> Holding {
    let touches = |holding: &Holding, new: &Holding| {
        let equal = holding.owner == new.owner && holding.kind == new.kind;
        equal && (holding.range.end() == new.range.start() || holding.range.start() == new.range.end())
    };
    while let Some(at) = rest.iter().position(|holding| touches(holding, &new)) {
        let old = rest.swap_remove(at).range;
        let (start, end) = (old.start().min(new.range.start()), old.end().max(new.range.end()));
        new.range = between(start, end).expect("it holds both ranges, which have bytes");
    }
    new
}

#[cfg(test)]
mod tests;
