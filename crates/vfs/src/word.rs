//! Numbers, names, times, and what comes with a call.

use std::fmt;

use esker_base::{Errno, Nanos};
use esker_block::{Class, Tag};

/// Number of an inode. Never 0. Equal after every restart: `st_ino` of programs and node number of FUSE, where 1 stands
/// for the root.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ino(pub u64);

/// A place in the order of a directory's entries. Below 2^63. Changes do not move it: the entries that are there
/// throughout a listing are given once, whatever else is created, removed or renamed meanwhile, also after a restart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Cookie(pub u64);

impl Cookie {
    /// The beginning of a directory.
    pub const BEGINNING: Cookie = Cookie(0);
    /// Cookies up to this one belong to front ends, which give "." and "..".
    pub const RESERVED: Cookie = Cookie(2);
}

/// Nanoseconds since 1970, UTC. A file system rounds it down to its grain and clamps it to its times.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Stamp(pub i64);

impl Stamp {
    /// The last multiple of `grain` that is not later. A grain of zero changes nothing.
    pub fn floor(self, grain: Nanos) -> Stamp {
        match i64::try_from(grain.0) {
            Ok(0) | Err(_) => self,
            Ok(grain) => Stamp(self.0.saturating_sub(self.0.rem_euclid(grain))),
        }
    }
}

/// Most bytes of a name.
pub const NAME_BYTES_MAX: usize = 255;

/// A name in a directory: 1 to 255 bytes, without '/' and NUL, not "." or "..".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name<'a>(&'a [u8]);

impl<'a> Name<'a> {
    /// The name.
    ///
    /// # Errors
    /// `ENOENT` if it is empty, `ENAMETOOLONG` above [`NAME_BYTES_MAX`], `EINVAL` for ".", "..", and bytes that no name
    /// may hold.
    pub fn new(bytes: &'a [u8]) -> Result<Name<'a>, Errno> {
        match bytes {
            [] => Err(Errno::ENOENT),
            b"." | b".." => Err(Errno::EINVAL),
            long if long.len() > NAME_BYTES_MAX => Err(Errno::ENAMETOOLONG),
            other if other.iter().any(|byte| matches!(byte, b'/' | 0)) => Err(Errno::EINVAL),
            name => Ok(Name(name)),
        }
    }

    /// Its bytes.
    pub fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// A copy, for what has to wait.
    pub fn to_buf(self) -> NameBuf {
        NameBuf(self.0.into())
    }
}

impl fmt::Debug for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

/// A [`Name`] that owns its bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NameBuf(Box<[u8]>);

impl NameBuf {
    /// The name, borrowed.
    pub fn name(&self) -> Name<'_> {
        Name(&self.0)
    }
}

impl std::borrow::Borrow<[u8]> for NameBuf {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for NameBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name().fmt(f)
    }
}

/// How long bytes are expected to live, as `F_SET_RW_HINT` says it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub enum Lifetime {
    /// Nothing is known.
    #[default]
    Unknown,
    /// Shorter than most.
    Short,
    /// Between short and long.
    Medium,
    /// Longer than most.
    Long,
    /// As long as the file system.
    Extreme,
}

/// What a caller, or a rule of a mount, says of the bytes that a call writes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Hint {
    /// Storage class; 0 if none. Requests below carry it in `Tag::storage`.
    pub storage: u8,
    /// Expected life of the bytes.
    pub lifetime: Lifetime,
}

/// What comes with every call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Call {
    /// The time that changes are stamped with.
    pub now: Stamp,
    /// Labels of the requests that the call causes below.
    pub tag: Tag,
    /// What is known of the bytes.
    pub hint: Hint,
}

impl Call {
    /// A client's call without labels and hints.
    pub fn at(now: Stamp) -> Call {
        Call { now, tag: Tag::of(Class::Foreground), hint: Hint::default() }
    }
}

/// The rights of a caller: what [`FileSystem::walk_now`](crate::FileSystem::walk_now) checks on its way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cred {
    /// User of files (`fsuid`).
    pub uid: u32,
    /// Group of files (`fsgid`).
    pub gid: u32,
    /// Supplementary groups, sorted.
    pub groups: Box<[u32]>,
    /// Whether the caller is above permissions, as root is.
    pub privileged: bool,
}

impl Cred {
    /// The superuser.
    pub fn root() -> Cred {
        Cred { uid: 0, gid: 0, groups: [].into(), privileged: true }
    }

    /// A user without privileges.
    pub fn user(uid: u32, gid: u32, mut groups: Vec<u32>) -> Cred {
        groups.sort_unstable();
        Cred { uid, gid, groups: groups.into(), privileged: false }
    }

    /// Whether the caller belongs to the group.
    pub fn is_in(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.binary_search(&gid).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_components_of_paths() {
        let refused = |bytes: &[u8]| Name::new(bytes).unwrap_err();
        assert_eq!(refused(b""), Errno::ENOENT);
        assert_eq!(refused(&[b'a'; NAME_BYTES_MAX + 1]), Errno::ENAMETOOLONG);
        for bytes in [&b"."[..], b"..", b"a/b", b"/", b"a\0"] {
            assert_eq!(refused(bytes), Errno::EINVAL, "{}", bytes.escape_ascii());
        }
        for bytes in [&b"..."[..], b".a", b"\xff", &[b'a'; NAME_BYTES_MAX]] {
            assert_eq!(Name::new(bytes).unwrap().to_buf().name().bytes(), bytes);
        }
    }

    #[test]
    fn a_time_is_rounded_down_before_1970_too() {
        assert_eq!(Stamp(1_999).floor(Nanos(1_000)), Stamp(1_000));
        assert_eq!(Stamp(-1).floor(Nanos(1_000)), Stamp(-1_000));
        assert_eq!(Stamp(-1).floor(Nanos(0)), Stamp(-1));
        assert_eq!(Stamp(i64::MIN).floor(Nanos(1_000)), Stamp(i64::MIN));
    }

    #[test]
    fn a_user_is_in_all_of_its_groups() {
        let cred = Cred::user(1, 2, vec![9, 3]);
        assert!([2, 3, 9].iter().all(|gid| cred.is_in(*gid)) && !cred.is_in(1));
    }
}
