//! Directories of a writer: their names in memory, and edits of several blocks that happen together.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use esker_base::Errno;
use esker_fs_pages::Prepared;
use esker_vfs::{Call, FileType, Ino, Name};

use super::Inner;
use super::table::Inode;
use crate::answer::told;
use crate::error::damaged;
use crate::format::DirRecords;
use crate::format::dir::{add_record, empty_block, parent_record, remove_record, set_record};
use crate::names::{Names, blocks_of};

/// Directories whose names stay in memory, and names of all of them.
const DIRS_MAX: usize = 1024;
const NAMES_MAX: usize = 1 << 18;

/// Names of directories in memory: as their blocks have them, also if no caller knows the inode any more.
#[derive(Default)]
pub(super) struct DirNames {
    /// With the time of the last use.
    dirs: BTreeMap<u64, (u64, Rc<RefCell<Names>>)>,
    clock: u64,
}

impl DirNames {
    fn get(&mut self, number: u64) -> Option<Rc<RefCell<Names>>> {
        self.clock += 1;
        let (used, dir) = self.dirs.get_mut(&number)?;
        *used = self.clock;
        Some(dir.clone())
    }

    /// In place of the one that was not used for the longest time, if there are too many.
    fn insert(&mut self, number: u64, dir: Rc<RefCell<Names>>) {
        self.clock += 1;
        self.dirs.insert(number, (self.clock, dir));
        let names = |dirs: &BTreeMap<u64, (u64, Rc<RefCell<Names>>)>| -> usize {
            dirs.values().map(|(_, dir)| dir.borrow().len()).sum()
        };
        while self.dirs.len() > 1 && (self.dirs.len() > DIRS_MAX || names(&self.dirs) > NAMES_MAX) {
            let oldest = self.dirs.iter().min_by_key(|(_, (used, _))| *used).map(|(number, _)| *number);
            self.dirs.remove(&oldest.expect("there are some"));
        }
    }

    /// Forgets those of a directory that is gone, or whose blocks are not as they were.
    pub(super) fn remove(&mut self, number: u64) {
        self.dirs.remove(&number);
    }
}

impl Inner {
    /// The names of a directory, which the caller has claimed.
    pub(super) async fn dir(&self, call: Call, inode: &Inode) -> Result<Rc<RefCell<Names>>, Errno> {
        if inode.kind() != FileType::Directory {
            return Err(Errno::ENOTDIR);
        }
        if let Some(dir) = self.dirs.borrow_mut().get(inode.number) {
            return Ok(dir);
        }
        let blocks = blocks_of(inode.number, inode.size(), &self.core.geometry).map_err(told)?;
        let mut names = Names::new(inode.number);
        for number in 0..blocks as usize {
            let bytes = self.dir_block(call, inode, number).await?;
            names.put_block(number, &bytes).map_err(told)?;
        }
        let dir = Rc::new(RefCell::new(names.whole().map_err(told)?));
        self.dirs.borrow_mut().insert(inode.number, dir.clone());
        Ok(dir)
    }

    /// The directory above another one, which need not be claimed.
    pub(super) async fn above(&self, call: Call, inode: &Inode) -> Result<u64, Errno> {
        let block = self.dir_block(call, inode, 0).await?;
        let parent = DirRecords::new(&block).find_map(|record| record.ok().filter(|record| record.name == b".."));
        match parent {
            Some(record) => Ok(record.ino),
            None => damaged("directory", inode.number, 0, "it has no name \"..\"").map_err(told),
        }
    }

    async fn dir_block(&self, call: Call, inode: &Inode, number: usize) -> Result<Vec<u8>, Errno> {
        let block = self.core.geometry.block_bytes;
        let span = ((number * block) as u64, block);
        let read = self.cache.read(&self.handle(), call, Ino(inode.number), span, inode.size()).await?;
        Ok(read.to_vec())
    }
}

/// Edits of directories that become visible together. Their directories are claimed.
pub(super) struct DirEdits<'i> {
    inner: &'i Inner,
    call: Call,
    dirs: BTreeMap<u64, (Rc<Inode>, Rc<RefCell<Names>>)>,
    /// By directory and number of the block.
    blocks: BTreeMap<(u64, usize), Vec<u8>>,
}

/// Edits that nothing holds up any more.
#[must_use = "edits that are dropped change nothing"]
pub(super) struct ReadyEdits<'i> {
    edits: DirEdits<'i>,
    writes: Vec<Prepared>,
}

impl<'i> DirEdits<'i> {
    /// No edits.
    pub(super) fn new(inner: &'i Inner, call: Call) -> DirEdits<'i> {
        DirEdits { inner, call, dirs: BTreeMap::new(), blocks: BTreeMap::new() }
    }

    /// Adds a name.
    pub(super) async fn add(
        &mut self,
        inode: &Rc<Inode>,
        name: Name<'_>,
        (ino, kind): (u64, FileType),
    ) -> Result<(), Errno> {
        let dir = self.enter(inode).await?;
        // A removal in the same change may have made room.
        let edited: Vec<usize> =
            self.blocks.range((inode.number, 0)..=(inode.number, usize::MAX)).map(|b| b.0.1).collect();
        let first = dir.borrow().block_for(name);
        for number in edited.into_iter().chain([first]) {
            let block = self.block(inode, number).await?;
            if add_record(block, name, ino, kind).map_err(|_| Errno::EIO)?.is_some() {
                return Ok(());
            }
        }
        let number = dir.borrow().blocks();
        let block = self.block(inode, number).await?;
        let added = add_record(block, name, ino, kind).map_err(|_| Errno::EIO)?;
        added.map(drop).ok_or(Errno::EIO)
    }

    /// Removes a name that is there.
    pub(super) async fn remove(&mut self, inode: &Rc<Inode>, name: Name<'_>) -> Result<(), Errno> {
        let (number, at) = self.find(inode, name).await?;
        remove_record(self.block(inode, number).await?, at).map_err(|_| Errno::EIO)
    }

    /// Leads a name that is there to another inode.
    pub(super) async fn lead(
        &mut self,
        inode: &Rc<Inode>,
        name: Name<'_>,
        (ino, kind): (u64, FileType),
    ) -> Result<(), Errno> {
        let (number, at) = self.find(inode, name).await?;
        set_record(self.block(inode, number).await?, at, ino, kind);
        Ok(())
    }

    /// Makes another directory the one above.
    pub(super) async fn set_parent(&mut self, inode: &Rc<Inode>, parent: u64) -> Result<(), Errno> {
        self.enter(inode).await?;
        set_record(self.block(inode, 0).await?, parent_record(), parent, FileType::Directory);
        Ok(())
    }

    /// Puts the first block of a new directory there.
    pub(super) fn found(&mut self, inode: &Rc<Inode>, block: Vec<u8>) {
        self.dirs.insert(inode.number, (inode.clone(), Rc::new(RefCell::new(Names::new(inode.number)))));
        self.blocks.insert((inode.number, 0), block);
    }

    async fn enter(&mut self, inode: &Rc<Inode>) -> Result<Rc<RefCell<Names>>, Errno> {
        if let Some((_, dir)) = self.dirs.get(&inode.number) {
            return Ok(dir.clone());
        }
        let dir = self.inner.dir(self.call, inode).await?;
        self.dirs.insert(inode.number, (inode.clone(), dir.clone()));
        Ok(dir)
    }

    /// The block and the offset in it of a name.
    async fn find(&mut self, inode: &Rc<Inode>, name: Name<'_>) -> Result<(usize, usize), Errno> {
        let dir = self.enter(inode).await?;
        let at = dir.borrow().place(name).ok_or(Errno::ENOENT)? as usize;
        let block = self.inner.core.geometry.block_bytes;
        Ok((at / block, at % block))
    }

    /// The bytes of a block; one behind the last is new.
    async fn block(&mut self, inode: &Rc<Inode>, number: usize) -> Result<&mut Vec<u8>, Errno> {
        let block = self.inner.core.geometry.block_bytes;
        if !self.blocks.contains_key(&(inode.number, number)) {
            let bytes = match ((number * block) as u64) < inode.size() {
                true => self.inner.dir_block(self.call, inode, number).await?,
                false => empty_block(block),
            };
            self.blocks.insert((inode.number, number), bytes);
        }
        Ok(self.blocks.get_mut(&(inode.number, number)).expect("it was put there"))
    }

    /// Waits for all that the edits need.
    ///
    /// # Errors
    /// `ENOSPC`, and what the device answers.
    pub(super) async fn ready(self) -> Result<ReadyEdits<'i>, Errno> {
        self.inner.room(self.blocks.len() as u64 + 1).await?;
        self.ready_to_remove().await
    }

    /// The same for a removal, which may use the segments that are kept back.
    pub(super) async fn ready_to_remove(self) -> Result<ReadyEdits<'i>, Errno> {
        let (inner, block) = (self.inner, self.inner.core.geometry.block_bytes);
        let mut writes = Vec::new();
        for (number, at) in self.blocks.keys() {
            let (inode, _) = &self.dirs[number];
            let span = ((at * block) as u64, block);
            writes.push(inner.cache.prepare(&inner.handle(), self.call, Ino(*number), span, inode.size()).await?);
        }
        Ok(ReadyEdits { edits: self, writes })
    }
}

impl ReadyEdits<'_> {
    /// Makes the edits. Stamps the directories.
    pub(super) fn apply(self) {
        let DirEdits { inner, call, dirs, blocks } = self.edits;
        for (write, ((number, at), bytes)) in self.writes.into_iter().zip(blocks) {
            write.write_bytes(&bytes);
            let (inode, dir) = &dirs[&number];
            let end = ((at + 1) * bytes.len()) as u64;
            inode.change(|state| {
                state.record.size = state.record.size.max(end);
                state.stamp(call.now);
            });
            // The bytes are right: they come from an index that was read soundly.
            if dir.borrow_mut().put_block(at, &bytes).is_err() {
                inner.dirs.borrow_mut().remove(number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dir(number: u64) -> Rc<RefCell<Names>> {
        Rc::new(RefCell::new(Names::new(number)))
    }

    #[test]
    fn the_directory_that_was_not_used_for_the_longest_time_goes_first() {
        let mut dirs = DirNames::default();
        for number in 0..DIRS_MAX as u64 {
            dirs.insert(number, dir(number));
        }
        assert!(dirs.get(0).is_some());
        dirs.insert(5000, dir(5000));
        assert!(dirs.get(0).is_some() && dirs.get(5000).is_some() && dirs.get(1).is_none());
        assert_eq!(dirs.dirs.len(), DIRS_MAX);
        dirs.remove(0);
        assert!(dirs.get(0).is_none());
    }
}
