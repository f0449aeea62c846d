//! The table of tasks of one world.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Wake, Waker};

use crate::remote::{AtomicBool, Ordering, Remote};

/// Names a task for as long as it lives; a reused slot has another generation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TaskId {
    index: u32,
    generation: u32,
}

/// What a [`Waker`] points to.
pub(crate) struct Header {
    id: TaskId,
    queued: AtomicBool,
    remote: Arc<Remote>,
}

impl Wake for Header {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::AcqRel) {
            self.remote.push(self.id);
        }
    }
}

pub(crate) type LocalFuture = Pin<Box<dyn Future<Output = ()>>>;

/// What a poll needs, taken out of the table so that the poll may change the table.
pub(crate) struct Running {
    pub future: LocalFuture,
    pub waker: Waker,
}

struct Entry {
    generation: u32,
    name: &'static str,
    header: Option<Arc<Header>>,
    running: Option<Running>,
}

/// Slots of tasks; indices are reused in a deterministic order (last freed first).
#[derive(Default)]
pub(crate) struct Tasks {
    entries: Vec<Entry>,
    free: Vec<u32>,
}

impl Tasks {
    pub(crate) fn insert(&mut self, name: &'static str, remote: &Arc<Remote>, future: LocalFuture) -> TaskId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Entry { generation: 0, name, header: None, running: None });
            (self.entries.len() - 1) as u32
        });
        let entry = &mut self.entries[index as usize];
        let id = TaskId { index, generation: entry.generation };
        // Born queued: the caller puts the id on the ready list.
        let header = Arc::new(Header { id, queued: AtomicBool::new(true), remote: remote.clone() });
        entry.name = name;
        entry.running = Some(Running { future, waker: Waker::from(header.clone()) });
        entry.header = Some(header);
        id
    }

    fn entry(&mut self, id: TaskId) -> Option<&mut Entry> {
        self.entries.get_mut(id.index as usize).filter(|e| e.generation == id.generation)
    }

    /// Takes the task out for a poll. `None` if it ended, or runs already.
    pub(crate) fn take(&mut self, id: TaskId) -> Option<Running> {
        let entry = self.entry(id)?;
        entry.header.as_ref()?.queued.store(false, Ordering::Release);
        entry.running.take()
    }

    /// As [`Tasks::take`], unless the task is queued already and will be polled anyway.
    #[inline]
    pub(crate) fn take_idle(&mut self, id: TaskId) -> Option<Running> {
        let entry = self.entry(id)?;
        if entry.header.as_ref()?.queued.load(Ordering::Acquire) {
            return None;
        }
        entry.running.take()
    }

    pub(crate) fn put_back(&mut self, id: TaskId, running: Running) {
        if let Some(entry) = self.entry(id) {
            entry.running = Some(running);
        }
    }

    pub(crate) fn remove(&mut self, id: TaskId) {
        if let Some(entry) = self.entry(id) {
            entry.generation = entry.generation.wrapping_add(1);
            entry.header = None;
            entry.running = None;
            self.free.push(id.index);
        }
    }

    /// Marks a waiting task as queued; false if it is queued already or has ended.
    pub(crate) fn mark_queued(&mut self, id: TaskId) -> bool {
        let header = self.entry(id).and_then(|e| e.header.as_ref());
        header.is_some_and(|h| {
            // Only this world's thread and foreign wakers write it; losing a race costs one spurious poll.
            let was = h.queued.load(Ordering::Acquire);
            h.queued.store(true, Ordering::Release);
            !was
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.free.len() == self.entries.len()
    }

    /// Names of the tasks that have not ended.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        self.entries.iter().filter(|e| e.header.is_some()).map(|e| e.name).collect()
    }

    /// Takes every future out, for dropping outside the table's borrow.
    pub(crate) fn clear(&mut self) -> Vec<LocalFuture> {
        let live: Vec<TaskId> = self
            .entries
            .iter()
            .enumerate()
            .filter(|(_, e)| e.header.is_some())
            .map(|(index, e)| TaskId { index: index as u32, generation: e.generation })
            .collect();
        let futures = live.iter().filter_map(|id| self.take(*id).map(|r| r.future)).collect();
        live.iter().for_each(|id| self.remove(*id));
        futures
    }
}
