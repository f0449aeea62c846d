//! Targets of symbolic links, extended attributes and flags.

use std::rc::Rc;

use esker_base::Errno;
use esker_rt::mem::{Parts, Slice};
use esker_vfs::access::shows_xattr;
use esker_vfs::{Answer, Cred, FileFlags, SetAttr, Xattr, XattrSet};

use super::attributes::refused;
use super::{Session, done};
use crate::proto::abi::{GetXattrOut, IOCTL_UNRESTRICTED, IoctlIn, IoctlOut};
use crate::proto::{Op, Request, reply};

/// Flags of SETXATTR.
const CREATE: u32 = 1;
const REPLACE: u32 = 2;

/// Commands that read and set flags of an inode. Their numbers hold the size of a word, and programs use both.
const GET_FLAGS: [u32; 2] = [0x8008_6601, 0x8004_6601];
const SET_FLAGS: [u32; 2] = [0x4008_6602, 0x4004_6602];

/// The same in another layout (`struct fsxattr`), which the kernel asks for before it sets flags.
const GET_XFLAGS: u32 = 0x801c_581f;
const SET_XFLAGS: u32 = 0x401c_5820;
/// Bytes of that layout, of which the first four are flags.
const XFLAGS_BYTES: usize = 28;

/// Bits of flags in both layouts.
const XFLAGS: [(u32, u32); 5] = [
    (FileFlags::IMMUTABLE.0, 0x8),
    (FileFlags::APPEND.0, 0x10),
    (FileFlags::SYNC.0, 0x20),
    (FileFlags::NOATIME.0, 0x40),
    (FileFlags::NODUMP.0, 0x80),
];

/// Flags that the kernel would have to hold every program to. On FUSE it does not know them.
const UNGUARDED: u32 = FileFlags::IMMUTABLE.0 | FileFlags::APPEND.0;

/// A value as it is asked for: its size alone, or as many bytes as there is room for.
fn sized(unique: u64, value: &[u8], room: u32) -> Result<Parts, Errno> {
    let message = match room {
        0 => reply::with(unique, &GetXattrOut { size: value.len() as u32, padding: 0 }),
        room if value.len() > room as usize => return Err(Errno::ERANGE),
        _ => reply::with(unique, value),
    };
    Ok(Slice::heap(message).into())
}

/// The names of a list that a caller sees.
fn shown(names: &[u8], uid: u32, gid: u32) -> Vec<u8> {
    let cred = Cred { uid, gid, groups: [].into(), privileged: uid == 0 };
    let each = names.split_inclusive(|byte| *byte == 0);
    each.filter(|name| shows_xattr(&cred, name)).flatten().copied().collect()
}

impl Session {
    pub(super) fn target(&self, request: &Request<'_>) -> Answer<Parts> {
        let unique = request.unique;
        let target = self.fs.target(self.call(request), self.ino(request));
        target.map(move |answer| Ok(Slice::heap(reply::with(unique, &*answer?)).into()))
    }

    pub(super) fn xattr(&self, request: &Request<'_>) -> Answer<Parts> {
        // A refusal that the kernel remembers.
        if !self.fs.about().can.xattrs {
            return refused(Errno::ENOSYS);
        }
        let (call, ino, unique) = (self.call(request), self.ino(request), request.unique);
        match request.op {
            Op::GetXattr(name, room) => {
                self.fs.xattr(call, ino, Xattr::Get(name)).map(move |answer| sized(unique, &answer?, room))
            }
            Op::ListXattr(room) => {
                let (uid, gid) = (request.uid, request.gid);
                let names = self.fs.xattr(call, ino, Xattr::List);
                names.map(move |answer| sized(unique, &shown(&answer?, uid, gid), room))
            }
            Op::SetXattr { name, value, flags } => {
                let how = match flags {
                    0 => XattrSet::Any,
                    CREATE => XattrSet::Create,
                    REPLACE => XattrSet::Replace,
                    _ => return refused(Errno::EINVAL),
                };
                let set = self.fs.xattr(call, ino, Xattr::Set(name, value, how));
                set.map(move |answer| answer.map(|_| done(unique)))
            }
            Op::RemoveXattr(name) => {
                let removed = self.fs.xattr(call, ino, Xattr::Remove(name));
                removed.map(move |answer| answer.map(|_| done(unique)))
            }
            _ => refused(Errno::ENOSYS),
        }
    }

    pub(super) fn ioctl(self: &Rc<Self>, request: &Request<'_>, what: &IoctlIn, bytes: &[u8]) -> Answer<Parts> {
        let (call, ino, unique) = (self.call(request), self.ino(request), request.unique);
        if what.flags & IOCTL_UNRESTRICTED != 0 || !self.fs.about().can.flags {
            return refused(Errno::ENOTTY);
        }
        let (room, command) = (what.out_size as usize, what.command);
        if GET_FLAGS.contains(&command) || command == GET_XFLAGS {
            return self.fs.attr(call, ino).map(move |answer| {
                let bytes = laid_out(answer?.flags.0, command);
                Ok(told(unique, &bytes[..room.min(bytes.len())]))
            });
        }
        let flags = match wanted(command, bytes) {
            Ok(flags) => flags,
            Err(errno) => return refused(errno),
        };
        let session = self.clone();
        self.with_attr(call, ino, move |attr| {
            if (flags ^ attr.flags.0) & UNGUARDED != 0 {
                return refused(Errno::EOPNOTSUPP);
            }
            let set = SetAttr { flags: Some(FileFlags(flags)), ..SetAttr::default() };
            session.fs.set_attr(call, ino, set).map(move |answer| answer.map(|_| told(unique, &[])))
        })
    }
}

/// Flags as the answer to a command.
fn laid_out(flags: u32, command: u32) -> Vec<u8> {
    if command != GET_XFLAGS {
        return flags.to_ne_bytes().to_vec();
    }
    let other = XFLAGS.iter().filter(|(own, _)| flags & own != 0).fold(0, |bits, (_, other)| bits | other);
    let mut bytes = u32::to_ne_bytes(other).to_vec();
    bytes.resize(XFLAGS_BYTES, 0);
    bytes
}

/// The flags that a command sets.
fn wanted(command: u32, bytes: &[u8]) -> Result<u32, Errno> {
    let word = bytes.first_chunk().map(|word| u32::from_ne_bytes(*word)).ok_or(Errno::ENOTTY)?;
    if SET_FLAGS.contains(&command) {
        return Ok(word);
    }
    if command != SET_XFLAGS {
        return Err(Errno::ENOTTY);
    }
    // No projects, and no sizes of extents that a file could be told.
    let known = XFLAGS.iter().fold(0, |bits, (_, other)| bits | other);
    if word & !known != 0 || bytes[4..].iter().any(|byte| *byte != 0) {
        return Err(Errno::EOPNOTSUPP);
    }
    Ok(XFLAGS.iter().filter(|(_, other)| word & other != 0).fold(0, |bits, (own, _)| bits | own))
}

fn told(unique: u64, bytes: &[u8]) -> Parts {
    Slice::heap(reply::with_two(unique, &IoctlOut::zero(), bytes)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ordinary_user_does_not_see_trusted_names() {
        let names = b"security.a\0trusted.b\0user.c\0";
        assert_eq!(shown(names, 1000, 1000), b"security.a\0user.c\0");
        assert_eq!(shown(names, 0, 0), names);
    }

    #[test]
    fn flags_are_the_same_in_both_layouts() {
        for (own, other) in XFLAGS {
            let bytes = laid_out(own, GET_XFLAGS);
            assert_eq!((bytes.len(), &bytes[..4]), (XFLAGS_BYTES, &other.to_ne_bytes()[..]));
            assert_eq!(wanted(SET_XFLAGS, &bytes), Ok(own));
            assert_eq!(wanted(SET_FLAGS[0], &laid_out(own, GET_FLAGS[0])), Ok(own));
        }
        let mut project = laid_out(0, GET_XFLAGS);
        project[12] = 1;
        assert_eq!(wanted(SET_XFLAGS, &project), Err(Errno::EOPNOTSUPP));
        assert_eq!(wanted(7, &project), Err(Errno::ENOTTY));
    }

    #[test]
    fn a_value_is_sized_before_it_is_fetched() {
        assert_eq!(sized(1, b"abc", 0).unwrap()[0].bytes()[16..], [3, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(sized(1, b"abc", 3).unwrap()[0].bytes()[16..], *b"abc");
        assert!(matches!(sized(1, b"abc", 2), Err(Errno::ERANGE)));
    }
}
