//! Walks without pins.

use std::rc::Rc;

use esker_base::Errno;

use super::state::{Body, ROOT, State};
use crate::attr::Entry;
use crate::change::Last;
use crate::walk::{Route, Turn};
use crate::word::{Cred, Ino, Stamp};

/// Where a part of a walk ends.
enum Stop {
    /// At the end of the path.
    End(Ino),
    /// At a link in this directory.
    Link { dir: Ino, link: Ino },
}

impl State {
    /// Walks a path. Its end is pinned.
    pub(super) fn walk(&mut self, now: Stamp, cred: &Cred, from: Ino, path: &[u8], last: Last) -> Result<Entry, Errno> {
        let mut route = Route::new(path, last)?;
        let mut here = if route.is_absolute() { ROOT } else { from };
        self.node(here)?;
        loop {
            match self.go(&mut route, cred, here)? {
                Stop::End(ino) => return Ok(self.pin(ino)),
                Stop::Link { dir, link } => {
                    let target = self.target(now, link)?;
                    here = if route.follow(&target)? { ROOT } else { dir };
                }
            }
        }
    }

    /// Goes on to the end, or to a link that the walk follows.
    fn go(&self, route: &mut Route<'_>, cred: &Cred, from: Ino) -> Result<Stop, Errno> {
        let (mut here, mut node) = (from, self.known(from));
        loop {
            let next = match (route.turn(cred, &node.attr)?, &node.body) {
                (Turn::Arrived, _) => return Ok(Stop::End(here)),
                (_, Body::File(_) | Body::Symlink(_) | Body::Other) => return Err(Errno::ENOTDIR),
                (Turn::Up, Body::Directory(_)) if node.attr.links == 0 => return Err(Errno::ENOENT),
                (Turn::Up, Body::Directory(dir)) => dir.parent,
                (Turn::Down(name), Body::Directory(dir)) => dir.find(name).ok_or(Errno::ENOENT)?,
            };
            let next_node = self.known(next);
            if route.follows(next_node.attr.kind) {
                return Ok(Stop::Link { dir: here, link: next });
            }
            (here, node) = (next, next_node);
        }
    }

    /// The target of a symbolic link that is there.
    pub(super) fn target(&mut self, now: Stamp, ino: Ino) -> Result<Rc<[u8]>, Errno> {
        let target = match &self.known(ino).body {
            Body::Symlink(target) => target.clone(),
            Body::File(_) | Body::Directory(_) | Body::Other => return Err(Errno::EINVAL),
        };
        self.touch(ino, now);
        Ok(target)
    }
}
