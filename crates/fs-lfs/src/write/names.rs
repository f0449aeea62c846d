//! Calls on names: lookup, create, link, remove, rename, list. The order of errors is that of Linux.

use std::collections::BTreeSet;
use std::rc::Rc;

use esker_base::Errno;
use esker_block::Buf;
use esker_vfs::attr::mode;
use esker_vfs::claims::{Mode, Ticket};
use esker_vfs::{Call, Cookie, Entry, FileType, Ino, Listing, Name, New, NewKind, Remove, Rename, Row};

use super::Inner;
use super::dirs::DirEdits;
use super::table::Inode;
use crate::answer::told;
use crate::error::{LfsError, damaged};
use crate::format::dir::first_block;
use crate::format::{InodeRecord, ino};
use crate::read::LINKS_MAX;

/// Most bytes of the target of a symbolic link.
pub(super) const TARGET_BYTES_MAX: usize = 4095;

/// A name and the directory that holds it, or will.
type Place<'a> = (Ino, Name<'a>);

/// A number that no inode has, and that no other call takes until this is dropped.
struct FreeNumber<'i> {
    inner: &'i Inner,
    number: u64,
}

impl Drop for FreeNumber<'_> {
    fn drop(&mut self) {
        self.inner.creating.borrow_mut().remove(&self.number);
    }
}

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
    /// An inode by number: in memory, or from the IFILE.
    pub(super) async fn inode(&self, number: u64) -> Result<Rc<Inode>, LfsError> {
        if let Some(inode) = self.table.borrow().get(&number) {
            return Ok(inode.clone());
        }
        let record = match self.core.stored_inode(number).await? {
            Some(record) if record.kind().is_some() => record,
            Some(record) => return damaged("inode", number, 0, format!("mode {:o} names no kind", record.mode)),
            None => return damaged("inode", number, 0, "a name leads to it, and it is not in use"),
        };
        let inode = Rc::new(Inode::new(number, record, self.core.geometry.block_bytes)?);
        Ok(self.table.borrow_mut().entry(number).or_insert(inode).clone())
    }

    /// A pinned inode.
    pub(super) fn held(&self, number: Ino) -> Result<Rc<Inode>, Errno> {
        if self.is_closed.get() {
            return Err(Errno::EIO);
        }
        let table = self.table.borrow();
        let inode = table.get(&number.0).filter(|inode| inode.state.borrow().pins > 0);
        inode.cloned().ok_or(Errno::ENOENT)
    }

    pub(super) fn held_dir(&self, number: Ino) -> Result<Rc<Inode>, Errno> {
        let inode = self.held(number)?;
        if inode.kind() == FileType::Directory { Ok(inode) } else { Err(Errno::ENOTDIR) }
    }

    /// A pinned directory that was not removed.
    fn live_dir(&self, number: Ino) -> Result<Rc<Inode>, Errno> {
        let inode = self.held_dir(number)?;
        if inode.attr().links == 0 { Err(Errno::ENOENT) } else { Ok(inode) }
    }

    /// Pins an inode and gives it out.
    pub(super) fn pin(&self, inode: &Inode) -> Entry {
        inode.state.borrow_mut().pins += 1;
        inode.entry()
    }

    /// Gives pins back.
    pub(super) fn unpin(&self, number: Ino, pins: u64) {
        let inode = self.table.borrow().get(&number.0).cloned();
        let inode = inode.expect("pins are given back for inodes that were given out");
        let mut state = inode.state.borrow_mut();
        state.pins = state.pins.checked_sub(pins).expect("no more pins are given back than were given out");
        drop(state);
        self.reap(&inode);
        drop(inode);
        self.drop_unused(number.0);
    }

    /// Deletes an inode without names and pins.
    fn reap(&self, inode: &Rc<Inode>) {
        let is_needed = {
            let state = inode.state.borrow();
            state.pins > 0 || state.record.links > 0
        };
        if !is_needed {
            self.delete(inode);
        }
    }

    /// Deletes an inode with the next checkpoint.
    pub(super) fn delete(&self, inode: &Rc<Inode>) {
        if self.table.borrow_mut().remove(&inode.number).is_none() {
            return;
        }
        self.dirs.borrow_mut().remove(&inode.number);
        self.cache.discard(Ino(inode.number), 0..u64::MAX);
        self.inodes.set(self.inodes.get().saturating_sub(1));
        self.deleted.borrow_mut().push(inode.clone());
        self.note_change(self.clock.get());
    }

    /// The inode of a name.
    pub(super) async fn lookup(&self, call: Call, dir: Ino, name: Name<'_>) -> Result<Entry, Errno> {
        let _claim = self.claims.claim(&[(dir, Mode::Shared)]).await;
        let inode = self.held_dir(dir)?;
        let found = self.dir(call, &inode).await?.borrow().find(name).ok_or(Errno::ENOENT)?;
        Ok(self.pin(&*self.named(found).await?))
    }

    /// An inode that a name leads to.
    async fn named(&self, number: u64) -> Result<Rc<Inode>, Errno> {
        let inode = self.inode(number).await.map_err(told)?;
        let has_name = inode.attr().links > 0;
        if has_name { Ok(inode) } else { damaged("inode", number, 0, "it has no links").map_err(told) }
    }

    /// The directory above.
    pub(super) async fn parent(&self, call: Call, dir: Ino) -> Result<Entry, Errno> {
        let _claim = self.claims.claim(&[(dir, Mode::Shared)]).await;
        let inode = self.live_dir(dir)?;
        let parent = if dir.0 == ino::ROOT { ino::ROOT } else { self.dir(call, &inode).await?.borrow().parent };
        let parent = self.inode(parent).await.map_err(told)?;
        if parent.kind() == FileType::Directory { Ok(self.pin(&parent)) } else { Err(Errno::EIO) }
    }

    /// Entries from `from` on.
    pub(super) async fn list(&self, call: Call, dir: Ino, from: Cookie, mut into: Listing) -> Result<Listing, Errno> {
        let _claim = self.claims.claim(&[(dir, Mode::Shared)]).await;
        let inode = self.live_dir(dir)?;
        let names = self.dir(call, &inode).await?;
        let mut at = from.0;
        loop {
            // A look at an inode may wait, and the index is not held meanwhile. The claim keeps it as it is.
            let Some(named) = names.borrow().behind(at).next().cloned() else { break };
            let name = named.name.name();
            if !into.fits(name) {
                break;
            }
            let wants = into.wants_entries();
            let (kind, entry) = match named.kind {
                Some(kind) if !wants => (kind, None),
                _ => {
                    let inode = self.named(named.ino).await?;
                    (inode.kind(), wants.then(|| self.pin(&inode)))
                }
            };
            at = named.next;
            into.push(Row { ino: Ino(named.ino), next: Cookie(named.next), kind, name, entry });
        }
        inode.touch(call.now);
        Ok(into)
    }

    /// A number that no inode has.
    async fn free_number(&self) -> Result<FreeNumber<'_>, Errno> {
        let (core, deleted) =
            (&self.core, self.deleted.borrow().iter().map(|inode| inode.number).collect::<BTreeSet<_>>());
        let may = |number: u64| {
            !deleted.contains(&number)
                && !self.deleting.borrow().contains(&number)
                && !self.creating.borrow().contains(&number)
                && !self.table.borrow().contains_key(&number)
        };
        let found = core.free_entry(&core.ifile, &core.geometry.inodes, self.inode_hint.get(), may).await;
        let number = found.map_err(told)?;
        self.inode_hint.set(number + 1);
        self.creating.borrow_mut().insert(number);
        Ok(FreeNumber { inner: self, number })
    }

    /// Makes an inode.
    pub(super) async fn create(
        &self,
        call: Call,
        dir: Ino,
        name: Option<Name<'_>>,
        new: New<'_>,
    ) -> Result<Entry, Errno> {
        let _claim = self.claims.claim(&[(dir, Mode::Exclusive)]).await;
        let parent = self.live_dir(dir)?;
        if let Some(name) = name
            && self.dir(call, &parent).await?.borrow().find(name).is_some()
        {
            return Err(Errno::EEXIST);
        }
        let kind = new_kind(new, name.is_some())?;
        let is_directory = kind == FileType::Directory;
        if is_directory && parent.attr().links - 2 >= LINKS_MAX {
            return Err(Errno::EMLINK);
        }
        self.room(2).await?;
        let free = self.free_number().await?;
        let number = free.number;
        let generation = self.core.last_generation(number).await.map_err(told)?.wrapping_add(1);
        let record = new_record(new, kind, name.is_some(), generation);
        let inode = Inode::new(number, record, self.core.geometry.block_bytes).map_err(told)?;
        let inode = Rc::new(inode);
        inode.change(|state| {
            state.stamp(call.now);
            state.accessed = call.now;
            state.is_nameless = name.is_none();
        });
        let mut edits = DirEdits::new(self, call);
        if let Some(name) = name {
            edits.add(&parent, name, (number, kind)).await?;
        }
        if is_directory {
            edits.found(&inode, first_block(self.core.geometry.block_bytes, number, dir.0));
        }
        let target = match new.what {
            NewKind::Symlink(target) => {
                let span = (0, target.len());
                Some((target, self.cache.prepare(&self.handle(), call, Ino(number), span, 0).await?))
            }
            NewKind::File | NewKind::Directory | NewKind::Node(..) => None,
        };
        let ready = edits.ready().await?;
        self.check()?;
        ready.apply();
        if let Some((target, prepared)) = target {
            prepared.write(&mut Buf::from_bytes(self.core.medium.pool(), target));
        }
        if is_directory {
            parent.change(|state| state.record.links += 1);
        }
        self.inodes.set(self.inodes.get() + 1);
        self.table.borrow_mut().insert(number, inode.clone());
        self.note_change(call.now);
        Ok(self.pin(&inode))
    }

    /// Gives an inode one more name.
    pub(super) async fn link(&self, call: Call, number: Ino, dir: Ino, name: Name<'_>) -> Result<Entry, Errno> {
        let _claim = self.claims.claim(&[(dir, Mode::Exclusive), (number, Mode::Exclusive)]).await;
        let parent = self.live_dir(dir)?;
        if self.dir(call, &parent).await?.borrow().find(name).is_some() {
            return Err(Errno::EEXIST);
        }
        let inode = self.held(number)?;
        let attr = inode.attr();
        match () {
            () if attr.kind == FileType::Directory => return Err(Errno::EPERM),
            () if attr.links == 0 && !inode.state.borrow().is_nameless => return Err(Errno::ENOENT),
            () if attr.links >= LINKS_MAX => return Err(Errno::EMLINK),
            () => {}
        }
        let mut edits = DirEdits::new(self, call);
        edits.add(&parent, name, (number.0, attr.kind)).await?;
        let ready = edits.ready().await?;
        self.check()?;
        ready.apply();
        inode.change(|state| {
            state.is_nameless = false;
            state.record.links += 1;
            state.stamp_change(call.now);
        });
        self.note_change(call.now);
        Ok(self.pin(&inode))
    }

    /// Claims directories and the inodes to which names in them lead.
    async fn claim_named(&self, call: Call, dirs: &[Place<'_>]) -> Result<(Ticket, Vec<Option<Rc<Inode>>>), Errno> {
        loop {
            let found = self.find_all(call, dirs, true).await?;
            let victims = found.iter().flatten().map(|number| (Ino(*number), Mode::Exclusive));
            let wanted: Vec<_> = dirs.iter().map(|(dir, _)| (*dir, Mode::Exclusive)).chain(victims).collect();
            let ticket = self.claims.claim(&wanted).await;
            if self.find_all(call, dirs, false).await? != found {
                continue;
            }
            let mut inodes = Vec::new();
            for number in found {
                inodes.push(match number {
                    Some(number) => Some(self.named(number).await?),
                    None => None,
                });
            }
            return Ok((ticket, inodes));
        }
    }

    async fn find_all(&self, call: Call, dirs: &[Place<'_>], claims: bool) -> Result<Vec<Option<u64>>, Errno> {
        let mut found = Vec::new();
        for (dir, name) in dirs {
            let _claim = match claims {
                true => Some(self.claims.claim(&[(*dir, Mode::Shared)]).await),
                false => None,
            };
            let inode = self.held_dir(*dir)?;
            found.push(self.dir(call, &inode).await?.borrow().find(*name));
        }
        Ok(found)
    }

    /// Removes a name.
    pub(super) async fn remove(&self, call: Call, dir: Ino, name: Name<'_>, what: Remove) -> Result<(), Errno> {
        let (_claim, found) = self.claim_named(call, &[(dir, name)]).await?;
        let victim = found.into_iter().flatten().next().ok_or(Errno::ENOENT)?;
        let is_directory = victim.kind() == FileType::Directory;
        match what {
            Remove::File if is_directory => return Err(Errno::EISDIR),
            Remove::Directory if !is_directory => return Err(Errno::ENOTDIR),
            Remove::Directory if !self.dir(call, &victim).await?.borrow().is_empty() => return Err(Errno::ENOTEMPTY),
            Remove::Directory | Remove::File => {}
        }
        let parent = self.held_dir(dir)?;
        let mut edits = DirEdits::new(self, call);
        edits.remove(&parent, name).await?;
        let ready = edits.ready_to_remove().await?;
        self.check()?;
        ready.apply();
        if is_directory {
            parent.change(|state| state.record.links -= 1);
        }
        self.drop_name(call, &victim);
        self.note_change(call.now);
        Ok(())
    }

    /// Notes that an inode has lost a name; a directory its only one.
    fn drop_name(&self, call: Call, inode: &Rc<Inode>) {
        let is_directory = inode.kind() == FileType::Directory;
        inode.change(|state| {
            state.record.links = if is_directory { 0 } else { state.record.links - 1 };
            state.stamp_change(call.now);
        });
        self.reap(inode);
    }

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

/// The kind of a new inode.
fn new_kind(new: New<'_>, is_named: bool) -> Result<FileType, Errno> {
    match new.what {
        NewKind::File => Ok(FileType::File),
        NewKind::Directory | NewKind::Symlink(_) | NewKind::Node(..) if !is_named => Err(Errno::EINVAL),
        NewKind::Directory => Ok(FileType::Directory),
        NewKind::Symlink([]) => Err(Errno::ENOENT),
        NewKind::Symlink(target) if target.len() > TARGET_BYTES_MAX => Err(Errno::ENAMETOOLONG),
        NewKind::Symlink(_) => Ok(FileType::Symlink),
        NewKind::Node(FileType::File | FileType::Directory | FileType::Symlink, _) => Err(Errno::EINVAL),
        NewKind::Node(kind, _) => Ok(kind),
    }
}

fn new_record(new: New<'_>, kind: FileType, is_named: bool, generation: u32) -> InodeRecord {
    let (bits, map, size) = match new.what {
        NewKind::Symlink(target) => (0o777, [0; 56], target.len() as u64),
        NewKind::Node(FileType::CharDevice | FileType::BlockDevice, device) => {
            let mut map = [0; 56];
            map[..8].copy_from_slice(&device.to_le_bytes());
            (new.mode & mode::ALL, map, 0)
        }
        NewKind::File | NewKind::Directory | NewKind::Node(..) => (new.mode & mode::ALL, [0; 56], 0),
    };
    let links = if kind == FileType::Directory { 2 } else { u16::from(is_named) };
    InodeRecord {
        mode: bits | InodeRecord::kind_bits(kind),
        links,
        uid: new.uid,
        gid: new.gid,
        size,
        map,
        generation,
        ..InodeRecord::EMPTY
    }
}
