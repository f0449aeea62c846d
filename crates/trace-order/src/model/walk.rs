//! From a path to what it leads to, as Linux walks (fs/namei.c): symbolic links, dots, trailing slashes, limits.

use esker_base::Errno;
use esker_trace_calls::name::PathBytes;
use esker_trace_calls::words::FileKind;

use super::World;
use super::resource::Role;
use super::tree::{InodeId, NodeId, ROOT, TOP};

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
pub(super) struct WalkEnd {
    /// The directory that holds the last component.
    pub dir: InodeId,
    /// The full path of the last component. Dots have that of the directory to which they lead.
    pub node: NodeId,
    /// What it leads to.
    pub inode: Option<InodeId>,
    /// Whether slashes came after it.
    pub slash: bool,
    /// Whether it was the last component.
    end: bool,
}

/// The last component before it is looked up: names are made and removed.
pub(super) struct End {
    /// The directory that holds it.
    pub dir: InodeId,
    /// What it is.
    pub last: Last,
    /// Its name, unless it is made of dots or absent.
    step: Option<Step>,
}

/// How far one step led.
enum Went {
    To(WalkEnd),
    On(InodeId),
}

/// The components that are still to be walked: the innermost symbolic link's last.
struct Rest(Vec<(PathBytes, usize)>);

/// A walk under way.
struct Way {
    at: InodeId,
    rest: Rest,
    links: u32,
    /// Whether what is found must be a directory.
    directory: bool,
}

impl Way {
    fn new(base: InodeId, path: &PathBytes) -> Way {
        let at = if path.first() == Some(&b'/') { ROOT } else { base };
        Way { at, rest: Rest(vec![(path.clone(), 0)]), links: 0, directory: false }
    }
}

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
    /// Walks `path` from directory `base`, unless it is absolute. What decides the walk is touched as used.
    ///
    /// # Errors
    /// What the kernel answers. An absent last component is no error here.
    pub(super) fn walk(&mut self, base: InodeId, path: &PathBytes, goal: Goal) -> Result<WalkEnd, Errno> {
        let mut way = Way::new(base, path);
        loop {
            let end = self.walk_on(&mut way)?;
            let Some(step) = &end.step else { return Ok(self.dots(end.dir)) };
            if step.slash && matches!(goal, Goal::Make(_)) {
                return Err(Errno::EISDIR);
            }
            way.directory |= step.slash;
            let follow = matches!(goal, Goal::Follow | Goal::Make(true)) || way.directory;
            let found = self.look_up(end.dir, step)?;
            match self.go(&mut way, found, follow)? {
                Went::To(found) => return Ok(found),
                Went::On(dir) => way.at = dir,
            }
        }
    }

    /// Walks to the last component and leaves it alone.
    ///
    /// # Errors
    /// What the kernel answers.
    pub(super) fn walk_to_end(&mut self, base: InodeId, path: &PathBytes) -> Result<End, Errno> {
        self.walk_on(&mut Way::new(base, path))
    }

    /// Looks up the last component.
    ///
    /// # Errors
    /// Its directory is gone, or it is too long. Absence is no error.
    ///
    /// # Panics
    /// If it is made of dots: callers look at [`End::last`] first.
    pub(super) fn look_up_end(&mut self, end: &End) -> Result<WalkEnd, Errno> {
        let step = end.step.as_ref().expect("the caller checked that it is a name");
        self.look_up(end.dir, step)
    }

    /// Walks until the component that is the last one at this moment.
    fn walk_on(&mut self, way: &mut Way) -> Result<End, Errno> {
        while let Some(step) = way.rest.next() {
            let last = match step.name() {
                b"." => Last::Dot,
                b".." => Last::DotDot,
                _ => Last::Name,
            };
            if last == Last::DotDot {
                way.at = self.tree.inode(way.at).parent;
            }
            if step.last {
                return Ok(End { dir: way.at, last, step: Some(step).filter(|_| last == Last::Name) });
            }
            if last == Last::Name {
                let found = self.look_up(way.at, &step)?;
                match self.go(way, found, true)? {
                    Went::On(dir) => way.at = dir,
                    Went::To(WalkEnd { inode: None, .. }) => return Err(Errno::ENOENT),
                    Went::To(_) => return Err(Errno::ENOTDIR),
                }
            }
        }
        Ok(End { dir: way.at, last: Last::Root, step: None })
    }

    /// From a component on: through a link, into a directory on the way, or no further.
    fn go(&mut self, way: &mut Way, found: WalkEnd, follow: bool) -> Result<Went, Errno> {
        let Some(id) = found.inode else { return Ok(Went::To(found)) };
        let inode = self.tree.inode(id);
        if inode.kind == FileKind::Symlink && follow {
            way.links += 1;
            if way.links > LINKS_MAX {
                return Err(Errno::ELOOP);
            }
            let from = if inode.target.first() == Some(&b'/') { ROOT } else { found.dir };
            way.rest.0.push((inode.target.clone(), 0));
            return Ok(Went::On(from));
        }
        match inode.is_directory() {
            true if !found.end => Ok(Went::On(id)),
            false if found.end && way.directory => Err(Errno::ENOTDIR),
            _ => Ok(Went::To(found)),
        }
    }

    fn dots(&mut self, dir: InodeId) -> WalkEnd {
        let node = self.tree.inode(dir).node;
        if !self.tree.inode(dir).is_dead() {
            self.touch_node(node, Role::Use);
        }
        WalkEnd { dir, node, inode: Some(dir), slash: false, end: true }
    }

    /// One component in a directory. What decides the walk is touched: a last component, a link, an absence, a file in
    /// the way. Directories on the way are not: the nearest one that the trace made stands for all above it.
    fn look_up(&mut self, dir: InodeId, step: &Step) -> Result<WalkEnd, Errno> {
        let holder = self.tree.inode(dir);
        if holder.is_dead() {
            return Err(Errno::ENOENT);
        }
        if step.name().len() > NAME_MAX {
            return Err(Errno::ENAMETOOLONG);
        }
        let above = holder.node;
        let node = self.tree.child(above, step.name());
        self.looked = Some((node, step.last));
        let inode = self.tree.node(node).inode;
        let passes = !step.last && inode.is_some_and(|id| self.tree.inode(id).is_directory());
        if !passes {
            self.touch_origin(above);
            self.touch_node(node, Role::Use);
        }
        if step.last {
            self.touch_inode(dir, Role::Use);
        }
        Ok(WalkEnd { dir, node, inode, slash: step.slash, end: step.last })
    }

    /// Touches the nearest directory of the trace's own making, at `node` or above it: all below came into being with
    /// it or later.
    fn touch_origin(&mut self, node: NodeId) {
        let mut at = node;
        while !self.tree.node(at).created {
            if at == TOP {
                return;
            }
            at = self.tree.node(at).parent;
        }
        self.touch_node(at, Role::Traverse);
    }
}
