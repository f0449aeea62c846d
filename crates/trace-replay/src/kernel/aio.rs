//! Asynchronous requests. Each is made by a thread of a pool, because no safe interface hands the kernel memory to fill
//! later. The submitter goes on at once, and a call that asks for its end waits for that thread.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use esker_base::Stream;
use esker_trace_calls::words::AsyncKind;
use esker_trace_calls::{AsyncOp, Call};
use rustix::io::Errno;

use super::slots::Handle;
use super::{CallExecutor, Fail, Nature, Reply, Skip, Turn};
use crate::buffers::Buffers;

/// Requests under way at once, at most: the depth of a usual queue.
const THREADS_MAX: usize = 64;

/// One request and its end.
struct Request {
    op: AsyncOp,
    file: Arc<Handle>,
    end: Mutex<Option<Result<i64, Errno>>>,
    ended: Condvar,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Arc<Request>>,
    idle: usize,
    threads: usize,
    closed: bool,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    work: Condvar,
    /// Requests that were not taken back yet, by process and key.
    open: Mutex<BTreeMap<(u32, u64), Arc<Request>>>,
}

/// Threads that make requests; they start as they are needed.
pub(super) struct Pool {
    shared: Arc<Shared>,
    seed: u64,
}

impl Pool {
    /// Without threads yet.
    pub(super) fn new(seed: u64) -> Pool {
        Pool { shared: Arc::default(), seed }
    }

    fn submit(&self, process: u32, op: &AsyncOp, file: Arc<Handle>) -> Result<(), Errno> {
        let key = (process, op.key);
        let request = Arc::new(Request { op: op.clone(), file, end: Mutex::new(None), ended: Condvar::new() });
        lock(&self.shared.open).insert(key, request.clone());
        let mut queue = lock(&self.shared.queue);
        queue.waiting.push_back(request);
        if queue.idle == 0 && queue.threads < THREADS_MAX {
            let (shared, random) = (self.shared.clone(), Stream::named(self.seed, &format!("aio {}", queue.threads)));
            let name = "esker-aio".to_string();
            let started = std::thread::Builder::new().name(name).spawn(move || serve(&shared, Buffers::new(random)));
            started.map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::AGAIN))?;
            queue.threads += 1;
        }
        drop(queue);
        self.shared.work.notify_one();
        Ok(())
    }

    fn find(&self, process: u32, key: u64) -> Option<Arc<Request>> {
        lock(&self.shared.open).get(&(process, key)).cloned()
    }

    fn take(&self, process: u32, key: u64) -> Option<Arc<Request>> {
        lock(&self.shared.open).remove(&(process, key))
    }

    /// No request will come any more: threads end when theirs are done.
    pub(super) fn close(&self) {
        lock(&self.shared.queue).closed = true;
        self.shared.work.notify_all();
        lock(&self.shared.open).clear();
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.close();
    }
}

impl Request {
    fn make(&self, buffers: &mut Buffers) -> Result<i64, Errno> {
        let file = &*self.file;
        match self.op.kind {
            AsyncKind::Read => {
                rustix::io::pread(file, buffers.room_to_read(self.op.len), self.op.offset).map(|n| n as i64)
            }
            AsyncKind::Write => {
                rustix::io::pwrite(file, buffers.bytes_to_write(self.op.len), self.op.offset).map(|n| n as i64)
            }
            AsyncKind::Sync => rustix::fs::fsync(file).map(|()| 0),
            AsyncKind::DataSync => rustix::fs::fdatasync(file).map(|()| 0),
            AsyncKind::Poll | AsyncKind::Other => Ok(0),
        }
    }

    fn wait(&self) -> Result<i64, Errno> {
        let mut end = lock(&self.end);
        loop {
            if let Some(end) = *end {
                return end;
            }
            end = self.ended.wait(end).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn serve(shared: &Shared, mut buffers: Buffers) {
    loop {
        let mut queue = lock(&shared.queue);
        let request = loop {
            if let Some(request) = queue.waiting.pop_front() {
                break request;
            }
            if queue.closed {
                return;
            }
            queue.idle += 1;
            queue = shared.work.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.idle -= 1;
        };
        drop(queue);
        let end = request.make(&mut buffers);
        *lock(&request.end) = Some(end);
        request.ended.notify_all();
    }
}

/// Everything here is changed in one step, so a panic elsewhere leaves it whole.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl CallExecutor<'_> {
    pub(super) fn asynchronous(&mut self, turn: &Turn<'_>) -> Reply {
        let (pool, process) = (&self.kernel.aio, turn.process);
        match &turn.step.call {
            Call::AsyncSetup { .. } | Call::AsyncDestroy { .. } => Ok(0),
            Call::AsyncSubmit { ops, wait, .. } => self.submit(turn, ops, *wait),
            Call::AsyncReap { seen_keys, .. } => {
                for key in seen_keys {
                    if let Some(request) = pool.take(process, *key) {
                        // Their results are the program's to judge, not the call's.
                        let _end = request.wait();
                    }
                }
                Ok(seen_keys.len() as i64)
            }
            // The trace may have asked in vain; what it was told at last is what counts.
            Call::AsyncError { key } => match (turn.step.outcome.value(), pool.find(process, *key)) {
                (Some(0), Some(request)) => Ok(request.wait().map(|_| 0)?),
                _ => Err(Fail::Skip(Skip::NotFiles)),
            },
            Call::AsyncReturn { key } => Ok(pool.take(process, *key).ok_or(Errno::INVAL)?.wait()?),
            Call::AsyncSuspend { keys } => {
                if let Some(request) = keys.iter().find_map(|key| pool.find(process, *key)) {
                    let _end = request.wait();
                }
                Ok(0)
            }
            Call::AsyncCancel { .. } => Err(Fail::Skip(Skip::NotFiles)),
            _ => Err(Fail::Skip(Skip::Unseen)),
        }
    }

    fn submit(&mut self, turn: &Turn<'_>, ops: &[AsyncOp], wait: bool) -> Reply {
        // `io_submit` tells how many it took, the functions of POSIX only that they did.
        let ops = match turn.step.outcome.value() {
            Some(taken) if taken > 0 => &ops[..ops.len().min(taken as usize)],
            _ => ops,
        };
        for op in ops {
            let file = self.fd(op.fd)?;
            // A request to something outside ends at once.
            if file.nature == Nature::File {
                self.kernel.aio.submit(turn.process, op, file)?;
            }
        }
        if wait {
            for op in ops {
                if let Some(request) = self.kernel.aio.find(turn.process, op.key) {
                    let _end = request.wait();
                }
            }
        }
        Ok(turn.step.outcome.value().unwrap_or(ops.len() as i64))
    }
}
