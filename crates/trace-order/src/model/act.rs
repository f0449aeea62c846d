//! From a call to its answer.

use esker_trace_calls::action::ThreadId;
use esker_trace_calls::call::{Call, Fd, Object};
use esker_trace_calls::words::{CloneFlags, FcntlCmd, FdSource, FileKind, OpenFlags};

use super::World;
use super::transfer::TransferOffset;
use super::tree::Inode;
use super::world::Answer;

/// What is known of a call's end before it is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intent {
    /// Nothing: the model's own answer takes effect.
    Free,
    /// It returned this, which takes effect as far as the model allows.
    Follow(i64),
    /// Nothing takes effect.
    Try,
}

impl World {
    /// Plays a call. Its touches are in the ledger afterwards, its effects on slots in [`World::effects`].
    ///
    /// # Errors
    /// What the kernel answers. Nothing has changed then.
    pub fn act(&mut self, thread: ThreadId, call: &Call, intent: Intent) -> Answer<i64> {
        self.ledger.begin();
        self.effects.clear();
        self.grown.clear();
        (self.looked, self.object) = (None, None);
        self.actor = Some(thread);
        self.dry = intent == Intent::Try;
        self.seen = if let Intent::Follow(value) = intent { Some(value) } else { None };
        self.note_start(thread);
        self.play(thread, call)
    }

    /// What the last call did to slots.
    pub fn effects(&self) -> &[crate::compiled::SlotEffect] {
        &self.effects
    }

    fn play(&mut self, thread: ThreadId, call: &Call) -> Answer<i64> {
        match call {
            Call::Open { at, flags, .. } => self.open(thread, at, *flags),
            Call::ShmOpen { name, flags, .. } => self.open_shared(thread, name, *flags),
            Call::Mkdir { at, .. } => self.make(thread, at, Inode::new(FileKind::Directory)),
            Call::Mknod { at, kind, .. } => self.make(thread, at, Inode::new(*kind)),
            Call::Bind { fd, at, .. } => self.bind(thread, *fd, at),
            Call::Chroot { at } => self.chroot(thread, at),
            Call::Symlink { target, at } => self.symlink(thread, target, at),
            Call::Link { from, to } => self.link(thread, from, to),
            Call::CloneFile { from, to } => self.clone_file(thread, from, to),
            Call::Unlink { at } => self.unlink(thread, at),
            Call::ShmUnlink { name } => self.unlink_shared(thread, name),
            Call::Rmdir { at } => self.rmdir(thread, at),
            Call::Rename { from, to, flags } => self.rename(thread, from, to, *flags),
            Call::ExchangeData { first, second } => self.exchange_data(thread, first, second),
            Call::ReadLink { at, len, .. } => self.read_link(thread, at, *len),
            Call::Truncate { file, len } => self.truncate(thread, file, *len),
            Call::Chdir { file } => self.chdir(thread, file),
            Call::Umask { mask } => self.set_umask(thread, *mask),
            Call::Stat { file, .. }
            | Call::Access { file, .. }
            | Call::StatFs { file }
            | Call::NameToHandle { file }
            | Call::GetAttrList { file, .. }
            | Call::SearchFs { file }
            | Call::FsControl { file, .. }
            | Call::Undocumented { file, .. } => self.metadata(thread, file, false),
            Call::Chmod { file, .. }
            | Call::Chown { file, .. }
            | Call::SetTimes { file, .. }
            | Call::SetAttrList { file, .. }
            | Call::GetXattr { file, .. }
            | Call::SetXattr { file, .. }
            | Call::ListXattr { file, .. }
            | Call::RemoveXattr { file, .. }
            | Call::GetXattrAt { file, .. }
            | Call::SetXattrAt { file, .. } => self.metadata(thread, file, true),
            Call::Watch { queue, at, .. } => {
                self.fd_for_io(thread, *queue)?;
                self.metadata(thread, &Object::Path { at: at.clone(), follow: true }, false)
            }
            _ => self.play_descriptors(thread, call),
        }
    }

    /// Calls about the metadata of one file. Those that use its contents need more than `O_PATH`.
    fn metadata(&mut self, thread: ThreadId, file: &Object, contents: bool) -> Answer<i64> {
        if let (Object::Fd(fd), true) = (file, contents)
            && *fd != Fd::CWD
        {
            self.fd_for_io(thread, *fd)?;
        }
        self.object(thread, file)?;
        Ok(self.seen.unwrap_or(0))
    }

    fn play_descriptors(&mut self, thread: ThreadId, call: &Call) -> Answer<i64> {
        match call {
            Call::Close { fd } => self.close(thread, *fd),
            Call::CloseRange { first, last, flags } => self.close_range(thread, *first, *last, *flags),
            Call::Dup { fd, min, cloexec } => self.dup(thread, *fd, *min, *cloexec),
            Call::DupTo { fd, to, cloexec, strict } => self.dup_to(thread, *fd, *to, *cloexec, *strict),
            Call::Read { fd, len, .. } => self.read(thread, *fd, TransferOffset::Current, *len),
            Call::Write { fd, len, .. } => self.write(thread, *fd, TransferOffset::Current, *len),
            Call::Pread { fd, offset, len, .. } => self.read(thread, *fd, TransferOffset::of(*offset)?, *len),
            Call::Pwrite { fd, offset, len, .. } => self.write(thread, *fd, TransferOffset::of(*offset)?, *len),
            Call::Seek { fd, offset, whence } => self.seek(thread, *fd, *offset, *whence),
            Call::Allocate { fd, flags, offset, len } | Call::Preallocate { fd, flags, offset, len } => {
                self.allocate(thread, *fd, *flags, *offset, *len)
            }
            Call::SendFile { to, from, offset, len } => {
                self.copy(thread, (*from, TransferOffset::optional(*offset)?), (*to, TransferOffset::Current), *len)
            }
            Call::CopyRange { from, from_offset, to, to_offset, len }
            | Call::Splice { from, from_offset, to, to_offset, len } => {
                let from = (*from, TransferOffset::optional(*from_offset)?);
                self.copy(thread, from, (*to, TransferOffset::optional(*to_offset)?), *len)
            }
            Call::CloneRange { from, to, from_offset, to_offset, len } => {
                self.share(thread, *from, *to, (*from_offset, *to_offset), *len)
            }
            Call::ReadDir { fd, .. } | Call::GetDirEntriesAttr { fd, .. } => self.read_dir(thread, *fd),
            Call::Sync { fd, .. } => self.sync(thread, *fd),
            Call::Map { fd, len, offset, flags, .. } => self.map(thread, *fd, *offset, *len, *flags),
            Call::Fcntl { fd, cmd: FcntlCmd::SetFd, arg } => self.set_cloexec(thread, *fd, arg & 1 != 0),
            Call::SetFlags { fd, flags } => self.set_flags(thread, *fd, *flags),
            Call::Flock { fd, kind, .. } => self.flock(thread, *fd, *kind),
            Call::Fcntl { fd, .. } => self.used(thread, &[*fd], false),
            Call::Advise { fd, .. }
            | Call::ReadAhead { fd, .. }
            | Call::SyncRange { fd, .. }
            | Call::RangeLock { fd, .. }
            | Call::Ioctl { fd, .. }
            | Call::MapTouch { fd, .. }
            | Call::Socket { fd, .. }
            | Call::Hinted { fd, .. }
            | Call::Unwatch { queue: fd, .. } => self.used(thread, &[*fd], true),
            Call::Tee { from, to, .. } => self.used(thread, &[*from, *to], true),
            _ => self.play_others(thread, call),
        }
    }

    /// Descriptors are used, and nothing else.
    fn used(&mut self, thread: ThreadId, fds: &[Fd], for_io: bool) -> Answer<i64> {
        for fd in fds {
            let descriptor = self.fd(thread, *fd)?;
            if for_io && self.descriptions[descriptor.description].flags.contains(OpenFlags::O_PATH) {
                return Err(esker_base::Errno::EBADF);
            }
        }
        Ok(self.seen.unwrap_or(0))
    }

    fn play_others(&mut self, thread: ThreadId, call: &Call) -> Answer<i64> {
        match call {
            Call::Pipe { seen_read, seen_write, flags } => {
                let ends = [(*seen_read, *flags | OpenFlags::READ), (*seen_write, *flags | OpenFlags::WRITE)];
                self.pair(thread, FileKind::Fifo, ends)
            }
            Call::SocketPair { seen_first, seen_second, cloexec } => {
                let mut flags = OpenFlags::READ | OpenFlags::WRITE;
                flags.set(OpenFlags::O_CLOEXEC, *cloexec);
                self.pair(thread, FileKind::Socket, [(*seen_first, flags), (*seen_second, flags)])
            }
            Call::MakeFd { source, from, cloexec, .. } => {
                if from.0 >= 0 {
                    self.fd(thread, *from)?;
                }
                self.make_fd(thread, kind_of(*source), *cloexec)
            }
            Call::Unmap { address, len } => self.unmap(thread, *address, *len),
            Call::Remap { address, len, new_len } => self.remap(thread, *address, *len, *new_len),
            Call::PageFault { address, .. } | Call::PageWrite { address, .. } => self.fault(thread, *address),
            Call::ReceiveFds { fd, .. } => self.used(thread, &[*fd], true),
            Call::EpollControl { set, fd, .. } => self.used(thread, &[*set, *fd], true),
            Call::EpollWait { set: fd, .. }
            | Call::UringEnter { ring: fd, .. }
            | Call::UringRegister { ring: fd, .. } => self.used(thread, &[*fd], true),
            Call::Poll { fds, .. } => self.poll(thread, fds),
            Call::AsyncSubmit { ops, .. } => self.submit(thread, ops),
            Call::AsyncReap { seen_keys, .. } => self.return_requests(seen_keys),
            Call::AsyncReturn { key } => self.return_request(*key),
            Call::AsyncError { key } => self.look_at_requests(&[*key]),
            Call::AsyncSuspend { keys } => self.look_at_requests(keys),
            Call::AsyncCancel { key, .. } => self.look_at_requests(key.as_slice()),
            Call::Clone { flags, child } => self.spawn(thread, *flags, *child),
            Call::Exec { file } => self.exec(thread, file),
            Call::Exit { group, .. } => self.exit(thread, *group),
            Call::Unshare { flags } => self.unshare(thread, *flags & (CloneFlags::CLONE_FILES | CloneFlags::CLONE_FS)),
            _ => Ok(self.seen.unwrap_or(0)),
        }
    }

    /// Whether the model knows what a call does.
    pub(super) fn is_modelled(call: &Call) -> bool {
        !matches!(call, Call::FsGetPath { .. } | Call::UringEnter { .. } | Call::ReceiveFds { .. })
    }
}

fn kind_of(source: FdSource) -> FileKind {
    match source {
        FdSource::Memory => FileKind::Regular,
        FdSource::Socket | FdSource::Accept => FileKind::Socket,
        _ => FileKind::Other,
    }
}
