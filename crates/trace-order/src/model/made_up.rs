//! Files that the kernel makes up while they are read, those of `/proc` and `/sys`. They have no size, or a wrong one,
//! and each reading may find another content. A replay has a copy that is as large as the trace read of it; a look at
//! its size tells nothing, and a read asks for no more than it got. What their directories list is not compared.

use esker_trace_calls::action::{Action, ThreadId};
use esker_trace_calls::call::{Call, Fd};
use esker_trace_calls::words::FileKind;

use super::World;
use super::tree::InodeId;

impl World {
    /// Whether a file is one of them.
    pub(super) fn is_made_up(&self, id: InodeId) -> bool {
        self.tree.inode(id).kind == FileKind::Regular && self.is_in_made_up(id)
    }

    fn is_in_made_up(&self, id: InodeId) -> bool {
        [&b"proc"[..], b"sys"].contains(&self.tree.first_name(self.tree.inode(id).node))
    }

    /// Whether a call reads a directory that the kernel makes up: its entries are processes, threads and descriptors.
    pub(super) fn lists_made_up(&self, thread: ThreadId, call: &Call) -> bool {
        let Call::ReadDir { fd, .. } = call else { return false };
        let known = self.peek(thread, fd.0).map(|descriptor| self.descriptions[descriptor.description].inode);
        known.is_some_and(|id| self.is_in_made_up(id))
    }

    /// Changes `call`, the action that was just played as a replay needs it, so that a copy answers it as the file did.
    pub(super) fn fit_made_up(&self, thread: ThreadId, action: &Action, call: &mut Call) {
        let made_up = |fd: Fd| {
            let known = self.peek(thread, fd.0).map(|descriptor| self.descriptions[descriptor.description]);
            known.is_some_and(|known| self.is_made_up(known.inode))
        };
        match (&action.call, call) {
            (Call::Read { fd, .. }, Call::Read { len, .. }) | (Call::Pread { fd, .. }, Call::Pread { len, .. })
                if made_up(*fd) =>
            {
                *len = action.outcome.value().map_or(*len, |count| count as u64);
            }
            (Call::Stat { .. }, Call::Stat { seen, .. }) if self.object.is_some_and(|id| self.is_made_up(id)) => {
                *seen = None;
            }
            _ => (),
        }
    }
}
