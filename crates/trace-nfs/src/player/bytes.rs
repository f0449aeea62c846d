//! Bytes and attributes.

use esker_base::digest::mix;
use esker_base::{Errno, Nanos};

use super::NfsPlayer;
use crate::request::{Handle, NfsReply};
use crate::target::ReplayTarget;
use crate::tree::NodeKind;

/// Permissions of their owner that files and directories keep: a replay that is not the superuser's must go on.
const FILE_OWNER: u16 = 0o600;
const DIR_OWNER: u16 = 0o700;

impl<T: ReplayTarget> NfsPlayer<T> {
    /// Writes bytes.
    pub(super) async fn write(&mut self, file: Handle, offset: u64, count: u64, reply: NfsReply) {
        let id = self.known(file, NodeKind::File).await;
        if !self.place(self.tree.node(id).parent).await {
            return;
        }
        let path = self.tree.path(id);
        if reply.size == Some(0) && !self.call(async |target| target.create(&path, true).await).await {
            return;
        }
        let end = offset + reply.count.map_or(count, |written| written.min(count));
        let mut at = offset;
        loop {
            let len = (end - at).min(self.payload.len() as u64);
            let written = self.write_piece(&path, at, len as usize, file).await;
            match written {
                // Without room the file may be there all the same: its removal must reach the target.
                Ok(()) | Err(Errno::ENOSPC) => self.tree.set_on_target(id, true),
                Err(error) => self.note_failure(error),
            }
            at += len;
            if written.is_err() || at == end {
                return;
            }
        }
    }

    async fn write_piece(&mut self, path: &[u8], at: u64, len: usize, file: Handle) -> Result<(), Errno> {
        // Where the bytes begin differs, or all files would be alike.
        let start = (mix(file ^ mix(at)) % (self.payload.len() - len + 1) as u64) as usize;
        let payload = std::mem::take(&mut self.payload);
        let written = self.try_call(async |target| target.write(path, at, &payload[start..start + len]).await).await;
        self.payload = payload;
        if written.is_ok() {
            self.report.bytes_written += len as u64;
        }
        written
    }

    /// Changes permissions and times of a file that the target has.
    pub(super) async fn set_attributes(
        &mut self,
        file: Handle,
        mode: Option<u16>,
        (access, change): (Option<Nanos>, Option<Nanos>),
    ) {
        let Some(id) = self.tree.find(file) else { return };
        self.tree.touch(id, self.now);
        let (kind, path) = (self.tree.node(id).kind, self.tree.path(id));
        if !self.tree.node(id).on_target || kind == NodeKind::Symlink {
            return;
        }
        if let Some(mode) = mode {
            let mode = mode | if kind == NodeKind::Dir { DIR_OWNER } else { FILE_OWNER };
            self.call(async |target| target.set_mode(&path, mode).await).await;
        }
        if access.is_some() || change.is_some() {
            self.call(async |target| target.set_times(&path, access, change).await).await;
        }
    }

    /// Reads the attributes of a file that the target has.
    pub(super) async fn look(&mut self, file: Handle) {
        let Some(id) = self.tree.find(file) else { return };
        self.tree.touch(id, self.now);
        if self.tree.node(id).on_target {
            let path = self.tree.path(id);
            self.call(async |target| target.look(&path).await).await;
        }
    }
}
