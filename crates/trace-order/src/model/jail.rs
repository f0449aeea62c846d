//! Processes with a root of their own (`chroot`): their paths become those that all others use.
//!
//! A replay has one root. So a path of such a process is resolved here, links and dots included, before the action is
//! played: below its root an absolute link leads elsewhere than for others.

use esker_base::Errno;
use esker_trace_calls::action::ThreadId;
use esker_trace_calls::call::{At, Call, Fd, Object};
use esker_trace_calls::name::PathBytes;
use esker_trace_calls::words::FileKind;

use super::World;
use super::tree::{InodeId, ROOT};
use super::world::Answer;

/// Links that are followed in one path, as in the kernel.
const LINKS_MAX: u32 = 40;

impl World {
    /// Absolute paths of the process begin in another directory from now on.
    pub(super) fn chroot(&mut self, thread: ThreadId, at: &At) -> Answer<i64> {
        let id = self.object(thread, &Object::Path { at: at.clone(), follow: true })?;
        if !self.tree.inode(id).is_directory() {
            return Err(Errno::ENOTDIR);
        }
        if !self.dry {
            let context = self.task(thread).context;
            self.contexts[context].root = id;
        }
        Ok(0)
    }

    /// Puts paths from the root of the trace in the place of those of a process with another root.
    pub(super) fn leave_jail(&self, thread: ThreadId, call: &mut Call) {
        let root = self.contexts[self.task(thread).context].root;
        if root == ROOT {
            return;
        }
        call.change_ats_and_links(&mut |at, follow| {
            if at.descriptor().is_some() || at.path.is_empty() {
                return;
            }
            let base = match at.dir {
                _ if at.path.first() == Some(&b'/') => Some(root),
                Fd::CWD => Some(self.cwd(thread)),
                dir => self.peek(thread, dir.0).map(|fd| self.descriptions[fd.description].inode),
            };
            if let Some(base) = base {
                *at = At::cwd(self.outside(root, base, &at.path, follow));
            }
        });
    }

    /// The path without dots and links on the way, of which the last one is followed only if `follow`. From a name on
    /// that leads to nothing, the path stays as it is.
    fn outside(&self, root: InodeId, base: InodeId, path: &[u8], follow: bool) -> PathBytes {
        let (mut dir, mut links) = (base, 0);
        let slash = path.ends_with(b"/");
        let follow = follow || slash;
        let mut rest = names(path);
        while let Some(name) = rest.pop() {
            match name.as_slice() {
                b"." => continue,
                b".." => {
                    dir = if dir == root { root } else { self.tree.inode(dir).parent };
                    continue;
                }
                _ => {}
            }
            let node = self.tree.node(self.tree.inode(dir).node).children.get(&name[..]);
            let inode = node.and_then(|node| self.tree.node(*node).inode);
            let kind = inode.map(|id| self.tree.inode(id).kind);
            match (inode, kind) {
                (Some(id), Some(FileKind::Directory)) if !rest.is_empty() => dir = id,
                (Some(id), Some(FileKind::Symlink)) if (follow || !rest.is_empty()) && links < LINKS_MAX => {
                    let target = &self.tree.inode(id).target;
                    dir = if target.first() == Some(&b'/') { root } else { dir };
                    rest.extend(names(target));
                    links += 1;
                }
                _ => return self.joined(dir, std::iter::once(name).chain(rest.into_iter().rev()), slash),
            }
        }
        self.joined(dir, std::iter::empty(), slash)
    }

    /// The path of a directory with names behind it.
    fn joined(&self, dir: InodeId, names: impl Iterator<Item = Vec<u8>>, slash: bool) -> PathBytes {
        let mut path = self.tree.path(self.tree.inode(dir).node).to_vec();
        for name in names {
            if path.last() != Some(&b'/') {
                path.push(b'/');
            }
            path.extend_from_slice(&name);
        }
        if slash && path.last() != Some(&b'/') {
            path.push(b'/');
        }
        PathBytes::from(path)
    }
}

/// The components of a path, the last one first.
fn names(path: &[u8]) -> Vec<Vec<u8>> {
    path.rsplit(|byte| *byte == b'/').filter(|name| !name.is_empty()).map(<[u8]>::to_vec).collect()
}
