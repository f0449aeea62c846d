//! Claims on inodes: what a call holds from its first wait to its last.
//!
//! Each inode has a queue. A ticket enters the queues of all its inodes at once, and waits only for tickets that
//! entered earlier: so claims are fair and never wait in a circle. A queue is a count of holders and the tickets that
//! wait, so a claim costs O(log n) for each inode. Without contention a claim allocates nothing but nodes of the
//! tree.

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::rc::Rc;
use std::task::{Poll, Waker};

pub use esker_block::locks::Mode;

use crate::word::Ino;

/// Most inodes of a ticket: both directories and both inodes of a rename.
pub const INODES_MAX: usize = 4;

/// The claims of a file system. A value is a handle.
#[derive(Clone, Default)]
pub struct Claims(Rc<RefCell<Table>>);

impl Claims {
    /// Claims inodes, and waits until no earlier ticket is in the way. An inode that is named twice is claimed once, in
    /// the stronger mode. If the future is dropped, the ticket is given up.
    ///
    /// # Panics
    /// If there are more than [`INODES_MAX`] inodes.
    pub async fn claim(&self, wanted: &[(Ino, Mode)]) -> Ticket {
        let ticket = self.enter(wanted);
        std::future::poll_fn(|cx| self.0.borrow_mut().poll_granted(ticket.number, cx.waker())).await;
        ticket
    }

    /// Claims inodes if nothing is in the way.
    ///
    /// # Panics
    /// As [`Claims::claim`].
    pub fn try_claim(&self, wanted: &[(Ino, Mode)]) -> Option<Ticket> {
        let list = List::of(wanted);
        let is_free = list.iter().all(|(ino, mode)| self.0.borrow().is_free(ino, mode));
        is_free.then(|| self.enter_list(list))
    }

    /// Whether there is no claim at all.
    pub fn is_idle(&self) -> bool {
        self.0.borrow().queues.is_empty()
    }

    /// A ticket, granted or waiting.
    fn enter(&self, wanted: &[(Ino, Mode)]) -> Ticket {
        self.enter_list(List::of(wanted))
    }

    fn enter_list(&self, list: List) -> Ticket {
        let number = self.0.borrow_mut().enter(&list);
        Ticket { number, list, claims: self.clone() }
    }
}

/// Claims on some inodes, until it is dropped.
pub struct Ticket {
    number: u64,
    list: List,
    claims: Claims,
}

impl Ticket {
    /// The claimed inodes, in the order of their numbers.
    pub fn inodes(&self) -> impl Iterator<Item = (Ino, Mode)> {
        self.list.iter()
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let woken = self.claims.0.borrow_mut().leave(self.number, &self.list);
        woken.into_iter().for_each(Waker::wake);
    }
}

/// Up to [`INODES_MAX`] inodes in the order of their numbers, each once.
#[derive(Clone, Copy)]
struct List {
    inodes: [(Ino, Mode); INODES_MAX],
    len: usize,
}

impl List {
    fn of(wanted: &[(Ino, Mode)]) -> List {
        assert!(wanted.len() <= INODES_MAX, "a ticket holds up to {INODES_MAX} inodes");
        let mut list = List { inodes: [(Ino(0), Mode::Shared); INODES_MAX], len: 0 };
        for (ino, mode) in wanted {
            list.add(*ino, *mode);
        }
        list
    }

    fn add(&mut self, ino: Ino, mode: Mode) {
        let at = self.inodes[..self.len].partition_point(|(other, _)| *other < ino);
        if at < self.len && self.inodes[at].0 == ino {
            if mode == Mode::Exclusive {
                self.inodes[at].1 = mode;
            }
            return;
        }
        self.inodes.copy_within(at..self.len, at + 1);
        self.inodes[at] = (ino, mode);
        self.len += 1;
    }

    fn iter(&self) -> impl Iterator<Item = (Ino, Mode)> {
        self.inodes[..self.len].iter().copied()
    }
}

#[derive(Default)]
struct Table {
    queues: BTreeMap<Ino, Queue>,
    /// Tickets that wait in at least one queue.
    waiting: BTreeMap<u64, Waiting>,
    entered: u64,
}

/// The claims on one inode. None is without claims.
#[derive(Default)]
struct Queue {
    shared: u32,
    is_exclusive: bool,
    /// In the order of their numbers; the first is in the way of all others.
    waiting: BTreeMap<u64, Mode>,
}

struct Waiting {
    /// Queues in which it waits.
    queues: usize,
    waker: Option<Waker>,
}

impl Queue {
    fn admits(&self, mode: Mode) -> bool {
        match mode {
            Mode::Shared => !self.is_exclusive,
            Mode::Exclusive => !self.is_exclusive && self.shared == 0,
        }
    }

    fn hold(&mut self, mode: Mode) {
        match mode {
            Mode::Shared => self.shared += 1,
            Mode::Exclusive => self.is_exclusive = true,
        }
    }

    fn release(&mut self, mode: Mode) {
        match mode {
            Mode::Shared => self.shared -= 1,
            Mode::Exclusive => self.is_exclusive = false,
        }
    }

    /// The next ticket that has this inode by what was released.
    fn admit(&mut self) -> Option<u64> {
        let (number, mode) = self.waiting.first_key_value().map(|(number, mode)| (*number, *mode))?;
        if !self.admits(mode) {
            return None;
        }
        self.waiting.pop_first();
        self.hold(mode);
        Some(number)
    }

    fn is_unused(&self) -> bool {
        self.shared == 0 && !self.is_exclusive && self.waiting.is_empty()
    }
}

impl Table {
    fn is_free(&self, ino: Ino, mode: Mode) -> bool {
        self.queues.get(&ino).is_none_or(|queue| queue.waiting.is_empty() && queue.admits(mode))
    }

    fn enter(&mut self, list: &List) -> u64 {
        self.entered += 1;
        let number = self.entered;
        let mut queues = 0;
        for (ino, mode) in list.iter() {
            let queue = self.queues.entry(ino).or_default();
            if queue.waiting.is_empty() && queue.admits(mode) {
                queue.hold(mode);
            } else {
                queue.waiting.insert(number, mode);
                queues += 1;
            }
        }
        if queues > 0 {
            self.waiting.insert(number, Waiting { queues, waker: None });
        }
        number
    }

    fn poll_granted(&mut self, number: u64, waker: &Waker) -> Poll<()> {
        match self.waiting.get_mut(&number) {
            None => Poll::Ready(()),
            Some(waiting) => {
                waiting.waker = Some(waker.clone());
                Poll::Pending
            }
        }
    }

    /// Ends a ticket, granted or not. Answers the wakers of the tickets that it grants, queue by queue.
    fn leave(&mut self, number: u64, list: &List) -> Vec<Waker> {
        self.waiting.remove(&number);
        let mut woken = Vec::new();
        for (ino, mode) in list.iter() {
            let Entry::Occupied(mut entry) = self.queues.entry(ino) else { continue };
            let queue = entry.get_mut();
            if queue.waiting.remove(&number).is_none() {
                queue.release(mode);
            }
            while let Some(granted) = queue.admit() {
                woken.extend(count_down(&mut self.waiting, granted));
            }
            if queue.is_unused() {
                entry.remove();
            }
        }
        woken
    }
}

/// Notes that a ticket waits in one queue less. Answers its waker if it was the last one.
fn count_down(waiting: &mut BTreeMap<u64, Waiting>, number: u64) -> Option<Waker> {
    let Entry::Occupied(mut entry) = waiting.entry(number) else { return None };
    entry.get_mut().queues -= 1;
    if entry.get().queues == 0 { entry.remove().waker } else { None }
}
