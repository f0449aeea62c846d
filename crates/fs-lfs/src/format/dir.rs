//! Directories: records of names, each within one block of the directory.

use esker_vfs::{FileType, Name};

use super::word;

/// Bytes before the name.
const HEAD: usize = 12;
/// A record begins at a multiple of this.
const ALIGN: usize = 8;

/// A record. The inode 0 stands for none: its room is free.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DirRecord<'a> {
    /// Offset in the block.
    pub at: usize,
    /// Bytes of the record.
    pub bytes: usize,
    /// Number of the inode.
    pub ino: u64,
    /// Kind of the inode, as a number of the format.
    pub kind: u8,
    /// Its name.
    pub name: &'a [u8],
}

impl<'a> DirRecord<'a> {
    /// The name, if it may stand in a path.
    pub fn real_name(&self) -> Option<Name<'a>> {
        Name::new(self.name).ok()
    }

    /// Bytes that it needs: none if it stands for no name.
    fn taken(&self) -> usize {
        if self.ino == 0 { 0 } else { record_bytes(self.name.len()) }
    }

    /// The most bytes that a new record could have behind it, or in its place.
    pub fn room(&self) -> usize {
        self.bytes - self.taken()
    }

    /// The kind, if it is known.
    pub fn file_type(&self) -> Option<FileType> {
        Some(match self.kind {
            1 => FileType::File,
            2 => FileType::Directory,
            3 => FileType::CharDevice,
            4 => FileType::BlockDevice,
            5 => FileType::Fifo,
            6 => FileType::Socket,
            7 => FileType::Symlink,
            _ => return None,
        })
    }

    /// Writes it at `at` of a block.
    ///
    /// # Panics
    /// If it does not fit.
    pub fn write(&self, block: &mut [u8]) {
        let out = &mut block[self.at..self.at + self.bytes];
        out[..8].copy_from_slice(&self.ino.to_le_bytes());
        // A record of 64 KiB does not fit in its field: the largest number stands for it.
        out[8..10].copy_from_slice(&u16::try_from(self.bytes).unwrap_or(u16::MAX).to_le_bytes());
        out[10] = self.name.len() as u8;
        out[11] = self.kind;
        out[HEAD..HEAD + self.name.len()].copy_from_slice(self.name);
    }
}

/// The least bytes of a record with a name of so many.
pub fn record_bytes(name: usize) -> usize {
    (HEAD + name).next_multiple_of(ALIGN)
}

/// The number of a kind.
pub fn kind_number(kind: FileType) -> u8 {
    match kind {
        FileType::File => 1,
        FileType::Directory => 2,
        FileType::CharDevice => 3,
        FileType::BlockDevice => 4,
        FileType::Fifo => 5,
        FileType::Socket => 6,
        FileType::Symlink => 7,
    }
}

/// Adds a record to a block, in the first room that is large enough. Answers its offset; `None` if there is no room.
///
/// # Errors
/// The block has a record that is none.
pub fn add_record(block: &mut [u8], name: Name<'_>, ino: u64, kind: FileType) -> Result<Option<usize>, String> {
    let needed = record_bytes(name.bytes().len());
    let Some((at, taken, bytes)) = room_for(block, needed)? else { return Ok(None) };
    if taken > 0 {
        put_bytes(block, at, taken);
    }
    let at = at + taken;
    DirRecord { at, bytes: bytes - taken, ino, kind: kind_number(kind), name: name.bytes() }.write(block);
    Ok(Some(at))
}

/// A record behind which, or in whose place, so many bytes are free: its offset, the bytes that it needs, all bytes.
fn room_for(block: &[u8], needed: usize) -> Result<Option<(usize, usize, usize)>, String> {
    for record in DirRecords::new(block) {
        let record = record?;
        if record.room() >= needed {
            return Ok(Some((record.at, record.taken(), record.bytes)));
        }
    }
    Ok(None)
}

/// Removes the record at `at`. The record before it gets its room.
///
/// # Errors
/// There is no record at `at`.
pub fn remove_record(block: &mut [u8], at: usize) -> Result<(), String> {
    let mut before = None;
    for record in DirRecords::new(block) {
        let record = record?;
        if record.at != at {
            before = Some(record);
            continue;
        }
        let bytes = record.bytes;
        match before.map(|before| (before.at, before.bytes + bytes)) {
            Some((before, all)) => put_bytes(block, before, all),
            None => block[at..at + 8].fill(0),
        }
        return Ok(());
    }
    Err(format!("there is no record at byte {at}"))
}

/// Leads the record at `at` to another inode.
pub fn set_record(block: &mut [u8], at: usize, ino: u64, kind: FileType) {
    block[at..at + 8].copy_from_slice(&ino.to_le_bytes());
    block[at + 11] = kind_number(kind);
}

/// A block without names.
pub fn empty_block(block_bytes: usize) -> Vec<u8> {
    let mut block = vec![0; block_bytes];
    DirRecord { at: 0, bytes: block_bytes, ino: 0, kind: 0, name: b"" }.write(&mut block);
    block
}

/// The first block of a directory: its two own names.
pub fn first_block(block_bytes: usize, dir: u64, parent: u64) -> Vec<u8> {
    let (mut block, own) = (vec![0; block_bytes], record_bytes(1));
    let kind = kind_number(FileType::Directory);
    DirRecord { at: 0, bytes: own, ino: dir, kind, name: b"." }.write(&mut block);
    DirRecord { at: own, bytes: block_bytes - own, ino: parent, kind, name: b".." }.write(&mut block);
    block
}

/// The offset of ".." in the first block of a directory.
pub fn parent_record() -> usize {
    record_bytes(1)
}

fn put_bytes(block: &mut [u8], at: usize, bytes: usize) {
    block[at + 8..at + 10].copy_from_slice(&u16::try_from(bytes).unwrap_or(u16::MAX).to_le_bytes());
}

/// The records of a block, to its end or to what is none.
#[derive(Clone, Debug)]
pub struct DirRecords<'a> {
    block: &'a [u8],
    at: usize,
}

impl<'a> DirRecords<'a> {
    /// Of a block.
    pub fn new(block: &'a [u8]) -> DirRecords<'a> {
        DirRecords { block, at: 0 }
    }

    fn read(&self) -> Result<DirRecord<'a>, String> {
        let (at, rest) = (self.at, &self.block[self.at..]);
        let Some(head) = rest.first_chunk::<HEAD>() else { return Err(format!("no room at byte {at}")) };
        let stored = u16::from_le_bytes([head[8], head[9]]);
        let bytes = if stored == u16::MAX { 1 << 16 } else { usize::from(stored) };
        let name = usize::from(head[10]);
        let fits = bytes >= record_bytes(name) && bytes.is_multiple_of(ALIGN) && bytes <= rest.len();
        if !fits {
            return Err(format!("the record at byte {at} has {bytes} bytes, for a name of {name} in {}", rest.len()));
        }
        Ok(DirRecord { at, bytes, ino: word(head, 0), kind: head[11], name: &rest[HEAD..HEAD + name] })
    }
}

impl<'a> Iterator for DirRecords<'a> {
    type Item = Result<DirRecord<'a>, String>;

    fn next(&mut self) -> Option<Result<DirRecord<'a>, String>> {
        if self.at >= self.block.len() {
            return None;
        }
        let read = self.read();
        self.at = read.as_ref().map_or(self.block.len(), |record| record.at + record.bytes);
        Some(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_and_go_as_in_a_plain_map() {
        let mut rng = esker_base::Stream::named(1, "records");
        let (mut block, mut model) = (empty_block(1024), std::collections::BTreeMap::new());
        for round in 0..20_000_u64 {
            let name = format!("{:0width$}", rng.below(60), width = 2 + rng.below(50) as usize);
            let name = Name::new(name.as_bytes()).unwrap();
            if let Some(at) = model.remove(name.bytes()) {
                remove_record(&mut block, at).unwrap();
            } else {
                let room = DirRecords::new(&block).map(|record| record.unwrap().room()).max().unwrap();
                let added = add_record(&mut block, name, 100 + round, FileType::File).unwrap();
                assert_eq!(added.is_some(), room >= record_bytes(name.bytes().len()));
                model.extend(added.map(|at| (name.bytes().to_vec(), at)));
            }
            let read = DirRecords::new(&block).map(Result::unwrap).filter(|record| record.ino != 0);
            let read: std::collections::BTreeMap<_, _> = read.map(|record| (record.name.to_vec(), record.at)).collect();
            assert_eq!(read, model, "round {round}");
        }
        assert!(remove_record(&mut block, 1016).is_err());
    }

    #[test]
    fn records_fill_a_block_and_wrong_ones_end_it() {
        let mut block = vec![0; 1024];
        let first = DirRecord { at: 0, bytes: 16, ino: 2, kind: 2, name: b"." };
        let last = DirRecord { at: 16, bytes: 1008, ino: 11, kind: 1, name: b"abc" };
        first.write(&mut block);
        last.write(&mut block);
        assert_eq!(DirRecords::new(&block).collect::<Result<Vec<_>, _>>().unwrap(), [first, last]);
        for (at, value) in [(24, 0), (24, 1), (25, 0xff)] {
            let mut wrong = block.clone();
            wrong[at] = value;
            let read: Vec<_> = DirRecords::new(&wrong).collect();
            assert!(read.last().unwrap().is_err(), "{at} {value}: {read:?}");
        }
        assert!(DirRecords::new(&block[..20]).nth(1).unwrap().is_err(), "no room for a header");
    }
}
