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
        if GET_FLAGS.contains(&what.command) {
            let room = what.out_size as usize;
            return self.fs.attr(call, ino).map(move |answer| {
                let flags = answer?.flags.0.to_ne_bytes();
                Ok(told(unique, &flags[..room.min(flags.len())]))
            });
        }
        let flags = bytes.first_chunk().map(|word| u32::from_ne_bytes(*word));
        let (true, Some(flags)) = (SET_FLAGS.contains(&what.command), flags) else { return refused(Errno::ENOTTY) };
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
    fn a_value_is_sized_before_it_is_fetched() {
        assert_eq!(sized(1, b"abc", 0).unwrap()[0].bytes()[16..], [3, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(sized(1, b"abc", 3).unwrap()[0].bytes()[16..], *b"abc");
        assert!(matches!(sized(1, b"abc", 2), Err(Errno::ERANGE)));
    }
}
