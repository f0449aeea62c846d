//! The calls of an [`LfsReader`]: those that change anything are refused.

use std::rc::Rc;

use esker_base::{ByteRange, Errno};
use esker_block::{Buf, Stat, Step};
use esker_vfs::{
    About, Allocate, Answer, At, Attr, Call, Cookie, Copying, Entry, FileSystem, FileType, Ino, Listing, Name, New,
    Remove, Rename, Row, Seek, SetAttr, Space, Sync, Write, Written, refuse,
};

use super::{LfsReader, entry};
use crate::answer::{answer, told};
use crate::format::{InodeRecord, ino};

impl LfsReader {
    fn held(&self, number: Ino) -> Result<Rc<InodeRecord>, Errno> {
        match self.0.is_closed.get() {
            true => Err(Errno::EIO),
            false => self.pinned(number).ok_or(Errno::ENOENT),
        }
    }

    fn held_dir(&self, number: Ino) -> Result<Rc<InodeRecord>, Errno> {
        let inode = self.held(number)?;
        if inode.kind() == Some(FileType::Directory) { Ok(inode) } else { Err(Errno::ENOTDIR) }
    }

    fn held_file(&self, number: Ino) -> Result<Rc<InodeRecord>, Errno> {
        let inode = self.held(number)?;
        match inode.kind() {
            Some(FileType::File) => Ok(inode),
            Some(FileType::Directory) => Err(Errno::EISDIR),
            _ => Err(Errno::EINVAL),
        }
    }

    /// Pins an inode that may not be in use yet.
    async fn give(&self, number: Ino) -> Result<Entry, Errno> {
        let inode = match self.pinned(number) {
            Some(inode) => inode,
            None => Rc::new(self.inode(number).await.map_err(told)?),
        };
        Ok(self.pin_inode(number, &inode))
    }

    async fn list_rows(&self, dir: Ino, from: Cookie, mut into: Listing) -> Result<Listing, Errno> {
        let inode = self.held_dir(dir)?;
        let names = self.names(dir, &inode).await.map_err(told)?;
        for named in names.behind(from.0) {
            let name = named.name.name();
            if !into.fits(name) {
                break;
            }
            let given = match into.wants_entries() || named.kind.is_none() {
                true => Some(self.give(named.ino).await?),
                false => None,
            };
            let kind = given.map(|entry| entry.attr.kind).or(named.kind).unwrap_or(FileType::File);
            let entry = if into.wants_entries() { given } else { None };
            if let (None, Some(_)) = (entry, given) {
                self.forget(named.ino, 1);
            }
            into.push(Row { ino: named.ino, next: Cookie(named.next), kind, name, entry });
        }
        Ok(into)
    }

    async fn seek_from(&self, number: Ino, at: u64, what: Seek) -> Result<u64, Errno> {
        let inode = self.held_file(number)?;
        if at >= inode.size {
            return Err(Errno::ENXIO);
        }
        let (file, volume) = (self.file(number, &inode), &self.0.volume);
        let block = volume.geometry().block_bytes as u64;
        let (index, end) = (at / block, inode.size.div_ceil(block));
        match what {
            Seek::Data => match volume.next_data(&file, index).await.map_err(told)? {
                Some(data) if data < end => Ok((data * block).max(at)),
                _ => Err(Errno::ENXIO),
            },
            Seek::Hole => {
                let hole = volume.next_hole(&file, index).await.map_err(told)?.min(end);
                Ok(hole.saturating_mul(block).clamp(at, inode.size))
            }
        }
    }
}

/// Calls that change something.
macro_rules! refused {
    ($( fn $name:ident($( $arg:ty ),*) -> $answer:ty; )*) => {
        $( fn $name(&self, $( _: $arg ),*) -> Answer<$answer> {
            refuse(Errno::EROFS)
        } )*
    };
}

impl FileSystem for LfsReader {
    fn about(&self) -> &About {
        &self.0.about
    }

    fn root(&self) -> Ino {
        Ino(ino::ROOT)
    }

    fn lookup(&self, _: Call, dir: Ino, name: Name<'_>) -> Answer<Entry> {
        let (fs, name) = (self.clone(), name.to_buf());
        answer(async move {
            let inode = fs.held_dir(dir)?;
            let names = fs.names(dir, &inode).await.map_err(told)?;
            fs.give(names.find(name.name()).ok_or(Errno::ENOENT)?).await
        })
    }

    fn parent(&self, _: Call, dir: Ino) -> Answer<Entry> {
        let fs = self.clone();
        answer(async move {
            let inode = fs.held_dir(dir)?;
            let parent = fs.names(dir, &inode).await.map_err(told)?.parent;
            let entry = fs.give(if dir.0 == ino::ROOT { dir } else { parent }).await?;
            if entry.attr.kind == FileType::Directory {
                return Ok(entry);
            }
            fs.forget(entry.ino, 1);
            Err(Errno::EIO)
        })
    }

    fn pin(&self, _: Call, ino: Ino) -> Answer<Entry> {
        Step::Now(self.held(ino).map(|inode| self.pin_inode(ino, &inode)))
    }

    fn forget(&self, ino: Ino, pins: u64) {
        let mut held = self.0.pins.borrow_mut();
        let pinned = held.get_mut(&ino).expect("pins are given back for inodes that were given out");
        pinned.pins = pinned.pins.checked_sub(pins).expect("no more pins are given back than were given out");
        if pinned.pins == 0 {
            held.remove(&ino);
            self.0.names.borrow_mut().remove(&ino);
        }
    }

    fn target(&self, _: Call, ino: Ino) -> Answer<Box<[u8]>> {
        let fs = self.clone();
        answer(async move {
            let inode = fs.held(ino)?;
            match inode.kind() {
                Some(FileType::Symlink) => fs.target_bytes(ino, &inode).await.map_err(told),
                _ => Err(Errno::EINVAL),
            }
        })
    }

    fn list(&self, _: Call, dir: Ino, from: Cookie, into: Listing) -> Answer<Listing> {
        let fs = self.clone();
        answer(async move { fs.list_rows(dir, from, into).await })
    }

    fn attr(&self, _: Call, ino: Ino) -> Answer<Attr> {
        Step::Now(self.held(ino).map(|inode| entry(ino, &inode).attr))
    }

    fn read(&self, _: Call, ino: Ino, at: u64, len: usize) -> Answer<Buf> {
        let fs = self.clone();
        answer(async move {
            let inode = fs.held_file(ino)?;
            fs.bytes(ino, &inode, at, len).await.map_err(told)
        })
    }

    fn seek(&self, _: Call, ino: Ino, at: u64, what: Seek) -> Answer<u64> {
        let fs = self.clone();
        answer(async move { fs.seek_from(ino, at, what).await })
    }

    fn sync(&self, _: Call, _: Sync) -> Answer<()> {
        Step::Now(if self.0.is_closed.get() { Err(Errno::EIO) } else { Ok(()) })
    }

    fn space(&self, _: Call) -> Answer<Space> {
        Step::Now(if self.0.is_closed.get() { Err(Errno::EIO) } else { Ok(self.0.space) })
    }

    fn close(&self) -> Answer<()> {
        Step::Now(if self.0.is_closed.replace(true) { Err(Errno::EIO) } else { Ok(()) })
    }

    fn stats(&self) -> Vec<Stat> {
        vec![Stat { name: "checkpoint", value: self.0.checkpoint.head.cno as f64 }]
    }

    refused! {
        fn create(Call, Ino, Option<Name<'_>>, New<'_>) -> Entry;
        fn link(Call, Ino, Ino, Name<'_>) -> Entry;
        fn remove(Call, Ino, Name<'_>, Remove) -> ();
        fn rename(Call, (Ino, Name<'_>), (Ino, Name<'_>), Rename) -> ();
        fn set_attr(Call, Ino, SetAttr) -> Attr;
        fn write(Call, Ino, At, Buf, Write) -> Written;
        fn allocate(Call, Ino, ByteRange, Allocate) -> ();
        fn copy(Call, (Ino, u64), (Ino, u64), u64, Copying) -> u64;
    }
}
