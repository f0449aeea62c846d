//! The blocks of a checkpoint that is being made, and how they are cut into logs.

use std::rc::Rc;

use esker_block::Buf;

use super::table::Inode;
use super::tree::MovedNode;
use crate::format::Payload;
use crate::format::summary::SummarySize;
use crate::liveness::Liveness;

/// The owner of a planned file: where its late bytes come from.
#[derive(Clone)]
pub(super) enum Owner {
    /// A file, directory or symbolic link.
    User(Rc<Inode>),
    /// The IFILE, CPFILE, SUFILE or DAT, by number.
    Meta(u64),
    /// Blocks that the cleaner moves.
    Moved,
}

/// A block that the checkpoint writes.
pub(super) struct PlannedBlock {
    pub what: Payload,
    /// Its bytes, if they do not change until they are written.
    pub bytes: Option<Buf>,
    /// A node of the DAT, which gets its address with its place.
    pub moved: Option<MovedNode>,
    /// What keeps it: only what lives, or a snapshot has, counts as live.
    pub kept: Liveness,
}

/// A file of which the checkpoint writes blocks.
pub(super) struct PlannedFile {
    pub ino: u64,
    pub cno: u64,
    pub owner: Owner,
    pub data: Vec<PlannedBlock>,
    pub nodes: Vec<PlannedBlock>,
}

impl PlannedFile {
    /// A file without blocks.
    pub(super) fn new(ino: u64, cno: u64, owner: Owner) -> PlannedFile {
        PlannedFile { ino, cno, owner, data: Vec::new(), nodes: Vec::new() }
    }

    /// Its blocks in the order of a log: data come first.
    pub(super) fn blocks(&self) -> impl Iterator<Item = &PlannedBlock> {
        self.data.iter().chain(&self.nodes)
    }

    /// One of them.
    pub(super) fn block(&self, number: usize) -> &PlannedBlock {
        match number.checked_sub(self.data.len()) {
            None => &self.data[number],
            Some(node) => &self.nodes[node],
        }
    }
}

impl PlannedBlock {
    /// A block whose bytes are known when it is written.
    pub(super) fn late(what: Payload) -> PlannedBlock {
        PlannedBlock { what, bytes: None, moved: None, kept: Liveness::Live }
    }
}

/// Blocks of one file that follow each other in a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Part {
    /// Number of the file in the plan.
    pub file: usize,
    /// Number of the first block.
    pub first: usize,
    pub blocks: usize,
}

/// A series of logs in segments of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Track {
    /// That which ends with the super root, and which recovery walks.
    Main,
    /// That of blocks that the cleaner moves, if they go apart. The super root stands for it too.
    Moved,
}

/// A log of the plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct PlannedLog {
    pub track: Track,
    /// Number of its segment in the chain that the checkpoint takes for the track.
    pub link: usize,
    /// Blocks of the segment before it, from where the checkpoint begins.
    pub offset: u64,
    pub summary_blocks: u64,
    pub parts: Vec<Part>,
    pub has_super_root: bool,
}

impl PlannedLog {
    /// Blocks of files in it.
    pub(super) fn payload(&self) -> u64 {
        self.parts.iter().map(|part| part.blocks as u64).sum()
    }

    /// All its blocks.
    pub(super) fn blocks(&self) -> u64 {
        self.summary_blocks + self.payload() + u64::from(self.has_super_root)
    }
}

/// Fewest blocks of a log.
pub(super) const LOG_BLOCKS_MIN: u64 = 2;

/// Cuts the files of a track into logs. `room` tells how many blocks each segment of its chain has left. The last log
/// of a checkpoint ends with the super root.
pub(super) fn cut<'f>(
    files: impl Iterator<Item = (usize, &'f PlannedFile)>,
    track: Track,
    block_bytes: usize,
    room: impl Fn(usize) -> u64,
    has_super_root: bool,
) -> Vec<PlannedLog> {
    let mut cutter = Cutter::new(track, block_bytes, &room);
    for (number, file) in files {
        for (block, planned) in file.blocks().enumerate() {
            cutter.add(number, block, planned.what);
        }
    }
    cutter.end(has_super_root)
}

struct Cutter<'r> {
    block_bytes: usize,
    room: &'r dyn Fn(usize) -> u64,
    logs: Vec<PlannedLog>,
    size: SummarySize,
    log: PlannedLog,
}

impl<'r> Cutter<'r> {
    fn new(track: Track, block_bytes: usize, room: &'r dyn Fn(usize) -> u64) -> Cutter<'r> {
        let log = PlannedLog { track, link: 0, offset: 0, summary_blocks: 1, parts: Vec::new(), has_super_root: false };
        let mut cutter = Cutter { block_bytes, room, logs: Vec::new(), size: SummarySize::new(block_bytes), log };
        cutter.find_room();
        cutter
    }

    /// Goes to the next segment if this one has no room for a log.
    fn find_room(&mut self) {
        while (self.room)(self.log.link).saturating_sub(self.log.offset) < LOG_BLOCKS_MIN {
            (self.log.link, self.log.offset) = (self.log.link + 1, 0);
        }
    }

    fn add(&mut self, file: usize, block: usize, what: Payload) {
        let (mut size, is_new) = (self.size, self.log.parts.last().is_none_or(|part| part.file != file));
        if is_new {
            size.add_file();
        }
        size.add(what);
        let blocks = size.blocks() + self.log.payload() + 1;
        if blocks > (self.room)(self.log.link) - self.log.offset {
            self.close();
            return self.add(file, block, what);
        }
        self.size = size;
        self.log.summary_blocks = size.blocks();
        match self.log.parts.last_mut() {
            Some(part) if !is_new => part.blocks += 1,
            _ => self.log.parts.push(Part { file, first: block, blocks: 1 }),
        }
    }

    /// Ends a log, and begins the next one.
    fn close(&mut self) {
        let (link, offset) = (self.log.link, self.log.offset + self.log.blocks());
        self.size = SummarySize::new(self.block_bytes);
        let track = self.log.track;
        let next = PlannedLog { track, link, offset, summary_blocks: 1, parts: Vec::new(), has_super_root: false };
        self.logs.push(std::mem::replace(&mut self.log, next));
        self.find_room();
    }

    fn end(mut self, has_super_root: bool) -> Vec<PlannedLog> {
        if !has_super_root {
            self.logs.extend(Some(self.log).filter(|log| !log.parts.is_empty()));
            return self.logs;
        }
        if self.log.blocks() + 1 > (self.room)(self.log.link) - self.log.offset {
            self.close();
        }
        self.log.has_super_root = true;
        self.logs.push(self.log);
        self.logs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::ino;

    fn files(counts: &[(usize, usize)]) -> Vec<PlannedFile> {
        let data = |vblock: usize| Payload::Data { vblock: vblock as u64, index: 0 };
        let node = |vblock: usize| Payload::Node { vblock: vblock as u64 };
        let file = |(data_blocks, nodes): &(usize, usize)| PlannedFile {
            data: (0..*data_blocks).map(|vblock| PlannedBlock::late(data(vblock))).collect(),
            nodes: (0..*nodes).map(|vblock| PlannedBlock::late(node(vblock))).collect(),
            ..PlannedFile::new(ino::FIRST, 1, Owner::Meta(ino::IFILE))
        };
        counts.iter().map(file).collect()
    }

    #[test]
    fn logs_fill_segments_and_hold_each_block_once() {
        for (first, all) in [(32, 32), (1, 32), (2, 40), (7, 33), (0, 64)] {
            let files = files(&[(3, 0), (0, 1), (200, 9), (1, 1)]);
            let room = |link| if link == 0 { first } else { all };
            let logs = cut(files.iter().enumerate(), Track::Main, 1024, room, true);
            let mut next = (0, 0);
            for (number, log) in logs.iter().enumerate() {
                let room = if log.link == 0 { first } else { all };
                assert!(log.offset + log.blocks() <= room && log.blocks() >= LOG_BLOCKS_MIN);
                let mut size = SummarySize::new(1024);
                for part in &log.parts {
                    size.add_file();
                    for block in part.first..part.first + part.blocks {
                        size.add(files[part.file].block(block).what);
                    }
                    if part.first == 0 && part.file > next.0 {
                        next = (part.file, 0);
                    }
                    assert_eq!((part.file, part.first), next);
                    next.1 += part.blocks;
                }
                assert_eq!(size.blocks(), log.summary_blocks);
                assert_eq!(log.has_super_root, number + 1 == logs.len());
                if let Some(next) = logs.get(number + 1).filter(|next| next.link > log.link) {
                    assert!(room - log.offset - log.blocks() < LOG_BLOCKS_MIN, "a segment is filled to its end");
                    assert_eq!((next.link, next.offset), (log.link + 1, 0));
                }
            }
            assert_eq!(next, (3, 2));
        }
    }
}
