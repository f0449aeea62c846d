//! Scripts: calls on paths and held files as lines of text, and what plays them.
//!
//! A failure of a random workload is a script, hence a text that repeats it. A line is a call; lines that are empty or
//! begin with `//` are none. Of these, `//= TEXT` states what the call above it answers:
//!
//! ```text
//! mkdir A 0755
//! open #0 A/foo rdwr,creat 0644
//! write #0 4096 x7 @512
//! rename A/foo bar exchange
//! ```
//!
//! A path is a word; bytes that would break one are written `\x20`, and the empty path `""`. `#0` is a file that an
//! earlier `open` left in that place. Times are seconds since 1970.

mod generate;
mod outcome;
mod parse;
mod play;

use std::fmt;

use esker_vfs::{Abilities, FileType, Rename, XattrSet};

pub use generate::{Bounded, Random};
pub use outcome::{Facts, Outcome};
pub use parse::{EXPECTED, ScriptError, ScriptFault, ScriptLine};
pub use play::{Actor, Player, at_once, audit, bytes_of, play};

use crate::attrs::SetTime;
use crate::bytes::Whence;
use crate::flags::{Access, OpenFlags};
use crate::paths::Follow;

/// Places for held files.
pub const HELD: usize = 8;

/// A path, or another word that may have any byte.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Word(pub Vec<u8>);

impl From<&str> for Word {
    fn from(text: &str) -> Word {
        Word(text.as_bytes().to_vec())
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("\"\"");
        }
        for byte in &self.0 {
            match byte {
                b'\\' | b'"' | b'#' | b'@' => write!(f, "\\x{byte:02x}")?,
                graphic if graphic.is_ascii_graphic() => write!(f, "{}", *graphic as char)?,
                other => write!(f, "\\x{other:02x}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A place for a held file, below [`HELD`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Held(pub u8);

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// What a call is about.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Object {
    /// An inode with a name.
    Path(Word),
    /// A held file.
    Held(Held),
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Object::Path(path) => path.fmt(f),
            Object::Held(held) => held.fmt(f),
        }
    }
}

/// What `allocate` does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Room {
    /// Reserves; the file grows.
    Reserve,
    /// Reserves; the size stays.
    ReserveKeep,
    /// Makes a hole; the size stays.
    Punch,
    /// Makes zeroes; the file grows.
    Zero,
    /// Makes zeroes; the size stays.
    ZeroKeep,
}

/// What becomes durable.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Durable {
    /// Bytes and size of a held file.
    Data(Held),
    /// A held file or directory.
    File(Held),
    /// Everything.
    All,
}

/// A call on extended attributes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum XattrOp {
    /// Reads one.
    Get(Word),
    /// Reads all names.
    List,
    /// Sets one to so many bytes of a stream.
    Set(Word, u32, u64, XattrSet),
    /// Removes one.
    Remove(Word),
}

/// A call: 26 on files, and three on the process that makes them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ScriptOp {
    /// Opens a path and holds it; what was held there is closed first.
    Open(Held, Word, OpenFlags, u16),
    /// Closes a held file.
    Close(Held),
    /// Holds a file in a second place.
    Dup(Held, Held),
    /// Reads so many bytes, at the offset of the file or another one.
    Read(Held, u32, Option<i64>),
    /// Writes so many bytes of a stream, at the offset of the file or another one.
    Write(Held, u32, u64, Option<i64>),
    /// Moves the offset.
    Seek(Held, Whence, i64),
    /// Cuts a file, or makes it longer.
    Truncate(Object, i64),
    /// Changes the room of a range: first byte and length.
    Allocate(Held, Room, i64, i64),
    /// Copies so many bytes between places of held files.
    Copy((Held, Option<i64>), (Held, Option<i64>), u64),
    /// Makes the second file share the bytes of the first.
    Clone(Held, Held),
    /// Makes something durable.
    Sync(Durable),
    /// Makes a directory.
    Mkdir(Word, u16),
    /// Makes a file, pipe, socket's name or device.
    Mknod(Word, FileType, u16, u64),
    /// Gives what the first leads to the name of the second.
    Link(Object, Word, Follow),
    /// Makes a symbolic link: target, path.
    Symlink(Word, Word),
    /// Reads a symbolic link.
    Readlink(Word),
    /// Removes a name.
    Unlink(Word),
    /// Removes a directory.
    Rmdir(Word),
    /// Moves a name.
    Rename(Word, Word, Rename),
    /// Reads attributes.
    Stat(Object, Follow),
    /// Asks for permission.
    Access(Word, Access),
    /// Sets permissions.
    Chmod(Object, u16),
    /// Sets owner and group.
    Chown(Object, Option<u32>, Option<u32>, Follow),
    /// Sets times of access and change.
    Times(Object, SetTime, SetTime, Follow),
    /// Reads or changes extended attributes.
    Xattr(Object, XattrOp, Follow),
    /// Reads a directory, from its beginning to its end.
    List(Object),
    /// Moves the working directory.
    Chdir(Object),
    /// Sets the umask, and tells the old one.
    Umask(u16),
    /// Takes the rights of a user: number 0 is the superuser, others have the group of their number.
    Become(u32),
}

impl ScriptOp {
    /// Whether a file system of these abilities can do it.
    pub fn is_possible(&self, can: &Abilities) -> bool {
        match self {
            ScriptOp::Xattr(..) => can.xattrs,
            ScriptOp::Allocate(_, Room::Punch, ..) => can.punch,
            ScriptOp::Allocate(_, Room::Reserve | Room::ReserveKeep, ..) => can.reserve,
            ScriptOp::Allocate(_, Room::Zero | Room::ZeroKeep, ..) => can.reserve && can.punch,
            ScriptOp::Clone(..) => can.share,
            ScriptOp::Rename(_, _, Rename::Exchange) => can.exchange,
            ScriptOp::Link(..) => can.hard_links,
            ScriptOp::Symlink(..) => can.symlinks,
            ScriptOp::Mknod(..) => can.nodes,
            _ => true,
        }
    }
}

/// Names of kinds in texts.
pub(crate) const KINDS: [(FileType, &str); 7] = [
    (FileType::File, "file"),
    (FileType::Directory, "dir"),
    (FileType::Symlink, "symlink"),
    (FileType::CharDevice, "char"),
    (FileType::BlockDevice, "block"),
    (FileType::Fifo, "fifo"),
    (FileType::Socket, "socket"),
];
pub(crate) const WHENCES: [(Whence, &str); 5] = [
    (Whence::Set, "set"),
    (Whence::Current, "current"),
    (Whence::End, "end"),
    (Whence::Data, "data"),
    (Whence::Hole, "hole"),
];
pub(crate) const ROOMS: [(Room, &str); 5] = [
    (Room::Reserve, "reserve"),
    (Room::ReserveKeep, "reserve-keep"),
    (Room::Punch, "punch"),
    (Room::Zero, "zero"),
    (Room::ZeroKeep, "zero-keep"),
];
pub(crate) const RENAMES: [(Rename, &str); 3] =
    [(Rename::Replace, "replace"), (Rename::NoReplace, "noreplace"), (Rename::Exchange, "exchange")];
pub(crate) const FOLLOWS: [(Follow, &str); 2] = [(Follow::Links, "follow"), (Follow::Nothing, "nofollow")];
pub(crate) const XATTR_SETS: [(XattrSet, &str); 3] =
    [(XattrSet::Any, "any"), (XattrSet::Create, "create"), (XattrSet::Replace, "replace")];
pub(crate) const ACCESSES: [(Access, char); 3] = [(Access::READ, 'r'), (Access::WRITE, 'w'), (Access::EXECUTE, 'x')];
pub(crate) const FLAGS: [(OpenFlags, &str); 15] = [
    (OpenFlags::TMPFILE, "tmpfile"),
    (OpenFlags::SYNC, "sync"),
    (OpenFlags::RDWR, "rdwr"),
    (OpenFlags::WRONLY, "wronly"),
    (OpenFlags::CREAT, "creat"),
    (OpenFlags::EXCL, "excl"),
    (OpenFlags::TRUNC, "trunc"),
    (OpenFlags::APPEND, "append"),
    (OpenFlags::NONBLOCK, "nonblock"),
    (OpenFlags::DSYNC, "dsync"),
    (OpenFlags::DIRECT, "direct"),
    (OpenFlags::DIRECTORY, "directory"),
    (OpenFlags::NOFOLLOW, "nofollow"),
    (OpenFlags::NOATIME, "noatime"),
    (OpenFlags::PATH, "path"),
];

/// The text of a value of a closed list.
pub(crate) fn text_of<T: PartialEq + fmt::Debug>(table: &[(T, &'static str)], value: &T) -> &'static str {
    let found = table.iter().find(|(known, _)| known == value);
    found.unwrap_or_else(|| panic!("{value:?} has a text")).1
}

/// A value if there is one, behind a space.
struct At(Option<i64>);

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |at| write!(f, " @{at}"))
    }
}

/// An owner: a number, or `-` for one that stays.
struct Owner(Option<u32>);

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(id) => id.fmt(f),
            None => f.write_str("-"),
        }
    }
}

/// Nothing for calls that follow links.
fn follow(follow: Follow) -> &'static str {
    if follow == Follow::Nothing { " nofollow" } else { "" }
}

fn time(time: SetTime) -> String {
    match time {
        SetTime::Keep => "keep".into(),
        SetTime::Now => "now".into(),
        SetTime::To(stamp) => stamp.0.div_euclid(parse::SECOND).to_string(),
    }
}

fn flags(flags: OpenFlags) -> String {
    let (mut left, mut words) = (flags, Vec::new());
    for (flag, word) in FLAGS {
        if left.contains(flag) {
            left.remove(flag);
            words.push(word);
        }
    }
    if words.is_empty() { "rdonly".into() } else { words.join(",") }
}

fn access(access: Access) -> String {
    let letters = ACCESSES.into_iter().filter(|(bit, _)| access.contains(*bit)).map(|(_, letter)| letter);
    Some(letters.collect::<String>()).filter(|letters| !letters.is_empty()).unwrap_or_else(|| "-".into())
}

impl fmt::Display for ScriptOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ScriptOp::Open(held, path, how, mode) => write!(f, "open {held} {path} {} {mode:04o}", flags(*how)),
            ScriptOp::Close(held) => write!(f, "close {held}"),
            ScriptOp::Dup(from, to) => write!(f, "dup {from} {to}"),
            ScriptOp::Read(held, len, at) => write!(f, "read {held} {len}{}", At(*at)),
            ScriptOp::Write(held, len, seed, at) => write!(f, "write {held} {len} x{seed}{}", At(*at)),
            ScriptOp::Seek(held, whence, by) => write!(f, "seek {held} {} {by}", text_of(&WHENCES, whence)),
            ScriptOp::Truncate(object, size) => write!(f, "truncate {object} {size}"),
            ScriptOp::Allocate(held, room, at, len) => {
                write!(f, "allocate {held} {} {at} {len}", text_of(&ROOMS, room))
            }
            ScriptOp::Copy(from, to, len) => write!(f, "copy {}{} {}{} {len}", from.0, At(from.1), to.0, At(to.1)),
            ScriptOp::Clone(from, to) => write!(f, "clone {from} {to}"),
            ScriptOp::Sync(Durable::Data(held)) => write!(f, "sync data {held}"),
            ScriptOp::Sync(Durable::File(held)) => write!(f, "sync file {held}"),
            ScriptOp::Sync(Durable::All) => write!(f, "sync all"),
            ScriptOp::Mkdir(path, mode) => write!(f, "mkdir {path} {mode:04o}"),
            ScriptOp::Mknod(path, kind, mode, device) => {
                write!(f, "mknod {path} {} {mode:04o} {device}", text_of(&KINDS, kind))
            }
            ScriptOp::Link(old, new, how) => write!(f, "link {old} {new}{}", follow(*how)),
            ScriptOp::Symlink(target, path) => write!(f, "symlink {target} {path}"),
            ScriptOp::Readlink(path) => write!(f, "readlink {path}"),
            ScriptOp::Unlink(path) => write!(f, "unlink {path}"),
            ScriptOp::Rmdir(path) => write!(f, "rmdir {path}"),
            ScriptOp::Rename(from, to, how) => write!(f, "rename {from} {to} {}", text_of(&RENAMES, how)),
            ScriptOp::Stat(object, how) => write!(f, "stat {object}{}", follow(*how)),
            ScriptOp::Access(path, wanted) => write!(f, "access {path} {}", access(*wanted)),
            ScriptOp::Chmod(object, mode) => write!(f, "chmod {object} {mode:04o}"),
            ScriptOp::Chown(object, uid, gid, how) => {
                write!(f, "chown {object} {} {}{}", Owner(*uid), Owner(*gid), follow(*how))
            }
            ScriptOp::Times(object, accessed, modified, how) => {
                write!(f, "times {object} {} {}{}", time(*accessed), time(*modified), follow(*how))
            }
            ScriptOp::Xattr(object, XattrOp::Get(name), how) => write!(f, "getxattr {object} {name}{}", follow(*how)),
            ScriptOp::Xattr(object, XattrOp::List, how) => write!(f, "listxattr {object}{}", follow(*how)),
            ScriptOp::Xattr(object, XattrOp::Set(name, len, seed, set), how) => {
                write!(f, "setxattr {object} {name} {len} x{seed} {}{}", text_of(&XATTR_SETS, set), follow(*how))
            }
            ScriptOp::Xattr(object, XattrOp::Remove(name), how) => {
                write!(f, "removexattr {object} {name}{}", follow(*how))
            }
            ScriptOp::List(object) => write!(f, "list {object}"),
            ScriptOp::Chdir(object) => write!(f, "chdir {object}"),
            ScriptOp::Umask(mask) => write!(f, "umask {mask:04o}"),
            ScriptOp::Become(user) => write!(f, "become {user}"),
        }
    }
}

#[cfg(test)]
mod tests;
