//! What a pair of request and reply asks of a replay.

use esker_base::Nanos;

use crate::packet::{Attributes, Packet};

/// Longest name in a directory, in bytes.
const NAME_MAX: usize = 255;
/// Longest text of a symbolic link, in bytes.
const TEXT_MAX: usize = 4095;
/// Largest count of a write, in bytes; servers of the time took 32 KiB. Larger ones are damage.
const COUNT_MAX: u64 = 16 << 20;
/// Where a file ends at the latest, in bytes. Traces hold sizes of 20 TB, which are damage.
const FILE_MAX: u64 = 1 << 40;
/// Permissions that a replay sets.
const MODE_BITS: u64 = 0o777;

/// Number of a file handle.
pub type Handle = u64;

/// A name in a directory that cannot lead out of it.
pub type EntryName = Box<[u8]>;

/// A request, checked and complete.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NfsRequest {
    /// Which file has a name.
    Lookup {
        /// Directory.
        dir: Handle,
        /// None for a name that teaches nothing: an empty one, `.` or `..`.
        name: Option<EntryName>,
    },
    /// Makes a file.
    Create {
        /// Directory.
        dir: Handle,
        /// Its name.
        name: EntryName,
        /// Whether a file that is there loses its bytes.
        truncate: bool,
    },
    /// Makes a directory.
    MakeDir {
        /// Directory that it lies in.
        dir: Handle,
        /// Its name.
        name: EntryName,
    },
    /// Removes a file, a link or an empty directory.
    Remove {
        /// Directory.
        dir: Handle,
        /// The name that goes.
        name: EntryName,
    },
    /// Moves a name.
    Rename {
        /// Directory before.
        from_dir: Handle,
        /// Name before.
        from: EntryName,
        /// Directory after.
        to_dir: Handle,
        /// Name after.
        to: EntryName,
    },
    /// Gives a file one more name.
    Link {
        /// The file.
        file: Handle,
        /// Directory of the new name.
        dir: Handle,
        /// The new name.
        name: EntryName,
    },
    /// Makes a symbolic link.
    Symlink {
        /// Directory.
        dir: Handle,
        /// Its name.
        name: EntryName,
        /// Its text, which is never followed.
        text: Box<[u8]>,
    },
    /// Writes bytes.
    Write {
        /// The file.
        file: Handle,
        /// Where.
        offset: u64,
        /// How many.
        count: u64,
    },
    /// Changes attributes. Sizes are left out: those of traces are often absurd.
    SetAttributes {
        /// The file.
        file: Handle,
        /// Permissions.
        mode: Option<u16>,
        /// Times of access and of change.
        times: (Option<Nanos>, Option<Nanos>),
    },
    /// Reads attributes.
    Look {
        /// The file.
        file: Handle,
    },
    /// What a replay leaves out.
    Other,
}

/// What the reply to a request tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NfsReply {
    /// The file that was found or made.
    pub handle: Option<Handle>,
    /// Its kind.
    pub kind: Option<ReplyKind>,
    /// Bytes that were written.
    pub count: Option<u64>,
    /// Its size.
    pub size: Option<u64>,
}

/// Kind of a file in a reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReplyKind {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// Anything else.
    Else,
}

/// An attribute that the operation needs is missing or absurd.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a handle, a name or a number that the operation needs is missing or absurd")]
pub struct Incomplete;

impl NfsRequest {
    /// The request of a call.
    ///
    /// # Errors
    /// A call without what its operation needs.
    pub fn of(packet: &Packet<'_>) -> Result<NfsRequest, Incomplete> {
        let a = &packet.attributes;
        Ok(match packet.operation {
            b"lookup" => NfsRequest::Lookup { dir: handle(a)?, name: learnt(a.name.ok_or(Incomplete)?)? },
            b"create" => NfsRequest::Create { dir: handle(a)?, name: entry(a.name)?, truncate: a.size == Some(0) },
            b"mkdir" => NfsRequest::MakeDir { dir: handle(a)?, name: entry(a.name)? },
            b"remove" | b"rmdir" => NfsRequest::Remove { dir: handle(a)?, name: entry(a.name)? },
            b"rename" => NfsRequest::Rename {
                from_dir: handle(a)?,
                from: entry(a.name)?,
                to_dir: a.handle2.ok_or(Incomplete)?,
                to: entry(a.name2)?,
            },
            b"link" => NfsRequest::Link {
                file: handle(a)?,
                dir: a.handle2.ok_or(Incomplete)?,
                name: entry(a.name.or(a.name2))?,
            },
            b"symlink" => NfsRequest::Symlink { dir: handle(a)?, name: entry(a.name)?, text: link_text(a.name2)? },
            b"write" => write(a)?,
            b"setattr" => NfsRequest::SetAttributes {
                file: handle(a)?,
                mode: a.mode.map(|mode| (mode & MODE_BITS) as u16),
                times: (a.atime, a.mtime),
            },
            b"getattr" | b"access" => NfsRequest::Look { file: handle(a)? },
            _ => NfsRequest::Other,
        })
    }

    /// Bytes that its names take in memory.
    pub(crate) fn name_bytes(&self) -> u64 {
        let len = match self {
            NfsRequest::Lookup { name, .. } => name.as_ref().map_or(0, |name| name.len()),
            NfsRequest::Create { name, .. }
            | NfsRequest::MakeDir { name, .. }
            | NfsRequest::Remove { name, .. }
            | NfsRequest::Link { name, .. } => name.len(),
            NfsRequest::Rename { from, to, .. } => from.len() + to.len(),
            NfsRequest::Symlink { name, text, .. } => name.len() + text.len(),
            NfsRequest::Write { .. }
            | NfsRequest::SetAttributes { .. }
            | NfsRequest::Look { .. }
            | NfsRequest::Other => 0,
        };
        len as u64
    }
}

impl NfsReply {
    /// What a reply tells.
    pub fn of(packet: &Packet<'_>) -> NfsReply {
        let Attributes { handle, kind, count, size, .. } = packet.attributes;
        let kind = kind.map(|kind| match kind {
            1 => ReplyKind::File,
            2 => ReplyKind::Dir,
            _ => ReplyKind::Else,
        });
        NfsReply { handle, kind, count, size }
    }
}

fn handle(attributes: &Attributes<'_>) -> Result<Handle, Incomplete> {
    attributes.handle.ok_or(Incomplete)
}

/// A name as it stands in a directory: one that leads elsewhere is damage or an attack.
fn entry(name: Option<&[u8]>) -> Result<EntryName, Incomplete> {
    let is_sound = |name: &&[u8]| {
        let leads_out = matches!(*name, b"" | b"." | b"..") || name.iter().any(|byte| matches!(byte, b'/' | 0));
        !leads_out && name.len() <= NAME_MAX
    };
    name.filter(is_sound).map(Box::from).ok_or(Incomplete)
}

/// The name of a lookup, unless it teaches nothing.
fn learnt(name: &[u8]) -> Result<Option<EntryName>, Incomplete> {
    match name {
        b"" | b"." | b".." => Ok(None),
        name => entry(Some(name)).map(Some),
    }
}

fn link_text(text: Option<&[u8]>) -> Result<Box<[u8]>, Incomplete> {
    let is_sound = |text: &&[u8]| (1..=TEXT_MAX).contains(&text.len()) && !text.contains(&0);
    text.filter(is_sound).map(Box::from).ok_or(Incomplete)
}

fn write(a: &Attributes<'_>) -> Result<NfsRequest, Incomplete> {
    let (offset, count) = (a.offset.ok_or(Incomplete)?, a.count.ok_or(Incomplete)?);
    let is_sound = count <= COUNT_MAX && offset.checked_add(count).is_some_and(|end| end <= FILE_MAX);
    if is_sound { Ok(NfsRequest::Write { file: handle(a)?, offset, count }) } else { Err(Incomplete) }
}
