//! Walks without pins.

use std::rc::Rc;

use esker_base::Errno;

use super::state::{Body, ROOT, State};
use crate::attr::Entry;
use crate::change::Last;
use crate::walk::{Route, Turn};
use crate::word::{Cred, Ino, Stamp};

impl State {
    /// Walks a path. Its end is pinned.
    pub(super) fn walk(&mut self, now: Stamp, cred: &Cred, from: Ino, path: &[u8], last: Last) -> Result<Entry, Errno> {
        let mut route = Route::new(path, last)?;
        let mut here = if route.is_absolute() { ROOT } else { from };
        self.node(here)?;
        loop {
            let next = match route.turn(cred, self.attr(here))? {
                Turn::Arrived => return Ok(self.pin(here)),
                Turn::Up if self.attr(here).links == 0 => return Err(Errno::ENOENT),
                Turn::Up => self.above(here).ok_or(Errno::ENOTDIR)?,
                Turn::Down(name) => match &self.known(here).body {
                    Body::Directory(dir) => dir.find(name).ok_or(Errno::ENOENT)?,
                    Body::File(_) | Body::Symlink(_) | Body::Other => return Err(Errno::ENOTDIR),
                },
            };
            if !route.follows(self.attr(next).kind) {
                here = next;
                continue;
            }
            if route.follow(&self.target(now, next)?)? {
                here = ROOT;
            }
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
