//! Calls on names: lookup, create, link, remove, list. The order of errors is that of Linux.

use std::rc::Rc;

use esker_base::Errno;
use esker_block::Buf;
use esker_vfs::attr::mode;
use esker_vfs::claims::{Mode, Ticket};
use esker_vfs::{Call, Cookie, Entry, FileType, Ino, Listing, Name, New, NewKind, Remove, Row};

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
pub(super) type Place<'a> = (Ino, Name<'a>);

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
    pub(super) fn live_dir(&self, number: Ino) -> Result<Rc<Inode>, Errno> {
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
        self.dirs.borrow_mut().remove(inode.number);
        self.cache.discard(Ino(inode.number), 0..u64::MAX);
        self.inodes.set(self.inodes.get().saturating_sub(1));
        self.deleted.borrow_mut().insert(inode.number, inode.clone());
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
    async fn named(&self, Ino(number): Ino) -> Result<Rc<Inode>, Errno> {
        let inode = self.inode(number).await.map_err(told)?;
        let has_name = inode.attr().links > 0;
        if has_name { Ok(inode) } else { damaged("inode", number, 0, "it has no links").map_err(told) }
    }

    /// The directory above.
    pub(super) async fn parent(&self, call: Call, dir: Ino) -> Result<Entry, Errno> {
        let _claim = self.claims.claim(&[(dir, Mode::Shared)]).await;
        let inode = self.live_dir(dir)?;
        let parent = if dir.0 == ino::ROOT { ino::ROOT } else { self.dir(call, &inode).await?.borrow().parent.0 };
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
            into.push(Row { ino: named.ino, next: Cookie(named.next), kind, name, entry });
        }
        inode.touch(call.now);
        Ok(into)
    }

    /// A number that no inode has.
    async fn free_number(&self) -> Result<FreeNumber<'_>, Errno> {
        let core = &self.core;
        let may = |number: u64| {
            !self.deleted.borrow().contains_key(&number)
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
    pub(super) async fn claim_named(
        &self,
        call: Call,
        dirs: &[Place<'_>],
    ) -> Result<(Ticket, Vec<Option<Rc<Inode>>>), Errno> {
        loop {
            let found = self.find_all(call, dirs, true).await?;
            let victims = found.iter().flatten().map(|number| (*number, Mode::Exclusive));
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

    async fn find_all(&self, call: Call, dirs: &[Place<'_>], claims: bool) -> Result<Vec<Option<Ino>>, Errno> {
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
    pub(super) fn drop_name(&self, call: Call, inode: &Rc<Inode>) {
        let is_directory = inode.kind() == FileType::Directory;
        inode.change(|state| {
            state.record.links = if is_directory { 0 } else { state.record.links - 1 };
            state.stamp_change(call.now);
        });
        self.reap(inode);
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
