//! The files of one checkpoint.

use esker_vfs::FileType;

use super::dirs::Directories;
use super::{Checker, Gravity, RECOUNT, Walked};
use crate::format::{CheckpointEntry, InodeRecord, ino};
use crate::map::{Addressing, MappedFile};

impl Checker<'_> {
    /// Checks all files of a checkpoint.
    pub(super) async fn tree(&mut self, checkpoint: &CheckpointEntry) {
        let (cno, file) = (checkpoint.head.cno, self.volume.ifile(checkpoint));
        let at = format!("checkpoint {cno}");
        let ifile_at = format!("{at}, IFILE");
        let walked = self.walk(&ifile_at, &file).await;
        self.count(cno, &ifile_at, &walked);
        let shape = self.volume.geometry().inodes;
        let used = self.used(&ifile_at, &file, &shape, &walked.data).await;
        let (mut dirs, mut inodes, mut blocks) = (Directories::default(), 0, walked.blocks);
        for number in used.into_iter().filter(|number| *number == ino::ROOT || *number >= ino::FIRST) {
            inodes += 1;
            let at = format!("{at}, inode {number}");
            match self.volume.inode(&file, number).await {
                Ok(Some(inode)) => blocks += self.inode(&at, cno, number, &inode, &mut dirs).await,
                Ok(None) => self.damage(at, "it is in use, and its block is a hole"),
                Err(error) => self.error(at, &error),
            }
        }
        if cno == self.volume.latest().cno {
            self.found.counted.inodes = inodes;
        }
        self.miscount(&at, "inodes", checkpoint.head.inodes, inodes);
        self.miscount(&at, "blocks", checkpoint.head.blocks, blocks);
        dirs.judge(self, &at);
    }

    /// Notes blocks of the latest checkpoint as alive.
    fn count(&mut self, cno: u64, at: &str, walked: &Walked) {
        if cno == self.volume.latest().cno {
            self.found.counted.blocks += walked.blocks;
            self.reach(at, walked);
        }
    }

    /// Checks an inode; gives how many blocks it has.
    async fn inode(&mut self, at: &str, cno: u64, number: u64, inode: &InodeRecord, dirs: &mut Directories) -> u64 {
        let Some(kind) = inode.kind() else {
            self.damage(at, format!("its mode {:o} names no kind", inode.mode));
            return 0;
        };
        dirs.add(number, inode.links, kind);
        if inode.links == 0 {
            let advice = "Its space is lost until the file system is made anew";
            self.add(Gravity::Note, at, "it has no name: it was open when the checkpoint was made", advice);
        }
        if !inode.has_map() {
            return 0;
        }
        let file = MappedFile::new(number, inode, Addressing::Virtual(cno));
        let walked = self.walk(at, &file).await;
        self.count(cno, at, &walked);
        self.space(at, inode, walked.blocks);
        let block_bytes = self.volume.geometry().block_bytes as u64;
        if let Some(last) = walked.data.last().filter(|last| **last >= inode.size.div_ceil(block_bytes)) {
            self.damage(at, format!("it has {} bytes, and block {last}", inode.size));
        }
        if kind == FileType::Directory {
            self.directory(at, number, &file, inode, &walked.data, dirs).await;
        } else if kind == FileType::Symlink {
            self.symlink(at, &file, inode).await;
        }
        walked.blocks
    }

    /// Compares the space that an inode tells with its blocks.
    fn space(&mut self, at: &str, inode: &InodeRecord, blocks: u64) {
        let units = self.volume.geometry().block_bytes as u64 / 512;
        // `mkfs.nilfs2` counts blocks where drivers count units of 512 bytes, and drivers add to what they find.
        let is_told = (0..=1_u64)
            .any(|made| blocks >= made && (blocks - made).saturating_mul(units).saturating_add(made) == inode.blocks);
        if !is_told {
            let why = format!("it tells {} units of 512 bytes, and has {blocks} blocks", inode.blocks);
            self.add(Gravity::Damage, at, why, RECOUNT);
        }
    }

    async fn symlink(&mut self, at: &str, file: &MappedFile, inode: &InodeRecord) {
        let block_bytes = self.volume.geometry().block_bytes as u64;
        if !(1..block_bytes).contains(&inode.size) {
            return self.damage(at, format!("a symbolic link of {} bytes", inode.size));
        }
        match self.volume.file_block(file, 0).await {
            Ok(Some(block)) if !block[..inode.size as usize].contains(&0) => {}
            Ok(_) => self.damage(at, "the target of the symbolic link has a byte of zero"),
            Err(error) => self.error(at, &error),
        }
    }
}
