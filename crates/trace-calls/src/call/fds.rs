//! The descriptors and paths in a call: which it uses, which it makes, and all of them to be changed.

use super::{At, Call, Fd};
use crate::action::Outcome;
use crate::name::{PathBytes, Word};
use crate::wire::{Field, Part, PartMut};
use crate::words::FdSource;

/// The name that [`Call::MakeFd`] has for a ring that the kernel polls. Of other rings it is empty.
const SQPOLL: &str = "IORING_SETUP_SQPOLL";

impl Call {
    /// The making of an io_uring. With `is_polled` the kernel takes requests of it by itself (`IORING_SETUP_SQPOLL`),
    /// so that no call need tell of them.
    pub fn ring(is_polled: bool) -> Call {
        let name = Word::from(if is_polled { SQPOLL } else { "" });
        Call::MakeFd { source: FdSource::Uring, from: Fd(-1), name, cloexec: true }
    }

    /// Whether it makes an io_uring of which the kernel takes requests by itself.
    pub fn is_polled_ring(&self) -> bool {
        matches!(self, Call::MakeFd { source: FdSource::Uring, name, .. } if name.as_bytes() == SQPOLL.as_bytes())
    }

    /// The descriptors that it uses: all that must be open for it to succeed. The target of [`Call::DupTo`] is none of
    /// them.
    pub fn fds_used(&self) -> Vec<Fd> {
        let mut used = Vec::new();
        match self {
            Call::Pipe { .. } | Call::SocketPair { .. } | Call::AsyncSetup { .. } => (),
            Call::DupTo { fd, .. } | Call::ReceiveFds { fd, .. } => used.push(*fd),
            _ => self.parts(&mut |part| match part {
                Part::Fd(fd) => used.push(fd),
                Part::At(at) if !at.path.starts_with(b"/") || at.descriptor().is_some() => used.push(at.dir),
                Part::At(_) | Part::Path(_) | Part::Word(_) => (),
            }),
        }
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

    /// Its paths that start somewhere.
    pub fn ats(&self) -> Vec<&At> {
        let mut ats = Vec::new();
        self.parts(&mut |part| ats.extend(if let Part::At(at) = part { Some(at) } else { None }));
        ats
    }

    /// Shows each path that starts somewhere to `change`.
    pub fn change_ats(&mut self, change: &mut dyn FnMut(&mut At)) {
        self.parts_mut(&mut |part| {
            if let PartMut::At(at) = part {
                change(at);
            }
        });
    }

    /// Shows each path to `change`, those that were seen in answers too.
    pub fn change_paths(&mut self, change: &mut dyn FnMut(&mut PathBytes)) {
        self.parts_mut(&mut |part| match part {
            PartMut::At(At { path, .. }) | PartMut::Path(path) => change(path),
            PartMut::Fd(_) | PartMut::Word(_) => (),
        });
    }

    /// Shows each descriptor to `change`, those that were seen in answers too.
    pub fn change_fds(&mut self, change: &mut dyn FnMut(&mut Fd)) {
        self.parts_mut(&mut |part| match part {
            PartMut::At(At { dir: fd, .. }) | PartMut::Fd(fd) => change(fd),
            PartMut::Path(_) | PartMut::Word(_) => (),
        });
    }
}
