//! Calls as a replay needs them: descriptors as slots, paths that depend on no working directory, permission bits with
//! the mask worked in.

use esker_trace_calls::action::{Outcome, ThreadId};
use esker_trace_calls::call::{At, Call, Fd};
use esker_trace_calls::name::PathBytes;
use esker_trace_calls::words::{FileKind, LockKind, OpenFlags, RecordLock};

use crate::compiled::SlotEffect;
use crate::rules::{Instant, Looks};

use super::World;
use super::world::Description;

/// A descriptor that is not open.
const NO_SLOT: Fd = Fd(-1);

impl World {
    /// The call with slots in place of numbers, before it is played.
    pub(super) fn rewritten(&self, thread: ThreadId, call: &Call) -> Call {
        let mut call = call.clone();
        call.change_ats(&mut |at| self.anchor(thread, at));
        call.change_fds(&mut |fd| {
            if *fd != Fd::CWD {
                *fd = self.peek(thread, fd.0).map_or(NO_SLOT, |descriptor| Fd(descriptor.slot));
            }
        });
        if let Some(touch) = self.touch_of(thread, &call) {
            call = touch;
        }
        let mask = !self.umask(thread);
        match &mut call {
            Call::Open { mode, .. }
            | Call::Mkdir { mode, .. }
            | Call::Mknod { mode, .. }
            | Call::Bind { mode, .. }
            | Call::ShmOpen { mode, .. } => {
                *mode &= mask;
            }
            _ => (),
        }
        call
    }

    /// A path from the working directory becomes an absolute one; an absolute one needs no descriptor.
    fn anchor(&self, thread: ThreadId, at: &mut At) {
        if at.descriptor().is_some() {
            // A name for what is open: the slot is what counts.
        } else if at.path.first() == Some(&b'/') {
            at.dir = Fd::CWD;
        } else if at.dir == Fd::CWD && !at.path.is_empty() {
            at.path = below(self.cwd_path(thread).to_vec(), &at.path);
        }
    }

    /// Whether a call may wait for calls of other threads.
    pub(super) fn may_wait(&self, thread: ThreadId, call: &Call) -> bool {
        let waits = |fd: &Fd| {
            let description = self.peek(thread, fd.0).map(|descriptor| self.descriptions[descriptor.description]);
            description.is_some_and(|description| {
                match self.tree.inode(description.inode).kind {
                    // A read that found data there without waiting waits for it in a replay, where it may come later.
                    FileKind::Fifo => true,
                    FileKind::Socket | FileKind::Other | FileKind::CharDevice => {
                        !description.flags.contains(OpenFlags::O_NONBLOCK)
                    }
                    _ => false,
                }
            })
        };
        match call {
            Call::Read { fd, .. } | Call::Write { fd, .. } | Call::Socket { fd, .. } | Call::ReceiveFds { fd, .. } => {
                waits(fd)
            }
            Call::SendFile { to, from, .. }
            | Call::CopyRange { from, to, .. }
            | Call::Splice { from, to, .. }
            | Call::Tee { from, to, .. } => waits(from) || waits(to),
            Call::MakeFd { from, .. } => from.0 >= 0 && waits(from),
            Call::Flock { kind, wait, .. } => *wait && *kind != LockKind::Unlock,
            Call::RangeLock { cmd, kind, .. } => {
                matches!(cmd, RecordLock::SetWait | RecordLock::OfdSetWait) && *kind != LockKind::Unlock
            }
            Call::Poll { timeout_ms, .. } | Call::EpollWait { timeout_ms, .. } => *timeout_ms != 0,
            Call::AsyncReap { min, .. } => *min > 0,
            // Else its requests are actions of their own.
            Call::UringEnter { submit, wait, .. } => *submit > 0 && *wait > 0,
            Call::Open { at, .. } => self.is_fifo(thread, at),
            Call::AsyncSuspend { .. }
            | Call::Wait { .. }
            | Call::FutexWait { .. }
            | Call::Other { .. }
            | Call::Ioctl { .. } => true,
            _ => false,
        }
    }

    /// Whether a number that a call tells for a new descriptor still stands for another: the call that closes that has
    /// not done so yet.
    pub(super) fn is_taken(&self, thread: ThreadId, call: &Call, outcome: Outcome) -> bool {
        let made = if let Call::DupTo { .. } = call { Vec::new() } else { call.fds_made(outcome) };
        made.iter().any(|(fd, _)| self.peek(thread, fd.0).is_some())
    }

    /// `vmsplice` is recorded as a write. On the end of a pipe from which data is read it is a read.
    pub(super) fn turn_vmsplice(&self, thread: ThreadId, call: &mut Call) {
        let Call::Write { fd, len, parts } = *call else { return };
        let reads = self.peek(thread, fd.0).is_some_and(|descriptor| {
            let Description { inode, flags, .. } = self.descriptions[descriptor.description];
            let is_pipe = self.tree.inode(inode).kind == FileKind::Fifo;
            is_pipe && flags.contains(OpenFlags::READ) && !flags.contains(OpenFlags::WRITE)
        });
        if reads && parts > 0 {
            *call = Call::Read { fd, len, parts };
        }
    }

    /// Puts the descriptors of a thread in the place of names for them.
    pub(super) fn resolve_aliases(&self, thread: ThreadId, call: &mut Call) {
        call.resolve_aliases(&|fd| self.peek(thread, fd.0).is_some());
        self.leave_jail(thread, call);
    }

    fn is_fifo(&self, thread: ThreadId, at: &At) -> bool {
        if let Some(fd) = at.descriptor() {
            return self.descriptor(thread, fd).is_some_and(|(kind, _)| kind == FileKind::Fifo);
        }
        let id = Some(&at.path).filter(|path| path.first() == Some(&b'/')).and_then(|path| self.inode_at(path));
        id.is_some_and(|id| self.tree.inode(id).kind == FileKind::Fifo)
    }
}

/// A relative path below a directory, whose own path has neither links nor dots: then the first steps up shorten it,
/// and it does not grow where a program goes up and down.
fn below(mut dir: Vec<u8>, mut path: &[u8]) -> PathBytes {
    while let Some(rest) = path.strip_prefix(b"../") {
        dir.truncate(dir.iter().rposition(|byte| *byte == b'/').unwrap_or(0));
        path = &rest[rest.iter().position(|byte| *byte != b'/').unwrap_or(rest.len())..];
    }
    if dir.last() != Some(&b'/') {
        dir.push(b'/');
    }
    dir.extend_from_slice(if path.is_empty() { b"." } else { path });
    PathBytes::from(dir)
}

/// Slots that a call made take the place of the numbers that it told.
pub(super) fn name_made(call: &mut Call, effects: &[SlotEffect]) {
    let mut made =
        effects.iter().filter_map(|effect| if let SlotEffect::Made(slot) = effect { Some(*slot) } else { None });
    match call {
        Call::Pipe { seen_read: first, seen_write: second, .. }
        | Call::SocketPair { seen_first: first, seen_second: second, .. } => {
            *first = made.next().unwrap_or(NO_SLOT);
            *second = made.next().unwrap_or(NO_SLOT);
        }
        Call::DupTo { to, .. } => *to = made.next().unwrap_or(*to),
        _ => (),
    }
}

/// When an action was done, for the rules.
pub(super) fn instant(action: &esker_trace_calls::action::Action, waits: bool, looks: Looks) -> Instant {
    let begins = matches!(action.call, Call::Clone { child: Some(_), .. } | Call::FutexWake { .. });
    Instant { thread: action.thread.0, waits, looks, begins, enter: action.enter.0, leave: action.leave.0 }
}

/// Calls that copy or close many descriptors at once.
pub(super) fn has_copies(call: &Call) -> bool {
    matches!(
        call,
        Call::Clone { .. } | Call::Unshare { .. } | Call::CloseRange { .. } | Call::Exec { .. } | Call::Exit { .. }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_up_shorten_the_path_of_the_working_directory() {
        let check = |dir: &str, path: &str, whole: &str| {
            assert_eq!(below(dir.as_bytes().to_vec(), path.as_bytes()).to_string(), whole, "{path} in {dir}");
        };
        check("/a/b", "c/../d", "/a/b/c/../d");
        check("/a/b", "../c", "/a/c");
        check("/a/b", "..///../c", "/c");
        check("/a", "../../../c", "/c");
        check("/", "../c", "/c");
        check("/a/b", "../", "/a/.");
        check("/a/b", "..", "/a/b/..");
    }
}
