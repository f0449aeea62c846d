//! Batches: the records of several requests in as few blocks as they fit in, and the data of the writes among them
//! behind. Data of another class than most lies apart, in the segment of its own head of the log; a record says where.

use super::{checksum, get, get_u16, get_u32, put};
use crate::map::LOGICAL_BLOCKS;

/// Bytes of a batch's head.
pub const BATCH_HEAD: usize = 32;
/// Bytes of a record.
pub const RECORD: usize = 24;

const MAGIC: u64 = u16::from_le_bytes(*b"Eb") as u64;

/// One change of the map, in 24 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Record {
    /// The next `len` blocks of data of run `run` are those of `lba` and its successors.
    Write {
        /// First logical block.
        lba: u64,
        /// Blocks.
        len: u32,
        /// Checksum of the data.
        sum: u32,
        /// Where the data lies: 0 behind the batch's records, else in the run that this [`Record::Apart`] of the batch
        /// names.
        run: u8,
    },
    /// `dst` maps to what `src` maps to.
    Clone {
        /// First logical block.
        src: u64,
        /// First logical block of the destination.
        dst: u64,
        /// Blocks.
        len: u64,
    },
    /// As `Clone`, and `src` is unmapped.
    Move {
        /// First logical block.
        src: u64,
        /// First logical block of the destination.
        dst: u64,
        /// Blocks.
        len: u64,
    },
    /// A range is unmapped.
    Delete {
        /// First logical block.
        lba: u64,
        /// Blocks.
        len: u64,
    },
    /// Changes nothing: data of writes of this batch lies in another head of the log.
    Apart {
        /// The head: a number of `esker_cleaning::Class`.
        class: u8,
        /// First physical block.
        pba: u64,
        /// Blocks.
        len: u64,
    },
}

/// Where the data of a batch's records lies, in the order of the records.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Runs(Vec<u64>);

impl Runs {
    /// Runs that begin at these physical blocks: the one behind the records, then those apart.
    pub fn at(starts: Vec<u64>) -> Runs {
        Runs(starts)
    }

    /// First physical block of the next record's data; 0 if it has none.
    ///
    /// # Panics
    /// If the record names a run that there is not: decoding refuses such batches.
    pub fn next(&mut self, record: &Record) -> u64 {
        let Record::Write { len, run, .. } = record else { return 0 };
        let next = &mut self.0[usize::from(*run)];
        *next += u64::from(*len);
        *next - u64::from(*len)
    }
}

/// A batch's records and what its head says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Batch {
    /// The opening of the volume in which it was written.
    pub epoch: u64,
    /// Number of its first record; the others count on.
    pub seq: u64,
    /// All records before this number were durable when it was written.
    pub durable: u64,
    /// The records: all of them hold, or none.
    pub records: Vec<Record>,
}

/// Why there is no batch.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BatchError {
    /// Nothing that this opening of the volume wrote: the end of the log, or of its part in a segment.
    #[error("no batch")]
    None,
    /// More bytes are needed: this many in all.
    #[error("{0} bytes are needed")]
    Short(usize),
    /// A record that no esker of this version writes, under a right checksum.
    #[error("record {0} of the batch has {1}; a newer esker may know it")]
    Unknown(usize, &'static str),
}

/// Records that fit in the first block of a batch.
pub fn records_per(block: usize) -> usize {
    (block - BATCH_HEAD) / RECORD
}

impl Record {
    /// Blocks of data that belong to it.
    pub fn data(&self) -> u64 {
        if let Record::Write { len, .. } = self { u64::from(*len) } else { 0 }
    }

    /// Those of them that lie in a run.
    fn data_in(&self, wanted: u8) -> u64 {
        if let Record::Write { len, run, .. } = self
            && *run == wanted
        {
            u64::from(*len)
        } else {
            0
        }
    }

    fn encode(&self, out: &mut [u8]) {
        let spans = |out: &mut [u8], kind, len, src, dst| {
            put(out, 0, 1, kind);
            put(out, 2, 6, len);
            put(out, 8, 6, src);
            put(out, 14, 6, dst);
        };
        match *self {
            Record::Write { lba, len, sum, run } => {
                put(out, 0, 1, 1);
                put(out, 1, 1, u64::from(run));
                put(out, 4, 6, lba);
                put(out, 12, 4, u64::from(len));
                put(out, 16, 4, u64::from(sum));
            }
            Record::Clone { src, dst, len } => spans(out, 2, len, src, dst),
            Record::Move { src, dst, len } => spans(out, 3, len, src, dst),
            Record::Delete { lba, len } => spans(out, 4, len, lba, 0),
            Record::Apart { class, pba, len } => {
                spans(out, 5, len, pba, 0);
                put(out, 1, 1, u64::from(class));
            }
        }
    }

    fn decode(bytes: &[u8]) -> Result<Record, &'static str> {
        let number = |at, len| get(bytes, at, len);
        let (kind, group) = (bytes[0], number(20, 4));
        let inside = |lba: u64, len: u64| match len > 0 && lba + len <= LOGICAL_BLOCKS {
            true => Ok(()),
            false => Err("a range outside of the volume"),
        };
        let has_flags = bytes[1] != 0 && !matches!(kind, 1 | 5);
        if has_flags || group != 0 {
            return Err("flags or a group");
        }
        let (len, src, dst) = (number(2, 6), number(8, 6), number(14, 6));
        match kind {
            1 => {
                let (lba, len) = (number(4, 6), get_u32(bytes, 12));
                inside(lba, u64::from(len))?;
                match number(2, 2) == 0 && number(10, 2) == 0 {
                    true => Ok(Record::Write { lba, len, sum: get_u32(bytes, 16), run: bytes[1] }),
                    false => Err("a key"),
                }
            }
            2 | 3 => {
                inside(src, len)?;
                inside(dst, len)?;
                if src < dst + len && dst < src + len {
                    return Err("a source and a destination that overlap");
                }
                Ok(if kind == 2 { Record::Clone { src, dst, len } } else { Record::Move { src, dst, len } })
            }
            4 => {
                inside(src, len).and(if dst == 0 { Ok(Record::Delete { lba: src, len }) } else { Err("a destination") })
            }
            5 => match len > 0 && dst == 0 {
                true => Ok(Record::Apart { class: bytes[1], pba: src, len }),
                false => Err("no data apart"),
            },
            _ => Err("a kind that is not known"),
        }
    }
}

impl Batch {
    /// Bytes of its head and records, which are whole blocks.
    pub fn head_bytes(records: usize, block: usize) -> usize {
        (BATCH_HEAD + RECORD * records).next_multiple_of(block)
    }

    /// Writes head and records into `out`, which has [`Batch::head_bytes`].
    pub fn encode(&self, out: &mut [u8]) {
        out.fill(0);
        put(out, 0, 2, MAGIC);
        put(out, 8, 8, self.seq);
        put(out, 16, 8, self.epoch);
        put(out, 24, 4, (self.seq - self.durable).min(u64::from(u32::MAX)));
        put(out, 28, 2, self.records.len() as u64);
        for (record, place) in self.records.iter().zip(out[BATCH_HEAD..].chunks_exact_mut(RECORD)) {
            record.encode(place);
        }
        let sum = checksum(out, 4);
        put(out, 4, 4, u64::from(sum));
    }

    /// Reads head and records of the batch that this epoch wrote at the front of `bytes`, which are whole blocks.
    ///
    /// # Errors
    /// [`BatchError`].
    pub fn decode(bytes: &[u8], block: usize, epoch: u64) -> Result<Batch, BatchError> {
        if bytes.len() < block {
            return Err(BatchError::Short(block));
        }
        let count = usize::from(get_u16(bytes, 28));
        if get(bytes, 0, 2) != MAGIC || get(bytes, 16, 8) != epoch || count == 0 {
            return Err(BatchError::None);
        }
        let len = Batch::head_bytes(count, block);
        let Some(used) = bytes.get(..len) else { return Err(BatchError::Short(len)) };
        if get(used, 4, 4) != u64::from(checksum(used, 4)) {
            return Err(BatchError::None);
        }
        let seq = get(used, 8, 8);
        if used[2] != 0 || used[3] != 0 {
            return Err(BatchError::Unknown(0, "another kind of batch around it"));
        }
        let records = used[BATCH_HEAD..].chunks_exact(RECORD).take(count).enumerate();
        let records = records.map(|(i, bytes)| Record::decode(bytes).map_err(|what| BatchError::Unknown(i, what)));
        let records = records.collect::<Result<Vec<_>, _>>()?;
        let batch = Batch { epoch, seq, durable: seq.saturating_sub(get(used, 24, 4)), records };
        batch.check_runs().map_err(|what| BatchError::Unknown(0, what))?;
        Ok(batch)
    }

    /// Each run is as long as the data in it, and all data lies in one.
    fn check_runs(&self) -> Result<(), &'static str> {
        let mut runs = 0;
        for (number, (_, _, len)) in (1u8..).zip(self.apart()) {
            let data: u64 = self.records.iter().map(|record| record.data_in(number)).sum();
            if data != len {
                return Err("a run of another length than its data");
            }
            runs = number;
        }
        let is_named = |record: &Record| !matches!(record, Record::Write { run, .. } if *run > runs);
        if self.records.iter().all(is_named) { Ok(()) } else { Err("data in a run that is not named") }
    }

    /// Blocks of data behind the records.
    pub fn data(&self) -> u64 {
        self.records.iter().map(|record| record.data_in(0)).sum()
    }

    /// Data that lies apart: the class of its head, its first physical block, its blocks.
    pub fn apart(&self) -> impl Iterator<Item = (u8, u64, u64)> {
        self.records.iter().filter_map(|record| match *record {
            Record::Apart { class, pba, len } => Some((class, pba, len)),
            Record::Write { .. } | Record::Clone { .. } | Record::Move { .. } | Record::Delete { .. } => None,
        })
    }
}
