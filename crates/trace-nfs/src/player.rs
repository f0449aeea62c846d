//! Turns pairs of requests and replies into changes of the image and calls on the target.
//!
//! The image leads: a call is made where image and target must agree. What a lookup teaches touches nothing on the
//! target, unless it shows that something moved. Directories come into being on the target when something in them does,
//! and go with the last thing in them.

mod bytes;
mod names;

use esker_base::{Errno, Nanos, Stream};

use crate::report::NfsReport;
use crate::request::{Handle, NfsReply, NfsRequest};
use crate::target::ReplayTarget;
use crate::tree::{NodeId, NodeKind, ROOT, ServerTree, TreeLimits};

/// What a call that finds no room waits, and how often.
const ROOM_WAIT: Nanos = Nanos::secs(10);
const ROOM_WAITS_MAX: u32 = 3;
/// Part of the bytes of the target that must be written behind waits in vain before calls wait again.
const ROOM_REGAINED: u64 = 16;
/// Bytes that writes are taken from.
const PAYLOAD_BYTES: usize = 1 << 20;

/// What writes carry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NfsPayload {
    /// Zeroes.
    Zeroes,
    /// Random bytes of this seed.
    Random(u64),
}

/// The image of the tree, with its target.
pub struct NfsPlayer<T> {
    target: T,
    tree: ServerTree,
    report: NfsReport,
    payload: Vec<u8>,
    now: Nanos,
    sync_every: Option<Nanos>,
    synced: Option<Nanos>,
    /// Bytes that were written when waits were in vain for the last time.
    full_at: Option<u64>,
}

impl<T: ReplayTarget> NfsPlayer<T> {
    /// A player that knows nothing yet. It syncs the target whenever so much time of the trace has passed.
    pub fn new(target: T, limits: TreeLimits, payload: NfsPayload, sync_every: Option<Nanos>) -> NfsPlayer<T> {
        let mut bytes = vec![0; PAYLOAD_BYTES];
        if let NfsPayload::Random(seed) = payload {
            Stream::named(seed, "nfs payload").fill(&mut bytes);
        }
        NfsPlayer {
            target,
            tree: ServerTree::new(limits),
            report: NfsReport::default(),
            payload: bytes,
            now: Nanos::ZERO,
            sync_every,
            synced: None,
            full_at: None,
        }
    }

    /// The image.
    pub fn tree(&self) -> &ServerTree {
        &self.tree
    }

    /// The target.
    pub fn target(&mut self) -> &mut T {
        &mut self.target
    }

    /// What was counted: pairs and calls.
    pub fn report(&self) -> NfsReport {
        let losses = self.tree.losses();
        NfsReport {
            names_max: self.tree.len_max(),
            forgotten: losses.learnt,
            abandoned: losses.on_target,
            ..self.report.clone()
        }
    }

    /// Plays one pair.
    pub async fn play(&mut self, now: Nanos, request: NfsRequest, reply: NfsReply) {
        self.now = now;
        self.tree.collect(now);
        self.sync_if_due().await;
        match request {
            NfsRequest::Lookup { dir, name } => {
                self.report.lookup += 1;
                if let Some(name) = name {
                    self.lookup(dir, &name, reply).await;
                }
            }
            NfsRequest::Create { dir, name, truncate } => {
                self.report.create += 1;
                self.make(dir, &name, reply.handle, NodeKind::File, truncate).await;
            }
            NfsRequest::MakeDir { dir, name } => {
                self.report.create += 1;
                self.make(dir, &name, reply.handle, NodeKind::Dir, false).await;
            }
            NfsRequest::Remove { dir, name } => {
                self.report.remove += 1;
                self.remove(dir, &name).await;
            }
            NfsRequest::Rename { from_dir, from, to_dir, to } => {
                self.report.rename += 1;
                self.rename((from_dir, &from), (to_dir, &to)).await;
            }
            NfsRequest::Link { file, dir, name } => {
                self.report.link += 1;
                self.link(file, dir, &name).await;
            }
            NfsRequest::Symlink { dir, name, text } => {
                self.report.symlink += 1;
                self.symlink(dir, &name, &text, reply.handle).await;
            }
            NfsRequest::Write { file, offset, count } => {
                self.report.write += 1;
                self.write(file, offset, count, reply).await;
            }
            NfsRequest::SetAttributes { file, mode, times } => {
                self.report.setattr += 1;
                self.set_attributes(file, mode, times).await;
            }
            NfsRequest::Look { file } => {
                self.report.look += 1;
                self.look(file).await;
            }
            NfsRequest::Other => self.report.other += 1,
        }
    }

    /// Makes the target durable, at the end.
    pub async fn sync(&mut self) {
        self.report.syncs += 1;
        self.call(async |target| target.sync().await).await;
    }

    async fn sync_if_due(&mut self) {
        let Some(interval) = self.sync_every else { return };
        // A damaged line may have told a time that is far ahead.
        let last = self.synced.map_or(self.now, |last| last.min(self.now));
        self.synced = Some(last);
        if self.now.saturating_sub(last) >= interval {
            self.synced = Some(self.now);
            self.sync().await;
        }
    }

    /// Makes a call, and again after a wait if there is no room: a cleaner may be at work. Counts what fails.
    async fn try_call(&mut self, mut call: impl AsyncFnMut(&mut T) -> Result<(), Errno>) -> Result<(), Errno> {
        self.report.calls += 1;
        let mut waits = 0;
        loop {
            match call(&mut self.target).await {
                Err(Errno::ENOSPC) if waits < ROOM_WAITS_MAX && (waits > 0 || self.may_wait().await) => {
                    waits += 1;
                    self.report.waits += 1;
                    self.target.wait(ROOM_WAIT).await;
                }
                Err(Errno::ENOSPC) => {
                    if waits > 0 {
                        self.full_at = Some(self.report.bytes_written);
                    }
                    self.report.no_room += 1;
                    return Err(Errno::ENOSPC);
                }
                other => return other,
            }
        }
    }

    /// Whether a wait for room may help. On a target that stays full, each of millions of calls would wait.
    async fn may_wait(&mut self) -> bool {
        let Some(before) = self.full_at else { return true };
        let written = self.report.bytes_written - before;
        self.target.room().await.is_ok_and(|room| written >= room.bytes / ROOM_REGAINED)
    }

    fn note_failure(&mut self, error: Errno) {
        if error != Errno::ENOSPC {
            self.report.failed += 1;
            self.report.first_failure.get_or_insert_with(|| format!("{error} at line {}", self.report.lines));
        }
    }

    /// The same: whether it succeeded.
    async fn call(&mut self, call: impl AsyncFnMut(&mut T) -> Result<(), Errno>) -> bool {
        match self.try_call(call).await {
            Ok(()) => true,
            Err(error) => {
                self.note_failure(error);
                false
            }
        }
    }

    /// Notes the number of the line, for messages.
    pub(crate) fn at_line(&mut self, line: u64) {
        self.report.lines = line;
    }

    /// The directory of a handle.
    async fn dir(&mut self, handle: Handle) -> NodeId {
        self.known(handle, NodeKind::Dir).await
    }

    /// The node of a handle, which becomes one in the root if there is none. Nodes of another kind are of a file that
    /// is gone.
    async fn known(&mut self, handle: Handle, kind: NodeKind) -> NodeId {
        if self.tree.with_handle(handle).any(|id| self.tree.node(id).kind != kind) {
            self.retire(handle, None).await;
        }
        match self.tree.find(handle) {
            Some(id) => {
                self.tree.touch(id, self.now);
                id
            }
            None => {
                let name = self.tree.spare_name(handle);
                self.tree.add(ROOT, &name, kind, handle, self.now)
            }
        }
    }

    /// The nodes of a handle but `keep` are of a file that is gone, since the server gives its number to another one.
    async fn retire(&mut self, handle: Handle, keep: Option<NodeId>) {
        let stale: Vec<NodeId> = self.tree.with_handle(handle).filter(|id| Some(*id) != keep).collect();
        for id in stale {
            if self.tree.has_children(id) {
                self.tree.set_handle(id, 0);
            } else {
                let dir = self.tree.node(id).parent;
                self.erase(id).await;
                self.clear(dir).await;
            }
        }
    }

    /// Removes a node without children from image and target.
    async fn erase(&mut self, id: NodeId) {
        if self.tree.node(id).on_target {
            let (path, kind) = (self.tree.path(id), self.tree.node(id).kind);
            let gone = self.try_call(async |target| match kind {
                NodeKind::Dir => target.remove_dir(&path).await,
                NodeKind::File | NodeKind::Symlink => target.remove(&path).await,
            });
            match gone.await {
                Ok(()) | Err(Errno::ENOENT) => {}
                Err(error) => self.note_failure(error),
            }
        }
        self.tree.remove(id);
    }

    /// Removes directories from the target that have nothing in them there, from `dir` upwards.
    async fn clear(&mut self, dir: NodeId) {
        let mut at = dir;
        while at != ROOT && self.tree.node(at).on_target && self.tree.node(at).on_target_children == 0 {
            let path = self.tree.path(at);
            match self.try_call(async |target| target.remove_dir(&path).await).await {
                Ok(()) | Err(Errno::ENOENT) => self.tree.set_on_target(at, false),
                // It holds what the image forgot.
                Err(_) => return,
            }
            at = self.tree.node(at).parent;
        }
    }

    /// Makes sure that the target has a directory and those above it.
    async fn place(&mut self, dir: NodeId) -> bool {
        let missing = self.tree.upwards(dir).take_while(|id| !self.tree.node(*id).on_target);
        let missing: Vec<NodeId> = missing.collect();
        for id in missing.into_iter().rev() {
            let path = self.tree.path(id);
            match self.try_call(async |target| target.make_dir(&path).await).await {
                Ok(()) | Err(Errno::EEXIST) => self.tree.set_on_target(id, true),
                Err(error) => {
                    self.note_failure(error);
                    return false;
                }
            }
        }
        true
    }

    /// Frees a name: what is there goes, or moves to the root if something lies below it.
    async fn vacate(&mut self, dir: NodeId, name: &[u8]) {
        match self.tree.child(dir, name) {
            Some(id) if self.tree.has_children(id) => self.displace(id).await,
            Some(id) => self.erase(id).await,
            None => {}
        }
    }

    /// Moves a node to the root, under its handle.
    async fn displace(&mut self, id: NodeId) {
        let name = self.tree.spare_name(self.tree.node(id).handle);
        self.relocate(id, ROOT, &name).await;
    }

    /// Moves a node in image and target. There it takes the place of an occupant, which has nothing below it. If the
    /// target refuses, it changes nothing and answers false.
    async fn relocate(&mut self, id: NodeId, dir: NodeId, name: &[u8]) -> bool {
        let (old_dir, on_target) = (self.tree.node(id).parent, self.tree.node(id).on_target);
        let occupant = self.tree.child(dir, name);
        if occupant.is_some_and(|occupant| self.tree.has_children(occupant)) {
            return false;
        }
        if on_target {
            if !self.place(dir).await {
                return false;
            }
            let from = self.tree.path(id);
            let to = [&self.tree.path(dir)[..], name].join(&b'/');
            let to = to.strip_prefix(b"/").unwrap_or(&to).to_vec();
            if !self.call(async |target| target.rename(&from, &to).await).await {
                return false;
            }
        }
        if let Some(occupant) = occupant {
            self.tree.remove(occupant);
        }
        self.tree.move_to(id, dir, name);
        self.tree.touch(id, self.now);
        if on_target && old_dir != dir {
            self.clear(old_dir).await;
        }
        true
    }
}
