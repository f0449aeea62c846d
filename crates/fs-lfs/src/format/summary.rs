//! The summary of a log: what each of its blocks belongs to.
//!
//! A log is a partial segment: summary, payload, and a super root if it makes a checkpoint. Nothing in a summary
//! crosses a block: what does not fit in the rest of a block begins the next one.

use serde::{Deserialize, Serialize};

use super::ino;
use super::layout::layout;

layout! {
    /// The beginning of a log.
    pub struct LogHeader: 64 {
        /// Sum of all that follows it in the log.
        data_sum: u32,
        /// Sum of all that follows it in the summary.
        summary_sum: u32,
        /// [`LogHeader::MAGIC`].
        magic: u32,
        /// Bytes of this header.
        bytes: u16,
        /// Bits of [`flag`].
        flags: u16,
        /// Number of the segment in the order in which segments were taken.
        sequence: u64,
        /// When it was written, in seconds since 1970.
        created: u64,
        /// First block of the segment that is used next.
        next: u64,
        /// Blocks of the log, summary and super root included.
        blocks: u32,
        /// Files that it holds blocks of.
        files: u32,
        /// Bytes of the summary.
        summary_bytes: u32,
        /// Zero.
        pad: u32,
        /// The checkpoint that it belongs to.
        cno: u64,
    }
}

layout! {
    /// A file of which a log holds blocks.
    pub struct FileHead: 24 {
        /// Number of its inode.
        ino: u64,
        /// Checkpoint of the blocks; 0 for files that are not versioned.
        cno: u64,
        /// Blocks.
        blocks: u32,
        /// Those of data, which come first.
        data: u32,
    }
}

/// Flags of logs.
pub mod flag {
    /// Begins a logical segment.
    pub const BEGIN: u16 = 1;
    /// Ends a logical segment.
    pub const END: u16 = 2;
    /// Ends with a super root.
    pub const SUPER_ROOT: u16 = 4;
    /// Holds data only, of files that were synced.
    pub const DATA_SYNC: u16 = 8;
    /// Written by the cleaner.
    pub const CLEANER: u16 = 16;
}

impl LogHeader {
    /// What a header begins with, behind its sums.
    pub const MAGIC: u32 = 0x1eaf_fa11;

    /// Whether it has all bits of `flags`.
    pub fn has(&self, flags: u16) -> bool {
        self.flags & flags == flags
    }
}

/// What a block of a log is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Payload {
    /// Data of a file: its virtual block, and its number in the file.
    Data {
        /// Virtual block.
        vblock: u64,
        /// Number in the file.
        index: u64,
    },
    /// A node of a file's map.
    Node {
        /// Virtual block.
        vblock: u64,
    },
    /// Data of the DAT.
    DatData {
        /// Number in the file.
        index: u64,
    },
    /// A node of the map of the DAT.
    DatNode {
        /// The first key below it.
        index: u64,
        /// Its level.
        level: u8,
    },
}

impl Payload {
    /// Bytes that describe it in a summary.
    fn bytes(self) -> usize {
        match self {
            Payload::Data { .. } | Payload::DatNode { .. } => 16,
            Payload::Node { .. } | Payload::DatData { .. } => 8,
        }
    }

    /// Whether it is a block of data, and no node of a map.
    pub fn is_data(self) -> bool {
        matches!(self, Payload::Data { .. } | Payload::DatData { .. })
    }

    fn write(self, out: &mut [u8]) {
        let (first, second) = match self {
            Payload::Data { vblock, index } => (vblock, Some(index)),
            Payload::Node { vblock } => (vblock, None),
            Payload::DatData { index } => (index, None),
            Payload::DatNode { index, level } => (index, Some(u64::from(level))),
        };
        out[..8].copy_from_slice(&first.to_le_bytes());
        if let Some(second) = second {
            out[8..16].copy_from_slice(&second.to_le_bytes());
        }
    }
}

/// A block of a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LogBlock {
    /// Where it lies.
    pub place: u64,
    /// Inode that it belongs to.
    pub ino: u64,
    /// Checkpoint; 0 for files that are not versioned.
    pub cno: u64,
    /// The kind of block, and its place in the file.
    pub what: Payload,
}

/// A file of a log that is written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogFile {
    /// Number of its inode.
    pub ino: u64,
    /// Checkpoint.
    pub cno: u64,
    /// Blocks, those of data first.
    pub blocks: Vec<Payload>,
}

/// Where things go in a summary.
#[derive(Clone, Copy)]
struct Cursor {
    at: usize,
    block_bytes: usize,
}

impl Cursor {
    /// The offset of the next `bytes`.
    fn take(&mut self, bytes: usize) -> usize {
        let left = self.block_bytes - self.at % self.block_bytes;
        if left < bytes {
            self.at += left;
        }
        let at = self.at;
        self.at += bytes;
        at
    }
}

/// How large the summary of a log is that grows.
#[derive(Clone, Copy)]
pub struct SummarySize(Cursor);

impl SummarySize {
    /// Of a log without files.
    pub fn new(block_bytes: usize) -> SummarySize {
        SummarySize(Cursor { at: LogHeader::BYTES, block_bytes })
    }

    /// One more file.
    pub fn add_file(&mut self) {
        self.0.take(FileHead::BYTES);
    }

    /// One more block of the last file.
    pub fn add(&mut self, block: Payload) {
        self.0.take(block.bytes());
    }

    /// Its blocks.
    pub fn blocks(&self) -> u64 {
        self.0.at.div_ceil(self.0.block_bytes) as u64
    }
}

/// The blocks that a summary tells of. The log begins at block `start`; `summary` has whole blocks.
///
/// # Errors
/// What is wrong with it.
pub fn read_blocks(
    summary: &[u8],
    header: &LogHeader,
    start: u64,
    block_bytes: usize,
) -> Result<Vec<LogBlock>, String> {
    let bytes = header.summary_bytes as usize;
    let short = |what: &str| format!("{what} lies behind the end of the summary ({bytes} bytes)");
    let summary = summary.get(..bytes).ok_or_else(|| short("the end"))?;
    let first = start + bytes.div_ceil(block_bytes) as u64;
    let end = start + u64::from(header.blocks) - u64::from(header.has(flag::SUPER_ROOT));
    let mut cursor = Cursor { at: usize::from(header.bytes), block_bytes };
    let mut blocks = Vec::new();
    for number in 0..header.files {
        let at = cursor.take(FileHead::BYTES);
        let file = FileHead::read(summary.get(at..).unwrap_or_default()).map_err(|_| short("a file"))?;
        if file.data > file.blocks {
            return Err(format!("file {number} has {} blocks, {} of data", file.blocks, file.data));
        }
        for block in 0..file.blocks {
            let place = first + blocks.len() as u64;
            if place >= end {
                return Err(format!("its files have more blocks than the log ({})", header.blocks));
            }
            let what = read_payload(summary, &mut cursor, file.ino == ino::DAT, block < file.data);
            let what = what.ok_or_else(|| short("a block"))?;
            blocks.push(LogBlock { place, ino: file.ino, cno: file.cno, what });
        }
    }
    match first + blocks.len() as u64 {
        all if all == end => Ok(blocks),
        all => Err(format!("its files end at block {all}, and the log at block {end}")),
    }
}

fn read_payload(summary: &[u8], cursor: &mut Cursor, is_dat: bool, is_data: bool) -> Option<Payload> {
    let bytes = if is_dat == is_data { 8 } else { 16 };
    let at = cursor.take(bytes);
    let mut reader = esker_base::codec::Reader::new(summary.get(at..)?);
    let first = reader.le_u64().ok()?;
    Some(match (is_dat, is_data) {
        (false, true) => Payload::Data { vblock: first, index: reader.le_u64().ok()? },
        (false, false) => Payload::Node { vblock: first },
        (true, true) => Payload::DatData { index: first },
        (true, false) => Payload::DatNode { index: first, level: reader.u8().ok()? },
    })
}

/// A summary without its sums: whole blocks. Sets the counts of `header`, but for the super root's block.
///
/// # Panics
/// If blocks of data follow nodes.
pub fn write_summary(header: &mut LogHeader, files: &[LogFile], block_bytes: usize) -> Vec<u8> {
    let mut cursor = Cursor { at: LogHeader::BYTES, block_bytes };
    let mut out = vec![0; block_bytes];
    let mut payload = 0;
    for file in files {
        let data = file.blocks.iter().filter(|block| block.is_data()).count();
        assert!(file.blocks[..data].iter().all(|block| block.is_data()), "nodes come behind the data of a file");
        payload += file.blocks.len();
        let blocks = file.blocks.len() as u32;
        let at = room(&mut cursor, &mut out, FileHead::BYTES);
        FileHead { ino: file.ino, cno: file.cno, blocks, data: data as u32 }.write(&mut out[at..]);
        for block in &file.blocks {
            let at = room(&mut cursor, &mut out, block.bytes());
            block.write(&mut out[at..]);
        }
    }
    header.bytes = LogHeader::BYTES as u16;
    header.files = files.len() as u32;
    header.summary_bytes = cursor.at as u32;
    header.blocks = (out.len() / block_bytes + payload) as u32;
    header.write(&mut out);
    out
}

/// The offset of the next `bytes`, with room for them.
fn room(cursor: &mut Cursor, out: &mut Vec<u8>, bytes: usize) -> usize {
    let at = cursor.take(bytes);
    out.resize(cursor.at.next_multiple_of(cursor.block_bytes), 0);
    at
}

/// Sets both sums of a log, which begins with its header.
///
/// # Panics
/// If it has no header.
pub fn seal(log: &mut [u8], summary_bytes: usize, seed: u32) {
    let sum = super::crc(seed, &log[8..summary_bytes]);
    log[4..8].copy_from_slice(&sum.to_le_bytes());
    let sum = super::crc(seed, &log[4..]);
    log[..4].copy_from_slice(&sum.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> LogHeader {
        let mut bytes = [0; LogHeader::BYTES];
        bytes[8..12].copy_from_slice(&LogHeader::MAGIC.to_le_bytes());
        LogHeader::read(&bytes).unwrap()
    }

    fn files() -> Vec<LogFile> {
        let data = |count: u64| (0..count).map(|index| Payload::Data { vblock: 100 + index, index });
        let nodes = (0..70).map(|vblock| Payload::Node { vblock });
        let dat = [Payload::DatData { index: 4 }, Payload::DatNode { index: 0, level: 2 }];
        vec![
            LogFile { ino: 11, cno: 3, blocks: data(200).chain(nodes).collect() },
            LogFile { ino: 5, cno: 0, blocks: data(1).collect() },
            LogFile { ino: ino::DAT, cno: 0, blocks: dat.to_vec() },
        ]
    }

    #[test]
    fn a_summary_of_several_blocks_is_read_back() {
        let mut header = header();
        let summary = write_summary(&mut header, &files(), 1024);
        assert!(summary.len() > 3 * 1024, "items that would cross a block are there");
        let read = read_blocks(&summary, &header, 50, 1024).unwrap();
        let expected: Vec<_> = files().into_iter().flat_map(|file| file.blocks).collect();
        assert_eq!(read.iter().map(|block| block.what).collect::<Vec<_>>(), expected);
        assert_eq!(read[0].place, 50 + summary.len() as u64 / 1024);
        assert_eq!(read.last().unwrap().place, 50 + u64::from(header.blocks) - 1);
    }

    #[test]
    fn wrong_counts_are_told() {
        let mut header = header();
        let summary = write_summary(&mut header, &files(), 1024);
        let told = |change: &dyn Fn(&mut LogHeader)| {
            let mut wrong = header;
            change(&mut wrong);
            read_blocks(&summary, &wrong, 50, 1024).unwrap_err()
        };
        assert!(told(&|wrong| wrong.blocks -= 1).contains("more blocks than the log"));
        assert!(told(&|wrong| wrong.blocks += 1).contains("files end"));
        assert!(told(&|wrong| wrong.files += 1).contains("behind the end"));
        assert!(told(&|wrong| wrong.summary_bytes -= 40).contains("behind the end"));
        assert!(told(&|wrong| wrong.summary_bytes = u32::MAX).contains("behind the end"));
    }
}
