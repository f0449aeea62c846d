//! Access lists (`system.posix_acl_access`, `system.posix_acl_default`): the kernel takes valid ones only, and traces
//! have no values.
//!
//! A list without named users and groups has 28 bytes and says no more than the permission bits: setting it is `chmod`.
//! Programs that copy files (`cp -p`, `sed -i`, `install`) set it to the permissions of the file whose list they asked
//! for before. A longer list opens a file to others, so a foreign trace may not set it.

use esker_trace_calls::{Object, Word};
use rustix::fs::{Mode, XattrFlags};
use rustix::io::Errno;

use super::{CallExecutor, Fail, Reply, Skip, Target, Turn, done};
use crate::root::proc_path;
use crate::xattrs;

const ACCESS: &[u8] = b"system.posix_acl_access";
const DEFAULT: &[u8] = b"system.posix_acl_default";
/// Version of the kernel's form, which begins with it.
const VERSION: u32 = 2;
const HEADER: u64 = 4;
/// Bytes of an entry: tag, permissions, and whose they are.
const ENTRY: u64 = 8;
/// Bytes of a list that says no more than the permission bits.
const PLAIN: u64 = HEADER + 3 * ENTRY;
/// Tags of entries: the owner, a user, the group, the mask, all others.
const OWNER: u16 = 0x01;
const USER: u16 = 0x02;
const GROUP: u16 = 0x04;
const MASK: u16 = 0x10;
const OTHERS: u16 = 0x20;
/// Of an entry that is of no user in particular.
const NOBODY: u32 = u32::MAX;
/// The first user that a longer list names, and to whom it gives nothing.
const FIRST_USER: u32 = 60_000;
const BY_CHMOD: &str = "permissions that were set as an access list were set by chmod: the file system has no lists";

/// Whether an attribute is an access list.
pub(super) fn is_access_list(name: &[u8]) -> bool {
    name == ACCESS || name == DEFAULT
}

/// Whether an attribute is the access list that goes with the permission bits.
pub(super) fn tells_mode(name: &[u8]) -> bool {
    name == ACCESS
}

/// A valid list of `len` bytes that gives what `mode` does; `None` if there is none of that length.
fn value(len: u64, mode: u16) -> Option<Vec<u8>> {
    let entries = len.checked_sub(HEADER).filter(|rest| rest % ENTRY == 0)? / ENTRY;
    let named = match entries {
        0 | 3 => 0,
        4.. => u32::try_from(entries - 4).ok()?,
        _ => return None,
    };
    let mut list = VERSION.to_le_bytes().to_vec();
    let mut put = |tag: u16, permissions: u16, user: u32| {
        list.extend_from_slice(&tag.to_le_bytes());
        list.extend_from_slice(&(permissions & 0o7).to_le_bytes());
        list.extend_from_slice(&user.to_le_bytes());
    };
    if entries > 0 {
        put(OWNER, mode >> 6, NOBODY);
        (0..named).for_each(|user| put(USER, 0, FIRST_USER + user));
        put(GROUP, mode >> 3, NOBODY);
        if entries > 3 {
            put(MASK, mode >> 3, NOBODY);
        }
        put(OTHERS, mode, NOBODY);
    }
    Some(list)
}

impl CallExecutor<'_> {
    /// Remembers the permissions of a file whose list a process asks for.
    pub(super) fn ask_for_list(&mut self, turn: &Turn<'_>, file: &Object) -> Result<(), Fail> {
        let mode = mode_of(&self.target(file)?)?;
        self.lists_asked.insert(turn.process, mode);
        Ok(())
    }

    pub(super) fn set_list(
        &mut self,
        turn: &Turn<'_>,
        file: &Object,
        (name, len): (&Word, u64),
        flags: XattrFlags,
    ) -> Reply {
        let options = self.kernel.options;
        let is_mode = tells_mode(name.as_bytes()) && len == PLAIN;
        if !is_mode && !options.keep_modes {
            return Err(Fail::Skip(Skip::Privileged));
        }
        let target = self.target(file)?;
        let own = mode_of(&target)?;
        let asked = self.lists_asked.get(&turn.process).copied().filter(|_| is_mode);
        let mode = asked.unwrap_or(own);
        let Some(value) = value(len, mode) else { return Err(Errno::INVAL.into()) };
        let name = xattrs::c_name(options.platform, name)?;
        let set = match &target {
            Target::Open(handle) => rustix::fs::fsetxattr(&**handle, &name, &value, flags),
            Target::Named(fd) => rustix::fs::setxattr(proc_path(fd), &name, &value, flags),
        };
        match set {
            Err(Errno::OPNOTSUPP) if is_mode => {
                self.kernel.tally.add(BY_CHMOD);
                let kept = Mode::from_raw_mode((own & !0o777).into());
                let mode = kept | Mode::from_raw_mode((mode & 0o777).into());
                Ok(done(rustix::fs::chmod(proc_path(&target), mode)?))
            }
            other => Ok(done(other?)),
        }
    }
}

/// Permission bits of what is open.
fn mode_of(target: &Target) -> Result<u16, Errno> {
    Ok((rustix::fs::fstat(target)?.st_mode & 0o7777) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_have_their_length_or_are_none() {
        let plain = value(PLAIN, 0o640).unwrap();
        let entry = |tag: u8, permissions: u8| [tag, 0, permissions, 0, 255, 255, 255, 255];
        assert_eq!(plain[..4], [2, 0, 0, 0]);
        assert_eq!(plain[4..], [entry(1, 6), entry(4, 4), entry(32, 0)].concat());
        for len in [4, 36, 44, 60] {
            assert_eq!(value(len, 0o755).map(|list| list.len() as u64), Some(len));
        }
        for len in [0, 3, 12, 20, 29] {
            assert_eq!(value(len, 0o755), None, "{len}");
        }
    }
}
