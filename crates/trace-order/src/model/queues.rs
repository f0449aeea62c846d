//! Asynchronous requests: a control block lives from submission to return, and points to a descriptor and its file.

use esker_base::Errno;
use esker_trace_calls::action::ThreadId;
use esker_trace_calls::call::{AsyncOp, Fd};
use esker_trace_calls::words::AsyncKind;

use super::World;
use super::resource::{Resource, ResourceKind, Role};
use super::world::{Answer, Request};

impl World {
    pub(super) fn submit(&mut self, thread: ThreadId, ops: &[AsyncOp]) -> Answer<i64> {
        let taken = self.seen.map_or(ops.len(), |seen| usize::try_from(seen).unwrap_or(0)).min(ops.len());
        for op in &ops[..taken.max(usize::from(!ops.is_empty() && self.dry))] {
            let description = self.fd_for_io(thread, op.fd)?;
            if self.dry {
                continue;
            }
            self.begin_request(op, description.inode);
            let inode = self.tree.inode_mut(description.inode);
            if op.kind == AsyncKind::Write {
                inode.size = inode.size.max(op.offset.saturating_add(op.len));
                inode.implied = None;
            }
        }
        Ok(taken as i64)
    }

    fn begin_request(&mut self, op: &AsyncOp, inode: super::tree::InodeId) {
        let previous = self.request_generations.get(&op.key).copied();
        let generation = previous.map_or(1, |id| self.ledger.resources()[id as usize].generation + 1);
        let resource = Resource { kind: ResourceKind::Aio, key: op.key, generation, previous };
        let resource = self.ledger.add(resource);
        self.request_generations.insert(op.key, resource);
        self.requests.insert(op.key, Request { resource, inode });
        self.ledger.touch(resource, Role::Create);
    }

    /// Requests are looked at; unknown ones are none of ours.
    pub(super) fn look_at_requests(&mut self, keys: &[u64]) -> Answer<i64> {
        for request in keys.iter().filter_map(|key| self.requests.get(key)) {
            self.ledger.touch(request.resource, Role::Use);
        }
        Ok(self.seen.unwrap_or(0))
    }

    /// Requests come back, and their control blocks are free.
    pub(super) fn return_requests(&mut self, keys: &[u64]) -> Answer<i64> {
        for key in keys {
            let Some(request) = self.requests.get(key).copied() else { continue };
            self.ledger.touch(request.resource, Role::Delete);
            self.touch_inode(request.inode, Role::Use);
            if !self.dry {
                self.requests.remove(key);
            }
        }
        Ok(self.seen.unwrap_or(0))
    }

    /// One result is taken: `aio_return` knows only requests that were made.
    pub(super) fn return_request(&mut self, key: u64) -> Answer<i64> {
        if self.requests.contains_key(&key) { self.return_requests(&[key]) } else { Err(Errno::EINVAL) }
    }

    /// Descriptors that a wait for readiness names; those that are not open are told, not refused.
    pub(super) fn poll(&mut self, thread: ThreadId, fds: &[Fd]) -> Answer<i64> {
        for fd in fds {
            if self.peek(thread, fd.0).is_some() {
                self.fd(thread, *fd)?;
            }
        }
        Ok(self.seen.unwrap_or(0))
    }
}
