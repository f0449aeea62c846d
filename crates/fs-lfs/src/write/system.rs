//! The calls of an [`Lfs`], handed on to its parts.

use esker_base::{ByteRange, Errno};
use esker_block::{Buf, Stat, Step};
use esker_vfs::{
    About, Allocate, Answer, At, Attr, Call, Cookie, Copying, Entry, FileSystem, Ino, Listing, Name, New, NewKind,
    Remove, Rename, Seek, SetAttr, Space, Sync, Write, Written,
};

use super::table::Inode;
use super::{Inner, Lfs};
use crate::answer::answer;
use crate::control::wire;
use crate::format::ino;
use crate::format::superblock::state;

impl FileSystem for Lfs {
    fn about(&self) -> &About {
        &self.0.about
    }

    fn root(&self) -> Ino {
        Ino(ino::ROOT)
    }

    fn lookup(&self, call: Call, dir: Ino, name: Name<'_>) -> Answer<Entry> {
        let (fs, name) = (self.0.clone(), name.to_buf());
        answer(async move { fs.lookup(call, dir, name.name()).await })
    }

    fn parent(&self, call: Call, dir: Ino) -> Answer<Entry> {
        let fs = self.0.clone();
        answer(async move { fs.parent(call, dir).await })
    }

    fn pin(&self, _: Call, ino: Ino) -> Answer<Entry> {
        Step::Now(self.0.held(ino).map(|inode| self.0.pin(&inode)))
    }

    fn forget(&self, ino: Ino, pins: u64) {
        self.0.unpin(ino, pins);
    }

    fn create(&self, call: Call, dir: Ino, name: Option<Name<'_>>, new: New<'_>) -> Answer<Entry> {
        let (fs, name) = (self.0.clone(), name.map(Name::to_buf));
        let target: Box<[u8]> = if let NewKind::Symlink(target) = new.what { target.into() } else { Box::default() };
        let (mode, uid, gid) = (new.mode, new.uid, new.gid);
        let other = match new.what {
            NewKind::Symlink(_) => None,
            NewKind::File => Some(NewKind::File),
            NewKind::Directory => Some(NewKind::Directory),
            NewKind::Node(kind, device) => Some(NewKind::Node(kind, device)),
        };
        answer(async move {
            let new = New { what: other.unwrap_or(NewKind::Symlink(&target)), mode, uid, gid };
            fs.create(call, dir, name.as_ref().map(|name| name.name()), new).await
        })
    }

    fn link(&self, call: Call, ino: Ino, dir: Ino, name: Name<'_>) -> Answer<Entry> {
        let (fs, name) = (self.0.clone(), name.to_buf());
        answer(async move { fs.link(call, ino, dir, name.name()).await })
    }

    fn remove(&self, call: Call, dir: Ino, name: Name<'_>, what: Remove) -> Answer<()> {
        let (fs, name) = (self.0.clone(), name.to_buf());
        answer(async move { fs.remove(call, dir, name.name(), what).await })
    }

    fn rename(&self, call: Call, from: (Ino, Name<'_>), to: (Ino, Name<'_>), how: Rename) -> Answer<()> {
        let (fs, from, to) = (self.0.clone(), (from.0, from.1.to_buf()), (to.0, to.1.to_buf()));
        answer(async move { fs.rename(call, (from.0, from.1.name()), (to.0, to.1.name()), how).await })
    }

    fn target(&self, call: Call, ino: Ino) -> Answer<Box<[u8]>> {
        let fs = self.0.clone();
        answer(async move { fs.target(call, ino).await })
    }

    fn list(&self, call: Call, dir: Ino, from: Cookie, into: Listing) -> Answer<Listing> {
        let fs = self.0.clone();
        answer(async move { fs.list(call, dir, from, into).await })
    }

    fn attr(&self, _: Call, ino: Ino) -> Answer<Attr> {
        Step::Now(self.0.held(ino).map(|inode| inode.attr()))
    }

    fn set_attr(&self, call: Call, ino: Ino, set: SetAttr) -> Answer<Attr> {
        let fs = self.0.clone();
        answer(async move { fs.set_attr(call, ino, set).await })
    }

    fn read(&self, call: Call, ino: Ino, at: u64, len: usize) -> Answer<Buf> {
        let fs = self.0.clone();
        answer(async move { fs.read(call, ino, at, len).await })
    }

    fn write(&self, call: Call, ino: Ino, at: At, data: Buf, how: Write) -> Answer<Written> {
        let fs = self.0.clone();
        answer(async move { fs.write(call, ino, at, data, how).await })
    }

    fn allocate(&self, call: Call, ino: Ino, range: ByteRange, how: Allocate) -> Answer<()> {
        let fs = self.0.clone();
        answer(async move { fs.allocate(call, ino, range, how).await })
    }

    fn copy(&self, call: Call, from: (Ino, u64), to: (Ino, u64), len: u64, how: Copying) -> Answer<u64> {
        let fs = self.0.clone();
        answer(async move { fs.copy(call, from, to, len, how).await })
    }

    fn seek(&self, _: Call, ino: Ino, at: u64, what: Seek) -> Answer<u64> {
        let fs = self.0.clone();
        answer(async move { fs.seek(ino, at, what).await })
    }

    fn sync(&self, _: Call, what: Sync) -> Answer<()> {
        let held = match what {
            Sync::Data(ino) | Sync::File(ino) => self.0.held(ino),
            Sync::All => self.0.held(Ino(ino::ROOT)),
        };
        if let Err(error) = held {
            return Step::Now(Err(error));
        }
        let fs = self.0.clone();
        answer(async move {
            match what {
                Sync::Data(ino) => fs.sync_data(ino.0).await,
                Sync::File(_) | Sync::All => fs.sync().await,
            }
        })
    }

    fn space(&self, _: Call) -> Answer<Space> {
        Step::Now(self.0.held(Ino(ino::ROOT)).map(|_| self.0.space()))
    }

    fn ask(&self, words: &[String]) -> Answer<String> {
        let (fs, words) = (self.0.clone(), words.to_vec());
        answer(async move {
            match words.split_first() {
                Some((first, rest)) if first == wire::WORD => fs.asked(rest).await,
                _ => fs.ask(&words).await,
            }
        })
    }

    fn close(&self) -> Answer<()> {
        let fs = self.0.clone();
        answer(async move { fs.close().await })
    }

    fn stats(&self) -> Vec<Stat> {
        let (head, segments) = (self.0.head.get(), self.0.core.segments.get());
        vec![
            Stat { name: "checkpoint", value: head.cno as f64 },
            Stat { name: "clean_segments", value: segments.clean as f64 },
            Stat { name: "dirty_segments", value: segments.dirty as f64 },
            Stat { name: "scanning", value: f64::from(u8::from(self.0.core.is_scanning())) },
            Stat { name: "metadata_bytes", value: self.0.core.metadata_bytes() as f64 },
        ]
    }
}

impl Inner {
    /// Room: what logs can still take, with the cost of maps and entries left out.
    fn space(&self) -> Space {
        let (geometry, owed) = (&self.core.geometry, self.owed_blocks());
        let block = geometry.block_bytes as u64;
        let free = self.free_blocks().saturating_sub(owed) * block;
        let inodes = self.inodes.get();
        let inodes_free = free / block;
        let kept_back = self.reserved_segments() * geometry.segment_blocks;
        Space {
            bytes: geometry.blocks().saturating_sub(kept_back) * block,
            bytes_free: free,
            inodes: inodes + inodes_free,
            inodes_free,
        }
    }

    /// Makes everything durable and ends.
    async fn close(&self) -> Result<(), Errno> {
        self.held(Ino(ino::ROOT))?;
        // A file system that is unmounted has no inodes without names.
        let nameless = |inode: &&std::rc::Rc<Inode>| inode.state.borrow().record.links == 0;
        let nameless: Vec<_> = self.table.borrow().values().filter(nameless).cloned().collect();
        nameless.iter().for_each(|inode| self.delete(inode));
        let synced = self.sync().await;
        self.is_closed.set(true);
        self.changed.notify_all();
        synced?;
        // A cleaner may be at work.
        let ended = self.alone(async |inner| inner.both_superblocks(state::VALID).await).await;
        ended.map(drop).map_err(|_| Errno::EIO)
    }
}
