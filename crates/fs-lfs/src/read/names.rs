//! The names of a directory, in the order of its records and by name.

use std::collections::BTreeMap;

use esker_vfs::{FileType, Ino, NameBuf};

use crate::error::{LfsError, damaged};
use crate::format::{DirRecords, ino};
use crate::map::MappedFile;
use crate::volume::Volume;

/// A name.
pub(super) struct Named {
    /// Offset of its record.
    pub at: u64,
    /// Offset of the next record.
    pub next: u64,
    pub name: NameBuf,
    pub ino: Ino,
    /// Kind of its inode, if the record says it.
    pub kind: Option<FileType>,
}

/// All names of a directory.
pub(super) struct Names {
    order: Vec<Named>,
    by_name: BTreeMap<NameBuf, usize>,
    /// Where ".." leads.
    pub parent: Ino,
}

impl Names {
    /// Reads a directory of so many bytes.
    pub(super) async fn read(volume: &Volume, file: &MappedFile, size: u64) -> Result<Names, LfsError> {
        let block_bytes = volume.geometry().block_bytes as u64;
        // A directory has at most as many blocks as the device.
        if !size.is_multiple_of(block_bytes) || size / block_bytes > volume.geometry().blocks() {
            return damaged("directory", file.ino, 0, format!("it has {size} bytes, which are no whole blocks"));
        }
        let mut names = Names { order: Vec::new(), by_name: BTreeMap::new(), parent: Ino(0) };
        for index in 0..size / block_bytes {
            let Some(block) = volume.file_block(file, index).await? else { continue };
            names.add_block(file.ino, index * block_bytes, &block)?;
        }
        match names.parent.0 {
            0 => damaged("directory", file.ino, 0, "it has no name \"..\""),
            _ => Ok(names),
        }
    }

    fn add_block(&mut self, dir: u64, base: u64, block: &[u8]) -> Result<(), LfsError> {
        for record in DirRecords::new(block) {
            let record = record.or_else(|why| damaged("directory", dir, 0, format!("block at {base}: {why}")))?;
            let at = base + record.at as u64;
            match record.name {
                _ if record.ino == 0 => continue,
                b"." => continue,
                b".." => {
                    self.parent = Ino(record.ino);
                    continue;
                }
                _ => {}
            }
            let wrong = |why: &str| damaged("directory", dir, 0, format!("the record at byte {at} {why}"));
            let Some(name) = record.real_name() else { return wrong("has a name that no path can hold") };
            if record.ino != ino::ROOT && record.ino < ino::FIRST {
                return wrong("leads to an inode of the file system itself");
            }
            let next = at + record.bytes as u64;
            if self.by_name.insert(name.to_buf(), self.order.len()).is_some() {
                return wrong("has a name that is there before");
            }
            let (name, kind) = (name.to_buf(), record.file_type());
            self.order.push(Named { at, next, name, ino: Ino(record.ino), kind });
        }
        Ok(())
    }

    /// The inode of a name.
    pub(super) fn find(&self, name: &[u8]) -> Option<Ino> {
        self.by_name.get(name).map(|number| self.order[*number].ino)
    }

    /// Names whose records begin at `from` or behind.
    pub(super) fn behind(&self, from: u64) -> &[Named] {
        &self.order[self.order.partition_point(|named| named.at < from)..]
    }
}
