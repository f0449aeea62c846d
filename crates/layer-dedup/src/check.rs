//! Whether a volume out of use is sound: checksums, the journal, references against the map, the free map, the
//! index, and if wanted the bytes of every data block against their fingerprint.
//!
//! It needs four bytes of memory for each data block, and the journal.

use std::collections::BTreeMap;
use std::fmt;
use std::io;

use esker_block::{Fact, Media, MediaCheck, MediaVerdict, ReadMedium};
use esker_framing::cell::{CELL, PAYLOAD, is_sound};
use esker_framing::{Superblock as _, SuperblockError};

use crate::index;
use crate::journal::{self, Fingerprint, JournalError, Record};
use crate::layout::{Layout, SUPERBLOCKS, Spot};
use crate::store::Entry;
use crate::superblock::Superblock;

/// How `dedup` checks its medium.
pub const MEDIA: MediaCheck = MediaCheck {
    holds: "dedup",
    media: "deduplicated volumes",
    formats: &[Superblock::FORMAT],
    is_set: false,
    is_marked,
    check: check_media,
};

/// Findings that are kept; all are counted.
const FINDINGS_MAX: usize = 100;

/// What was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// Where everything lies.
    pub layout: Layout,
    /// Records in the journal.
    pub records: usize,
    /// Blocks of the volume that have a data block.
    pub mapped: u64,
    /// Data blocks in use.
    pub used: u64,
    /// Data blocks in use that the index does not know: later duplicates of them take space.
    pub unindexed: u64,
    /// The first findings.
    pub findings: Vec<Finding>,
    /// How many there are.
    pub wrong: u64,
}

/// Something that is wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Finding {
    /// The cell at this byte has a wrong checksum.
    Cell(u64),
    /// The map leads this block of the volume to a data block that is not there.
    Astray(u32),
    /// This data block has so many references, and its entry says another number.
    References(u32, u32, u32),
    /// The free map is wrong about this data block.
    Free(u32),
    /// The bytes of this data block are not those of its fingerprint.
    Bytes(u32),
    /// The superblock counts blocks of the volume, or data blocks, otherwise.
    Counts(u64, u64),
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finding::Cell(at) => write!(f, "the cell at byte {at} has a wrong checksum"),
            Finding::Astray(logical) => write!(f, "block {logical} of the volume leads to no data block"),
            Finding::References(block, is, says) => {
                write!(f, "data block {block} has {is} references, its entry says {says}")
            }
            Finding::Free(block) => write!(f, "the free map is wrong about data block {block}"),
            Finding::Bytes(block) => write!(f, "the bytes of data block {block} are not those of its fingerprint"),
            Finding::Counts(mapped, used) => {
                write!(f, "the superblock says that {mapped} blocks have {used} data blocks")
            }
        }
    }
}

/// Why a volume cannot be checked.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// There is none.
    #[error("the lower device {0}")]
    Superblock(#[from] SuperblockError),
    /// Its journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// It cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(#[from] io::Error),
}

/// Reads bytes of the lower device from this offset on.
pub type Read<'a> = &'a mut dyn FnMut(u64, &mut [u8]) -> io::Result<()>;

/// Checks a volume; with `bytes`, all of its data as well.
///
/// # Errors
/// [`CheckError`]; what is wrong with a volume that can be read is in the [`Verdict`].
pub fn check(read: Read<'_>, bytes: bool) -> Result<Verdict, CheckError> {
    let mut superblocks = vec![0; SUPERBLOCKS as usize];
    read(0, &mut superblocks)?;
    let superblock = Superblock::newest(&superblocks)?;
    // A number beyond the medium reserves no memory.
    read(superblock.layout.end() - CELL as u64, &mut [0; CELL])?;
    let mut journal = vec![0; superblock.layout.journal as usize];
    read(SUPERBLOCKS, &mut journal)?;
    let records = journal::replay(superblock.set, superblock.epoch, &superblock.layout, &journal)?;
    let mut checker = Checker::new(read, &superblock, &records);
    let references = checker.references()?;
    checker.blocks(&references, bytes)?;
    checker.verdict.records = records.len();
    checker.counts(&superblock, &records);
    Ok(checker.verdict)
}

struct Checker<'a> {
    read: Read<'a>,
    set: u128,
    layout: Layout,
    /// What the journal says of the map and of entries.
    map: BTreeMap<u32, Option<u32>>,
    entries: BTreeMap<u32, (u32, Option<Fingerprint>)>,
    /// The cell that was read last, and its page and number.
    cell: (Option<(u32, usize)>, [u8; CELL]),
    verdict: Verdict,
}

impl<'a> Checker<'a> {
    fn new(read: Read<'a>, superblock: &Superblock, records: &[Record]) -> Checker<'a> {
        let (mut map, mut entries) = (BTreeMap::new(), BTreeMap::new());
        for record in records {
            map.insert(record.logical, record.taken.map(|taken| taken.block));
            if let Some(left) = record.left {
                let known = entries.get(&left.block).and_then(|(_, fingerprint)| *fingerprint);
                entries.insert(left.block, (left.refs, known));
            }
            if let Some(taken) = record.taken {
                entries.insert(taken.block, (taken.refs, Some(taken.fingerprint)));
            }
        }
        let layout = superblock.layout;
        let verdict = Verdict { layout, records: 0, mapped: 0, used: 0, unindexed: 0, findings: Vec::new(), wrong: 0 };
        Checker { read, set: superblock.set, layout, map, entries, cell: (None, [0; CELL]), verdict }
    }

    fn find(&mut self, finding: Finding) {
        self.verdict.wrong += 1;
        if self.verdict.findings.len() < FINDINGS_MAX && !self.verdict.findings.contains(&finding) {
            self.verdict.findings.push(finding);
        }
    }

    /// The payload of a cell; a damaged one is a finding and counts as empty.
    fn payload(&mut self, spot: Spot) -> io::Result<&[u8]> {
        let at = self.layout.page_at(spot.page) + (spot.cell * CELL) as u64;
        if self.cell.0 != Some((spot.page, spot.cell)) {
            (self.read)(at, &mut self.cell.1)?;
            self.cell.0 = Some((spot.page, spot.cell));
            if !is_sound(self.set, at, &self.cell.1) {
                self.cell.1.fill(0);
                // A bucket that is lost is no error: see `unindexed`.
                if !self.layout.is_index(spot.page) {
                    self.find(Finding::Cell(at));
                }
            }
        }
        Ok(&self.cell.1[..PAYLOAD])
    }

    fn get<const N: usize>(&mut self, spot: Spot) -> io::Result<[u8; N]> {
        let payload = self.payload(spot)?;
        Ok(payload[spot.at..spot.at + N].try_into().expect("as many bytes"))
    }

    /// How many blocks of the volume lead to each data block.
    fn references(&mut self) -> io::Result<Vec<u32>> {
        let mut references = vec![0u32; self.layout.physical as usize];
        for logical in 0..self.layout.logical {
            let stored: [u8; 4] = self.get(self.layout.map(logical))?;
            let block = self.map.get(&logical).copied();
            let Some(block) = block.unwrap_or_else(|| u32::from_le_bytes(stored).checked_sub(1)) else { continue };
            self.verdict.mapped += 1;
            match references.get_mut(block as usize) {
                Some(count) => *count += 1,
                None => self.find(Finding::Astray(logical)),
            }
        }
        Ok(references)
    }

    fn blocks(&mut self, references: &[u32], bytes: bool) -> io::Result<()> {
        for block in 0..self.layout.physical {
            let mut entry = Entry::decode(&self.get(self.layout.entry(block))?);
            let replayed = self.entries.get(&block).copied();
            if let Some((refs, fingerprint)) = replayed {
                entry = Entry { refs, fingerprint: fingerprint.unwrap_or(entry.fingerprint) };
            }
            let is = references[block as usize];
            if entry.refs != is {
                self.find(Finding::References(block, is, entry.refs));
            }
            let (spot, bit) = self.layout.bit(block);
            let [byte] = self.get(spot)?;
            // The journal says of blocks in its records whether they are free; the free map may be older.
            if replayed.is_none() && (byte & bit != 0) != (entry.refs > 0) {
                self.find(Finding::Free(block));
            }
            if entry.refs > 0 {
                self.verdict.used += 1;
                self.used(block, &entry, replayed.is_some(), bytes)?;
            }
        }
        Ok(())
    }

    fn used(&mut self, block: u32, entry: &Entry, is_replayed: bool, bytes: bool) -> io::Result<()> {
        let bucket = self.payload(self.layout.bucket(&entry.fingerprint))?;
        let is_indexed = index::find(bucket, index::tag(&entry.fingerprint), block).is_some();
        self.verdict.unindexed += u64::from(!is_indexed && !is_replayed);
        if bytes {
            let mut data = vec![0; self.layout.block as usize];
            (self.read)(self.layout.block_at(block), &mut data)?;
            if *blake3::hash(&data).as_bytes() != entry.fingerprint {
                self.find(Finding::Bytes(block));
            }
        }
        Ok(())
    }

    fn counts(&mut self, superblock: &Superblock, records: &[Record]) {
        let (mut mapped, mut used) = (superblock.mapped as i64, i64::from(superblock.used));
        for record in records {
            mapped += i64::from(record.taken.is_some()) - i64::from(record.left.is_some());
            used += i64::from(record.taken.is_some_and(|taken| taken.refs == 1));
            used -= i64::from(record.left.is_some_and(|left| left.refs == 0));
        }
        if (mapped, used) != (self.verdict.mapped as i64, self.verdict.used as i64) {
            self.find(Finding::Counts(mapped as u64, used as u64));
        }
    }
}

fn is_marked(medium: &dyn ReadMedium) -> io::Result<bool> {
    let mut slots = vec![0; SUPERBLOCKS as usize];
    medium.read_at(0, &mut slots)?;
    Ok(!Superblock::newest(&slots).is_err_and(|error| error.is_unmarked()))
}

fn check_media(media: Media<'_>) -> Result<MediaVerdict, Box<dyn std::error::Error>> {
    let found = check(&mut |at, out| media[0].read_at(at, out), true)?;
    let end = match found.findings.first() {
        Some(first) => format!("{} things WRONG, the first of them: {first}", found.wrong),
        None => "sound".to_string(),
    };
    let text = format!(
        "deduplicated volume: {} blocks in {} data blocks, {} records in the journal; {end}",
        found.mapped, found.used, found.records,
    );
    let facts = vec![
        ("mapped_blocks", found.mapped.into()),
        ("data_blocks", found.used.into()),
        ("unindexed_blocks", found.unindexed.into()),
        ("records", (found.records as u64).into()),
        ("wrong", found.wrong.into()),
        ("findings", Fact::Texts(found.findings.iter().map(ToString::to_string).collect())),
    ];
    Ok(MediaVerdict { is_sound: found.wrong == 0, text, facts })
}
