//! What a call is to those that read traces: reports, comparisons, the order of calls. The table of calls states it for
//! each kind; some arguments change it.

use super::{Call, Fd};
use crate::wire::{Field, Part};
use crate::words::{MapFlags, OpenFlags, Whence};

/// The roles of one kind of call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Roles {
    pub family: Family,
    pub category: Category,
    pub compared: Compared,
    pub effect: Effect,
}

/// What a call is about: calls of one family are replayed alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// A file's data.
    Data,
    /// Metadata of files, and entries of directories.
    Metadata,
    /// Names: opening, making, renaming, removing.
    Names,
    /// Descriptors themselves, and what is behind them where that is no file.
    Descriptors,
    /// Memory maps of files.
    Maps,
    /// Asynchronous requests.
    Asynchronous,
    /// Calls that only a Mac has.
    Mac,
    /// Processes: what they run, where they are, how they end.
    Processes,
}

/// The kinds of calls that reports sum up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Category {
    /// Makes data durable.
    Sync,
    /// Reads data.
    Read,
    /// Writes data.
    Write,
    /// Moves data between files, inside the kernel.
    Copy,
    /// Asks for metadata.
    Stat,
    /// Opens a file.
    Open,
    /// Closes descriptors.
    Close,
    /// Reads a directory or a link.
    Directory,
    /// Changes names.
    Names,
    /// Extended attributes.
    Attributes,
    /// Asynchronous requests.
    Asynchronous,
    /// Changes sizes or allocation.
    Allocation,
    /// Advice about accesses to come.
    Hints,
    /// All others.
    Other,
}

impl Category {
    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Category::Sync => "fsync",
            Category::Read => "read",
            Category::Write => "write",
            Category::Copy => "copy",
            Category::Stat => "stat",
            Category::Open => "open",
            Category::Close => "close",
            Category::Directory => "directory",
            Category::Names => "names",
            Category::Attributes => "attributes",
            Category::Asynchronous => "asynchronous",
            Category::Allocation => "allocation",
            Category::Hints => "hints",
            Category::Other => "other",
        }
    }
}

/// How the result of a replay is compared with that of the trace, where both calls succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compared {
    /// It is a count of bytes or an offset, which must be equal.
    Exactly,
    /// It is 0 at an end, which must be at the same place.
    AtEnd,
    /// It is a name, which differs in every run, or says nothing.
    Never,
}

/// What a call does to the files and descriptors that it uses, as other calls could notice it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It changes them, or is not known to leave them as they are.
    Changes,
    /// It changes nothing.
    Looks,
    /// It uses the data behind a descriptor, and changes neither.
    LooksThrough,
    /// It uses the data behind a descriptor, and moves the descriptor's offset.
    MovesOffset,
    /// It changes the descriptor, and not the data behind it.
    ChangesDescriptor,
    /// It lets the data behind a descriptor change, and leaves the descriptor as it is.
    ChangesFile,
    /// It makes a descriptor, and leaves files as they are.
    Opens,
}

impl Call {
    /// The family of the call.
    pub fn family(&self) -> Family {
        self.roles().family
    }

    /// The category in which reports sum it up.
    pub fn category(&self) -> Category {
        match self {
            Call::MapTouch { write: true, .. } => Category::Write,
            _ => self.roles().category,
        }
    }

    /// How its result is compared with that of a replay.
    pub fn compared(&self) -> Compared {
        match self {
            // Where data and holes are is the file system's business.
            Call::Seek { whence: Whence::Data | Whence::Hole, .. } => Compared::Never,
            _ => self.roles().compared,
        }
    }

    /// What it does to files and descriptors.
    pub fn effect(&self) -> Effect {
        match self {
            Call::Pread { offset: 0.., .. } => Effect::LooksThrough,
            Call::Map { flags, .. } if !flags.contains(MapFlags::PROT_WRITE | MapFlags::MAP_SHARED) => {
                Effect::LooksThrough
            }
            Call::Open { flags, .. } if flags.contains(OpenFlags::O_TRUNC) => Effect::Changes,
            _ => self.roles().effect,
        }
    }

    /// The first descriptor among its arguments.
    pub fn fd(&self) -> Option<Fd> {
        let mut first = None;
        self.parts(&mut |part| {
            if let Part::Fd(fd) = part {
                first.get_or_insert(fd);
            }
        });
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::ReadWriteFlags;

    fn pread(offset: i64) -> Call {
        Call::Pread { fd: Fd(3), offset, len: 5, parts: 0, flags: ReadWriteFlags::empty() }
    }

    #[test]
    fn arguments_change_what_a_call_does() {
        assert_eq!([pread(0), pread(-1)].map(|call| call.effect()), [Effect::LooksThrough, Effect::MovesOffset]);
        let touch = |write| Call::MapTouch { fd: Fd(3), offset: 0, len: 1, write };
        assert_eq!([touch(false), touch(true)].map(|call| call.category()), [Category::Read, Category::Write]);
        let seek = |whence| Call::Seek { fd: Fd(3), offset: 1, whence };
        let compared = [Whence::Set, Whence::Current, Whence::End, Whence::Data, Whence::Hole]
            .map(|whence| seek(whence).compared());
        let (exactly, never) = (Compared::Exactly, Compared::Never);
        assert_eq!(compared, [exactly, exactly, exactly, never, never]);
    }

    #[test]
    fn the_first_descriptor_is_that_of_the_call() {
        assert_eq!(pread(0).fd(), Some(Fd(3)));
        assert_eq!(Call::SyncAll {}.fd(), None);
    }
}
