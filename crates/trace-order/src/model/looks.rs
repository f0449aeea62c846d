//! Which calls only look: they change nothing of the files, or of the descriptors, that they use, that any other call
//! could notice. Two of these may be replayed in either order. An action that is not known to look is taken to change.

use esker_trace_calls::action::ThreadId;
use esker_trace_calls::call::{Call, Effect, Fd};
use esker_trace_calls::words::FileKind;

use crate::rules::Looks;

use super::World;

impl World {
    /// What a call only looks at, before it is played.
    pub(super) fn looks(&self, thread: ThreadId, call: &Call) -> Looks {
        let on_fd = |looks| call.fd().map_or(Looks::empty(), |fd| self.on_data(thread, fd, looks));
        match call.effect() {
            Effect::Changes => Looks::empty(),
            Effect::Looks => Looks::all(),
            Effect::LooksThrough => on_fd(Looks::all()),
            Effect::MovesOffset => call.fd().map_or(Looks::empty(), |fd| self.by_offset(thread, fd)),
            Effect::ChangesDescriptor => on_fd(Looks::FILES),
            Effect::ChangesFile => on_fd(Looks::DESCRIPTORS),
            Effect::Opens => Looks::FILES,
        }
    }

    /// The same once it was played: what was opened is known only then.
    pub(super) fn looked_on(&self, call: &Call, looks: Looks) -> Looks {
        let opened = self.object.filter(|_| matches!(call, Call::Open { .. }));
        if opened.is_some_and(|id| !has_data(self.tree.inode(id).kind)) { Looks::empty() } else { looks }
    }

    /// Of a call that moves an offset, which descriptors share that were doubled: nothing but the file's order keeps
    /// them apart.
    fn by_offset(&self, thread: ThreadId, fd: Fd) -> Looks {
        let shared = self.peek(thread, fd.0).is_some_and(|known| self.descriptions[known.description].users > 1);
        if shared { Looks::empty() } else { self.on_data(thread, fd, Looks::FILES) }
    }

    /// What comes out of pipes and sockets is gone for others; from what has data it can be read again.
    fn on_data(&self, thread: ThreadId, fd: Fd, looks: Looks) -> Looks {
        let has_data = self.descriptor(thread, fd).is_some_and(|(kind, _)| has_data(kind));
        if has_data { looks } else { Looks::empty() }
    }
}

fn has_data(kind: FileKind) -> bool {
    matches!(kind, FileKind::Regular | FileKind::BlockDevice | FileKind::Directory)
}
