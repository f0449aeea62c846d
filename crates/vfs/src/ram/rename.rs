//! Renames.
//!
//! The order of errors is that of `do_renameat2` and `vfs_rename` of Linux 6.

use esker_base::Errno;

use super::dir::cost;
use super::names::growth;
use super::state::{Body, ROOT, State};
use crate::attr::FileType;
use crate::change::Rename;
use crate::word::{Ino, Name, Stamp};

/// A name and the directory that holds it, or will.
type Place<'a> = (Ino, Name<'a>);

/// What a rename does.
enum Plan {
    /// Both names lead to one inode.
    Nothing,
    /// The inode gets the new name, and this other one loses it.
    Move(Ino, Option<Ino>),
    /// The inodes of both names.
    Exchange(Ino, Ino),
}

impl State {
    /// Moves a name.
    pub(super) fn rename(&mut self, now: Stamp, from: Place<'_>, to: Place<'_>, how: Rename) -> Result<(), Errno> {
        match self.plan(from, to, how)? {
            Plan::Nothing => {}
            Plan::Move(moved, replaced) => self.apply_move(now, from, to, (moved, replaced)),
            Plan::Exchange(old, new) => self.apply_exchange(now, from, to, (old, new)),
        }
        Ok(())
    }

    fn plan(&self, from: Place<'_>, to: Place<'_>, how: Rename) -> Result<Plan, Errno> {
        let (from_dir, to_dir) = (self.dir(from.0)?, self.dir(to.0)?);
        let old = from_dir.find(from.1).ok_or(Errno::ENOENT)?;
        let new = to_dir.find(to.1);
        match (how, new) {
            (Rename::NoReplace, Some(_)) => return Err(Errno::EEXIST),
            (Rename::Exchange, None) => return Err(Errno::ENOENT),
            (Rename::Replace | Rename::NoReplace | Rename::Exchange, _) => {}
        }
        if self.holds(old, to.0) {
            return Err(Errno::EINVAL);
        }
        if new.is_some_and(|new| self.holds(new, from.0)) {
            return Err(if how == Rename::Exchange { Errno::EINVAL } else { Errno::ENOTEMPTY });
        }
        if new == Some(old) {
            return Ok(Plan::Nothing);
        }
        if how == Rename::Exchange {
            let new = new.expect("an exchange without it has ended above");
            self.may_count(from.0, to.0, (old, Some(new)))?;
            self.may_count(to.0, from.0, (new, Some(old)))?;
            return Ok(Plan::Exchange(old, new));
        }
        match new {
            Some(new) => self.may_replace(old, new)?,
            None => self.live_dir(to.0).map(|_| ())?,
        }
        self.may_count(from.0, to.0, (old, new))?;
        let grown = match new {
            Some(_) => 0,
            None if from.0 == to.0 => growth(to_dir, cost(to.1), cost(from.1)),
            None => growth(to_dir, cost(to.1), 0),
        };
        self.need(grown)?;
        Ok(Plan::Move(old, new))
    }

    /// Whether `ino` is `dir` or above it.
    fn holds(&self, ino: Ino, dir: Ino) -> bool {
        let mut at = dir;
        while at != ino && at != ROOT {
            // The directory above one that was removed may be gone.
            match self.above(at) {
                Some(above) => at = above,
                None => return false,
            }
        }
        at == ino
    }

    fn may_replace(&self, old: Ino, new: Ino) -> Result<(), Errno> {
        let is_directory = self.is_directory(old);
        match &self.known(new).body {
            Body::Directory(_) if !is_directory => Err(Errno::EISDIR),
            Body::Directory(dir) if !dir.is_empty() => Err(Errno::ENOTEMPTY),
            Body::File(_) | Body::Symlink(_) | Body::Other if is_directory => Err(Errno::ENOTDIR),
            Body::Directory(_) | Body::File(_) | Body::Symlink(_) | Body::Other => Ok(()),
        }
    }

    /// Whether a directory may get the first of the inodes in place of the second.
    fn may_count(&self, from: Ino, to: Ino, (comes, goes): (Ino, Option<Ino>)) -> Result<(), Errno> {
        let is_one_more = from != to && self.is_directory(comes) && !goes.is_some_and(|goes| self.is_directory(goes));
        if is_one_more && self.attr(to).links - 2 >= self.config.links_max { Err(Errno::EMLINK) } else { Ok(()) }
    }

    fn is_directory(&self, ino: Ino) -> bool {
        self.attr(ino).kind == FileType::Directory
    }

    fn apply_move(&mut self, now: Stamp, from: Place<'_>, to: Place<'_>, (moved, replaced): (Ino, Option<Ino>)) {
        let is_directory = self.is_directory(moved);
        match replaced {
            None if from.0 == to.0 => self.known_dir_mut(from.0).rename(from.1, to.1),
            None => {
                self.known_dir_mut(from.0).remove(from.1);
                self.known_dir_mut(to.0).insert(to.1, moved);
            }
            Some(_) => {
                self.known_dir_mut(from.0).remove(from.1);
                self.known_dir_mut(to.0).replace(to.1, moved);
            }
        }
        if is_directory {
            self.known_dir_mut(moved).parent = to.0;
        }
        let (comes, goes) = (i32::from(is_directory), replaced.is_some_and(|ino| self.is_directory(ino)));
        self.note_entries(from.0, now, -comes);
        self.note_entries(to.0, now, comes - i32::from(goes));
        self.known_mut(moved).change(now);
        if let Some(replaced) = replaced {
            self.drop_name(now, replaced);
        }
    }

    fn apply_exchange(&mut self, now: Stamp, from: Place<'_>, to: Place<'_>, (old, new): (Ino, Ino)) {
        self.known_dir_mut(from.0).replace(from.1, new);
        self.known_dir_mut(to.0).replace(to.1, old);
        for (ino, dir) in [(old, to.0), (new, from.0)] {
            if self.is_directory(ino) {
                self.known_dir_mut(ino).parent = dir;
            }
            self.known_mut(ino).change(now);
        }
        let more = i32::from(self.is_directory(old)) - i32::from(self.is_directory(new));
        self.note_entries(from.0, now, -more);
        self.note_entries(to.0, now, more);
    }
}
