//! From a path to what it leads to, as Linux walks (fs/namei.c): symbolic links, dots, trailing slashes, limits.

use crate::errno::Errno;
use crate::name::PathBytes;
use crate::words::FileKind;

use super::World;
use super::resource::Role;
use super::tree::{InodeId, NodeId, ROOT};

/// Longest path in bytes, without the ending zero.
const PATH_MAX: usize = 4095;
/// Longest component in bytes.
const NAME_MAX: usize = 255;
/// Most symbolic links that one walk follows.
const LINKS_MAX: u32 = 40;

/// What is done with the last component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Goal {
    /// It is looked up, and followed if it is a link.
    Follow,
    /// It is looked up, and followed only if a slash comes after it.
    Stay,
    /// It is opened, and made if it is absent; a link is followed if `true`.
    Make(bool),
    /// It is not looked at: names are made and removed.
    Parent,
}

/// What the last component was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Last {
    Name,
    Dot,
    DotDot,
    Root,
}

/// Where a walk ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    /// The directory that holds the last component.
    pub dir: InodeId,
    /// The full path of the last component. Dots have that of the directory to which they lead.
    pub node: NodeId,
    /// What it leads to.
    pub inode: Option<InodeId>,
    /// What it was.
    pub last: Last,
    /// Whether slashes came after it.
    pub slash: bool,
}

/// The components that are still to be walked: the innermost symbolic link's last.
struct Rest(Vec<(PathBytes, usize)>);

/// One component.
struct Step {
    text: PathBytes,
    start: usize,
    end: usize,
    slash: bool,
    last: bool,
}

impl Rest {
    fn next(&mut self) -> Option<Step> {
        loop {
            let (text, at) = self.0.last_mut()?;
            let start = skip(text, *at, |byte| byte == b'/');
            if start < text.len() {
                let end = skip(text, start, |byte| byte != b'/');
                *at = skip(text, end, |byte| byte == b'/');
                let (text, slash) = (text.clone(), *at > end);
                let last = self.0.iter().all(|(text, at)| *at == text.len());
                return Some(Step { text, start, end, slash, last });
            }
            self.0.pop();
        }
    }
}

fn skip(text: &[u8], from: usize, passes: impl Fn(u8) -> bool) -> usize {
    text[from..].iter().position(|byte| !passes(*byte)).map_or(text.len(), |n| from + n)
}

impl Step {
    fn name(&self) -> &[u8] {
        &self.text[self.start..self.end]
    }
}

/// Refuses what never reaches a file system.
pub(super) fn check_path(path: &[u8]) -> Result<(), Errno> {
    match path.len() {
        0 => Err(Errno::ENOENT),
        n if n > PATH_MAX => Err(Errno::ENAMETOOLONG),
        _ => Ok(()),
    }
}

impl World {
    /// Walks `path` from directory `base`, unless it is absolute. The last component is touched as used; what is on the way
    /// as the rules need it.
    ///
    /// # Errors
    /// What the kernel answers. An absent last component is no error here.
    pub(super) fn walk(&mut self, base: InodeId, path: &PathBytes, goal: Goal) -> Result<Found, Errno> {
        let mut at = if path.first() == Some(&b'/') { ROOT } else { base };
        let mut rest = Rest(vec![(path.clone(), 0)]);
        let mut links = 0;
        let mut directory = false;
        while let Some(step) = rest.next() {
            match step.name() {
                b"." if step.last => return Ok(self.dots(at, Last::Dot)),
                b"." => continue,
                b".." => {
                    at = self.tree.inode(at).parent;
                    if step.last {
                        return Ok(self.dots(at, Last::DotDot));
                    }
                    continue;
                }
                _ => (),
            }
            if step.last && step.slash && matches!(goal, Goal::Make(_)) {
                return Err(Errno::EISDIR);
            }
            directory |= step.last && step.slash;
            let found = self.look_up(at, &step)?;
            if step.last && goal == Goal::Parent {
                return Ok(found);
            }
            let Some(id) = found.inode else {
                return if step.last { Ok(found) } else { Err(Errno::ENOENT) };
            };
            let inode = self.tree.inode(id);
            let followed = !step.last || matches!(goal, Goal::Follow | Goal::Make(true)) || step.slash;
            if inode.kind == FileKind::Symlink && followed {
                links += 1;
                if links > LINKS_MAX {
                    return Err(Errno::ELOOP);
                }
                if inode.target.first() == Some(&b'/') {
                    at = ROOT;
                }
                rest.0.push((inode.target.clone(), 0));
            } else if (!step.last || directory) && !inode.is_directory() {
                return Err(Errno::ENOTDIR);
            } else if step.last {
                return Ok(found);
            } else {
                at = id;
            }
        }
        Ok(self.dots(at, Last::Root))
    }

    fn dots(&mut self, dir: InodeId, last: Last) -> Found {
        let node = self.tree.inode(dir).node;
        if !self.tree.inode(dir).is_dead() {
            self.touch_node(node, Role::Use);
        }
        Found { dir, node, inode: Some(dir), last, slash: false }
    }

    /// One component in a directory. What decides the walk is touched: a last component, a link, an absence, a file in the
    /// way. Directories on the way are not: the nearest one that the trace made stands for all above it.
    fn look_up(&mut self, dir: InodeId, step: &Step) -> Result<Found, Errno> {
        let holder = self.tree.inode(dir);
        if holder.is_dead() {
            return Err(Errno::ENOENT);
        }
        if step.name().len() > NAME_MAX {
            return Err(Errno::ENAMETOOLONG);
        }
        let above = holder.node;
        let node = self.tree.child(above, step.name());
        let inode = self.tree.node(node).inode;
        let passes = !step.last && inode.is_some_and(|id| self.tree.inode(id).is_directory());
        if !passes {
            self.touch_origin(above);
            self.touch_node(node, Role::Use);
        }
        if step.last {
            self.touch_inode(dir, Role::Use);
        }
        Ok(Found { dir, node, inode, last: Last::Name, slash: step.slash })
    }

    /// Touches the nearest directory of the trace's own making, at `node` or above it: all below came into being with it or
    /// later.
    fn touch_origin(&mut self, node: NodeId) {
        let mut at = node;
        while !self.tree.node(at).created {
            if at == super::tree::TOP {
                return;
            }
            at = self.tree.node(at).parent;
        }
        self.touch_node(at, Role::Traverse);
    }
}
