//! Renames. The order of errors is that of Linux.

use std::rc::Rc;

use esker_base::Errno;
use esker_vfs::{Call, FileType, Ino, Rename};

use super::Inner;
use super::dirs::DirEdits;
use super::names::Place;
use super::table::Inode;
use crate::answer::told;
use crate::format::ino;
use crate::read::LINKS_MAX;

/// What a rename does.
enum Plan {
    /// Both names lead to one inode.
    Nothing,
    /// The inode gets the new name, and this other one loses it.
    Move(Rc<Inode>, Option<Rc<Inode>>),
    /// The inodes of both names.
    Exchange(Rc<Inode>, Rc<Inode>),
}

impl Inner {
    /// Moves a name.
    pub(super) async fn rename(&self, call: Call, from: Place<'_>, to: Place<'_>, how: Rename) -> Result<(), Errno> {
        let _turn = match from.0 == to.0 {
            true => None,
            false => Some(self.renames.take().await),
        };
        let (_claim, found) = self.claim_named(call, &[from, to]).await?;
        let [old, new] = [found[0].clone(), found[1].clone()];
        match self.plan_rename(call, (from.0, to.0), (old, new), how).await? {
            Plan::Nothing => Ok(()),
            Plan::Move(moved, replaced) => self.apply_move(call, from, to, (moved, replaced)).await,
            Plan::Exchange(old, new) => self.apply_exchange(call, from, to, (old, new)).await,
        }
    }

    async fn plan_rename(
        &self,
        call: Call,
        (from, to): (Ino, Ino),
        (old, new): (Option<Rc<Inode>>, Option<Rc<Inode>>),
        how: Rename,
    ) -> Result<Plan, Errno> {
        let old = old.ok_or(Errno::ENOENT)?;
        match (how, &new) {
            (Rename::NoReplace, Some(_)) => return Err(Errno::EEXIST),
            (Rename::Exchange, None) => return Err(Errno::ENOENT),
            (Rename::Replace | Rename::NoReplace | Rename::Exchange, _) => {}
        }
        if self.holds(call, &old, to).await? {
            return Err(Errno::EINVAL);
        }
        if let Some(new) = &new
            && self.holds(call, new, from).await?
        {
            return Err(if how == Rename::Exchange { Errno::EINVAL } else { Errno::ENOTEMPTY });
        }
        let new = match new {
            Some(new) if new.number == old.number => return Ok(Plan::Nothing),
            new => new,
        };
        if let (Rename::Exchange, Some(new)) = (how, &new) {
            self.may_count(from, to, &old, Some(new))?;
            self.may_count(to, from, new, Some(&old))?;
            return Ok(Plan::Exchange(old, new.clone()));
        }
        match &new {
            Some(new) => self.may_replace(call, &old, new).await?,
            None => self.live_dir(to).map(drop)?,
        }
        self.may_count(from, to, &old, new.as_ref())?;
        Ok(Plan::Move(old, new))
    }

    /// Whether an inode is `dir` or above it.
    async fn holds(&self, call: Call, inode: &Inode, dir: Ino) -> Result<bool, Errno> {
        if inode.kind() != FileType::Directory {
            return Ok(false);
        }
        let mut at = dir.0;
        while at != inode.number && at != ino::ROOT {
            let above = self.inode(at).await.map_err(told)?;
            if above.attr().links == 0 {
                return Ok(false);
            }
            at = self.above(call, &above).await?;
        }
        Ok(at == inode.number)
    }

    async fn may_replace(&self, call: Call, old: &Inode, new: &Inode) -> Result<(), Errno> {
        match (old.kind() == FileType::Directory, new.kind() == FileType::Directory) {
            (false, true) => Err(Errno::EISDIR),
            (_, true) if !self.dir(call, new).await?.borrow().is_empty() => Err(Errno::ENOTEMPTY),
            (true, false) => Err(Errno::ENOTDIR),
            (true, true) | (false, false) => Ok(()),
        }
    }

    /// Whether a directory may get one inode in place of another.
    fn may_count(&self, from: Ino, to: Ino, comes: &Inode, goes: Option<&Rc<Inode>>) -> Result<(), Errno> {
        let is_directory = |inode: &Inode| inode.kind() == FileType::Directory;
        let is_one_more = from != to && is_directory(comes) && !goes.is_some_and(|goes| is_directory(goes));
        let links = self.held_dir(to)?.attr().links;
        if is_one_more && links - 2 >= LINKS_MAX { Err(Errno::EMLINK) } else { Ok(()) }
    }

    async fn apply_move(
        &self,
        call: Call,
        from: Place<'_>,
        to: Place<'_>,
        (moved, replaced): (Rc<Inode>, Option<Rc<Inode>>),
    ) -> Result<(), Errno> {
        let (from_dir, to_dir, kind) = (self.held_dir(from.0)?, self.held_dir(to.0)?, moved.kind());
        let is_directory = kind == FileType::Directory;
        let mut edits = DirEdits::new(self, call);
        edits.remove(&from_dir, from.1).await?;
        match &replaced {
            Some(_) => edits.lead(&to_dir, to.1, (moved.number, kind)).await?,
            None => edits.add(&to_dir, to.1, (moved.number, kind)).await?,
        }
        if is_directory && from.0 != to.0 {
            edits.set_parent(&moved, to.0.0).await?;
        }
        let times = moved.attr();
        let ready = edits.ready().await?;
        self.check()?;
        ready.apply();
        let goes = replaced.as_ref().is_some_and(|inode| inode.kind() == FileType::Directory);
        from_dir.change(|state| state.record.links -= u16::from(is_directory));
        to_dir.change(|state| state.record.links = state.record.links + u16::from(is_directory) - u16::from(goes));
        moved.change(|state| {
            state.set_modified(times.modified);
            state.stamp_change(call.now);
        });
        if let Some(replaced) = replaced {
            self.drop_name(call, &replaced);
        }
        self.note_change(call.now);
        Ok(())
    }

    async fn apply_exchange(
        &self,
        call: Call,
        from: Place<'_>,
        to: Place<'_>,
        (old, new): (Rc<Inode>, Rc<Inode>),
    ) -> Result<(), Errno> {
        let (from_dir, to_dir) = (self.held_dir(from.0)?, self.held_dir(to.0)?);
        let (kinds, times) = ([old.kind(), new.kind()], [old.attr(), new.attr()]);
        let mut edits = DirEdits::new(self, call);
        edits.lead(&from_dir, from.1, (new.number, kinds[1])).await?;
        edits.lead(&to_dir, to.1, (old.number, kinds[0])).await?;
        if from.0 != to.0 {
            for (inode, kind, dir) in [(&old, kinds[0], to.0), (&new, kinds[1], from.0)] {
                if kind == FileType::Directory {
                    edits.set_parent(inode, dir.0).await?;
                }
            }
        }
        let ready = edits.ready().await?;
        self.check()?;
        ready.apply();
        let [goes, comes] = kinds.map(|kind| u16::from(kind == FileType::Directory));
        from_dir.change(|state| state.record.links = state.record.links + comes - goes);
        to_dir.change(|state| state.record.links = state.record.links + goes - comes);
        for (inode, times) in [(&old, times[0]), (&new, times[1])] {
            inode.change(|state| {
                state.set_modified(times.modified);
                state.stamp_change(call.now);
            });
        }
        self.note_change(call.now);
        Ok(())
    }
}
