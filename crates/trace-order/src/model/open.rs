//! Opening, with its checks in the kernel's order (`path_openat`, `do_open`, `may_open`).

use esker_base::Errno;
use esker_trace_calls::action::ThreadId;
use esker_trace_calls::call::{At, Fd};
use esker_trace_calls::name::PathBytes;
use esker_trace_calls::words::{FileKind, OpenFlags};

use super::World;
use super::resource::Role;
use super::tree::{Inode, InodeId};
use super::walk::{Goal, WalkEnd};
use super::world::Answer;

/// Where shared memory has its names: a directory that no path leads to. Calls that name it as such come from systems
/// on which it is no part of the tree; on Linux, `shm_open` is an `open`.
pub(super) const SHARED_MEMORY: &[u8] = b"/\0shared/";

impl World {
    pub(super) fn open(&mut self, thread: ThreadId, at: &At, flags: OpenFlags) -> Answer<i64> {
        let flags = check_flags(flags)?;
        let create = flags.contains(OpenFlags::O_CREAT);
        let exclusive = create && flags.contains(OpenFlags::O_EXCL);
        let follow = !(flags.contains(OpenFlags::O_NOFOLLOW) || exclusive);
        let goal = match (create, follow) {
            (true, _) => Goal::Make(follow),
            (false, true) => Goal::Follow,
            (false, false) => Goal::Stay,
        };
        let (id, role) = match at.descriptor() {
            Some(fd) => {
                let id = self.fd_inode(thread, fd)?;
                (Some(self.open_present(id, flags, create)?), Role::Use)
            }
            None => {
                let found = self.find(thread, at, goal)?;
                match found.inode {
                    None if create => (self.new_file(&found), Role::Create),
                    None => return Err(Errno::ENOENT),
                    Some(_) if exclusive => return Err(Errno::EEXIST),
                    Some(id) => (Some(self.open_present(id, flags, create)?), Role::Use),
                }
            }
        };
        let Some(id) = id.filter(|_| !self.dry) else { return Ok(i64::from(self.free_number(thread, 0))) };
        if flags.contains(OpenFlags::O_TMPFILE) {
            return Ok(self.open_nameless(thread, flags));
        }
        self.touch_inode(id, role);
        if flags.contains(OpenFlags::O_TRUNC) && self.tree.inode(id).kind == FileKind::Regular {
            self.tree.inode_mut(id).size = 0;
        }
        Ok(i64::from(self.new_descriptor(thread, id, flags, None).0))
    }

    /// A regular file at a vacant name.
    fn new_file(&mut self, found: &WalkEnd) -> Option<InodeId> {
        if self.dry {
            return None;
        }
        let id = self.tree.add(Inode::new(FileKind::Regular));
        self.appear(found.node, id, Role::Create);
        Some(id)
    }

    /// Whether what is there can be opened so.
    fn open_present(&mut self, id: InodeId, flags: OpenFlags, create: bool) -> Answer<InodeId> {
        self.touch_inode(id, Role::Use);
        self.object = Some(id);
        let kind = self.tree.inode(id).kind;
        let directory = kind == FileKind::Directory;
        if create && directory {
            return Err(Errno::EISDIR);
        }
        if flags.intersects(OpenFlags::O_DIRECTORY | OpenFlags::O_TMPFILE) && !directory {
            return Err(Errno::ENOTDIR);
        }
        if flags.contains(OpenFlags::O_PATH) || flags.contains(OpenFlags::O_TMPFILE) {
            return Ok(id);
        }
        let ends = OpenFlags::READ | OpenFlags::WRITE | OpenFlags::O_NONBLOCK;
        let writes = OpenFlags::WRITE | OpenFlags::O_NONBLOCK;
        match kind {
            FileKind::Symlink => Err(Errno::ELOOP),
            FileKind::Socket => Err(Errno::ENXIO),
            FileKind::Fifo if flags & ends == writes && self.tree.inode(id).readers == 0 => Err(Errno::ENXIO),
            FileKind::Directory if flags.intersects(OpenFlags::WRITE | OpenFlags::O_TRUNC) => Err(Errno::EISDIR),
            _ => Ok(id),
        }
    }

    /// A file without a name.
    fn open_nameless(&mut self, thread: ThreadId, flags: OpenFlags) -> i64 {
        let linkable = !flags.contains(OpenFlags::O_EXCL);
        let id = self.tree.add(Inode { linkable, ..Inode::new(FileKind::Regular) });
        self.touch_inode(id, Role::Create);
        i64::from(self.new_descriptor(thread, id, flags, None).0)
    }

    /// `shm_open`: shared memory lives in a directory of its own.
    pub(super) fn open_shared(&mut self, thread: ThreadId, name: &PathBytes, flags: OpenFlags) -> Answer<i64> {
        self.open(thread, &shared_memory(name)?, flags | OpenFlags::O_NOFOLLOW | OpenFlags::O_CLOEXEC)
    }

    /// `shm_unlink`.
    pub(super) fn unlink_shared(&mut self, thread: ThreadId, name: &PathBytes) -> Answer<i64> {
        self.unlink(thread, &shared_memory(name)?)
    }
}

/// The path of shared memory of that name, which is one component: no name leads out of its directory.
fn shared_memory(name: &PathBytes) -> Answer<At> {
    let name = name.strip_prefix(b"/").unwrap_or(name);
    if name.is_empty() || name == b"." || name == b".." || name.contains(&b'/') {
        return Err(Errno::EINVAL);
    }
    Ok(At { dir: Fd::CWD, path: PathBytes::from([SHARED_MEMORY, name].concat()) })
}

/// Refuses what `build_open_flags` refuses; `O_PATH` drops what it does not know.
fn check_flags(flags: OpenFlags) -> Answer<OpenFlags> {
    if flags.contains(OpenFlags::O_PATH) {
        let kept = OpenFlags::O_PATH | OpenFlags::O_DIRECTORY | OpenFlags::O_NOFOLLOW | OpenFlags::O_CLOEXEC;
        return Ok(flags & kept);
    }
    let nameless = flags.contains(OpenFlags::O_TMPFILE);
    let directory = nameless || flags.contains(OpenFlags::O_DIRECTORY);
    let refused = (nameless && !flags.contains(OpenFlags::WRITE)) || (directory && flags.contains(OpenFlags::O_CREAT));
    if refused { Err(Errno::EINVAL) } else { Ok(flags) }
}
