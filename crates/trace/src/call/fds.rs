//! Which descriptors a call uses, makes and ends.

use super::{Call, Fd, Object};
use crate::action::Outcome;

impl Call {
    /// The descriptors that it uses: all that must be open for it to succeed. The target of [`Call::DupTo`] is none of them.
    pub fn fds_used(&self) -> Vec<Fd> {
        let mut used = Vec::new();
        self.each_fd(&mut |fd| used.push(fd));
        used.retain(|fd| fd.0 >= 0);
        used
    }

    /// The descriptors that it made, each with whether exec closes it, given how it ended.
    pub fn fds_made(&self, outcome: Outcome) -> Vec<(Fd, bool)> {
        let Some(value) = outcome.value() else { return Vec::new() };
        let result = Fd(i32::try_from(value).unwrap_or(-1));
        match self {
            Call::Open { flags, .. } | Call::ShmOpen { flags, .. } => {
                vec![(result, flags.contains(crate::words::OpenFlags::O_CLOEXEC))]
            }
            Call::Dup { cloexec, .. } | Call::DupTo { cloexec, .. } | Call::MakeFd { cloexec, .. } => {
                vec![(result, *cloexec)]
            }
            Call::Pipe { seen_read, seen_write, flags } => {
                let cloexec = flags.contains(crate::words::OpenFlags::O_CLOEXEC);
                vec![(*seen_read, cloexec), (*seen_write, cloexec)]
            }
            Call::SocketPair { seen_first, seen_second, cloexec } => {
                vec![(*seen_first, *cloexec), (*seen_second, *cloexec)]
            }
            Call::ReceiveFds { seen_fds, .. } => seen_fds.iter().map(|fd| (*fd, false)).collect(),
            _ => Vec::new(),
        }
    }

    fn each_fd(&self, see: &mut dyn FnMut(Fd)) {
        match self {
            Call::SendFile { to, from, .. }
            | Call::CopyRange { from, to, .. }
            | Call::Splice { from, to, .. }
            | Call::Tee { from, to, .. }
            | Call::CloneRange { from, to, .. } => [*from, *to].into_iter().for_each(&mut *see),
            Call::AsyncSubmit { ops, .. } => ops.iter().for_each(|op| see(op.fd)),
            Call::Poll { fds, .. } => fds.iter().for_each(|fd| see(*fd)),
            Call::EpollControl { set, fd, .. } => [*set, *fd].into_iter().for_each(&mut *see),
            Call::Watch { queue: set, .. } | Call::Unwatch { queue: set, .. } | Call::EpollWait { set, .. } => {
                see(*set)
            }
            Call::MakeFd { from, .. } => see(*from),
            Call::UringEnter { ring, .. } | Call::UringRegister { ring, .. } => see(*ring),
            _ => {
                self.plain_fd().into_iter().for_each(&mut *see);
                self.objects().into_iter().for_each(|object| see(object_fd(object)));
            }
        }
        self.each_dir(see);
    }

    /// The one descriptor of calls that have just one.
    fn plain_fd(&self) -> Option<Fd> {
        match self {
            Call::Close { fd }
            | Call::Dup { fd, .. }
            | Call::DupTo { fd, .. }
            | Call::Read { fd, .. }
            | Call::Write { fd, .. }
            | Call::Pread { fd, .. }
            | Call::Pwrite { fd, .. }
            | Call::Seek { fd, .. }
            | Call::Allocate { fd, .. }
            | Call::Advise { fd, .. }
            | Call::ReadAhead { fd, .. }
            | Call::Sync { fd, .. }
            | Call::SyncRange { fd, .. }
            | Call::ReadDir { fd, .. }
            | Call::Fcntl { fd, .. }
            | Call::SetFlags { fd, .. }
            | Call::Flock { fd, .. }
            | Call::RangeLock { fd, .. }
            | Call::Ioctl { fd, .. }
            | Call::Map { fd, .. }
            | Call::MapTouch { fd, .. }
            | Call::AsyncCancel { fd, .. }
            | Call::Socket { fd, .. }
            | Call::ReceiveFds { fd, .. }
            | Call::GetDirEntriesAttr { fd, .. }
            | Call::Hinted { fd, .. }
            | Call::Preallocate { fd, .. } => Some(*fd),
            _ => None,
        }
    }

    /// The objects of calls that take path or descriptor.
    pub fn objects(&self) -> Vec<&Object> {
        match self {
            Call::Truncate { file, .. }
            | Call::Stat { file, .. }
            | Call::Access { file, .. }
            | Call::Chmod { file, .. }
            | Call::Chown { file, .. }
            | Call::SetTimes { file, .. }
            | Call::GetXattr { file, .. }
            | Call::SetXattr { file, .. }
            | Call::ListXattr { file, .. }
            | Call::RemoveXattr { file, .. }
            | Call::StatFs { file }
            | Call::NameToHandle { file }
            | Call::Chdir { file }
            | Call::Exec { file }
            | Call::GetAttrList { file, .. }
            | Call::SetAttrList { file, .. }
            | Call::SearchFs { file }
            | Call::FsControl { file, .. }
            | Call::Undocumented { file, .. }
            | Call::GetXattrAt { file, .. }
            | Call::SetXattrAt { file, .. } => vec![file],
            Call::Link { from, .. } | Call::CloneFile { from, .. } => vec![from],
            Call::ExchangeData { first, second } => vec![first, second],
            _ => Vec::new(),
        }
    }

    fn each_dir(&self, see: &mut dyn FnMut(Fd)) {
        let mut dir = |at: &super::At| {
            if !at.path.starts_with(b"/") {
                see(at.dir);
            }
        };
        match self {
            Call::Open { at, .. }
            | Call::ReadLink { at, .. }
            | Call::Watch { at, .. }
            | Call::Mkdir { at, .. }
            | Call::Mknod { at, .. }
            | Call::Symlink { at, .. }
            | Call::Unlink { at }
            | Call::Rmdir { at }
            | Call::Chroot { at } => dir(at),
            Call::Link { to, .. } | Call::CloneFile { to, .. } => dir(to),
            Call::Rename { from, to, .. } => [from, to].into_iter().for_each(dir),
            _ => {}
        }
    }
}

/// The descriptor that an object needs, or a negative number.
fn object_fd(object: &Object) -> Fd {
    match object {
        Object::Fd(fd) => *fd,
        Object::Path { at, .. } if !at.path.starts_with(b"/") => at.dir,
        Object::Path { .. } => Fd::CWD,
    }
}
