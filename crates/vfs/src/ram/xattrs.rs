//! Extended attributes of one inode.

use std::collections::BTreeMap;
use std::rc::Rc;

use esker_base::Errno;

use super::state::{State, rounded};
use crate::change::{Xattr, XattrSet};
use crate::word::{Ino, NAME_BYTES_MAX, Stamp};

/// Most bytes of a value, and of all names with their NULs: `XATTR_SIZE_MAX` and `XATTR_LIST_MAX` of Linux.
const BYTES_MAX: usize = 64 << 10;
/// Bytes of an attribute beside name and value.
const HEAD_BYTES: u64 = 16;
const PREFIXES: [&[u8]; 3] = [b"user.", b"trusted.", b"security."];
/// Privileges of a program, which a change of its bytes takes away.
const CAPABILITY: &[u8] = b"security.capability";

/// Extended attributes.
#[derive(Clone, PartialEq, Default, Debug)]
pub(super) struct Xattrs {
    values: BTreeMap<Box<[u8]>, Rc<[u8]>>,
    bytes: u64,
    name_bytes: usize,
}

impl Xattrs {
    /// Bytes of names and values.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Names and values, in the order of their names.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.values.iter().map(|(name, value)| (&**name, &**value))
    }

    /// Adds a value. Answers no if it breaks a limit, or its name is there or none.
    pub(super) fn restore(&mut self, name: &[u8], value: &[u8]) -> bool {
        let is_fit = check_name(name).is_ok() && value.len() <= BYTES_MAX && self.name_bytes + name.len() < BYTES_MAX;
        let may_be = is_fit && !self.values.contains_key(name);
        if may_be {
            self.set(name, value);
        }
        may_be
    }

    /// Removes the privileges of a program.
    pub(super) fn kill_privileges(&mut self) {
        self.remove(CAPABILITY);
    }

    /// Removes a value. Answers whether it was there.
    fn remove(&mut self, name: &[u8]) -> bool {
        let Some(value) = self.values.remove(name) else { return false };
        self.bytes -= cost(name, &value);
        self.name_bytes -= name.len() + 1;
        true
    }

    fn set(&mut self, name: &[u8], value: &[u8]) {
        self.remove(name);
        self.bytes += cost(name, value);
        self.name_bytes += name.len() + 1;
        self.values.insert(name.into(), value.into());
    }

    /// Bytes behind a change that sets this value.
    fn bytes_with(&self, name: &[u8], value: &[u8]) -> u64 {
        self.bytes - self.values.get(name).map_or(0, |former| cost(name, former)) + cost(name, value)
    }

    fn names(&self) -> Box<[u8]> {
        self.values.keys().flat_map(|name| name.iter().copied().chain([0])).collect()
    }
}

fn cost(name: &[u8], value: &[u8]) -> u64 {
    HEAD_BYTES + (name.len() + value.len()) as u64
}

fn check_name(name: &[u8]) -> Result<(), Errno> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return Err(Errno::ERANGE);
    }
    match PREFIXES.into_iter().find(|prefix| name.starts_with(prefix)) {
        None => Err(Errno::EOPNOTSUPP),
        Some(prefix) if prefix.len() == name.len() => Err(Errno::EINVAL),
        Some(_) => Ok(()),
    }
}

impl State {
    /// Reads or changes extended attributes.
    pub(super) fn xattr(&mut self, now: Stamp, ino: Ino, what: Xattr<'_>) -> Result<Box<[u8]>, Errno> {
        let xattrs = &self.node(ino)?.xattrs;
        match what {
            Xattr::List => return Ok(xattrs.names()),
            Xattr::Get(name) => {
                check_name(name)?;
                return xattrs.values.get(name).map(|value| (**value).into()).ok_or(Errno::ENODATA);
            }
            Xattr::Set(name, value, how) => {
                self.may_set_xattr(ino, name, value, how)?;
                self.known_mut(ino).xattrs.set(name, value);
            }
            Xattr::Remove(name) => {
                check_name(name)?;
                if !xattrs.values.contains_key(name) {
                    return Err(Errno::ENODATA);
                }
                self.known_mut(ino).xattrs.remove(name);
            }
        }
        self.known_mut(ino).change(now);
        self.settle(ino);
        Ok([].into())
    }

    fn may_set_xattr(&self, ino: Ino, name: &[u8], value: &[u8], how: XattrSet) -> Result<(), Errno> {
        check_name(name)?;
        if value.len() > BYTES_MAX {
            return Err(Errno::E2BIG);
        }
        let xattrs = &self.known(ino).xattrs;
        let is_there = xattrs.values.contains_key(name);
        match how {
            XattrSet::Create if is_there => return Err(Errno::EEXIST),
            XattrSet::Replace if !is_there => return Err(Errno::ENODATA),
            XattrSet::Any | XattrSet::Create | XattrSet::Replace => {}
        }
        if !is_there && xattrs.name_bytes + name.len() >= BYTES_MAX {
            return Err(Errno::ENOSPC);
        }
        self.need(rounded(xattrs.bytes_with(name, value)).saturating_sub(rounded(xattrs.bytes())))
    }
}
