//! DD (deduplication): equal blocks are stored once; a write of what is there already becomes a change of the map
//! alone.
//!
//! Each block of the volume leads to a data block. Data block 0 holds zeroes, and every block of a new volume leads
//! there. Map and fingerprints lie behind the data, and are durable when a flush or a forced write is answered; a data
//! block that no map entry leads to is reused only then. Changes and flushes go one after the other.

pub mod able;
pub mod vanilla;

use std::collections::BTreeMap;

use esker_base::ByteRange;
use esker_block::{BioError, Buf, Kind, KindError, Limits, Make, OpKind, OpSet, Role, Support};
use esker_rt::mem::Pool;

/// Bytes of a block.
const UNIT: u64 = 4096;
/// Bytes behind the data.
const AREA: u64 = 256 << 10;
/// Data blocks beyond those of the volume: the one of zeroes, and room to write before an old one is free.
const SPARE: u64 = 8;
/// Blocks of a volume, at most: so many have room in the area, twice.
const BLOCKS_MAX: u64 = 4096;
/// The data block of zeroes.
const ZEROES: u32 = 0;

const PASSES: OpSet = OpSet::of(&[OpKind::Read, OpKind::Write, OpKind::Flush, OpKind::Zero, OpKind::Discard]);

/// What bytes hash to.
type Fingerprint = [u8; 16];

/// What both manifests have in common.
const fn manifest(kind: Kind) -> Kind {
    Kind { passes: PASSES, role: Role::Modifier, needs_bytes: true, transparent: false, ..kind }
}

/// The limits of the volume.
fn limits(make: &Make<'_>) -> Result<Limits, KindError> {
    let lower = &make.lowers[0];
    let blocks = (lower.size.saturating_sub(AREA) / UNIT).saturating_sub(SPARE).min(BLOCKS_MAX);
    if blocks == 0 || u64::from(lower.block) > UNIT {
        let what = format!("deduplication needs {AREA} bytes beside the data and blocks of at most {UNIT}");
        return Err(KindError::Unfit(format!("{}: {what}", make.name)));
    }
    let unit = UNIT as u32;
    let limits = Limits {
        size: blocks * UNIT,
        block: unit,
        remap: unit,
        atomic: unit,
        transfer_max: lower.transfer_max / unit * unit,
        volatile_cache: true,
        ranges_max: 0,
        described: false,
        ..lower.clone()
    };
    Ok(limits
        .with(OpKind::Zero, Support::Native)
        .with(OpKind::Discard, Support::Native)
        .with(OpKind::Extents, Support::No))
}

/// The blocks of a range; none for a flush.
fn blocks(range: ByteRange) -> std::ops::Range<u64> {
    range.start() / UNIT..range.end() / UNIT
}

fn zeroes() -> Buf {
    Buf::from_bytes(&Pool::new(0), &[0; UNIT as usize])
}

fn fingerprint(bytes: &Buf) -> Fingerprint {
    let mut hasher = blake3::Hasher::new();
    bytes.for_each_piece(&mut |piece| {
        hasher.update(piece);
    });
    hasher.finalize().as_bytes()[..16].try_into().expect("16 of 32 bytes")
}

fn full() -> BioError {
    BioError::NoSpace("the lower device".into())
}

/// Where each block of the volume leads, and what each data block holds, in memory.
struct Table {
    /// By block of the volume.
    map: Vec<u32>,
    /// By data block.
    fingerprints: Vec<Fingerprint>,
    /// By data block: how many lead there.
    references: Vec<u32>,
    index: BTreeMap<Fingerprint, u32>,
    /// Data blocks that may be taken, and those that may be when the map is durable.
    free: Vec<u32>,
    resting: Vec<u32>,
}

impl Table {
    /// Bytes of the table of a volume.
    fn len(size: u64) -> u64 {
        let blocks = size / UNIT;
        4 * blocks + 16 * (blocks + SPARE)
    }

    /// From the bytes of a volume of `size` bytes; zeroes are a new one.
    fn decode(bytes: &[u8], size: u64) -> Result<Table, BioError> {
        let blocks = (size / UNIT) as usize;
        let (map, fingerprints) = bytes.split_at(4 * blocks);
        let map = map.as_chunks().0.iter().map(|entry| u32::from_le_bytes(*entry)).collect();
        let mut table = Table {
            map,
            fingerprints: fingerprints.as_chunks().0.to_vec(),
            references: vec![0; blocks + SPARE as usize],
            index: BTreeMap::new(),
            free: Vec::new(),
            resting: Vec::new(),
        };
        for block in &table.map {
            *table.references.get_mut(*block as usize).ok_or(BioError::Corrupt(size))? += 1;
        }
        table.fingerprints[ZEROES as usize] = fingerprint(&Buf::described(UNIT as usize, 0));
        table.references[ZEROES as usize] += 1;
        for (block, references) in (0..).zip(&table.references) {
            match references {
                0 => table.free.push(block),
                _ => drop(table.index.insert(table.fingerprints[block as usize], block)),
            }
        }
        Ok(table)
    }

    fn encode(&self) -> Vec<u8> {
        let map = self.map.iter().flat_map(|block| block.to_le_bytes());
        map.chain(self.fingerprints.iter().copied().flatten()).collect()
    }

    /// The bytes of the table that say where a block of the volume leads, and what is there, each with its place.
    fn entries(&self, logical: u64) -> [(u64, Vec<u8>); 2] {
        let block = self.map[logical as usize];
        let at = 4 * self.map.len() as u64 + 16 * u64::from(block);
        [(4 * logical, block.to_le_bytes().to_vec()), (at, self.fingerprints[block as usize].to_vec())]
    }

    /// The first byte below of a block of the volume.
    fn place(&self, logical: u64) -> u64 {
        u64::from(self.map[logical as usize]) * UNIT
    }

    /// The data block with this content.
    fn find(&self, fingerprint: &Fingerprint) -> Option<u32> {
        self.index.get(fingerprint).copied()
    }

    fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    /// A data block that may be written.
    fn take(&mut self) -> Option<u32> {
        self.free.pop()
    }

    /// Leads a block of the volume to a data block that holds bytes with this fingerprint.
    fn redirect(&mut self, logical: u64, block: u32, fingerprint: Fingerprint) {
        self.references[block as usize] += 1;
        self.fingerprints[block as usize] = fingerprint;
        self.index.insert(fingerprint, block);
        let before = std::mem::replace(&mut self.map[logical as usize], block);
        self.references[before as usize] -= 1;
        if self.references[before as usize] == 0 {
            self.index.remove(&self.fingerprints[before as usize]);
            self.resting.push(before);
        }
    }

    /// What was changed is durable: no map leads to resting blocks any more.
    fn rested(&mut self) {
        self.free.append(&mut self.resting);
    }

    fn used(&self) -> usize {
        self.references.iter().filter(|references| **references > 0).count() - 1
    }
}
