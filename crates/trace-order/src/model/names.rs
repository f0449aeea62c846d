//! Calls that make, remove and move names, with their checks in the kernel's order (fs/namei.c).

use esker_base::Errno;
use esker_trace_calls::action::ThreadId;
use esker_trace_calls::call::{At, Fd, Object};
use esker_trace_calls::name::PathBytes;
use esker_trace_calls::words::{FileKind, RenameFlags};

use super::World;
use super::resource::Role;
use super::tree::{Inode, InodeId, NodeId};
use super::walk::{End, Goal, Last, WalkEnd, check_path};
use super::world::Answer;

impl World {
    /// The directory at which a path starts. Checks the path's length before the directory, as the kernel does.
    pub(super) fn base(&mut self, thread: ThreadId, at: &At) -> Answer<InodeId> {
        check_path(&at.path)?;
        if at.path.first() == Some(&b'/') {
            return Ok(super::tree::ROOT);
        }
        let dir = self.fd_inode(thread, at.dir)?;
        if self.tree.inode(dir).is_directory() { Ok(dir) } else { Err(Errno::ENOTDIR) }
    }

    /// Walks a path from its base.
    pub(super) fn find(&mut self, thread: ThreadId, at: &At, goal: Goal) -> Answer<WalkEnd> {
        let base = self.base(thread, at)?;
        self.walk(base, &at.path, goal)
    }

    /// Walks a path from its base, but for the last component.
    pub(super) fn find_end(&mut self, thread: ThreadId, at: &At) -> Answer<End> {
        let base = self.base(thread, at)?;
        self.walk_to_end(base, &at.path)
    }

    /// What a path or descriptor leads to; it is used.
    pub(super) fn object(&mut self, thread: ThreadId, object: &Object) -> Answer<InodeId> {
        let id = match object {
            Object::Fd(fd) => self.fd_inode(thread, *fd)?,
            Object::Path { at, follow } => match at.descriptor() {
                Some(fd) => self.fd_inode(thread, fd)?,
                None => {
                    let goal = if *follow { Goal::Follow } else { Goal::Stay };
                    self.find(thread, at, goal)?.inode.ok_or(Errno::ENOENT)?
                }
            },
        };
        self.touch_inode(id, Role::Use);
        self.object = Some(id);
        Ok(id)
    }

    /// A name at which nothing is yet. Trailing slashes are for directories.
    fn vacancy(&mut self, thread: ThreadId, at: &At, directory: bool) -> Answer<WalkEnd> {
        let end = self.find_end(thread, at)?;
        if end.last != Last::Name {
            return Err(Errno::EEXIST);
        }
        let found = self.look_up_end(&end)?;
        if found.inode.is_some() {
            return Err(Errno::EEXIST);
        }
        if found.slash && !directory { Err(Errno::ENOENT) } else { Ok(found) }
    }

    /// `mkdir`, `mknod`, `symlink`: a new inode with a name.
    pub(super) fn make(&mut self, thread: ThreadId, at: &At, inode: Inode) -> Answer<i64> {
        let found = self.vacancy(thread, at, inode.is_directory())?;
        if !self.dry {
            let id = self.tree.add(inode);
            self.appear(found.node, id, Role::Create);
        }
        Ok(0)
    }

    /// `bind` of a Unix socket: its name.
    pub(super) fn bind(&mut self, thread: ThreadId, fd: Fd, at: &At) -> Answer<i64> {
        self.fd(thread, fd)?;
        let made = self.make(thread, at, Inode::new(FileKind::Socket));
        made.map_err(|errno| if errno == Errno::EEXIST { Errno::EADDRINUSE } else { errno })
    }

    pub(super) fn symlink(&mut self, thread: ThreadId, target: &PathBytes, at: &At) -> Answer<i64> {
        check_path(target)?;
        let size = target.len() as u64;
        self.make(thread, at, Inode { target: target.clone(), size, ..Inode::new(FileKind::Symlink) })
    }

    pub(super) fn link(&mut self, thread: ThreadId, from: &Object, to: &At) -> Answer<i64> {
        let id = self.object(thread, from)?;
        let found = self.vacancy(thread, to, false)?;
        let inode = self.tree.inode(id);
        if inode.is_directory() {
            return Err(Errno::EPERM);
        }
        if inode.links == 0 && !inode.linkable {
            return Err(Errno::ENOENT);
        }
        if !self.dry {
            self.tree.inode_mut(id).linkable = false;
            self.appear(found.node, id, Role::Use);
        }
        Ok(0)
    }

    pub(super) fn unlink(&mut self, thread: ThreadId, at: &At) -> Answer<i64> {
        let end = self.find_end(thread, at)?;
        if end.last != Last::Name {
            return Err(Errno::EISDIR);
        }
        let found = self.look_up_end(&end)?;
        let id = found.inode.ok_or(Errno::ENOENT)?;
        match self.tree.inode(id).is_directory() {
            true => return Err(Errno::EISDIR),
            false if found.slash => return Err(Errno::ENOTDIR),
            false => (),
        }
        if !self.dry {
            self.vanish(found.node);
        }
        Ok(0)
    }

    pub(super) fn rmdir(&mut self, thread: ThreadId, at: &At) -> Answer<i64> {
        let end = self.find_end(thread, at)?;
        match end.last {
            Last::Name => (),
            Last::Dot => return Err(Errno::EINVAL),
            Last::DotDot => return Err(Errno::ENOTEMPTY),
            Last::Root => return Err(Errno::EBUSY),
        }
        let found = self.look_up_end(&end)?;
        let id = found.inode.ok_or(Errno::ENOENT)?;
        if !self.tree.inode(id).is_directory() {
            return Err(Errno::ENOTDIR);
        }
        self.check_empty(found.node)?;
        if !self.dry {
            self.vanish(found.node);
        }
        Ok(0)
    }

    pub(super) fn rename(&mut self, thread: ThreadId, from: &At, to: &At, flags: RenameFlags) -> Answer<i64> {
        let exchange = flags.contains(RenameFlags::RENAME_EXCHANGE);
        if exchange && flags.intersects(RenameFlags::RENAME_NOREPLACE | RenameFlags::RENAME_WHITEOUT) {
            return Err(Errno::EINVAL);
        }
        let kept = flags.contains(RenameFlags::RENAME_NOREPLACE);
        // Both directories are walked to before either name is looked up.
        let (from, to) = (self.find_end(thread, from)?, self.find_end(thread, to)?);
        match (from.last, to.last) {
            (Last::Name, Last::Name) => (),
            (Last::Name, _) if kept => return Err(Errno::EEXIST),
            _ => return Err(Errno::EBUSY),
        }
        let old = self.look_up_end(&from)?;
        let moved = old.inode.ok_or(Errno::ENOENT)?;
        let new = self.look_up_end(&to)?;
        match new.inode {
            Some(_) if kept => return Err(Errno::EEXIST),
            None if exchange => return Err(Errno::ENOENT),
            _ => (),
        }
        self.check_slashes(&old, &new, moved, exchange)?;
        self.check_loops(&old, &new, moved, exchange)?;
        self.touch_inode(moved, Role::Use);
        match new.inode {
            Some(other) if other == moved => return Ok(0),
            Some(other) if exchange => {
                self.touch_inode(other, Role::Use);
                self.exchange(&old, &new);
            }
            Some(other) => {
                self.check_replaced(&new, moved, other)?;
                self.displace(&old, &new);
            }
            None => self.displace(&old, &new),
        }
        Ok(0)
    }

    /// Trailing slashes are for directories.
    fn check_slashes(&self, old: &WalkEnd, new: &WalkEnd, moved: InodeId, exchange: bool) -> Answer<()> {
        let is_dir = |id: InodeId| self.tree.inode(id).is_directory();
        if exchange && new.slash && !new.inode.is_some_and(is_dir) {
            return Err(Errno::ENOTDIR);
        }
        if !is_dir(moved) && (old.slash || (!exchange && new.slash)) { Err(Errno::ENOTDIR) } else { Ok(()) }
    }

    /// No directory goes below itself, and none is replaced by what is in it.
    fn check_loops(&self, old: &WalkEnd, new: &WalkEnd, moved: InodeId, exchange: bool) -> Answer<()> {
        if old.dir == new.dir {
            return Ok(());
        }
        let holds = |id: InodeId, dir| self.tree.inode(id).is_directory() && self.tree.is_below(dir, id);
        if holds(moved, new.dir) {
            return Err(Errno::EINVAL);
        }
        match new.inode {
            Some(other) if holds(other, old.dir) => Err(if exchange { Errno::EINVAL } else { Errno::ENOTEMPTY }),
            _ => Ok(()),
        }
    }

    fn check_replaced(&mut self, new: &WalkEnd, moved: InodeId, other: InodeId) -> Answer<()> {
        match (self.tree.inode(moved).is_directory(), self.tree.inode(other).is_directory()) {
            (true, false) => Err(Errno::ENOTDIR),
            (false, true) => Err(Errno::EISDIR),
            (true, true) => self.check_empty(new.node),
            _ => Ok(()),
        }
    }

    /// A directory that is removed or replaced has no entries. One that has is used by what it told: the refusal comes
    /// before the removal of that entry.
    fn check_empty(&mut self, directory: NodeId) -> Answer<()> {
        if self.tree.node(directory).present == 0 {
            return Ok(());
        }
        let mut names = self.tree.node(directory).children.values();
        if let Some(entry) = names.find(|child| self.tree.node(**child).inode.is_some()).copied() {
            self.touch_node(entry, Role::Use);
        }
        Err(Errno::ENOTEMPTY)
    }

    /// One name's subtree goes to another name; what was there loses it.
    fn displace(&mut self, old: &WalkEnd, new: &WalkEnd) {
        if self.dry {
            return;
        }
        if let Some(other) = new.inode {
            self.lift(new.node);
            self.release(other);
        }
        if let Some(lifted) = self.lift(old.node) {
            self.touch_node(old.node, Role::Create);
            self.put(new.node, lifted);
        }
    }

    /// Two names swap what they lead to.
    pub(super) fn exchange(&mut self, old: &WalkEnd, new: &WalkEnd) {
        if self.dry {
            return;
        }
        if let (Some(first), Some(second)) = (self.lift(old.node), self.lift(new.node)) {
            self.put(new.node, first);
            self.put(old.node, second);
        }
    }

    /// `exchangedata`: two files swap what they hold. The replay swaps names, so names are what is touched.
    pub(super) fn exchange_data(&mut self, thread: ThreadId, first: &Object, second: &Object) -> Answer<i64> {
        let ends = [first, second].map(|object| match object {
            Object::Path { at, .. } => self.find(thread, at, Goal::Follow).map(Some),
            Object::Fd(_) => Ok(None),
        });
        let ids = [self.object(thread, first)?, self.object(thread, second)?];
        if ids.iter().any(|id| self.tree.inode(*id).kind != FileKind::Regular) {
            return Err(Errno::EINVAL);
        }
        if let ([Ok(Some(first)), Ok(Some(second))], true) = (&ends, ids[0] != ids[1]) {
            self.exchange(first, second);
        }
        Ok(0)
    }

    /// `clonefile`: a new file with another one's size.
    pub(super) fn clone_file(&mut self, thread: ThreadId, from: &Object, to: &At) -> Answer<i64> {
        let id = self.object(thread, from)?;
        let source = self.tree.inode(id);
        let copy = Inode { size: source.size, target: source.target.clone(), ..Inode::new(source.kind) };
        self.make(thread, to, copy)
    }

    pub(super) fn read_link(&mut self, thread: ThreadId, at: &At, len: u64) -> Answer<i64> {
        if len == 0 {
            return Err(Errno::EINVAL);
        }
        let id = self.find(thread, at, Goal::Stay)?.inode.ok_or(Errno::ENOENT)?;
        self.touch_inode(id, Role::Use);
        let inode = self.tree.inode(id);
        match inode.kind {
            FileKind::Symlink => Ok(len.min(inode.target.len() as u64) as i64),
            _ => Err(Errno::EINVAL),
        }
    }
}
