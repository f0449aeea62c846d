//! The names of a directory: by name, and in the order of their records.

use std::collections::BTreeMap;

use esker_vfs::{FileType, Ino, Name, NameBuf};

use crate::error::{LfsError, damaged};
use crate::format::dir::record_bytes;
use crate::format::{DirRecord, DirRecords, Geometry, ino};

/// A name.
#[derive(Clone)]
pub(crate) struct Named {
    /// Offset of the record behind it: where a listing goes on.
    pub next: u64,
    pub name: NameBuf,
    pub ino: Ino,
    /// Kind of its inode, if the record says it.
    pub kind: Option<FileType>,
}

/// All names of a directory.
pub(crate) struct Names {
    dir: u64,
    /// Where ".." leads.
    pub parent: Ino,
    by_name: BTreeMap<NameBuf, u64>,
    order: BTreeMap<u64, Named>,
    /// The most bytes that a new record could have in each block.
    rooms: Vec<usize>,
}

/// Blocks of a directory of so many bytes.
///
/// # Errors
/// No directory has this size.
pub(crate) fn blocks_of(dir: u64, size: u64, geometry: &Geometry) -> Result<u64, LfsError> {
    let block = geometry.block_bytes as u64;
    // A directory has at most as many blocks as the device.
    match size.is_multiple_of(block) && size / block <= geometry.blocks() {
        true => Ok(size / block),
        false => damaged("directory", dir, 0, format!("it has {size} bytes, which are no whole blocks")),
    }
}

impl Names {
    /// Of a directory whose blocks come by [`Names::put_block`].
    pub(crate) fn new(dir: u64) -> Names {
        Names { dir, parent: Ino(0), by_name: BTreeMap::new(), order: BTreeMap::new(), rooms: Vec::new() }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// The same when all blocks have come.
    ///
    /// # Errors
    /// It has no "..".
    pub(crate) fn whole(self) -> Result<Names, LfsError> {
        match self.parent.0 {
            0 => damaged("directory", self.dir, 0, "it has no name \"..\""),
            _ => Ok(self),
        }
    }

    /// Takes over the bytes of a block, in place of those that it had.
    ///
    /// # Errors
    /// A record is wrong.
    pub(crate) fn put_block(&mut self, number: usize, block: &[u8]) -> Result<(), LfsError> {
        let base = (number * block.len()) as u64;
        let old: Vec<u64> = self.order.range(base..base + block.len() as u64).map(|(at, _)| *at).collect();
        for at in old {
            if let Some(gone) = self.order.remove(&at) {
                self.by_name.remove(&gone.name);
            }
        }
        let mut room = 0;
        for record in DirRecords::new(block) {
            let record = record.or_else(|why| damaged("directory", self.dir, 0, format!("block at {base}: {why}")))?;
            room = room.max(record.room());
            self.put_record(base + record.at as u64, &record)?;
        }
        if self.rooms.len() <= number {
            self.rooms.resize(number + 1, 0);
        }
        self.rooms[number] = room;
        Ok(())
    }

    fn put_record(&mut self, at: u64, record: &DirRecord<'_>) -> Result<(), LfsError> {
        match record.name {
            _ if record.ino == 0 => return Ok(()),
            b"." => return Ok(()),
            b".." => {
                self.parent = Ino(record.ino);
                return Ok(());
            }
            _ => {}
        }
        let wrong = |why: &str| damaged("directory", self.dir, 0, format!("the record at byte {at} {why}"));
        let Some(name) = record.real_name() else { return wrong("has a name that no path can hold") };
        if record.ino != ino::ROOT && record.ino < ino::FIRST {
            return wrong("leads to an inode of the file system itself");
        }
        let (name, next) = (name.to_buf(), at + record.bytes as u64);
        if self.by_name.insert(name.clone(), at).is_some() {
            return wrong("has a name that is there before");
        }
        self.order.insert(at, Named { next, name, ino: Ino(record.ino), kind: record.file_type() });
        Ok(())
    }

    /// The inode of a name.
    pub(crate) fn find(&self, name: Name<'_>) -> Option<Ino> {
        self.place(name).map(|at| self.order[&at].ino)
    }

    /// The offset of a name's record.
    pub(crate) fn place(&self, name: Name<'_>) -> Option<u64> {
        self.by_name.get(name.bytes()).copied()
    }

    /// Whether it has no names but its own.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Names whose records begin at `from` or behind.
    pub(crate) fn behind(&self, from: u64) -> impl Iterator<Item = &Named> {
        self.order.range(from..).map(|(_, named)| named)
    }

    /// How many blocks it has.
    pub(crate) fn blocks(&self) -> usize {
        self.rooms.len()
    }

    /// The block that has room for a name; the one behind the last if none has.
    pub(crate) fn block_for(&self, name: Name<'_>) -> usize {
        let needed = record_bytes(name.bytes().len());
        self.rooms.iter().position(|room| *room >= needed).unwrap_or(self.rooms.len())
    }
}
