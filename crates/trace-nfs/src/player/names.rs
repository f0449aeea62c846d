//! Names: lookups, and what makes, moves and removes them.

use esker_base::Errno;

use super::NfsPlayer;
use crate::request::{Handle, NfsReply, ReplyKind};
use crate::target::ReplayTarget;
use crate::tree::{NodeId, NodeKind, ROOT};

impl<T: ReplayTarget> NfsPlayer<T> {
    /// Learns a name.
    pub(super) async fn lookup(&mut self, dir: Handle, name: &[u8], reply: NfsReply) {
        let kind = match reply.kind {
            Some(ReplyKind::File) => NodeKind::File,
            Some(ReplyKind::Dir) => NodeKind::Dir,
            Some(ReplyKind::Else) | None => return,
        };
        let Some(handle) = reply.handle.filter(|handle| *handle != dir) else { return };
        let dir = self.dir(dir).await;
        if self.tree.with_handle(handle).any(|id| self.tree.node(id).kind != kind) {
            self.retire(handle, None).await;
        }
        let existing = self.tree.child(dir, name);
        if let Some(id) = existing.filter(|id| self.tree.node(*id).handle == handle) {
            return self.tree.touch(id, self.now);
        }
        if self.tree.has_all_names(handle) {
            self.report.impossible += 1;
            return;
        }
        match (kind, self.tree.find(handle)) {
            (NodeKind::Dir, Some(known)) => self.learn_move(dir, name, known).await,
            (_, Some(known)) if self.tree.node(known).parent == ROOT => {
                self.learn_place(dir, name, handle, known).await;
            }
            (_, _) => self.learn_name(dir, name, handle, kind).await,
        }
    }

    /// A known directory has another place than the image says.
    async fn learn_move(&mut self, dir: NodeId, name: &[u8], known: NodeId) {
        if self.tree.is_within(dir, known) {
            // It cannot lie in itself: the server gave the number to another directory.
            let handle = self.tree.node(known).handle;
            self.tree.set_handle(known, 0);
            return self.learn_name(dir, name, handle, NodeKind::Dir).await;
        }
        if let Some(occupant) = self.tree.child(dir, name) {
            self.displace(occupant).await;
        }
        self.relocate(known, dir, name).await;
    }

    /// A file without a place has one.
    async fn learn_place(&mut self, dir: NodeId, name: &[u8], handle: Handle, known: NodeId) {
        match self.tree.child(dir, name) {
            Some(occupant) if self.tree.node(occupant).kind != NodeKind::File => self.vacate(dir, name).await,
            Some(occupant) if !self.tree.node(known).on_target => {
                self.tree.set_handle(occupant, handle);
                return self.tree.remove(known);
            }
            Some(_) | None => {}
        }
        self.relocate(known, dir, name).await;
    }

    /// A name has a handle of which the image knows nothing, or one more name of a file.
    async fn learn_name(&mut self, dir: NodeId, name: &[u8], handle: Handle, kind: NodeKind) {
        match self.tree.child(dir, name) {
            Some(occupant) if self.tree.node(occupant).kind == kind => {
                self.tree.set_handle(occupant, handle);
                return self.tree.touch(occupant, self.now);
            }
            Some(_) => self.vacate(dir, name).await,
            None => {}
        }
        self.add(dir, name, kind, handle);
    }

    /// Adds a node, unless it would lie too deep, the name is taken because the target refused to free it, or the file
    /// has too many names.
    fn add(&mut self, dir: NodeId, name: &[u8], kind: NodeKind, handle: Handle) -> Option<NodeId> {
        let is_taken = self.tree.child(dir, name).is_some();
        if is_taken || self.tree.is_too_deep(dir) || self.tree.has_all_names(handle) {
            self.report.impossible += 1;
            return None;
        }
        Some(self.tree.add(dir, name, kind, handle, self.now))
    }

    /// Makes a file or a directory.
    pub(super) async fn make(
        &mut self,
        dir: Handle,
        name: &[u8],
        handle: Option<Handle>,
        kind: NodeKind,
        truncate: bool,
    ) {
        let handle = handle.filter(|handle| *handle != dir).unwrap_or(0);
        let dir = self.dir(dir).await;
        let existing = self.tree.child(dir, name);
        // Another file has the handle: it is gone, and the packet that told so was lost.
        self.retire(handle, existing).await;
        let kept = existing.filter(|id| self.tree.node(*id).kind == kind);
        if kept.is_none() {
            self.vacate(dir, name).await;
        }
        let Some(id) = kept.or_else(|| self.add(dir, name, kind, handle)) else { return };
        if handle != 0 {
            self.tree.set_handle(id, handle);
        }
        self.tree.touch(id, self.now);
        if !self.place(dir).await {
            return;
        }
        let path = self.tree.path(id);
        let made = self.try_call(async |target| match kind {
            NodeKind::Dir => target.make_dir(&path).await,
            NodeKind::File | NodeKind::Symlink => target.create(&path, truncate).await,
        });
        match made.await {
            Ok(()) => self.tree.set_on_target(id, true),
            Err(Errno::EEXIST) if kind == NodeKind::Dir => self.tree.set_on_target(id, true),
            Err(error) => self.note_failure(error),
        }
    }

    /// Removes a name.
    pub(super) async fn remove(&mut self, dir: Handle, name: &[u8]) {
        let Some(dir) = self.tree.find(dir) else { return };
        let Some(id) = self.tree.child(dir, name) else { return };
        if self.tree.has_children(id) {
            self.report.kept += 1;
            return;
        }
        self.hand_over(id).await;
        self.erase(id).await;
        self.clear(dir).await;
    }

    /// Gives the bytes of a file to another of its names that the target does not have.
    async fn hand_over(&mut self, id: NodeId) {
        let (handle, on_target) = (self.tree.node(id).handle, self.tree.node(id).on_target);
        let is_heir = |heir: &NodeId| *heir != id && !self.tree.node(*heir).on_target;
        if !on_target || handle == 0 || self.tree.with_handle(handle).any(|other| other != id && !is_heir(&other)) {
            return;
        }
        let Some(heir) = self.tree.with_handle(handle).find(is_heir) else { return };
        if !self.place(self.tree.node(heir).parent).await {
            return;
        }
        let (from, to) = (self.tree.path(id), self.tree.path(heir));
        if self.call(async |target| target.rename(&from, &to).await).await {
            self.tree.set_on_target(id, false);
            self.tree.set_on_target(heir, true);
        }
    }

    /// Moves a name.
    pub(super) async fn rename(&mut self, (from_dir, from): (Handle, &[u8]), (to_dir, to): (Handle, &[u8])) {
        let to_dir = self.dir(to_dir).await;
        let occupant = self.tree.child(to_dir, to);
        let moved = self.tree.find(from_dir).and_then(|dir| self.tree.child(dir, from));
        let Some(id) = moved else {
            // What was there made room for a file of which the image knows nothing.
            self.vacate(to_dir, to).await;
            return self.clear(to_dir).await;
        };
        if occupant == Some(id) {
            return;
        }
        if self.tree.is_within(to_dir, id) || self.tree.is_too_deep(to_dir) {
            self.report.impossible += 1;
            return;
        }
        if let Some(occupant) = occupant {
            let (moved, there) = (self.tree.node(id), self.tree.node(occupant));
            if moved.handle != 0 && moved.handle == there.handle {
                // Two names of one file: rename(2) leaves both.
                return;
            }
            let can_replace = moved.kind != NodeKind::Dir && there.kind != NodeKind::Dir && moved.on_target;
            if !can_replace {
                self.vacate(to_dir, to).await;
            }
        }
        self.relocate(id, to_dir, to).await;
    }

    /// Gives a file one more name.
    pub(super) async fn link(&mut self, file: Handle, dir: Handle, name: &[u8]) {
        if file == dir {
            self.report.impossible += 1;
            return;
        }
        let dir = self.dir(dir).await;
        let file = self.known(file, NodeKind::File).await;
        let handle = self.tree.node(file).handle;
        if let Some(occupant) = self.tree.child(dir, name) {
            if self.tree.node(occupant).handle == handle {
                return self.tree.touch(occupant, self.now);
            }
            self.vacate(dir, name).await;
        }
        let Some(id) = self.add(dir, name, NodeKind::File, handle) else { return };
        if !self.tree.node(file).on_target || !self.place(dir).await {
            return;
        }
        let (old, new) = (self.tree.path(file), self.tree.path(id));
        if self.call(async |target| target.link(&old, &new).await).await {
            self.tree.set_on_target(id, true);
        }
    }

    /// Makes a symbolic link.
    pub(super) async fn symlink(&mut self, dir: Handle, name: &[u8], text: &[u8], handle: Option<Handle>) {
        let handle = handle.filter(|handle| *handle != dir).unwrap_or(0);
        let dir = self.dir(dir).await;
        self.retire(handle, None).await;
        self.vacate(dir, name).await;
        let Some(id) = self.add(dir, name, NodeKind::Symlink, handle) else { return };
        if !self.place(dir).await {
            return;
        }
        let path = self.tree.path(id);
        if self.call(async |target| target.symlink(text, &path).await).await {
            self.tree.set_on_target(id, true);
        }
    }
}
