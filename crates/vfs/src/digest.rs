//! A number for a tree, equal for equal trees in all file systems: what an oracle and a recovered image are compared
//! by.
//!
//! It covers names, kinds, modes, owners, hard links, sizes, bytes and extended attributes. It leaves out times, flags,
//! and what file systems choose for themselves: numbers, cookies, room, sizes and links of directories, holes.

use std::collections::BTreeMap;

use esker_base::{Digest, Errno};

use crate::attr::{Attr, Entry, FileType};
use crate::change::{Seek, Xattr};
use crate::listing::Listing;
use crate::pinned::Pinned;
use crate::system::FileSystem;
use crate::word::{Call, Cookie, Ino, NameBuf};

/// Unit in which zeroes are left out.
const PAGE: u64 = 4096;
const READ_BYTES_MAX: u64 = 64 * PAGE;
const LISTING_BYTES: usize = 64 << 10;

/// The digest of all that a walk from the root finds.
///
/// # Errors
/// Those of the file system.
pub async fn tree_digest<F: FileSystem + ?Sized>(fs: &F, call: Call) -> Result<u64, Errno> {
    let mut reader = Reader { fs, call, digest: Digest::new(), seen: BTreeMap::new() };
    let root = Pinned::new(fs, fs.pin(call, fs.root()).await?);
    reader.inode(&root.entry).await?;
    let mut open = vec![root];
    while let Some(dir) = open.pop() {
        reader.digest.word(reader.seen[&dir.entry.ino]);
        let entries = reader.entries(dir.entry.ino).await?;
        reader.digest.word(entries.len() as u64);
        for (name, child) in entries {
            reader.digest.bytes(name.name().bytes());
            reader.inode(&child.entry).await?;
            if child.entry.attr.kind == FileType::Directory {
                open.push(child);
            }
        }
    }
    Ok(reader.digest.value())
}

struct Reader<'f, F: FileSystem + ?Sized> {
    fs: &'f F,
    call: Call,
    digest: Digest,
    /// Inodes in the order in which they were found: hard links are told by it.
    seen: BTreeMap<Ino, u64>,
}

impl<'f, F: FileSystem + ?Sized> Reader<'f, F> {
    /// The entries of a directory, in the order of their names.
    async fn entries(&self, dir: Ino) -> Result<Vec<(NameBuf, Pinned<'f, F>)>, Errno> {
        let mut entries = Vec::new();
        let mut listing = Listing::new(LISTING_BYTES, 32, 8).with_entries();
        let mut from = Cookie::BEGINNING;
        loop {
            listing = self.fs.list(self.call, dir, from, listing).await?;
            if listing.is_empty() {
                break;
            }
            for row in listing.rows() {
                let entry = row.entry.expect("this listing wants entries");
                entries.push((row.name.to_buf(), Pinned::new(self.fs, entry)));
                from = row.next;
            }
            listing.clear();
        }
        entries.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(entries)
    }

    /// Adds an inode: its number in the order, and all of it at the first time.
    async fn inode(&mut self, entry: &Entry) -> Result<(), Errno> {
        let number = self.seen.len() as u64;
        let seen = *self.seen.entry(entry.ino).or_insert(number);
        self.digest.word(seen);
        if seen != number {
            return Ok(());
        }
        self.attributes(&entry.attr);
        self.xattrs(entry.ino).await?;
        match entry.attr.kind {
            FileType::File => self.bytes(entry.ino, entry.attr.size).await,
            FileType::Symlink => {
                let target = self.fs.target(self.call, entry.ino).await?;
                self.digest.bytes(&target);
                Ok(())
            }
            FileType::Directory | FileType::CharDevice | FileType::BlockDevice | FileType::Fifo | FileType::Socket => {
                Ok(())
            }
        }
    }

    fn attributes(&mut self, attr: &Attr) {
        let kind = match attr.kind {
            FileType::File => 1,
            FileType::Directory => 2,
            FileType::Symlink => 3,
            FileType::CharDevice => 4,
            FileType::BlockDevice => 5,
            FileType::Fifo => 6,
            FileType::Socket => 7,
        };
        // The mode of a symbolic link means nothing.
        let mode = if attr.kind == FileType::Symlink { 0 } else { u64::from(attr.mode) };
        let (links, size) = if attr.kind == FileType::Directory { (0, 0) } else { (u64::from(attr.links), attr.size) };
        for word in [kind, mode, u64::from(attr.uid), u64::from(attr.gid), attr.device, links, size] {
            self.digest.word(word);
        }
    }

    async fn xattrs(&mut self, ino: Ino) -> Result<(), Errno> {
        let names = match self.fs.xattr(self.call, ino, Xattr::List).await {
            // None, and none that could be stored, are the same tree.
            Err(Errno::EOPNOTSUPP) => return Ok(()),
            names => match names? {
                names if names.is_empty() => return Ok(()),
                names => names,
            },
        };
        self.digest.bytes(&names);
        for name in names.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
            let value = self.fs.xattr(self.call, ino, Xattr::Get(name)).await?;
            self.digest.bytes(&value);
        }
        Ok(())
    }

    /// Adds each page that is not all zeroes.
    async fn bytes(&mut self, ino: Ino, size: u64) -> Result<(), Errno> {
        let mut at = 0;
        while let Some(start) = self.next_data(ino, at, size).await? {
            let start = start / PAGE * PAGE;
            let len = (size - start).min(READ_BYTES_MAX);
            let bytes = self.fs.read(self.call, ino, start, len as usize).await?.to_vec();
            for (page, bytes) in bytes.chunks(PAGE as usize).enumerate() {
                if bytes.iter().any(|byte| *byte != 0) {
                    self.digest.word(start / PAGE + page as u64);
                    self.digest.bytes(bytes);
                }
            }
            at = start + len;
        }
        Ok(())
    }

    async fn next_data(&self, ino: Ino, at: u64, size: u64) -> Result<Option<u64>, Errno> {
        if at >= size {
            return Ok(None);
        }
        if !self.fs.about().can.holes {
            return Ok(Some(at));
        }
        match self.fs.seek(self.call, ino, at, Seek::Data).await {
            Err(Errno::ENXIO) => Ok(None),
            found => found.map(Some),
        }
    }
}
