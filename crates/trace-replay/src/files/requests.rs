//! Asynchronous requests. Each is a task. The submitter goes on at once, and a call that asks for its end waits for
//! that task.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use esker_base::{Errno, Stream};
use esker_rt::sync::Notify;
use esker_trace_calls::words::{AsyncKind, ReadWriteFlags, SyncKind};
use esker_trace_calls::{AsyncOp, Call};

use super::slots::{OpenSlot, What};
use super::{Fail, FilesExecutor, Reply};
use crate::answer::Skip;
use crate::kernel::Turn;

/// One request, until its end is taken.
#[derive(Default)]
struct Asked {
    end: Cell<Option<Result<i64, Errno>>>,
    ended: Notify,
}

/// Requests that were not taken back yet, by process and key.
#[derive(Default)]
pub(super) struct Requests {
    open: RefCell<BTreeMap<(u32, u64), Rc<Asked>>>,
    /// Numbers of requests, from which their bytes are drawn.
    made: Cell<u64>,
}

impl Requests {
    fn find(&self, process: u32, key: u64) -> Option<Rc<Asked>> {
        self.open.borrow().get(&(process, key)).cloned()
    }

    fn take(&self, process: u32, key: u64) -> Option<Rc<Asked>> {
        self.open.borrow_mut().remove(&(process, key))
    }
}

impl Asked {
    async fn wait(&self) -> Result<i64, Errno> {
        self.ended.wait_until(|| self.end.get().is_some()).await;
        self.end.get().unwrap_or(Ok(0))
    }
}

impl FilesExecutor {
    pub(super) async fn asynchronous(&mut self, turn: &Turn<'_>) -> Reply {
        let (files, process) = (self.files.clone(), turn.process);
        let requests = &files.requests;
        match &turn.step.call {
            Call::AsyncSetup { .. } | Call::AsyncDestroy { .. } => Ok(0),
            Call::AsyncSubmit { ops, wait, .. } => self.submit(turn, ops, *wait).await,
            Call::AsyncReap { seen_keys, .. } => {
                for key in seen_keys {
                    if let Some(request) = requests.take(process, *key) {
                        // Their results are the program's to judge, not the call's.
                        let _end = request.wait().await;
                    }
                }
                Ok(seen_keys.len() as i64)
            }
            // The trace may have asked in vain; what it was told at last is what counts.
            Call::AsyncError { key } => match (turn.step.outcome.value(), requests.find(process, *key)) {
                (Some(0), Some(request)) => Ok(request.wait().await.map(|_| 0)?),
                _ => Err(Fail::Skip(Skip::NotFiles)),
            },
            Call::AsyncReturn { key } => Ok(requests.take(process, *key).ok_or(Errno::EINVAL)?.wait().await?),
            Call::AsyncSuspend { keys } => {
                let first = keys.iter().find_map(|key| requests.find(process, *key));
                if let Some(request) = first {
                    let _end = request.wait().await;
                }
                Ok(0)
            }
            Call::AsyncCancel { .. } => Err(Fail::Skip(Skip::NotFiles)),
            _ => Err(Fail::Skip(Skip::Unseen)),
        }
    }

    async fn submit(&mut self, turn: &Turn<'_>, ops: &[AsyncOp], wait: bool) -> Reply {
        // `io_submit` tells how many it took, the functions of POSIX only that they did.
        let ops = match turn.step.outcome.value() {
            Some(taken) if taken > 0 => &ops[..ops.len().min(taken as usize)],
            _ => ops,
        };
        for op in ops {
            let slot = self.files.slots.get(op.fd)?;
            // A request to something outside ends at once.
            if matches!(slot.what, What::File(_)) {
                self.start(turn.process, op, slot);
            }
        }
        if wait {
            for op in ops {
                if let Some(request) = self.files.requests.find(turn.process, op.key) {
                    let _end = request.wait().await;
                }
            }
        }
        Ok(turn.step.outcome.value().unwrap_or(ops.len() as i64))
    }

    fn start(&self, process: u32, op: &AsyncOp, slot: Rc<OpenSlot>) {
        let files = self.files.clone();
        let number = files.requests.made.replace(files.requests.made.get() + 1);
        let request = Rc::new(Asked::default());
        files.requests.open.borrow_mut().insert((process, op.key), request.clone());
        let random = Stream::named(files.shared.seed, &format!("request {number}"));
        let mut hand = FilesExecutor::with_bytes_of(files.clone(), random);
        let op = op.clone();
        files.shared.rt.spawn_detached("request", async move {
            request.end.set(Some(hand.make(&op, &slot).await));
            request.ended.notify_all();
        });
    }

    async fn make(&mut self, op: &AsyncOp, slot: &OpenSlot) -> Result<i64, Errno> {
        let file = slot.file()?;
        let (fd, offset, len) = (op.fd, op.offset as i64, op.len);
        let flags = ReadWriteFlags::empty();
        // Charged as the call that it stands for.
        let call = match op.kind {
            AsyncKind::Read => Call::Pread { fd, offset, len, parts: 0, flags },
            AsyncKind::Write => Call::Pwrite { fd, offset, len, parts: 0, flags },
            AsyncKind::Sync => Call::Sync { fd, kind: SyncKind::Full },
            AsyncKind::DataSync => Call::Sync { fd, kind: SyncKind::Data },
            AsyncKind::Poll | AsyncKind::Other => return Ok(0),
        };
        let end = match call {
            Call::Pread { .. } => self.read_file(file, Some(op.offset), len).await.map(|read| read as i64),
            Call::Pwrite { .. } => self.write_file(file, Some(op.offset), len).await.map(|written| written as i64),
            Call::Sync { kind: SyncKind::Full, .. } => file.process().fsync(file.fd()).await.map(|()| 0),
            _ => file.process().fdatasync(file.fd()).await.map(|()| 0),
        };
        self.moved = end.map_or(0, |moved| moved as u64);
        self.charge(&call).await;
        end
    }
}
